"""Pooling by slices, for what IPoolingLayer does not take or takes in more launches."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from ..common import L, SizeLike, Tensor, UnsupportedError, is_static, torch
from ..operands import as_tensor, binary, combined
from .extent import Windows


def integer_average(windows: Windows, count_include_pad: bool, divisor_override: int | None) -> Tensor:
    """The sum by slices, divided with truncation: IPoolingLayer takes no integers."""
    length = [windows.length(axis) for axis in windows.axes]
    total = by_slices(windows, "SUM", as_tensor(0, windows.x.network, windows.x.dtype))
    if divisor_override is not None:
        return binary(total, divisor_override, "DIV", total.dtype)
    return L.elementwise(total, counts_of(windows, length, padding=count_include_pad), "DIV")


def counts_of(windows: Windows, length: list[SizeLike], *, padding: bool) -> Tensor:
    """The number of elements of each window that are in the input (or its padding), (1, 1, *counts)."""
    network, dtype = windows.x.network, windows.x.dtype

    def along(axis: int) -> Tensor:
        number, pad, step = windows.count(axis), windows.padding[axis], windows.stride[axis]
        start = L.linspace(network, (number,), -pad, [step])
        end = binary(start, float(windows.size[axis]), "SUM")
        end = binary(end, as_tensor(length[axis] + (pad if padding else 0), network, torch.float32), "MIN")
        start = start if padding else binary(start, 0.0, "MAX")
        shape = [number if other == axis + 2 else 1 for other in range(windows.x.ndim)]
        return L.shuffle(L.cast(L.elementwise(end, start, "SUB"), dtype), reshape=shape)

    return combined(map(along, windows.axes), "PROD")


def by_slices(windows: Windows, op: str, padding: Tensor) -> Tensor:
    """Each side of the window in turn, by slices that start at each of its elements.

    IPoolingLayer takes no dilation, no integers.
    """
    x = windows.x
    for axis in windows.axes:
        if windows.size[axis] == windows.stride[axis] == 1 and not windows.padding[axis]:
            continue
        x = combined((_offset(x, windows, {axis: k}, padding) for k in range(_static(windows.size[axis]))), op)
    return x


def lowest_of(x: Tensor) -> Tensor:
    value = -math.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).min
    return as_tensor(value, x.network, x.dtype)


def _static(size: SizeLike) -> int:
    if not isinstance(size, int):
        raise UnsupportedError(f"this pooling needs a window of static size, not {size}")
    return size


def _offset(x: Tensor, windows: Windows, offsets: dict[int, int], lowest: Tensor) -> Tensor:
    """The elements at ``offsets`` (by spatial axis) of all windows; the other dimensions whole."""
    start, size, stride = [0] * x.ndim, list(x.shape), [1] * x.ndim
    inside = True
    for axis, k in offsets.items():
        start[2 + axis] = k * windows.dilation[axis] - windows.padding[axis]
        size[2 + axis], stride[2 + axis] = windows.count(axis), windows.stride[axis]
        inside = inside and not windows.padding[axis] and not windows.ceil_mode
    return L.slice(x, start, size, stride, "STRICT_BOUNDS" if inside else "FILL", None if inside else lowest)


def with_indices(windows: Windows) -> tuple[Tensor, Tensor]:
    """Maxima, and where they are in the flattened spatial dimensions.

    The elements of a window along a new dimension.
    """
    x, network = windows.x, windows.x.network
    lowest = lowest_of(x)
    places = list(itertools.product(*(range(_static(size)) for size in windows.size)))
    parts = [_offset(x, windows, dict(enumerate(place)), lowest) for place in places]
    stacked = L.concatenation([L.unsqueeze(part, [x.ndim]) for part in parts], x.ndim)
    values, chosen = L.topk(stacked, 1, x.ndim, "MAX", indices_dtype=torch.int64)
    values, chosen = L.squeeze(values, [x.ndim]), L.squeeze(chosen, [x.ndim])
    # The flat index is linear in the window's number and in the element's place within the window.
    below: list[SizeLike] = [1]
    for axis in reversed(windows.axes):
        below.insert(0, below[0] * windows.length(axis))
    steps = below[1:]
    counts = tuple(windows.count(axis) for axis in windows.axes)
    first: SizeLike = 0
    for axis in windows.axes:
        first = first - steps[axis] * windows.padding[axis]
    deltas = [step * windows.stride[axis] for axis, step in enumerate(steps)]
    base = L.linspace(
        network, counts, as_tensor(first, network, torch.int64), _vector(network, deltas), dtype=torch.int64
    )
    table: list[SizeLike] = []
    for place in places:
        offset: SizeLike = 0
        for axis, k in enumerate(place):
            offset = offset + steps[axis] * (k * windows.dilation[axis])
        table.append(offset)
    within = L.gather(_vector(network, table), chosen)
    return values, binary(within, base, "SUM")


def _vector(network: Any, sizes: Sequence[SizeLike]) -> Tensor:
    """Sizes as an int64 vector."""
    if is_static(sizes):
        return network.constant(torch.tensor(sizes, dtype=torch.int64))
    return L.concatenation([L.unsqueeze(as_tensor(size, network, torch.int64), [0]) for size in sizes], 0)
