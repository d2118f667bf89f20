"""Pooling over windows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ... import layers as L
from ...core.errors import ShapeError, UnsupportedError
from ...core.lazy import torch
from ...definition.operation import operation
from ...definition.tensor import Tensor
from ...layers.base import channels_last
from ...layers.windows import check_positive, require_windows
from ...sizes.shape import shape_text
from ...sizes.size import SizeLike, floor_divide, is_static, size_min
from ..family import family
from ..operands import as_tensor, binary, per_axis, scaled
from ..pointwise.activation import relu
from ..pointwise.arithmetic import pow
from ..pointwise.elementary import abs, sign
from .deferred import PendingMaximum

SLICES = 9  # elements of the largest window whose maxima are taken by slices
Window = SizeLike | Sequence[SizeLike]  # one size, or one per spatial dimension


@operation
def avg_pool1d(
    input: Tensor,
    kernel_size: Window,
    stride: Window | None = None,
    padding: Window = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Averages over windows of the last dimension; as :func:`avg_pool2d`, with a dimension put in and taken out.

    >>> F.avg_pool1d(td.Network().input("x", ("N", 3, 8)), 2).shape
    (N, 3, 4)
    """
    return _average(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


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
    total = scaled(L.elementwise(sign(mean), relu(abs(mean)), "PROD"), number)
    return pow(total, 1.0 / norm_type)


lp_pool1d, lp_pool2d, lp_pool3d = family(
    _power,
    lp_pool1d=(
        1,
        """The ``norm_type``-norm of windows of the last dimension, as :func:`lp_pool2d`.

        >>> F.lp_pool1d(td.Network().input("x", ("N", 3, 8)), 2, 2).shape
        (N, 3, 4)
        """,
    ),
    lp_pool2d=(
        2,
        """``sum(input ** norm_type) ** (1 / norm_type)`` over windows of the last two dimensions.

        The layers of :func:`pow` and :func:`avg_pool2d`.

        >>> F.lp_pool2d(td.Network().input("x", ("N", 3, 8, 8)), 2, 2).shape
        (N, 3, 4, 4)
        """,
    ),
    lp_pool3d=(
        3,
        """The ``norm_type``-norm of windows of the last three dimensions, as :func:`lp_pool2d`.

        >>> F.lp_pool3d(td.Network().input("x", ("N", 3, 8, 8, 8)), 2, 2).shape
        (N, 3, 4, 4, 4)
        """,
    ),
)


# -- windows -----------------------------------------------------------------------------------------------------------


@dataclass
class Windows:
    """Windows over the spatial dimensions of ``x`` (N, C, *spatial), of which there are two or three."""

    x: Tensor
    size: list[Any]
    stride: list[int]
    padding: list[int]
    dilation: list[int]
    ceil_mode: bool

    @property
    def axes(self) -> range:
        return range(len(self.size))

    def length(self, axis: int) -> SizeLike:
        return self.x.shape[2 + axis]

    def extent(self, axis: int) -> int:
        """From the first to the last element of a window."""
        return self.dilation[axis] * (self.size[axis] - 1) + 1

    def count(self, axis: int) -> SizeLike:
        """How many windows torch has: with ``ceil_mode``, those that start in the input or the padding before it."""
        stride, room = self.stride[axis], self.length(axis) + (2 * self.padding[axis] - self.extent(axis))
        if not self.ceil_mode:
            return floor_divide(room, stride) + 1
        starting = floor_divide(self.length(axis) + (self.padding[axis] - 1), stride) + 1
        return size_min(floor_divide(room + (stride - 1), stride) + 1, starting)

    def after(self, axis: int) -> int:
        """Padding at the end: enough for the last window. Rounding up needs at most stride - 1 more."""
        padding, stride, length = self.padding[axis], self.stride[axis], self.length(axis)
        if not self.ceil_mode:
            return padding
        count = self.count(axis)
        if isinstance(length, int) and isinstance(count, int):
            return max(padding, (count - 1) * stride + self.extent(axis) - length - padding)
        return padding + stride - 1


def _windows(
    ndim: int, x: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Windows:
    size = list(per_axis(kernel_size, ndim, "kernel_size"))
    given = stride is not None and (isinstance(stride, int) or len(stride) > 0)
    steps: list[Any] = list(per_axis(stride, ndim, "stride")) if given else list(size)
    pads, gaps = list(per_axis(padding, ndim, "padding")), list(per_axis(dilation, ndim, "dilation"))
    for axis in range(ndim):
        check_positive(size[axis], "kernel_size")
        check_positive(steps[axis], "stride")
        check_positive(gaps[axis], "dilation")
        if isinstance(size[axis], int) and 2 * pads[axis] > gaps[axis] * (size[axis] - 1) + 1:
            raise ShapeError(f"padding {pads[axis]} is more than half the window {size[axis]}")
    if ndim == 1:
        x = L.unsqueeze(x, [2])
        size, steps, pads, gaps = [1, *size], [1, *steps], [0, *pads], [1, *gaps]
    windows = Windows(x, size, steps, pads, gaps, ceil_mode)
    for axis in windows.axes:
        length, padding = windows.length(axis), 2 * windows.padding[axis]
        require_windows(x.network, windows.count(axis), length, windows.extent(axis), padding)
    return windows


def _check_rank(ndim: int, x: Tensor) -> None:
    if x.ndim not in (ndim + 1, ndim + 2):
        raise ShapeError(
            f"pooling over {ndim} dimensions takes {ndim + 2} dimensions (or {ndim + 1}), not {shape_text(x.shape)}"
        )


def _whole(windows: Windows, op: str) -> None:
    """Reduces the dynamic dimensions of which one window is the whole; static ones pool, for smaller engines."""
    dynamic = [axis for axis in windows.axes if not isinstance(windows.size[axis], int)]
    whole = [axis for axis in dynamic if not windows.padding[axis] and windows.size[axis] == windows.length(axis)]
    if whole:
        windows.x = L.reduce(windows.x, op, [2 + axis for axis in whole], keep_dims=True)
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
    result = L.pooling(
        x,
        op,
        windows.size,
        stride=windows.stride,
        pre_padding=windows.padding,
        post_padding=pads,
        exclude_padding=exclude_padding,
    )
    # Padding for the worst case of a dynamic size gives a window too many for some sizes.
    counts = tuple(windows.count(axis) for axis in windows.axes)
    if result.shape[2:] != counts:
        result = L.slice(result, (0,) * result.ndim, (*result.shape[:2], *counts))
    return result


def _maxima(windows: Windows) -> Tensor:
    """Maxima of what nothing else has used yet are added where they are first used."""
    x, operation = windows.x, windows.x.network.current_operation
    if x.is_constant or x.is_layer or x.pending is None or x.ndim < 4:
        return _pool(windows, "MAX", exclude_padding=True)
    assert operation is not None
    counts = tuple(windows.count(axis) for axis in windows.axes)

    def pool(x: Tensor) -> Tensor:
        windows.x = x
        return _pool(windows, "MAX", exclude_padding=True)

    return PendingMaximum(x, pool, operation).as_tensor((*x.shape[:2], *counts))


# -- average -----------------------------------------------------------------------------------------------------------


def _within(ndim: int, x: Tensor, kernel_size: Window, stride: Window | None) -> tuple[Window, Window]:
    """The sizes and steps of windows that end where the input does: rounding up cuts them off there."""
    sizes = per_axis(kernel_size, ndim, "kernel_size")
    lengths = x.shape[x.ndim - ndim :]
    steps = sizes if stride is None or stride in ((), []) else per_axis(stride, ndim, "stride")
    cut = [
        length if isinstance(size, int) and isinstance(length, int) and 0 < size - length < step else size
        for size, step, length in zip(sizes, steps, lengths)
    ]
    return tuple(cut), steps


def _average(
    ndim: int,
    input: Tensor,
    kernel_size: Window,
    stride: Window | None = None,
    padding: Window = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    x = input
    _check_rank(ndim, x)
    if divisor_override == 0:
        raise ShapeError("divisor_override must not be 0")
    if x.ndim == ndim + 1:
        arguments = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
        return L.squeeze(_average(ndim, L.unsqueeze(x, [0]), *arguments), [0])
    if ceil_mode and divisor_override is None and not any(per_axis(padding, ndim, "padding")):
        kernel_size, stride = _within(ndim, x, kernel_size, stride)
    windows = _windows(ndim, x, kernel_size, stride, padding, 1, ceil_mode)
    length = [windows.length(axis) for axis in windows.axes]
    padded = any(windows.padding)
    beyond = any(windows.after(axis) > windows.padding[axis] for axis in windows.axes)
    if not x.dtype.is_floating_point:
        result = _integer_average(windows, count_include_pad, divisor_override)
    elif divisor_override is not None:
        _whole(windows, "SUM")
        total = scaled(_pool(windows, "AVERAGE", exclude_padding=False), math.prod(windows.size))
        result = binary(total, divisor_override, "DIV", total.dtype)
    elif beyond and ((padded and count_include_pad) or _too_wide(windows)):
        _whole(windows, "AVG")
        total = scaled(_pool(windows, "AVERAGE", exclude_padding=False), math.prod(windows.size))
        result = L.elementwise(total, _counts(windows, length, padding=count_include_pad), "DIV")
    else:
        _whole(windows, "AVG")
        result = _pool(windows, "AVERAGE", exclude_padding=beyond or not count_include_pad)
    return L.squeeze(result, [2]) if ndim == 1 else result


avg_pool2d, avg_pool3d = family(
    _average,
    avg_pool2d=(
        2,
        """Averages over windows of the last two dimensions.

        IPoolingLayer AVERAGE, IReduceLayer AVG where a window is the whole.

        A window that spans its whole dimension may be dynamic. With ``divisor_override``, or where ``ceil_mode`` lets
        windows reach beyond counted padding, the sum is divided afterwards (IElementWiseLayer).

        >>> x = td.Network().input("x", ("N", 3, "H", 8))
        >>> F.avg_pool2d(x, (x.shape[2], 1)).shape
        (N, 3, 1, 8)
        """,
    ),
    avg_pool3d=(
        3,
        """Averages over windows of the last three dimensions, as :func:`avg_pool2d`.

        >>> F.avg_pool3d(td.Network().input("x", ("N", 3, 8, 8, 8)), 2).shape
        (N, 3, 4, 4, 4)
        """,
    ),
)


def _too_wide(windows: Windows) -> bool:
    """IPoolingLayer leaves padding uncounted only where it is less than the window."""
    sizes = [(windows.after(axis), windows.size[axis]) for axis in windows.axes]
    return any(isinstance(size, int) and after >= size for after, size in sizes)


def _integer_average(windows: Windows, count_include_pad: bool, divisor_override: int | None) -> Tensor:
    """The sum by slices, divided with truncation: IPoolingLayer takes no integers."""
    length = [windows.length(axis) for axis in windows.axes]
    total = _by_slices(windows, "SUM", as_tensor(0, windows.x.network, windows.x.dtype))
    if divisor_override is not None:
        return binary(total, divisor_override, "DIV", total.dtype)
    return L.elementwise(total, _counts(windows, length, padding=count_include_pad), "DIV")


def _counts(windows: Windows, length: list[SizeLike], *, padding: bool) -> Tensor:
    """The number of elements of each window that are in the input (or its padding), (1, 1, *counts)."""
    network, dtype = windows.x.network, windows.x.dtype
    result: Tensor | None = None
    for axis in windows.axes:
        number, pad, step = windows.count(axis), windows.padding[axis], windows.stride[axis]
        start = L.linspace(
            network, (number,), network.constant(float(-pad)), network.constant(torch.tensor([float(step)]))
        )
        end = binary(start, float(windows.size[axis]), "SUM")
        end = binary(end, as_tensor(length[axis] + (pad if padding else 0), network, torch.float32), "MIN")
        start = start if padding else binary(start, 0.0, "MAX")
        shape = [number if other == axis + 2 else 1 for other in range(windows.x.ndim)]
        factor = L.shuffle(L.cast(L.elementwise(end, start, "SUB"), dtype), reshape=shape)
        result = factor if result is None else L.elementwise(result, factor, "PROD")
    assert result is not None
    return result


# -- maximum -----------------------------------------------------------------------------------------------------------


def _maximum(
    ndim: int,
    input: Tensor,
    kernel_size: Window,
    stride: Window | None = None,
    padding: Window = 0,
    dilation: Window = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    x = input
    _check_rank(ndim, x)
    if x.ndim == ndim + 1:
        arguments = (kernel_size, stride, padding, dilation, ceil_mode, return_indices)
        results = _maximum(ndim, L.unsqueeze(x, [0]), *arguments)
        return tuple(L.squeeze(r, [0]) for r in results) if return_indices else L.squeeze(results, [0])
    windows = _windows(ndim, x, kernel_size, stride, padding, dilation, ceil_mode)
    if return_indices:
        results = _with_indices(windows)
        return tuple(L.squeeze(r, [2]) for r in results) if ndim == 1 else results
    if all(gap == 1 for gap in windows.dilation) and x.dtype.is_floating_point and not _sliced(windows):
        _whole(windows, "MAX")
        result = _maxima(windows)
    else:
        result = _by_slices(windows, "MAX", _lowest(x))
    return L.squeeze(result, [2]) if ndim == 1 else result


max_pool1d, max_pool2d, max_pool3d = family(
    _maximum,
    max_pool1d=(
        1,
        """Maxima over windows of the last dimension, as :func:`max_pool2d`.

        >>> F.max_pool1d(td.Network().input("x", ("N", 3, 8)), 2).shape
        (N, 3, 4)
        """,
    ),
    max_pool2d=(
        2,
        """Maxima over windows of the last two dimensions.

        IPoolingLayer MAX; IReduceLayer MAX where a window is the whole. An ISliceLayer and an IElementWiseLayer MAX for
        each element along a side of the window with ``dilation``, and for windows of up to 9 elements without padding
        over what does not lie channels last in memory, as it does after a convolution, or is bfloat16.
        ``return_indices`` takes an ISliceLayer for each element of the window, and ITopKLayer.

        >>> F.max_pool2d(td.Network().input("x", ("N", 3, 8, 8)), 2).shape
        (N, 3, 4, 4)
        """,
    ),
    max_pool3d=(
        3,
        """Maxima over windows of the last three dimensions, as :func:`max_pool2d`; four dimensions are (C, D, H, W).

        >>> F.max_pool3d(td.Network().input("x", (64, 8, 56, 56)), (1, 3, 3), (4, 2, 2), (0, 1, 1)).shape
        (64, 2, 28, 28)
        """,
    ),
)


def _sliced(windows: Windows) -> bool:
    """Whether maxima of floats are taken by slices: of few elements, of what is not channels last or is bfloat16.

    The builder has the input and the result of IPoolingLayer rearranged then, or cast from and to float32; slices and
    maxima are one kernel, which what is around it may join. Where padding meets no stride, or what is not channels
    last, it makes more launches of them.
    """
    x = windows.x
    if windows.ceil_mode or not is_static((*windows.size, *x.shape[2:])) or not 1 < math.prod(windows.size) <= SLICES:
        return False
    last, low = x.order == channels_last(x.ndim), x.dtype == torch.bfloat16
    if any(windows.padding):
        strided = all(step > 1 or not pad for step, pad in zip(windows.stride, windows.padding, strict=True))
        return last and low and strided
    return low or not last


def _by_slices(windows: Windows, op: str, padding: Tensor) -> Tensor:
    """Each side of the window in turn, by slices that start at each of its elements.

    IPoolingLayer takes no dilation, no integers.
    """
    x = windows.x
    for axis in windows.axes:
        if windows.size[axis] == windows.stride[axis] == 1 and not windows.padding[axis]:
            continue
        total: Tensor | None = None
        for k in range(_static(windows.size[axis])):
            part = _offset(x, windows, {axis: k}, padding)
            total = part if total is None else L.elementwise(total, part, op)
        assert total is not None
        x = total
    return x


def _lowest(x: Tensor) -> Tensor:
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


def _with_indices(windows: Windows) -> tuple[Tensor, Tensor]:
    """Maxima, and where they are in the flattened spatial dimensions.

    The elements of a window along a new dimension.
    """
    x, network = windows.x, windows.x.network
    lowest = _lowest(x)
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
