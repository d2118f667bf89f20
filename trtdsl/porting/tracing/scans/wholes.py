"""One call in the place of those of all pieces of a tensor that are joined: ``cat([f(c) for c in x.split(4)])``.

However many pieces a size makes, of whatever length the last one is: where each call computes each place of the
dimension alone (alone.py), the whole gives what its pieces give.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from ...calls import (
    Call,
    Op,
    SizeOf,
    SizeOp,
    Value,
    apart,
    argument,
    change_trees,
    number_of,
    operations,
    operations_for,
    values_in,
)
from ...calls import joined as rejoined
from ...statements import size_key
from ..guards import Record
from ..names import RANDOM
from . import taking
from .alone import Together, axis_of_result, has_lengths, is_in_place
from .marks import Mark, Strided

JOINING = {"cat": None, "concat": None, "concatenate": None, "hstack": 1, "vstack": 0, "row_stack": 0}
"""Functions that join tensors, with the dimension in which they do, of two dimensions or more."""


class _Before(Exception):
    """Whether these values are of one piece after the other is to be known before."""

    def __init__(self, values: Sequence[Value]):
        self.values = values


def _key(values: Sequence[Value]) -> tuple[int, ...]:
    return tuple(map(id, values))


@dataclass
class Pieces:
    """What is done with all pieces of some tensors in the same way, by the values of the first pieces."""

    record: Record
    places: Mapping[Op, int]
    """How many calls stand before each."""
    axes: dict[Value, int] = field(default_factory=dict)
    """The dimension along which a value goes on in the next piece."""
    wholes: dict[Value, Value] = field(default_factory=dict)
    """The tensors that are in pieces, by the first ones."""
    sizes: dict[Value, int] = field(default_factory=dict)
    """How long a value is along its dimension in all pieces together."""
    ops: dict[Op, None] = field(default_factory=dict)
    joins: dict[Op, Value] = field(default_factory=dict)
    """What joins all pieces, with what it has of the first."""
    writes: dict[Op, None] = field(default_factory=dict)
    """What writes one piece after the other, the last of which joins them."""
    every: dict[Value, int] = field(default_factory=dict)
    """As ``axes``, of the values of all pieces."""
    loops: dict[Strided, SizeOf] = field(default_factory=dict)
    """The loops that take one slice after the other, and what these are of, which is as long as the loop goes."""
    beside: set[Value] = field(default_factory=set)
    """What all pieces take as it is."""
    _known: dict[tuple[int, ...], bool] = field(default_factory=dict)

    def join(self, op: Op) -> None:
        """Takes what is joined. Raises Together where it is not of all pieces, each place of a dimension alone."""
        values, dim = self._written(op) if op.form == "setitem" else _joined(op)
        _together_unless(all(isinstance(each, Value) for each in values) and self._goes_on(values))
        _together_unless(type(dim) is int and dim % len(values[0].shape) == self.axes[values[0]])
        self.joins[op] = values[0]

    def _written(self, op: Op) -> tuple[list[Value], int]:
        """What is written by one slice after the other, up to this one, until all of a tensor is; and its dimension."""
        for loop in self.record.parted:
            writes = [op]
            while isinstance(loop, Strided) and len(writes) < len(loop) and _is_written(writes[0].args[0]):
                writes.insert(0, writes[0].args[0].producer)
            if not isinstance(loop, Strided) or len(writes) != len(loop):
                continue
            target, values = op.args[0], [each.args[2] for each in writes]
            axes = {_sliced_axis(each, each.args[0], loop, start) for each, start in zip(writes, loop.numbers)}
            axis = axes.pop() if len(axes) == 1 else None
            if axis is not None and self.places.get(op, -1) in loop.places and _fill(values, target, axis):
                self.loops[loop] = SizeOf(target, axis, number_of(loop.length))
                self.writes.update(dict.fromkeys(writes))
                return values, axis
        raise Together

    def _goes_on(self, values: Sequence[Value]) -> bool:
        """Whether the values are of one piece after the other, and not one that all of them have."""
        wanted = [values] if _key(values) not in self._known else []
        while wanted:  # from the last to the first: calls that follow one another are more than Python recurses
            try:
                self._known[_key(wanted[-1])] = self._is_of_pieces(wanted[-1])
                wanted.pop()
            except _Before as before:
                wanted.append(before.values)
        return self._known[_key(values)]

    def _is_of_pieces(self, values: Sequence[Value]) -> bool:
        first, op = values[0], values[0].producer
        if op is not None and (axis := self._parted(op, values)) is not None:
            self._take(values, axis)
            self.wholes[first] = op.args[0]
            return True
        if op is None or (len(values) > 1 and _are_same([first] * len(values), values)):
            self.beside.add(first)
            return _together_unless(_are_same([first] * len(values), values))
        return self._is_made_of_pieces(op, values)

    def _parted(self, op: Op, values: Sequence[Value]) -> int | None:
        """The dimension of which these are all pieces, by one call or by one slice after the other; None of others."""
        if op in self.record.parted:
            return argument(op, 2, "dim", 0) % len(values[0].shape) if _are_same(op.made, values) else None
        for loop in self.record.parted if op.name == "getitem" else ():
            if isinstance(loop, Strided) and len(loop) == len(values) and self.places.get(op, -1) in loop.places:
                axes = {
                    _sliced_axis(value.producer, op.args[0], loop, each) for value, each in zip(values, loop.numbers)
                }
                if len(axes) == 1 and None not in axes:
                    axis = axes.pop()
                    self.loops[loop] = SizeOf(op.args[0], axis or 0, number_of(loop.length))
                    return axis
        return None

    def _is_made_of_pieces(self, op: Op, values: Sequence[Value]) -> bool:
        ops = [each.producer for each in values if each.producer is not None]
        alone = len({*map(id, ops)}) == len(values)
        places = {[*map(id, each.made)].index(id(value)) for each, value in zip(ops, values) if alone}
        _together_unless(len(places) == 1 and len({len(each.made) for each in ops}) == 1)
        operands: list[Value] = []
        self._compare([(x.name, x.qualified, x.form, x.path, x.args, x.kwargs) for x in ops], operands)
        going = {each: self.axes[each] for each in operands}
        if not going:  # what each piece computes alike, of what is none of it
            asks = op.inner or op.name in RANDOM or has_lengths((op.args, op.kwargs), self.axes)
            return _together_unless(not asks)
        _together_unless(len({self.sizes[each] for each in going}) == 1 and not is_in_place(op.qualified))
        axis = axis_of_result(op, going, self.axes)
        for made in zip(*(each.made for each in ops)):
            self._take(made, axis)
        self.ops[op] = None
        return True

    def _compare(self, trees: Sequence[Any], operands: list[Value]) -> None:
        """Raises Together where trees differ in more than the piece; adds what goes on, of the first."""
        first = trees[0]
        if isinstance(first, Value):
            _together_unless(all(isinstance(each, Value) for each in trees))
            if _key(trees) not in self._known:
                raise _Before(trees)
            operands += [first] if self._known[_key(trees)] else []
            return
        if isinstance(first, (SizeOf, SizeOp)):
            operands = []  # it takes a size, and not the tensor
        nodes = [apart(each) for each in trees]
        kinds = [(type(tree), tree) if node is None else (node[0], len(node[1])) for tree, node in zip(trees, nodes)]
        _together_unless(all(each == kinds[0] for each in kinds))
        for each in zip(*(node[1] for node in nodes if node is not None)):
            self._compare(each, operands)

    def _take(self, values: Sequence[Value], axis: int) -> None:
        """Notes values of one piece after the other, which go on in a dimension."""
        first = values[0]
        _together_unless(self.axes.setdefault(first, axis) == axis)
        _together_unless(len({(*each.shape[:axis], *each.shape[axis + 1 :]) for each in values}) == 1)
        self.sizes[first] = sum(each.shape[axis] for each in values)
        self.every.update(dict.fromkeys(values, axis))
        self._known[_key(values)] = True


def _sliced_axis(op: Op | None, whole: Value, loop: Strided, start: int) -> int | None:
    """The dimension of a whole of which a call takes the slice of a round, and all else; None for another call."""
    if op is None or op.name not in ("getitem", "setitem") or op.args[0] is not whole:
        return None
    index = taking.index_of(op)
    places = [place for place, item in enumerate(index) if item not in (slice(None), Ellipsis)]
    item = index[places[0]] if len(places) == 1 else None
    axis = taking.axis_of(whole, index, places[0]) if isinstance(item, slice) else None
    if axis is None or not isinstance(item, slice) or whole.shape[axis] != number_of(loop.length):
        return None
    stop, end = item.stop, start + loop.numbers.step
    if isinstance(stop, SizeOp) and stop.symbol == "min":
        stop = end if {*map(size_key, stop.operands)} == {size_key(end), size_key(loop.length)} else None
    return axis if item.step in (None, 1) and (item.start or 0, stop) == (start, end) else None


def _joined(op: Op) -> tuple[Sequence[Value], int]:
    values = op.args[0] if op.args and isinstance(op.args[0], (list, tuple)) else ()
    dim = JOINING[op.name]
    _together_unless(bool(values) and all(isinstance(each, Value) for each in values))
    _together_unless(dim is None or all(len(each.shape) > 1 for each in values))
    return values, argument(op, 1, "dim", argument(op, 1, "axis", 0)) if dim is None else dim


def _is_written(value: Any) -> bool:
    return isinstance(value, Value) and value.producer is not None and value.producer.form == "setitem"


def _fill(values: Sequence[Any], target: Value, axis: int) -> bool:
    """Whether what is written has the shapes of the slices, so that nothing of it is repeated or converted."""
    rest = (target.dtype, *target.shape[:axis], None, *target.shape[axis + 1 :])
    same = (isinstance(x, Value) and rest == (x.dtype, *x.shape[:axis], None, *x.shape[axis + 1 :]) for x in values)
    return all(same) and sum(x.shape[axis] for x in values) == target.shape[axis]


def _together_unless(alone: bool) -> bool:
    """False, and raises Together unless it holds."""
    if not alone:
        raise Together
    return False


def _are_same(values: Sequence[Value], others: Sequence[Value]) -> bool:
    return [*map(id, values)] == [*map(id, others)]


def with_wholes(root: Call, results: Any, record: Record) -> Any:
    """Makes one call of those of all pieces, wherever these are joined; the results of forward, as that gives them."""
    if not record.parted:
        return results
    loops: dict[Strided, SizeOf] = {}
    order = [op for op in operations(root) if not isinstance(op, Mark)]
    order = order[max(len(order) - record.calls, 0) :]  # without what stands before all others
    places = {op: place for place, op in enumerate(order)}
    for group in _groups(root, record, places):
        found = Pieces(record, places)
        with suppress(Together):  # which others may have changed
            for op in group:
                found.join(op)
            if _are_alone(root, results, found):
                results = _made_whole(root, results, found)
                loops |= found.loops
                for loop, size in found.loops.items():
                    record.guards.append(replace(record.parted[loop], left=size, right=loop.length))
    needed = _needed(root, results, record)
    gone: set[int] = set()
    for parts, guard in record.parted.items():
        if isinstance(parts, Strided):
            later = parts.later if parts in loops else None
            alone = later is not None and needed.keys().isdisjoint(order[later.start : later.stop])
        else:  # how it goes on after one part is not seen
            alone = len(parts.made) > 1 and parts not in needed
        if alone:
            gone.add(id(guard))
    record.guards[:] = [None if id(guard) in gone else guard for guard in record.guards]  # pyright: ignore
    return results


def _groups(root: Call, record: Record, places: Mapping[Op, int]) -> Iterator[list[Op]]:
    """What is joined of pieces, together with what else is of these."""
    groups: list[tuple[set[Value], list[Op]]] = []
    for op in operations(root):
        if op not in places or (op.name not in JOINING and op.form != "setitem"):
            continue
        found = Pieces(record, places)
        try:
            found.join(op)
        except Together:
            continue
        same = [each for each in groups if not each[0].isdisjoint(found.wholes)]
        groups = [each for each in groups if each not in same]
        firsts = {*found.wholes}.union(*(each[0] for each in same))
        groups.append((firsts, [*(other for each in same for other in each[1]), op]))
    return iter([group for _, group in groups])


def _needed(root: Call, results: Any, record: Record) -> dict[Op, None]:
    asked = [value for guard in record.guards for value in values_in((guard.left, guard.right))]
    return operations_for(root, [*values_in(results), *asked], lambda value: value)


def _are_alone(root: Call, results: Any, found: Pieces) -> bool:
    """Whether nothing else takes what the first pieces become, or asks how long a piece is."""
    if any(has_lengths((guard.left, guard.right), found.every) for guard in found.record.guards):
        return False
    own = {**found.ops, **found.joins, **found.writes}
    changed = {*found.axes, *(op.results for op in found.writes if op not in found.joins)}
    others = (op for op in _needed(root, results, found.record) if op not in own)
    taken = {*values_in(results), *found.beside, *(value for op in others for value in op.taken)}
    return changed.isdisjoint(taken)


def _made_whole(root: Call, results: Any, found: Pieces) -> Any:
    for value, length in found.sizes.items():
        axis = found.axes[value]
        value.shape = (*value.shape[:axis], length, *value.shape[axis + 1 :])
    joined = {op.results: value for op, value in found.joins.items()}
    for whole, value in joined.items():
        value.name = whole.name or value.name

    def image(tree: Any) -> Any:
        if isinstance(tree, Value):
            value = joined.get(tree, tree)
            return found.wholes.get(value, value)
        node = apart(tree)
        if node is None:
            return tree
        new = rejoined(tree, [image(each) for each in node[1]])
        return replace(new, number=new.value.shape[new.axis]) if isinstance(new, SizeOf) else new

    change_trees(root, image)
    record = found.record
    new = {id(each): replace(each, left=image(each.left), right=image(each.right)) for each in record.guards}
    record.parted = {op: new[id(guard)] for op, guard in record.parted.items()}
    for loop in record.parted:
        if isinstance(loop, Strided):
            loop.length = image(loop.length)
    record.guards[:] = [new[id(each)] for each in record.guards]
    return image(results)
