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
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import torch
from msgspec.structs import replace
from published import llama as published

import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L
from trtdsl.definition.weights.source import weights_of

GROUP = 128  # numbers of a row of weights that share a scale
LEVELS = {4: 7, 8: 119}
"""By bits the greatest rounded weight. One of 8 bits is 16 times a half of 4 bits and another half, from -8 to 7: the
builder would widen weights of int8 while it builds."""


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
    config = given = published.read_config(folder)
    layers, width, eps = config.num_hidden_layers, config.width, config.rms_norm_eps
    heads, groups = config.num_attention_heads, config.groups
    if batch < 1:
        raise td.UsageError(f"batch is 1 or more sequences, not {batch}")
    if ranks < 1 or groups % ranks or heads % ranks:
        raise td.UsageError(f"{ranks} ranks do not share out {heads} heads and {groups} of keys and values")
    if config.vocab_size % ranks:
        raise td.UsageError(f"{ranks} ranks do not share out {config.vocab_size} words")
    heads, groups = heads // ranks, groups // ranks
    reference, activation = importlib.import_module("reference.llama"), published.ACTIVATIONS[config.hidden_act]
    if not 1 < prompt <= capacity:
        raise td.UsageError(f"prompt is 2 or more tokens, and no more than the capacity of {capacity}, not {prompt}")

    # A batch of one alone would be laid out otherwise in decode than in prefill, and each store weights of its own.
    N, S = td.Dim("N", min=1, opt=1, max=max(batch, 2)), td.Dim("S", min=1, opt=prompt, max=prompt)
    weights = published.open_weights(folder, config)
    dtype = weights.dtypes[published.EMBEDDING]
    config = replace(config, tie_word_embeddings=published.is_tied(config, weights))
    published.check_weights(weights, config, dtype)
    published.rotary(config)  # refused before transformers says it otherwise
    views, scale, part = published.windows(config), width**-0.5, Part(rank, ranks, bits, published.biased(config))
    if bits in LEVELS and not any(part.rounds(size[-1]) for _, size in published.shapes_of(config)):
        raise td.UsageError(f"{bits} bits: no weight has rows of 2 or more groups of {GROUP} numbers")
    cache = td.State((N, groups, capacity, width), dtype, sharded=1)
    # Where the norm of a layer's input follows its products, one launch sums squares for it and for the norms of
    # queries and keys. The products' weights are then multiplied by the norm's, which takes as much memory as they have
    # while this is defined: 0.5 GB at most in half precision. In float16 products of what is not normed may overflow.
    hidden, multiplied = config.hidden_size, layers * (heads + 2 * groups) * width * config.hidden_size
    norm_follows = (
        config.model_type in published.NORMED
        and hidden % width == 0
        and dtype != "float16"
        and "q_proj" not in part.biased
        and not part.rounds(hidden)
        and multiplied <= 1 << 28
    )
    mixed = list(published.MIXTURES.get(config.model_type, ()))
    gates = tuple(f".{name}.weight" for name in ("gate_proj", *mixed[1:2]))
    for name, size in weights.shapes.items():
        if name.endswith(gates) and size and size[0] % ranks:
            raise td.UsageError(f"{ranks} ranks do not share out {size[0]} features of {name}")
    computed = [name for name in weights.shapes if name.endswith(published.COMPUTED)]
    names = [f"{kind}_{layer}" for layer in range(layers) for kind in ("keys", "values")]
    tied = {published.HEAD: published.EMBEDDING} if config.tie_word_embeddings else None

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
        n, s, _ = x.shape
        w, follows = block.self_attn, norm_follows and x.network.precision != torch.float16
        normed = x if follows else norm(x, block.input_layernorm, eps)
        q, k, v = (
            (
                F.linear(x, part.of(w[name].weight, 0) * block.input_layernorm.weight)
                if follows
                else part.columns(normed, w, name)
            ).view(n, s, count, width)
            for name, count in (("q_proj", heads), ("k_proj", groups), ("v_proj", groups))
        )
        if config.model_type in published.NORMED:
            summed = [q, k, x.view(n, s, hidden // width, width)] if follows else [q, k]
            means = F.cat(summed, 2).to(torch.float32).square().mean(-1, keepdim=True)  # of all in one launch

            def mean(first: int, count: int) -> td.Tensor:  # of slices the builder would make several launches
                return L.gather(means, x.network.constant(torch.arange(first, first + count)), 2)

            of_input: td.Tensor | float = 1.0
            if follows:
                parts = [mean(heads + groups + each, 1) for each in range(hidden // width)]
                of_input = (sum(parts[1:], parts[0]) / len(parts) + eps).rsqrt()
                v = (v.to(torch.float32) * of_input).to(v.dtype)
            q, k = (
                (y.to(torch.float32) * of_input * (of_input * of_input * mean(*own) + eps).rsqrt()).to(y.dtype) * weight
                for y, own, weight in ((q, (0, heads), w.q_norm.weight), (k, (heads, groups), w.k_norm.weight))
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
            "lengths": td.Input((N,), "int32", sample=(0, 2)),  # the first of S, and the last
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
        used = weights_of(w)
        published.check_same_config(used.path, folder, given)
        published.check_weights(used, config, dtype)  # without transformers no reference says what there must be
        positions = starts.to(torch.int64).unsqueeze(1) + F.arange(tokens.shape[1])
        turns, sharpness = published.rotary(config)
        angles = torch.arange(capacity).unsqueeze(1) * turns
        kind = w.model.embed_tokens.weight.dtype
        cos, sin = (
            tokens.network.constant(table.to(kind)) for table in (angles.cos() * sharpness, angles.sin() * sharpness)
        )
        behind = positions.unsqueeze(-1) - F.arange(capacity)
        masks: dict[int | None, td.Tensor] = {}
        for view in dict.fromkeys(views):
            seen = (behind >= 0) if view is None else (behind >= 0) & (behind < view)
            masks[view] = seen.unsqueeze(1).to(kind).log()  # 0 or -inf

        def rotate(x: td.Tensor) -> td.Tensor:
            return L.rotary_embedding(x, cos, sin, positions)

        last = F.where(lengths > 0, lengths - 1, tokens.shape[1] - 1).to(torch.int32)  # of none that counts any will do
        x = part.embedding(tokens, w.model.embed_tokens.weight)
        outputs: dict[str, td.Tensor] = {}
        for layer, view in enumerate(views):
            block = w.model.layers[layer]
            of_last = last if layer == layers - 1 else None  # what follows the last caches is for them alone
            x, keys, values = attention(
                x, block, rotate, masks[view], starts, of_last, *caches[2 * layer : 2 * layer + 2]
            )
            x = x + feed_forward(x, block, layer)
            outputs |= {f"next_keys_{layer}": keys, f"next_values_{layer}": values}
        return {"logits": part.logits(norm(x.squeeze(1), w.model.norm, eps), w), **outputs}

    return decoder
