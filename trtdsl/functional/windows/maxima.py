"""Maxima over windows: what is monotone may go before them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..common import Call, Tensor, channels_last
from ..products.folding import product_of


@dataclass(eq=False, slots=True)
class Maximum(Call):
    """Maxima over windows of ``source``, which ``pool`` computes."""

    source: Tensor
    pool: Callable[[Tensor], Tensor]

    def lower(self) -> Tensor:
        return self.pool(self.source)

    def expected_order(self) -> tuple[int, ...]:
        return channels_last(self.source.ndim)


@dataclass(eq=False, slots=True)
class Monotone(Call):
    """A function that never falls, of ``x``: of maxima, the maxima of the function are the same.

    A product's own kernel computes the function; it goes there where nothing else needs the product or its maxima.
    """

    rule = "before maxima"
    x: Tensor
    function: Callable[[Tensor], Tensor]

    def lower(self) -> Tensor:
        """The function before the maxima, or behind them."""
        node, graph = self.x.node, self.operation.network.graph
        assert isinstance(node, Maximum)
        if node.made is not None or not graph.is_used_once(self.x):
            self.remark("behind the maxima: they are used otherwise, too", False)
        elif product_of(node.source, free=True) is None:
            self.remark("behind the maxima: what they are of is no product, or is used otherwise, too", False)
        else:
            self.remark("before the maxima, in the product that they are of")
            before = self.function(node.source)
            with node.operation:
                return node.pool(before)
        return self.function(self.x)

    def expected_order(self) -> tuple[int, ...]:
        return self.x.order


def monotone(x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """``function(x)``, which never falls; it may be computed before maxima that give ``x``."""
    operation = x.network.current_operation
    if not isinstance(x.node, Maximum) or operation is None:
        return function(x)
    return Monotone(operation, [x], x, function).tensor(x.shape, x.dtype, operation.name, x.scope)
