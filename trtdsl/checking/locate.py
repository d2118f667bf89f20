"""Where a network differs from its torch reference, call by call, and how near each of its tensors is to torch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ..core.dtypes import dtype_name
from ..core.errors import UsageError
from ..core.lazy import torch
from ..core.tensors.watched import by_default
from ..definition.network import Network
from ..definition.spec.spec import NetworkSpec
from ..definition.weights.source import Source
from ..interpreter.interpret import Interpreter
from ..interpreter.reading import closure, depends_on_inputs, working_precision
from ..layers.evaluation import Node
from ..layers.region import nodes_of
from .check import Run
from .judging import limits
from .judging.equality import excess, judge
from .judging.evidence import Rules
from .judging.isolate import Reference
from .judging.recording import Call, Moments, Place
from .report import Case, CheckReport

State = Literal["agrees", "within", "differs", "behind", "unseen"]


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
    module: str = ""
    """The innermost submodule in which torch's call stands."""
    weights: tuple[str, ...] = ()
    """What the network's layer has in its weights: those of a norm, too, that was taken into a product."""

    def __str__(self) -> str:
        def pair(network: Place | None, reference: Place | None, weights: Sequence[str] = ()) -> str:
            made = f" with {', '.join(weights)}" if weights else ""
            return f"{network or 'nothing in the network'}{made} (torch: {reference or 'nothing'})"

        inside = f" in module {self.module!r}" if self.module else ""
        amount = f", off by {self.error:.2g} of its scale" if self.error is not None else ""
        last = ""
        if self.last_network or self.last_torch:
            last = f"; the last that agrees is {pair(self.last_network, self.last_torch)}"
        return f"{pair(self.network, self.torch, self.weights)}{inside}{amount}{last}"


@dataclass(frozen=True)
class CallReport:
    """What :func:`compare_calls` found."""

    agreed: int
    """Calls of torch whose result the network has."""
    absent: int
    """Calls whose result the network has not, and need not: those after them agree."""
    modules: list[str] = field(default_factory=list)
    """Submodules whose output the network has, in the order in which torch ran them."""
    absent_modules: list[str] = field(default_factory=list)
    """Submodules whose output it does not have: fused with what follows, or wrong."""
    difference: CallDifference | None = None

    @property
    def passed(self) -> bool:
        """Whether nothing differs."""
        return self.difference is None

    def to_json(self) -> dict[str, Any]:
        """Everything as a JSON object."""
        return asdict(self)


@dataclass(frozen=True)
class Nearness:
    """What is known of one tensor.

    ``agrees``: it has the values of a call of torch's. ``within``: what it is part of agrees. ``differs``: it is the
    first that does. ``behind``: it is computed from what differs. ``unseen``: nothing tells.
    """

    state: State
    torch: str = ""
    """The call of torch's, with its line."""
    error: float | None = None
    """The greatest difference as a part of the greatest element, where both have one shape."""


@by_default
def compare_calls(network: Network, feeds: Mapping[str, torch.Tensor], reference: torch.nn.Module) -> CallReport:
    """Runs a network and its reference on the same feeds and says at which call they first differ.

    A call of torch's, as the author of the reference wrote it, agrees where the network has a tensor that means the
    same in exact arithmetic, perhaps laid out otherwise. Results that only one side has, because it fuses or splits a
    call, do not count as different where something that depends on them agrees. The first call that differs is the
    first one whose operands are right and whose result is used by nothing that agrees. Where nothing differs in what it
    means, the first call that is computed badly is named.

    >>> class Scores(torch.nn.Module):
    ...     def forward(self, x):
    ...         return torch.softmax(x * 2, 1) + 1
    >>> net = td.Network()
    >>> net.output(F.softmax(net.input("x", (3, 3)) * 2, 0) + 1, "y")
    >>> found = compare_calls(net, {"x": torch.tensor([[1.0, 2.0, 0.0]] * 3)}, Scores()).difference
    >>> found.torch.name, found.network.name, found.last_torch.name
    ('softmax', 'softmax', 'mul')
    """
    running = Reference(lambda: reference, network.precision, network.exact_values(), values=True)
    return Located(network, feeds, running, equal=False).report()


def locate_call(spec: NetworkSpec, network: Network, report: CheckReport, weights: Source | None = None) -> CallReport:
    """:func:`compare_calls` at the first sizes where a check failed, or at the first of all, on the check's feeds.

    Where all outputs passed, nothing differs.
    """
    return located(spec, network, report, weights).report()


def first_case(network: Network, report: CheckReport, label: str) -> Case:
    """The case that failed first, or the first of all. UsageError where no check of the network has it."""
    case = next((case for case in report.cases if not case.passed), next(iter(report.cases), None))
    if case is None or set(case.dims) != set(network.dims):
        raise UsageError(f"{label} has no case for the dimensions of {network.name}")
    if not any(profile.holds(case.dims) for profile in network.profiles) or not 0 <= report.seed < 1 << 63:
        raise UsageError(f"{label} has a case or a seed that no check of {network.name} has")
    return case


@by_default
def located(spec: NetworkSpec, network: Network, report: CheckReport, weights: Source | None = None) -> Located:
    """A network beside its reference where a check failed first, or at the first sizes of all.

    Raises UsageError for a report without a case, or of a network with other dimensions.
    """
    case = first_case(network, report, f"the report of {report.network}")
    run = Run(spec, network, "interpreter", report.seed, Rules(), spec.open_weights(weights))
    reference = run.open_reference(values=True)
    if case.draw == "ties":  # among which is what the reference compares with
        reference(run.feeds(case.dims, "normal"), by="own")
    equal = all(case.passed for case in report.cases)
    return Located(network, run.feeds(case.dims, case.draw), reference, equal=equal)


class Located:
    """The network's tensors matched to the calls of a recorded reference, by their exact values."""

    def __init__(self, network: Network, feeds: Mapping[str, torch.Tensor], reference: Reference, *, equal: bool):
        self.network, self.feeds, self.exact, self.recorded = network, feeds, reference.exact, reference.recording
        reference(feeds)
        self.calls = self.recorded.calls
        self.limit = limits.ROUNDED if self.exact.rounded or network.exact is None else limits.LIMIT
        if reference.not_exact is not None:
            self.limit = limits.FLOORS[dtype_name(network.precision or torch.float32)]
        self.by_count: dict[int, list[Call]] = {}
        for call in self.calls:
            self.by_count.setdefault(call.value.numel(), []).append(call)
        with self.exact:
            self.interpreter = Interpreter(network)
        self.nodes = [node for step in self.interpreter.steps for node in nodes_of(step.part)]
        self.varying, self.working = depends_on_inputs(network, sizes=True), working_precision(network)
        self.matches: dict[str, tuple[Call, float | None]] = {}
        self._match()
        if not (equal or self._wrong() or self._frontier()):  # it means the same, and is computed badly
            self._match(quality=True)
        self.wrong, self.frontier = ([], []) if equal else (self._wrong(), self._frontier())
        self.passed = not self.wrong and not self.frontier

    # -- matching ------------------------------------------------------------------------------------------------------

    def _match(self, *, quality: bool = False) -> None:
        self.matches = {}
        for call in self.calls:
            call.found = None

        def observe(name: str, tensor: torch.Tensor) -> None:
            with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
                value = self.exact.of(tensor) if tensor.is_floating_point() else tensor
                moments = functools.cache(lambda: Moments(value))
                for call in self.by_count.get(tensor.numel(), ()) if tensor.numel() else ():
                    if call.found is not None and name in self.matches:
                        continue  # both have a partner already
                    if self._matches(value, call, moments) and not (quality and self._is_bad(tensor, call)):
                        call.found = call.found or name
                        self.matches.setdefault(name, (call, _distance(tensor, call.value)))

        self._run(observe=observe)

    def _run(self, **how: Any) -> dict[str, torch.Tensor]:
        with self.exact:
            return self.interpreter({name: feed.clone() for name, feed in self.feeds.items()}, **how)

    def _matches(self, value: torch.Tensor, call: Call, moments: Callable[[], Moments]) -> bool:
        """Whether a tensor means what a call does; in one of another shape the elements may stand in another order."""
        own = call.value
        if value.is_floating_point() != own.is_floating_point():
            return False
        if not value.is_floating_point():
            return value.shape == own.shape and torch.equal(value.long(), own.long())
        if not call.moments.agree(moments(), self.limit):
            return False
        if value.shape != own.shape:
            return not call.moves
        return not bool((excess(value, own, self.limit * (own.abs() + call.moments.typical)) > 1).any())

    def _is_bad(self, tensor: torch.Tensor, call: Call) -> bool:
        alike = (tensor.shape, tensor.dtype) == (call.own.shape, call.own.dtype)
        return alike and not judge("", tensor, call.own, call.value, precision=self.working).passed

    # -- what follows of it --------------------------------------------------------------------------------------------

    def _wrong(self) -> list[Call]:
        """The calls whose operands the network has, and not their result."""
        right = self.recorded.right()
        return [call for call in self.calls if call not in right and right.issuperset(call.operands)]

    def _needed(self) -> set[str]:
        """The tensors that agree, and those that these are computed from."""
        return closure([(node.makes, node.needs) for node in self.nodes], set(self.matches))

    def _frontier(self) -> list[Node]:
        """The layers that differ first: their operands are right, and nothing that agrees depends on them."""
        known = self._needed().union(self.feeds)
        return [
            node
            for node in self.nodes
            if not self.varying.isdisjoint(node.makes)
            and known.isdisjoint(node.makes)
            and known.issuperset(self.varying.intersection(node.needs))
        ]

    def _pair(self) -> tuple[Call | None, Node | None]:
        """The first call that differs on both sides; calls of the same name are preferred."""
        for node in self.frontier:
            for call in self.wrong:
                if self.place(node.makes[0]).name == call.place.name:
                    return call, node
        return next(iter(self.wrong), None), next(iter(self.frontier), None)

    def report(self) -> CallReport:
        """Whether a call differs, and which is the first."""
        right = self.recorded.right()
        outputs = {name: all(call.found for call in calls) for name, calls in self.recorded.modules.items() if calls}
        return CallReport(
            sum(call.found is not None for call in self.calls),
            sum(call.found is None for call in (self.calls if self.passed else right)),
            [name for name, there in outputs.items() if name and there],
            [name for name, there in outputs.items() if name and not there],
            None if self.passed else self._difference(),
        )

    def _difference(self) -> CallDifference:
        call, node = self._pair()
        found = [each for each in self.calls[: call.number if call else None] if each.found is not None]
        given = [each for each in found if call is not None and each in call.operands]
        before = next(reversed(given or found), None)
        error = None
        if call is not None and node is not None:  # the last tensor that the same call of the author made
            places = {name: self.place(name) for each in self.nodes for name in each.makes[:1]}
            name = [name for name, place in places.items() if place == places[node.makes[0]]][-1]
            error = _distance(self._run(keep=[name])[name], call.value)
        return CallDifference(
            call and call.place,
            node and self.place(node.makes[0]),
            before and before.place,
            self.place(before.found) if before and before.found else None,
            error,
            call.module if call else "",
            self.network.layers[node.name].weights if node else (),
        )

    def place(self, tensor: str) -> Place:
        """The author's call that made a tensor."""
        layer = self.interpreter.makers.get(tensor, tensor)
        call = self.network.layers[layer].call
        return Place(layer, None) if call is None else Place(call.name, call.location)

    def nearness(self) -> dict[str, Nearness]:
        """How near each tensor is to torch's; of one that a loop makes again and again, any turn counts."""
        first = {name for node in self.frontier for name in node.makes}
        partner, needed = self._pair()[0], self._needed()
        result = {name: Nearness("agrees") for name in self.feeds}
        for name in (name for node in self.nodes for name in node.makes):
            if name in self.matches:
                call, error = self.matches[name]
                result[name] = Nearness("agrees", str(call.place), error)
            elif name in first:
                result[name] = Nearness("differs", str(partner.place) if partner else "")
            elif name in needed or (self.passed and name in self.varying):
                result[name] = Nearness("within")
            else:
                result[name] = Nearness("unseen" if self.passed or name not in self.varying else "behind")
        return result


def _distance(value: torch.Tensor, expected: torch.Tensor) -> float | None:
    if value.shape != expected.shape or not value.numel():
        return None
    difference = float((value.double() - expected.double()).abs().nan_to_num().max())
    return difference / (float(expected.double().abs().nan_to_num().max()) or 1.0)
