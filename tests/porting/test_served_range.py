"""A refusal of sizes says what to give instead, and that is ported. Sides with outputs of other ranks are refused."""

import re

import pytest
import torch
from torch import nn

import trtdsl as td
from trtdsl.core.caller import at_shell

pytestmark = pytest.mark.long


class Image(nn.Module):
    def forward(self, x):
        _, _, h, w = x.shape
        if h % 16:
            x = nn.functional.pad(x, (0, 0, 0, 1))
        if w < 40:
            x = x * 2
        return x[None] if w % 2 else x


class Square(nn.Module):
    def forward(self, x):
        return x if x.shape[1] == x.shape[2] else x[None]


class Ids(nn.Module):
    def forward(self, ids, mask):
        return ids * mask if ids.shape[1] > 7 else ids[None]


class Deep(nn.Module):
    """Sizes that are halved five times."""

    def forward(self, x):
        for _ in range(5):
            x = x[..., :-1] if x.shape[-1] % 2 else x
            x = nn.functional.avg_pool2d(x, 2)
        return x


class Odd(nn.Module):
    def forward(self, x):
        return x * 2 if (x.shape[0] + x.shape[1]) % 2 else torch.relu(x)[None]


CASES = [
    (Odd, {"x": "A,B"}, {"A": (4, 5, 6), "B": (3, 4, 6)}, "--input x=5,2*B --dim B=2:2:3"),
    (
        Image,
        {"x": "N,3,H,W"},
        {"H": (16, 64, 128), "W": (20, 48, 100)},
        "--input x=N,3,16*H,2*W --dim N=1:4:8 --dim H=1:4:8 --dim W=20:24:50",
    ),
    (Square, {"x": "2,H,W"}, {"H": (4, 8, 9), "W": (4, 8, 9)}, "--input x=2,8,8"),
    (
        Ids,
        {"ids": "2,T:int64:0:9", "mask": "2,T:int64:0:2"},
        {"T": (1, 16, 32)},
        "--input ids=2,T:int64:0:9 --input mask=2,T:int64:0:2 --dim T=8:16:32",
    ),
    (
        Deep,
        {"x": "1,1,H,W"},
        {"H": (64, 64, 128), "W": (32, 96, 100)},
        "--input x=1,1,H,32*W --dim H=64:64:128 --dim W=1:3:3",
    ),
]


@pytest.mark.parametrize(("module", "inputs", "dims", "wanted"), CASES)
def test_the_ranges_that_a_refusal_proposes_are_ported(module, inputs, dims, wanted):
    """All dimensions at once, as options of the command line and as arguments."""
    with pytest.raises(td.UnsupportedError) as python:
        td.from_module(module(), inputs, dims=dims)
    with at_shell(), pytest.raises(td.UnsupportedError) as shell:
        td.from_module(module(), inputs, dims=dims)
    assert str(shell.value).endswith(f"a fixed size: {wanted}")
    found = re.search(r"inputs=(\{.*\}), dims=(\{.*\})$", str(python.value))
    given, ranges = map(eval, found.groups())
    spec = td.from_module(module(), given, dims=ranges)
    assert td.check(spec).passed
