"""What a checkpoint's folder of Hugging Face's layout says of its language model, as transformers takes it."""

import math
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch
from msgspec import Meta, Struct
from msgspec.structs import replace

import trtdsl as td
import trtdsl.functional as F
from trtdsl.core.files.reading import as_struct, read_json

FAMILIES = ("llama", "qwen2", "qwen3", "mistral", "mixtral", "qwen2_moe", "qwen3_moe")
MIXTURES = {
    "mixtral": ("block_sparse_moe", "w1", "w3", "w2"),
    "qwen2_moe": ("mlp", "gate_proj", "up_proj", "down_proj"),
    "qwen3_moe": ("mlp", "gate_proj", "up_proj", "down_proj"),
}
"""The families with experts: how files call the layer of them, and the products of each."""
NORMED = ("qwen3", "qwen3_moe")  # the families that normalize each head's queries and keys
SMOOTH = partial(F.gelu, approximate="tanh")
ACTIVATIONS = {
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_pytorch_tanh": SMOOTH,
    "relu": F.relu,
    # Other names of these in transformers.
    "swish": F.silu,
    "gelu_python": F.gelu,
    **dict.fromkeys(("gelu_new", "gelu_fast", "gelu_accurate", "gelu_python_tanh"), SMOOTH),
}
DTYPES = ("float32", "float16", "bfloat16")
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
    attention_factor: Number | None = None
    beta_fast: Number | None = None
    beta_slow: Number | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True


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
    max_position_embeddings: Number | None = None
    sliding_window: Annotated[int, Meta(ge=0)] | None = 4096
    use_sliding_window: bool | None = None
    max_window_layers: int = 28
    layer_types: list[str] | None = None
    attention_bias: bool | None = None
    mlp_bias: bool | None = None
    qkv_bias: bool = True
    tie_word_embeddings: bool = False
    num_experts: Positive | None = None
    num_local_experts: Positive | None = None
    num_experts_per_tok: Positive = 2
    norm_topk_prob: bool = False
    decoder_sparse_step: Positive = 1
    mlp_only_layers: list[int] | None = None
    dtype: Any = None
    torch_dtype: Any = None

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
    # As transformers has it: an entry of the old name, which users add, counts instead of one of the new name.
    facts["rope_parameters" if facts.get("rope_scaling") else "rope_scaling"] = None
    config = as_struct({**DEFAULTS.get(facts["model_type"], {}), **facts}, Config, str(path), td.UsageError)
    chosen = {"hidden_act": ([config.hidden_act], ACTIVATIONS), "layer_types": (config.layer_types or (), LAYER_TYPES)}
    for entry, (given, known) in chosen.items():
        for other in [each for each in given if each not in known]:
            raise td.UnsupportedError(f"{path}: {entry}: {other!r}: {', '.join(known)} are written here")
    if 0 in windows(config):
        raise td.UnsupportedError(f"{path}: sliding_window: 0 hides every token")
    slides = bool(config.use_sliding_window and config.sliding_window)
    by_types = config.model_type in ("qwen2", "qwen3", "qwen2_moe") and config.layer_types
    if by_types and "sliding_attention" in by_types and not slides:
        raise td.UsageError(f"{path}: layer_types name sliding_attention, and no sliding_window is in use")
    return config


def open_weights(folder: Path, config: Config) -> td.Weights:
    """A folder's weights. UsageError for several dtypes, and for weights of another model."""
    weights = td.Weights(folder)
    if config.tie_word_embeddings and (EMBEDDING in weights.shapes) < (HEAD in weights.shapes):
        weights = td.Weights(weights, tied={EMBEDDING: HEAD})
    if EMBEDDING not in weights.shapes:
        raise td.UsageError(f"{weights.label} has no {EMBEDDING}: the weights of a whole language model are read")
    found = weights.dtypes[EMBEDDING]
    if found not in DTYPES:
        raise td.UnsupportedError(f"{weights.label} has weights of {found}: those of {', '.join(DTYPES)} are read")
    for name, dtype in weights.dtypes.items():
        if dtype != found and not name.endswith(COMPUTED):
            raise td.UsageError(
                f"{weights.label} has weights of several dtypes, {EMBEDDING} {found} and {name} {dtype}: "
                "convert them to one"
            )
    said = config.dtype or config.torch_dtype
    if said != found and said in DTYPES:
        warnings.warn(
            f"{folder / 'config.json'} says {said}, and the weights are {found}: this network computes in {found}, "
            f'and transformers in {said} unless it is given dtype="{found}"',
            stacklevel=2,
        )
    return weights


def is_tied(config: Config, weights: td.Weights) -> bool:
    """Whether the embeddings serve as head: as transformers has it, not where the files have a head that differs."""
    return config.tie_word_embeddings and (
        HEAD not in weights.shapes or torch.equal(*map(weights.get, (HEAD, EMBEDDING)))
    )


def check_same_config(path: Path | None, folder: Path, config: Config) -> None:
    """UsageError where the config beside the weights is another one: of others that are given instead of the folder's,
    or where the folder's was edited, or the folder exchanged, since the config was read.
    """
    own = path if path is None or path.is_dir() else path.parent
    if own is None or not (own / "config.json").is_file():
        return
    if replace(read_config(own), dtype=config.dtype, torch_dtype=config.torch_dtype) != config:
        if own == folder:
            raise td.UsageError(f"{own / 'config.json'} changed while it was in use. Start again")
        raise td.UsageError(
            f"the weights of {path} are of another config than {folder}, of which the network is made: "
            f"make it of theirs, by --set folder={own}"
        )


def check_weights(weights: td.Weights, config: Config, dtype: str) -> None:
    """WeightsError where they are not those that the config asks for; UsageError for another number of layers."""
    said, layers = config.num_hidden_layers, {name.split(".")[2] for name in weights.shapes if ".layers." in name}
    if said != len(layers):
        raise td.UsageError(
            f"config.json: num_hidden_layers: expected {len(layers)}, which the weights have, not {said}"
        )
    if config.layer_types is not None and len(config.layer_types) != said:
        raise td.UsageError(f"config.json: layer_types: expected {said}, one for each layer")
    besides = [
        name for name in weights.shapes if name.endswith(COMPUTED) or (name == HEAD and config.tie_word_embeddings)
    ]
    weights.check({name: (size, dtype) for name, size in shapes_of(config)}, besides, allow_nonfinite=True)


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
    window, count, family = config.sliding_window, config.num_hidden_layers, config.model_type
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
    "yarn": ("factor", "original_max_position_embeddings"),
}
"""The kinds of rotary positions, and the numbers of each."""


def rotary(config: Config) -> tuple[torch.Tensor, float]:
    """The angle that each pair of a head turns by from one token to the next, and the factor of its sine and cosine."""
    rope, width = config.rope_scaling or config.rope_parameters or Rope(), config.width
    kind = rope.rope_type or rope.type or "default"
    if kind not in TURNS:
        raise td.UnsupportedError(
            f"config.json: rotary positions of kind {kind!r}: {', '.join(TURNS)} are written here"
        )
    base = rope.rope_theta or config.rope_theta
    plain: torch.Tensor = base ** -(torch.arange(0, width, 2) / width)
    # As transformers has it.
    context = (
        config.original_max_position_embeddings
        or rope.original_max_position_embeddings
        or config.max_position_embeddings
    )
    rope = replace(rope, original_max_position_embeddings=context)
    numbers = [getattr(rope, name) for name in TURNS[kind]]
    if None in numbers:
        raise td.UsageError(f"config.json: rope_parameters of kind {kind!r} have {', '.join(TURNS[kind])}")
    if kind in ("default", "linear"):
        return plain / numbers[0] if numbers else plain, 1.0
    factor, context = numbers[0], numbers[-1]
    if kind == "llama3":
        low, high = numbers[1:3]
        turns: torch.Tensor = context * plain / (2 * math.pi)  # in the context of the first training
        # None of it is slowed down, where it turns often. In transformers, too, a low above the high one is a step.
        share = ((turns - low) / max(high - low, 1e-9)).clamp(0, 1)
    else:
        # The pairs that turn so often in that context are where the slope begins and ends.
        edges = [
            width * math.log(context / (often * 2 * math.pi)) / (2 * math.log(base))
            for often in (rope.beta_fast or 32, rope.beta_slow or 1)
        ]
        if rope.truncate:
            edges = [math.floor(edges[0]), math.ceil(edges[1])]
        first, last = max(edges[0], 0), min(edges[1], width - 1)
        share = 1 - ((torch.arange(width // 2) - first) / ((last - first) or 0.001)).clamp(0, 1)
    return plain * share + plain / factor * (1 - share), _sharpness(rope) if kind == "yarn" else 1.0


def _sharpness(rope: Rope) -> float:
    """The factor of sines and cosines, by which attention stays as sharp over more tokens."""

    def of(scale: float) -> float:
        return 0.1 * scale * math.log(max(rope.factor or 1.0, 1.0)) + 1.0

    if rope.attention_factor:
        return rope.attention_factor
    return of(rope.mscale) / of(rope.mscale_all_dim) if rope.mscale and rope.mscale_all_dim else of(1.0)
