"""Llama, Qwen2, Qwen3 and Mistral of Hugging Face with a cache of slots, whose sequences begin where they like."""

from functools import partial
from pathlib import Path

import torch
from torch import nn


def narrow(module, group, x):
    """A linear layer whose weight has 4 bits: numbers from -8 to 7, and a scale for each group of them."""
    groups = module.weight.float().reshape(-1, group)
    scale = groups.abs().amax(1, keepdim=True) / 7
    scale = torch.where(scale == 0, 1.0, scale)
    weight = ((groups / scale).round().clamp(-8, 7) * scale).reshape(module.weight.shape).to(x.dtype)
    return nn.functional.linear(x, weight, module.bias)


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
    def __init__(self, folder: Path, views, dtype: str, group: int = 0):
        super().__init__()
        from transformers import AutoConfig, AutoModelForCausalLM

        config = AutoConfig.from_pretrained(folder, dtype=dtype)  # the files', whatever the config says
        whole = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
        for module in whole.modules() if group else ():
            if isinstance(module, nn.Linear) and module.in_features % group == 0:
                module.forward = partial(narrow, module, group)
        self.model, self.lm_head, self.views = whole.model, whole.lm_head, views

    def whole(self, tokens):
        """The logits after each token of a text, as transformers has it, without a cache."""
        return self.lm_head(self.model(tokens, use_cache=False).last_hidden_state)

    def forward(self, tokens, starts, lengths, *caches):
        positions = starts.long()[:, None] + torch.arange(tokens.shape[1])
        slots = Slots(caches, positions)
        behind = positions[..., None] - torch.arange(caches[0].shape[2])
        x = self.model.embed_tokens(tokens)
        turned = self.model.rotary_emb(x, positions)
        for layer, view in zip(self.model.layers, self.views, strict=True):
            seen = (behind >= 0) if view is None else (behind >= 0) & (behind < view)
            mask = torch.zeros(seen.shape, dtype=x.dtype).masked_fill(~seen, -torch.inf)[:, None]
            x = layer(x, attention_mask=mask, position_embeddings=turned, position_ids=positions, past_key_values=slots)
        last = self.model.norm(x)[torch.arange(len(x)), lengths.long() - 1]
        named = {f"next_{kind}_{i}": slots.caches[2 * i + j] for i in range(len(self.views)) for j, kind in KINDS}
        return {"logits": self.lm_head(last), **named}


KINDS = ((0, "keys"), (1, "values"))
