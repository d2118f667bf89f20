"""Averages and maxima over all spatial dimensions, by the order in which they lie in memory and by what uses them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ... import layers as L
from ...core.lazy import torch
from ...definition.operation import Operation
from ...definition.tensor import Tensor
from ...layers.base import channels_last
from ...layers.shuffle import behind_shuffles
from ...sizes.shape import Shape
from ...sizes.size import is_static, product
from ..lowerings import AUTO, lowering_of

NO_POOLING = "IPoolingLayer is for all dimensions after (N, C), of static sizes, of floats, and has no minimum"
NOT_LAST = "the channels are not the fastest dimension in memory, or it is bfloat16"


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


def reduced_by_order(function: str, x: Tensor, op: str, axes: Sequence[int], keepdim: bool, lowering: str) -> Tensor:
    """An average ("AVG") or an extreme ("MAX", "MIN") over ``axes``, in one of the ways of ``function``."""
    spatial = op != "MIN" and tuple(axes) == tuple(range(2, x.ndim)) and x.ndim in (3, 4, 5)
    pooled = spatial and x.dtype.is_floating_point and not x.is_constant and is_static(x.shape[1:])
    if not pooled and lowering == AUTO:
        return reduced(x, op, axes, keepdim)
    cannot = {} if pooled else {"pooling": NO_POOLING}
    if op != "AVG" or len(axes) != 1 or not is_static(x.shape) or not x.dtype.is_floating_point:
        cannot["product"] = "it is for the mean over one dimension, of static sizes, of floats"
    if not pooled or x.dtype == torch.bfloat16 or x.order != channels_last(x.ndim):
        cannot["by_use"] = NOT_LAST if pooled else NO_POOLING
    way = lowering_of(function, lowering, x, cannot=cannot)
    if way == "reduce":
        return L.reduce(x, op, axes, keepdim)
    if way == "product":
        return _by_product(x, axes[0], keepdim)
    if way == "pooling":
        return _pooled(x, op, keepdim)

    def add(before_product: bool) -> Tensor:
        return _pooled(x, op, keepdim) if before_product else L.reduce(x, op, axes, keepdim)

    operation = x.network.current_operation
    assert operation is not None
    shape = (*x.shape[:2], *(1,) * (x.ndim - 2)) if keepdim else x.shape[:2]
    return PendingReduction(add, operation).as_tensor(x, shape)


def _pooled(x: Tensor, op: str, keepdim: bool) -> Tensor:
    flat = L.unsqueeze(x, [2]) if x.ndim == 3 else x  # pooling needs two spatial dimensions
    windows, none = [int(size) for size in flat.shape[2:]], [0] * (flat.ndim - 2)
    kind = "AVERAGE" if op == "AVG" else op
    result = L.pooling(flat, kind, windows, stride=windows, pre_padding=none, post_padding=none)
    gone = range(2, flat.ndim) if not keepdim else [2] if x.ndim == 3 else []
    return L.squeeze(result, gone) if gone else result


def _by_product(x: Tensor, axis: int, keepdim: bool) -> Tensor:
    """The mean over one dimension, as a product with a row of equal weights."""
    before, length, after = product(x.shape[:axis]), int(x.shape[axis]), product(x.shape[axis + 1 :])
    row = x.network.constant(torch.full((1, 1, length), 1 / length, dtype=x.dtype))
    result = L.matrix_multiply(row, L.shuffle(x, reshape=(before, length, after)))
    return L.shuffle(result, reshape=(*x.shape[:axis], *[1] * keepdim, *x.shape[axis + 1 :]))


class PendingReduction:
    """A reduction that becomes a layer where it is first used: another one where a product with weights uses it.

    Where the channels are the fastest dimension in memory, IReduceLayer takes a launch more than IPoolingLayer, which
    wants them so everywhere; but elementwise layers around it become one launch with IReduceLayer alone. A convolution
    or a linear product is a launch of its own. bfloat16 is pooled by way of float32.
    """

    def __init__(self, add: Callable[[bool], Tensor], operation: Operation):
        self.add, self.operation = add, operation
        self.before_product = False

    def __call__(self) -> Tensor:
        with self.operation:
            return self.add(self.before_product)

    def as_tensor(self, x: Tensor, shape: Shape) -> Tensor:
        """The result as a Tensor whose layer is added when another one needs it."""
        scope = self.operation.scope or x.scope
        return Tensor(x.network, shape, x.dtype, name="a reduction", scope=scope, pending=self)


def taken_by_product(x: Tensor) -> None:
    """Notes that a product with weights uses ``x``, perhaps a reduction that is no layer yet."""
    x = behind_shuffles(x)
    if not x.is_layer and isinstance(x.pending, PendingReduction):
        x.pending.before_product = True
