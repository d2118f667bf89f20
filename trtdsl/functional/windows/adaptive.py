"""Adaptive pooling: torch's exact windows, from ``floor(i * in / out)`` to ``ceil((i + 1) * in / out)``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..common import L, SizeLike, Tensor, family, folding, is_static, torch
from ..operands import as_tensor, per_axis
from ..sampling.taps import adaptive_window, area_matrix, resample_by_matrix
from ..shaping.create import counted
from .extent import check_rank
from .pooling import avg_pool1d, avg_pool2d, avg_pool3d, max_pool1d, max_pool2d, max_pool3d
from .slices import greatest


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
