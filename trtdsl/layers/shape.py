"""CONCATENATION, SLICE, a strided box, and PADDING; SHAPE, and shape tensors for sizes that are known when it runs."""

from __future__ import annotations

import builtins
import functools
import itertools
from collections.abc import Sequence
from typing import Any

from ..sizes.dim import TensorDim
from ..sizes.size import Atom, FloorDivision, Maximum, Minimum
from .base import HEIGHT, add_layer, adds, lifted, member, normalize_axis
from .common import DefinitionError, Network, ShapeError, Size, SizeLike, Tensor, is_static, operation, torch
from .evaluation import Evaluate, Given, Mistakes, Node, compact, computes, evaluates, given_dims
from .gather import gather
from .pointwise import elementwise


@operation
def concatenation(tensors: Sequence[Tensor], axis: int) -> Tensor:
    """Tensors of one rank and dtype, one after the other along ``axis``: one IConcatenationLayer."""
    if not tensors:
        raise DefinitionError("concatenation needs at least one tensor")
    axis = normalize_axis(axis, tensors[0].ndim)
    if len({tensor.ndim for tensor in tensors}) > 1:
        raise ShapeError(f"tensors to concatenate must have one rank, not {[tensor.ndim for tensor in tensors]}")
    shape = list(tensors[0].shape)
    total: SizeLike = 0
    for tensor in tensors:
        total = total + tensor.shape[axis]
        for other, size in enumerate(tensor.shape):
            if other != axis and isinstance(size, int) and not isinstance(shape[other], int):
                shape[other] = size
    network = tensors[0].network
    for tensor in tensors:
        for other, size in enumerate(tensor.shape):
            if other != axis and size is not shape[other]:
                what = f"the sizes of dimension {other}, along which nothing is joined,"
                network.constraints.equal(size, shape[other], what, network.current_operation)
    shape[axis] = total
    if (image := lifted(tensors)) is not None:
        images, back = image
        return back(concatenation(images, axis + (axis >= HEIGHT)))

    def order() -> tuple[int, ...]:
        orders = {tensor.order for tensor in tensors}
        return orders.pop() if len(orders) == 1 else tuple(range(len(shape)))

    return add_layer(adds("add_concatenation", together=True, axis=axis), *tensors, shape=tuple(shape), order=order)


JOINED = Mistakes(
    instead={"parts in reverse order": lambda node: (lambda f, *x: f(*x[::-1])) if len(node.inputs) > 1 else None}
)


@computes(
    "CONCATENATION", category="rearranging", carries_sizes=True, computes=False, fp8="takes gives", mistakes=JOINED
)
def _concatenation(node: Node, *tensors: torch.Tensor) -> torch.Tensor:
    return torch.cat(tensors, node.layer.axis)


@operation
def shape(x: Tensor) -> Tensor:
    """The shape of ``x`` as an int64 tensor with one element per dimension: one IShapeLayer, shared by all its uses."""
    network = x.network
    if x.is_constant:
        return network.constant(torch.tensor(x.data.shape, dtype=torch.int64))
    return network.shared(("shape", x), lambda: add_layer(adds("add_shape"), x, shape=(x.ndim,), dtype=torch.int64))


@evaluates("SHAPE", category="constant", carries_sizes=True, computes=False, moves=False, fp8="takes")
def _shape(node: Node) -> Evaluate:
    return lambda x: torch.tensor(x.shape, dtype=torch.int64)


def size_tensor(network: Network, sizes: Sequence[SizeLike]) -> Tensor:
    """The sizes as one int64 shape tensor of shape ``(len(sizes),)``; static ones are constants.

    Emits nothing for static sizes; for dynamic ones IShapeLayer and IGatherLayer, an IElementWiseLayer for each step
    of arithmetic, and one IConcatenationLayer. Sizes that were needed before are reused.
    """
    parts: list[Tensor] = []
    for _, group in itertools.groupby(sizes, lambda size: isinstance(size, int)):
        run: list[Any] = list(group)
        sums = (network.shared(("size", size), functools.partial(_sum, network, size)) for size in run)
        parts += [_int64(network, run)] if is_static(run) else sums
    if len(parts) < 2:
        return parts[0] if parts else _int64(network, [])
    return network.shared(("sizes", tuple(sizes)), lambda: concatenation(parts, 0))


def size_tensors(network: Network) -> dict[str, SizeLike]:
    """The sizes that tensors of a network hold, by the tensors' names."""
    found = ((key, tensor) for key, tensor in network.cache.items() if isinstance(key, tuple) and key[0] == "size")
    return {tensor.name: key[1] for key, tensor in found if tensor.handle is not None}


def _int64(network: Network, values: Sequence[int]) -> Tensor:
    return network.plain_constant(torch.tensor(values, dtype=torch.int64), ())


def _sum(network: Network, size: Size) -> Tensor:
    """A size as a shape tensor of one element."""
    total: Tensor | None = None
    for monomial, coefficient in size.terms:
        term: Tensor | None = None
        for factor in (network.shared(("atom", atom), functools.partial(_atom, network, atom)) for atom in monomial):
            term = factor if term is None else elementwise(term, factor, "PROD")
        if term is None:
            term = _int64(network, [coefficient])
        elif coefficient == -1 and total is not None:
            total = elementwise(total, term, "SUB")
            continue
        elif coefficient != 1:
            term = elementwise(term, _int64(network, [coefficient]), "PROD")
        total = term if total is None else elementwise(total, term, "SUM")
    assert total is not None
    return total


_BINARY = {FloorDivision: "FLOOR_DIV", Maximum: "MAX", Minimum: "MIN"}


def _atom(network: Network, atom: Atom) -> Tensor:
    """A Dim from an input that has it: by itself where there is such an input, else from ``a*Dim + b``."""
    if isinstance(atom, (FloorDivision, Maximum, Minimum)):
        left, right = (size_tensor(network, [size]) for size in (atom.left, atom.right))
        return elementwise(left, right, _BINARY[type(atom)])
    if isinstance(atom, TensorDim):
        return gather(shape(atom.tensor), _int64(network, [atom.axis]))
    tensor, axis, factor, offset = network.place_of(atom)
    result = gather(shape(tensor), _int64(network, [axis]))
    if offset:
        result = elementwise(result, _int64(network, [offset]), "SUB")
    if factor != 1:
        result = elementwise(result, _int64(network, [factor]), "FLOOR_DIV")
    return result


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
    index = torch.arange(size) * stride + start
    if mode == "STRICT_BOUNDS":
        raise ShapeError(f"slice from {start}, size {size}, stride {stride} leaves the dimension of size {length}")
    if mode == "FILL":
        shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
        result = x.new_zeros(shape) if fill is None else fill.reshape(()).to(x.dtype).repeat(shape)
        inside = ((index >= 0) & (index < length)).nonzero()
        if len(inside):  # they follow one another
            first = int(inside[0])
            part = _slice_axis(x, axis, start + first * stride, len(inside), stride, mode, fill)
            result.narrow(axis, first, len(inside)).copy_(part)
        return result
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
        x = _slice_axis(x, axis, -pre, x.shape[axis] + pre + post, 1, "FILL", None)
    return x
