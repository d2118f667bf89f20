"""Maxima over windows that become a layer where they are first used: what is monotone may go before them."""

from __future__ import annotations

from collections.abc import Callable

from ...definition.operation import Operation
from ...definition.tensor import Tensor
from ...layers.base import channels_last
from ...sizes.shape import Shape
from ..products.folding import PendingProduct


class PendingMaximum:
    """Maxima over windows of ``source``, which ``pool`` computes."""

    def __init__(self, source: Tensor, pool: Callable[[Tensor], Tensor], operation: Operation):
        self.source, self.pool, self.operation = source, pool, operation

    def __call__(self) -> Tensor:
        with self.operation:
            return self.pool(self.source)

    def order(self) -> tuple[int, ...]:
        """In which order the result's dimensions lie in memory."""
        return channels_last(self.source.ndim)

    def as_tensor(self, shape: Shape) -> Tensor:
        """The result as a Tensor whose layer is added when another one needs it."""
        x = self.source
        scope = self.operation.scope or x.scope
        return Tensor(x.network, shape, x.dtype, name="a maximum", scope=scope, pending=self)


def before_maxima(x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor | None:
    """``function(x)`` of maxima over a convolution's result, as the maxima of ``function`` of that result.

    They are the same for a function that never falls, and the convolution's own kernel computes it. None where ``x`` is
    anything else, or a layer already.
    """
    pending = x.pending
    if x.is_layer or not isinstance(pending, PendingMaximum):
        return None
    inner = pending.source.pending
    if pending.source.is_layer or not isinstance(inner, PendingProduct) or inner.source.is_layer:
        return None
    return PendingMaximum(function(pending.source), pending.pool, pending.operation).as_tensor(x.shape)
