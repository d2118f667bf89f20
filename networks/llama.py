"""Llama, Qwen2, Qwen3 and Mistral checkpoints of Hugging Face's layout, with a cache of slots: prefill and decode.

Mixtral's, Qwen2-MoE's and Qwen3-MoE's too: each token gathers the experts that it chooses, for few tokens a step.

    trtdsl check networks/llama.py --set folder=Llama-3.2-1B

``tokens`` (N, S) continue the N sequences, of which ``starts`` tokens each are in the cache; ``lengths`` of the S
count, the others pad. The logits are those of each sequence's last token that counts. The caches are states, which an
engine writes in place. Two profiles, S = 1 and S up to ``prompt``, are decode and prefill of one engine. Of several
``ranks``, each on a GPU, ``rank`` has a part of the heads and their caches, the feed-forward layers and the words.
``bits`` rounds the weights of products to 8 or 4, of which decode reads a half or a quarter: for prompts of few tokens
a step.
"""

import importlib
import importlib.util
import math
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from msgspec import Meta, Struct
from msgspec.structs import replace

import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L
from trtdsl.core.files.reading import as_struct, read_json
from trtdsl.definition.weights.scope import weights_of

GROUP = 128  # numbers of a row of weights that share a scale
LEVELS = {4: 7, 8: 119}
"""By bits the greatest rounded weight. One of 8 bits is 16 times a half of 4 bits and another half, from -8 to 7: the
builder would widen weights of int8 while it builds."""
FAMILIES = ("llama", "qwen2", "qwen3", "mistral", "mixtral", "qwen2_moe", "qwen3_moe")
MIXTURES = {
    "mixtral": ("block_sparse_moe", "w1", "w3", "w2"),
    "qwen2_moe": ("mlp", "gate_proj", "up_proj", "down_proj"),
    "qwen3_moe": ("mlp", "gate_proj", "up_proj", "down_proj"),
}
"""The families with experts: how files call the layer of them, and the products of each."""
NORMED = ("qwen3", "qwen3_moe")  # the families that normalize each head's queries and keys
ACTIVATIONS = {
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_pytorch_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
}
LAYER_TYPES = ("full_attention", "sliding_attention")
DEFAULTS: dict[str, dict[str, Any]] = {
    "llama": {"intermediate_size": 11008},
    "qwen2": {"num_key_value_heads": 32},
    "qwen3": {"num_key_value_heads": 32, "head_dim": 128},
    "mistral": {"num_key_value_heads": 8, "intermediate_size": 14336},
    "mixtral": {
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "rope_theta": 1e6,
        "sliding_window": None,
        "num_experts": 8,
    },
    "qwen2_moe": {
        "num_key_value_heads": 16,
        "intermediate_size": 5632,
        "moe_intermediate_size": 1408,
        "num_experts": 60,
        "num_experts_per_tok": 4,
    },
    "qwen3_moe": {
        "num_key_value_heads": 4,
        "intermediate_size": 6144,
        "num_experts": 128,
        "num_experts_per_tok": 8,
    },
}
"""What transformers takes for entries that a config leaves out, where a family has its own."""
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
COMPUTED = ".self_attn.rotary_emb.inv_freq"
"""How buffers end that old checkpoints hold, which transformers computes from the config."""
Positive = Annotated[int, Meta(gt=0, lt=1 << 31)]
Number = Annotated[float, Meta(gt=0, lt=1e30)]
Whole = Annotated[float, Meta(ge=1, le=1)]  # other parts than all of a head turn in other families alone


class Rope(Struct):
    rope_theta: Number | None = None
    rope_type: str | None = None
    type: str | None = None
    factor: Number | None = None
    low_freq_factor: Number | None = None
    high_freq_factor: Number | None = None
    original_max_position_embeddings: Number | None = None
    partial_rotary_factor: Whole | None = None


class Config(Struct):
    model_type: str
    hidden_size: Positive
    num_hidden_layers: Positive
    num_attention_heads: Positive
    rms_norm_eps: Number
    vocab_size: Positive
    num_key_value_heads: Positive | None = None
    head_dim: Annotated[int, Meta(gt=0, multiple_of=2)] | None = None
    intermediate_size: Positive = 22016
    moe_intermediate_size: Positive = 768
    shared_expert_intermediate_size: Positive = 5632
    hidden_act: str = "silu"
    rope_theta: Number = 10000.0
    rope_parameters: Rope | None = None
    rope_scaling: Rope | None = None
    partial_rotary_factor: Whole | None = None
    original_max_position_embeddings: Number | None = None
    sliding_window: Annotated[int, Meta(ge=0)] | None = 4096
    use_sliding_window: bool | None = None
    max_window_layers: int = 28
    layer_types: list[str] | None = None
    attention_bias: bool | None = None
    mlp_bias: bool | None = None
    qkv_bias: bool = True
    tie_word_embeddings: bool | None = None
    num_experts: Positive | None = None
    num_local_experts: Positive | None = None
    num_experts_per_tok: Positive = 2
    norm_topk_prob: bool = False
    decoder_sparse_step: Positive = 1
    mlp_only_layers: list[int] | None = None

    @property
    def width(self) -> int:
        return self.head_dim or self.hidden_size // self.num_attention_heads

    @property
    def groups(self) -> int:
        return self.num_key_value_heads or self.num_attention_heads

    def experts_of(self, layer: int) -> int:
        """How many a layer has; 0 for one without any."""
        dense = layer in (self.mlp_only_layers or ()) or (layer + 1) % self.decoder_sparse_step
        if self.model_type not in MIXTURES or (dense and self.model_type != "mixtral"):
            return 0
        return self.num_local_experts or self.num_experts or 0


def read_config(folder: Path) -> Config:
    path = folder / "config.json"
    if not path.is_file():
        raise td.UsageError(
            f"{folder} has no config.json: name the folder of a checkpoint, with its config and weights"
        )
    facts = read_json(path, "config", td.UsageError)
    if facts.get("model_type") not in FAMILIES:
        raise td.UnsupportedError(f"{path} is of model_type {facts.get('model_type')!r}, not of {', '.join(FAMILIES)}")
    if facts.get("quantization_config") is not None:
        raise td.UnsupportedError(f"{path} has a quantization_config: checkpoints of floating-point weights are read")
    if facts.get("is_causal") is False:
        raise td.UnsupportedError(f"{path}: is_causal is false: tokens that see later ones have no cache")
    config = as_struct({**DEFAULTS.get(facts["model_type"], {}), **facts}, Config, str(path), td.UsageError)
    chosen = {"hidden_act": ([config.hidden_act], ACTIVATIONS), "layer_types": (config.layer_types or (), LAYER_TYPES)}
    for entry, (given, known) in chosen.items():
        for other in [each for each in given if each not in known]:
            raise td.UnsupportedError(f"{path}: {entry}: {other!r}: {', '.join(known)} are written here")
    return config


def check_same_config(path: Path | None, folder: Path, config: Config) -> None:
    """UsageError where weights that are given instead of the folder's have another config beside them."""
    own = path if path is None or path.is_dir() else path.parent
    if own is not None and own != folder and (own / "config.json").is_file() and read_config(own) != config:
        raise td.UsageError(
            f"the weights of {path} are of another config than {folder}, of which the network is made: "
            f"make it of theirs, by --set folder={own}"
        )


def dtype_of(weights: td.Weights) -> str:
    """That of all weights. UsageError for several, and for weights of another model."""
    if EMBEDDING not in weights.shapes:
        raise td.UsageError(f"{weights.label} has no {EMBEDDING}: the weights of a whole language model are read")
    found = weights.dtypes[EMBEDDING]
    for name, dtype in weights.dtypes.items():
        if dtype != found and not name.endswith(COMPUTED):
            raise td.UsageError(
                f"{weights.label} has weights of several dtypes, {EMBEDDING} {found} and {name} {dtype}: "
                "convert them to one"
            )
    return found


def say_dtype(path: Path, dtype: str) -> None:
    """Warns where the config says another dtype than the files have, which is the network's."""
    facts = read_json(path, "config", td.UsageError)
    said = facts.get("dtype") or facts.get("torch_dtype")
    if said != dtype and said in ("float32", "float16", "bfloat16"):
        warnings.warn(
            f"{path} says {said}, and the weights are {dtype}: this network computes in {dtype}, "
            f'and transformers in {said} unless it is given dtype="{dtype}"',
            stacklevel=2,
        )


def is_tied(config: Config, weights: td.Weights) -> bool:
    """Whether the embeddings serve as head: as transformers has it, not where the files have a head that differs."""
    tied = bool(config.tie_word_embeddings)
    return tied and (HEAD not in weights.shapes or torch.equal(*map(weights.get, (HEAD, EMBEDDING))))


def check_sizes(config: Config, weights: td.Weights, path: Path) -> None:
    """UsageError for an entry that the tensors of the files contradict."""
    shapes = weights.shapes
    words, queries, keys = (
        shapes.get(f"model.{name}.weight", ())
        for name in ("embed_tokens", "layers.0.self_attn.q_proj", "layers.0.self_attn.k_proj")
    )
    layers = {name.split(".")[2] for name in shapes if name.startswith("model.layers.")}
    sizes = {
        "num_hidden_layers": (config.num_hidden_layers, (len(layers),)),
        "layer_types": (len(config.layer_types or layers), (len(layers),)),
        "vocab_size": (config.vocab_size, words[:1]),
        "hidden_size": (config.hidden_size, words[1:]),
        "num_attention_heads * head_dim": (config.num_attention_heads * config.width, queries[:1]),
        "num_key_value_heads * head_dim": (config.groups * config.width, keys[:1]),
    }
    for entry, (said, held) in sizes.items():
        if held not in ((), (said,)):
            raise td.UsageError(f"{path}: {entry}: expected {held[0]}, which the weights have, not {said}")


def biased(config: Config) -> set[str]:
    """The products that add a bias."""
    if config.model_type in ("qwen2", "qwen2_moe"):
        return {"q_proj", "k_proj", "v_proj"} if config.qkv_bias or config.model_type == "qwen2" else set()
    has_bias = config.attention_bias and config.model_type in ("llama", *NORMED)
    of_attention = ("q_proj", "k_proj", "v_proj", "o_proj") if has_bias else ()
    has_bias = config.mlp_bias and config.model_type == "llama"
    return {*of_attention, *(("gate_proj", "up_proj", "down_proj") if has_bias else ())}


def shapes_of(config: Config) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Every tensor that a checkpoint must have."""
    hidden, width, of_products = config.hidden_size, config.width, biased(config)
    wide, narrow = config.num_attention_heads * width, config.groups * width

    def product(name: str, *size: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield f"{name}.weight", size
        if name.split(".")[-1] in of_products:
            yield f"{name}.bias", size[:1]

    def feed_forward(
        scope: str, inner: int, gate: str = "gate_proj", up: str = "up_proj", down: str = "down_proj"
    ) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield from product(f"{scope}.{gate}", inner, hidden)
        yield from product(f"{scope}.{up}", inner, hidden)
        yield from product(f"{scope}.{down}", hidden, inner)

    yield EMBEDDING, (config.vocab_size, hidden)
    yield "model.norm.weight", (hidden,)
    yield from () if config.tie_word_embeddings else product("lm_head", config.vocab_size, hidden)
    for layer in range(config.num_hidden_layers):
        block = f"model.layers.{layer}"
        for name, *size in (
            ("input_layernorm", hidden),
            ("post_attention_layernorm", hidden),
            ("self_attn.q_proj", wide, hidden),
            ("self_attn.k_proj", narrow, hidden),
            ("self_attn.v_proj", narrow, hidden),
            ("self_attn.o_proj", hidden, wide),
            *((("self_attn.q_norm", width), ("self_attn.k_norm", width)) if config.model_type in NORMED else ()),
        ):
            yield from product(f"{block}.{name}", *size)
        count = config.experts_of(layer)
        if not count:
            yield from feed_forward(f"{block}.mlp", config.intermediate_size)
            continue
        scope, *own = MIXTURES[config.model_type]
        yield f"{block}.{scope}.gate.weight", (count, hidden)
        inner = config.intermediate_size if config.model_type == "mixtral" else config.moe_intermediate_size
        for expert in range(count):
            yield from feed_forward(f"{block}.{scope}.experts.{expert}", inner, *own)
        if config.model_type == "qwen2_moe":
            yield from feed_forward(f"{block}.mlp.shared_expert", config.shared_expert_intermediate_size)
            yield f"{block}.mlp.shared_expert_gate.weight", (1, hidden)


def windows(config: Config) -> list[int | None]:
    """For each layer how many tokens back it looks, or None for all."""
    window, count, family = config.sliding_window or None, config.num_hidden_layers, config.model_type
    if family == "llama" or (family.startswith("qwen") and not config.use_sliding_window):
        return [None] * count
    if config.layer_types and family not in ("mixtral", "qwen3_moe"):  # whose windows are of all layers
        return [window if kind == "sliding_attention" else None for kind in config.layer_types]
    first = config.max_window_layers
    some = {"qwen2": range(first, count), "qwen3": range(first, count), "qwen2_moe": range(0, first, 2)}
    return [window if layer in some.get(family, range(count)) else None for layer in range(count)]


TURNS = {
    "default": (),
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
}
"""The kinds of rotary positions, and the numbers of each."""


def frequencies(config: Config) -> torch.Tensor:
    """The angle that each pair of a head turns by from one token to the next."""
    # As transformers has it: an entry of the old name, which users add, counts instead of one of the new name.
    given = [rope for rope in (config.rope_scaling, config.rope_parameters) if rope not in (None, Rope())]
    rope, width = next(iter(given), Rope()), config.width
    kind = rope.rope_type or rope.type or "default"
    if kind not in TURNS:
        raise td.UnsupportedError(
            f"config.json: rotary positions of kind {kind!r}: {', '.join(TURNS)} are written here"
        )
    plain: torch.Tensor = (rope.rope_theta or config.rope_theta) ** -(torch.arange(0, width, 2) / width)
    numbers = [getattr(rope, name) for name in TURNS[kind]]
    if None in numbers:
        raise td.UsageError(f"config.json: rope_parameters of kind {kind!r} have {', '.join(TURNS[kind])}")
    if kind != "llama3":
        return plain / numbers[0] if numbers else plain
    factor, low, high, context = numbers
    context = config.original_max_position_embeddings or context  # as transformers has it
    turns: torch.Tensor = context * plain / (2 * math.pi)  # in the context of the first training
    share = ((turns - low) / (high - low)).clamp(0, 1)  # none of it is slowed down, where it turns often
    return plain * share + plain / factor * (1 - share)


def ones(shape: tuple[int, ...], _: torch.Generator) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.int32)


class Part:
    """What one of several ranks computes: some heads, a part of each feed-forward layer and of the vocabulary."""

    def __init__(self, rank: int, ranks: int, bits: int, biased: set[str]):
        self.rank, self.ranks, self.bits, self.biased = rank, ranks, bits, biased

    def rounds(self, size: Any, is_shared: bool = False) -> bool:
        """Whether weights whose rows have this size, shared out or not, are of few bits: GROUP numbers have one scale.

        Of rows of one group TensorRT-RTX 1.7 writes kernels that no compiler takes.
        """
        size //= self.ranks if is_shared else 1
        return self.bits in LEVELS and size % GROUP == 0 and size > GROUP

    def of(self, w: td.Tensor, dim: int) -> td.Tensor:
        return w if self.ranks == 1 else td.shard(w, dim, self.rank, self.ranks)

    def product(self, x: td.Tensor, w: td.Tensor, bias: td.Tensor | None = None) -> td.Tensor:
        """``x @ w.T + bias``; of few bits in a launch that widens and sums."""
        if not self.rounds(w.shape[1]):
            return F.linear(x, w, bias)
        y = (x.to(torch.float32).unsqueeze(-2) * self.narrow(w)).sum(-1).to(x.dtype)
        return y if bias is None else y + bias

    def narrow(self, w: td.Tensor) -> td.Tensor:
        """A weight rounded to few bits, in float32; as it is where it is not of few bits."""
        if not self.rounds(w.shape[-1]):
            return w
        groups = w.reshape(-1, GROUP).to(torch.float32)
        scale = groups.abs().amax(1) / LEVELS[self.bits]
        scale = F.where(scale == 0, 1.0, scale)

        def half(x: td.Tensor) -> td.Tensor:
            return td.dequantize(td.quantize(x, scale, "int4", axis=0), scale, axis=0).reshape(w.shape)

        if self.bits == 4:
            return half(groups)
        step = scale.unsqueeze(1)
        whole = (groups / step).round()
        high = ((whole + 8) / 16).floor()
        return half(high * step) * 16 + half((whole - 16 * high) * step)

    def columns(self, x: td.Tensor, w: td.Scope, name: str) -> td.Tensor:
        """The rank's part of the features, of all of ``x``."""
        return self.product(x, self.of(w[name].weight, 0), self.of(w[name].bias, 0) if name in self.biased else None)

    def rows(self, x: td.Tensor, w: td.Scope, name: str) -> td.Tensor:
        """All features, of the ranks' parts of ``x``."""
        if self.ranks == 1:
            return self.columns(x, w, name)
        y = L.all_reduce(self.product(x, self.of(w[name].weight, 1)), self.ranks)
        return y + w[name].bias if name in self.biased else y

    def embedding(self, tokens: td.Tensor, w: td.Tensor) -> td.Tensor:
        if self.ranks == 1:
            return F.embedding(tokens, w)
        own = self.of(w, 0)
        place = tokens - self.rank * own.shape[0]
        here = (place >= 0) & (place < own.shape[0])
        found = F.embedding(F.where(here, place, 0), own)
        return L.all_reduce(F.where(here.unsqueeze(-1), found, 0), self.ranks)

    def logits(self, x: td.Tensor, w: td.Scope) -> td.Tensor:
        return L.all_gather(self.columns(x, w, "lm_head").t(), self.ranks).t()


def norm(x: td.Tensor, w: td.Scope, eps: float) -> td.Tensor:
    normed = F.rms_norm(x.to(torch.float32), (x.shape[-1],), eps=eps).to(x.dtype)
    return normed * w.weight


def llama(
    folder: Path,
    capacity: int = 256,
    prompt: int = 64,
    batch: int = 4,
    rank: int = 0,
    ranks: int = 1,
    bits: Literal[16, 8, 4] = 16,
) -> td.NetworkSpec:
    config = read_config(folder)
    layers, width, eps = config.num_hidden_layers, config.width, config.rms_norm_eps
    heads, groups = config.num_attention_heads, config.groups
    if batch < 1:
        raise td.UsageError(f"batch is 1 or more sequences, not {batch}")
    if ranks < 1 or groups % ranks or heads % ranks:
        raise td.UsageError(f"{ranks} ranks do not share out {heads} heads and {groups} of keys and values")
    if config.vocab_size % ranks:
        raise td.UsageError(f"{ranks} ranks do not share out {config.vocab_size} words")
    heads, groups = heads // ranks, groups // ranks
    reference, activation = importlib.import_module("reference.llama"), ACTIVATIONS[config.hidden_act]
    if not 1 < prompt <= capacity:
        raise td.UsageError(f"prompt is 2 or more tokens, and no more than the capacity of {capacity}, not {prompt}")

    # A batch of one alone would be laid out otherwise in decode than in prefill, and each store weights of its own.
    N, S = td.Dim("N", min=1, opt=1, max=max(batch, 2)), td.Dim("S", min=1, opt=prompt, max=prompt)
    weights = td.Weights(folder)
    dtype = dtype_of(weights)
    check_sizes(config, weights, folder / "config.json")
    say_dtype(folder / "config.json", dtype)
    published, config = config, replace(config, tie_word_embeddings=is_tied(config, weights))
    frequencies(config)  # refused before transformers says it otherwise
    computed = [name for name in weights.shapes if name.endswith(COMPUTED)]
    views, scale, part = windows(config), width**-0.5, Part(rank, ranks, bits, biased(config))
    if bits in LEVELS and not any(part.rounds(size[-1]) for _, size in shapes_of(config)):
        raise td.UsageError(f"{bits} bits: no weight has rows of 2 or more groups of {GROUP} numbers")
    cache = td.State((N, groups, capacity, width), dtype, sharded=1)
    mixed = list(MIXTURES.get(config.model_type, ()))
    gates = tuple(f".{name}.weight" for name in ("gate_proj", *mixed[1:2]))
    for name, size in weights.shapes.items():
        if name.endswith(gates) and size and size[0] % ranks:
            raise td.UsageError(f"{ranks} ranks do not share out {size[0]} features of {name}")
    names = [f"{kind}_{layer}" for layer in range(layers) for kind in ("keys", "values")]
    tied = {HEAD: EMBEDDING} if config.tie_word_embeddings else None

    def attention(
        x: td.Tensor,
        block: td.Scope,
        rotate: Callable[[td.Tensor], td.Tensor],
        mask: td.Tensor,
        starts: td.Tensor,
        last: td.Tensor | None,
        keys: td.Tensor,
        values: td.Tensor,
    ) -> tuple[td.Tensor, td.Tensor, td.Tensor]:
        n, s, hidden = x.shape
        w, normed = block.self_attn, norm(x, block.input_layernorm, eps)
        q, k, v = (
            part.columns(normed, w, name).view(n, s, count, width)
            for name, count in (("q_proj", heads), ("k_proj", groups), ("v_proj", groups))
        )
        if config.model_type in NORMED:
            squares = F.cat([q, k], 2).to(torch.float32).square().mean(-1, keepdim=True)  # of both in one launch
            scales = (squares + eps).rsqrt().split([heads, groups], 2)
            q, k = (
                (x.to(torch.float32) * scale).to(x.dtype) * norm.weight
                for x, scale, norm in zip((q, k), scales, (w.q_norm, w.k_norm), strict=True)
            )
        q, k, v = (x.transpose(1, 2).to(keys.dtype) for x in (q, k, v))  # in a lower precision the caches keep theirs
        q, k = rotate(q), rotate(k)
        keys, values = L.kv_cache_update(keys, k, starts), L.kv_cache_update(values, v, starts)
        if last is not None:
            both = F.cat([q.transpose(1, 2).reshape(n, s, heads * width), x], 2)  # two gathers would be two launches
            q, row = L.gather(both, last, 1, num_elementwise_dims=1).unsqueeze(1).split([heads * width, hidden], 2)
            q, x, s = q.reshape(n, heads, 1, width), row.to(x.dtype), 1
            mask = L.gather(mask, last, 2, num_elementwise_dims=1).unsqueeze(2)
        # No row of the mask is hidden wholly: F's attention would look for one.
        read = laid_out(keys, values, s) if last is None else (keys, values)
        y = L.attention(q * scale, *read, mask)
        return x + part.rows(y.transpose(1, 2).reshape(n, s, heads * width), w, "o_proj"), keys, values

    def laid_out(keys: td.Tensor, values: td.Tensor, queries: int | td.Size) -> tuple[td.Tensor, td.Tensor]:
        """The caches as parts of one tensor, for several queries.

        One launch writes it, and the kernel copies nothing for each head, as it does of caches. For one query it reads
        the caches.
        """
        several = (2 * queries - 2) // queries  # 0 in the profile of one
        both = F.cat([x[:, :, : capacity * several] for x in (keys, values)], 2)
        parts = both[:, :, : capacity * several], both[:, :, capacity * several :]
        k, v = (F.cat([part, x], 2)[:, :, :capacity] for part, x in zip(parts, (keys, values), strict=True))
        return k, v

    def dense(x: td.Tensor, w: td.Scope) -> td.Tensor:
        bias = part.of(w.gate_proj.bias, 0) if "gate_proj" in part.biased else 0
        # Of one operand builders make both products at once, and a launch behind them that multiplies.
        gate = activation(bias - part.product(-x, part.of(w.gate_proj.weight, 0)))
        return part.rows(gate * part.columns(x, w, "up_proj"), w, "down_proj")

    def mixture(x: td.Tensor, w: td.Scope, count: int) -> td.Tensor:
        """Each token (T, C) by the experts that it chooses: no other is read."""
        shares, chosen = F.topk(F.softmax(F.linear(x, w.gate.weight).to(torch.float32), -1), config.num_experts_per_tok)
        if config.norm_topk_prob or config.model_type == "mixtral":
            shares = shares / shares.sum(-1, keepdim=True)

        def each(x: td.Tensor, name: str, dim: int) -> td.Tensor:  # (T, K, out)
            weights = F.stack([part.of(w.experts[index][name].weight, dim) for index in range(count)])
            return (x.unsqueeze(-2) * L.gather(part.narrow(weights), chosen, 0).to(torch.float32)).sum(-1)

        wide, (gate, up, down) = x.to(torch.float32).unsqueeze(1), mixed[1:]
        inner = activation(each(wide, gate, 0)) * each(wide, up, 0)
        y = L.all_reduce((each(inner, down, 1) * shares.unsqueeze(-1)).sum(1).to(x.dtype), ranks)
        if config.model_type == "qwen2_moe":  # an expert that all tokens take
            y = y + F.sigmoid(part.product(x, w.shared_expert_gate.weight)) * dense(x, w.shared_expert)
        return y

    def feed_forward(x: td.Tensor, block: td.Scope, layer: int) -> td.Tensor:
        normed = norm(x, block.post_attention_layernorm, eps).reshape(-1, x.shape[-1])
        count = config.experts_of(layer)
        return (mixture(normed, block[mixed[0]], count) if count else dense(normed, block.mlp)).view(x.shape)

    @td.network(
        inputs={
            "tokens": td.Input((N, S), "int64", sample=(0, config.vocab_size)),
            "starts": td.Input((N,), "int32", sample=(0, capacity - prompt + 1)),
            "lengths": td.Input((N,), "int32", sample=ones),
            **dict.fromkeys(names, cache),
        },
        weights=folder,
        # Without transformers there is nothing to check against, and an engine is built all the same.
        reference=(
            lambda: reference.Model(folder, dtype, tied is not None, mixed, (LEVELS.get(bits), GROUP), part.rounds)
        )
        if importlib.util.find_spec("transformers")
        else None,
        tied=tied,
        unused=computed,
        constants=computed,
        profiles=[td.Profile(S=1), td.Profile(S=(1, prompt, prompt))],
    )
    def decoder(tokens: td.Tensor, starts: td.Tensor, lengths: td.Tensor, *arguments: Any) -> dict[str, td.Tensor]:
        *caches, w = arguments
        given = weights_of(w)
        check_same_config(given.path, folder, published)
        # Without transformers no reference says what there must be.
        besides = [name for name in given.shapes if name.endswith(COMPUTED) or name in (tied or ())]
        given.check({name: (size, dtype) for name, size in shapes_of(config)}, besides)
        positions = starts.to(torch.int64).unsqueeze(1) + F.arange(tokens.shape[1])
        angles = torch.arange(capacity).unsqueeze(1) * frequencies(config)
        kind = w.model.embed_tokens.weight.dtype
        cos, sin = (tokens.network.constant(table.to(kind)) for table in (angles.cos(), angles.sin()))
        behind = positions.unsqueeze(-1) - F.arange(capacity)
        masks: dict[int | None, td.Tensor] = {}
        for view in dict.fromkeys(views):
            seen = (behind >= 0) if view is None else (behind >= 0) & (behind < view)
            masks[view] = seen.unsqueeze(1).to(kind).log()  # 0 or -inf

        def rotate(x: td.Tensor) -> td.Tensor:
            return L.rotary_embedding(x, cos, sin, positions)

        x = part.embedding(tokens, w.model.embed_tokens.weight)
        outputs: dict[str, td.Tensor] = {}
        for layer, view in enumerate(views):
            block = w.model.layers[layer]
            of_last = lengths - 1 if layer == layers - 1 else None  # what follows the last caches is for them alone
            x, keys, values = attention(
                x, block, rotate, masks[view], starts, of_last, *caches[2 * layer : 2 * layer + 2]
            )
            x = x + feed_forward(x, block, layer)
            outputs |= {f"next_keys_{layer}": keys, f"next_values_{layer}": values}
        return {"logits": part.logits(norm(x.squeeze(1), w.model.norm, eps), w), **outputs}

    return decoder
