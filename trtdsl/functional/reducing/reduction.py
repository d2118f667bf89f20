"""Reductions over dimensions."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.errors import ShapeError, UnsupportedError
from ...definition.methods import Dims
from ...definition.tensor import Extremes, Selected, Tensor
from ...layers.shuffle import Shuffle
from ...sizes.shape import channels_last, shape_text
from ..common import Call, L, as_dtype, family, is_static, lowered, operation, product, require_floats, torch, way
from ..operands import axes_of, axis_of, choose, varargs
from ..pointwise.arithmetic import maximum, minimum
from ..shaping.reshape import movedim, ravel


def reduce(x: Tensor, op: str, dim: Dims, keepdim: bool) -> Tensor:
    """IReduceLayer over ``dim``; the tensor itself where there is no dimension."""
    axes = axes_of(dim, x.ndim)
    return L.reduce(x, op, axes, keepdim) if axes else x


def summable(x: Tensor, dtype: Any) -> Tensor:
    """Cast to ``dtype``; bool, and integers without one, become int64."""
    if dtype is not None:
        x = L.cast(x, as_dtype(dtype))
        if x.dtype != torch.bool:
            return x
    return x if x.dtype.is_floating_point else L.cast(x, torch.int64)


def _summed(op: str, input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    result = reduce(summable(input, dtype), op, dim, keepdim)
    return result if dtype is None else L.cast(result, as_dtype(dtype))


sum, prod = family(
    _summed,
    "The {} over ``dim`` (all dimensions when None): IReduceLayer {key}; integers and bool as int64.",
    sum=("SUM", "sum"),
    prod=("PROD", "product"),
)


@operation
def nansum(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum of what is not NaN: IUnaryLayer ISNAN, ISelectLayer, IReduceLayer SUM."""
    x = choose(L.unary(input, "ISNAN"), 0, input, input.dtype) if input.dtype.is_floating_point else input
    return _summed("SUM", x, dim, keepdim, dtype=dtype)


@operation
def mean(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None, lowering: str = "auto"
) -> Tensor:
    """The mean over ``dim`` (all dimensions when None: a true scalar): IReduceLayer AVG (``lowering="reduce"``).

    IPoolingLayer AVERAGE (``"pooling"``) over all dimensions after (N, C) where the channels are the fastest in memory,
    as they are after a convolution, and another convolution or :func:`linear` uses it (``"by_use"``); not for bfloat16.
    """
    x = input if dtype is None else L.cast(input, as_dtype(dtype))
    require_floats("mean takes", x)
    axes = axes_of(dim, x.ndim)
    return lowered("mean", lowering, x, op="AVG", axes=axes, keepdim=keepdim) if axes else x


@operation
def nanmean(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The mean of what is not NaN: the layers of :func:`nansum`, divided by how many there are."""
    x = input if dtype is None else L.cast(input, as_dtype(dtype))
    require_floats("nanmean takes", x)
    there = L.cast(~L.unary(x, "ISNAN"), x.dtype)
    return nansum(x, dim, keepdim) / sum(there, dim, keepdim)


def or_nan(found: Tensor, x: Tensor, axis: int) -> Tensor:
    """What was found of the rows along an axis of ``x``, which stays with any size, and NaN for rows that have one.

    Where ITopKLayer puts NaN is not documented. The sum of nothing but a row's NaNs tells, not that of infinities.
    """
    if not x.dtype.is_floating_point:
        return found
    only = L.reduce(choose(L.unary(x, "ISNAN"), x, 0.0, x.dtype), "SUM", [axis], True)
    return found + only


def _extreme(op: str, input: Tensor, dim: Dims = (), keepdim: bool = False, *, lowering: str = "auto") -> Tensor:
    axes = axes_of(dim, input.ndim)
    if 0 in [input.shape[axis] for axis in axes]:
        raise ShapeError(f"there is no extreme of no elements: dimension {axes} of {shape_text(input.shape)}")
    if input.dtype == torch.bool:
        return L.cast(reduce(L.cast(input, torch.int32), op, dim, keepdim), torch.bool)
    return lowered("amax", lowering, input, op=op, axes=axes, keepdim=keepdim) if axes else input


amax, amin = family(
    _extreme,
    """The {} element over ``dim`` (all dimensions when empty).

    IReduceLayer {key} (``lowering="reduce"``), which skips NaN where torch gives NaN; maxima may be an IPoolingLayer
    (``"pooling"``, ``"by_use"``) as in :func:`mean`.
    """,
    amax=("MAX", "greatest"),
    amin=("MIN", "least"),
)


@operation
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Extremes:
    """The least and the greatest element over ``dim`` (all dimensions when None): two IReduceLayers."""
    return Extremes(_extreme("MIN", input, dim, keepdim), _extreme("MAX", input, dim, keepdim))


def _extreme_or_place(op: str, input: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    if isinstance(dim, Tensor):
        return maximum(input, dim) if op == "MAX" else minimum(input, dim)
    return _extreme(op, input) if dim is None else _extreme_of(input, op, dim, keepdim)


max, min = family(
    _extreme_or_place,
    """The {} element of all, or (values, indices) over ``dim``, or :func:`{name}imum` with a second tensor.

    IReduceLayer {key}; ITopKLayer of one element with ``dim``, the first of equal ones.

    >>> values, indices = F.{name}(net.input("x", (2, 3)), dim=1)
    >>> values.shape, indices.dtype
    ((2,), torch.int64)
    """,
    max=("MAX", "greatest"),
    min=("MIN", "least"),
)


def _place(op: str, input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    if dim is not None:
        return _extreme_of(input, op, dim, keepdim).indices
    indices = _extreme_of(ravel(input), op, 0, False).indices
    return L.shuffle(indices, reshape=(1,) * input.ndim) if keepdim else indices


argmax, argmin = family(
    _place,
    "Where the {} element is over ``dim``, or in the flattened tensor; the first of equal ones: ITopKLayer.",
    argmax=("MAX", "greatest"),
    argmin=("MIN", "least"),
)


def _extreme_of(x: Tensor, op: str, dim: int, keepdim: bool) -> Selected:
    axis = axis_of(dim, x.ndim)
    if x.shape[axis : axis + 1] == (0,):
        raise ShapeError(f"there is no extreme of no elements: dimension {axis} of {shape_text(x.shape)}")
    return with_axis(top(x, 1, axis, op), axis, keepdim)


def with_axis(found: Iterable[Tensor], axis: int, keepdim: bool) -> Selected:
    """Values and indices that have one element along an axis: with it or without it."""
    return Selected(*(x if keepdim or x.ndim == 0 else L.squeeze(x, [axis]) for x in found))


def top(x: Tensor, k: Any, axis: int, op: str) -> Selected:
    """ITopKLayer for any rank and dtype: the values, in the dtype of ``x``, and their int64 indices."""
    if x.ndim == 0:
        values, indices = x, x.network.constant(torch.tensor(0))
    elif x.dtype == torch.bool:
        values, indices = top(L.cast(x, torch.int32), k, axis, op)
        values = L.cast(values, torch.bool)
    elif x.ndim == 1:
        values, indices = (L.squeeze(each, [0]) for each in top(L.unsqueeze(x, [0]), k, 1, op))
    elif axis < x.ndim - 4:  # ITopKLayer selects along one of the last four dimensions
        values, indices = (movedim(each, -1, axis) for each in top(movedim(x, axis, -1), k, x.ndim - 1, op))
    else:
        values, indices = L.topk(x, k, axis, op, indices_dtype=torch.int64)
    return Selected(values, indices)


def _truth(op: str, input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    flags = L.cast(L.cast(input, torch.bool), torch.int32)
    return L.cast(reduce(flags, op, dim, keepdim), torch.bool)


all, any = family(
    _truth,
    "Whether {} over ``dim``: IReduceLayer {key} of zeros and ones, between two ICastLayers.",
    all=("PROD", "all elements are true"),
    any=("SUM", "any element is true"),
)


@operation
def count_nonzero(input: Tensor, dim: Dims = None) -> Tensor:
    """How many elements over ``dim`` are not zero, as int64: ICastLayers and IReduceLayer SUM."""
    return reduce(L.cast(L.cast(input, torch.bool), torch.int64), "SUM", dim, False)


@operation
def equal(input: Tensor, other: Tensor) -> Tensor:
    """Whether shapes and all elements are the same, as a bool scalar: IElementWiseLayer EQUAL and :func:`all`."""
    if input.shape != other.shape:
        return input.network.constant(torch.tensor(False))
    return all(input == other)


@operation
def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """The sums that undo a broadcast to the shape of ``input``: IReduceLayer SUM.

    >>> F.sum_to_size(net.input("x", (5, 2, 3)), 2, 1).shape
    (2, 1)
    """
    wanted = varargs(size)
    if not wanted:
        return sum(input)
    extra = input.ndim - len(wanted)
    if extra < 0:
        raise UnsupportedError(f"sum_to_size: {shape_text(input.shape)} is no broadcast of {shape_text(wanted)}")
    axes = [axis for axis, length in enumerate(wanted, extra) if length == 1 and input.shape[axis] != 1]
    x = sum(input, axes, True) if axes else input
    return sum(x, list(range(extra))) if extra else x


NO_POOLING = "IPoolingLayer is for all dimensions after (N, C), of static sizes, of floats, and has no minimum"
NOT_LAST = "the channels are not the fastest dimension in memory, or it is bfloat16"


def _why_not_pooled(x: Tensor, op: str, axes: Sequence[int], keepdim: bool) -> str | None:
    spatial = op != "MIN" and tuple(axes) == tuple(range(2, x.ndim)) and x.ndim in (3, 4, 5)
    fits = spatial and x.dtype.is_floating_point and not x.is_constant and is_static(x.shape[1:])
    return None if fits else NO_POOLING


def _why_not_by_use(x: Tensor, op: str, axes: Sequence[int], keepdim: bool) -> str | None:
    if (reason := _why_not_pooled(x, op, axes, keepdim)) is not None:
        return reason
    return None if x.dtype != torch.bfloat16 and x.order == channels_last(x.ndim) else NOT_LAST


@way(
    "mean amax",
    "by_use",
    "IPoolingLayer where convolutions and linear products alone use it, otherwise IReduceLayer",
    unless=_why_not_by_use,
)
def _by_use(x: Tensor, op: str, axes: Sequence[int], keepdim: bool) -> Tensor:
    operation = x.network.current_operation
    assert operation is not None
    shape = (*x.shape[:2], *(1,) * (x.ndim - 2)) if keepdim else x.shape[:2]
    return Reduction(operation, [x], (x, op, axes, keepdim)).tensor(shape, x.dtype, "a reduction", x.scope)


@way("mean amax", "reduce", "IReduceLayer")
def reduced(x: Tensor, op: str, axes: Sequence[int], keepdim: bool) -> Tensor:
    """IReduceLayer over ``axes``, along rows of channels where it is over all places and they lie last in memory.

    Places of open sizes are copied, channels first, before the layer that reduces them where they stand.
    """
    places = x.ndim > 3 and tuple(axes) == tuple(range(2, x.ndim)) and not x.is_constant
    if not places or is_static(x.shape[2:]) or x.order != channels_last(x.ndim):
        return L.reduce(x, op, axes, keepdim)
    rows = L.shuffle(x, channels_last(x.ndim), (x.shape[0], product(x.shape[2:]), x.shape[1]))
    result = L.reduce(rows, op, [1], False)
    return L.unsqueeze(result, range(2, x.ndim)) if keepdim else result


@way("mean amax", "pooling", "IPoolingLayer, which wants the channels fastest in memory", unless=_why_not_pooled)
def _pooled(x: Tensor, op: str, axes: Sequence[int], keepdim: bool) -> Tensor:
    flat = L.unsqueeze(x, [2]) if x.ndim == 3 else x  # pooling needs two spatial dimensions
    windows, none = [int(size) for size in flat.shape[2:]], [0] * (flat.ndim - 2)
    kind = "AVERAGE" if op == "AVG" else op
    result = L.pooling(flat, kind, windows, stride=windows, pre_padding=none, post_padding=none)
    gone = range(2, flat.ndim) if not keepdim else [2] if x.ndim == 3 else []
    return L.squeeze(result, gone) if gone else result


@dataclass(eq=False, slots=True)
class Reduction(Call):
    """A reduction that becomes another layer where products with weights alone use it.

    Where the channels are the fastest dimension in memory, IReduceLayer takes a launch more than IPoolingLayer, which
    wants them so everywhere; but elementwise layers around it become one launch with IReduceLayer alone. A convolution
    or a linear product is a launch of its own. bfloat16 is pooled by way of float32.
    """

    rule = "reduction by use"
    how: tuple[Tensor, str, Sequence[int], bool]

    def lower(self) -> Tensor:
        """IPoolingLayer or IReduceLayer."""
        if self._is_for_product(self.results[0]):
            self.remark("IPoolingLayer: products alone use it")
            return _pooled(*self.how)
        return reduced(*self.how)

    def _is_for_product(self, tensor: Tensor) -> bool:
        """Whether products with weights alone use the result, perhaps shuffled."""
        users = self.operation.network.graph.users(tensor)
        return bool(users) and builtins.all(
            user.is_product or (isinstance(user, Shuffle) and self._is_for_product(user.results[0])) for user in users
        )
