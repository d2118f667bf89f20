"""The sizes and the layouts of an einsum's values, from their labels alone."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from .equation import ITEM, Labels
from .plan import Axes

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
        self.labels = functools.cache(labels_of)
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


def labels_of(axes: Axes) -> Labels:
    """The labels of a value in the order in which its elements lie."""
    return tuple(itertools.chain.from_iterable(axes))


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
