"""torch.nn.functional.affine_grid."""

from __future__ import annotations

from collections.abc import Sequence

from ...sizes.size import SizeLike, size_max
from ..common import L, Network, ShapeError, Tensor, UnsupportedError, folding, operation, shape_text, torch
from ..operands import as_tensor
from .taps import number


@operation
def affine_grid(theta: Tensor, size: Sequence[SizeLike], align_corners: bool | None = None) -> Tensor:
    """The grid (N, H, W, 2) for :func:`grid_sample` that maps the pixels of ``size`` by ``theta``.

    ``size`` is (N, C, H, W), ``theta`` (N, 2, 3); or the grid is (N, D, H, W, 3) for (N, C, D, H, W) and (N, 3, 4).
    Sizes are ints and Sizes. Constant ``theta`` and static size give a constant. A product per dimension and their sums
    (IElementWiseLayer), in float32.

    Raises ShapeError for shapes that do not fit.
    https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.affine_grid.html

    >>> F.affine_grid(net.input("theta", ("N", 2, 3)), ("N", 3, 8, 10), align_corners=False).shape
    (N, 8, 10, 2)
    """
    dims = len(size) - 2
    if dims not in (2, 3):
        raise ShapeError(f"affine_grid takes a size of 4 or 5 values, not {shape_text(tuple(size))}")
    if theta.ndim != 3 or theta.shape[1:] != (dims, dims + 1):
        raise ShapeError(
            f"affine_grid: theta for {dims} dimensions is (N, {dims}, {dims + 1}), not {shape_text(theta.shape)}"
        )
    if isinstance(size[0], int) and isinstance(theta.shape[0], int) and size[0] != theta.shape[0]:
        raise ShapeError(f"affine_grid: theta has a batch of {theta.shape[0]}, the size one of {size[0]}")
    for length in size[2:]:
        if isinstance(length, int) and length < 1:
            raise ShapeError(f"affine_grid: sizes must be positive, not {shape_text(tuple(size))}")
    if not theta.dtype.is_floating_point:
        raise UnsupportedError(f"affine_grid takes a floating-point theta, not {theta.dtype}: cast it first")
    with folding(theta.network):
        columns = L.shuffle(L.cast(theta, torch.float32), (0, 2, 1))  # (N, dims + 1, dims)
        total = _column(columns, dims, dims)
        for axis in range(dims):
            # Column 0 goes with x, which runs along the last dimension.
            steps = _steps(theta.network, size[2 + axis], bool(align_corners))
            along = L.shuffle(steps, reshape=(1, *(size[2 + a] if a == axis else 1 for a in range(dims)), 1))
            total = _column(columns, dims - 1 - axis, dims) * along + total
        return L.cast(total, theta.dtype)


def _column(columns: Tensor, index: int, dims: int) -> Tensor:
    """One column of theta as (N, 1, …, dims)."""
    n = columns.shape[0]
    return L.shuffle(L.slice(columns, (0, index, 0), (n, 1, dims)), reshape=(n, *[1] * dims, dims))


def _steps(network: Network, size: SizeLike, align_corners: bool) -> Tensor:
    """The pixels' normalised coordinates along a dimension: from -1 to 1 between centres, or between outer edges."""
    if isinstance(size, int):
        steps = torch.linspace(-1, 1, size) if size > 1 else torch.zeros(1)
        return network.constant(steps if align_corners else steps * ((size - 1) / size))
    index = L.linspace(network, (size,))
    if align_corners:  # a single pixel lies in the middle
        gaps = number(size_max(size - 1, 1), network)
        return (index * 2.0 - as_tensor(size - 1, network, torch.float32)) / gaps
    length = as_tensor(size, network, torch.float32)
    return (index * 2.0 - (length - 1.0)) / length
