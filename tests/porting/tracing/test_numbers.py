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
        filled = nn.functional.pad(
            nn.functional.pad(filled, (1, 0, 2, 1), "constant", x.min().item()), (0, -1), value=most
        )
        return filled * torch.tensor([most, 2.0])[1]


class Rounding(nn.Module):
    def forward(self, x):
        total = x.sum().item()
        parts, rest = divmod(round(total), 3)
        low = math.floor(total) * x, math.ceil(total) + x, math.trunc(total) - x
        return torch.stack(low) * parts + rest + divmod(7, parts * parts + 1)[1] + round(total, 1)


class Truths(nn.Module):
    """Python adds up truths as numbers, and gives fractions of whole numbers to powers below 0."""

    def forward(self, x):
        total = x.sum().item()
        return x * ((total > 0) + (total > 1)) + (2 * int(total) + 1) ** -2


class Between(nn.Module):
    def forward(self, x):
        most = x.abs().mean().item()
        x = x.clamp(-1, most) + x.clamp(min=-most, max=2) + (x > 0).long().clamp(0, most)
        return x.clamp(min=most - 0.5, max=math.inf)


class Beside(nn.Module):
    """Numbers do not promote tensors without dimensions, which are no numbers."""

    def forward(self, x):
        most, half = x.abs().max().item(), (x > 0).half().sum()
        count = (x > 0).sum(dtype=torch.int32)
        return half * most, most - half, count * int(most), count * most


@pytest.mark.parametrize("kind", [Counting, Scaling, Choosing, Placing, Filling, Rounding, Truths, Between])
def test_numbers_of_values_stay_tensors(kind):
    module = kind()
    run = Interpreter(td.from_module(module, {"x": "2,T"}, dims={"T": (2, 4, 7)}).define())
    for length, mean in itertools.product((2, 5), (-3.0, 0.0, 3.0)):
        x = torch.randn(2, length) + mean
        torch.testing.assert_close(*run({"x": x}).values(), module(x))


def test_numbers_beside_tensors_without_dimensions():
    module, x = Beside(), torch.randn(2, 5) * 3
    found = td.interpret(td.from_module(module, {"x": "2,T"}, dims={"T": (2, 4, 7)}), {"x": x}).values()
    for each, expected in zip(found, module(x), strict=True):
        torch.testing.assert_close(torch.as_tensor(each), expected, rtol=2e-3, atol=2e-3)


class Keyed(nn.Module):
    def forward(self, x):
        return x * {0: 2.0, 1: 3.0}.get(int(x.sum() > 0), 7.0)


class Named(nn.Module):
    def forward(self, x):
        return getattr(self, f"way_{int(x.sum() > 0)}", torch.relu)(x)


class Rounds(nn.Module):
    def forward(self, x):
        for _ in range(int(x.abs().max())):
            x = x / 2
        return x


class Padding(nn.Module):
    def forward(self, x):
        return nn.functional.pad(x, (1, int(x.abs().max())))


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (Keyed, "becomes a key of a dict"),
        (Named, "becomes a text"),
        (Rounds, "a number of rounds"),
    ],
)
def test_what_needs_the_number_itself_is_refused_with_the_line(kind, why):
    with pytest.raises(td.UnsupportedError, match=rf"numbers.py:\d+: .*{why}") as raised:
        td.from_module(kind(), {"x": "2,T"}, dims={"T": (2, 4, 7)})
    assert "td.cond is written" not in str(raised.value)  # it is no branch


def test_a_pad_is_as_wide_as_a_value_says():
    spec = td.from_module(Padding(), {"x": "2,T"}, dims={"T": (2, 4, 7)})
    x = torch.tensor([[3.5, -1.0, 0.0], [0.5, 2.0, 1.0]])
    (found,) = td.interpret(spec, {"x": x}).values()
    assert torch.equal(torch.as_tensor(found), nn.functional.pad(x, (1, 3))) and td.check(spec).passed


class Logged(nn.Module):
    def forward(self, x):
        print(f"the mean is {x.mean().item()}")
        return x + 1


def test_a_number_that_is_only_printed_is_none_of_the_network():
    assert "x + 1" in td.port(Logged(), {"x": "2,3"})


SAID = set()


def warn_once(text):
    SAID.add(text)


class ToldOnce(nn.Module):
    """Tells of a number that is too great, by a function of its own."""

    def forward(self, x):
        places = ((x != 0).cumsum(1) - 1).clamp_(min=0)
        if places.max().item() > 60:
            warn_once(f"a sequence of {places.max().item()}, and not of 60")
        return places * x


def test_a_text_that_is_told_decides_nothing():
    spec = td.from_module(ToldOnce(), ["N,T:int64:0:60"], dims={"N": (1, 2, 3), "T": (3, 4, 9)})
    td.check(spec).raise_for_mismatch()
