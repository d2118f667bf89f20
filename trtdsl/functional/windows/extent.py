"""Windows over spatial dimensions: their sizes, steps and padding, and how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...layers.pooling import check_positive, require_windows
from ..common import L, Shape, ShapeError, SizeLike, Tensor, floor_divide, is_static, require_rank, size_min
from ..family import Function, describe
from ..operands import per_axis

Window = SizeLike | Sequence[SizeLike]  # one size, or one per spatial dimension


@dataclass
class Windows:
    """Windows over the spatial dimensions of ``x`` (N, C, *spatial), of which there are two or three, and what is taken
    of them."""

    x: Tensor
    size: list[Any]
    stride: list[int]
    padding: list[int]
    dilation: list[int]
    ceil_mode: bool
    op: str = "MAX"
    """What IReduceLayer calls it."""
    divided: tuple[bool, int | None] = (True, None)
    """How an average counts its elements: the padding, too; by another number."""
    indices: bool = False
    """Whether the places of maxima are wanted."""

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

    @property
    def static(self) -> bool:
        """Whether all sizes are known."""
        return is_static((*self.size, *self.x.shape[2:])) and not self.ceil_mode

    @property
    def whole(self) -> bool:
        """Whether one window is the whole of its dimensions."""
        return not any(self.padding) and tuple(self.size) == self.x.shape[2:]

    @property
    def plain(self) -> bool:
        """Whether IPoolingLayer gives it as it is."""
        return self.divided[1] is None and not self.indices and all(gap == 1 for gap in self.dilation)

    @property
    def counts(self) -> Shape:
        """How many there are along each dimension."""
        return tuple(map(self.count, self.axes))

    def after(self, axis: int) -> int:
        """Padding at the end: enough for the last window. Rounding up needs at most stride - 1 more."""
        padding, stride, length = self.padding[axis], self.stride[axis], self.length(axis)
        if not self.ceil_mode:
            return padding
        count = self.count(axis)
        if isinstance(length, int) and isinstance(count, int):
            return max(padding, (count - 1) * stride + self.extent(axis) - length - padding)
        return padding + stride - 1


def windows_over(
    ndim: int, x: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, **taken: Any
) -> Windows:
    """With ``cut``, a window that ``ceil_mode`` lets reach beyond the input ends where the input does."""
    size = list(per_axis(kernel_size, ndim, "kernel_size"))
    given = stride is not None and (isinstance(stride, int) or len(stride) > 0)
    steps: list[Any] = list(per_axis(stride, ndim, "stride")) if given else list(size)
    if taken.pop("cut", False):
        sides = zip(size, steps, x.shape[x.ndim - ndim :], strict=True)
        size = [n if is_static((k, n)) and 0 < k - n < step else k for k, step, n in sides]
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
    windows = Windows(x, size, steps, pads, gaps, ceil_mode, **taken)
    for axis in windows.axes:
        length, padding = windows.length(axis), 2 * windows.padding[axis]
        require_windows(x.network, windows.count(axis), length, windows.extent(axis), padding)
    return windows


def check_rank(ndim: int, x: Tensor) -> None:
    """ShapeError unless there are so many dimensions after (N, C), or after (C,)."""
    require_rank(x, f"windows over {ndim} dimensions take {ndim + 2} dimensions (or {ndim + 1})", ndim + 1, ndim + 2)


def batched(function: Function) -> Function:
    """Has a function of a number of dimensions and (N, C, …) take (C, …), too: as a batch of one."""

    def call(ndim: int, input: Tensor, *args: Any, **kwargs: Any) -> Any:
        check_rank(ndim, input)
        if input.ndim == ndim + 2:
            return function(ndim, input, *args, **kwargs)
        result = function(ndim, L.unsqueeze(input, [0]), *args, **kwargs)
        return tuple(L.squeeze(x, [0]) for x in result) if isinstance(result, tuple) else L.squeeze(result, [0])

    describe(call, function)
    return call  # type: ignore[return-value]
