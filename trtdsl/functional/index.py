"""Indexing with ints, slices, None and Ellipsis, as Python and torch have it."""

from __future__ import annotations

from typing import Any

from .. import layers as L
from ..errors import DefinitionError, ShapeError, UnsupportedError
from ..network import operation
from ..shape import Size, SizeLike, bounds, size_max, size_min
from ..tensor import Tensor


@operation
def getitem(input: Tensor, index: Any) -> Tensor:
    """``input[index]`` for ints, slices (strided too), None, Ellipsis and Sizes: ISliceLayer and IShuffleLayer.

    >>> x = td.Network().input("x", ("N", 8, 5))
    >>> x[:, 1:-1:2, None, -1].shape
    (N, 3, 1)
    """
    items = list(index) if isinstance(index, tuple) else [index]
    for item in items:
        if not (item is None or item is Ellipsis or isinstance(item, (int, slice, Size))):
            raise UnsupportedError(f"indexing with {type(item).__name__}: use F.index_select or F.gather")
    used = sum(1 for item in items if item is not None and item is not Ellipsis)
    if used > input.ndim:
        raise ShapeError(f"{used} indices for a tensor of {input.ndim} dimensions")
    ellipses = [place for place, item in enumerate(items) if item is Ellipsis]
    if len(ellipses) > 1:
        raise DefinitionError("an index can have one Ellipsis")
    place = ellipses[0] if ellipses else len(items)
    items[place : place + 1] = [slice(None)] * (input.ndim - used)

    starts: list[SizeLike] = []
    sizes: list[SizeLike] = []
    strides: list[SizeLike] = []
    result: list[SizeLike] = []
    for item in items:
        if item is None:
            result.append(1)
            continue
        length = input.shape[len(starts)]
        if isinstance(item, slice):
            start, size, stride = slice_bounds(item, length)
            result.append(size)
        else:
            start, size, stride = index_in(item, length), 1, 1
        starts.append(start)
        sizes.append(size)
        strides.append(stride)
    whole = all(s == 0 and st == 1 for s, st in zip(starts, strides, strict=True)) and tuple(sizes) == input.shape
    picked = input if whole else L.slice(input, starts, sizes, strides)
    return L.shuffle(picked, reshape=result)


def index_in(index: SizeLike, length: SizeLike) -> SizeLike:
    """The index from the start; ShapeError when it is surely outside."""
    position = index + length if isinstance(index, int) and index < 0 else index
    if bounds(position)[1] < 0 or bounds(length - position)[1] <= 0:
        raise ShapeError(f"index {index} is out of bounds for a dimension of size {length}")
    return position


def slice_bounds(item: slice, length: SizeLike) -> tuple[SizeLike, SizeLike, SizeLike]:
    """Start, number of elements and stride of a Python slice of a dimension."""
    step = 1 if item.step is None else item.step
    if not isinstance(step, int) or step == 0:
        raise DefinitionError(f"a slice's step must be an int other than 0, not {step}")
    if isinstance(length, int) and all(part is None or isinstance(part, int) for part in (item.start, item.stop)):
        chosen = range(length)[item]
        return (chosen.start if len(chosen) else 0), len(chosen), step
    if step > 0:
        start = _clamp(item.start, 0, 0, length, length)
        stop = _clamp(item.stop, length, 0, length, length)
        count = size_max(stop - start + (step - 1), 0) // step
    else:
        start = _clamp(item.start, length - 1, -1, length - 1, length)
        stop = length * 0 - 1 if item.stop is None else _clamp(item.stop, -1, -1, length - 1, length)
        count = size_max(start - stop + (-step - 1), 0) // -step
    return start, count, step


def _clamp(part: Any, default: SizeLike, low: SizeLike, high: SizeLike, length: SizeLike) -> SizeLike:
    if part is None:
        return default
    if isinstance(part, int) and part < 0:
        part = part + length
    return size_max(size_min(part, high), low)
