"""Pooling over windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

from .. import layers as L
from ..errors import ShapeError, UnsupportedError
from ..network import operation
from ..shape import shape_text
from ..tensor import Tensor
from .operands import per_axis

Sizes = Union[Any, Sequence[Any]]  # one value, or one per spatial dimension; a window's may be a Size


@operation
def avg_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Averages over windows of the last two dimensions: IPoolingLayer AVERAGE, IReduceLayer AVG where a window is the whole.

    >>> x = td.Network().input("x", ("N", 3, "H", 8))
    >>> F.avg_pool2d(x, (x.shape[2], 1)).shape
    (N, 3, 1, 8)
    """
    if ceil_mode or divisor_override is not None:
        raise UnsupportedError("avg_pool2d: ceil_mode and divisor_override are not supported yet")
    return _pool(2, "AVERAGE", input, kernel_size, stride, padding, exclude_padding=not count_include_pad)


@operation
def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor:
    """Maxima over windows of the last two dimensions: IPoolingLayer MAX, IReduceLayer MAX where a window is the whole.

    >>> F.max_pool2d(td.Network().input("x", ("N", 3, 8, 8)), 2).shape
    (N, 3, 4, 4)
    """
    if ceil_mode or return_indices or any(step != 1 for step in per_axis(dilation, 2, "dilation")):
        raise UnsupportedError("max_pool2d: ceil_mode, return_indices and dilation are not supported yet")
    return _pool(2, "MAX", input, kernel_size, stride, padding, exclude_padding=True)


def _pool(
    ndim: int, kind: str, x: Tensor, kernel_size: Any, stride: Any, padding: Any, *, exclude_padding: bool
) -> Tensor:
    if x.ndim not in (ndim + 1, ndim + 2):
        raise ShapeError(
            f"pooling over {ndim} dimensions takes {ndim + 2} dimensions (or {ndim + 1}), not {shape_text(x.shape)}"
        )
    if x.ndim == ndim + 1:
        return L.squeeze(
            _pool(ndim, kind, L.unsqueeze(x, [0]), kernel_size, stride, padding, exclude_padding=exclude_padding), [0]
        )
    window = list(per_axis(kernel_size, ndim, "kernel_size"))
    steps = list(window if stride is None or stride == () else per_axis(stride, ndim, "stride"))
    pads = per_axis(padding, ndim, "padding")
    # A window as large as the dimension leaves one element: a reduction, and the only way where the size is dynamic.
    whole = [
        axis
        for axis in range(ndim)
        if pads[axis] == 0 and window[axis] == x.shape[2 + axis] and not isinstance(window[axis], int)
    ]
    if whole:
        x = L.reduce(x, "MAX" if kind == "MAX" else "AVG", [2 + axis for axis in whole], keep_dims=True)
        for axis in whole:
            window[axis] = steps[axis] = 1
    if all(size == 1 for size in (*window, *steps)) and not any(pads):
        return x
    for axis, size in enumerate(window):
        if not isinstance(size, int):
            raise UnsupportedError(
                f"a window of dynamic size {size} must span its whole dimension ({x.shape[2 + axis]}) without padding"
            )
        if 2 * pads[axis] > size:
            raise ShapeError(f"padding {pads[axis]} is more than half the window {size}")
    return L.pooling(
        x, kind, window, stride=steps, pre_padding=pads, post_padding=pads, exclude_padding=exclude_padding
    )
