"""An evaluation whose values are all kept, and what becomes of it when one layer is another."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.errors import DefinitionError
from ..core.lazy import torch
from ..layers.evaluation import Evaluate, Node
from .interpret import Feeds, Interpreter, Step, Steps, _State

TIMES, MORE = 10, 100  # turns of a changed loop, for each of the most that there were before, and besides
Alike = Callable[[Any, Any], bool]
CORNER = 4  # elements of each dimension that are compared first


class Replay:
    """One evaluation of a network; with another layer in it, only what depends on that layer is evaluated again.

    That holds inside of loops, too: of each turn, only the layers that get other operands are evaluated. ``steps`` may
    stand for the interpreter's own, with other weights in them: then a loop may not end, and is given up after ``most``
    turns with a DefinitionError. ``alike`` says which values count as those of before.

    >>> from dataclasses import replace
    >>> net = td.Network()
    >>> net.output(F.relu(net.input("x", ("N",))) + 1, "y")
    >>> replay = Replay(td.Interpreter(net), {"x": torch.tensor([-1.0, 2.0])})
    >>> relu = replace(replay.interpreter.steps[0], run=lambda x: x)
    >>> replay.changed(0, relu)
    {'y': tensor([0., 3.])}
    """

    def __init__(
        self,
        interpreter: Interpreter,
        feeds: Feeds,
        steps: Sequence[Step] | None = None,
        most: float = math.inf,
        alike: Alike | None = None,
    ):
        self.interpreter, self.alike = interpreter, alike or same
        self.steps = interpreter.steps if steps is None else list(steps)
        self.past = _Past()
        state = _Recorded(interpreter, self.past, most, self.alike, recording=True)
        for name, tensor in interpreter._check_feeds(feeds).items():
            state.values[interpreter.slots[name]] = tensor
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            state.execute(self.steps)
        self.values = state.values
        self.outputs = {tensor.name: interpreter.slots[tensor.name] for tensor in interpreter.outputs}

    @property
    def most(self) -> float:
        """The turns after which a loop of a changed network is given up."""
        made = (*self.past.made.values(), *self.past.written.values())
        return MORE + TIMES * max(map(len, made), default=0)

    @functools.cached_property
    def bytes(self) -> int:
        """The memory that the values take."""
        values = [*self.values, *self.past.tensors()]
        stores = [value.untyped_storage() for value in values if value is not None]
        return sum({store.data_ptr(): store.nbytes() for store in stores}.values())

    def changed(self, place: int, step: Step, inside: tuple[Node, Evaluate] | None = None) -> dict[str, torch.Tensor]:
        """The outputs that are others where ``step`` stands at that place among the interpreter's steps.

        Where the step is a region, ``inside`` may be a layer of it and another evaluator for that layer; for a layer at
        the region's boundary, a function of its result.

        Raises DefinitionError for a layer that fails on what comes out of it, and for a loop that does not end.
        """
        changed = step.part if inside is None else None
        state = _Recorded(self.interpreter, self.past, self.most, self.alike, changed=changed, inside=inside)
        state.values = list(self.values)
        different: set[int] = set()
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            for index, other in enumerate(self.steps[place:], place):
                current = step if index == place else other
                if index != place and different.isdisjoint(current.inputs):
                    continue
                state.execute([current])
                for slot in current.outputs:
                    if not self.alike(state.values[slot], self.values[slot]):
                        different.add(slot)
                    else:
                        state.values[slot] = self.values[slot]
                if index == place and not different:
                    break
        return {name: state.values[slot] for name, slot in self.outputs.items() if slot in different}


@dataclass
class _Past:
    """What each layer was given and made, and what a region wrote, in the order of the turns."""

    made: dict[int, list[tuple[list[Any], list[Any]]]] = field(default_factory=dict)
    """Operands and results, by the id of the layer."""
    written: dict[str, list[torch.Tensor]] = field(default_factory=dict)

    def tensors(self) -> list[torch.Tensor | None]:
        """All values."""
        made = [value for turns in self.made.values() for _, results in turns for value in results]
        return made + [value for turns in self.written.values() for value in turns]


class _Recorded(_State):
    """An evaluation that keeps all values, or takes those of an earlier one where a layer has the same operands."""

    def __init__(
        self,
        interpreter: Interpreter,
        past: _Past,
        most: float,
        alike: Alike,
        *,
        recording: bool = False,
        changed: Any = None,
        inside: tuple[Node, Evaluate] | None = None,
    ):
        super().__init__(interpreter, frozenset(range(len(interpreter.slots))), None)
        self.past, self.most, self.alike, self.recording, self.changed = past, most, alike, recording, changed
        self.node, self.evaluate = (None, None) if inside is None else inside
        self.turns: dict[Any, int] = {}
        self.apart = False
        """Whether a region's state is another: then most results that follow are, and they are not compared."""

    def write(self, tensor: Any, value: torch.Tensor) -> None:
        name = tensor.name
        if self.recording:
            self.past.written.setdefault(name, []).append(value)
        else:
            if self.node is not None and self.evaluate is not None and name in self.node.makes:
                value = self.evaluate(value)
            before = self._past_of(name, self.past.written)
            if before is not None and self.alike(value, before):
                value = before
            else:
                self.apart = True
        self.values[self.interpreter.slots[name]] = value

    def execute(self, steps: Steps) -> None:
        for step in steps:
            if step.inside is not None:
                super().execute([step])
            elif self.recording:
                operands = [self.values[slot] for slot in step.inputs]
                super().execute([step])
                made = self.past.made.setdefault(id(step.part), [])
                self._check(len(made))
                made.append((operands, [self.values[slot] for slot in step.outputs]))
            else:
                self._repeat(step)

    def _repeat(self, step: Step) -> None:
        """A layer evaluated again, unless it has the operands that it had in this turn."""
        values, before = self.values, self._past_of(id(step.part), self.past.made)
        operands, results = before or ([], [])
        still = before is not None and step.part is not self.changed and step.part is not self.node
        if still and all(values[slot] is given for slot, given in zip(step.inputs, operands, strict=True)):
            for slot, result in zip(step.outputs, results, strict=True):
                values[slot] = result
            return
        if step.part is self.node:
            step = replace(step, run=self.evaluate)
        super().execute([step])
        for slot, result in zip(step.outputs, () if self.apart else results, strict=False):
            if self.alike(values[slot], result):
                values[slot] = result

    def _past_of(self, key: Any, past: dict[Any, list[Any]]) -> Any:
        """What there was in the present turn; None where the evaluation before had fewer turns."""
        turn = self.turns[key] = self.turns.get(key, -1) + 1
        turns = past.get(key, ())
        self._check(turn)
        return turns[turn] if turn < len(turns) else None

    def _check(self, turn: int) -> None:
        if turn >= self.most:
            raise DefinitionError(f"a loop does not end in {turn} turns")


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors have the same dtype, shape and values; NaN is the same as NaN."""
    if a is b:
        return True
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if torch.equal(a, b):
        return True
    if not a.dtype.is_floating_point:
        return False
    corner = (slice(CORNER),) * a.ndim  # most values that differ differ there, too
    return all(bool(((x == y) | ((x != x) & (y != y))).all()) for x, y in ((a[corner], b[corner]), (a, b)))
