"""Llama, Qwen2, Qwen3 and Mistral checkpoints of Hugging Face's layout, with a cache of slots: prefill and decode.

    trtdsl check networks/llama.py --set folder=Llama-3.2-1B

``tokens`` (N, S) continue the N sequences, of which ``starts`` tokens each are in the cache; ``lengths`` of the S
count, the others pad. The logits are those of each sequence's last token that counts. The caches are states, which an
engine writes in place. Two profiles, S = 1 and S up to ``prompt``, are decode and prefill of one engine. Of several
``ranks``, each on a GPU, ``rank`` has a part of the heads and their caches, the feed-forward layers and the words.
``int4`` rounds the weights of products to 4 bits, for which decode reads a quarter: for prompts of few tokens a step.
"""

import importlib
import importlib.util
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L

GROUP = 128  # numbers of a row of weights that share a scale in int4
FAMILIES = ("llama", "qwen2", "qwen3", "mistral")
NUMBERS = ("hidden_size", "num_hidden_layers", "num_attention_heads", "rms_norm_eps", "vocab_size")


def read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.is_file():
        raise td.UsageError(
            f"{folder} has no config.json: name the folder of a checkpoint, with its config and weights"
        )
    try:
        config: dict[str, Any] = dict(json.loads(path.read_text()))
    except (ValueError, TypeError) as error:
        raise td.UsageError(f"{path} is not the JSON of a config: {error}") from None
    if config.get("model_type") not in FAMILIES:
        raise td.UnsupportedError(f"{path} is of model_type {config.get('model_type')!r}, not of {', '.join(FAMILIES)}")
    if lacking := [name for name in NUMBERS if not isinstance(config.get(name), (int, float))]:
        raise td.UsageError(f"{path} has no number for {', '.join(lacking)}")
    config["head_dim"] = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    return config


def biased(config: dict[str, Any]) -> set[str]:
    """The products that add a bias."""
    if config["model_type"] == "qwen2":
        return {"q_proj", "k_proj", "v_proj"}
    of_attention = ("q_proj", "k_proj", "v_proj", "o_proj") if config.get("attention_bias") else ()
    return {*of_attention, *(("gate_proj", "up_proj", "down_proj") if config.get("mlp_bias") else ())}


def windows(config: dict[str, Any]) -> list[int | None]:
    """For each layer how many tokens back it looks, or None for all."""
    window, count = config.get("sliding_window"), config["num_hidden_layers"]
    if config["model_type"] == "llama" or (config["model_type"] != "mistral" and not config.get("use_sliding_window")):
        return [None] * count
    if kinds := config.get("layer_types"):
        return [window if kind == "sliding_attention" else None for kind in kinds]
    first = 0 if config["model_type"] == "mistral" else config.get("max_window_layers", 28)
    return [window if layer >= first else None for layer in range(count)]


def frequencies(config: dict[str, Any]) -> torch.Tensor:
    """The angle that each pair of a head turns by from one token to the next."""
    rope: dict[str, Any] = config.get("rope_parameters") or dict(config.get("rope_scaling") or {})
    base: float = rope.get("rope_theta") or config.get("rope_theta", 10000.0)
    kind = rope.get("rope_type", rope.get("type", "default"))
    width: int = config["head_dim"]
    plain: torch.Tensor = base ** -(torch.arange(0, width, 2) / width)
    if kind == "default":
        return plain
    if kind == "linear":
        return plain / rope["factor"]
    if kind != "llama3":
        raise td.UnsupportedError(f"rotary positions of kind {kind!r}: default, linear and llama3 are written here")
    low: float = rope["low_freq_factor"]
    high: float = rope["high_freq_factor"]
    turns: torch.Tensor = (
        rope["original_max_position_embeddings"] * plain / (2 * math.pi)
    )  # in the context of the first training
    share = ((turns - low) / (high - low)).clamp(0, 1)  # none of it is slowed down, where it turns often
    return plain * share + plain / rope["factor"] * (1 - share)


def ones(shape: tuple[int, ...], _: torch.Generator) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.int32)


class Part:
    """What one of several ranks computes: some heads, a part of each feed-forward layer and of the vocabulary."""

    def __init__(self, rank: int, ranks: int, int4: bool, biased: set[str]):
        self.rank, self.ranks, self.int4, self.biased = rank, ranks, int4, biased

    def of(self, w: td.Tensor, dim: int) -> td.Tensor:
        return w if self.ranks == 1 else td.shard(w, dim, self.rank, self.ranks)

    def product(self, x: td.Tensor, w: td.Tensor, bias: td.Tensor | None = None) -> td.Tensor:
        """``x @ w.T + bias``, in int4 where GROUP numbers can share a scale: multiplied and summed in one launch."""
        rows, inner = w.shape
        if not self.int4 or inner % GROUP:
            return F.linear(x, w, bias)
        groups = w.reshape(-1, GROUP).to(torch.float32)
        scale = groups.abs().amax(1) / 7
        scale = F.where(scale == 0, 1.0, scale)
        narrow = td.dequantize(td.quantize(groups, scale, "int4", axis=0), scale, axis=0).reshape(rows, inner)
        y = (x.to(torch.float32).unsqueeze(-2) * narrow).sum(-1).to(x.dtype)
        return y if bias is None else y + bias

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
        y = self.columns(x, w, "lm_head")
        return y if self.ranks == 1 else L.all_gather(y.t(), self.ranks).t()


def norm(x: td.Tensor, w: td.Scope, eps: float) -> td.Tensor:
    return F.rms_norm(x.to(torch.float32), (x.shape[-1],), eps=eps).to(x.dtype) * w.weight


def row_of(x: td.Tensor, places: td.Tensor, dim: int) -> td.Tensor:
    """One row of each sequence of a batch, without its dimension."""
    return L.gather(x, places, dim, num_elementwise_dims=1)


def llama(
    folder: Path,
    capacity: int = 256,
    prompt: int = 64,
    batch: int = 4,
    rank: int = 0,
    ranks: int = 1,
    int4: bool = False,
) -> td.NetworkSpec:
    config = read_config(folder)
    layers, width, eps = config["num_hidden_layers"], config["head_dim"], config["rms_norm_eps"]
    heads, groups = config["num_attention_heads"], config.get("num_key_value_heads") or config["num_attention_heads"]
    views, scale, part = windows(config), width**-0.5, Part(rank, ranks, int4, biased(config))
    if ranks < 1 or groups % ranks or heads % ranks:
        raise td.UsageError(f"{ranks} ranks do not share out {heads} heads and {groups} of keys and values")
    heads, groups = heads // ranks, groups // ranks
    reference = importlib.import_module("reference.llama")
    if not 1 < prompt <= capacity:
        raise td.UsageError(f"prompt is 2 or more tokens, and no more than the capacity of {capacity}, not {prompt}")

    # A batch of one alone would be laid out otherwise in decode than in prefill, and each store weights of its own.
    N, S = td.Dim("N", min=1, opt=1, max=max(batch, 2)), td.Dim("S", min=1, opt=prompt, max=prompt)
    dtype = td.Weights(folder).dtypes["model.embed_tokens.weight"]
    cache = td.State((N, groups, capacity, width), dtype, sharded=1)
    names = [f"{kind}_{layer}" for layer in range(layers) for kind in ("keys", "values")]
    tied = {"lm_head.weight": "model.embed_tokens.weight"} if config.get("tie_word_embeddings") else None

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
        if config["model_type"] == "qwen3":
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
            q, row = row_of(both, last, 1).unsqueeze(1).split([heads * width, hidden], 2)
            q, x, s = q.reshape(n, heads, 1, width), row.to(x.dtype), 1
            mask = row_of(mask, last, 2).unsqueeze(2)
        y = L.attention(q * scale, keys, values, mask)  # no row of the mask is hidden wholly: F's would look for one
        return x + part.rows(y.transpose(1, 2).reshape(n, s, heads * width), w, "o_proj"), keys, values

    def mlp(x: td.Tensor, block: td.Scope) -> td.Tensor:
        x, w = norm(x, block.post_attention_layernorm, eps), block.mlp
        return part.rows(F.silu(part.columns(x, w, "gate_proj")) * part.columns(x, w, "up_proj"), w, "down_proj")

    @td.network(
        inputs={
            "tokens": td.Input((N, S), "int64", sample=(0, config["vocab_size"])),
            "starts": td.Input((N,), "int32", sample=(0, capacity - prompt + 1)),
            "lengths": td.Input((N,), "int32", sample=ones),
            **dict.fromkeys(names, cache),
        },
        weights=folder,
        # Without transformers there is nothing to check against, and an engine is built all the same.
        reference=(lambda: reference.Model(folder, views, GROUP if int4 else 0))
        if importlib.util.find_spec("transformers")
        else None,
        tied=tied,
        profiles=[td.Profile(S=1), td.Profile(S=(1, prompt, prompt))],
    )
    def decoder(tokens: td.Tensor, starts: td.Tensor, lengths: td.Tensor, *arguments: Any) -> dict[str, td.Tensor]:
        *caches, w = arguments
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
            x = x + mlp(x, block)
            outputs |= {f"next_keys_{layer}": keys, f"next_values_{layer}": values}
        return {"logits": part.logits(norm(x.squeeze(1), w.model.norm, eps), w), **outputs}

    return decoder
