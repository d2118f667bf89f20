"""What is needed of a loop's rounds outside of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from ...calls import (
    Op,
    Value,
    along,
    apart,
    argument,
    calls,
    change_trees,
    imaged,
    joined,
    operations,
    operations_in,
)
from ..guards import Guard
from . import taking
from .marks import Mark, between
from .rounds import Rounds
from .taking import Unlike


class Uses:
    """What is needed of a loop's rounds outside of them."""

    def __init__(self, rounds: Rounds):
        self.rounds, self.made, self.count = rounds, [list(values) for values in rounds.made], len(rounds.rounds)
        self.writes, self.carried = rounds.writes, rounds.carried
        self.places = {
            value: (number, place) for number, row in enumerate(self.made) for place, value in enumerate(row)
        }
        self.stacked: dict[int, Value] = {}
        self.lasts: dict[Any, Value] = {}
        self.unbound: dict[int, Op] = {}
        self.whole: dict[Value, Value] = {}
        self.same: dict[Value, Value] = {}
        """What stands for results of calls that are left out."""
        self.left_out: set[Any] = set()
        self.results: Any = None

    def all_of(self, place: int) -> Value:
        """What all rounds give, along a new first dimension."""
        value = self.made[0][place]
        if value in self.whole:
            return self.whole[value]
        for tensor, own, axis, backwards in self.rounds.along:
            if own is value:  # a part of a tensor, as it is
                tensor = self.rounds.op("flip", (tensor, [axis]), tensor.shape) if backwards else tensor
                shape = (tensor.shape[axis], *taking.without(tensor.shape, axis))
                self.whole[own] = self.rounds.op("movedim", (tensor, axis, 0), shape) if axis else tensor
                return self.whole[own]
        if place not in self.stacked:
            self.stacked[place] = Value((self.count, *value.shape), value.dtype, name=value.hint)
        return self.stacked[place]

    def last_of(self, place: int, back: int = 1) -> Value:
        """What the last round gives, or one before it."""
        key = place, back
        if key not in self.lasts:
            value = self.made[-min(back, self.count)][place]
            if place in self.writes:
                self.lasts[key] = self._filled(place)
            elif key in self.carried:
                self.lasts[key] = Value(value.shape, value.dtype, name=value.name)
            else:
                self.lasts[key] = self.rounds.op("getitem", (self.all_of(place), -1), value.shape, after=True)
                self.lasts[key].name = value.name
        return self.lasts[key]

    def _filled(self, place: int) -> Value:
        """The tensor whose parts the rounds write."""
        op, given = self.writes[place]
        rounds, target = self.rounds, op.args[0]
        index = taking.index_of(op)
        item = next(item for item, each in enumerate(index) if each not in (slice(None), Ellipsis))
        axis = 0 if op in rounds.rows else taking.axis_of(target, index, item)
        assert axis is not None
        parts = self.stacked[place] = Value((self.count, *given.shape), given.dtype)
        parts.name = given.name
        value = self._moved(parts, axis)
        begin = index[item]
        if begin == 0 and target.shape[axis] == self.count and taking.made_like(target, axis, rounds.length):
            value.name = value.name or op.results.name
            return value
        places = along(axis, slice(begin, taking.more(begin, rounds.length)))
        write = Op("setitem", "torch.Tensor.__setitem__", "setitem", (target, places, value), {}, None, op.location)
        write.path = op.path
        write.results = Value(target.shape, target.dtype, name=self.made[-1][place].name, producer=write)
        rounds.after.append(write)
        return write.results

    def _moved(self, parts: Value, axis: int) -> Value:
        if axis == 0:
            return parts
        rest = parts.shape[1:]
        shape = (*rest[:axis], self.count, *rest[axis:])
        return self.rounds.op("movedim", (parts, 0, axis), shape, after=True)

    def changes(self) -> list[Callable[[], None]]:
        """What has calls outside of the rounds use something else in the place of their values. Raises Unlike."""
        inside = {id(op) for ops in self.rounds.ops for op in ops}
        found: list[Callable[[], None]] = []
        before = {id(op) for op in self.rounds.before}
        rest = {value for op in self.rounds.heads for value in op.results[1:]}
        self.looped = self._in_other_loops()
        if self.rounds.known is None:
            taken = [(value, line) for op, line in self.looped.items() for value in op.taken]
            places = [(*self.places[value], line) for value, line in taken if value in self.places]
            self.rounds.form.parts |= {(place, line) for number, place, line in places if number < self.count - 1}
        for op in operations(self.rounds.root):
            if id(op) in inside or id(op) in before:
                continue
            taken = {*op.taken}
            if taken & rest:
                raise Unlike("a part that it goes along is needed by itself")
            if taken & self.places.keys():
                found.append(self._of_op(op))
        self.results = self._strictly(self.rounds.results)
        return found

    def _of_op(self, op: Op) -> Callable[[], None]:
        given: Any = op.args[0] if op.args else op.kwargs.get("tensors")
        place = self._whole_list(given) if op.name in ("stack", "cat") else None
        if place is None:
            one = partial(self._part, self.looped[op]) if op in self.looped else self._one
            return partial(taking.rewrite, op, args=imaged(op.args, one), kwargs=imaged(op.kwargs, one))
        (place, start, backwards), value = place, self.made[0][place[0]]
        dim = argument(op, 1, "dim", 0)
        rank = len(value.shape) + (op.name == "stack")
        axis = dim % rank
        parts = self.all_of(place)
        if backwards:
            parts = self.rounds.op("flip", (parts, [0]), parts.shape, after=True)
        moved = self._moved(parts, axis)
        if op.name == "cat":
            shape = (*value.shape[:axis], self.count * value.shape[axis], *value.shape[axis + 1 :])
            moved = self.rounds.op("flatten", (moved, axis, axis + 1), shape, after=True)
        rest = [*given[:start], *given[start + self.count :]]
        if not rest:
            return partial(self._leave_out, op, moved)
        rest = self._strictly(rest)
        if op.name == "stack":
            rest = [
                self.rounds.op("unsqueeze", (each, axis), (*each.shape[:axis], 1, *each.shape[axis:]), after=True)
                for each in rest
            ]
        args = [*rest[:start], moved, *rest[start:]], axis
        return partial(taking.rewrite, op, name="cat", qualified="torch.cat", args=args, kwargs={})

    def _leave_out(self, op: Op, instead: Value) -> None:
        """Has another value stand for what a call gives."""
        self.left_out.add(op)
        self.same[op.results] = instead
        instead.name = instead.name or op.results.name

    def _whole_list(self, given: Any) -> tuple[int, int, bool] | None:
        """The place of what a list has of all rounds, where it begins there, and whether the last is the first."""
        listed = given if isinstance(given, (list, tuple)) else ()
        known = [self.places.get(item) if isinstance(item, Value) else None for item in listed]
        numbers = [place for place, item in enumerate(known) if item is not None]
        if len(numbers) < self.count:
            return None
        start = numbers[0]
        run: list[Any] = known[start : start + self.count]
        for backwards in (False, True):
            wanted = [(k, run[0][1]) for k in range(self.count)]
            if run == (wanted[::-1] if backwards else wanted):
                place, known_to_be = run[0][1], self.rounds.form.backwards
                if backwards:
                    known_to_be.add(place)
                return place, start, backwards if self.count > 1 else place in known_to_be
        return None

    def _strictly(self, tree: Any) -> Any:
        return imaged(tree, self._one)

    def _in_other_loops(self) -> dict[Op, Any]:
        """The calls in rounds of later loops, which may go along what this one makes, with the lines of these."""
        found: dict[Op, Any] = {}
        own = self.rounds.loop
        for loop in self.rounds.record.loops:
            inside = {*operations_in(between(loop))}
            if loop is not own and not any(isinstance(op, Mark) and op.loop is own for op in inside):
                found |= dict.fromkeys(inside, loop.location)
        return found

    def _part(self, line: Any, value: Value) -> Value:
        """A round's value as one of all of them, for the round of another loop, in this line, that takes them all."""
        if value not in self.places:
            return value
        number, place = self.places[value]
        if (place, line) not in self.rounds.form.parts:
            return self._one(value)
        if place not in self.unbound:
            parts = self.all_of(place)
            op = Op("unbind", "torch.unbind", "function", (parts, 0), {}, None, self.rounds.loop.location)
            op.path = self.rounds.container.path
            op.results = [Value(each[place].shape, each[place].dtype, producer=op) for each in self.made]
            self.rounds.after.append(op)
            self.unbound[place] = op
        return self.unbound[place].results[number]

    def _one(self, value: Value) -> Value:
        if value not in self.places:
            return value
        number, place = self.places[value]
        back = self.count - number
        if back > 1 and (place, back) not in self.carried:
            raise Unlike("what one of its rounds makes is needed by itself")
        return self.last_of(place, back)

    def _leniently(self, tree: Any) -> Any:
        """As far as there is something in the place of it: names and guards alone look at these."""
        found = self._whole_list(tree)
        if found is not None and found[0] in self.stacked:
            return [self.stacked[found[0]]]
        node = apart(tree)
        if isinstance(tree, Value) or node is None:
            number, place = self.places.get(tree, (0, -1)) if isinstance(tree, Value) else (0, -1)
            return self.lasts.get((place, self.count - number), tree)
        return joined(tree, [self._leniently(each) for each in node[1]])

    def of_guard(self, guard: Guard) -> Guard:
        """The guard of values that are left."""
        return replace(guard, left=self.instead(guard.left), right=self.instead(guard.right))

    def instead(self, size: Any) -> Any:
        """The size of values that are left."""
        return self._without_same(self._leniently(size))

    def _without_same(self, tree: Any) -> Any:
        return imaged(tree, lambda value: self.same.get(value, value))

    def change(self, changes: list[Callable[[], None]]) -> None:
        """Writes all of it into the calls."""
        for each in changes:
            each()
        for op in self.rounds.heads:  # the first part alone is left
            args = (op.args[0], along(taking.taken_apart(op), 0))
            taking.rewrite(op, **taking.GETITEM, args=args, kwargs={}, results=op.results[0])
        for call in calls(self.rounds.root):
            call.body[:] = [item for item in call.body if item not in self.left_out]
            call.arguments, call.results = self._leniently(call.arguments), self._leniently(call.results)
        if self.same:
            change_trees(self.rounds.root, self._without_same)
            self.results = self._without_same(self.results)
