"""ATTENTION, ROTARY_EMBEDDING, KV_CACHE_UPDATE and MOE: what decoders are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .common import ShapeError, Tensor, UnsupportedError, add_layer, adds, as_dtype, member, operation, torch
from .evaluation import Evaluate, Given, Mistakes, Node, Shapes, computes, count, evaluates
from .pointwise import cast
from .quantize import dynamic_scales, narrow, spread

NOT_NORMALIZED = (
    "attention without normalization is built as if it were softmax: write the two products, "
    "F.matmul(F.matmul(query, key.transpose(-2, -1)), value)"
)
FORMS = PADDED, PACKED = "PADDED_BHND", "PACKED_NHD"


@operation
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    causal: str = "NONE",
    normalization: str = "SOFTMAX",
    decomposable: bool = True,
    query_lengths: Tensor | None = None,
    key_value_lengths: Tensor | None = None,
    quantize_scale: Tensor | None = None,
    quantize_dtype: Any = None,
) -> Tensor:
    """``normalization(query @ key.T + mask) @ value``, unscaled: one IAttention, of two layers.

    ``query`` is (N, H, S, D), ``key`` and ``value`` (N, G, T, D) where G divides H; or packed, (tokens, heads, D) with
    the cumulative ``query_lengths`` and ``key_value_lengths`` (N + 1). Lengths (N) with padded keys tell how many of
    them count. ``mask``, broadcast to (N, H, S, T), is bool (True attends) or added. ``causal``: NONE, UPPER_LEFT,
    LOWER_RIGHT (not with a mask). ``normalization`` is SOFTMAX. ``quantize_scale`` and ``quantize_dtype`` (int8
    or float8_e4m3fn) quantize its result. ``decomposable`` lets TensorRT use several kernels where it has no fused one.

    >>> q, k = net.input("q", (1, 4, 5, 8)), net.input("k", (1, 2, 7, 8))
    >>> attention(q, k, k).shape
    (1, 4, 5, 8)
    """
    if normalization == "NONE":
        raise UnsupportedError(NOT_NORMALIZED)
    if (quantize_scale is None) != (quantize_dtype is None):
        raise UnsupportedError("give quantize_scale and quantize_dtype together")
    if quantize_scale is not None:  # of another dtype builders fail at the layer
        quantize_scale = cast(quantize_scale, query.dtype)
    network = query.network
    heads, groups = query.shape[-3], key.shape[-3]
    if not isinstance(groups, int) and str(heads) != str(groups):
        raise UnsupportedError(
            f"{heads} query heads share {groups} key heads: TensorRT builds attention only where it knows how many "
            "query heads share a key head. Make these sizes static, or repeat the keys for each query head"
        )
    trt = network.trt
    packed = trt.AttentionIOForm.PACKED_NHD
    quantized = None if quantize_dtype is None else network.backend.data_type(as_dtype(quantize_dtype))
    add = adds(
        "add_attention_v2",
        member(trt.AttentionNormalizationOp, normalization, "normalization"),
        member(trt.CausalMaskKind, causal, "causal mask"),
        takes=3,
        named=("mask", "normalization_quantize_scale", "query_lengths", "key_value_lengths"),
        decomposable=decomposable,
        normalization_quantize_to_type=quantized,
        query_form=None if query_lengths is None else packed,
        key_value_form=None if key_value_lengths is None or key.ndim != 3 else packed,
    )

    def finish(_: Any, name: str, named: Any) -> None:
        # IAttention's name does not reach its layers, which are the last ones.
        definition = network.target.definition
        for index in range(definition.num_layers - 1, -1, -1):
            layer = definition.get_layer(index)
            if not layer.type.name.startswith("ATTENTION") or layer.name in network.layers:
                break
            named(layer, name if layer.type.name == "ATTENTION_OUTPUT" else f"{name}.input")

    operands = query, key, value, mask, quantize_scale, query_lengths, key_value_lengths
    return add_layer(add, *operands, shape=query.shape, fold=False, finish=finish)


def _flops(node: Node, shapes: Shapes) -> int:
    """Two matrix products and five operations for each score."""
    query, key = shapes.inputs[0], shapes.inputs[1]
    tokens = key[-2] if len(key) == 4 else key[0]
    return count(query) // max(query[-1], 1) * tokens * (4 * query[-1] + 5)


def _unbuilt(node: Node) -> str | None:
    layer = node.layer.attention
    if PACKED not in (layer.query_form.name, layer.key_value_form.name):
        return None
    return (
        "packed attention has no kernel without a GPU: give padded tensors (N, H, S, D) and a mask, or build where "
        "there is a GPU"
    )


def _without_mask(node: Node) -> Evaluate | None:
    return (lambda f, q, k, v, mask, *rest: f(q, k, v, None, *rest)) if node.has_input(3) else None


MISTAKES = Mistakes(instead={"mask left out": _without_mask})


@evaluates("ATTENTION_INPUT", category="attention", wide=True, flops=_flops, unbuilt=_unbuilt, mistakes=MISTAKES)
def _attention_input(node: Node) -> Evaluate:
    """The whole attention. The scores, the mask and the normalization are computed in float32 and rounded once.

    Query head h attends to key head ``h // (H / G)``. A mask adds minus infinity: a masked score that is infinite or
    NaN gives NaN, and so does a row whose positions are all masked. Assumed: with lengths, a causal mask is anchored at
    the lengths; packed tokens beyond the last length are 0.
    """
    layer = node.layer.attention
    if layer.norm_op.name == "NONE":
        raise UnsupportedError(f"layer {node.name!r} ({node.type}): {NOT_NORMALIZED}")
    node.known(layer.norm_op, ("SOFTMAX",), "normalization")
    causal = node.known(layer.causal_kind, ("NONE", "UPPER_LEFT", "LOWER_RIGHT"), "causal mask")
    query_form, key_form = (node.known(form, FORMS, "form") for form in (layer.query_form, layer.key_value_form))
    quantized = node.backend.torch_dtype(layer.normalization_quantize_to_type) if node.has_input(4) else None

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Given, scale: Given) -> torch.Tensor:
        groups = query.shape[-3] // key.shape[-3]
        if groups > 1:
            key, value = key.repeat_interleave(groups, -3), value.repeat_interleave(groups, -3)
        allowed = None if mask is None or mask.dtype != torch.bool else mask
        if causal != "NONE":
            rows, columns = query.shape[-2], key.shape[-2]
            shift = columns - rows if causal == "LOWER_RIGHT" else 0
            allowed = torch.ones(rows, columns, dtype=torch.bool).tril(shift)
        added = mask if mask is not None and mask.dtype != torch.bool else None
        weights = _weights(query @ key.mT, allowed, added)
        if quantized is not None and scale is not None:
            steps = spread(scale, weights.shape, weights.ndim - 3)
            weights = narrow(weights / steps, quantized).float() * steps
        return weights @ value

    def evaluate(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: Given = None,
        scale: Given = None,
        query_lengths: Given = None,
        key_lengths: Given = None,
    ) -> torch.Tensor:
        if query_form == PADDED and key_lengths is None:
            return attend(query, key, value, mask, scale)
        result = torch.zeros_like(query)
        batch = query.shape[0] if query_lengths is None or query_form == PADDED else query_lengths.numel() - 1
        queries = _items(query, query_form, query_lengths, batch)
        keys, values = (_items(x, key_form, key_lengths, batch) for x in (key, value))
        outputs = _items(result, query_form, query_lengths, batch)
        for item in range(batch):
            some = mask
            if mask is not None:
                some = mask[item if mask.shape[0] > 1 else 0]
                rows, columns = queries[item].shape[-2], keys[item].shape[-2]
                some = some[..., :rows, :columns]
            outputs[item].copy_(attend(queries[item], keys[item], values[item], some, scale))
        return result

    return evaluate


def _weights(scores: torch.Tensor, allowed: Given, added: Given) -> torch.Tensor:
    """What each position contributes: 0 for those that are not allowed, NaN where none is."""
    if allowed is not None:
        added = torch.zeros(allowed.shape).masked_fill(~allowed, float("-inf"))
    if added is not None:
        scores = scores + added
    if not scores.shape[-1]:
        return scores
    powers = scores.sub_(scores.amax(-1, keepdim=True)).exp_()
    return powers.div_(powers.sum(-1, keepdim=True))


def _items(x: torch.Tensor, form: str, lengths: Given, batch: int) -> list[torch.Tensor]:
    """Views (heads, tokens, D) of each item of the batch, without what its length leaves out."""
    if form == PACKED:
        if lengths is None:
            raise ShapeError("packed tokens need the cumulative lengths")
        ends = lengths.tolist()
        return [x[ends[item] : ends[item + 1]].transpose(0, 1) for item in range(batch)]
    sizes = [x.shape[2]] * batch if lengths is None or lengths.numel() != batch else lengths.tolist()
    return [x[item, :, : sizes[item]] for item in range(batch)]


@evaluates("ATTENTION_OUTPUT", category="attention", computes=False, moves=False)
def _attention_output(node: Node) -> Evaluate:
    """The result of its ATTENTION_INPUT."""
    return lambda x: x


@operation
def rotary_embedding(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    position_ids: Tensor | None = None,
    *,
    interleaved: bool = False,
    rotary_dim: int = 0,
) -> Tensor:
    """Rotates pairs of the last dimension of ``x`` (N, H, S, D) by its token's angles: one IRotaryEmbeddingLayer.

    ``cos`` and ``sin`` are (N, S, R / 2), or (positions, R / 2) with ``position_ids`` (N, S). The first R =
    ``rotary_dim`` elements (all D for 0) are rotated; a pair is two neighbours (``interleaved``) or one of each half.
    """
    add = adds("add_rotary_embedding", interleaved, rotary_dim, takes=3)
    return add_layer(add, x, cos, sin, position_ids, shape=x.shape)


TURNED = Mistakes(
    left_out=True,
    flags=("interleaved",),
    instead={"turned the other way": lambda node: lambda f, x, cos, sin, *rest: f(x, cos, -sin, *rest)},
)


@computes("ROTARY_EMBEDDING", wide=True, flops=3, mistakes=TURNED)
def _rotary_embedding(
    node: Node, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, position_ids: Given = None
) -> torch.Tensor:
    """``(a, b)`` becomes ``(a cos - b sin, a sin + b cos)``, computed in float32 and rounded once."""
    size, interleaved = node.layer.rotary_embedding_dim or x.shape[-1], node.layer.interleaved
    if position_ids is not None:
        cos, sin = cos[position_ids.long()], sin[position_ids.long()]
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    turned, rest = x[..., :size], x[..., size:]
    a, b = (turned[..., ::2], turned[..., 1::2]) if interleaved else turned.chunk(2, -1)
    first, second = a * cos - b * sin, a * sin + b * cos
    both = torch.stack((first, second), -1).flatten(-2) if interleaved else torch.cat((first, second), -1)
    return torch.cat((both, rest), -1) if rest.shape[-1] else both


@operation
def kv_cache_update(
    cache: Tensor, update: Tensor, write_indices: Tensor, update_lengths: Tensor | None = None, mode: str = "LINEAR"
) -> Tensor:
    """``cache`` (N, H, T, D) with ``update`` (N, H, S, D) written from ``write_indices`` (N) on: one
    IKVCacheUpdateLayer.

    A packed ``update`` is (tokens, H, D) with the cumulative ``update_lengths`` (N + 1). An engine writes into the
    cache's own memory.
    """
    trt = cache.network.trt
    form = None if update_lengths is None else trt.AttentionIOForm.PACKED_NHD
    mode = member(trt.KVCacheMode, mode, "cache mode")
    add = adds("add_kv_cache_update", mode, takes=3, named=("update_lengths",), update_form=form)
    operands = cache, update, write_indices, update_lengths
    return add_layer(add, *operands, shape=cache.shape, fold=False, what=("kv_cache_update",))


@computes("KV_CACHE_UPDATE", known={"update_form": FORMS, "cache_mode": ("LINEAR",)})
def _kv_cache_update(
    node: Node, cache: torch.Tensor, update: torch.Tensor, indices: torch.Tensor, lengths: Given = None
) -> torch.Tensor:
    """An update that would leave the cache is ignored, as a whole for its batch item (documented as ignored)."""
    result = cache.clone()
    updates = _items(update, node.layer.update_form.name, lengths, cache.shape[0])
    for item, start in enumerate(indices.tolist()):
        size = updates[item].shape[1]
        if start >= 0 and start + size <= cache.shape[2]:
            result[item, :, start : start + size] = updates[item]
    return result


@operation
def moe(
    hidden: Tensor,
    experts: Tensor,
    scores: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
    biases: Sequence[Tensor] = (),
    *,
    activation: str = "SILU",
    limit: float = float("inf"),
    alpha: float = 1.0,
    beta: float = 0.0,
) -> Tensor:
    """The sum of ``scores`` times the outputs of the chosen ``experts``: one IMoELayer, for Blackwell and Thor GPUs.

    ``hidden`` is (N, S, D); ``experts`` (int32) and ``scores`` are (N, S, K); ``gate`` and ``up`` are (E, D, I),
    ``down`` is (E, I, D), and ``biases`` are theirs, all three or none. An expert is ``down(up(x) *
    activation(gate(x)))``; ``limit``, ``alpha`` and ``beta`` are those of SwiGLU.

    >>> f = lambda name, *shape: net.input(name, shape, "float16")
    >>> e = net.input("e", (2, 3, 2), "int32")
    >>> moe(f("h", 2, 3, 8), e, f("s", 2, 3, 2), f("g", 4, 8, 16), f("u", 4, 8, 16), f("d", 4, 16, 8)).shape
    (2, 3, 8)
    """
    if len(biases) not in (0, 3):
        raise ShapeError("biases are those of gate, up and down, all three or none")
    kind = member(hidden.network.trt.MoEActType, activation, "activation")

    def add(target, hidden, experts, scores, gate, up, down, *biases):
        layer = target.definition.add_moe(hidden, experts, scores)
        if layer is None:
            return None
        layer.set_gated_weights(gate, up, down, kind)
        if biases:
            layer.set_gated_biases(*biases)
        layer.set_swiglu_params(limit, alpha, beta)
        return layer

    return add_layer(add, hidden, experts, scores, gate, up, down, *biases, shape=hidden.shape, fold=False)


def _moe_flops(node: Node, shapes: Shapes) -> int:
    """Three matrix products for each chosen expert of each token."""
    gate = shapes.inputs[3]
    return count(shapes.inputs[1]) * (6 * gate[1] * gate[2] + 6 * gate[2] + 2 * gate[1])


@evaluates(
    "MOE",
    category="product",
    flops=_moe_flops,
    unbuilt="MOE has kernels for Blackwell and Thor GPUs alone: write the experts as F.matmul with gathered weights, "
    "or build where there is such a GPU",
)
def _moe(node: Node) -> Evaluate:
    """Computed in float32 and rounded once.

    Assumed for SwiGLU, of which the documentation gives the defaults alone: the gate is cut at ``limit`` from above and
    the other factor on both sides, ``gate * sigmoid(alpha * gate) * (up + beta)``.
    """
    layer, dtype = node.layer, node.dtype
    node.known(layer.activation_type, ("SILU",), "activation")
    limit, alpha, beta = layer.swiglu_param_limit, layer.swiglu_param_alpha, layer.swiglu_param_beta
    quantized = node.backend.torch_dtype(layer.quantization_to_type) if node.has_input(9) else None
    block: tuple[int, ...] = tuple(layer.quantization_block_shape) if quantized is not None else ()
    scale_dtype = node.backend.torch_dtype(layer.dyn_q_output_scale_type) if block else None

    def requantized(x: torch.Tensor, scale: Given) -> torch.Tensor:
        """Through the quantized type and back, per token and expert."""
        if quantized is None or scale is None:
            return x
        if scale_dtype is None:
            steps = spread(scale, x.shape, -1)
        else:
            scales = dynamic_scales(x, (1, *block[3:]), quantized, scale_dtype, scale)
            steps = spread(scales * scale.float(), x.shape, -1)
        steps = torch.where(steps == 0, 1.0, steps)
        return narrow(x / steps, quantized).float() * steps

    def expert(x: torch.Tensor, weights: Sequence[torch.Tensor], scale: Given) -> torch.Tensor:
        gate, up, down, *biases = weights
        opened, raised = x @ gate, x @ up
        if biases:
            opened, raised = opened + biases[0], raised + biases[1]
        opened, raised = opened.clamp(max=limit), raised.clamp(-limit, limit)
        inner = opened * torch.sigmoid(alpha * opened) * (raised + beta)
        result = requantized(inner, scale) @ down
        return result + biases[2] if biases else result

    def evaluate(hidden: torch.Tensor, experts: torch.Tensor, scores: torch.Tensor, *parameters: Given) -> torch.Tensor:
        tokens = hidden.float().flatten(0, 1)
        chosen, factors = experts.flatten(0, 1), scores.float().flatten(0, 1)
        scale = parameters[6] if len(parameters) > 6 else None
        result = torch.zeros_like(tokens)
        for index in torch.unique(chosen).tolist():
            row, place = torch.where(chosen == index)
            weights = [tensor[index].float() for tensor in parameters[:6] if tensor is not None]
            output = expert(tokens[row], weights, scale) * factors[row, place].unsqueeze(1)
            result.index_add_(0, row, output)
        return result.reshape(hidden.shape).to(dtype)

    return evaluate
