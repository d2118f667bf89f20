"""Reading and writing elements by index; ``x[index] = value`` as a new tensor."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from ...core.errors import DefinitionError, ShapeError, UnsupportedError
from ...core.lazy import torch
from ..common import L, Shape, SizeLike, Tensor, broadcast, operation, product, require_one_of, require_rank, shape_text
from ..family import Function
from ..operands import align, along, as_tensor, as_vector, axis_of, binary, choose, on_axis, stretch
from ..shaping.create import counted, filled
from ..shaping.reshape import movedim
from .index import Span, as_indices, covers, merged, places_where, spans_of, split_index, view_shape


def _integers(index: Tensor, name: str) -> Tensor:
    if index.dtype in (torch.int32, torch.int64):
        return index
    if index.numel() == 0:  # which torch takes of any dtype
        return filled(index.network, index.shape, 0, torch.int64)
    raise DefinitionError(f"{name} takes indices of int32 or int64, not {index.dtype}")


def _of_scalars_too(function: Function) -> Function:
    """Has a function along a dimension take scalars: as vectors of one element, and so its result."""

    @functools.wraps(function)
    def call(input: Tensor, dim: int, index: Tensor, *values: Any, **how: Any) -> Tensor:
        if input.ndim:
            return function(input, dim, index, *values, **how)
        axis_of(dim, 0)
        wide = [as_vector(x) if isinstance(x, Tensor) else x for x in (input, index, *values)]
        return L.squeeze(function(wide[0], 0, *wide[1:], **how), [0])

    return call  # type: ignore[return-value]


def _box(x: Tensor, shape: Sequence[SizeLike]) -> Tensor:
    """The first elements of every dimension."""
    return x if tuple(shape) == x.shape else L.slice(x, (0,) * x.ndim, tuple(shape))


@operation
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """``input`` at ``index`` along ``dim``, at its own place in the other dimensions: IGatherLayer (ELEMENT).

    ``sparse_grad`` concerns gradients, of which there are none.
    """
    index = _integers(index, "gather")
    if index.numel() == 0:
        return filled(input.network, index.shape, 0, input.dtype)
    axis = axis_of(dim, input.ndim)
    if input.ndim == 0 or index.ndim == 0:
        result = L.gather(as_vector(input), as_vector(index), 0, "ELEMENT")
        return result if index.ndim else L.squeeze(result, [0])
    if index.ndim != input.ndim:
        raise ShapeError("index and input must have one rank")
    box = tuple(input.shape[d] if d == axis else size for d, size in enumerate(index.shape))
    return L.gather(_box(input, box), index, axis, "ELEMENT")


@operation
@_of_scalars_too
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The parts of ``dim`` at ``index``, a vector: IGatherLayer."""
    _integers(index, "index_select")
    require_rank(index, "index_select takes a vector of indices", 0, 1)
    return L.gather(input, as_vector(index), axis_of(dim, input.ndim))


@operation
def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements of the flattened ``input`` at ``index``: IShuffleLayer and IGatherLayer."""
    return L.gather(L.shuffle(input, reshape=(input.numel(),)), _integers(index, "take"), 0)


@operation
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """As :func:`gather` where the other dimensions are broadcast; of the flattened tensor when ``dim`` is None."""
    if dim is None:
        return take(input, L.shuffle(indices, reshape=(indices.numel(),)))
    if input.ndim != indices.ndim:
        raise ShapeError("indices and input must have one rank")
    axis = axis_of(dim, input.ndim)
    rest = [tensor.shape[:axis] + tensor.shape[axis + 1 :] for tensor in (input, indices)]
    common = broadcast(*rest)
    data, places = (stretch(x, (*common[:axis], x.shape[axis], *common[axis:])) for x in (input, indices))
    return L.gather(data, _integers(places, "take_along_dim"), axis, "ELEMENT")


@operation
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of ``weight`` (classes, features) that ``input`` names: IGatherLayer.

    ``padding_idx``, ``scale_grad_by_freq`` and ``sparse`` concern gradients alone. ``max_norm`` (with ``norm_type``)
    shortens rows in place, which a network cannot: it is refused.
    """
    if max_norm is not None:
        raise UnsupportedError("embedding(max_norm=…) changes the weight in place: apply it to the weight beforehand")
    return L.gather(weight, _integers(input, "embedding"), 0)


@operation
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The positions of elements that are not zero, (count, rank) in int64: INonZeroLayer and IShuffleLayer.

    ``count`` depends on data. ``as_tuple`` gives one vector for each dimension.
    """
    x = as_vector(input)
    found = places_where(x)
    if as_tuple:
        return tuple(found[axis] for axis in range(x.ndim))
    rows = L.shuffle(found, (1, 0))
    return rows if input.ndim else L.slice(rows, (0, 0), (rows.shape[0], 0))


@operation
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where ``mask`` holds as a vector, whose size depends on data: INonZeroLayer and IGatherLayer."""
    if mask.dtype != torch.bool:
        raise DefinitionError(f"masked_select takes a mask of bool, not {mask.dtype}")
    x, flags = align([input, mask])
    shape = broadcast(x.shape, flags.shape)
    values = L.shuffle(stretch(x, shape), reshape=(product(shape),))

    def chosen() -> Tensor:
        flat = L.shuffle(stretch(flags, shape), reshape=(product(shape),))
        return L.squeeze(L.non_zero(flat, torch.int64), [0])

    return L.gather(values, mask.network.shared(("chosen", mask, shape), chosen), 0)


@operation
@_of_scalars_too
def scatter(input: Tensor, dim: int, index: Tensor, src: Any, *, reduce: str | None = None) -> Tensor:
    """``input`` with ``src``, a tensor or a number, written at ``index`` along ``dim``: IScatterLayer (ELEMENT).

    ``reduce`` "add" or "multiply" combines instead, as :func:`scatter_reduce` does. Several writes to one place are
    undefined.
    """
    if reduce is not None:
        operations = {"add": "sum", "multiply": "prod"}
        require_one_of("scatter: reduce", reduce, operations)
        return scatter_reduce(input, dim, index, src, operations[reduce])
    places, values, axis = _written(input, dim, index, src)
    return input if index.numel() == 0 else L.scatter(input, places, values, "ELEMENT", axis)


def _written(input: Tensor, dim: int, index: Tensor, src: Any) -> tuple[Tensor, Tensor, int]:
    """Indices and updates of one rank, the updates in the dtype of the data and the shape of the indices."""
    places = as_vector(_integers(index, "scatter"))
    if not isinstance(src, Tensor) or src.ndim != index.ndim:
        values = filled(input.network, places.shape, src, input.dtype)
    elif src.dtype == input.dtype:
        values = _box(as_vector(src), places.shape)
    else:
        raise DefinitionError(f"scatter: src is {src.dtype}, input {input.dtype}: torch wants one dtype")
    return places, values, axis_of(dim, input.ndim)


@operation
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """``src`` added to ``input`` at ``index`` along ``dim``, as often as it appears: as :func:`scatter_reduce`."""
    return scatter_reduce(input, dim, index, src, "sum")


@operation
@_of_scalars_too
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Any, reduce: str, *, include_self: bool = True
) -> Tensor:
    """The values of ``src`` that ``index`` sends to one place of ``dim`` combined with what is there.

    ``reduce`` is sum, prod, mean, amax or amin; without ``include_self`` what was there does not count.

    IScatterLayer keeps one of several writes, so each place is compared with all indices (IElementWiseLayer EQUAL),
    and the values chosen so are reduced (ISelectLayer, IReduceLayer): memory of the order of ``index`` times the size
    of ``dim``.
    """
    require_one_of("scatter_reduce: reduce", reduce, _REDUCTIONS)
    if input.dtype == torch.bool:
        numbers = L.cast(src, torch.int32) if isinstance(src, Tensor) else int(src)
        flags = L.cast(input, torch.int32)
        combined = scatter_reduce(flags, dim, index, numbers, reduce, include_self=include_self)
        return L.cast(combined, torch.bool)
    x, (places, values, axis) = input, _written(input, dim, index, src)
    if index.numel() == 0:
        return input
    # Both get the other dimensions of the data; the places added name no index.
    box = tuple(places.shape[axis] if d == axis else size for d, size in enumerate(x.shape))
    none = as_tensor(-1, x.network, places.dtype)
    start = (0,) * x.ndim
    if box != places.shape:
        places, values = L.slice(places, start, box, mode="FILL", fill=none), L.slice(values, start, box, mode="FILL")
    labels = on_axis(L.linspace(x.network, (x.shape[axis],), dtype=places.dtype), axis, x.ndim + 1)
    # (…, place, …, write): the writes of each place along a new last dimension.
    places, values = (L.unsqueeze(movedim(part, axis, -1), [axis]) for part in (places, values))
    here, op = L.elementwise(places, labels, "EQUAL"), _REDUCTIONS[reduce]
    combined = L.reduce(choose(here, values, _identity(x.dtype, reduce), x.dtype), op, [x.ndim])
    written = L.reduce(L.cast(here, torch.int32), "SUM", [x.ndim])
    if include_self:
        combined = L.elementwise(x, combined, op)
    if reduce == "mean":
        number = binary(written, 1, "SUM" if include_self else "MAX", torch.int32)
        quotient = "DIV" if x.dtype.is_floating_point else "FLOOR_DIV"
        combined = L.elementwise(combined, L.cast(number, x.dtype), quotient)
    return combined if include_self else L.select(written > 0, combined, x)


_REDUCTIONS = {"sum": "SUM", "prod": "PROD", "mean": "SUM", "amax": "MAX", "amin": "MIN"}


def _identity(dtype: torch.dtype, reduce: str) -> float:
    if reduce in ("sum", "mean", "prod"):
        return float(reduce == "prod")
    limits = torch.iinfo(dtype) if not dtype.is_floating_point else None
    least, most = (-math.inf, math.inf) if limits is None else (limits.min, limits.max)
    return least if reduce == "amax" else most


@operation
@_of_scalars_too
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    """``alpha * source`` added to the parts of ``dim`` at ``index``: the layers of :func:`scatter_reduce`."""
    op = "AND" if source.dtype == torch.bool else "PROD"
    values = source if alpha == 1 else binary(source, alpha, op, source.dtype)
    return scatter_reduce(input, *_along(input, dim, index, values), "sum")


@operation
@_of_scalars_too
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """``source`` in the parts of ``dim`` at ``index``: IScatterLayer (ELEMENT)."""
    return scatter(input, *_along(input, dim, index, source))


@operation
@_of_scalars_too
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """``value`` in the parts of ``dim`` at ``index``: IScatterLayer (ELEMENT)."""
    axis, places = axis_of(dim, input.ndim), as_vector(index)
    shape = (*input.shape[:axis], places.shape[0], *input.shape[axis + 1 :])
    return index_copy(input, axis, places, filled(input.network, shape, value, input.dtype))


def _along(input: Tensor, dim: int, index: Tensor, source: Tensor) -> tuple[int, Tensor, Tensor]:
    """The dimension, a vector of indices stretched over the others, and the updates, as :func:`scatter` takes them."""
    axis = axis_of(dim, input.ndim)
    values = source if source.ndim == input.ndim else L.unsqueeze(source, [axis])
    return axis, stretch(on_axis(as_vector(index), axis, input.ndim), values.shape), values


@operation
def index_put(input: Tensor, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Tensor:
    """``input`` with ``values`` at the places that ``indices`` (int, bool, None for all) name: IScatterLayer.

    ``accumulate`` adds, as often as a place appears, by the layers of :func:`scatter_reduce`.
    """
    given = list(indices) + [None] * (input.ndim - len(indices))
    places = as_indices(input, given)
    used = [axis for axis, place in enumerate(places) if place is not None]
    if not used:
        raise UnsupportedError("index_put without an index: use the values themselves")
    target, axis, index, order = merged(input, places)
    shape = (*target.shape[:axis], *index.shape, *target.shape[axis + 1 :])
    update = _broadcast(as_tensor(values, input.network, input.dtype), shape)
    if not accumulate:
        return L.scatter(input, _coordinates(input, places, axis), update, "ND")
    count = product(index.shape)
    update = L.shuffle(update, reshape=(*target.shape[:axis], count, *target.shape[axis + 1 :]))
    summed = index_add(target, axis, L.shuffle(index, reshape=(count,)), update)
    back = [order.index(axis) for axis in range(input.ndim)]
    return L.shuffle(L.shuffle(summed, reshape=[input.shape[axis] for axis in order]), back)


def _coordinates(x: Tensor, places: Sequence[Tensor | None], lead: int) -> Tensor:
    """Indices (…, k) of the first k dimensions, as IScatterLayer (ND) takes them, so that no dimension has to move.

    Dimensions without a place are counted through: before the places where ``lead`` are so many, else behind them, as
    torch has them in the updates.
    """
    used = [axis for axis, place in enumerate(places) if place is not None]
    through = [axis for axis in range(used[-1]) if axis not in used]
    given = align([L.cast(place, torch.int64) for place in places if place is not None])
    batch, sizes = broadcast(*(place.shape for place in given)), [x.shape[axis] for axis in through]
    grid, first = ((*sizes, *batch), 0) if lead else ((*batch, *sizes), len(batch))
    new = range(first, first + len(sizes))
    columns = {axis: L.unsqueeze(place, new) for axis, place in zip(used, given, strict=True)}
    for number, axis in zip(new, through, strict=True):
        columns[axis] = on_axis(counted(x.network, x.shape[axis]), number, len(grid))
    return L.concatenation([L.unsqueeze(stretch(columns[k], grid), [len(grid)]) for k in sorted(columns)], len(grid))


@operation
def setitem(input: Tensor, index: Any, value: Any) -> Tensor:
    """``input`` as it is after ``input[index] = value`` in torch; ``input`` itself stays what it is.

    The index is one that :func:`getitem` takes: ints, Sizes, slices with steps, None, Ellipsis, and tensors or lists of
    indices, of int or bool. ``value`` is broadcast to the shape of ``input[index]`` and cast to the dtype of ``input``.

    Ints and slices: ISliceLayers and IConcatenationLayer; IScatterLayer (ELEMENT) for steps. A mask with a value for
    all its places: ISelectLayer. One tensor of integers: IScatterLayer (ELEMENT), which leaves the other dimensions
    where they are, so that ``cache[:, :, position] = k`` moves no more than the cache. Several tensors, and a mask with
    a value for each place: IScatterLayer (ND). Several values written to one place: which one stays is undefined.

    Raises ShapeError where ``value`` does not stretch to that shape.

    >>> x, y = net.input("x", ("N", 8)), net.input("y", ("N",))
    >>> F.setitem(x, (..., 3), y).shape  # x[..., 3] = y
    (N, 8)
    """
    basic, tensors = split_index(input, index)
    given = as_tensor(value, input.network, input.dtype)
    spans, whole = spans_of(input, basic), False
    if all(place is None for place in tensors):
        changed = _broadcast(given, view_shape(basic, spans))
    else:
        whole = all(map(covers, spans, input.shape)) and all(span.kept for span in spans) and None not in basic
        changed = _put(input if whole else input[tuple(basic)], tensors, given)
    return changed if whole else _put_along(input, spans, L.shuffle(changed, reshape=[each.length for each in spans]))


def _broadcast(value: Tensor, shape: Shape) -> Tensor:
    """The value in this shape; as torch does it, leading dimensions of size 1 too many are left out."""
    extra = value.ndim - len(shape)
    if extra > 0:
        if any(size != 1 for size in value.shape[:extra]):
            raise ShapeError(f"a value of shape {shape_text(value.shape)} does not stretch to {shape_text(shape)}")
        value = L.squeeze(value, range(extra))
    wide = L.unsqueeze(value, range(len(shape) - value.ndim))
    return stretch(wide, shape)


def _put_along(x: Tensor, spans: Sequence[Span], value: Tensor) -> Tensor:
    """The box along its first dimension that is not whole, from the old values with the rest of the box written."""
    axis = next((axis for axis, span in enumerate(spans) if not covers(span, x.shape[axis])), None)
    if axis is None:
        return value
    span = spans[axis]
    inner = [Span(0, each.length, 1) if d == axis else each for d, each in enumerate(spans)]
    if any(not covers(each, x.shape[d]) for d, each in enumerate(inner) if d != axis):
        value = _put_along(along(x, axis, span.start, span.length, span.step), inner, value)
    return write_along(x, axis, span.start, span.length, span.step, value)


def write_along(x: Tensor, axis: int, start: SizeLike, count: SizeLike, step: SizeLike, value: Tensor) -> Tensor:
    """``x`` with ``value`` at ``count`` places of a dimension, from ``start`` on, every ``step``-th."""
    if count == 0:
        return x
    if step != 1 and count != 1:
        first, by = (as_tensor(each, x.network, torch.int64) for each in (start, step))
        places = L.linspace(x.network, (count,), first, L.unsqueeze(by, [0]), torch.int64)
        return index_copy(x, axis, places, value)
    after = start + count
    parts = [along(x, axis, 0, start), value, along(x, axis, after, x.shape[axis] - start - count)]
    kept = [part for part in parts if part.shape[axis] != 0]
    return L.concatenation(kept, axis) if len(kept) > 1 else kept[0] if kept else x


def _put(x: Tensor, places: Sequence[Tensor | None], value: Tensor) -> Tensor:
    """``x[places] = value``, of a tensor or None for each dimension (a mask stands for as many as it has)."""
    used = [place for place, given in enumerate(places) if given is not None]
    axis, only = used[0], places[used[0]]
    if len(used) == 1 and only is not None:
        after = x.ndim - axis - only.ndim
        if only.dtype != torch.bool:
            if only.ndim <= 1:
                (index,) = (place for place in as_indices(x, places) if place is not None)
                wide = _broadcast(value, (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))
                return index_copy(x, axis, index, wide if index.ndim else L.unsqueeze(wide, [axis]))
        elif value.ndim <= after or value.shape[-after - 1] == 1:  # the same wherever the mask holds
            place = value.ndim - after - 1
            spread = value if place < 0 else L.unsqueeze(value, range(place, place + only.ndim - 1))
            return choose(L.unsqueeze(only, range(only.ndim, x.ndim - axis)), spread, x, x.dtype)
    return index_put(x, places, value)
