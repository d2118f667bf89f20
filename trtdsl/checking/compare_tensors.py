"""How near each tensor of a network is to torch: which call of torch has its values, and what differs first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..core.errors import UsageError
from ..core.lazy import torch
from ..definition.network import Network
from ..definition.spec.spec import NetworkSpec
from ..definition.weights import Source
from ..interpreter.feeds import make_feeds
from .locate import _Call, _Made, _matches, _operands_right, _paired, _recorded, _right_calls
from .report import CheckReport

State = Literal["agrees", "within", "differs", "behind", "unseen"]


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


def measure_nearness(
    network: Network, feeds: Mapping[str, torch.Tensor], reference: torch.nn.Module, *, equal: bool = False
) -> dict[str, Nearness]:
    """Runs a network and its reference on the same feeds, and says of each tensor how near it is to torch's.

    Tensors are compared as :func:`trtdsl.compare_calls` does. Of a tensor that a loop makes again and again, any turn
    counts. Where the outputs are known to be ``equal``, a tensor that torch does not have is no difference.

    >>> class Scores(torch.nn.Module):
    ...     def forward(self, x):
    ...         return torch.softmax(x * 2, 1) + 1
    >>> net = td.Network()
    >>> net.output(F.softmax(net.input("x", (3, 3)) * 2, 0) + 1, "y")
    >>> found = measure_nearness(net, {"x": torch.tensor([[1.0, 2.0, 0.0]] * 3)}, Scores())
    >>> found["mul"].state, found["softmax"].state, found["y"].state
    ('agrees', 'differs', 'behind')
    """
    calls = _recorded(reference, feeds, network.precision)
    made = _Measured(network, feeds, calls)
    right = _right_calls(calls)
    wrong = [call for call in calls if call not in right and _operands_right(call, right)]
    frontier = made.frontier()
    passed = equal or (not wrong and not frontier)
    first = set[str]() if passed else {name for node in frontier for name in node.makes}
    partner = None if passed else _paired(wrong, frontier)[0]
    needed = set(made.found)
    for node in reversed(made.nodes):
        if not needed.isdisjoint(node.makes):
            needed.update(node.needs)
    varying = set(feeds)
    result = {name: Nearness("agrees") for name in feeds}
    for node in made.nodes:
        if not varying.isdisjoint(node.needs):
            varying.update(node.makes)
        for name in node.makes:
            result[name] = made.judged(name, first, needed, partner, varies=name in varying, passed=passed)
    return result


def nearness_of(
    spec: NetworkSpec, network: Network, report: CheckReport, weights: Source | None = None
) -> dict[str, Nearness]:
    """:func:`measure_nearness` at the first sizes where a check failed, or at the first of all, on the check's feeds.

    Raises UsageError for a report without a case, or of a network with other dimensions.
    """
    case = next((case for case in report.cases if not case.passed), next(iter(report.cases), None))
    if case is None or set(case.dims) != set(network.dims):
        raise UsageError(f"the report of {report.network} has no case for the dimensions of {network.name}")
    feeds = make_feeds(spec.inputs, network, case.dims, torch.Generator().manual_seed(report.seed))
    reference = spec.reference_module(spec.open_weights(weights))
    return measure_nearness(network, feeds, reference, equal=report.passed)


class _Measured(_Made):
    """The network's tensors beside torch's calls, with how far each is from its call."""

    def __init__(self, network: Network, feeds: Mapping[str, torch.Tensor], calls: Sequence[_Call]):
        self.matches: dict[str, tuple[_Call, float | None]] = {}
        super().__init__(network, feeds, calls)

    def _observe(self, name: str, value: torch.Tensor) -> None:
        self.seen[name] = self.seen.get(name, 0) + 1
        for call in self.by_count.get(value.numel(), ()) if value.numel() else ():
            if call.found is not None and name in self.found:
                continue  # both have a partner already
            if value.dtype.is_floating_point == call.value.is_floating_point() and _matches(value, call):
                call.found = call.found or name
                self.found.add(name)
                self.matches.setdefault(name, (call, _distance(value, call.value)))

    def judged(
        self, name: str, first: set[str], needed: set[str], partner: _Call | None, *, varies: bool, passed: bool
    ) -> Nearness:
        """What is known of a tensor."""
        if name in self.matches:
            call, error = self.matches[name]
            return Nearness("agrees", str(call.place), error)
        if name in first:
            return Nearness("differs", str(partner.place) if partner else "")
        if name in needed or (passed and varies):
            return Nearness("within")
        return Nearness("behind" if varies and not passed else "unseen")


def _distance(value: torch.Tensor, expected: torch.Tensor) -> float | None:
    if value.shape != expected.shape or not value.numel():
        return None
    difference = float((value.double() - expected.double()).abs().nan_to_num().max())
    return difference / (float(expected.double().abs().nan_to_num().max()) or 1.0)
