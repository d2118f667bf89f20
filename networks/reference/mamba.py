"""Mamba in plain torch: Gu, Dao, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces", 2023.

The state_dict has the names of Hugging Face's MambaForCausalLM. The scan is the paper's recurrence, one step at a time.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class Configuration:
    vocabulary: int
    hidden: int
    layers: int
    inner: int
    state: int
    rank: int  # of the projection that makes the step sizes
    kernel: int = 4
    tied: bool = True  # the head is the embedding's transpose


SMALL = Configuration(vocabulary=96, hidden=64, layers=2, inner=128, state=16, rank=4)
MAMBA_130M = Configuration(vocabulary=50280, hidden=768, layers=24, inner=1536, state=16, rank=48)


class RMSNorm(nn.Module):
    def __init__(self, size, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)


class Mixer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        inner, state, rank = config.inner, config.state, config.rank
        self.in_proj = nn.Linear(config.hidden, 2 * inner, bias=False)
        self.conv1d = nn.Conv1d(inner, inner, config.kernel, groups=inner, padding=config.kernel - 1)
        self.x_proj = nn.Linear(inner, rank + 2 * state, bias=False)
        self.dt_proj = nn.Linear(rank, inner)
        self.out_proj = nn.Linear(inner, config.hidden, bias=False)
        self.A_log = nn.Parameter(torch.log(torch.arange(1.0, state + 1)).repeat(inner, 1))
        self.D = nn.Parameter(torch.ones(inner))

    def forward(self, x):
        length = x.shape[1]
        u, gate = self.in_proj(x).transpose(1, 2).chunk(2, dim=1)
        u = F.silu(self.conv1d(u)[..., :length])
        config = self.config
        step, b, c = self.x_proj(u.transpose(1, 2)).split([config.rank, config.state, config.state], dim=-1)
        step = F.softplus(self.dt_proj(step)).transpose(1, 2)
        y = self.scan(u, step, b, c) + u * self.D[:, None]
        return self.out_proj((y * F.silu(gate)).transpose(1, 2))

    def scan(self, u, step, b, c):
        """``u`` and ``step`` (batch, inner, length), ``b`` and ``c`` (batch, length, state)."""
        a = -torch.exp(self.A_log)
        h = u.new_zeros(u.shape[0], *a.shape)
        outputs = []
        for t in range(u.shape[2]):
            size = step[:, :, t, None]
            h = torch.exp(size * a) * h + size * b[:, None, t] * u[:, :, t, None]
            outputs.append((h * c[:, None, t]).sum(-1))
        return torch.stack(outputs, dim=2)


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm = RMSNorm(config.hidden)
        self.mixer = Mixer(config)

    def forward(self, x):
        return x + self.mixer(self.norm(x))


class Backbone(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embeddings = nn.Embedding(config.vocabulary, config.hidden)
        self.layers = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm_f = RMSNorm(config.hidden)

    def forward(self, ids):
        x = self.embeddings(ids)
        for layer in self.layers:
            x = layer(x)
        return self.norm_f(x)


class Model(nn.Module):
    def __init__(self, config=SMALL):
        super().__init__()
        self.backbone = Backbone(config)
        self.lm_head = None if config.tied else nn.Linear(config.hidden, config.vocabulary, bias=False)

    def forward(self, ids):
        x = self.backbone(ids)
        return F.linear(x, self.backbone.embeddings.weight) if self.lm_head is None else self.lm_head(x)

    @staticmethod
    def configuration(shapes):
        """The configuration that the shapes of a state_dict tell."""
        mixer = "backbone.layers.0.mixer"
        vocabulary, hidden = shapes["backbone.embeddings.weight"]
        inner, rank = shapes[f"{mixer}.dt_proj.weight"]
        return Configuration(
            vocabulary=vocabulary,
            hidden=hidden,
            layers=1 + max(int(name.split(".")[2]) for name in shapes if name.startswith("backbone.layers.")),
            inner=inner,
            state=shapes[f"{mixer}.A_log"][1],
            rank=rank,
            kernel=shapes[f"{mixer}.conv1d.weight"][2],
            tied="lm_head.weight" not in shapes,
        )


class Mamba130M(Model):
    def __init__(self):
        super().__init__(MAMBA_130M)
