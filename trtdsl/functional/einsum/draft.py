"""A plan under construction: the operations so far, and what they and their values' layouts cost."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..common import MAX_DIMS, UnsupportedError
from .equation import ITEM, Labels, text
from .plan import Add, Axes, Diagonal, MatrixMultiply, Multiply, Operation, Reduce, Shuffle, Step, Take

# The cost of arithmetic relative to traffic: a GPU does this many operations in the time of moving one byte.
MATRIX_FLOPS_PER_BYTE = 64
VECTOR_FLOPS_PER_BYTE = 16
TILE = 16  # rows and columns of the smallest tile that a matrix product is computed in
TILE_BYTES = 512  # the least cost of one matrix of a batch
FLAGGED = 0.9  # the most that TRANSPOSE flags cost, as a part of the cost of transposing the result
ONE_ORDER = "to be multiplied in one order"
SCATTERED = 1.2  # a transposition that moves the innermost dimension reads or writes in small pieces


class Move(NamedTuple):
    """One Shuffle: dimensions permuted by ``first``, reshaped to ``axes``, permuted by ``second``."""

    first: tuple[int, ...] | None
    axes: Axes | None
    second: tuple[int, ...] | None
    target: Axes
    """What it gives."""
    moved: int
    """Bytes; 0 where all elements stay in their places."""
    cost: float


class Matrix(NamedTuple):
    """An operand of a matrix product: as (batch, free, inner), or as (batch, inner, free) where ``inner_first``."""

    axes: Axes
    inner_first: bool
    moved: bool
    """Whether its elements have to move."""


class Costs:
    """What values take whose labels have these sizes, those to tune for, and what it costs to rearrange them."""

    def __init__(self, sizes: Mapping[str, int], dynamic: Iterable[str] = ()):
        self.sizes = sizes
        self.dynamic = frozenset(dynamic)
        self.trivial = frozenset(label for label, size in sizes.items() if size == 1) - self.dynamic
        # The search asks the same of a few values, again and again.
        self.elements = functools.cache(self.count)
        self.labels: Callable[[Axes], Labels] = functools.cache(lambda axes: tuple(itertools.chain.from_iterable(axes)))
        self.bytes_of = functools.cache(lambda axes: self.elements(self.labels(axes)) * ITEM)
        self.moves = functools.cache(self._moves)
        self.matrix = functools.cache(self._matrix)

    def count(self, labels: Iterable[str]) -> int:
        """The product of the labels' sizes."""
        return math.prod(map(self.sizes.__getitem__, labels))

    def core(self, labels: Labels) -> Labels:
        """The labels without those that are always 1, whose place does not affect where the elements lie."""
        trivial = self.trivial
        return tuple(label for label in labels if label not in trivial) if trivial else labels

    def _moves(self, source: Axes, target: Axes) -> tuple[Move, ...]:
        """How a value gets other dimensions: by no operation, or one Shuffle; two where merged ones come apart."""
        if source == target:
            return ()
        labels, wanted = self.labels(source), self.labels(target)
        if self.core(labels) == self.core(wanted):
            return (Move(None, target, None, target, 0, 0),)
        order = permutation(source, target)
        if order is not None:
            moved = tuple([source[axis] for axis in order])
            return (Move(order, None if moved == target else target, None, target, *self._moved(source, target)),)
        fine = _fine(labels, wanted)
        order = permutation(fine, target)
        assert order is not None
        moved = tuple([fine[axis] for axis in order])
        return (Move(None, fine, order, moved, *self._moved(source, moved)), *self.moves(moved, target))

    def _moved(self, source: Axes, target: Axes) -> tuple[int, float]:
        moved = 2 * self.bytes_of(source)
        stays = self.core(self.labels(source))[-1:] == self.core(self.labels(target))[-1:]
        return moved, moved if stays else moved * SCATTERED

    def _matrix(self, axes: Axes, batch: Labels, free: Labels, inner: Labels) -> Matrix:
        """The value as an operand of a matrix product, in whichever of the two forms is there already."""
        lies, there = self.core(self.labels(axes)), set(self.labels(axes))
        before = tuple([label for label in batch if label in there])
        inner_first = lies == self.core((*before, *inner, *free))
        moved = not inner_first and lies != self.core((*before, *free, *inner))
        if moved:  # so that what lies closest together stays so
            inner_first = lies[-1] in free
        own = [(label,) if label in there else () for label in batch]
        return Matrix((*own, inner, free) if inner_first else (*own, free, inner), inner_first, moved)


def _fine(labels: Labels, target: Labels) -> Axes:
    """The labels apart, as far as the order of ``target`` asks for it."""
    place = {label: k for k, label in enumerate(target)}
    runs: list[list[str]] = []
    for label in labels:
        if runs and place[label] == place[runs[-1][-1]] + 1:
            runs[-1].append(label)
        else:
            runs.append([label])
    return tuple(map(tuple, runs))


def permutation(source: Axes, target: Axes) -> tuple[int, ...] | None:
    """The order of ``source``'s dimensions that gives the labels of ``target``; None where one must be torn apart.

    Dimensions of size 1 stand where ``target`` has one, as far as there are any.
    """
    place = {axis[0]: k for k, axis in enumerate(source) if axis}
    units = [k for k, axis in enumerate(source) if not axis]
    order: list[int] = []
    pending: list[str] = []
    for axis in target:
        if not axis and units:
            order.append(units.pop(0))
        for label in axis:
            if pending:
                if pending.pop(0) != label:
                    return None
                continue
            if label not in place:
                return None
            order.append(place[label])
            pending = list(source[place[label]][1:])
    return (*order, *units) if not pending else None


class Value(NamedTuple):
    """A value of a plan: an operand, or what an operation gives, which costs nothing where it is a constant."""

    axes: Axes
    constant: bool
    operation: Operation | None = None
    flops: int = 0
    moved: int = 0
    """Bytes."""
    note: str = ""
    """What is remarkable of the operation."""


class Draft:
    """The values so far, and the steps that made them; a search goes on from copies."""

    def __init__(self, costs: Costs, operands: Iterable[Value]):
        self.costs = costs
        self.values = tuple(operands)
        self.left = tuple(range(len(self.values)))
        """The values that are still to be used."""
        self.cost = 0.0
        self.layers = 0
        self._steps: tuple[tuple[str, tuple[int, ...], int, int, Mapping[str, Labels]], ...] = ()

    def copy(self) -> Draft:
        """The same, to be continued in another way."""
        other = Draft.__new__(Draft)
        other.__dict__.update(self.__dict__)
        return other

    def axes(self, value: int) -> Axes:
        """The dimensions of a value."""
        return self.values[value].axes

    def labels(self, value: int) -> Labels:
        """The labels of a value in the order in which its elements lie."""
        return self.costs.labels(self.values[value].axes)

    def step(
        self, kind: str, taken: tuple[int, ...], append: Callable[..., int], *how: Any, kinds: Mapping[str, Labels] = {}
    ) -> None:
        """Puts what ``append`` makes of values in their place; ``kinds`` are their labels by kind."""
        others = [value for value in self.left if value not in taken]
        place = len(others) if len(taken) > 1 else self.left.index(*taken)
        result = append(self, *taken, *how)
        self.left = (*others[:place], result, *others[place:])
        self._steps = (*self._steps, (kind, taken, result, len(self.values), kinds))

    def steps(self) -> Iterable[Step]:
        """The steps, with all that a plan says of them."""
        start = sum(value.operation is None for value in self.values)
        for kind, taken, result, end, kinds in self._steps:
            made = self.values[start:end]
            yield Step(
                kind=kind,
                operands=taken,
                result=result,
                labels=tuple(self.labels(value) for value in (*taken, result)),
                layers=tuple(type(value.operation).__name__ + " of constants" * value.constant for value in made),
                notes=tuple(self._said(value) for value in made if value.note),
                flops=sum(value.flops for value in made),
                bytes=sum(value.moved for value in made),
                elements=max((self.costs.elements(self.costs.labels(value.axes)) for value in made), default=0),
                **kinds,
            )
            start = end

    def _said(self, value: Value) -> str:
        assert isinstance(value.operation, Shuffle)
        cost = "free: a constant" if value.constant else f"{value.moved:,} bytes"
        source, result = text(self.labels(value.operation.x)), text(self.costs.labels(value.axes))
        return value.note.format(source=source, result=result, cost=cost)

    def _append(
        self,
        operation: Operation,
        axes: Axes,
        inputs: Sequence[int],
        flops: int = 0,
        moved: int = 0,
        cost: float | None = None,
        note: str = "",
    ) -> int:
        """The number of the operation's result; without a ``cost`` of its own, it costs the bytes that are moved."""
        if len(axes) > MAX_DIMS:
            where = text(self.costs.labels(axes))
            raise UnsupportedError(f"{where} needs {len(axes)} dimensions on the way; TensorRT has at most {MAX_DIMS}")
        constant = all(self.values[index].constant for index in inputs)
        if constant:
            flops = moved = 0
        else:
            self.cost += moved if cost is None else cost
            self.layers += 1
        self.values = (*self.values, Value(axes, constant, operation, flops, moved, note))
        return len(self.values) - 1

    def follow(self, value: int, order: Sequence[int]) -> int:
        """The value with its dimensions in the order in which they lie in memory; no element moves."""
        source = self.axes(value)
        target = tuple(source[axis] for axis in order)
        if target == source:
            return value
        note = "{source} lies in memory as {result}"
        return self._append(Shuffle(value, tuple(order)), target, [value], note=note)

    def arrange(self, value: int, target: Axes, why: str = "") -> int:
        """The value with the dimensions ``target``: no operation, or one Shuffle; two where merged ones come apart."""
        for first, axes, second, result, moved, cost in self.costs.moves(self.axes(value), target):
            note = f"transposes {{source}} to {{result}}{', ' * bool(why)}{why} ({{cost}})" if moved else ""
            value = self._append(Shuffle(value, first, axes, second), result, [value], 0, moved, cost, note)
        return value

    def diagonal(self, value: int, term: Labels) -> int:
        """The operand's value without repeated labels: ``term`` are the labels of its dimensions."""
        costs = self.costs
        kept = list(dict.fromkeys(term))
        first = tuple(axis for label in kept for axis, other in enumerate(term) if other == label)
        counts = tuple(term.count(label) for label in kept)
        units = {label for label, axis in zip(term, self.axes(value), strict=True) if not axis}
        axes: Axes = tuple(() if label in units else (label,) for label in kept)
        moved = 2 * costs.bytes_of(axes)
        if first != tuple(range(len(first))):
            moved += 2 * costs.count(label for label in term if label not in units) * ITEM
        return self._append(Diagonal(value, first, counts), axes, [value], 0, moved)

    def reduce(self, value: int, labels: Iterable[str], *, fused: bool = False) -> int:
        """The sum over ``labels``; dimensions of size 1 go with them. ``fused``: the value was made for this alone."""
        labels = set(labels)
        if any(labels & set(axis) and not labels >= set(axis) for axis in self.axes(value)):
            value = self.arrange(value, tuple((label,) for label in self.labels(value)))
        source = self.axes(value)
        axes = tuple(k for k, axis in enumerate(source) if labels.issuperset(axis))
        target = tuple(axis for k, axis in enumerate(source) if k not in axes)
        read, written = self.costs.bytes_of(source), self.costs.bytes_of(target)
        flops, moved = read // ITEM, written if fused else read + written
        cost = moved if fused else moved + flops / VECTOR_FLOPS_PER_BYTE
        return self._append(Reduce(value, axes), target, [value], flops, moved, cost)

    def multiply(self, a: int, b: int, order: Labels, contracted: Labels) -> int:
        """The product of elements in the given order of labels, then the sum over ``contracted``."""
        mine, other, summed = set(self.labels(a)), set(self.labels(b)), set(contracted)
        groups: Axes = tuple((label,) for label in order)
        if len(groups) > MAX_DIMS:
            alike = itertools.groupby(order, key=lambda x: (x in mine, x in other, x in summed))
            groups = tuple(tuple(group) for _, group in alike)
        one, two = (tuple(axis if axis[0] in own else () for axis in groups) for own in (mine, other))
        pair = [self.arrange(a, one, ONE_ORDER), self.arrange(b, two, ONE_ORDER)]
        elements = self.costs.elements(self.costs.labels(groups))
        # A sum that follows reads the product where it is made.
        moved = sum(map(self.costs.bytes_of, (one, two))) + (0 if summed else elements * ITEM)
        cost = moved + (2 if summed else 1) * elements / VECTOR_FLOPS_PER_BYTE
        value = self._append(Multiply(*pair, wide=bool(summed)), groups, pair, elements, moved, cost)
        return self.reduce(value, summed, fused=True) if summed else value

    def matrix_product(self, a: int, b: int, swap: bool, batch: Labels, m: Labels, n: Labels, k: Labels) -> int:
        """The product of matrices (batch, m, k) and (batch, k, n); ``swap``: the second operand is the left one.

        TensorRT-RTX 1.7 copies what TRANSPOSE flags turn (its activation memory shows it), TensorRT need not. So the
        flags decide between operands, but never for a Shuffle that they can save.
        """
        costs, values = self.costs, (b, a) if swap else (a, b)
        axes = [self.axes(value) for value in values]
        left, right = (costs.matrix(own, batch, free, k) for own, free in zip(axes, (m, n)))
        turned = left.inner_first, not right.inner_first
        copied = 0  # an operand that is moved anyway can be moved once more in the same go
        for value, own, matrix, flag in zip(values, axes, (left, right), turned):
            copied += costs.bytes_of(own) if flag and not matrix.moved and not self.values[value].constant else 0
        matrices, rows, columns, inner = (costs.elements(each) for each in (batch, m, n, k))
        results = matrices * rows * columns
        if not left.inner_first and not any(right.axes[:-2]):  # one right matrix for all, so the batch is rows
            rows, matrices = rows * matrices, 1
        tiles = 2 * matrices * _round_up(rows, TILE) * _round_up(columns, TILE) * _round_up(inner, TILE // 2)
        target: Axes = (*[(label,) for label in batch], m, n)
        moved = sum(map(costs.bytes_of, axes)) + results * ITEM
        flags = min(2 * copied, FLAGGED * 2 * costs.bytes_of(target)) if copied else 0
        cost = moved + tiles / MATRIX_FLOPS_PER_BYTE + matrices * TILE_BYTES + flags
        x, y = (
            self.arrange(value, matrix.axes, f"{free} and contracted together")
            for value, matrix, free in zip(values, (left, right), ("rows", "columns"))
        )
        return self._append(MatrixMultiply(x, y, *turned), target, [x, y], 2 * results * inner, moved, cost)

    def unrolled(self, a: int, b: int, order: Labels, label: str) -> int:
        """The sum over one small label, product by product: no value is greater than the result."""
        costs, axis, total = self.costs, order.index(label), -1
        one, two = (tuple((x,) if x in self.labels(value) else () for x in order) for value in (a, b))
        target: Axes = tuple(() if x == label else (x,) for x in order)
        x, y = self.arrange(a, one, ONE_ORDER), self.arrange(b, two, ONE_ORDER)
        elements, last = costs.elements(costs.labels(target)), costs.sizes[label] - 1
        for index in range(last + 1):
            parts = [
                self._append(Take(source, axis, index), (*axes[:axis], (), *axes[axis + 1 :]), [source])
                for source, axes in ((x, one), (y, two))
            ]
            # The first reads the operands, the last sum writes.
            read = 0 if index else sum(map(costs.bytes_of, (one, two)))
            cost = read + 2 * elements / VECTOR_FLOPS_PER_BYTE
            product = self._append(Multiply(*parts, wide=True), target, parts, elements, read, cost)
            written = elements * ITEM if index == last else 0
            pair = (total, product)
            total = self._append(Add(*pair), target, pair, elements, written) if index else product
        return self.arrange(total, tuple(each for each in target if each))


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
