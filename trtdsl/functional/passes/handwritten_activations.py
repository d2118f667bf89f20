"""Activations that an author wrote in several calls: ``x * sigmoid(x)``, ``where(x < 0, 0, x)`` and their like."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

from ..common import Graph, L, Tensor
from ..lowerings import LOWERINGS
from ..pointwise.activation import mish_of_product, silu_of
from ..products.folding import product_of
from .patterns import Made, Number, made, matches


class Row(NamedTuple):
    """What an author writes, and what is computed instead, of the values that the pattern names, in their order."""

    written: str
    instead: str
    pattern: Made
    emit: Callable[..., Tensor] | None
    """None where the product would give another value for NaN."""


def _leaky(x: Tensor, slope: Tensor) -> Tensor:
    alpha, exact = float(slope.data), x.network.exact
    if exact is not None:  # what the author wrote, where half precision has rounded it
        exact.numbers[alpha] = float(exact.of(slope.data))
    return L.activation(x, "LEAKY_RELU", alpha=alpha)


ABOVE, BELOW = (made(f"elementwise {op}", "x", 0.0) for op in ("GREATER", "LESS"))
NOT_BELOW = made("elementwise AND", made("unary NOT", BELOW), made("unary NOT", made("unary ISNAN", "x")))
SCALED = made("elementwise PROD", "x", Number("slope"))
SOFTPLUS = made("select", made("elementwise GREATER", "x", 20.0), "x", made("activation SOFTPLUS", "x"))
ROWS = [
    Row(
        "x * sigmoid(x)",
        "F.silu",
        made("elementwise PROD", "x", made("activation SIGMOID", "x")),
        lambda x: LOWERINGS["silu"][silu_of(x)].emit(x),
    ),
    Row(
        "x * tanh(softplus(x))",
        "F.mish",
        made("elementwise PROD", "x", made("activation TANH", SOFTPLUS)),
        mish_of_product,
    ),
    Row("where(x > 0, x, 0)", "F.relu", made("select", ABOVE, "x", 0.0), None),
    Row("where(x >= 0, x, 0)", "F.relu", made("select", NOT_BELOW, "x", 0.0), None),
    Row("where(x < 0, 0, x)", "F.relu", made("select", BELOW, 0.0, "x"), lambda x: L.activation(x, "RELU")),
    Row("where(x > 0, x, slope * x)", "F.leaky_relu", made("select", ABOVE, "x", SCALED), _leaky),
    Row("where(x >= 0, x, slope * x)", "F.leaky_relu", made("select", NOT_BELOW, "x", SCALED), _leaky),
    Row("where(x < 0, slope * x, x)", "F.leaky_relu", made("select", BELOW, SCALED, "x"), _leaky),
]


def handwritten_activations(graph: Graph) -> None:
    """Such an activation of what a product with weights gives by layers that the builder makes part of that product.

    Of another value, these are the same launches. ISelectLayer is a launch of its own behind a product.
    """
    for row in ROWS:
        for found in matches(graph, row.pattern):
            layer, *inner = found.layers
            slope = found.tensors.get("slope")
            if inner[0].operation is layer.operation or (slope is not None and not float(slope.data)):
                continue  # a function's own layers; or 0 times infinity, which is NaN
            shared, why = found.shared(graph), ""
            if product_of(found.tensors["x"]) is None:
                why = "no product with weights gives x"
            elif shared is not None:
                why = f"{shared.label} is used otherwise, too"
            elif row.emit is None:
                why = f"it makes 0 of NaN; {row.instead}, which keeps it, would be part of the product's launch"
            else:
                graph.replace(layer, functools.partial(row.emit, *found.tensors.values()), *inner)
            text = f"stays as it is written: {why}" if why else f"is computed as {row.instead}"
            graph.remark("handwritten activation", layer.operation, f"{row.written} {text}", not why)
