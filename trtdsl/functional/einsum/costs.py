"""What the operations of an einsum's plan cost, from the labels of the values alone: the search compares these."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ...definition.input import MAX_DIMS
from .equation import ITEM, Labels
from .plan import Axes

# The cost of arithmetic relative to traffic: a GPU does this many operations in the time of moving one byte.
MATRIX_FLOPS_PER_BYTE = 64
VECTOR_FLOPS_PER_BYTE = 16
TILE = 16  # rows and columns of the smallest tile that a matrix product is computed in
FLAGGED = 0.9  # the most that TRANSPOSE flags cost, as a part of the cost of transposing the result
SCATTERED = 1.2  # a transposition that moves the innermost dimension reads or writes in small pieces
TILE_BYTES = 512  # the least cost of one matrix of a batch


class Price(NamedTuple):
    """What an operation makes and costs where an operand is no constant."""

    axes: Axes
    flops: int
    moved: int
    """Bytes."""
    cost: float


class Move(NamedTuple):
    """One Shuffle: dimensions permuted by ``first``, reshaped to ``axes``, permuted by ``second``."""

    first: tuple[int, ...] | None
    axes: Axes | None
    second: tuple[int, ...] | None
    price: Price


class Matrix(NamedTuple):
    """An operand of a matrix product: as (batch, free, inner), or as (batch, inner, free) where ``inner_first``."""

    axes: Axes
    inner_first: bool
    moved: bool
    """Whether its elements have to move."""


class Costs:
    """The costs of operations on values whose labels have these sizes, those to tune for."""

    def __init__(self, sizes: Mapping[str, int], dynamic: Iterable[str] = ()):
        self.sizes = sizes
        self.dynamic = frozenset(dynamic)
        self.trivial = frozenset(label for label, size in sizes.items() if size == 1) - self.dynamic
        # The search asks the same of a few values, again and again.
        self.elements = functools.cache(self.count)
        self.labels = functools.cache(self._labels)
        self.bytes_of = functools.cache(self._bytes_of)
        self.moves = functools.cache(self._moves)
        self.matrix = functools.cache(self._matrix)

    # -- facts ---------------------------------------------------------------------------------------------------------

    def count(self, labels: Iterable[str]) -> int:
        """The product of the labels' sizes."""
        return math.prod(map(self.sizes.__getitem__, labels))

    def _labels(self, axes: Axes) -> Labels:
        """The labels of a value in the order in which its elements lie."""
        return tuple(itertools.chain.from_iterable(axes))

    def core(self, labels: Labels) -> Labels:
        """The labels without those that are always 1, whose place does not affect where the elements lie."""
        trivial = self.trivial
        return tuple(label for label in labels if label not in trivial) if trivial else labels

    def _bytes_of(self, axes: Axes) -> int:
        """The bytes that a value takes."""
        return self.elements(self.labels(axes)) * ITEM

    # -- one operand ---------------------------------------------------------------------------------------------------

    def _moves(self, source: Axes, target: Axes) -> tuple[Move, ...]:
        """How a value gets other dimensions: by no operation, or one Shuffle; two where merged ones come apart."""
        if source == target:
            return ()
        labels, wanted = self.labels(source), self.labels(target)
        if self.core(labels) == self.core(wanted):
            return (self.move(source, target, axes=target, moves=False),)
        order = permutation(source, target)
        if order is not None:
            moved = tuple([source[axis] for axis in order])
            return (self.move(source, target, order, None if moved == target else target),)
        fine = _fine(labels, wanted)
        order = permutation(fine, target)
        assert order is not None
        moved = tuple([fine[axis] for axis in order])
        return (self.move(source, moved, None, fine, order), *self.moves(moved, target))

    def move(
        self,
        source: Axes,
        target: Axes,
        first: tuple[int, ...] | None = None,
        axes: Axes | None = None,
        second: tuple[int, ...] | None = None,
        *,
        moves: bool = True,
    ) -> Move:
        """A Shuffle; ``moves``: elements get other places."""
        moved = 2 * self.bytes_of(source) if moves else 0
        cost: float = moved
        if moves and self.core(self.labels(source))[-1:] != self.core(self.labels(target))[-1:]:
            cost *= SCATTERED
        return Move(first, axes, second, Price(target, 0, moved, cost))

    def reduction(self, source: Axes, labels: Iterable[str], *, fused: bool = False) -> tuple[tuple[int, ...], Price]:
        """The dimensions that a sum over ``labels`` takes away, and its price; ``fused``: the value is read as made."""
        axes = tuple(k for k, axis in enumerate(source) if set(labels).issuperset(axis))
        target = tuple(axis for k, axis in enumerate(source) if k not in axes)
        read, written = self.bytes_of(source), self.bytes_of(target)
        flops = read // ITEM if labels else 0
        moved = written if fused else read + written
        return axes, Price(target, flops, moved, moved + (0 if fused else flops / VECTOR_FLOPS_PER_BYTE))

    # -- two operands --------------------------------------------------------------------------------------------------

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

    def matrix_product(
        self, batch: Labels, rows: Labels, columns: Labels, inner: Labels, read: int, *, one_right: bool
    ) -> Price:
        """The product of matrices of ``read`` bytes; ``one_right``: one right matrix for all, so the batch is rows."""
        elements = self.elements
        matrices, m, n, k = elements(batch), elements(rows), elements(columns), elements(inner)
        results = matrices * m * n
        if one_right:
            m, matrices = m * matrices, 1
        moved = read + results * ITEM
        tiles = 2 * matrices * _round_up(m, TILE) * _round_up(n, TILE) * _round_up(k, TILE // 2)
        cost = moved + tiles / MATRIX_FLOPS_PER_BYTE + matrices * TILE_BYTES
        return Price((*[(label,) for label in batch], rows, columns), 2 * results * k, moved, cost)

    def flags(self, copied: int, product: Axes) -> float:
        """The cost of a product that transposes operands of ``copied`` bytes itself.

        TensorRT-RTX 1.7 copies them (its activation memory shows it), TensorRT need not. So the flags decide between
        operands, but never for a Shuffle that they can save.
        """
        return min(2 * copied, FLAGGED * 2 * self.bytes_of(product)) if copied else 0

    def aligned(self, a: Axes, b: Axes, order: Labels, contracted: Iterable[str]) -> tuple[Axes, Axes, Axes]:
        """The dimensions that two values and the product of their elements get, in the given order of labels."""
        mine, other = set(self.labels(a)), set(self.labels(b))
        groups: list[Labels] = [(label,) for label in order]
        if len(groups) > MAX_DIMS:
            summed = set(contracted)
            alike = itertools.groupby(order, key=lambda x: (x in mine, x in other, x in summed))
            groups = [tuple(group) for _, group in alike]
        x = tuple([axis if axis[0] in mine else () for axis in groups])
        y = tuple([axis if axis[0] in other else () for axis in groups])
        return x, y, tuple(groups)

    def elementwise_product(self, x: Axes, y: Axes, result: Axes, *, summed: bool) -> Price:
        """The product of elements; ``summed``: a sum follows, which reads it where it is made."""
        elements = self.elements(self.labels(result))
        moved = self.bytes_of(x) + self.bytes_of(y) + (0 if summed else elements * ITEM)
        cost = moved + (2 if summed else 1) * elements / VECTOR_FLOPS_PER_BYTE
        return Price(result, elements, moved, cost)

    def term(self, x: Axes, y: Axes, result: Axes, *, first: bool) -> Price:
        """A product that is one of a few to be added up; the first reads the operands."""
        elements = self.elements(self.labels(result))
        read = self.bytes_of(x) + self.bytes_of(y) if first else 0
        return Price(result, elements, read, read + 2 * elements / VECTOR_FLOPS_PER_BYTE)

    def sum_of_terms(self, result: Axes, *, last: bool) -> Price:
        """The sum of two of these products; the last one writes the result."""
        elements = self.elements(self.labels(result))
        written = elements * ITEM if last else 0
        return Price(result, elements, written, written)


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


@functools.lru_cache(maxsize=4096)
def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
