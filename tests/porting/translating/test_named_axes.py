"""Operations by named axes, of a library that writes the sizes into the code that it runs."""

import sys
from types import ModuleType

import pytest
import torch
from torch import nn

import trtdsl as td
from trtdsl.porting.translating.named_axes import operations_of


def generated(pattern, *tensors, **options):
    """A subtraction of two vectors, or what is at places of an axis, by code that has the sizes in it as text."""
    assert pattern in ("j, i -> i j", "[c] d, b n -> b n d")
    a, b = tensors
    text = (
        f"a.reshape(1, {len(a)}) - b.reshape({len(b)}, 1)"
        if a.dim() == 1
        else f"a[b].reshape({tuple(b.shape)} + (-1,))"
    )
    return eval(text)


LIBRARY = ModuleType("einx")
vars(LIBRARY).update(dict.fromkeys(("subtract", "get_at", "where", "add"), generated))
NAMED = operations_of(LIBRARY)
R = torch.arange
A, B, C, W = R(2.0), R(3.0) * 10, R(6.0).reshape(2, 3), R(12.0).reshape(2, 3, 2)


@pytest.mark.parametrize(
    ("name", "pattern", "given", "expected"),
    [
        ("subtract", "j, i -> i j", (A, B), A[None] - B[:, None]),
        ("subtract", "j, i -> 1 i j", (A, B), (A[None] - B[:, None])[None]),
        ("subtract", "... j, ... i -> ... i j", (C, C), C[:, None] - C[:, :, None]),
        ("add", "b, a b", (B, C), C + B),
        ("add", "b n, s n -> (b s) n", (C, C * 2), (C[:, None] + 2 * C[None]).reshape(4, 3)),
        ("where", "a, a b, -> a b", (A > 0, C, 0.5), torch.where(A[:, None] > 0, C, 0.5)),
        ("get_at", "[c] d, b n -> b n d", (C, torch.tensor([[1, 0, 1]])), C[[1, 0, 1]][None]),
        ("get_at", "d [c], b -> d b", (C, torch.tensor([2, 0])), C[:, [2, 0]]),
        ("get_at", "b [c], b -> b", (C, torch.tensor([2, 0])), torch.tensor([2.0, 3.0])),
        (
            "get_at",
            "b [c] d, n b -> n d b",
            (W, torch.tensor([[2, 0], [1, 1]])),
            torch.tensor([[[4.0, 6], [5, 7]], [[2, 8], [3, 9]]]),
        ),
    ],
)
def test_the_meaning_of_a_pattern(name, pattern, given, expected):
    torch.testing.assert_close(NAMED[name](pattern, *given), expected)


@pytest.mark.parametrize("pattern", ["(a b), b a -> a b", "b a, a b", "j, [i] -> j"])
def test_what_is_not_known_is_the_librarys_own(pattern):
    with pytest.raises(AssertionError):
        NAMED["subtract"](pattern, *((C.T, C) if "a b" in pattern else (A, B)))


class Distances(nn.Module):
    def forward(self, codes, x):
        place = torch.arange(x.shape[1])
        near = 1.0 / (1 + LIBRARY.subtract("j, i -> i j", place, place).abs())
        return near @ x + LIBRARY.get_at("[c] d, b n -> b n d", codes, x.argmax(-1))


def test_a_module_is_ported_with_dynamic_sizes(monkeypatch):
    monkeypatch.setitem(sys.modules, "einx", LIBRARY)
    inputs = {"codes": "5,4", "x": "N,T,4"}
    td.check(td.from_module(Distances().eval(), inputs, dims={"N": (1, 2, 3), "T": (2, 5, 9)})).raise_for_mismatch()
