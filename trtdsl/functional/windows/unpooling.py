"""What undoes a pooling by maxima, where their places are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..common import ShapeError, SizeLike, Tensor, is_static, member, product, shape_text
from ..indexing.gather import scatter
from ..operands import per_axis
from ..shaping.create import filled
from ..shaping.reshape import reshape
from .extent import Window, check_rank


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


@member(_unpooled, 1)
def max_unpool1d():
    """The inverse of :func:`max_pool1d`, as :func:`max_unpool2d`."""


@member(_unpooled, 2)
def max_unpool2d():
    """The inverse of :func:`max_pool2d` with ``return_indices``: ``input`` at ``indices`` of a plane of zeros.

    IScatterLayer. Which of several values stays that are for one place is undefined, as in torch.

    >>> y, places = F.max_pool2d(net.input("x", ("N", 3, 8, 8)), 2, return_indices=True)
    >>> F.max_unpool2d(y, places, 2).shape
    (N, 3, 8, 8)
    """


@member(_unpooled, 3)
def max_unpool3d():
    """The inverse of :func:`max_pool3d`, as :func:`max_unpool2d`."""
