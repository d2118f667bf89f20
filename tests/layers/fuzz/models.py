"""Recipes: quantization, and what decoders and detectors are made of."""

from __future__ import annotations

from typing import Any

import torch
from cases import BACKEND, trt

from . import FLOATS, INTEGERS, Trial, recipe

QUANTIZED = (torch.int8, torch.float8_e4m3fn)


def _scale(t: Trial, shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Any, int | None]:
    """A scale per tensor or per channel."""
    if shape and t.maybe():
        axis = t.axis(shape)
        return t.constant(t.values((shape[axis],), dtype, 0.1, 1)), axis  # docs/traps/builder-scales.md
    return t.operand(t.values((), dtype, 0.1, 1)), None


@recipe("QUANTIZE")
def quantize(t: Trial) -> Any:
    shape, dtype = t.shape(), t.pick(FLOATS)
    x = t.input(shape, dtype, -90, 90)
    scale, axis = _scale(t, shape, dtype)
    layer = t.add_quantize(x, scale, BACKEND.data_type(t.pick(QUANTIZED)))
    if axis is not None:
        layer.axis = axis
    return layer


@recipe("DEQUANTIZE")
def dequantize(t: Trial) -> Any:
    shape, dtype = t.shape(), t.pick(FLOATS)
    x = t.input(shape, t.pick(QUANTIZED), -90, 90)
    scale, axis = _scale(t, shape, dtype)
    layer = t.add_dequantize(x, scale, BACKEND.data_type(dtype))
    if axis is not None:
        layer.axis = axis
    return layer


@recipe("DYNAMIC_QUANTIZE")
def dynamic_quantize(t: Trial) -> Any:
    if t.maybe():
        x = t.input((t.number(1, 3), 16 * t.number(1, 2)), t.pick(FLOATS))
        layer = t.add_dynamic_quantize(x, 1, 16, trt.DataType.FP4, trt.DataType.FP8)
        layer.set_input(1, t.constant(torch.tensor(0.5)))
        return layer
    x = t.operand(t.values((t.number(1, 3), 32 * t.number(1, 2)), t.pick(FLOATS)), static=t.maybe())
    return t.add_dynamic_quantize_v2(x, (1, 32), trt.DataType.FP8, trt.DataType.E8M0)


@recipe("ATTENTION_INPUT", "ATTENTION_OUTPUT")
def attention(t: Trial) -> Any:
    dtype, groups = t.pick(FLOATS[:3]), t.number(1, 2)
    n, heads, rows, d = t.number(1, 2), groups * t.number(1, 2), t.number(1, 4), t.number(1, 4)
    columns = t.number(1, 4)
    q = t.input((n, heads, rows, d), dtype)
    k, v = (t.input((n, groups, columns, d), dtype) for _ in range(2))
    causal = t.pick(trt.CausalMaskKind.__members__.values())
    layer = t.add_attention_v2(q, k, v, trt.AttentionNormalizationOp.SOFTMAX, causal)
    layer.decomposable = True
    if causal == trt.CausalMaskKind.NONE and t.maybe():
        layer.mask = t.input((n, t.pick((1, heads)), rows, columns), t.pick((torch.bool, dtype)))
    return layer.get_output(0)


@recipe("ROTARY_EMBEDDING")
def rotary_embedding(t: Trial) -> Any:
    dtype, n, heads, tokens, d = t.pick(FLOATS), t.number(0, 2), t.number(1, 2), t.number(0, 4), 2 * t.number(1, 3)
    part = 0 if t.maybe() else 2 * t.number(1, d // 2)
    half = (part or d) // 2
    x = t.input((n, heads, tokens, d), dtype)
    if t.maybe():
        cos, sin = (t.input((n, tokens, half), dtype) for _ in range(2))
        return t.add_rotary_embedding(x, cos, sin, t.maybe(), part)
    cos, sin = (t.input((5, half), dtype) for _ in range(2))
    layer = t.add_rotary_embedding(x, cos, sin, t.maybe(), part)
    layer.set_input(3, t.input((n, tokens), t.pick(INTEGERS), 0, 4))
    return layer


@recipe("KV_CACHE_UPDATE")
def kv_cache_update(t: Trial) -> Any:
    dtype, n, heads, length, d = t.pick(FLOATS), t.number(1, 2), t.number(1, 2), t.number(2, 6), t.number(1, 3)
    cache = t.operand(t.values((n, heads, length, d), dtype), static=t.maybe(0.8))
    update = t.input((n, heads, t.number(1, 2), d), dtype)
    indices = t.input((n,), torch.int32, 0, length)
    return t.add_kv_cache_update(cache, update, indices, trt.KVCacheMode.LINEAR)


@recipe("MOE")
def moe(t: Trial) -> Any:
    dtype = t.pick((torch.float16, torch.bfloat16))
    n, tokens, chosen, experts, d, inner = (t.number(1, 3) for _ in range(6))
    chosen = min(chosen, experts)
    hidden = t.input((n, tokens, d), dtype)
    places = t.input((n, tokens, chosen), torch.int32, 0, experts - 1)
    layer = t.add_moe(hidden, places, t.input((n, tokens, chosen), dtype, 0, 1))
    gate, up = (t.operand(t.values((experts, d, inner), dtype), static=True) for _ in range(2))
    down = t.operand(t.values((experts, inner, d), dtype), static=True)
    layer.set_gated_weights(gate, up, down, trt.MoEActType.SILU)
    return layer


@recipe("NMS")
def nms(t: Trial) -> Any:
    dtype, n, boxes, classes = t.pick(FLOATS), t.number(0, 2), t.number(0, 4), t.number(1, 2)
    shape = (n, boxes, 4) if t.maybe() else (n, boxes, classes, 4)
    x, scores = t.input(shape, dtype), t.input((n, boxes, classes), dtype)
    layer = t.add_nms(x, scores, t.constant(torch.tensor(t.number(0, 3), dtype=torch.int32)))
    if t.maybe():
        layer.set_input(3, t.constant(torch.tensor(0.5)))
        layer.set_input(4, t.constant(torch.tensor(0.1)))
    layer.bounding_box_format = t.pick(trt.BoundingBoxFormat.__members__.values())
    return layer
