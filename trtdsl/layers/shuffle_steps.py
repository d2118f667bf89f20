"""The steps of a shuffle: how they compose, and in which order of memory their result lies."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from ..sizes.shape import Shape
from ..sizes.size import is_static

T = TypeVar("T")


class ShuffleSteps(NamedTuple):
    """What one IShuffleLayer does: it transposes, reshapes (None: it does not) and transposes again."""

    first: tuple[int, ...]
    reshape: Shape | None
    second: tuple[int, ...]

    def after(self, earlier: ShuffleSteps) -> ShuffleSteps | None:
        """One layer's steps for two layers' that follow one another; None where it takes two.

        >>> heads = ShuffleSteps((0, 1), (8, 4, 16), (1, 0, 2))  # a reshape and a transpose
        >>> ShuffleSteps((1, 0, 2), (8, 64), (0, 1)).after(heads)  # and back
        ShuffleSteps(first=(0, 1), reshape=(8, 64), second=(0, 1))
        >>> ShuffleSteps((0, 1, 2), (32, 16), (0, 1)).after(heads) is None
        True
        """
        if earlier.reshape is None:
            return ShuffleSteps(permuted(earlier.first, self.first), self.reshape, self.second)
        if self.reshape is None:
            return ShuffleSteps(earlier.first, earlier.reshape, permuted(earlier.second, self.first))
        between = [axis for axis in permuted(earlier.second, self.first) if earlier.reshape[axis] != 1]
        return ShuffleSteps(earlier.first, self.reshape, self.second) if between == sorted(between) else None

    def on(self, shape: Shape) -> ShuffleSteps:
        """The same for a tensor of that shape, without the reshape where it changes nothing."""
        if self.reshape is not None and self.reshape != permuted(shape, self.first):
            return self
        return ShuffleSteps(permuted(self.first, self.second), None, tuple(range(len(self.second))))

    def result(self, shape: Shape) -> Shape:
        """The shape that comes out of a tensor of that shape."""
        return permuted(shape, self.first) if self.reshape is None else permuted(self.reshape, self.second)

    def transposed_first(self, shape: Shape) -> ShuffleSteps:
        """The same for a tensor of that shape with all transposing before the reshape, where that is possible.

        >>> ShuffleSteps((0, 1, 2), (2, 3, 4, 5), (0, 3, 1, 2)).transposed_first((2, 12, 5))
        ShuffleSteps(first=(0, 2, 1), reshape=(2, 5, 3, 4), second=(0, 1, 2, 3))
        """
        identity = tuple(range(len(self.second)))
        if self.reshape is None or self.second == identity:
            return self
        groups = regrouped(permuted(shape, self.first), self.reshape)
        if groups is None:
            return self
        place = {axis: number for number, (_, after) in enumerate(groups) for axis in after}
        runs = [place[axis] for axis in self.second]
        sequence = [number for k, number in enumerate(runs) if k == 0 or number != runs[k - 1]]
        inside = all(a < b for a, b, p, q in zip(self.second, self.second[1:], runs, runs[1:]) if p == q)
        if sorted(sequence) != list(range(len(groups))) or not inside:
            return self
        first = tuple(self.first[axis] for number in sequence for axis in groups[number][0])
        return ShuffleSteps(first, permuted(self.reshape, self.second), identity)

    def along(self, shape: Shape, order: tuple[int, ...]) -> ShuffleSteps:
        """The same for a tensor of that shape whose dimensions lie in memory in that order, reshaped as they lie there.

        A transpose that follows the order moves nothing, and a reshape of what then lies as it is written is a view;
        what is left is the transpose after it. The steps themselves where a reshape tears the order apart.

        >>> ShuffleSteps((0, 1, 2, 3), (2, 64, 48), (0, 2, 1)).along((2, 64, 6, 8), (0, 2, 3, 1))  # channels last
        ShuffleSteps(first=(0, 2, 3, 1), reshape=(2, 48, 64), second=(0, 1, 2))
        """
        if self.reshape is None:
            return self
        lying = _as_they_lie(permuted(shape, self.first), self.reshape, tuple(map(self.first.index, order)))
        if lying is None:
            return self
        first = tuple(self.first[axis] for sources, _ in lying for axis in sources)
        if [axis for axis in first if shape[axis] != 1] == [axis for axis in self.first if shape[axis] != 1]:
            return self
        axes = [axis for _, results in lying for axis in results]
        return ShuffleSteps(first, permuted(self.reshape, axes), tuple(axes.index(axis) for axis in self.second))

    def merged_along(self, shape: Shape, order: tuple[int, ...]) -> tuple[ShuffleSteps, Shape, tuple[int, ...]] | None:
        """The same, but that the last dimension merges others in the order in which they lie in memory.

        Also the sizes of those, as they were merged, and the permutation of them. None where the last dimension merges
        none, or as they lie, or where more would have to move.

        >>> flat = ShuffleSteps((0, 1, 2, 3), (2, 3072), (0, 1))  # of what lies channels last
        >>> flat.merged_along((2, 64, 6, 8), (0, 2, 3, 1))
        (ShuffleSteps(first=(0, 2, 3, 1), reshape=(2, 3072), second=(0, 1)), (64, 6, 8), (1, 2, 0))
        """
        if self.reshape is None or not self.second:
            return None
        before, lies = permuted(shape, self.first), tuple(map(self.first.index, order))
        place = self.second[-1]
        sources = next(
            (sources for sources, results in regrouped(before, self.reshape) or () if results == (place,)), ()
        )
        merged = [axis for axis in sources if before[axis] != 1]
        lying = sorted(merged, key=lies.index)
        if lying == merged or not is_static(sizes := permuted(before, merged)):
            return None
        first = list(self.first)
        for axis, other in zip(merged, lying, strict=True):
            first[axis] = self.first[other]
        if _as_they_lie(permuted(shape, first), self.reshape, tuple(map(first.index, order))) is None:
            return None
        steps = ShuffleSteps(tuple(first), self.reshape, self.second)
        return steps, sizes, tuple(map(merged.index, lying))

    def order(self, shape: Shape, order: tuple[int, ...]) -> tuple[int, ...]:
        """In which order the result's dimensions lie in memory, where those of a tensor of that shape lie in ``order``.

        A reshape of dimensions that do not lie together copies: the result is row-major then.
        """
        lies = tuple(self.first.index(axis) for axis in order)
        if self.reshape is not None:
            lying = _as_they_lie(permuted(shape, self.first), self.reshape, lies)
            rows = range(len(self.reshape))  # dimensions are merged that do not lie together
            lies = tuple(rows if lying is None else (axis for _, results in lying for axis in results))
        return tuple(self.second.index(axis) for axis in lies)


Groups = list[tuple[tuple[int, ...], tuple[int, ...]]]


def regrouped(before: Shape, after: Shape) -> Groups | None:
    """Which dimensions of a reshape become which others, as small groups; None where sizes do not tell.

    >>> regrouped((2, 12, 5), (2, 3, 4, 5))
    [((0,), (0,)), ((1,), (1, 2)), ((2,), (3,))]
    """
    if 0 in before or 0 in after:
        return None
    groups: Groups = []
    i = j = 0
    while i < len(before) and j < len(after):
        ends = (1, 1) if before[i] == after[j] else _equal_parts(before[i:], after[j:])
        if ends is None:
            return None
        groups.append((tuple(range(i, i + ends[0])), tuple(range(j, j + ends[1]))))
        i, j = i + ends[0], j + ends[1]
    if i < len(before) or j < len(after):  # what is left is of size 1
        groups.append((tuple(range(i, len(before))), tuple(range(j, len(after)))))
    return groups


def _equal_parts(before: Shape, after: Shape) -> tuple[int, int] | None:
    """How many dimensions at the start of either have the same elements: the fewest; at least one of each."""
    parts = list(itertools.accumulate(before, operator.mul))
    for count, want in enumerate(itertools.accumulate(after, operator.mul), start=1):
        if want in parts:
            return parts.index(want) + 1, count
    return None


def _as_they_lie(before: Shape, after: Shape, lies: tuple[int, ...]) -> Groups | None:
    """The groups of a reshape in the order in which they lie in memory.

    None where dimensions of one do not lie together, or sizes do not tell the groups.
    """
    groups = regrouped(before, after)
    if groups is None:
        return None
    solid = [axis for axis in lies if before[axis] != 1]
    places: list[tuple[int, int]] = []
    start = -1
    for number, (sources, _) in enumerate(groups):
        whole = [axis for axis in sources if before[axis] != 1]
        start = solid.index(whole[0]) if whole else start  # what is of size 1 stays beside its neighbour
        if whole and solid[start : start + len(whole)] != whole:
            return None
        places.append((start, number))
    return [groups[number] for _, number in sorted(places)]


def permuted(values: Sequence[T], permutation: Sequence[int]) -> tuple[T, ...]:
    """The values in another order."""
    return tuple([values[place] for place in permutation])
