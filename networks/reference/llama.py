"""Decoders of Hugging Face with a cache of slots, whose sequences begin where they like."""

from functools import partial
from pathlib import Path

import torch
from torch import nn


def narrow(module, level, group, x):
    """A linear layer whose weights are rounded: whole numbers up to a level, and a scale for each group of them."""
    groups = module.weight.float().reshape(-1, group)
    scale = groups.abs().amax(1, keepdim=True) / level
    scale = torch.where(scale == 0, 1.0, scale)
    # In float32, as the network does it: what lies near the middle of two numbers is rounded by its last digit.
    whole = torch.from_numpy((groups.detach().numpy() / scale.detach().numpy()).round())
    weight = (whole * scale).reshape(module.weight.shape).to(x.dtype)
    return nn.functional.linear(x, weight, module.bias)


class Experts(nn.Module):
    """Experts by the names and shapes that files have, each computed for the tokens that chose it."""

    def __init__(self, count: int, width: int, inner: int, names, activation):
        super().__init__()
        (self.gate, self.up, self.down), self.count, self.activation = names, count, activation
        for index in range(count):
            each = {self.gate: (width, inner), self.up: (width, inner), self.down: (inner, width)}
            self.add_module(
                str(index), nn.ModuleDict({name: nn.Linear(*sizes, bias=False) for name, sizes in each.items()})
            )

    def forward(self, x, chosen, shares):
        y = torch.zeros_like(x)
        for index in range(self.count):
            expert = self.get_submodule(str(index))
            token, place = (chosen == index).nonzero(as_tuple=True)
            own = x[token]
            found = expert[self.down](self.activation(expert[self.gate](own)) * expert[self.up](own))
            y = y.index_add(0, token, (found * shares[token, place, None]).to(y.dtype))
        return y


def as_published(layer, name: str, names) -> None:
    """Gives a layer's experts, which transformers 5 keeps in one tensor, the names that files have."""
    block = layer.mlp
    count, width, inner = block.experts.down_proj.shape
    block.experts = Experts(count, width, inner, names, block.experts.act_fn).to(block.experts.down_proj.dtype)
    if name != "mlp":
        del layer.mlp
        layer.add_module(name, block)
        vars(layer)["mlp"] = block  # which the layer calls


def window(attention):
    """How many tokens back transformers' layer looks, or None for all."""
    whole = attention.config.sliding_window if attention.config.model_type in ("mistral", "mixtral") else None
    return getattr(attention, "sliding_window", whole) or None


class Slots:
    """What a layer of transformers asks for keys and values: those of the cache and its own in their places."""

    def __init__(self, caches, positions):
        self.caches, self.positions = list(caches), positions

    def update(self, key, value, layer, *_):
        places = self.positions[:, None, :, None].expand_as(key)
        for index, new in ((2 * layer, key), (2 * layer + 1, value)):
            cache = self.caches[index]
            self.caches[index] = cache.scatter(2, places, new.to(cache.dtype))
        return self.caches[2 * layer], self.caches[2 * layer + 1]


class Model(nn.Module):
    def __init__(self, folder: Path, dtype: str, tied: bool, mixture=(), rounded=(None, 1), rounds=None):
        super().__init__()
        from transformers import AutoConfig, AutoModelForCausalLM

        # Of the files, whatever the config says.
        config = AutoConfig.from_pretrained(folder, dtype=dtype, tie_word_embeddings=tied)
        whole = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
        for layer in whole.model.layers:
            if hasattr(getattr(layer.mlp, "experts", None), "down_proj"):
                as_published(layer, mixture[0], mixture[1:])
        shared = ("o_proj", "down_proj", *mixture[-1:])  # whose rows the ranks share out
        for name, module in whole.named_modules():
            if isinstance(module, nn.Linear) and rounds and rounds(module.in_features, name.endswith(shared)):
                module.forward = partial(narrow, module, *rounded)
        self.model, self.lm_head = whole.model, whole.lm_head

    def whole(self, tokens):
        """The logits after each token of a text, as transformers has it, without a cache."""
        return self.lm_head(self.model(tokens, use_cache=False).last_hidden_state)

    def forward(self, tokens, starts, lengths, *caches):
        positions = starts.long()[:, None] + torch.arange(tokens.shape[1])
        slots = Slots(caches, positions)
        behind = positions[..., None] - torch.arange(caches[0].shape[2])
        x = self.model.embed_tokens(tokens)
        turned = self.model.rotary_emb(x, positions)
        for layer in self.model.layers:
            view = window(layer.self_attn)
            seen = (behind >= 0) if view is None else (behind >= 0) & (behind < view)
            mask = torch.zeros(seen.shape, dtype=x.dtype).masked_fill(~seen, -torch.inf)[:, None]
            x = layer(x, attention_mask=mask, position_embeddings=turned, position_ids=positions, past_key_values=slots)
        last = self.model.norm(x)[torch.arange(len(x)), lengths.long() - 1]
        named = {
            f"next_{kind}_{i}": slots.caches[2 * i + j] for i in range(len(self.model.layers)) for j, kind in KINDS
        }
        return {"logits": self.lm_head(last), **named}


KINDS = ((0, "keys"), (1, "values"))
