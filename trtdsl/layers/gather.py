"""GATHER, SCATTER and ONE_HOT: elements read and written at places given by indices."""

from __future__ import annotations

from .common import Shape, ShapeError, Tensor, add_layer, adds, member, normalize_axis, operation, shape_text, torch
from .evaluation import Evaluate, Given, Mistakes, Node, computes


@operation
def gather(
    data: Tensor, indices: Tensor, axis: int = 0, mode: str = "DEFAULT", num_elementwise_dims: int = 0
) -> Tensor:
    """One IGatherLayer; ``indices`` is int32 or int64.

    DEFAULT: ``data[..., indices, ...]`` at ``axis``; the first ``num_elementwise_dims`` (0 or 1) dimensions of both run
    side by side. ELEMENT: as ``torch.gather``. ND: the last dimension of ``indices`` indexes the dimensions of ``data``
    after the elementwise ones. An index out of bounds reads zero; a negative one counts from the end on a static axis.

    >>> gather(net.input("x", (2, 5, 3)), net.input("i", (4, 7), "int64"), axis=1).shape
    (2, 4, 7, 3)
    """
    axis = normalize_axis(axis, data.ndim)
    mode = mode.upper()
    shape: Shape
    if mode == "ELEMENT":
        if data.ndim != indices.ndim:
            raise ShapeError(f"data and indices must have one rank, not {data.ndim} and {indices.ndim}")
        shape = indices.shape
    elif mode == "ND":
        depth = indices.shape[-1]
        if not isinstance(depth, int):
            raise ShapeError("the last dimension of the indices must be static")
        shape = indices.shape[:-1] + data.shape[num_elementwise_dims + depth :]
    else:
        shape = data.shape[:axis] + indices.shape[num_elementwise_dims:] + data.shape[axis + 1 :]
    kind, along = member(data.network.trt.GatherMode, mode, "gather mode"), None if mode == "ND" else axis
    add = adds("add_gather_v2", kind, axis=along, num_elementwise_dims=num_elementwise_dims)
    return add_layer(add, data, indices, shape=shape)


def in_bounds(indices: torch.Tensor, size: int) -> tuple[torch.Tensor, Given]:
    """Indices that can be read, negative ones from the end, and where they were inside (None: everywhere)."""
    if indices.numel() == 0:
        return indices, None
    low, high = (int(bound) for bound in torch.aminmax(indices))
    if low >= 0 and high < size:
        return indices, None
    indices = torch.where(indices < 0, indices + size, indices)
    inside = (indices >= 0) & (indices < size)
    return (indices, None) if bool(inside.all()) else (torch.where(inside, indices, 0), inside)


def _masked(values: torch.Tensor, inside: Given) -> torch.Tensor:
    return values if inside is None else torch.where(inside, values, torch.zeros((), dtype=values.dtype))


def _default(data: torch.Tensor, indices: torch.Tensor, axis: int, elementwise: int) -> torch.Tensor:
    if elementwise:
        return _side_by_side(data, indices, axis)
    index, inside = in_bounds(indices.flatten(), data.shape[axis])
    if data.shape[axis] == 0:
        picked = data.new_zeros((*data.shape[:axis], index.numel(), *data.shape[axis + 1 :]))
    else:
        picked = data.index_select(axis, index)
    if inside is not None:
        picked = _masked(picked, inside.reshape((-1,) + (1,) * (data.ndim - axis - 1)))
    return picked.reshape(data.shape[:axis] + indices.shape + data.shape[axis + 1 :])


def _side_by_side(data: torch.Tensor, indices: torch.Tensor, axis: int) -> torch.Tensor:
    """Row i of the indices reads row i of the data; where one of them has a single row, it serves all."""
    batch = max(data.shape[0], indices.shape[0]) if 0 not in (data.shape[0], indices.shape[0]) else 0
    data, indices = (x.expand(batch, *x.shape[1:]) if batch else x[:0] for x in (data, indices))
    if data.ndim == 2:  # which torch reads several times as fast
        return _element(data, indices.unsqueeze(-1).flatten(1), 1).reshape(indices.shape)
    places = _nd(data.movedim(axis, 1), indices.unsqueeze(-1), 1)
    # The dimensions between the first and the axis stand behind the indices': put them back.
    between = range(indices.ndim, indices.ndim + axis - 1)
    rest = range(indices.ndim + axis - 1, places.ndim)
    return places.permute(0, *between, *range(1, indices.ndim), *rest)


def _element(data: torch.Tensor, indices: torch.Tensor, axis: int) -> torch.Tensor:
    if data.shape[axis] == 0:
        return data.new_zeros(indices.shape)
    index, inside = in_bounds(indices, data.shape[axis])
    bits = data.view(torch.uint8) if data.dtype == torch.float8_e4m3fn else data  # which torch does not gather
    return _masked(torch.gather(bits, axis, index.long()).view(data.dtype), inside)


def _nd(data: torch.Tensor, indices: torch.Tensor, elementwise: int) -> torch.Tensor:
    lead, depth = data.shape[:elementwise], indices.shape[-1]
    if 0 in data.shape[: elementwise + depth]:
        return data.new_zeros((*indices.shape[:-1], *data.shape[elementwise + depth :]))
    inside: Given = None
    picks: list[torch.Tensor] = [
        torch.arange(size).reshape((-1,) + (1,) * (indices.ndim - 2 - axis)) for axis, size in enumerate(lead)
    ]
    for k in range(depth):
        index, ok = in_bounds(indices[..., k], data.shape[elementwise + k])
        picks.append(index)
        if ok is not None:
            inside = ok if inside is None else inside & ok
    picked = data[tuple(picks)] if picks else data
    if inside is not None:
        picked = _masked(picked, inside.reshape(inside.shape + (1,) * (picked.ndim - inside.ndim)))
    return picked


def _unbuilt(node: Node) -> str | None:
    data, indices = (tuple(tensor.shape) for tensor in node.inputs)
    read = (
        data[: node.layer.num_elementwise_dims + indices[-1]]
        if node.layer.mode.name == "ND"
        else data[node.layer.axis :][:1]
    )
    if 0 in read and 0 not in indices:
        return "gathering from an empty dimension cannot be built: every index is out of bounds"
    return None


def _next(node: Node) -> Evaluate:
    """The element after each."""
    axis = node.layer.axis if node.layer.mode.name != "ND" else node.layer.num_elementwise_dims
    return lambda f, data, indices: f(data, (indices + 1) % max(data.shape[axis], 1))


@computes(
    "GATHER",
    known={"mode": ("DEFAULT", "ELEMENT", "ND")},
    category="sampling",
    settings=True,
    carries_sizes=True,
    computes=False,
    unbuilt=_unbuilt,
    mistakes=Mistakes(instead={"the element after it": _next}),
)
def _gather(node: Node, data: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """An index out of bounds reads 0, as documented. Negative ones count from the end, also on a dynamic axis, where
    the documentation leaves them undefined.
    """
    mode, elementwise = node.layer.mode.name, node.layer.num_elementwise_dims
    if mode == "ND":
        return _nd(data, indices, elementwise)
    axis = node.layer.axis
    return _element(data, indices, axis) if mode == "ELEMENT" else _default(data, indices, axis, elementwise)


@operation
def scatter(data: Tensor, indices: Tensor, updates: Tensor, mode: str = "ELEMENT", axis: int = 0) -> Tensor:
    """``data`` with ``updates`` written where ``indices`` (int32 or int64) say: one IScatterLayer.

    ELEMENT: ``result[i][indices[i][j]] = updates[i][j]`` along ``axis``, all three of one rank. ND: the last dimension
    of ``indices`` (..., k) indexes the first k dimensions of ``data``, and ``updates`` is (..., data.shape[k:]…).
    Writing to one place twice is undefined.
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
    index, inside = in_bounds(indices.long(), size)
    if inside is not None:
        raise ShapeError(f"an index is outside the dimension of size {size}")
    return index


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
