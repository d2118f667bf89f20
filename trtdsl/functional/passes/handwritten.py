"""What an author, or a library for quantization, wrote in several calls: activations, as ``x * sigmoid(x)``; rounding,
``clamp(round(x * s), -128, 127) / s``, and in fp8 ``(x * s).clamp(-448, 448).to(torch.float8_e4m3fn).float() / s``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..common import Graph, L, Later, Tensor, made_by, torch
from ..lowerings import LOWERINGS
from ..pointwise.activation import mish_of_product, silu_of
from ..pointwise.quantization import fake_quantized
from ..products.folding import Product, product_of
from .patterns import Made, Number, made, matches, number_of


class Row(NamedTuple):
    """What an author writes, and what is computed instead, of the values that the pattern names, in their order."""

    written: str
    instead: str
    pattern: Made
    emit: Callable[..., Tensor] | None
    """None where the product would give another value for NaN."""


def _leaky(x: Tensor, slope: Tensor) -> Tensor:
    return L.activation(x, "LEAKY_RELU", alpha=number_of(slope))


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


BOUNDS = {"MAX": Number("low"), "MIN": Number("high")}
INT8, FP8 = "int8", "float8_e4m3fn"
HALF = torch.float16, torch.bfloat16


def _patterns(last: str, first: str, dtype: str) -> Iterator[Made]:
    steps = made(f"elementwise {first}", "x", Number("first"))
    if dtype == INT8:
        steps = made("unary ROUND", steps)
    bounded = [
        made(f"elementwise {outer}", made(f"elementwise {inner}", steps, BOUNDS[inner]), BOUNDS[outer])
        for inner, outer in (("MAX", "MIN"), ("MIN", "MAX"))
    ]
    if dtype == FP8:  # and as half precision is clamped
        bounded = [
            made("dequantize", made("quantize", each, 1.0), 1.0)
            for each in (*bounded, made("activation CLIP -448.0 448.0", steps))
        ]
    for each in bounded:
        yield made(f"elementwise {last}", each, Number("last"))


PATTERNS = [
    (pattern, dtype)
    for dtype in (INT8, FP8)
    for last, first in (("DIV", "PROD"), ("PROD", "DIV"), ("PROD", "PROD"))
    for pattern in _patterns(last, first, dtype)
]


def handwritten_rounding(graph: Graph) -> None:
    """A value rounded to whole numbers of a constant step, between bounds that int8 has, as int8 and back, and one
    rounded to fp8 so: a product of two such tensors then runs in int8 or fp8."""
    dequantized = [layer for layer in graph.layers("dequantize", FP8) if layer.operands[1] is not None]
    rounded = [(layer.results[0], layer.operands[1]) for layer in dequantized]
    for pattern, dtype in PATTERNS:
        for found in matches(graph, pattern):
            given = {name: x.data.reshape(()) for name, x in found.tensors.items() if name != "x"}
            first, last, low, high = given["first"], given["last"], given.get("low", -448), given.get("high", 448)
            step = last.reciprocal() if pattern.what[1] == "DIV" else last
            before = first.reciprocal() if found.layers[-1].what[1] == "PROD" else first
            most, whole = (448, low == -448 and high == 448) if dtype == FP8 else (127, low % 1 == high % 1 == 0)
            off = 2 * torch.finfo(first.dtype).eps
            if not (-most - 1 <= low <= high <= most and whole and step > 0 and abs(before / step - 1) < off):
                continue
            layer, *inner = found.layers
            shared = found.shared(graph)
            if shared is None:
                scale = layer.operation.network.plain_constant(step, found.tensors["last"].weight_names)
                how = found.tensors["x"], scale, int(low), int(high), dtype, layer.results[0].dtype
                graph.replace(layer, functools.partial(fake_quantized, *how), *inner)
                graph.is_quantized = True
                rounded += [(layer.results[0], scale)] * (dtype == FP8)
            why = "" if shared is None else f"stays in floating point: {shared.label} is used otherwise, too"
            graph.remark("handwritten rounding", layer.operation, why or f"rounded in {dtype}", not why)
    peers: dict[tuple[float, int], list[Tensor]] = {}
    for x, scale in rounded:
        if scale is not None and scale.is_constant and scale.data.numel() == 1:
            _note_peers(graph, x, float(scale.data), peers)
    _dequantize_to_half(graph)


def _dequantize_to_half(graph: Graph) -> None:
    """What is dequantized and then cast to half precision is dequantized to it: builders compute no product in int8 or
    fp8 behind a cast."""
    for layer in graph.layers("cast"):
        (x,), dtype = layer.operands, layer.results[0].dtype
        wide = None if x is None else made_by(x, "dequantize")
        if x is None or dtype not in HALF:
            continue
        if wide is not None and wide.operands[1] is not None and wide.operands[1].ndim == 0:
            graph.replace(layer, functools.partial(L.dequantize, *wide.operands, dtype))  # pyright: ignore[reportArgumentType]
        elif (
            isinstance(x.node, Later)
            and isinstance(x.node.function, functools.partial)
            and x.node.function.func is fake_quantized
        ):
            graph.replace(layer, functools.partial(fake_quantized, *x.node.function.args[:-1], dtype))


def _note_peers(graph: Graph, x: Tensor, step: float, peers: dict[tuple[float, int], list[Tensor]]) -> None:
    """Notes the weights of linear products that take ``x``, or a view of it, which builders make one with others of the
    same scale and length: docs/traps/builder-fp8.md."""
    for user in graph.users(x):
        if isinstance(user, Product) and user.kernel.ndim == 2 and not user.operation.narrow:
            user.operation.peers = peers.setdefault((step, user.kernel.data.shape[1 - user.axis]), [])
            user.operation.peers.append(user.kernel)
        elif getattr(user, "steps", None) is not None or getattr(user, "what", ())[:1] == ("cast",):  # a shuffle
            for result in user.results:
                _note_peers(graph, result, step, peers)
