"""SCATTER and ONE_HOT: writing elements to places given by indices."""

from __future__ import annotations

from .common import ShapeError, Tensor, add_layer, adds, member, normalize_axis, operation, shape_text, torch
from .evaluation import Mistakes, Node, computes


@operation
def scatter(data: Tensor, indices: Tensor, updates: Tensor, mode: str = "ELEMENT", axis: int = 0) -> Tensor:
    """``data`` with ``updates`` written where ``indices`` (int32 or int64) say: one IScatterLayer.

    ELEMENT: ``result[i][indices[i][j]] = updates[i][j]`` along ``axis``, all three of one rank. ND: the last dimension
    of ``indices`` (..., k) indexes the first k dimensions of ``data``, and ``updates`` is (..., data.shape[k:]…).
    Writing to one place twice is undefined.

    >>> i = net.input("i", (2, 2), "int64")
    >>> scatter(net.input("x", (5, 3)), i, net.input("u", (2,)), "ND").shape
    (5, 3)
    """
    axis = normalize_axis(axis, data.ndim)
    mode = mode.upper()
    if mode == "ELEMENT" and not data.ndim == indices.ndim == updates.ndim:
        raise ShapeError(
            f"data, indices and updates must have one rank, not {data.ndim}, {indices.ndim} and {updates.ndim}"
        )
    if mode == "ND":
        if not isinstance(indices.shape[-1], int):
            raise ShapeError("the last dimension of the indices must be static")
        expected = indices.shape[:-1] + data.shape[indices.shape[-1] :]
        if len(expected) != updates.ndim:
            raise ShapeError(f"the updates must have shape {shape_text(expected)}, not {shape_text(updates.shape)}")
    kind = member(data.network.trt.ScatterMode, mode, "scatter mode")
    add = adds("add_scatter", kind, axis=axis if mode == "ELEMENT" else None)
    return add_layer(add, data, indices, updates, shape=data.shape)


def _checked(indices: torch.Tensor, size: int) -> torch.Tensor:
    """Indices with negative ones counted from the end; ShapeError for one out of bounds."""
    indices = indices.long()
    indices = torch.where(indices < 0, indices + size, indices)
    if bool(((indices < 0) | (indices >= size)).any()):
        raise ShapeError(f"an index is outside the dimension of size {size}")
    return indices


MISTAKES = Mistakes(
    instead={
        "nothing written": lambda node: lambda f, data, indices, updates: data,
        "updates reversed": lambda node: lambda f, data, indices, updates: f(data, indices, updates.flip(0)),
    }
)


@computes(
    "SCATTER", known={"mode": ("ELEMENT", "ND")}, category="sampling", settings=True, computes=False, mistakes=MISTAKES
)
def _scatter(node: Node, data: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor) -> torch.Tensor:
    """Assumed: negative indices count from the end (ONNX, to which the documentation refers); one out of bounds is an
    error, since the documentation defines no result; of several writes to one place, which are undefined, one stays.
    """
    if node.layer.mode.name == "ND":
        places = [_checked(indices[..., k], data.shape[k]) for k in range(indices.shape[-1])]
    else:
        along, sizes = node.layer.axis % data.ndim, enumerate(indices.shape)
        places = [torch.arange(size).reshape((-1,) + (1,) * (indices.ndim - dim - 1)) for dim, size in sizes]
        places[along] = _checked(indices, data.shape[along])
    result = data.clone()
    result[tuple(places) or ...] = updates
    return result


@operation
def one_hot(indices: Tensor, values: Tensor, depth: Tensor | int, axis: int = -1) -> Tensor:
    """``values[1]`` where the new dimension's index is ``indices`` (int32), ``values[0]`` elsewhere: one IOneHotLayer.

    ``values`` is ``[off, on]`` and gives the dtype; ``depth``, the new dimension's size, a constant; the new dimension
    is ``axis`` of the result.

    >>> one_hot(net.input("i", (2, 3), "int32"), net.constant([0.0, 1.0]), 5).shape
    (2, 3, 5)
    """
    network = indices.network
    place = normalize_axis(axis, indices.ndim + 1)
    classes = network.constant(torch.tensor(depth, dtype=torch.int32)) if isinstance(depth, int) else depth
    if not classes.is_constant:
        raise ShapeError("the depth of a one-hot encoding must be a constant")
    shape = (*indices.shape[:place], int(classes.data), *indices.shape[place:])
    return add_layer(adds("add_one_hot", place), indices, values, classes, shape=shape, dtype=values.dtype)


SWAPPED = Mistakes(instead={"on and off swapped": lambda node: lambda f, at, on, *depth: f(at, on.flip(0), *depth)})


@computes("ONE_HOT", category="sampling", settings=True, flops=1, mistakes=SWAPPED)
def _one_hot(node: Node, indices: torch.Tensor, values: torch.Tensor, depth: torch.Tensor) -> torch.Tensor:
    """Assumed: a negative index counts from the end and one out of bounds sets nothing, as in ONNX."""
    classes, place = int(depth), node.layer.axis % (indices.ndim + 1)
    index = torch.where(indices < 0, indices + classes, indices).unsqueeze(place)
    label = torch.arange(classes).reshape((-1,) + (1,) * (indices.ndim - place))
    return torch.where(index == label, values[1], values[0])
