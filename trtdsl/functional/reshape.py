"""Reshaping, transposing, and views: IShuffleLayer throughout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import layers as L
from ..errors import ShapeError
from ..layers.base import normalize_axis
from ..network import operation
from ..shape import Shape, SizeLike, divide_exactly, floor_divide, product, shape_text
from ..tensor import Tensor
from .operands import varargs


@operation
def reshape(input: Tensor, *shape: Any) -> Tensor:
    """The same elements in another shape; one size may be -1: IShuffleLayer.

    Sizes are ints and Sizes. Raises ShapeError when the number of elements would differ.

    >>> x = td.Network().input("x", ("N", 6, 4))
    >>> F.reshape(x, (x.shape[0], 2, 3, -1)).shape
    (N, 2, 3, 4)
    """
    return L.shuffle(input, reshape=_infer(input.shape, varargs(shape)))


def _infer(before: Shape, wanted: Sequence[SizeLike]) -> Shape:
    unknown = [axis for axis, size in enumerate(wanted) if isinstance(size, int) and size == -1]
    if not unknown:
        return tuple(wanted)
    if len(unknown) > 1:
        raise ShapeError(f"only one size can be -1, not {len(unknown)}: {shape_text(wanted)}")
    total, known = product(before), product(size for axis, size in enumerate(wanted) if axis != unknown[0])
    if known == 0:
        raise ShapeError(f"-1 is ambiguous beside a size of 0: {shape_text(wanted)}")
    size = divide_exactly(total, known)
    if size is None:
        if isinstance(total, int) and isinstance(known, int):
            raise ShapeError(f"a tensor of shape {shape_text(before)} does not divide into {shape_text(wanted)}")
        size = floor_divide(total, known)
    return tuple(size if axis == unknown[0] else other for axis, other in enumerate(wanted))


@operation
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions ``start_dim`` to ``end_dim`` as one: IShuffleLayer.

    >>> F.flatten(td.Network().input("x", ("N", 3, 4)), 1).shape
    (N, 12)
    """
    if input.ndim == 0:
        return L.shuffle(input, reshape=(1,))
    start, end = normalize_axis(start_dim, input.ndim), normalize_axis(end_dim, input.ndim)
    if start > end:
        raise ShapeError(f"flatten: start_dim {start_dim} is after end_dim {end_dim}")
    merged = product(input.shape[start : end + 1])
    return L.shuffle(input, reshape=(*input.shape[:start], merged, *input.shape[end + 1 :]))


@operation
def permute(input: Tensor, *dims: Any) -> Tensor:
    """Dimensions in another order: IShuffleLayer.

    >>> F.permute(td.Network().input("x", (2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    order = varargs(dims)
    if len(order) != input.ndim:
        raise ShapeError(f"permute needs all {input.ndim} dimensions, not {order}")
    return L.shuffle(input, first_transpose=order)


@operation
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions exchanged: IShuffleLayer.

    >>> F.transpose(td.Network().input("x", (2, 3, 4)), 1, 2).shape
    (2, 4, 3)
    """
    order = list(range(input.ndim))
    a, b = normalize_axis(dim0, input.ndim), normalize_axis(dim1, input.ndim)
    if order:
        order[a], order[b] = order[b], order[a]
    return L.shuffle(input, first_transpose=order)


@operation
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """A dimension of size 1 put in at ``dim``: IShuffleLayer.

    >>> F.unsqueeze(td.Network().input("x", ("N", "T")), 1).shape
    (N, 1, T)
    """
    return L.unsqueeze(input, [dim])


@operation
def squeeze(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Without the dimensions ``dim`` (all when None) that are 1: IShuffleLayer. Dynamic dimensions stay.

    >>> F.squeeze(td.Network().input("x", ("N", 1, 3, 1)), 1).shape
    (N, 3, 1)
    """
    dims = range(input.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    ones = [axis for d in dims if input.ndim and input.shape[axis := normalize_axis(d, input.ndim)] == 1]
    return L.squeeze(input, ones)
