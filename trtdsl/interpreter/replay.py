"""An evaluation whose values are all kept, and what becomes of it when one layer is another."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.lazy import torch
from .interpret import Feeds, Interpreter, Step, _State

CORNER = 4  # elements of each dimension that are compared first


class Replay:
    """One evaluation of a network; with another layer in it, only what depends on that layer is evaluated again.

    ``steps`` may stand for the interpreter's own, with other weights in them.

    >>> from dataclasses import replace
    >>> net = td.Network()
    >>> net.output(F.relu(net.input("x", ("N",))) + 1, "y")
    >>> replay = Replay(td.Interpreter(net), {"x": torch.tensor([-1.0, 2.0])})
    >>> relu = replace(replay.interpreter.steps[0], run=lambda x: x)
    >>> replay.changed(0, relu)
    {'y': tensor([0., 3.])}
    """

    def __init__(self, interpreter: Interpreter, feeds: Feeds, steps: Sequence[Step] | None = None):
        self.interpreter = interpreter
        self.steps = interpreter.steps if steps is None else list(steps)
        self.kept = frozenset(range(len(interpreter.slots)))
        state = _State(interpreter, self.kept, None)
        for name, tensor in interpreter._check_feeds(feeds).items():
            state.values[interpreter.slots[name]] = tensor
        with torch.no_grad():
            state.execute(self.steps)
        self.values = state.values
        self.outputs = {tensor.name: interpreter.slots[tensor.name] for tensor in interpreter.outputs}

    @property
    def bytes(self) -> int:
        """The memory that the values take."""
        stores = [value.untyped_storage() for value in self.values if value is not None]
        return sum({store.data_ptr(): store.nbytes() for store in stores}.values())

    def changed(self, place: int, step: Step) -> dict[str, torch.Tensor]:
        """The outputs that are others where ``step`` stands at that place among the interpreter's steps.

        Raises DefinitionError for a layer that fails on what comes out of it.
        """
        state = _State(self.interpreter, self.kept, None)
        state.values = list(self.values)
        different: set[int] = set()
        with torch.no_grad():
            for index, other in enumerate(self.steps[place:], place):
                current = step if index == place else other
                if index != place and different.isdisjoint(current.inputs):
                    continue
                state.execute([current])
                for slot in current.outputs:
                    if not same(state.values[slot], self.values[slot]):
                        different.add(slot)
                    else:
                        state.values[slot] = self.values[slot]
                if index == place and not different:
                    break
        return {name: state.values[slot] for name, slot in self.outputs.items() if slot in different}


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
