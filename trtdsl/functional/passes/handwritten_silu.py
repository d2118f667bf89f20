"""``x * sigmoid(x)`` that an author wrote in two calls."""

from __future__ import annotations

import functools

from ...definition.graph import Graph, Layer
from ...definition.tensor import Tensor
from ..lowerings import LOWERINGS
from ..pointwise.activation import silu_of
from ..products.folding import product_of


def handwritten_silu(graph: Graph) -> None:
    """``x * sigmoid(x)`` of a product's result as F.silu computes it: the builder makes that part of the product.

    Of another value, F.silu is the same layers.
    """
    for layer in graph.layers("elementwise", "PROD"):
        found = _factors(layer)
        if found is None:
            continue
        x, gate = found
        why = ""
        if product_of(x) is None:
            why = "no product with weights gives x"
        elif not graph.is_used_once(gate.results[0]):
            why = "sigmoid(x) is used otherwise, too"
        else:
            graph.replace(layer, functools.partial(LOWERINGS["silu"][silu_of(x)].emit, x), gate)
        text = f"x * sigmoid(x) stays two layers: {why}" if why else "x * sigmoid(x) is computed as F.silu"
        graph.remark("handwritten silu", layer.operation, text, not why)


def _factors(layer: Layer) -> tuple[Tensor, Layer] | None:
    """``x`` and the layer of its sigmoid, of another call than the product's."""
    for x, other in (layer.operands, layer.operands[::-1]):
        gate = None if other is None else other.node
        if (
            x is not None
            and isinstance(gate, Layer)
            and gate.what == ("activation", "SIGMOID")
            and gate.operands[0] is x
            and gate.operation is not layer.operation
        ):
            return x, gate
    return None
