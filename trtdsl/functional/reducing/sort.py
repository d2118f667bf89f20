"""Sorting and selecting by order."""

from __future__ import annotations

from ...sizes.size import Size, SizeLike
from ..common import DefinitionError, L, Selected, ShapeError, Tensor, UnsupportedError, operation, shape_text, torch
from ..operands import along, axis_of
from ..shaping.create import counted
from ..shaping.reshape import ravel
from .reduction import or_nan, top

LIMIT = 3840  # of ITopKLayer


def _top(x: Tensor, k: SizeLike, dim: int, op: str) -> Selected:
    """The first ``k`` along a dimension, in order; a scalar is the only one."""
    axis = axis_of(dim, x.ndim)
    if x.ndim == 0:
        return Selected(x, x.network.constant(torch.tensor(0)))
    if k == 0:
        return Selected(along(x, axis, 0, 0), along(L.cast(x, torch.int64), axis, 0, 0))
    if isinstance(k, int) and k > LIMIT:
        raise UnsupportedError(f"ITopKLayer sorts at most {LIMIT} elements, not {k}")
    return Selected(*top(x, k, axis, op))


@operation
def topk(input: Tensor, k: SizeLike, dim: int = -1, largest: bool = True, sorted: bool = True) -> Selected:
    """The ``k`` greatest (or least) elements along ``dim``, in order, and their indices: ITopKLayer.

    They are sorted also when ``sorted`` is False, where torch promises no order. Of equal elements the first comes
    first.

    >>> values, indices = F.topk(net.input("x", ("N", 8)), 3)
    >>> values.shape, indices.dtype
    ((N, 3), torch.int64)
    """
    axis, op = axis_of(dim, input.ndim), "MAX" if largest else "MIN"
    if input.ndim == 0 or k == 0:
        return _top(input, k, dim, op)
    length = input.shape[axis]
    if isinstance(length, int) and isinstance(k, int) and not 0 < k <= length:
        raise ShapeError(f"topk: k = {k} is not between 0 and the {length} elements of dimension {axis}")
    input.network.constraints.inside(0, k, length, input.network.current_operation)
    return _top(input, k, axis, op)


@operation
def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = True) -> Selected:
    """All elements along ``dim`` in order, and where they were: ITopKLayer, which takes 3840 elements at most.

    Always stable: equal elements keep their order.
    """
    if input.ndim and input.numel() == 0:
        return Selected(input, L.cast(input, torch.int64))
    every = input.shape[axis_of(dim, input.ndim)] if input.ndim else 1
    return _top(input, every, dim, "MAX" if descending else "MIN")


@operation
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Where the elements were that :func:`sort` puts in order: ITopKLayer."""
    return sort(input, dim, descending, stable).indices


@operation
def msort(input: Tensor) -> Tensor:
    """:func:`sort` along dimension 0, values alone: ITopKLayer."""
    return sort(input, 0).values


@operation
def kthvalue(input: Tensor, k: SizeLike, dim: int = -1, keepdim: bool = False) -> Selected:
    """The ``k``-th least element along ``dim`` and where it is: ITopKLayer and ISliceLayer."""
    axis = axis_of(dim, input.ndim)
    if input.ndim == 0:
        return Selected(input, input.network.constant(torch.tensor(0)))
    input.network.constraints.inside(k - 1, 1, input.shape[axis], input.network.current_operation)
    return _last_of(_top(input, k, axis, "MIN"), k - 1, axis, keepdim)


def _last_of(found: Selected, position: SizeLike, axis: int, keepdim: bool) -> Selected:
    picked = (along(x, axis, position, 1) for x in found)
    return Selected(*(x if keepdim else L.squeeze(x, [axis]) for x in picked))


@operation
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor | Selected:
    """The lower median of all elements, or (values, indices) along ``dim``: ITopKLayer and ISliceLayer.

    A row with NaN gives NaN and where the first is: IUnaryLayer ISNAN, ISelectLayers, IReduceLayer SUM, ITopKLayer.
    """
    if dim is None:
        return median(ravel(input), 0).values  # type: ignore[union-attr]
    axis = axis_of(dim, input.ndim)
    if input.ndim == 0:
        return Selected(input, input.network.constant(torch.tensor(0)))
    length = input.shape[axis]
    if length == 0:
        raise ShapeError(f"there is no median of no elements: dimension {axis} of {shape_text(input.shape)}")
    middle = (length - 1) // 2
    values, indices = _last_of(_top(input, middle + 1, axis, "MIN"), middle, axis, True)
    values = or_nan(values, input, axis)
    if input.dtype.is_floating_point:
        first = _top(L.cast(L.unary(input, "ISNAN"), torch.int32), 1, axis, "MAX").indices
        indices = L.select(L.unary(values, "ISNAN"), first, indices)
    return Selected(*(x if keepdim else L.squeeze(x, [axis]) for x in (values, indices)))


@operation
def one_hot(tensor: Tensor, num_classes: SizeLike = -1) -> Tensor:
    """1 at the class that ``tensor`` names along a new last dimension, 0 elsewhere, as int64: IOneHotLayer.

    A dynamic number of classes takes IFillLayer and IElementWiseLayer EQUAL instead. ``num_classes=-1`` is refused: the
    size would depend on data.
    """
    if tensor.dtype.is_floating_point or tensor.dtype == torch.bool:
        raise DefinitionError(f"one_hot takes integers, not {tensor.dtype}")
    if isinstance(num_classes, Size):
        return L.cast(L.unsqueeze(tensor, [tensor.ndim]) == counted(tensor.network, num_classes), torch.int64)
    if num_classes < 1:
        if num_classes == -1 and tensor.is_constant and tensor.data.numel():
            num_classes = int(tensor.data.max()) + 1
        else:
            raise UnsupportedError("one_hot(num_classes=-1) has a size that depends on data: give num_classes")
    values = tensor.network.constant(torch.tensor([0, 1], dtype=torch.int32))
    return L.cast(L.one_hot(L.cast(tensor, torch.int32), values, num_classes), torch.int64)
