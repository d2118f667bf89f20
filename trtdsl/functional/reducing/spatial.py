"""Averages and maxima over all spatial dimensions, by the order in which they lie in memory and by what uses them."""

from __future__ import annotations

from collections.abc import Sequence

from ...definition.operation import Operation
from ...layers.shuffle import Shuffle
from ..common import Call, L, Tensor, channels_last, is_static, product, torch
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


BY_USE = "IPoolingLayer where convolutions and linear products alone use it, otherwise IReduceLayer"
POOLED = "IPoolingLayer, which wants the channels fastest in memory"


@way("amax", "by_use", BY_USE, unless=_why_not_by_use)
@way("mean", "by_use", BY_USE, unless=_why_not_by_use)
def _by_use(x: Tensor, op: str, axes: Sequence[int], keepdim: bool) -> Tensor:
    operation = x.network.current_operation
    assert operation is not None
    shape = (*x.shape[:2], *(1,) * (x.ndim - 2)) if keepdim else x.shape[:2]
    return Reduction(operation, x, op, axes, keepdim).tensor(shape, x.dtype, "a reduction", x.scope)


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


class Reduction(Call):
    """A reduction that becomes another layer where products with weights alone use it.

    Where the channels are the fastest dimension in memory, IReduceLayer takes a launch more than IPoolingLayer, which
    wants them so everywhere; but elementwise layers around it become one launch with IReduceLayer alone. A convolution
    or a linear product is a launch of its own. bfloat16 is pooled by way of float32.
    """

    rule = "reduction by use"
    __slots__ = ("axes", "keepdim", "op", "x")

    def __init__(self, operation: Operation, x: Tensor, op: str, axes: Sequence[int], keepdim: bool):
        super().__init__(operation, [x])
        self.x, self.op, self.axes, self.keepdim = x, op, axes, keepdim

    def lower(self) -> Tensor:
        """IPoolingLayer or IReduceLayer."""
        if self._is_for_product(self.results[0]):
            self.remark("IPoolingLayer: products alone use it")
            return _pooled(self.x, self.op, self.axes, self.keepdim)
        return L.reduce(self.x, self.op, self.axes, self.keepdim)

    def _is_for_product(self, tensor: Tensor) -> bool:
        """Whether products with weights alone use the result, perhaps shuffled."""
        users = self.operation.network.graph.users(tensor)
        return bool(users) and all(
            user.is_product or (isinstance(user, Shuffle) and self._is_for_product(user.results[0])) for user in users
        )
