"""Where a network differs from its torch reference, call by call: the last that agrees and the first that differs."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from ..core.dtypes import dtype_name
from ..core.errors import Location
from ..core.lazy import torch
from ..definition.network import Network
from ..definition.spec.reference import call_reference
from ..definition.spec.spec import NetworkSpec
from ..definition.weights import Source
from ..interpreter.feeds import make_feeds
from ..interpreter.interpret import Interpreter
from ..layers.evaluation import Node
from .coverage import author_of_reference
from .mutation.sameness import nodes_of
from .report import CheckReport

# How far a tensor may be from torch's own, as a part of its greatest element, beside torch's own error there.
FLOORS = {"float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3}
SAMPLES = 64  # elements compared before all of them are
OWN = 8.0  # times torch's own error


@dataclass(frozen=True)
class Place:
    """A call: its name and where it stands."""

    name: str
    location: Location | None

    def __str__(self) -> str:
        return f"{self.name} at {self.location}" if self.location else self.name


@dataclass(frozen=True)
class CallDifference:
    """The first call that differs, in torch and in the network; None where one of them has no such call."""

    torch: Place | None
    network: Place | None
    last_torch: Place | None
    """The call before it, whose result both have."""
    last_network: Place | None
    error: float | None = None
    """The greatest difference of the results as a part of the greatest element, where they have one shape."""

    def __str__(self) -> str:
        def pair(network: Place | None, reference: Place | None) -> str:
            return f"{network or 'nothing in the network'} (torch: {reference or 'nothing'})"

        amount = f", off by {self.error:.2g} of its scale" if self.error is not None else ""
        last = ""
        if self.last_network or self.last_torch:
            last = f"; the last that agrees is {pair(self.last_network, self.last_torch)}"
        return f"{pair(self.network, self.torch)}{amount}{last}"


@dataclass(frozen=True)
class CallReport:
    """What :func:`compare_calls` found."""

    agreed: int
    """Calls of torch whose result the network has."""
    absent: int
    """Calls whose result the network has not, and need not: those after them agree."""
    difference: CallDifference | None = None

    @property
    def passed(self) -> bool:
        """Whether nothing differs."""
        return self.difference is None

    def to_json(self) -> dict[str, Any]:
        """Everything as a JSON object."""
        return asdict(self)


def compare_calls(
    network: Network, feeds: Mapping[str, torch.Tensor], reference: torch.nn.Module, *, equal: bool = False
) -> CallReport:
    """Runs a network and its reference on the same feeds and says at which call they first differ.

    A call of torch's, as the author of the reference wrote it, agrees where the network has a tensor of its values,
    perhaps laid out otherwise. Results that only one side has, because it fuses or splits a call, do not count as
    different where something that depends on them agrees. The first call that differs is the first one whose operands
    are right and whose result is used by nothing that agrees. Where the outputs are known to be ``equal``, nothing
    differs: a result that the network does not have is one that it need not have.

    >>> class Scores(torch.nn.Module):
    ...     def forward(self, x):
    ...         return torch.softmax(x * 2, 1) + 1
    >>> net = td.Network()
    >>> net.output(F.softmax(net.input("x", (3, 3)) * 2, 0) + 1, "y")
    >>> found = compare_calls(net, {"x": torch.tensor([[1.0, 2.0, 0.0]] * 3)}, Scores()).difference
    >>> found.torch.name, found.network.name, found.last_torch.name
    ('softmax', 'softmax', 'mul')
    """
    calls = _recorded(reference, feeds, network.precision)
    made = _Made(network, feeds, calls)
    right = _right_calls(calls)
    wrong = [call for call in calls if call not in right and _operands_right(call, right)]
    frontier = made.frontier()
    if equal or (not wrong and not frontier):
        agreed = sum(call.found is not None for call in calls)
        return CallReport(agreed, len(calls) - agreed)
    call, node = _paired(wrong, frontier)
    before = (
        max((other for other in call.operands if other.found), key=lambda x: x.number, default=None) if call else None
    )
    if before is None:
        limit = call.number if call else len(calls)
        before = next((other for other in reversed(calls[:limit]) if other.found is not None), None)
    last = None if before is None or before.found is None else made.place(before.found)
    difference = CallDifference(
        call and call.place,
        None if node is None else made.place(node.makes[0]),
        before and before.place,
        last,
        made.error(node, call) if call is not None and node is not None else None,
    )
    agreed = sum(other.found is not None for other in calls)
    return CallReport(agreed, sum(other in right and other.found is None for other in calls), difference)


def locate_call(spec: NetworkSpec, network: Network, report: CheckReport, weights: Source | None = None) -> CallReport:
    """:func:`compare_calls` at the first sizes where a check failed, or at the first of all, on the check's feeds.

    Where all outputs passed, nothing differs.
    """
    case = next((case for case in report.cases if not case.passed), report.cases[0])
    feeds = make_feeds(spec.inputs, network, case.dims, torch.Generator().manual_seed(report.seed))
    equal = all(case.passed for case in report.cases)
    return compare_calls(network, feeds, spec.reference_module(spec.open_weights(weights)), equal=equal)


# -- the reference -----------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Call:
    """One call of torch's that gave a tensor."""

    number: int
    place: Place
    value: torch.Tensor
    operands: list[_Call]
    varies: bool
    """Whether it depends on what is fed."""
    error: float = 0.0
    """Torch's own error, against float64."""
    moves: bool = False
    """Whether its values are an operand's in another order: then the order is what matters."""
    users: list[_Call] = field(default_factory=list)
    greatest: float = 0.0
    total: float = 0.0
    found: str | None = None
    """The network's tensor with its values."""


def _recorded(
    reference: torch.nn.Module, feeds: Mapping[str, torch.Tensor], precision: torch.dtype | None
) -> list[_Call]:
    """The calls of the reference, with torch's own error where it runs in float64 too."""
    calls = _run(reference, feeds, precision)
    wide = {name: feed.double() if feed.dtype.is_floating_point else feed for name, feed in feeds.items()}
    with suppress(Exception):  # not every reference runs in float64
        true = _run(copy.deepcopy(reference).double(), wide, None)
        if [call.place for call in true] == [call.place for call in calls]:
            for call, other in zip(calls, true, strict=True):
                if call.value.is_floating_point() and call.value.numel():
                    call.error = float((call.value.double() - other.value.double()).abs().nan_to_num().max())
    return calls


def _run(reference: torch.nn.Module, feeds: Mapping[str, torch.Tensor], precision: torch.dtype | None) -> list[_Call]:
    from torch.overrides import TorchFunctionMode

    calls: list[_Call] = []
    makers: dict[int, _Call] = {}
    alive: list[Any] = []  # so that no identity is used twice

    class Record(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            before = list(_tensors((args, kwargs)))
            versions = {id(x): x._version for x in before if not x.is_inference()}
            result = function(*args, **(kwargs or {}))
            # What gives its operand as it is, such as a cast to the dtype that it has, is no call.
            tensors = [x for x in _tensors(result) if id(x) not in versions or versions[id(x)] != x._version]
            if tensors:
                given = list(dict.fromkeys(makers[id(x)] for x in before if id(x) in makers))
                varies = any(call.varies for call in given) or any(id(x) in inputs for x in before)
                name = getattr(function, "__name__", str(function)).strip("_")
                for tensor in tensors:
                    call = _Call(len(calls), Place(name, author_of_reference()), tensor.detach().clone(), given, varies)
                    call.moves = any(_reordered(call.value, x) for x in before if x is not tensor)
                    if call.value.is_floating_point():
                        finite = torch.where(torch.isfinite(call.value), call.value, 0.0)
                        call.greatest = float(finite.abs().max()) if finite.numel() else 0.0
                        call.total = float(call.value.sum(dtype=torch.float64))
                    for operand in call.operands:
                        operand.users.append(call)
                    makers[id(tensor)] = call
                    calls.append(call)
                    alive.append(tensor)
            return result

    fed = {name: feed.clone() for name, feed in feeds.items()}
    inputs = {id(feed) for feed in fed.values()}
    with torch.no_grad(), torch.autocast("cpu", precision, enabled=precision is not None), Record():
        call_reference(reference, fed)
    return calls


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, Mapping):
        for item in tree.values():
            yield from _tensors(item)
    elif isinstance(tree, (list, tuple)):
        for item in tree:
            yield from _tensors(item)


def _right_calls(calls: Sequence[_Call]) -> set[_Call]:
    """The calls whose result the network has, and the calls that these depend on."""
    right: set[_Call] = set()
    for call in reversed(calls):
        if call.found is not None or not call.varies or any(user in right for user in call.users):
            right.add(call)
    return right


def _operands_right(call: _Call, right: set[_Call]) -> bool:
    return all(operand in right for operand in call.operands)


# -- the network -------------------------------------------------------------------------------------------------------


class _Made:
    """The network's tensors, matched to torch's calls."""

    def __init__(self, network: Network, feeds: Mapping[str, torch.Tensor], calls: Sequence[_Call]):
        self.network, self.feeds = network, feeds
        self.interpreter = Interpreter(network)
        self.nodes = [node for step in self.interpreter.steps for node in nodes_of(step.part)]
        self.makers = {name: node for node in self.nodes for name in node.makes}
        self.by_count: dict[int, list[_Call]] = {}
        for call in calls:
            self.by_count.setdefault(call.value.numel(), []).append(call)
        self.found: set[str] = set()
        self.seen: dict[str, int] = {}
        self.interpreter(feeds, observe=self._observe)

    def _observe(self, name: str, value: torch.Tensor) -> None:
        self.seen[name] = self.seen.get(name, 0) + 1
        for call in self.by_count.get(value.numel(), ()):
            if (
                value.numel()
                and value.dtype.is_floating_point == call.value.is_floating_point()
                and _matches(value, call)
            ):
                call.found = call.found or name
                self.found.add(name)

    def frontier(self) -> list[Node]:
        """The layers that differ first: their operands are right, and nothing that agrees depends on them."""
        right: set[str] = set(self.found)
        for node in reversed(self.nodes):
            if not right.isdisjoint(node.makes):
                right.update(node.needs)
        fed = {tensor.name for tensor in self.interpreter.inputs}
        varying = set(fed)
        for node in self.nodes:
            if not varying.isdisjoint(node.needs):
                varying.update(node.makes)
        first: list[Node] = []
        for node in self.nodes:
            wrong = node.makes and varying.intersection(node.makes) and right.isdisjoint(node.makes)
            operands = [name for name in node.needs if name in varying and name not in fed]
            if wrong and all(name in right for name in operands):
                first.append(node)
        return first

    def place(self, tensor: str) -> Place:
        """The author's call that made a tensor."""
        layer = self.interpreter.makers.get(tensor, tensor)
        return Place(_label(layer), self.network.locations.get(layer))

    def error(self, node: Node, call: _Call) -> float | None:
        """How far the layer's result is from torch's."""
        name = self._last_of(node)
        value = self.interpreter(self.feeds, keep=[name])[name]
        if value.shape != call.value.shape or not value.numel():
            return None
        scale = float(call.value.double().abs().max()) or 1.0
        return float((value.double() - call.value.double()).abs().max()) / scale

    def _last_of(self, node: Node) -> str:
        """The last tensor that the same call of the author made."""
        place, last = self.place(node.makes[0]), node.makes[0]
        for other in self.nodes[self.nodes.index(node) :]:
            if other.makes and self.place(other.makes[0]) == place:
                last = other.makes[0]
        return last


def _matches(value: torch.Tensor, call: _Call) -> bool:
    """Whether a tensor has a call's values; in a tensor of another shape they may stand in another order."""
    own = call.value
    if not value.dtype.is_floating_point:
        return value.shape == own.shape and torch.equal(value.long(), own.long())
    working = value.dtype if value.dtype.itemsize < own.dtype.itemsize else own.dtype
    limit = FLOORS.get(dtype_name(working), FLOORS["float32"]) * call.greatest + OWN * call.error
    if value.shape == own.shape:
        few, others = (x.reshape(-1)[:: max(x.numel() // SAMPLES, 1)] for x in (value, own))
        return _is_close(few, others, limit) and _is_close(value, own, limit)
    if call.moves or not abs(float(value.sum(dtype=torch.float64)) - call.total) <= limit * value.numel():
        return False
    return _is_close(value.flatten().sort().values, own.flatten().sort().values, limit)


def _is_close(a: torch.Tensor, b: torch.Tensor, limit: float) -> bool:
    return bool(torch.isclose(a.double(), b.double(), rtol=0.0, atol=limit, equal_nan=True).all())


def _reordered(value: torch.Tensor, operand: torch.Tensor) -> bool:
    """Whether a result has its operand's values and no others."""
    if value.numel() != operand.numel() or value.dtype != operand.dtype:
        return False
    return torch.equal(value.flatten().sort().values, operand.detach().flatten().sort().values)


def _label(layer: str) -> str:
    """The name of the author's call, taken from a layer's name: the last part without its number."""
    name = layer.rpartition(".")[2] if not layer.rpartition(".")[2].isdigit() else layer.split(".")[-2]
    base, _, number = name.rpartition("_")
    return base if number.isdigit() and base else name


def _paired(wrong: Sequence[_Call], frontier: Sequence[Node]) -> tuple[_Call | None, Node | None]:
    """The first call that differs on both sides; calls of the same name are preferred."""
    for node in frontier:
        for call in wrong:
            if _label(node.name) == call.place.name:
                return call, node
    return (wrong[0] if wrong else None), (frontier[0] if frontier else None)
