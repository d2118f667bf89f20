"""TOPK and NON_ZERO: which elements are the greatest, and which are not zero."""

from __future__ import annotations

from typing import Any

from .base import add_layer, adds, axes_of, member, normalize_axis
from .cast import cast
from .common import ShapeError, Size, SizeLike, Tensor, as_dtype, operation, torch
from .evaluation import Given, Mistakes, Node, Shapes, compact, computes, count
from .shape import size_tensor
from .shuffle import squeeze


@operation
def topk(
    x: Tensor, k: SizeLike | Tensor, axis: int, op: str = "MAX", indices_dtype: Any = "int32"
) -> tuple[Tensor, Tensor]:
    """The ``k`` greatest (MAX) or least (MIN) elements along ``axis``, sorted, and their indices: one ITopKLayer.

    ``x`` has two dimensions or more, and ``axis`` is one of the last four. ``k`` is an int, a Size, or an int32 scalar
    Tensor; at most 3840. Of equal elements the one with the lowest index comes first. Both results have the shape of
    ``x`` with ``k`` at ``axis``; the indices are int32 or int64.

    >>> values, indices = topk(net.input("x", (2, 8)), 3, 1)
    >>> values.shape, indices.dtype
    ((2, 3), torch.int32)
    """
    axis = normalize_axis(axis, x.ndim)
    size: SizeLike | None = None if isinstance(k, Tensor) else k
    count_tensor = k if isinstance(k, Tensor) else None
    if isinstance(size, Size):
        count_tensor = cast(squeeze(size_tensor(x.network, [size]), [0]), torch.int32)
    elif size is not None and not 1 <= size <= 3840:
        raise ShapeError(f"k must be between 1 and 3840, not {size}")
    elif size is not None and isinstance(x.shape[axis], int) and size > x.shape[axis]:
        raise ShapeError(f"k = {size} is more than the {x.shape[axis]} elements of dimension {axis}")
    shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
    order, indices = member(x.network.trt.TopKOperation, op, "top-k operation"), as_dtype(indices_dtype)
    static = size if isinstance(size, int) else 1
    add = adds("add_topk", order, static, 1 << axis, *x.network.backend.index_type(indices), takes=1)
    return add_layer(add, x, count_tensor, shape=[shape, shape], dtype=[x.dtype, indices])


def _topk_flops(node: Node, shapes: Shapes) -> int:
    """Comparisons of a sort: n log2 n along the axis."""
    x = shapes.inputs[0]
    (axis,) = axes_of(node.layer.axes, len(x))
    return count(x) * max((x[axis] - 1).bit_length(), 1)


MISTAKES = Mistakes(
    {"op": {"MAX": "MIN", "MIN": "MAX"}},
    instead={"in reverse order": lambda node: lambda f, *x: tuple(part.flip(-1) for part in f(*x))},
)


@computes(
    "TOPK", known={"op": ("MAX", "MIN")}, category="reduction", settings=True, flops=_topk_flops, mistakes=MISTAKES
)
def _topk(node: Node, x: torch.Tensor, k: Given = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Assumed: NaN is greater than every number, as torch and numpy sort it; the documentation does not say."""
    (axis,) = axes_of(node.layer.axes, x.ndim)
    number: int = node.layer.k if k is None else int(k)
    if number > x.shape[axis]:
        raise ShapeError(f"k = {number} is more than the {x.shape[axis]} elements of dimension {axis}")
    largest = node.layer.op.name == "MAX"
    values, indices = torch.sort(x, dim=axis, descending=largest, stable=True)  # stable: ties by lowest index
    return compact(values.narrow(axis, 0, number)), indices.narrow(axis, 0, number).to(node.output_dtype(1))


@operation
def non_zero(x: Tensor, indices_dtype: Any = "int32") -> Tensor:
    """The positions of elements that are not zero, as the columns of a (rank, count) matrix: one INonZeroLayer.

    Columns are in row-major order of the positions. ``count`` is known only when the network runs.
    """
    indices = as_dtype(indices_dtype)
    add = adds("add_non_zero", *x.network.backend.index_type(indices))
    return add_layer(add, x, shape=(x.ndim, None), dtype=indices)


@computes(
    "NON_ZERO",
    category="reduction",
    flops=lambda node, shapes: count(shapes.inputs[0]),
    unbuilt="NON_ZERO has no kernel without a GPU: keep the mask (F.where), or take a fixed number of positions by "
    "L.topk of it, or build where there is a GPU",
)
def _non_zero(node: Node, x: torch.Tensor) -> torch.Tensor:
    """NaN is not zero."""
    # Positions in row-major order, then each one's subscripts from the strides.
    position = torch.arange(x.numel())[(x != 0).flatten()]
    rows, below = [], x.numel()
    for size in x.shape:
        below //= size or 1
        rows.append(torch.div(position, max(below, 1), rounding_mode="floor") % max(size, 1))
    return torch.stack(rows).to(node.dtype) if rows else torch.empty((0, position.numel()), dtype=node.dtype)
