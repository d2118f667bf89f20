"""ATTENTION_INPUT, ATTENTION_OUTPUT, ROTARY_EMBEDDING, KV_CACHE_UPDATE, MOE."""

from __future__ import annotations

import numpy as np
import torch

from . import case, signed, trt

i32 = torch.int32


def attend(q, k, v, mask=None, added=None, softmax=True):
    """One head: (S, D), (T, D), (T, D)."""
    scores = q.astype(np.float64) @ k.astype(np.float64).T
    if added is not None:
        scores = scores + added
    if softmax:
        scores = np.where(mask, scores, -np.inf) if mask is not None else scores
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        weights = powers / powers.sum(-1, keepdims=True)
    else:
        weights = scores if mask is None else np.where(mask, scores, 0.0)
    return weights @ v.astype(np.float64)


def all_heads(q, k, v, mask=None, added=None, softmax=True):
    groups = q.shape[1] // k.shape[1]

    def pick(x, b, h):
        return None if x is None else np.broadcast_to(x, (q.shape[0], q.shape[1], q.shape[2], k.shape[2]))[b, h]

    result = np.zeros(q.shape)
    for b, h in np.ndindex(*q.shape[:2]):
        key, value = k[b, h // groups], v[b, h // groups]
        result[b, h] = attend(q[b, h], key, value, pick(mask, b, h), pick(added, b, h), softmax)
    return result


def attention(
    causal="NONE",
    norm="SOFTMAX",
    mask=False,
    scale=None,
    to=None,
    query_lengths=False,
    key_lengths=False,
    packed_keys=False,
):
    def build(n, q, k, v, *more):
        more = list(more)
        layer = n.add_attention_v2(
            q, k, v, getattr(trt.AttentionNormalizationOp, norm), getattr(trt.CausalMaskKind, causal)
        )
        layer.decomposable = True
        if mask:
            layer.mask = more.pop(0)
        if scale is not None:
            layer.normalization_quantize_scale, layer.normalization_quantize_to_type = n.constant(np.float32(scale)), to
        if query_lengths:
            layer.query_form, layer.query_lengths = trt.AttentionIOForm.PACKED_NHD, more.pop(0)
        if packed_keys:
            layer.key_value_form = trt.AttentionIOForm.PACKED_NHD
        if key_lengths or packed_keys:
            layer.key_value_lengths = more.pop(0)
        return layer

    return build


Q, K, V = signed(2, 4, 3, 8), signed(2, 2, 5, 8, seed=1), signed(2, 2, 5, 8, seed=2)
B = signed(2, 1, 3, 5, seed=3)
for kind in ("ATTENTION_INPUT", "ATTENTION_OUTPUT"):
    case(kind, "grouped", [Q, K, V], [all_heads(Q, K, V)], attention())
    case(kind, "unnormalized", [Q, K, V], [0], attention(norm="NONE"), raises="built as if it were softmax")
case("ATTENTION_INPUT", "mask", [Q, K, V, B > -0.5], [all_heads(Q, K, V, B > -0.5)], attention(mask=True))
case("ATTENTION_INPUT", "added-mask", [Q, K, V, B], [all_heads(Q, K, V, added=B)], attention(mask=True))
UPPER, LOWER = np.tril(np.ones((3, 5), bool)), np.tril(np.ones((3, 5), bool), 2)
case("ATTENTION_INPUT", "upper-left", [Q, K, V], [all_heads(Q, K, V, UPPER)], attention("UPPER_LEFT"))
case("ATTENTION_INPUT", "lower-right", [Q, K, V], [all_heads(Q, K, V, LOWER)], attention("LOWER_RIGHT"))
case(
    "ATTENTION_INPUT",
    "by-hand",
    [[[[[1.0, 0.0]]]], [[[[0.0, 0.0], [np.log(3.0).item(), 0.0]]]], [[[[4.0, 0.0], [8.0, 4.0]]]]],
    [[[[[7.0, 3.0]]]]],
    attention(),
)
# The masked score of the first query is infinite: less infinity it is NaN.
case(
    "ATTENTION_INPUT",
    "masked-infinity",
    [[[[[3e38], [1.0]]]], [[[[10.0], [0.0]]]], [[[[4.0], [8.0]]]], [[[[False, True]] * 2]]],
    [[[[[np.nan], [8.0]]]]],
    attention(mask=True),
)
SHORT = np.broadcast_to(np.arange(5) < np.array([3, 5]).reshape(2, 1, 1, 1), (2, 1, 1, 5))
case(
    "ATTENTION_INPUT",
    "key-lengths",
    [Q, K, V, torch.tensor([3, 5], dtype=i32)],
    [all_heads(Q, K, V, np.broadcast_to(SHORT, (2, 4, 3, 5)))],
    attention(key_lengths=True),
)
half = [torch.tensor(x).half() for x in (Q, K, V)]
case("ATTENTION_INPUT", "half", half, [all_heads(*(x.double().numpy() for x in half))], attention(), tolerance=2e-3)
# The weights 1/4 and 3/4 over a scale of 0.1 are 2.5 and 7.5: round half to even gives 2 and 8, that is 0.2 and 0.8.
case(
    "ATTENTION_INPUT",
    "quantized",
    [[[[[1.0, 0.0]]]], [[[[0.0, 0.0], [np.log(3.0).item(), 0.0]]]], [[[[10.0, 0.0], [0.0, 10.0]]]]],
    [[[[[2.0, 8.0]]]]],
    attention(scale=0.1, to=trt.int8),
    tolerance=1e-1,
)
PACKED_Q, PACKED_K, PACKED_V = signed(5, 2, 8), signed(7, 1, 8, seed=1), signed(7, 1, 8, seed=2)
ENDS_Q, ENDS_K = torch.tensor([0, 2, 5], dtype=i32), torch.tensor([0, 3, 7], dtype=i32)
packed = np.concatenate([
    np.stack([attend(PACKED_Q[a:b, h], PACKED_K[c:d, 0], PACKED_V[c:d, 0]) for h in range(2)], 1)
    for a, b, c, d in ((0, 2, 0, 3), (2, 5, 3, 7))
])  # fmt: skip
case(
    "ATTENTION_INPUT",
    "packed",
    [PACKED_Q, PACKED_K, PACKED_V, ENDS_Q, ENDS_K],
    [packed],
    attention(query_lengths=True, packed_keys=True),
)

# -- rotary embedding: a quarter turn takes (a, b) to (-b, a) ----------------------------------------------------------

R = np.float32([1.0, 2.0, 3.0, 4.0]).reshape(1, 1, 1, 4)
COS, SIN = np.float32([[[1.0, 0.0]]]), np.float32([[[0.0, 1.0]]])


def rotary(interleaved=False, size=0):
    def build(n, x, cos, sin, *positions):
        layer = n.add_rotary_embedding(x, cos, sin, interleaved, size)
        if positions:
            layer.set_input(3, positions[0])
        return layer

    return build


case("ROTARY_EMBEDDING", "halves", [R, COS, SIN], [np.float32([1.0, -4.0, 3.0, 2.0]).reshape(1, 1, 1, 4)], rotary())
case(
    "ROTARY_EMBEDDING",
    "neighbours",
    [R, COS, SIN],
    [np.float32([1.0, 2.0, -4.0, 3.0]).reshape(1, 1, 1, 4)],
    rotary(True),
)
case(
    "ROTARY_EMBEDDING",
    "part",
    [R, SIN[..., :1], SIN[..., 1:]],
    [np.float32([-2.0, 1.0, 3.0, 4.0]).reshape(1, 1, 1, 4)],
    rotary(False, 2),
)
X4, TABLE_C, TABLE_S = signed(2, 3, 4, 8), np.cos(signed(6, 4, seed=1)), np.sin(signed(6, 4, seed=1))
POSITIONS = np.array([[0, 5, 2, 1], [3, 3, 4, 0]])
c4, s4 = TABLE_C[POSITIONS][:, None], TABLE_S[POSITIONS][:, None]
a4, b4 = X4[..., :4], X4[..., 4:]
case(
    "ROTARY_EMBEDDING",
    "positions",
    [X4, TABLE_C, TABLE_S, POSITIONS],
    [np.concatenate([a4 * c4 - b4 * s4, a4 * s4 + b4 * c4], -1)],
    rotary(),
)

# -- KV cache ----------------------------------------------------------------------------------------------------------

CACHE, UPDATE = signed(2, 2, 6, 3), signed(2, 2, 2, 3, seed=1)
written = CACHE.copy()
written[0, :, 4:6], written[1, :, 0:2] = UPDATE[0], UPDATE[1]
ignored = CACHE.copy()
ignored[1, :, 1:3] = UPDATE[1]


def update(n, cache, new, indices):
    return n.add_kv_cache_update(cache, new, indices, trt.KVCacheMode.LINEAR)


case("KV_CACHE_UPDATE", "written", [CACHE, UPDATE, torch.tensor([4, 0], dtype=i32)], [written], update, tolerance=0.0)
case(
    "KV_CACHE_UPDATE",
    "out-of-bounds-ignored",
    [CACHE, UPDATE, torch.tensor([5, 1], dtype=i32)],
    [ignored],
    update,
    tolerance=0.0,
)


def packed_update(n, cache, new, indices, lengths):
    layer = update(n, cache, new, indices)
    layer.update_form, layer.update_lengths = trt.AttentionIOForm.PACKED_NHD, lengths
    return layer


FLAT = signed(3, 2, 3, seed=2)
both = CACHE.copy()
both[0, :, 1:2], both[1, :, 2:4] = FLAT[:1].swapaxes(0, 1), FLAT[1:].swapaxes(0, 1)
case(
    "KV_CACHE_UPDATE",
    "packed",
    [CACHE, FLAT, torch.tensor([1, 2], dtype=i32), torch.tensor([0, 1, 3], dtype=i32)],
    [both],
    packed_update,
    tolerance=0.0,
)

# -- mixture of experts ------------------------------------------------------------------------------------------------

H, EXPERTS, SCORES = (
    signed(1, 3, 4).astype(np.float16),
    np.int32([[[0, 2], [1, 0], [2, 2]]]),
    np.float16([[[0.75, 0.25], [0.5, 0.5], [1.0, 0.5]]]),
)
GATE, UP, DOWN = (
    signed(3, *shape, seed=seed).astype(np.float16) for shape, seed in (((4, 6), 1), ((4, 6), 2), ((6, 4), 3))
)
BIASES = [signed(3, size, seed=seed).astype(np.float16) for size, seed in ((6, 4), (6, 5), (4, 6))]


def mixture(biases=None, limit=np.inf, alpha=1.0, beta=0.0):
    g, u, d = (x.astype(np.float64) for x in (GATE, UP, DOWN))
    gb, ub, db = (x.astype(np.float64) for x in biases) if biases else (np.zeros((3, 1)),) * 3
    result = np.zeros(H.shape)
    for b, t, k in np.ndindex(*EXPERTS.shape):
        e, x = EXPERTS[b, t, k], H[b, t].astype(np.float64)
        opened, raised = np.minimum(x @ g[e] + gb[e], limit), np.clip(x @ u[e] + ub[e], -limit, limit)
        inner = opened / (1 + np.exp(-alpha * opened)) * (raised + beta)
        result[b, t] += float(SCORES[b, t, k]) * (inner @ d[e] + db[e])
    return result


def moe(biased=False, parameters=None):
    def build(n, h, experts, scores):
        layer = n.add_moe(h, experts, scores)
        layer.set_gated_weights(n.constant(GATE), n.constant(UP), n.constant(DOWN), trt.MoEActType.SILU)
        if biased:
            layer.set_gated_biases(*(n.constant(x) for x in BIASES))
        if parameters:
            layer.set_swiglu_params(*parameters)
        return layer

    return build


case("MOE", "plain", [H, EXPERTS, SCORES], [mixture()], moe(), tolerance=2e-3)
case("MOE", "biases", [H, EXPERTS, SCORES], [mixture(BIASES)], moe(True), tolerance=2e-3)
case(
    "MOE", "swiglu", [H, EXPERTS, SCORES], [mixture(BIASES, 1.0, 1.5, 0.5)], moe(True, (1.0, 1.5, 0.5)), tolerance=2e-3
)
