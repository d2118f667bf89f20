"""``x * sigmoid(x)`` and ``x * tanh(softplus(x))`` that an author wrote in several calls."""

from __future__ import annotations

import functools
from collections.abc import Callable

from ...definition.graph import Graph, Layer
from ...definition.tensor import Tensor
from ..lowerings import LOWERINGS
from ..pointwise.activation import mish_of_product, silu_of
from ..products.folding import product_of


def handwritten_gates(graph: Graph) -> None:
    """Such a product of what a product with weights gives as F.silu and F.mish compute it: the builder makes that part
    of the product with weights.

    Of another value, these are the same launches.
    """
    for layer in graph.layers("elementwise", "PROD"):
        for x, other in (layer.operands, layer.operands[::-1]):
            for name, (formula, gate_of, emit) in GATES.items():
                gate = None if x is None or other is None else gate_of(x, other)
                if x is None or not gate or gate[0].operation is layer.operation:
                    continue
                why = ""
                if product_of(x) is None:
                    why = "no product with weights gives x"
                elif not all(graph.is_used_once(each.results[0]) for each in gate):
                    why = f"{formula.partition(' * ')[2]} is used otherwise, too"
                else:
                    graph.replace(layer, functools.partial(emit, x), *gate)
                text = f"stays as it is written: {why}" if why else f"is computed as F.{name}"
                graph.remark(f"handwritten {name}", layer.operation, f"{formula} {text}", not why)


def _sigmoid(x: Tensor, gate: Tensor) -> list[Layer]:
    """The layer of ``sigmoid(x)``, where it is that."""
    layer = _layer(gate, "activation", "SIGMOID")
    return [layer] if layer is not None and layer.operands[0] is x else []


def _tanh_of_softplus(x: Tensor, gate: Tensor) -> list[Layer]:
    """The layers of ``tanh(F.softplus(x))``, where it is that."""
    tanh = _layer(gate, "activation", "TANH")
    chosen = None if tanh is None else _layer(tanh.operands[0], "select")
    if tanh is None or chosen is None or chosen.operands[1] is not x:
        return []
    greater, smooth = _layer(chosen.operands[0], "elementwise", "GREATER"), _layer(chosen.operands[2], *SOFTPLUS)
    if greater is None or smooth is None or greater.operands[0] is not x or smooth.operands[0] is not x:
        return []
    least = greater.operands[1]
    is_usual = least is not None and least.is_constant and bool((least.data == 20).all())
    return [tanh, chosen, greater, smooth] if is_usual else []


def _layer(x: Tensor | None, *what: str) -> Layer | None:
    """The layer that gives ``x``, where it is of that type."""
    node = None if x is None else x.node
    return node if isinstance(node, Layer) and node.what == what else None


SOFTPLUS = ("activation", "SOFTPLUS")
GATES: dict[str, tuple[str, Callable[[Tensor, Tensor], list[Layer]], Callable[[Tensor], Tensor]]] = {
    "silu": ("x * sigmoid(x)", _sigmoid, lambda x: LOWERINGS["silu"][silu_of(x)].emit(x)),
    "mish": ("x * tanh(softplus(x))", _tanh_of_softplus, mish_of_product),
}
