"""Pooling over windows, also by slices, for what IPoolingLayer does not take or takes in more launches."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from ...core.errors import ShapeError, UnsupportedError
from ..common import Call, L, SizeLike, Tensor, channels_last, family, lowered, member, product, torch, way
from ..operands import along, as_tensor, binary, combined, on_axis, per_axis, scaled, stretch
from ..pointwise.activation import relu
from ..pointwise.arithmetic import pow
from ..pointwise.elementary import abs, sign
from ..products.folding import Maximum
from ..reducing.reduction import reduced
from .extent import Window, Windows, batched, windows_over

SLICES = 9  # elements of the largest window that is pooled by slices unasked
POOLED = "IPoolingLayer, which wants the channels fastest in memory"
SLICED = "slices that start at each element of a window, put together by IElementWiseLayers"
MOST_SLICES = 64  # elements of the largest window that is pooled by slices where there is another way


def _power(
    ndim: int,
    input: Tensor,
    norm_type: float,
    kernel_size: Window,
    stride: Window | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    mean = _average(ndim, pow(input, norm_type), kernel_size, stride, 0, ceil_mode, True, None)
    # torch takes the mean over the whole window, so that windows cut off by ceil_mode count as full ones.
    number = math.prod(per_axis(kernel_size, ndim, "kernel_size"))
    total = scaled(sign(mean) * relu(abs(mean)), number)
    return pow(total, 1.0 / norm_type)


lp_pool1d, lp_pool2d, lp_pool3d = family(
    _power,
    """``sum(input ** norm_type) ** (1 / norm_type)`` over windows of the last {}.

    The layers of :func:`pow` and :func:`avg_pool2d`.
    """,
    lp_pool1d=(1, "dimension"),
    lp_pool2d=(2, "two dimensions"),
    lp_pool3d=(3, "three dimensions"),
)


def _whole(windows: Windows, op: str) -> None:
    """Reduces the dynamic dimensions of which one window is the whole; static ones pool, for smaller engines."""
    dynamic = [axis for axis in windows.axes if not isinstance(windows.size[axis], int)]
    whole = [axis for axis in dynamic if not windows.padding[axis] and windows.size[axis] == windows.length(axis)]
    if whole:
        windows.x = reduced(windows.x, op, [2 + axis for axis in whole], True)
        for axis in whole:
            windows.size[axis] = windows.stride[axis] = windows.dilation[axis] = 1
    for axis, size in enumerate(windows.size):
        if not isinstance(size, int):
            raise UnsupportedError(
                f"a window of dynamic size {size} must span its dimension ({windows.length(axis)}), without padding"
            )


def _pool(windows: Windows, op: str, *, exclude_padding: bool) -> Tensor:
    x, pads = windows.x, [windows.after(axis) for axis in windows.axes]
    if all(size == 1 for size in (*windows.size, *windows.stride)) and not any((*pads, *windows.padding)):
        return x
    how = {"stride": windows.stride, "pre_padding": windows.padding, "post_padding": pads}
    result = L.pooling(x, op, windows.size, **how, exclude_padding=exclude_padding)
    # Padding for the worst case of a dynamic size gives a window too many for some sizes.
    if result.shape[2:] != windows.counts:
        result = L.slice(result, (0,) * result.ndim, (*result.shape[:2], *windows.counts))
    return result


@batched
def _average(
    ndim: int,
    input: Tensor,
    kernel_size: Window,
    stride: Window | None = None,
    padding: Window = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    lowering: str = "auto",
) -> Tensor:
    if divisor_override == 0:
        raise ShapeError("divisor_override must not be 0")
    cut = ceil_mode and divisor_override is None and not any(per_axis(padding, ndim, "padding"))
    how = {"cut": cut, "op": "AVG", "divided": (count_include_pad, divisor_override)}
    windows = windows_over(ndim, input, kernel_size, stride, padding, 1, ceil_mode, **how)
    return _pooled(ndim, "avg_pool", windows, not _in_last(windows.x), lowering)


def _why_not_pooling(x: Tensor, windows: Windows) -> str | None:
    if not x.dtype.is_floating_point:
        return "IPoolingLayer takes no integers"
    return None if windows.plain or windows.op == "AVG" else "IPoolingLayer has no dilation, and gives no indices"


def _why_not_whole(x: Tensor, windows: Windows) -> str | None:
    fits = windows.whole and windows.plain and x.dtype.is_floating_point
    return None if fits else "no window is the whole of its dimensions"


def _why_not_sliced(x: Tensor, windows: Windows) -> str | None:
    if _why_not_pooling(x, windows) is not None:
        return None
    if not windows.static or not 1 < math.prod(windows.size) <= MOST_SLICES:
        return f"slices are of static sizes, without ceil_mode, of windows of up to {MOST_SLICES} elements"
    counted = windows.op == "AVG" and (not windows.plain or any(windows.padding))
    return "padding that counts, and a divisor, are for IPoolingLayer" if counted else None


@way("max_pool", "pooling", POOLED, unless=_why_not_pooling)
def _pooled_maxima(x: Tensor, windows: Windows) -> Tensor:
    """Maxima of what is no layer yet become layers when all that uses them is known."""
    _whole(windows, "MAX")
    x, operation = windows.x, windows.x.network.current_operation

    def pool(x: Tensor) -> Tensor:
        return _pool(dataclasses.replace(windows, x=x), "MAX", exclude_padding=True)

    if not isinstance(x.node, Call) or x.ndim < 4:
        return pool(x)
    assert operation is not None
    return Maximum(operation, [x], x, pool).tensor((*x.shape[:2], *windows.counts), x.dtype, "a maximum", x.scope)


@way("avg_pool", "pooling", POOLED, unless=_why_not_pooling)
def _pooled_average(x: Tensor, windows: Windows) -> Tensor:
    """Averages by IPoolingLayer, and by IReduceLayer over dynamic dimensions that one window is the whole of."""
    count_include_pad, divisor_override = windows.divided
    padded = any(windows.padding)
    beyond = any(windows.after(axis) > windows.padding[axis] for axis in windows.axes)
    if divisor_override is not None:
        _whole(windows, "SUM")
        return scaled(_pool(windows, "AVERAGE", exclude_padding=False), math.prod(windows.size) / divisor_override)
    _whole(windows, "AVG")
    # IPoolingLayer leaves padding uncounted only where it is less than the window.
    too_wide = any(windows.after(axis) >= windows.size[axis] for axis in windows.axes)
    if beyond and ((padded and count_include_pad) or too_wide):
        average = _pool(windows, "AVERAGE", exclude_padding=False)
        counts = counts_of(windows, padding=count_include_pad)
        return average * binary(math.prod(windows.size), counts, "DIV", x.dtype)
    return _pool(windows, "AVERAGE", exclude_padding=beyond or not count_include_pad)


@way("max_pool avg_pool", "reduce", "IReduceLayer", unless=_why_not_whole)
def _reduced(x: Tensor, windows: Windows) -> Tensor:
    return L.reduce(x, windows.op, range(2, x.ndim), keep_dims=True)


@way("avg_pool", "slices", SLICED, unless=_why_not_sliced)
def _sliced_average(x: Tensor, windows: Windows) -> Tensor:
    """Sums of slices, of floats in float32; of integers, which IPoolingLayer does not take, divided with truncation."""
    count_include_pad, divisor_override = windows.divided
    if x.dtype.is_floating_point:
        windows.x = L.cast(x, torch.float32)
    total = by_slices(windows, "SUM", as_tensor(0, x.network, windows.x.dtype))
    if x.dtype.is_floating_point:
        return L.cast(total / math.prod(windows.size), x.dtype)
    if divisor_override is not None:
        return binary(total, divisor_override, "DIV", total.dtype)
    return L.elementwise(total, counts_of(windows, padding=count_include_pad), "DIV")


@member(_average, 2)
def avg_pool2d():
    """Averages over windows of the last two dimensions.

    IPoolingLayer AVERAGE (``lowering="pooling"``). Where the input does not lie channels last in memory, as it does
    after a convolution: IReduceLayer AVG of a window that is the whole (``"reduce"``); an ISliceLayer and an
    IElementWiseLayer SUM in float32 for each element along a side of the window, up to 9 elements without padding
    (``"slices"``).

    A window that spans its whole dimension may be dynamic. With ``divisor_override``, or where ``ceil_mode`` lets
    windows reach beyond counted padding, the average is multiplied afterwards (IElementWiseLayer).

    >>> x = net.input("x", ("N", 3, "H", 8))
    >>> F.avg_pool2d(x, (x.shape[2], 1)).shape
    (N, 3, 1, 8)
    """


avg_pool1d, avg_pool3d = family(
    _average,
    "Averages over windows of the last {}, as :func:`avg_pool2d`.",
    avg_pool1d=(1, "dimension"),
    avg_pool3d=(3, "three dimensions"),
)


@batched
def _maximum(
    ndim: int,
    input: Tensor,
    kernel_size: Window,
    stride: Window | None = None,
    padding: Window = 0,
    dilation: Window = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    lowering: str = "auto",
) -> Any:
    windows = windows_over(ndim, input, kernel_size, stride, padding, dilation, ceil_mode, indices=return_indices)
    return _pooled(ndim, "max_pool", windows, _maxima_by_slices(windows), lowering)


@way("max_pool", "slices", SLICED, unless=_why_not_sliced)
def _sliced_maxima(x: Tensor, windows: Windows) -> Any:
    return with_indices(windows) if windows.indices else by_slices(windows, "MAX", lowest_of(x))


@member(_maximum, 2)
def max_pool2d():
    """Maxima over windows of the last two dimensions.

    IPoolingLayer MAX (``lowering="pooling"``). IReduceLayer MAX of a window that is the whole of what does not lie
    channels last in memory, as it does after a convolution (``"reduce"``). An ISliceLayer and an IElementWiseLayer
    MAX for each element along a side of the window (``"slices"``) with ``dilation``, and for windows of up to 9
    elements without padding over what does not lie channels last or is bfloat16. ``return_indices`` takes an
    IGatherLayer of the elements along each side of a window, and ITopKLayer. ``"reduce"`` and ``"slices"`` may
    leave out NaN, where torch gives NaN.
    """


max_pool1d, max_pool3d = family(
    _maximum,
    "Maxima over windows of the last {}.",
    max_pool1d=(1, "dimension, as :func:`max_pool2d`"),
    max_pool3d=(3, "three dimensions, as :func:`max_pool2d`; four dimensions are (C, D, H, W)"),
)


def _pooled(ndim: int, function: str, windows: Windows, by_slices: bool, lowering: str) -> Any:
    """A pooling in one of its ways, without the dimension that windows over one have besides; ``by_slices``: whether
    these are the better way, if they can be."""
    few = windows.static and math.prod(windows.size) <= SLICES
    best = "slices" if by_slices and few else "reduce" if windows.whole and not _in_last(windows.x) else "pooling"
    result = lowered(function, lowering, windows.x, windows=windows, default=best)
    if ndim > 1:
        return result
    return tuple(L.squeeze(each, [2]) for each in result) if windows.indices else L.squeeze(result, [2])


def _in_last(x: Tensor) -> bool:
    """Whether the channels are the fastest dimension in memory."""
    return x.order == channels_last(x.ndim)


def _maxima_by_slices(windows: Windows) -> bool:
    """Whether slices are the better way of maxima: of what is not channels last or is bfloat16.

    The builder has the input and the result of IPoolingLayer rearranged then, or cast from and to float32; slices and
    maxima are one kernel, which what is around it may join. Where padding meets no stride, or what is not channels
    last, it makes more launches of them.
    """
    last, low = _in_last(windows.x), windows.x.dtype == torch.bfloat16
    if any(windows.padding):
        strided = all(step > 1 or not pad for step, pad in zip(windows.stride, windows.padding, strict=True))
        return last and low and strided
    return low or not last


def counts_of(windows: Windows, *, padding: bool) -> Tensor:
    """The number of elements of each window that are in the input (or its padding), (1, 1, *counts)."""
    network, dtype = windows.x.network, windows.x.dtype

    def along(axis: int) -> Tensor:
        number, pad, step = windows.count(axis), windows.padding[axis], windows.stride[axis]
        start = L.linspace(network, (number,), -pad, [step])
        last = as_tensor(windows.length(axis) + (pad if padding else 0), network, torch.float32)
        end = binary(start + float(windows.size[axis]), last, "MIN")
        start = start if padding else binary(start, 0.0, "MAX")
        return on_axis(L.cast(end - start, dtype), axis + 2, windows.x.ndim)

    return combined(map(along, windows.axes), "PROD")


def by_slices(windows: Windows, op: str, padding: Tensor) -> Tensor:
    """Each side of the window in turn, by slices that start at each of its elements."""
    x = windows.x
    for axis in windows.axes:
        size, pad, gap = _static(windows.size[axis]), windows.padding[axis], windows.dilation[axis]
        if size == windows.stride[axis] == 1 and not pad:
            continue
        mode, fill = ("FILL", padding) if pad or windows.ceil_mode else ("STRICT_BOUNDS", None)
        how = windows.count(axis), windows.stride[axis], mode, fill
        x = combined((along(x, 2 + axis, k * gap - pad, *how) for k in range(size)), op)
    return x


def lowest_of(x: Tensor) -> Tensor:
    value = -math.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).min
    return as_tensor(value, x.network, x.dtype)


def _static(size: SizeLike) -> int:
    if not isinstance(size, int):
        raise UnsupportedError(f"this pooling needs a window of static size, not {size}")
    return size


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
