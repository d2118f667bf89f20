"""Modules that set their parameters in their first run, and others that are called otherwise than is usual."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import trtdsl as td
from trtdsl.porting import ported


class SetByData(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(8))
        self.register_buffer("known", torch.tensor(0, dtype=torch.uint8))

    def forward(self, x):
        if self.known.item() == 0:
            self.scale.data.copy_(1 / (x.std(0) + 1e-6))
            self.known.fill_(1)
        return x * self.scale


class MadeByData(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = None

    def forward(self, x):
        if self.linear is None:
            self.linear = nn.Linear(x.shape[1], 4)
        return self.linear(x)


class Clamped(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.randn(8))

    def forward(self, x):
        self.weight.data.clamp_(min=0)
        return x * self.weight


class Permuted(nn.Module):
    """Draws once, and keeps what it drew."""

    def __init__(self):
        super().__init__()
        self.order = None

    def forward(self, x):
        if self.order is None:
            self.order = torch.randperm(x.shape[-1])
        return x[:, self.order]


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))

    def forward(self, x):
        self.weight.data.add_(1)
        return x * self.weight


class Follows(Counts):
    def forward(self, x):
        self.weight.data.copy_(x.mean(0))
        return x * self.weight


@pytest.mark.parametrize("kind", [SetByData, MadeByData, Clamped])
def test_a_module_that_sets_its_parameters_once_is_run_before(kind):
    module = kind()
    before = {name: held.clone() for name, held in module.state_dict().items()}
    found = ported(module, ["N,8"], dims={"N": (2, 4, 8)}, check=True)
    assert found.verdict.passed, found.verdict.text
    assert any("sets parameters in its first run" in note for note in found.notes)
    after = module.state_dict()
    assert before.keys() == after.keys() and all(torch.equal(held, after[name]) for name, held in before.items())
    td.check(td.from_module(kind(), ["4,8"])).raise_for_mismatch()


def test_what_is_drawn_in_the_first_run_and_kept_is_part_of_the_module():
    found = ported(Permuted(), ["N,8"], dims={"N": (2, 4, 8)}, check=True)
    assert found.verdict.passed, found.verdict.text
    assert any("in its first run" in note for note in found.notes)


@pytest.mark.parametrize("kind", [Counts, Follows])
def test_one_that_sets_them_in_every_run_is_refused(kind):
    with pytest.raises(td.UnsupportedError, match="forward changes the parameter weight in place"):
        td.from_module(kind(), ["4,8"])


class Guessed(nn.Module):
    def forward(self, x):
        return F.softmax(x), nn.LogSoftmax()(x[:, None]), F.softmin(x)


class OwnForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.forward = functools.partial(self.scaled, scale=2.0)

    def scaled(self, x, scale=1.0):
        return x * scale


class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_forward_pre_hook(lambda module, given: (given[0] + 1,))

    def forward(self, x):
        return x * 2


class Windowed(nn.Module):
    def forward(self, x):
        return (torch.fft.rfft(x * torch.hann_window(8, periodic=False)).abs() ** 2 + 1e-10).log10()


@pytest.mark.filterwarnings("ignore:Implicit dimension")
@pytest.mark.parametrize("kind", [Guessed, OwnForward, Hooked, Windowed])
def test_what_differs_from_the_usual_is_ported(kind):
    td.check(td.from_module(kind(), ["N,8"])).raise_for_mismatch()
