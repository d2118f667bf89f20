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
from ..lowerings import AUTO, lowered, way

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
    if lowering == AUTO and _why_not_pooled(x, op, axes) is not None:
        return reduced(x, op, axes, keepdim)
    return lowered(function, lowering, x, op=op, axes=axes, keepdim=keepdim)


def _why_not_pooled(x: Tensor, op: str, axes: Sequence[int], keepdim: bool = False) -> str | None:
    spatial = op != "MIN" and tuple(axes) == tuple(range(2, x.ndim)) and x.ndim in (3, 4, 5)
    fits = spatial and x.dtype.is_floating_point and not x.is_constant and is_static(x.shape[1:])
    return None if fits else NO_POOLING


def _why_not_by_use(x: Tensor, op: str, axes: Sequence[int], keepdim: bool) -> str | None:
    last = x.dtype != torch.bfloat16 and x.order == channels_last(x.ndim)
    return _why_not_pooled(x, op, axes) or (None if last else NOT_LAST)


BY_USE = "IPoolingLayer where a convolution or a linear product uses it, otherwise IReduceLayer"
POOLED = "IPoolingLayer, which wants the channels fastest in memory"


@way("amax", "by_use", BY_USE, unless=_why_not_by_use)
@way("mean", "by_use", BY_USE, unless=_why_not_by_use)
def _by_use(x: Tensor, op: str, axes: Sequence[int], keepdim: bool) -> Tensor:
    def add(before_product: bool) -> Tensor:
        return _pooled(x, op, axes, keepdim) if before_product else L.reduce(x, op, axes, keepdim)

    operation = x.network.current_operation
    assert operation is not None
    shape = (*x.shape[:2], *(1,) * (x.ndim - 2)) if keepdim else x.shape[:2]
    return PendingReduction(add, operation).as_tensor(x, shape)


@way("amax", "reduce", "IReduceLayer")
@way("mean", "reduce", "IReduceLayer")
def _reduced(x: Tensor, op: str, axes: Sequence[int], keepdim: bool) -> Tensor:
    return L.reduce(x, op, axes, keepdim)


@way("amax", "pooling", POOLED, unless=_why_not_pooled)
@way("mean", "pooling", POOLED, unless=_why_not_pooled)
def _pooled(x: Tensor, op: str, axes: Sequence[int], keepdim: bool) -> Tensor:
    flat = L.unsqueeze(x, [2]) if x.ndim == 3 else x  # pooling needs two spatial dimensions
    windows, none = [int(size) for size in flat.shape[2:]], [0] * (flat.ndim - 2)
    kind = "AVERAGE" if op == "AVG" else op
    result = L.pooling(flat, kind, windows, stride=windows, pre_padding=none, post_padding=none)
    gone = range(2, flat.ndim) if not keepdim else [2] if x.ndim == 3 else []
    return L.squeeze(result, gone) if gone else result


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
