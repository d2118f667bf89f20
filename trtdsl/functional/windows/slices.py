"""Pooling by slices, for what IPoolingLayer does not take or takes in more launches."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..common import L, SizeLike, Tensor, UnsupportedError, product, torch
from ..operands import along, as_tensor, binary, combined, on_axis, stretch
from .extent import Windows


def integer_average(windows: Windows) -> Tensor:
    """The sum by slices, divided with truncation: IPoolingLayer takes no integers."""
    count_include_pad, divisor_override = windows.divided
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
        last = as_tensor(length[axis] + (pad if padding else 0), network, torch.float32)
        end = binary(start + float(windows.size[axis]), last, "MIN")
        start = start if padding else binary(start, 0.0, "MAX")
        return on_axis(L.cast(end - start, dtype), axis + 2, windows.x.ndim)

    return combined(map(along, windows.axes), "PROD")


def by_slices(windows: Windows, op: str, padding: Tensor) -> Tensor:
    """Each side of the window in turn, by slices that start at each of its elements.

    IPoolingLayer takes no dilation, no integers.
    """
    x = windows.x
    for axis in windows.axes:
        if windows.size[axis] == windows.stride[axis] == 1 and not windows.padding[axis]:
            continue
        x = combined((_offset(x, windows, axis, k, padding) for k in range(_static(windows.size[axis]))), op)
    return x


def lowest_of(x: Tensor) -> Tensor:
    value = -math.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).min
    return as_tensor(value, x.network, x.dtype)


def _static(size: SizeLike) -> int:
    if not isinstance(size, int):
        raise UnsupportedError(f"this pooling needs a window of static size, not {size}")
    return size


def _offset(x: Tensor, windows: Windows, axis: int, k: int, lowest: Tensor) -> Tensor:
    """Element ``k`` along one side of all windows; the other dimensions whole."""
    inside = not windows.padding[axis] and not windows.ceil_mode
    mode, fill = ("STRICT_BOUNDS", None) if inside else ("FILL", lowest)
    start = k * windows.dilation[axis] - windows.padding[axis]
    return along(x, 2 + axis, start, windows.count(axis), windows.stride[axis], mode, fill)


def with_indices(windows: Windows) -> tuple[Tensor, Tensor]:
    """Maxima, and where they are in the flattened spatial dimensions; the padding is made of the lowest value."""
    x, network = windows.x, windows.x.network
    start, sizes, elements, positions = [0] * x.ndim, list(x.shape), [], []
    for axis in windows.axes:
        number, size, step = windows.count(axis), _static(windows.size[axis]), windows.stride[axis]
        start[2 + axis], sizes[2 + axis] = -windows.padding[axis], (number - 1) * step + windows.extent(axis)
        for first, found in ((0, elements), (-windows.padding[axis], positions)):
            found.append(L.linspace(network, (number, size), first, (step, windows.dilation[axis]), torch.int64))
    whole = not any(start) and tuple(sizes) == x.shape
    padded = x if whole else L.slice(x, start, sizes, mode="FILL", fill=lowest_of(x))
    return greatest(padded, elements, positions, x.shape[2:])


def greatest(
    x: Tensor, elements: Sequence[Tensor], positions: Sequence[Tensor], lengths: Sequence[SizeLike]
) -> tuple[Tensor, Tensor]:
    """The greatest element of each window, and where it is in flattened dimensions of these ``lengths``.

    ``elements`` (windows, size) are those of each spatial dimension of ``x``, ``positions`` what they are called.
    IGatherLayers put the elements of a window together, ITopKLayer chooses.
    """
    ndim, lead = len(elements), x.ndim - len(elements)
    picked, places = x, []
    for k in reversed(range(ndim)):  # the new dimension of each stands behind its own
        picked = L.gather(picked, elements[k], lead + k)
        step = as_tensor(product(lengths[k + 1 :]), x.network, torch.int64)
        others = [axis for axis in range(2 * ndim) if axis not in (k, ndim + k)]
        places.append(L.unsqueeze(positions[k] * step, others))
    outputs, size = [each.shape[0] for each in elements], product(each.shape[1] for each in elements)
    order = [*range(lead), *range(lead, picked.ndim, 2), *range(lead + 1, picked.ndim, 2)]
    kept = (*x.shape[:lead], *outputs)
    flat = L.shuffle(picked, order, (*kept, size))
    values, chosen = L.topk(flat, 1, flat.ndim - 1, "MAX", indices_dtype=torch.int64)
    table = L.shuffle(combined(places), reshape=(*(1,) * lead, *outputs, size))
    # IGatherLayer broadcasts nothing: the table is repeated for every channel.
    indices = L.gather(stretch(table, (*kept, size)), chosen, flat.ndim - 1, "ELEMENT")
    return L.squeeze(values, [flat.ndim - 1]), L.squeeze(indices, [flat.ndim - 1])
