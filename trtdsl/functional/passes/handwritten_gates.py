"""``x * sigmoid(x)`` and ``x * tanh(softplus(x))`` that an author wrote in several calls."""

from __future__ import annotations

import functools

from ...definition.graph import Graph
from ..lowerings import LOWERINGS
from ..pointwise.activation import mish_of_product, silu_of
from ..products.folding import product_of
from .patterns import made, matches

SOFTPLUS = made("select", made("elementwise GREATER", "x", 20.0), "x", made("activation SOFTPLUS", "x"))
GATES = {
    "silu": (
        "x * sigmoid(x)",
        made("elementwise PROD", "x", made("activation SIGMOID", "x")),
        lambda x: LOWERINGS["silu"][silu_of(x)].emit(x),
    ),
    "mish": (
        "x * tanh(softplus(x))",
        made("elementwise PROD", "x", made("activation TANH", SOFTPLUS)),
        mish_of_product,
    ),
}


def handwritten_gates(graph: Graph) -> None:
    """Such a product of what a product with weights gives as F.silu and F.mish compute it: the builder makes that part
    of the product with weights.

    Of another value, these are the same launches.
    """
    for name, (formula, pattern, emit) in GATES.items():
        for found in matches(graph, pattern):
            x, (layer, gate, *_) = found.tensors["x"], found.layers
            if gate.operation is layer.operation:  # the function itself
                continue
            why = ""
            if product_of(x) is None:
                why = "no product with weights gives x"
            elif found.shared(graph) is not None:
                why = f"{formula.partition(' * ')[2]} is used otherwise, too"
            else:
                graph.replace(layer, functools.partial(emit, x), *found.layers[1:])
            text = f"stays as it is written: {why}" if why else f"is computed as F.{name}"
            graph.remark(f"handwritten {name}", layer.operation, f"{formula} {text}", not why)
