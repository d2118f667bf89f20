"""Whether a changed layer is the same function where it stands: judged by random values of the layers around it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ...core.errors import TrtdslError
from ...core.lazy import torch
from ...core.tensors.exact import Exact
from ...interpreter.interpret import Interpreter
from ...interpreter.replay import Replay, same
from ...layers.evaluation import KINDS, Evaluate, Node, kind
from ...layers.region import Region
from ..judging.equality import LIMIT
from .mutants import Mutant

UP, DOWN = 3, 24  # layers before and after the changed one
SCALES = (0.3, 1.0, 3.0, 30.0, 1e3, 1e5)  # random values
FAILING = (TrtdslError, RuntimeError, ArithmeticError, IndexError, TypeError, ValueError)  # of a changed network
ORDINARY = 30.0  # greater values may overflow, and then show nothing
Values = dict[str, "torch.Tensor | None"]


def nodes_of(part: Node | Region) -> Iterator[Node]:
    """A layer, or all those of a region."""
    if isinstance(part, Node):
        yield part
        return
    for inside in (*part.boundary, *part.nodes, *part.regions):
        yield from nodes_of(inside)


def repeats(elements: int) -> int:
    """How often values are drawn for a small number of elements, which rarely lie beyond a bound."""
    return min(max(128 // max(elements, 1), 1), 16)


def _kept(node: Node, replay: Replay) -> Iterator[torch.Tensor]:
    """The values of a layer's operands."""
    values = (replay.values[replay.interpreter.slots[name]] for name in node.needs)
    return (value for value in values if value is not None)


class Sameness:
    """The layers of a network by the tensors that they make and use, to evaluate a few at a time."""

    def __init__(self, interpreter: Interpreter, exact: Exact):
        self.exact, self.slots = exact, interpreter.slots
        self.makers = {name: node for node in interpreter.nodes for name in node.makes}
        self.users: dict[str, list[Node]] = {}
        for node in interpreter.nodes:
            for name in node.needs:
                self.users.setdefault(name, []).append(node)
        self.results = {tensor.name for tensor in interpreter.outputs}
        self.evaluators: dict[int, Evaluate] = {}
        order = (node for step in interpreter.steps for node in nodes_of(step.part))
        self.places = {id(node): place for place, node in enumerate(order)}

    def holds(self, mutant: Mutant, replays: Sequence[Replay]) -> bool:
        """Whether a few layers, with the changed one among them, give the same as before for all values.

        Up to three layers before the changed one are fed random values of the shapes of the cases, and up to 24 after
        it compared: what agrees for all of them is the same function there, as ``|b - a|`` is ``|a - b|``. Constants,
        indices and sizes stay the same. Exact values are compared, so that what differs by rounding alone (a softmax
        with another shift) is told from what differs.
        """
        if mutant.node.type not in KINDS:
            return False
        few = list(dict.fromkeys((*replays[:1], *replays[-2:])))
        return any(self._agrees(mutant, few, up) for up in range(UP + 1))

    def _agrees(self, mutant: Mutant, replays: Sequence[Replay], up: int) -> bool:
        generator = torch.Generator().manual_seed(up)
        try:
            with self.exact, torch.no_grad():
                changed = mutant.evaluate()
                return all(
                    self._agrees_once(mutant.node, changed, _Draw(self, replay, scale, generator), up)
                    for replay in replays
                    for scale in SCALES
                    for _ in range(repeats(sum(value.numel() for value in _kept(mutant.node, replay))))
                )
        except FAILING:
            return False

    def _agrees_once(self, node: Node, changed: Evaluate, draw: _Draw, up: int) -> bool:
        operands = draw.operands(node, up)
        before = dict(zip(node.makes, _called(self.evaluator(node), operands), strict=True))
        after = dict(zip(node.makes, _called(changed, operands), strict=True))
        waiting: dict[int, Node] = {}
        fresh: Collection[str] = node.makes
        for _ in range(DOWN):
            if draw.scale > ORDINARY and not all(_finite(values[name]) for values in (before, after) for name in fresh):
                return True
            different = [name for name in fresh if not agree(self.exact, after[name], before[name])]
            if not self.results.isdisjoint(different):
                return False
            waiting.update((self.places[id(user)], user) for name in different for user in self.users.get(name, ()))
            if not waiting:
                return True
            user = waiting.pop(min(waiting))
            if user.type not in KINDS:
                return False
            names = list(zip(_names(user), draw.operands(user, 0), strict=False))
            for values in (before, after):
                given = [values.get(name or "", x) for name, x in names]
                values.update(zip(user.makes, _called(self.evaluator(user), given), strict=True))
            fresh = user.makes
        return False

    def evaluator(self, node: Node) -> Evaluate:
        """The layer's own evaluator."""
        if id(node) not in self.evaluators:
            self.evaluators[id(node)] = kind(node).prepare(node)
        return self.evaluators[id(node)]


class _Draw:
    """One set of random values for the tensors around a layer; a tensor that is used twice has one."""

    def __init__(self, network: Sameness, replay: Replay, scale: float, generator: torch.Generator):
        self.network, self.replay, self.scale, self.generator = network, replay, scale, generator
        self.values: Values = {}

    def operands(self, node: Node, up: int) -> list[torch.Tensor | None]:
        """The operands of a layer, computed from values drawn a number of layers before it."""
        found = [None if name is None else self.value(node, place, name, up) for place, name in enumerate(_names(node))]
        while found and found[-1] is None:
            found.pop()
        return found

    def value(self, user: Node, place: int, name: str, up: int) -> torch.Tensor | None:
        if name not in self.values:
            self.values[name] = self._new(user, place, name, up)
        return self.values[name]

    def _new(self, user: Node, place: int, name: str, up: int) -> torch.Tensor | None:
        kept = self.replay.values[self.network.slots[name]]
        maker = self.network.makers.get(name)
        setting = place > 0 and user.type in KINDS and KINDS[user.type].settings
        if kept is None or setting or (maker is not None and maker.type == "CONSTANT"):
            return kept
        if up and maker is not None and maker.type in KINDS:
            made = _called(self.network.evaluator(maker), self.operands(maker, up - 1))
            return made[maker.makes.index(name)]
        if kept.dtype == torch.bool:
            return torch.rand(kept.shape, generator=self.generator) < 0.5
        if kept.dtype.is_floating_point:
            return (torch.randn(kept.shape, generator=self.generator) * self.scale).to(kept.dtype)
        return torch.randint(1, 65, kept.shape, generator=self.generator, dtype=torch.int64).to(kept.dtype)


def _finite(value: torch.Tensor) -> bool:
    return not value.is_floating_point() or bool(torch.isfinite(value).all())


def _names(node: Node) -> Iterator[str | None]:
    return (None if tensor is None else tensor.name for tensor in node.inputs)


def _called(evaluate: Evaluate, operands: Sequence[torch.Tensor | None]) -> tuple[torch.Tensor, ...]:
    result = evaluate(*operands)
    return result if isinstance(result, tuple) else (result,)


def agree(exact: Exact, a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two results have the same exact values."""
    if a.dtype != b.dtype or a.shape != b.shape or not a.is_floating_point():
        return same(a, b)
    with torch._C._DisableTorchDispatch():
        wide, other = exact.of(a), exact.of(b)
        greatest = float(other.nan_to_num(0.0, 0.0, 0.0).abs().max()) if other.numel() else 0.0
        return torch.allclose(wide, other, rtol=LIMIT, atol=LIMIT * greatest, equal_nan=True)
