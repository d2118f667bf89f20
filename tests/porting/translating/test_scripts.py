"""Modules and functions of torch.jit port by the code that torch has of them, as those do that they were made from."""

from __future__ import annotations

import enum
import io
import warnings
from typing import NamedTuple

import pytest
import torch
from torch import nn

import trtdsl as td
from trtdsl.interpreter.interpret import Interpreter
from trtdsl.porting import ported

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*torch.jit:UserWarning")


class Both(NamedTuple):
    first: torch.Tensor
    count: int


class Pair:
    """A class of the author's that is compiled, too."""

    def __init__(self, x: torch.Tensor, scale: float):
        self.x = x
        self.scale = scale

    def product(self) -> torch.Tensor:
        return self.x * self.scale


class Part(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm = nn.Conv1d(3, 4, 3, padding=1), nn.BatchNorm1d(4)
        self.register_buffer("table", torch.randn(4))
        self.factor, self.offset = 2, torch.randn(3, 1)

    def forward(self, x):
        y = self.norm(self.conv(x + self.offset)).relu()
        n, c, t = y.size()
        z = y.view(n, c * t) * self.factor + y.mean((1, 2))[:, None]
        return z.view(y.shape) + self.table[:, None]


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.lstm = nn.LSTM(4, 4, batch_first=True)
        self.sizes = [1, 2]

    def helped(self, x, n: int):
        return x / n if n > 1 else x

    def joined(self, given: torch.Tensor | list[torch.Tensor]):
        return given if isinstance(given, torch.Tensor) else torch.cat(given, -1)

    def forward(self, x, mask: torch.Tensor | None = None):
        assert x.dim() == 3, f"{x.dim()} dimensions"
        kept: list[torch.Tensor] = []
        named = {"x": x}
        for layer in self.layers:
            x = layer(x)
            kept.append(x)
        if mask is not None:
            x = x * mask
        x = self.joined([self.joined(x)[..., 2:], x[..., :2]])
        if x.size(-1) > 9:
            raise ValueError("too long")
        both = Both(self.helped(x, x.shape[1]), len(kept))
        y, (h, _) = self.lstm(both.first)
        y = y[:, self.sizes[0] :, ..., None].squeeze(-1) + torch.zeros(1, dtype=torch.int32) + h.sum()
        y = y + nn.functional.interpolate(y, scale_factor=2.0)[..., 1:5] * both.count
        return torch.softmax(torch.stack(kept).mean(0), -1) + named["x"], Pair(y, 0.5).product()


class Bounded(nn.Module):
    """It takes another way for long inputs, and another for great values."""

    def forward(self, x):
        y = x * 2 if x.shape[1] > 5 else x - 1
        if bool(y.sum() > 0):
            return y.relu()
        return y.exp()


class Scan(nn.Module):
    def forward(self, x):
        state = torch.zeros_like(x[:, 0])
        found: list[torch.Tensor] = []
        for step in range(x.shape[1]):
            state = state * 0.5 + x[:, step]
            found.append(state)
        return torch.stack(found, 1)


class Whole(nn.Module):
    def __init__(self, part):
        super().__init__()
        self.linear, self.part = nn.Linear(3, 3), part

    def forward(self, x):
        return self.part(self.linear(x.mT).mT)


def loaded(part):
    return torch.jit.load(io.BytesIO(torch.jit.script(part).save_to_buffer()))


FORMS = {
    "scripted": torch.jit.script,
    "loaded": loaded,
    "traced": lambda part: torch.jit.trace(part, torch.randn(2, 3, 5)),
    "frozen": lambda part: torch.jit.freeze(torch.jit.script(part)),
}
DIMS = {"N": (1, 2, 4), "T": (3, 5, 9)}


@pytest.mark.parametrize("form", FORMS)
def test_a_part_in_every_form_has_dynamic_sizes(form):
    whole = Whole(FORMS[form](Part().eval())).eval()
    for module in (whole, whole.part):
        td.check(td.from_module(module, ["N,3,T"], dims=DIMS)).raise_for_mismatch()


def test_weights_keep_their_names():
    found = ported(Whole(loaded(Part().eval())).eval(), {"x": "N,3,T"}, dims=DIMS, check=True)
    assert found.verdict is not None and found.verdict.passed
    assert {"part.conv.weight", "part.table", "linear.bias"} <= found.weights.keys()
    assert "def part(" in found.text and ".conv.weight" in found.text and found.name == "whole"
    assert ported(torch.jit.script(Part().eval()), {"x": "N,3,T"}, dims=DIMS).name == "part"


def test_what_code_may_say_is_ported():
    module = torch.jit.script(Flow().eval())
    td.check(td.from_module(module, {"x": "N,T,4"}, dims={"N": (1, 2, 3), "T": (2, 5, 7)})).raise_for_mismatch()
    td.check(td.from_module(module, {"x": "2,5,4", "mask": "2,5,1"})).raise_for_mismatch()


def test_layers_that_torch_computes_by_one_operator_are_ported():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    module = torch.jit.script(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval())
    td.check(td.from_module(module, {"src": "N,T,8"}, dims=DIMS)).raise_for_mismatch()


def test_branches_by_sizes_and_by_values_are_branches():
    module = torch.jit.script(Bounded())
    run = Interpreter(td.from_module(module, {"x": "N,T"}, dims=DIMS).define())
    for steps in (3, 5, 6, 9):
        for sign in (-1, 1):
            x = torch.rand(2, steps) * sign
            torch.testing.assert_close(*run({"x": x}).values(), module(x))


def test_a_loop_over_a_size_is_a_loop():
    found = ported(torch.jit.script(Scan()), {"x": "N,T,3"}, dims=DIMS, check=True)
    assert found.verdict is not None and found.verdict.passed and "td.scan" in found.text


class Lists(nn.Module):
    """Sizes in lists, of which parts are taken, which are joined, and divided."""

    def forward(self, x):
        n, c, h, w = x.size()
        z = nn.functional.interpolate(x, size=[h // 2 + 1, (w - 1) // 2])
        z = nn.functional.interpolate(z, size=x.shape[2:], mode="bilinear", align_corners=False)
        z = z.reshape(x.shape[:2] + [h * w]) + x.numel() // n
        return z.view([n, c] + x.shape[-2:])


def test_sizes_in_lists_stay_dynamic():
    dims = {"N": (1, 2, 3), "H": (4, 6, 9), "W": (5, 7, 8)}
    td.check(td.from_module(torch.jit.script(Lists()), {"x": "N,2,H,W"}, dims=dims)).raise_for_mismatch()


class Kind(enum.Enum):
    A = "a"
    B = "b"


class Chosen(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind

    def forward(self, x, other: Kind = Kind.A):
        if self.kind == Kind.A:
            x = x * 2
        if other != Kind.B:
            x = x + 1
        if other != self.kind:
            x = x * 3
        return x - 5 if self.kind.value == "b" else x


@pytest.mark.parametrize("kind", Kind)
def test_enumerations_are_those_of_the_author(kind):
    module = torch.jit.script(Chosen(kind))
    td.check(td.from_module(module, {"x": "N,3"})).raise_for_mismatch()


def one_way(x):
    return x.view(x.shape[0], -1) * 2 if x.sum() > 0 else x.flatten(1)


def test_a_traced_function_goes_the_way_that_was_traced():
    """Its source would go the other one, too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(one_way, torch.ones(2, 3, 4))

    class Calls(nn.Module):
        def __init__(self):
            super().__init__()
            self.function = traced

        def forward(self, x):
            return self.function(x) + 1

    run = Interpreter(td.from_module(Calls(), {"x": "N,3,T"}, dims=DIMS).define())
    for sign in (-1, 1):
        x = torch.rand(2, 3, 7) * sign
        torch.testing.assert_close(*run({"x": x}).values(), x.flatten(1) * 2 + 1)


class Divided(nn.Module):
    """Whole numbers of sizes, which traced code has as tensors."""

    def forward(self, x):
        steps = torch.div(torch.tensor(x.shape[1]), 2, rounding_mode="floor")
        half = x.shape[1] // 2
        return x[:, :half] * (1 - steps.float() / x.shape[1]) + x[:, half : half * 2] * x.shape[0]


def test_sizes_that_traced_code_has_as_tensors_stay_dynamic():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(Divided(), torch.randn(2, 5, 3))
    code = str(traced.code)
    assert "NumToTensor" in code or "floor" in code
    td.check(td.from_module(traced, {"x": "N,T,3"}, dims=DIMS)).raise_for_mismatch()


def test_code_with_hooks_is_refused():
    def hook(self, given: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
        return (given[0] * 2,)

    linear = nn.Linear(3, 3)
    linear.register_forward_pre_hook(hook)
    with pytest.raises(td.UnsupportedError, match=r"0 is a module of torch.jit \(Linear has hooks\): give"):
        td.from_module(nn.Sequential(torch.jit.script(linear)), ["N,3"])
