"""Adaptive pooling: torch's exact windows, ``floor(i * in / out)`` to ``ceil((i + 1) * in / out)``; unpooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..common import L, ShapeError, SizeLike, Tensor, family, folding, is_static, member, product, shape_text, torch
from ..indexing.gather import scatter
from ..operands import as_tensor, per_axis
from ..sampling.taps import adaptive_window, area_matrix, resample_by_matrix
from ..shaping.create import counted, filled
from ..shaping.reshape import reshape
from .extent import Window, check_rank
from .pooling import avg_pool1d, avg_pool2d, avg_pool3d, greatest, max_pool1d, max_pool2d, max_pool3d


def _outputs(ndim: int, x: Tensor, output_size: Any) -> list[SizeLike]:
    check_rank(ndim, x)
    sizes = per_axis(output_size, ndim, "output_size")
    return [x.shape[x.ndim - ndim + axis] if size is None else size for axis, size in enumerate(sizes)]


def _uniform(x: Tensor, outputs: Sequence[SizeLike]) -> list[Any] | None:
    """The size of the windows where all have the same."""
    sizes: list[Any] = []
    for length, number in zip(x.shape[x.ndim - len(outputs) :], outputs, strict=True):
        if number == 1:
            sizes.append(length)
        elif length == number:
            sizes.append(1)
        elif isinstance(length, int) and isinstance(number, int) and number and length % number == 0:
            sizes.append(length // number)
        else:
            return None
    return sizes


def _average(ndim: int, input: Tensor, output_size: Any) -> Tensor:
    x, outputs = input, _outputs(ndim, input, output_size)
    uniform = _uniform(x, outputs)
    if uniform is not None:
        return (avg_pool1d, avg_pool2d, avg_pool3d)[ndim - 1](x, uniform)
    for axis, number in enumerate(outputs, x.ndim - ndim):
        if number == 1:
            x = L.reduce(x, "AVG", [axis], keep_dims=True)
        elif number != x.shape[axis]:
            with folding(x.network):
                weights = area_matrix(x.network, x.shape[axis], number)
            x = resample_by_matrix(x, axis, weights)
    return x


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = family(
    _average,
    "Averages over ``output_size`` windows of the last {}",
    adaptive_avg_pool1d=(1, "dimension, as :func:`adaptive_avg_pool2d`."),
    adaptive_avg_pool2d=(
        2,
        """two dimensions; None keeps a dimension.

        One window: IReduceLayer AVG, or IPoolingLayer after a convolution. Windows of one size: IPoolingLayer.
        Otherwise IGatherLayer of each window's elements, their product with its weights and IReduceLayer SUM; where a
        size is dynamic IMatrixMultiplyLayer with weights that are computed from the shape.
        """,
    ),
    adaptive_avg_pool3d=(3, "three dimensions, as :func:`adaptive_avg_pool2d`."),
)


def _maximum(ndim: int, input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    x, outputs = input, _outputs(ndim, input, output_size)
    uniform = _uniform(x, outputs)
    if uniform is not None and (not return_indices or is_static(uniform)):
        return (max_pool1d, max_pool2d, max_pool3d)[ndim - 1](x, uniform, return_indices=return_indices)
    lead = x.ndim - ndim
    if not return_indices:
        for axis, number in enumerate(outputs, lead):
            if number != x.shape[axis]:
                x = L.reduce(L.gather(x, _elements(x, axis, number), axis), "MAX", [axis + 1])
        return x
    elements = [_elements(x, lead + k, number) for k, number in enumerate(outputs)]
    return greatest(x, elements, elements, x.shape[lead:])


adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = family(
    _maximum,
    "Maxima over ``output_size`` windows of the last {}",
    adaptive_max_pool1d=(1, "dimension, as :func:`adaptive_max_pool2d`."),
    adaptive_max_pool2d=(
        2,
        """two dimensions; None keeps a dimension.

        One window: IReduceLayer MAX. Windows of one size: IPoolingLayer. Otherwise IGatherLayer of each window's
        elements and IReduceLayer MAX, or ITopKLayer for ``return_indices``.
        """,
    ),
    adaptive_max_pool3d=(3, "three dimensions, as :func:`adaptive_max_pool2d`."),
)


def _elements(x: Tensor, axis: int, number: SizeLike) -> Tensor:
    """The positions of each window's elements (number, longest window); short windows repeat their last."""
    network, length = x.network, x.shape[axis]
    sizes = (as_tensor(size, network, torch.int64) for size in (length, number))
    ends = adaptive_window(counted(network, number), *sizes)
    longest = (length + (number - 1)) // number + (0 if length % number == 0 else 1)
    first, end = (L.unsqueeze(bound, [1]) for bound in ends)
    return L.elementwise(first + counted(network, longest), end - 1, "MIN")


def _unpooled(
    ndim: int,
    input: Tensor,
    indices: Tensor,
    kernel_size: Window,
    stride: Window | None = None,
    padding: Window = 0,
    output_size: Sequence[SizeLike] | None = None,
) -> Tensor:
    check_rank(ndim, input)
    if indices.shape != input.shape:
        raise ShapeError(f"indices are {shape_text(indices.shape)}, input {shape_text(input.shape)}: torch wants one")
    lead, counts = input.shape[:-ndim], input.shape[-ndim:]
    sizes = _sizes(ndim, counts, kernel_size, kernel_size if stride is None else stride, padding, output_size)
    nothing = filled(input.network, (*lead, product(sizes)), 0, input.dtype)
    places, values = (reshape(each, (*lead, product(counts))) for each in (indices, input))
    return reshape(scatter(nothing, -1, places, values), (*lead, *sizes))


def _sizes(
    ndim: int, counts: Sequence[SizeLike], kernel_size: Any, stride: Any, padding: Any, given: Any
) -> tuple[SizeLike, ...]:
    """The sizes that are pooled to these ``counts``; several are, of which one may be ``given``."""
    steps, names = per_axis(stride, ndim, "stride"), ("kernel_size", "padding")
    windows, pads = (per_axis(each, ndim, name) for each, name in zip((kernel_size, padding), names))
    usual = [(count - 1) * step + size - 2 * pad for count, step, size, pad in zip(counts, steps, windows, pads)]
    if given is None:
        return tuple(usual)
    sizes = tuple(given[2:] if len(given) == ndim + 2 else given)
    if len(sizes) != ndim:
        raise ShapeError(f"output_size has {len(given)} sizes: torch takes {ndim}, or {ndim + 2} of a whole shape")
    for size, other, step in zip(sizes, usual, steps):
        if is_static((size, other)) and not other - step < size < other + step:
            raise ShapeError(
                f"output_size {size} is not pooled to this: what is lies between {other - step} and {other + step}"
            )
    return sizes


@member(_unpooled, 2)
def max_unpool2d():
    """The inverse of :func:`max_pool2d` with ``return_indices``: ``input`` at ``indices`` of a plane of zeros.

    IScatterLayer. Which of several values stays that are for one place is undefined, as in torch.

    >>> y, places = F.max_pool2d(net.input("x", ("N", 3, 8, 8)), 2, return_indices=True)
    >>> F.max_unpool2d(y, places, 2).shape
    (N, 3, 8, 8)
    """


max_unpool1d, max_unpool3d = family(
    _unpooled,
    "The inverse of :func:`{}`, as :func:`max_unpool2d`.",
    max_unpool1d=(1, "max_pool1d"),
    max_unpool3d=(3, "max_pool3d"),
)
