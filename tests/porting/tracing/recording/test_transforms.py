"""What runs under ``torch.vmap`` and ``torch.func`` is ported with a dimension more, as torch's rules have it."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import trtdsl as td

V = torch.vmap


class Mapped(nn.Module):
    def __init__(self, function):
        super().__init__()
        torch.manual_seed(0)
        self.function, self.linear, self.norm = function, nn.Linear(8, 8), nn.LayerNorm(8)
        self.convolution, self.weights = nn.Conv1d(3, 4, 3), nn.Parameter(torch.randn(3, 8, 5))

    def forward(self, x):
        return self.function(self, x)


def changed(row):
    copy = row.clone()
    copy[0] = row[1] * 2
    copy[:, 1:] += 1
    return copy


def summed(row):
    carry, found = torch.zeros(8), []
    for step in row.unbind(0):
        carry = carry * 0.5 + step
        found.append(carry)
    return torch.stack(found)


DYNAMIC = {
    "elementwise": lambda m, x: V(lambda a, b: a.relu() * a.sum() + b.exp())(x, x * 0.1),
    "in_dims": lambda m, x: V(lambda r: r * r.sum(-1, keepdim=True), in_dims=1)(x),
    "out_dims": lambda m, x: V(lambda r: r.cumsum(0), in_dims=2, out_dims=-1)(x),
    "one without": lambda m, x: V(lambda a, b: a * b, in_dims=(0, None))(x, x[0]),
    "a product": lambda m, x: V(lambda r: r @ r.mT)(x),
    "modules": lambda m, x: V(lambda r: m.norm(m.linear(r)))(x),
    "a convolution": lambda m, x: V(lambda r: m.convolution(r))(x),
    "nested": lambda m, x: V(lambda r: V(lambda c: c - c.mean(), in_dims=1, out_dims=1)(r))(x),
    "outer": lambda m, x: V(lambda a: V(lambda b: (a * b).sum())(x[:, 0]))(x[:, 1]),
    "sizes": lambda m, x: V(lambda r: r.reshape(r.shape[0], 2, -1).sum(1) + torch.arange(4.0))(x),
    "expanded": lambda m, x: V(lambda r: r[:1].expand(3, 8) * r + r.new_ones(r.shape))(x),
    "indices": lambda m, x: V(lambda r: torch.take_along_dim(r, r.argsort(-1), -1)[torch.tensor([2, 0])])(x),
    "parts": lambda m, x: V(lambda r: torch.cat([r.chunk(2, -1)[0], F.pad(r, (1, 2))], -1))(x),
    "attention": lambda m, x: V(lambda r: F.scaled_dot_product_attention(r[None], r[None], r[None])[0])(x),
    "writes": lambda m, x: V(changed)(x),
    "a loop": lambda m, x: V(summed)(x),
    "what is the same": lambda m, x: V(lambda r: (r.sum(0), m.weights[0] * 2))(x),
}
FIXED = {
    "weights": lambda m, x: V(lambda a, w: a @ w, in_dims=(1, 0))(x, m.weights),
    "an einsum": lambda m, x: V(lambda r: torch.einsum("ij,jk->ki", r, m.weights[0]))(x),
    "an ensemble": lambda m, x: V(lambda p: torch.func.functional_call(m.linear, p, (x,)))(
        {"weight": torch.stack([m.linear.weight, m.linear.weight * 2]), "bias": torch.ones(2, 8)}
    ),
    "in chunks": lambda m, x: V(lambda r: r.sum(0), chunk_size=2)(x),
    "a gradient": lambda m, x: torch.func.grad(lambda z: (z**3).sum())(x),
    "jvp": lambda m, x: torch.func.jvp(torch.sin, (x,), (x,))[1],
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_a_mapped_dimension_may_be_dynamic(name):
    td.check(td.from_module(Mapped(DYNAMIC[name]), ["N,3,8"], dims={"N": (1, 5, 7)})).raise_for_mismatch()


@pytest.mark.parametrize("name", FIXED)
def test_what_a_transform_computes_is_ported(name):
    td.check(td.from_module(Mapped(FIXED[name]), ["5,3,8"])).raise_for_mismatch()


@pytest.mark.parametrize(
    "function",
    [
        lambda m, x: V(lambda r: r * r.sum().item())(x),
        lambda m, x: V(lambda r: r + torch.rand(8), randomness="different")(x),
        lambda m, x: V(lambda r: r + torch.rand_like(r), randomness="different")(x),
    ],
)
def test_what_depends_on_values_or_chance_is_refused(function):
    with pytest.raises(td.UnsupportedError, match=r"test_transforms.py:\d+: .*(no trace|random)"):
        td.from_module(Mapped(function), ["5,3,8"])
