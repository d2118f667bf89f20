"""Indexing with square brackets, as Python and torch have it."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...sizes.size import Size, SizeLike, bounds, from_front, product, size_max, size_min
from ..common import DefinitionError, L, Network, Shape, ShapeError, Tensor, UnsupportedError, np, operation, torch
from ..operands import align, as_tensor, choose


@operation
def getitem(input: Tensor, index: Any) -> Tensor:
    """``input[index]`` as Python and torch have it.

    The index is made of ints, slices, None, Ellipsis, Sizes, and tensors or lists of indices.

    ISliceLayer and IShuffleLayer; IGatherLayer for tensors of integers (ND for several of them), and INonZeroLayer
    besides for tensors of bool, whose result has a size that depends on data.

    >>> x = net.input("x", ("N", 8, 5))
    >>> x[:, 1:-1:2, None, -1].shape
    (N, 3, 1)
    """
    items, tensors = split_index(input, index)
    if any(place is not None for place in tensors):
        remaining = getitem(input, tuple(items))
        flat = merged(remaining, as_indices(remaining, tensors))
        return L.gather(flat.x, flat.places, flat.axis)
    spans = spans_of(input, items)
    starts, sizes, strides, _ = zip(*spans, strict=True) if spans else ((), (), (), ())
    whole = all(map(covers, spans, input.shape))
    return L.shuffle(input if whole else L.slice(input, starts, sizes, strides), reshape=view_shape(items, spans))


def split_index(x: Tensor, index: Any) -> tuple[list[Any], list[Tensor | None]]:
    """The ints, slices and None of an index, an item for each dimension, and the tensors, of what these leave.

    As torch does it: ints, slices and None first. The second list has a tensor or None for each dimension of that, and
    one mask for as many as it has.
    """
    is_several = isinstance(index, list) and any(x is None or x is Ellipsis or isinstance(x, slice) for x in index)
    given = list(index) if isinstance(index, tuple) or is_several else [index]  # torch takes such lists as tuples
    items = [_as_tensor(item, x.network) for item in given]
    for item in items:
        if not (item is None or item is Ellipsis or isinstance(item, (int, slice, Size, Tensor))):
            raise UnsupportedError(f"indexing with {type(item).__name__}: use ints, slices, None, Ellipsis or tensors")
    used = sum(_width(item) for item in items)
    if used > x.ndim:
        raise ShapeError(f"{used} indices for a tensor of {x.ndim} dimensions")
    ellipses = [place for place, item in enumerate(items) if item is Ellipsis]
    if len(ellipses) > 1:
        raise DefinitionError("an index can have one Ellipsis")
    place = ellipses[0] if ellipses else len(items)
    items[place : place + 1] = [slice(None)] * (x.ndim - used)
    basic: list[Any] = []
    left: list[Tensor | None] = []
    for item in items:
        if isinstance(item, Tensor):
            basic += [slice(None)] * _width(item) if _width(item) else [None]
            left.append(item if _width(item) else L.unsqueeze(item, [0]))
        else:
            basic.append(item)
            if not isinstance(item, (int, Size)):
                left.append(None)
    return basic, left


def _as_tensor(item: Any, network: Network) -> Any:
    """Numbers in a list, a tuple, a range or an array as a tensor of indices, a bool as one; others as they are."""
    if isinstance(item, range) or (isinstance(item, list) and not item):
        item = torch.tensor([*item], dtype=torch.int64)
    elif isinstance(item, (list, tuple)) and any(isinstance(each, (Tensor, Size)) for each in item):
        numbers = [as_tensor(each, network, torch.int64) for each in item]
        return L.concatenation([L.shuffle(each, reshape=(1,)) for each in numbers], 0)
    elif isinstance(item, (list, tuple, bool)):
        item = torch.as_tensor(item)
    return as_tensor(item, network) if isinstance(item, (torch.Tensor, np.ndarray)) else item


def _width(item: Any) -> int:
    """How many dimensions of the tensor an item indexes."""
    if isinstance(item, Tensor):
        return item.ndim if item.dtype == torch.bool else 1
    return 0 if item is None or item is Ellipsis else 1


def as_indices(x: Tensor, items: Sequence[Any]) -> list[Tensor | None]:
    """One tensor of integers, or None, for each dimension: a mask becomes the positions where it holds."""
    places: list[Tensor | None] = []
    for item in items:
        if item is None:
            places.append(None)
            continue
        index = as_tensor(item, x.network)
        if index.dtype == torch.bool:
            found = places_where(index)
            for axis, size in enumerate(index.shape):
                what = f"the sizes of dimension {len(places)} and of the mask"
                x.network.constraints.equal(x.shape[len(places)], size, what, x.network.current_operation)
                places.append(found[axis])
        elif index.dtype in (torch.int32, torch.int64):
            places.append(from_start(index, x.shape[len(places)]))
        else:
            raise DefinitionError(f"tensors of indices are of int32, int64 or bool, not {index.dtype}")
    return places[: x.ndim]


def places_where(mask: Tensor) -> Tensor:
    """The columns of L.non_zero, the same ones each time: what one mask chooses of several tensors has one size."""
    return mask.network.shared(("places", mask), lambda: L.non_zero(mask, torch.int64))


def from_start(index: Tensor, length: SizeLike) -> Tensor:
    """Indices with negative ones counted from the end; those that are known to be fine as they are."""
    if index.is_constant and not bool((index.data < 0).any()):
        return index
    return choose(index < 0, index + as_tensor(length, index.network, index.dtype), index, index.dtype)


class Merged(NamedTuple):
    """A tensor with the dimensions that are indexed as one, and the indices of that one."""

    x: Tensor
    axis: int
    """The dimension, which stands where torch's result has those of the indices."""
    places: Tensor
    order: list[int]
    """In which the tensor's dimensions were put before; their own, where those that are indexed are neighbours."""


def merged(x: Tensor, places: Sequence[Tensor | None]) -> Merged:
    """``x`` and one tensor of indices, for a tensor of indices or None for each dimension."""
    used = [axis for axis, place in enumerate(places) if place is not None]
    order, axis = list(range(x.ndim)), used[0]
    if used != list(range(axis, axis + len(used))):
        order, axis = [*used, *(other for other in order if other not in used)], 0
    moved = L.shuffle(x, order)
    lengths = moved.shape[axis : axis + len(used)]
    index, *others = align([L.cast(place, torch.int64) for place in places if place is not None])
    for other, length in zip(others, lengths[1:], strict=True):
        index = index * as_tensor(length, x.network, torch.int64) + other
    flat = L.shuffle(moved, reshape=(*moved.shape[:axis], product(lengths), *moved.shape[axis + len(used) :]))
    return Merged(flat, axis, index, order)


class Span(NamedTuple):
    """The part of one dimension that an index chooses; ``kept`` says whether ``x[index]`` has the dimension."""

    start: SizeLike
    length: SizeLike
    step: Any
    kept: bool = True


def spans_of(x: Tensor, basic: Sequence[Any]) -> list[Span]:
    """The part of each dimension that the ints, slices and None of an index choose."""
    spans: list[Span] = []
    for item in basic:
        if item is None:
            continue
        length = x.shape[len(spans)]
        if isinstance(item, slice):
            spans.append(Span(*slice_bounds(item, length)))
        else:
            spans.append(Span(index_in(item, length, x.network), 1, 1, kept=False))
    return spans


def view_shape(basic: Sequence[Any], spans: Sequence[Span]) -> Shape:
    """The shape of ``x[basic]``."""
    left = iter(spans)
    sizes = [1 if item is None else span.length if (span := next(left)).kept else None for item in basic]
    return tuple(size for size in sizes if size is not None)


def covers(span: Span, length: SizeLike) -> bool:
    """Whether it is the whole of a dimension of that length."""
    return span.step == 1 and span.start == 0 and span.length == length


def index_in(index: SizeLike, length: SizeLike, network: Network) -> SizeLike:
    """The index from the start; ShapeError when it is outside at every size, a constraint when at some."""
    position = from_front(index, length)
    if bounds(position)[1] < 0 or bounds(length - position)[1] <= 0:
        raise ShapeError(f"index {index} is out of bounds for a dimension of size {length}")
    network.constraints.inside(position, 1, length, network.current_operation)
    return position


def slice_bounds(item: slice, length: SizeLike) -> tuple[SizeLike, SizeLike, SizeLike]:
    """Start, number of elements and stride of a Python slice of a dimension."""
    step = 1 if item.step is None else item.step
    rises = isinstance(step, Size) and bounds(step)[0] > 0
    if not rises and (not isinstance(step, int) or step == 0):
        raise DefinitionError(f"a slice's step must be an int other than 0, or a Size above 0, not {step}")
    item = slice(_bound(item.start), _bound(item.stop), step)
    if isinstance(length, int) and all(part is None or isinstance(part, int) for part in (item.start, item.stop, step)):
        chosen = range(length)[item]
        return (chosen.start if len(chosen) else 0), len(chosen), step
    sign = 1 if rises or step > 0 else -1
    low, high = (0, length) if sign > 0 else (-1, length - 1)
    first, last = (low, high)[::sign]
    start, stop = (
        default if part is None else size_max(size_min(from_front(part, length), high), low)
        for part, default in ((item.start, first), (item.stop, last))
    )
    return start, size_max((stop - start) * sign + (step * sign - 1), 0) // (step * sign), step


def _bound(part: Any) -> Any:
    if part is None or isinstance(part, Size):
        return part
    try:
        return operator.index(part)
    except TypeError:
        text = f"a slice goes from int to int, or Size, such as x.shape[1] // 2, not to {part!r}"
        raise DefinitionError(text) from None
