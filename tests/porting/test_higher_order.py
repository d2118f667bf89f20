"""Operators of higher order: torch.cond, while_loop, scan, map, flex_attention, and what torch.compile has compiled."""

from __future__ import annotations

import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as mapped
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import trtdsl as td

pytestmark = pytest.mark.long

N, T = (1, 2, 3), (8, 16, 24)


class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.slope = torch.nn.Parameter(torch.rand(2))
        self.linear = torch.nn.Linear(8, 8)


class OfValuesAndSizes(Module):
    def forward(self, x):
        chosen = torch.cond(x.sum() > 0, self.linear, lambda z: z - 1, (x,))
        return chosen, torch.cond(x.shape[0] > 1, lambda z: z * 2, lambda z: z * 3, (x,))


class Counting(Module):
    def forward(self, x):
        return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2 - 1), (torch.tensor(0), x))


class Scanning(Module):
    def forward(self, x):
        last, each = scan(lambda c, v: (c * 0.5 + v, c + v), x[:, 0] * 0, x, dim=1)
        summed = associative_scan(lambda p, q: p + q, x, dim=1, combine_mode="generic")
        return last, each, summed, mapped(lambda v, w: v * w, x, x[0])


class Scored(Module):
    def forward(self, x):
        q = x.unflatten(-1, (2, 4)).transpose(1, 2)

        def scored(score, batch, head, i, j):
            return torch.where(i >= j, score + self.slope[head] * (j - i), -float("inf"))

        return flex_attention(q, q * 2, q - 1, score_mod=scored)


class Masked(Module):
    def forward(self, x):
        q = x.unflatten(-1, (2, 4)).transpose(1, 2)
        window = create_block_mask(lambda b, h, i, j: (i > j) & (i - j < 4), None, None, x.size(1), x.size(1), "cpu")
        return flex_attention(q, q[:, :1], q[:, :1] * 2, None, window, 0.3, enable_gqa=True, return_lse=True)


class Compiled(Module):
    def forward(self, x):
        return torch.compile(self.linear)(x) * x.shape[1]


SEQUENCE = {"N": N, "T": T}


@pytest.mark.parametrize(
    ("kind", "shape", "dims"),
    [
        (OfValuesAndSizes, "N,8", {"N": N}),
        (Counting, "N,8", {"N": N}),
        (Scanning, "2,16,8", {}),
        (Scored, "N,T,8", SEQUENCE),
        (Masked, "N,T,8", SEQUENCE),  # whose first row sees nothing, and is 0
        (Compiled, "N,T,8", SEQUENCE),
    ],
)
def test_operators_of_higher_order_are_what_they_run(kind, shape, dims):
    torch.manual_seed(0)
    found = td.porting.ported(kind().eval(), {"x": shape}, dims=dims, check=True)
    assert found.verdict.passed and not found.missing


def test_a_softmax_of_masked_rows_is_0():
    class Safe(torch.nn.Module):
        def forward(self, x):
            return torch.ops.aten._safe_softmax(x.masked_fill(x < 0, -torch.inf), -1)

    found = td.porting.ported(Safe(), {"x": "2,1"}, check=True)
    assert found.verdict.passed and "masked_fill" in found.text.split("softmax")[1]
