"""Numbers that forward makes of tensors' values: what it computes with them, and what it cannot do without them."""

import itertools
import math

import pytest
import torch
from torch import nn

import trtdsl as td
from trtdsl.interpreter.interpret import Interpreter


class Counting(nn.Module):
    def forward(self, x):
        count = (x > 0).sum().item()
        more = int(x.abs().max())
        return x * count / max(x.numel(), 1) + more // 2 - more % 3 + float((x > 1).any())


class Scaling(nn.Module):
    """Python's arithmetic, and its least and greatest of numbers."""

    def forward(self, x):
        mean, most = x.mean().item(), x.abs().max().item()
        x = x * math.exp(-abs(mean)) + math.sqrt(most) - min(mean, most) + max(mean, 0.5)
        return x.clamp(max=most) + mean // 1 if isinstance(mean, float) else x


class Choosing(nn.Module):
    def forward(self, x):
        if (x.sum() > 0).item():
            x = x * 2
        low, high = x.min().item(), x.max().item()
        return x - low if high - low < 1e-5 else (x - low) / (high - low)


class Placing(nn.Module):
    def forward(self, x):
        place = x.sum(0).argmax()
        return x[:, place] + x[-1, place.item()] * 2 + x[..., -1 - place, None][:, 0] + place.item()


class Filling(nn.Module):
    def forward(self, x):
        most = x.max().item()
        filled = torch.full_like(x, most) + x.new_full((x.shape[1],), most)
        filled += torch.full((x.shape[1],), int(most))
        return filled * torch.tensor([most, 2.0])[1]


@pytest.mark.parametrize("kind", [Counting, Scaling, Choosing, Placing, Filling])
def test_numbers_of_values_stay_tensors(kind):
    module = kind()
    run = Interpreter(td.from_module(module, {"x": "2,T"}, dims={"T": (2, 4, 7)}).define())
    for length, mean in itertools.product((2, 5), (-3.0, 0.0, 3.0)):
        x = torch.randn(2, length) + mean
        torch.testing.assert_close(*run({"x": x}).values(), module(x))


class Keyed(nn.Module):
    def forward(self, x):
        return x * {0: 2.0, 1: 3.0}.get(int(x.sum() > 0), 7.0)


class Named(nn.Module):
    def forward(self, x):
        return getattr(self, f"way_{int(x.sum() > 0)}", torch.relu)(x)


class Sliced(nn.Module):
    def forward(self, x):
        return x[:, : x.sum(0).argmax().item()].sum(1)


class Rounds(nn.Module):
    def forward(self, x):
        for _ in range(int(x.abs().max())):
            x = x / 2
        return x


class Padding(nn.Module):
    def forward(self, x):
        return nn.functional.pad(x, (1, 1), value=x.min().item())


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (Keyed, "becomes a key of a dict"),
        (Named, "becomes a text"),
        (Sliced, "an end of a slice"),
        (Rounds, "a number of rounds"),
        (Padding, "pad takes a number"),
    ],
)
def test_what_needs_the_number_itself_is_refused_with_the_line(kind, why):
    with pytest.raises(td.UnsupportedError, match=rf"numbers.py:\d+: .*{why}") as raised:
        td.from_module(kind(), {"x": "2,T"}, dims={"T": (2, 4, 7)})
    assert "td.cond is written" not in str(raised.value)  # it is no branch


class Logged(nn.Module):
    def forward(self, x):
        print(f"the mean is {x.mean().item()}")
        return x + 1


def test_a_number_that_is_only_printed_is_none_of_the_network():
    assert "x + 1" in td.port(Logged(), {"x": "2,3"})
