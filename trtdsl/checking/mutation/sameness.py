"""Whether a changed layer is the same function where it stands: judged by random values of the layers around it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ...core.errors import TrtdslError
from ...core.lazy import torch
from ...interpreter.interpret import Interpreter
from ...interpreter.replay import Replay, same
from ...layers.evaluation import KINDS, Evaluate, Node, kind
from ...layers.region import Region
from .mutants import Mutant

UP, DOWN = 3, 24  # layers before and after the changed one
SCALES = (0.3, 1.0, 3.0, 30.0, 1e3, 1e5)  # random values
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

    def __init__(self, interpreter: Interpreter):
        self.slots = interpreter.slots
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
        indices and sizes stay the same. float32 is computed in float64 where the evaluators can, so that what differs
        by rounding alone (a softmax with another shift) is told from what differs. Great values may be rounded much:
        then the change may have four times the effect that moving the operands by a unit in their last place has.
        """
        node = mutant.node
        if node.type not in KINDS:
            return False
        few = list(dict.fromkeys((*replays[:1], *replays[-2:])))
        ways = [(wide, up, False) for wide in (True, False) for up in range(UP + 1)]
        return any(self._agrees(mutant, few, *way) for way in (*ways, *((False, up, True) for up in range(UP + 1))))

    def _agrees(self, mutant: Mutant, replays: Sequence[Replay], wide: bool, up: int, rounded: bool) -> bool:
        generator = torch.Generator().manual_seed(up)
        try:
            changed = mutant.evaluate()
            return all(
                self._agrees_once(mutant.node, changed, _Draw(self, replay, scale, generator, wide), up, rounded)
                for replay in replays
                for scale in SCALES
                for _ in range(repeats(sum(value.numel() for value in _kept(mutant.node, replay))))
            )
        except (TrtdslError, RuntimeError, ArithmeticError, IndexError, TypeError, ValueError):
            return False

    def _agrees_once(self, node: Node, changed: Evaluate, draw: _Draw, up: int, rounded: bool) -> bool:
        operands = draw.operands(node, up)
        before = dict(zip(node.makes, _called(self.evaluator(node), operands), strict=True))
        after = dict(zip(node.makes, _called(changed, operands), strict=True))
        near = before
        if rounded:
            near = dict(zip(node.makes, _called(self.evaluator(node), draw.moved(operands)), strict=True))
        waiting: dict[int, Node] = {}
        fresh: Collection[str] = node.makes
        for _ in range(DOWN):
            if draw.scale > ORDINARY and not all(_finite(values[name]) for values in (before, after) for name in fresh):
                return True
            different = [name for name in fresh if not agree(after[name], before[name], near[name])]
            if not self.results.isdisjoint(different):
                return False
            waiting.update((self.places[id(user)], user) for name in different for user in self.users.get(name, ()))
            if not waiting:
                return True
            user = waiting.pop(min(waiting))
            if user.type not in KINDS:
                return False
            rest = draw.operands(user, 0)
            names = list(zip(_names(user), rest, draw.moved(rest) if rounded else rest, strict=False))
            for values in (before, after, near) if rounded else (before, after):
                given = [values.get(name or "", moved if values is near else x) for name, x, moved in names]
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

    def __init__(self, network: Sameness, replay: Replay, scale: float, generator: torch.Generator, wide: bool):
        self.network, self.replay, self.scale, self.generator, self.wide = network, replay, scale, generator, wide
        self.values: Values = {}

    def operands(self, node: Node, up: int) -> list[torch.Tensor | None]:
        """The operands of a layer, computed from values drawn a number of layers before it."""
        found = [None if name is None else self.value(node, place, name, up) for place, name in enumerate(_names(node))]
        while found and found[-1] is None:
            found.pop()
        return found

    def value(self, user: Node, place: int, name: str, up: int) -> torch.Tensor | None:
        if name not in self.values:
            value = self._new(user, place, name, up)
            wide = self.wide and value is not None and value.dtype == torch.float32
            self.values[name] = value.double() if wide and value is not None else value
        return self.values[name]

    def moved(self, operands: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """Operands, of which each float is moved by a unit in its last place, up or down."""
        return [
            value
            * (1 + torch.finfo(value.dtype).eps * (torch.rand(value.shape, generator=self.generator) - 0.5).sign())
            if value is not None and value.is_floating_point()
            else value
            for value in operands
        ]

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


def agree(a: torch.Tensor, b: torch.Tensor, near: torch.Tensor | None = None) -> bool:
    """Whether two results differ by rounding alone; ``near`` is ``b`` with operands that were rounded otherwise."""
    if same(a, b):
        return True
    if a.dtype != b.dtype or a.shape != b.shape or not a.dtype.is_floating_point:
        return False
    part = 1e-9 if a.dtype == torch.float64 else 4 * torch.finfo(a.dtype).eps
    wide, other = a.double(), b.double()
    greatest = float(torch.where(torch.isfinite(wide), wide, 0.0).abs().max())
    rounding = 0.0
    if near is not None and near.shape == b.shape:
        moved = (near.double() - other).abs()
        rounding = float(torch.where(torch.isfinite(moved), moved, 0.0).max())
    return torch.allclose(wide, other, rtol=part, atol=part * greatest + 4 * rounding, equal_nan=True)
