"""``x[index] = value`` as a new tensor: concatenation for boxes, a select for masks, a scatter for positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..common import L, Shape, ShapeError, SizeLike, Tensor, operation, shape_text, torch
from ..operands import along, as_tensor, choose, stretch
from .gather import index_copy, index_put
from .index import Span, as_indices, covers, spans_of, split_index, view_shape


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
    spans = spans_of(input, basic)
    if all(place is None for place in tensors):
        return _box(input, spans, _broadcast(given, view_shape(basic, spans)), basic)
    whole = all(map(covers, spans, input.shape)) and all(span.kept for span in spans) and None not in basic
    region = input if whole else input[tuple(basic)]
    changed = _put(region, tensors, given)
    return changed if whole else _box(input, spans, changed, basic)


def _broadcast(value: Tensor, shape: Shape) -> Tensor:
    """The value in this shape; as torch does it, leading dimensions of size 1 too many are left out."""
    extra = value.ndim - len(shape)
    if extra > 0:
        if any(size != 1 for size in value.shape[:extra]):
            raise ShapeError(f"a value of shape {shape_text(value.shape)} does not stretch to {shape_text(shape)}")
        value = L.squeeze(value, range(extra))
    wide = L.unsqueeze(value, range(len(shape) - value.ndim))
    for have, want in zip(wide.shape, shape, strict=True):
        if isinstance(have, int) and isinstance(want, int) and have not in (1, want):
            raise ShapeError(f"a value of shape {shape_text(value.shape)} does not stretch to {shape_text(shape)}")
    return stretch(wide, shape)


def _box(x: Tensor, spans: Sequence[Span], value: Tensor, basic: Sequence[Any]) -> Tensor:
    """``x[basic] = value``, of a value that has the shape of ``x[basic]``."""
    value = L.shuffle(value, reshape=[span.length for span in spans])
    flipped: list[Span] = []
    for axis, span in enumerate(spans):
        if span.step < 0:
            if span.length != 1:
                value = along(value, axis, value.shape[axis] - 1, value.shape[axis], -1)
            span = Span(span.start + (span.length - 1) * span.step, span.length, -span.step)
        flipped.append(span)
    return _written(x, flipped, value)


def _written(x: Tensor, spans: Sequence[Span], value: Tensor) -> Tensor:
    """The box along its first dimension that is not whole, from the old values with the rest of the box written."""
    axis = next((axis for axis, span in enumerate(spans) if not covers(span, x.shape[axis])), None)
    if axis is None:
        return value
    span = spans[axis]
    inner = [Span(0, each.length, 1) if d == axis else each for d, each in enumerate(spans)]
    if any(not covers(each, x.shape[d]) for d, each in enumerate(inner) if d != axis):
        value = _written(along(x, axis, span.start, span.length, span.step), inner, value)
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
    extra = value.ndim - x.ndim
    leading = extra > 0 and all(size == 1 for size in value.shape[:extra])
    return index_put(x, places, L.squeeze(value, range(extra)) if leading else value)
