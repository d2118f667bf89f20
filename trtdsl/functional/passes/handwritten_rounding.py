"""``clamp(round(x * s), -128, 127) / s`` that an author, or a library for quantization, wrote in several calls."""

from __future__ import annotations

import functools

from ...definition.graph import Graph, Layer
from ...definition.tensor import Tensor, weight_names_of
from ..common import torch
from ..pointwise.quantization import fake_quantized


def handwritten_rounding(graph: Graph) -> None:
    """A value rounded to whole numbers of a constant step, between bounds that int8 has, as int8 and back: a product
    of two such tensors then runs in int8."""
    for layer in graph.layers("elementwise"):
        found = _steps(layer)
        if found is None:
            continue
        x, scale, step, low, high, inner = found
        shared = next((each for each in inner if not graph.is_used_once(each.results[0])), None)
        if shared is None:
            made = layer.operation.network.plain_constant(step, weight_names_of([scale]))
            graph.replace(layer, functools.partial(fake_quantized, x, made, low, high), *inner)
            graph.is_quantized = True
        text = (
            "rounded in int8" if shared is None else f"stays in floating point: {shared.label} is used otherwise, too"
        )
        graph.remark("handwritten rounding", layer.operation, text, shared is None)


def _steps(layer: Layer) -> tuple[Tensor, Tensor, torch.Tensor, int, int, list[Layer]] | None:
    """What is rounded, the scale and the step that it makes, the bounds in steps, and the layers before the last."""
    pair = {"DIV": "PROD", "PROD": "DIV"}.get(layer.what[1])
    if pair is None or (last := _with_number(layer)) is None:
        return None
    x, scale = last
    inner: list[Layer] = []
    bounds = {"MAX": -128.0, "MIN": 127.0}
    given: dict[str, float] = {}
    while isinstance(node := x.node, Layer) and node.what[:1] == ("elementwise",) and node.what[1] in bounds:
        if (found := _with_number(node)) is None or node.what[1] in given:
            return None
        x, bound = found
        given[node.what[1]] = float(bound.data)
        inner.append(node)
    bounds |= given
    low, high = bounds["MAX"], bounds["MIN"]
    if len(given) < 2 or low < -128 or high > 127 or low > high or low % 1 or high % 1:
        return None
    if not isinstance(node := x.node, Layer) or node.what != ("unary", "ROUND") or node.operands[0] is None:
        return None
    inner.append(node)
    first = node.operands[0].node
    if not isinstance(first, Layer) or first.what != ("elementwise", pair) or (found := _with_number(first)) is None:
        return None
    x, other = found
    if not torch.equal(other.data.flatten(), scale.data.flatten()) or not bool((scale.data > 0).all()):
        return None
    inner.append(first)
    step = scale.data.reshape(()) if pair == "DIV" else scale.data.reshape(()).reciprocal()
    return x, scale, step, int(low), int(high), inner


def _with_number(layer: Layer) -> tuple[Tensor, Tensor] | None:
    """The operand of a layer that varies, and the other, a constant of one element; None for any other operands."""
    first, second = layer.operands
    if second is not None and first is not None and first.is_constant and layer.what[1] != "DIV":
        first, second = second, first
    if first is None or second is None or first.is_constant or not second.is_constant or second.data.numel() != 1:
        return None
    return first, second
