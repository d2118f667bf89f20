"""``clamp(round(x * s), -128, 127) / s`` that an author, or a library for quantization, wrote in several calls."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from ...definition.graph import Graph
from ..pointwise.quantization import fake_quantized
from .patterns import Made, Number, made, matches

BOUNDS = {"MAX": Number("low"), "MIN": Number("high")}


def _patterns(last: str, first: str) -> Iterator[Made]:
    for inner, outer in (("MAX", "MIN"), ("MIN", "MAX")):
        rounded = made("unary ROUND", made(f"elementwise {first}", "x", Number("first")))
        bounded = made(f"elementwise {inner}", rounded, BOUNDS[inner])
        yield made(f"elementwise {last}", made(f"elementwise {outer}", bounded, BOUNDS[outer]), Number("last"))


PATTERNS = [*_patterns("DIV", "PROD"), *_patterns("PROD", "DIV")]


def handwritten_rounding(graph: Graph) -> None:
    """A value rounded to whole numbers of a constant step, between bounds that int8 has, as int8 and back: a product
    of two such tensors then runs in int8."""
    for pattern in PATTERNS:
        for found in matches(graph, pattern):
            names = "low", "high", "first", "last"
            low, high, first, value = (found.tensors[name].data.reshape(()) for name in names)
            if not -128 <= low <= high <= 127 or low % 1 or high % 1 or first != value or not value > 0:
                continue
            layer, *inner = found.layers
            shared = found.shared(graph)
            if shared is None:
                number = value.reciprocal() if pattern.what[1] == "DIV" else value
                step = layer.operation.network.plain_constant(number, found.tensors["last"].weight_names)
                how = found.tensors["x"], step, int(low), int(high)
                graph.replace(layer, functools.partial(fake_quantized, *how), *inner)
                graph.is_quantized = True
            why = "" if shared is None else f"stays in floating point: {shared.label} is used otherwise, too"
            graph.remark("handwritten rounding", layer.operation, why or "rounded in int8", not why)
