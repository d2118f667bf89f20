"""SLICE, a strided box of a tensor, with the modes for what lies outside it; PADDING, zeros around one."""

from __future__ import annotations

import builtins
from collections.abc import Sequence

from .base import add_layer, adds, lifted, member
from .common import Evaluate, Given, Mistakes, Node, ShapeError, SizeLike, Tensor, computes, is_static, operation, torch
from .evaluation import compact, given_dims
from .shape import size_tensor


@operation
def slice(
    x: Tensor,
    start: Sequence[SizeLike],
    size: Sequence[SizeLike],
    stride: Sequence[SizeLike] | None = None,
    mode: str = "STRICT_BOUNDS",
    fill: Tensor | None = None,
) -> Tensor:
    """Elements ``start + i * stride`` for ``0 <= i < size`` along each dimension: one ISliceLayer.

    ``start``, ``size`` and ``stride`` (1 by default, may be negative) have one value per dimension of ``x``; values
    that are dynamic become shape tensors. ``mode`` (``trt.SampleMode``) says what stands outside of ``x``:
    STRICT_BOUNDS (nothing may), FILL (``fill``, a scalar, or 0), CLAMP (the edge), WRAP, REFLECT (without the edge).
    Without dimensions it is ``x`` itself, which TensorRT builds wrongly for the last three modes.

    Raises ShapeError when the number of values differs from the rank.

    >>> slice(net.input("x", (2, 8)), (0, 6), (2, 3), (1, -2)).shape
    (2, 3)
    """
    stride = tuple(stride) if stride is not None else (1,) * x.ndim
    if not len(start) == len(size) == len(stride) == x.ndim:
        raise ShapeError(f"slice needs start, size and stride for {x.ndim} dimensions: {start}, {size}, {stride}")
    if not x.ndim:
        return x
    if (image := lifted([x])) is not None:
        (source,), back = image
        begin, extent, steps = ((*box[:2], one, *box[2:]) for box, one in ((start, 0), (size, 1), (stride, 1)))
        return back(slice(source, begin, extent, steps, mode, fill))
    network = x.network
    boxes = [tuple(start), tuple(size), stride]
    dynamic = [None if is_static(box) else size_tensor(network, box) for box in boxes]
    static = [box if tensor is None else (0,) * len(box) for box, tensor in zip(boxes, dynamic, strict=True)]
    add = adds("add_slice", *static, takes=1, mode=member(network.trt.SampleMode, mode, "slice mode"))
    is_one = any(want == 1 and have != 1 for want, have in zip(size, x.shape, strict=True))
    partial = (is_one or x.partial) and not (0 in stride and 1 not in size)
    return add_layer(add, x, *dynamic, fill, shape=tuple(size), order=lambda: x.order, partial=partial)


def _further_on(evaluate: Evaluate, x: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
    """Of ``x`` turned by one element along the last dimension of which the result has another part."""
    sizes = list(zip(x.shape, evaluate(x, *rest).shape, strict=True))
    changed = [axis for axis, (have, got) in enumerate(sizes) if have != got] or list(range(x.ndim))
    return evaluate(x.roll(-1, changed[-1]) if changed else x, *rest)


MISTAKES = Mistakes(
    {"mode": {"FILL": "CLAMP", "CLAMP": "WRAP", "REFLECT": "CLAMP", "WRAP": "CLAMP"}},
    instead={"one element further on": lambda node: _further_on},
)


MODES = "STRICT_BOUNDS", "WRAP", "CLAMP", "FILL", "REFLECT"
FACTS = {"category": "rearranging", "settings": True, "carries_sizes": True, "computes": False, "mistakes": MISTAKES}


@computes("SLICE", known={"mode": MODES}, **FACTS)
def _slice(node: Node, x: torch.Tensor, *given: Given) -> torch.Tensor:
    """STRICT_BOUNDS is checked when the layer runs. A slice of less than a quarter of its tensor is copied."""
    layer, (*boxes, fill, axes) = node.layer, (*given, *[None] * (5 - len(given)))
    static = layer.start, layer.shape, layer.stride
    begins, sizes, steps = (box.tolist() if box is not None else tuple(dims) for box, dims in zip(boxes, static))
    static_axes = None if axes is not None else given_dims(layer.axes)
    chosen = axes.tolist() if axes is not None else range(x.ndim) if static_axes is None else static_axes
    result = x
    for axis, begin, number, step in zip(chosen, begins, sizes, steps, strict=True):
        result = _slice_axis(result, axis % x.ndim, begin, number, step, layer.mode.name, fill)
    return compact(result)


def _slice_axis(x: torch.Tensor, axis: int, start: int, size: int, stride: int, mode: str, fill: Given) -> torch.Tensor:
    length = x.shape[axis]
    last = start + (size - 1) * stride
    if size == 0 or (0 <= start < length and 0 <= last < length):
        if stride > 0:
            stop = last + 1 if size else start
            return x[(builtins.slice(None),) * axis + (builtins.slice(start, stop, stride),)]
        return x.index_select(axis, torch.arange(size) * stride + start)
    if mode == "FILL" and stride == 1:
        return _filled(x, axis, start, size, fill)
    index = torch.arange(size) * stride + start
    if mode == "STRICT_BOUNDS":
        raise ShapeError(f"slice from {start}, size {size}, stride {stride} leaves the dimension of size {length}")
    if mode == "FILL":
        inside = (index >= 0) & (index < length)
        value = torch.zeros((), dtype=x.dtype) if fill is None else fill.reshape(()).to(x.dtype)
        if length == 0:
            return value.expand((*x.shape[:axis], size, *x.shape[axis + 1 :]))
        picked = x.index_select(axis, index.clamp(0, length - 1))
        return torch.where(inside.reshape((-1,) + (1,) * (x.ndim - axis - 1)), picked, value)
    if length == 0:
        raise ShapeError(f"slice mode {mode} on a dimension of size 0")
    if mode == "CLAMP":
        index = index.clamp(0, length - 1)
    elif mode == "WRAP":
        index = index % length
    else:  # REFLECT: the edge is not repeated, so the pattern has the period 2 * (length - 1)
        period = max(2 * (length - 1), 1)
        index = index % period
        index = torch.where(index < length, index, period - index) if length > 1 else torch.zeros_like(index)
    return x.index_select(axis, index)


def _filled(x: torch.Tensor, axis: int, start: int, size: int, fill: Given) -> torch.Tensor:
    """What lies inside, between the fill value."""
    before = min(max(-start, 0), size)
    inside = max(min(start + size, x.shape[axis]) - max(start, 0), 0)
    shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
    result = x.new_zeros(shape) if fill is None else fill.reshape(()).to(x.dtype).repeat(shape)
    if inside:
        result.narrow(axis, before, inside).copy_(x.narrow(axis, max(start, 0), inside))
    return result


@operation
def padding(x: Tensor, pre_padding: Sequence[int], post_padding: Sequence[int]) -> Tensor:
    """Zeros before and after the last two dimensions; negative numbers trim: one IPaddingLayer.

    >>> padding(net.input("x", (1, 2, 4, 4)), (1, 0), (0, -1)).shape
    (1, 2, 5, 3)
    """
    if len(pre_padding) != 2 or len(post_padding) != 2 or x.ndim < 2:
        raise ShapeError("padding needs two values before and two after, for the last two dimensions")
    lead = x.ndim - 2
    sizes = [x.shape[lead + axis] + (pre_padding[axis] + post_padding[axis]) for axis in range(2)]
    add = adds("add_padding_nd", tuple(pre_padding), tuple(post_padding))
    return add_layer(add, x, shape=(*x.shape[:lead], *sizes))


MOVED = Mistakes(instead={"one element further on": lambda node: lambda f, x: f(x).roll(1, -1)})


@computes("PADDING", category="rearranging", computes=False, mistakes=MOVED)
def _padding(node: Node, x: torch.Tensor) -> torch.Tensor:
    """Zeros; negative numbers trim, the padding of the other side too where nothing else is left."""
    sides = list(zip(node.layer.pre_padding_nd, node.layer.post_padding_nd, strict=True))
    for axis, (pre, post) in enumerate(sides, x.ndim - len(sides)):
        length = x.shape[axis]
        result = x.new_zeros((*x.shape[:axis], length + pre + post, *x.shape[axis + 1 :]))
        first, last = max(-pre, 0), length - max(-post, 0)
        if first < last:
            result.narrow(axis, first + pre, last - first).copy_(x.narrow(axis, first, last - first))
        x = result
    return x
