"""Modules that go several ways by values: they leave out what would do nothing, or compute something else."""

import contextlib
import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import trtdsl as td
from trtdsl.interpreter.interpret import Interpreter
from trtdsl.porting import ported

pytestmark = pytest.mark.long

DIMS = {"N": (1, 2, 3), "T": (2, 4, 6)}


class Padded(nn.Module):
    """An encoder that forgets its mask where no token is padding."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(8, 4)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))

    def forward(self, tokens):
        mask = tokens.eq(1)
        x = self.embedding(tokens) * (1 - mask.unsqueeze(-1).float())
        if not mask.any():
            mask = None
        for layer in self.layers:
            scores = layer(x) @ x.transpose(1, 2)
            if mask is not None:
                heads = scores.view(len(x), 1, *scores.shape[1:])
                heads = heads.masked_fill(mask[:, None, None], float("-inf"))
                scores = heads.view(scores.shape)
            x = x + scores.softmax(-1).nan_to_num() @ x
        return x


class Special(Padded):
    """Tokens below 0 have a table of their own."""

    def forward(self, tokens):
        tokens = tokens - 2
        special = tokens < 0
        x = self.embedding(tokens.clamp_min(0))
        if special.any():
            x = torch.where(special[..., None], self.embedding(tokens.abs()) + 1, x)
        return x


class Kept(Padded):
    """A mask of what is there, which is left out where all is."""

    def forward(self, tokens):
        there = tokens != 0
        x = self.embedding(tokens)
        if torch.all(there):
            return x + 0.5
        weight = there.to(x.dtype)[..., None]
        bias = torch.zeros_like(x).masked_fill(~there[..., None], -3.0)
        return x * weight + bias + 0.5


class TwoMasks(Padded):
    """Two shortcuts, each taken or not."""

    def forward(self, tokens):
        first, second = tokens == 1, tokens == 2
        x = self.embedding(tokens)
        if first.any():
            x[first] = 0.25
        if second.any():
            x = x.masked_fill(second[..., None], 2.0)
        return x


@pytest.mark.parametrize("kind", [Padded, Special, Kept, TwoMasks])
def test_it_is_equal_with_and_without_the_shortcut(kind):
    torch.manual_seed(0)
    module = kind().eval()
    run = Interpreter(td.from_module(module, {"tokens": "N,T:int64:0:7"}, dims=DIMS).define())
    for count, length in itertools.product((1, 3), (2, 6)):
        drawn = torch.randint(0, 8, (count, length))
        rows = [drawn, *(torch.full_like(drawn, token) for token in (0, 1, 2, 3)), drawn % 2 + 2]
        for tokens in rows:
            with torch.no_grad():
                expected = module(tokens)
            torch.testing.assert_close(*run({"tokens": tokens}).values(), expected)


class Moved(Padded):
    """What it does for padding is done to all tokens."""

    def forward(self, tokens):
        x = self.embedding(tokens)
        return x + 1 if (tokens == 1).any() else x


class OtherMask(Padded):
    """What it asks is not about the mask that it uses."""

    def forward(self, tokens):
        x = self.embedding(tokens)
        return x.masked_fill((tokens == 2)[..., None], 0.0) if (tokens == 1).any() else x


class Everywhere(Padded):
    """A mask with no element is filled as one with all."""

    def forward(self, tokens):
        x, mask = self.embedding(tokens), tokens == 1
        return x.masked_fill(~mask[..., None], 0.0) if mask.any() else x


class ByLength(Padded):
    """The shortcut does something else for long inputs."""

    def forward(self, tokens):
        x, mask = self.embedding(tokens), tokens == 1
        if mask.any():
            return x.masked_fill(mask[..., None], 0.0)
        return x if tokens.shape[1] < 6 else x * 2


@pytest.mark.parametrize("kind", [Moved, OtherMask, Everywhere])
def test_what_does_something_else_is_a_branch(kind):
    module = kind().eval()
    network = td.from_module(module, {"tokens": "N,T:int64:0:7"}, dims=DIMS).define()
    assert any(layer.call.name == "cond" for layer in network.layers.values() if layer.call)
    run = Interpreter(network)
    for tokens in (torch.zeros(2, 3, dtype=torch.int64), torch.tensor([[1, 2, 0], [2, 2, 3]])):
        with torch.no_grad():
            torch.testing.assert_close(*run({"tokens": tokens}).values(), module(tokens))


class Scaled(nn.Module):
    """Pixels of either range, moved and scaled; and a head of its own for dark ones."""

    def __init__(self):
        super().__init__()
        self.dark, self.light = nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x):
        if x.min() < 0:
            x = x - x.min()
        scale = 255.0 if x.max().item() > 1 else 1.0
        x = x / scale
        return self.dark(x) if not x.mean() > 0.3 else torch.relu(self.light(x))


def test_branches_on_values_follow_one_another():
    torch.manual_seed(0)
    module = Scaled().eval()
    run = Interpreter(td.from_module(module, {"x": "N,4"}, dims={"N": (1, 2, 4)}).define())
    for low, high in itertools.product((-300.0, -0.5, 0.0), (0.1, 0.9, 200.0)):
        x = low + (high - low) * torch.rand(4, 4)
        with torch.no_grad():
            torch.testing.assert_close(*run({"x": x}).values(), module(x))


class Equal(nn.Module):
    def forward(self, x, y):
        return x * 3 if torch.equal(x, y) else x


class Near(nn.Module):
    def forward(self, x, y):
        return x - 1 if torch.allclose(x, y, atol=0.5) else x


@pytest.mark.parametrize("kind", [Equal, Near])
def test_whole_tensors_that_are_compared_choose(kind):
    module = kind()
    run = Interpreter(td.from_module(module, {"x": "N,3", "y": "N,3"}, dims={"N": (1, 2, 3)}).define())
    for x, y in itertools.product(map(torch.tensor, ([[1.0, 2.0, 1.0]], [[1.0, 2.0, 3.0]])), repeat=2):
        for other in (y, x + 0.25):
            torch.testing.assert_close(*run({"x": x, "y": other}).values(), module(x, other))


class Asserting(nn.Module):
    def forward(self, x):
        if (x > 5).any():
            self.refuse()
        x = x * 2 if x.max() > 0 else self.refuse()
        return x + 1

    def refuse(self):
        raise ValueError("out of range")


def test_a_way_that_raises_is_taken_for_granted_not_to_be_gone():
    result = ported(Asserting(), {"x": "N,3"}, dims={"N": (1, 2, 3)})
    assert "cond" not in result.text and "x * 2" in result.text
    remarks = [note for note in result.notes if "taken for granted" in note]
    assert len(remarks) == 1, result.notes  # both raise at one line


class Lacking(nn.Module):
    """What a rare way needs is not there, as a logger that nobody imported."""

    scaled: Any = None

    def forward(self, x):
        if (x > 5).any().item():
            logging.warning("%s", x)  # noqa: F821 # pyright: ignore[reportUndefinedVariable]
        if x.sum() < -100:
            return self.fallback(x)
        if x.min() < -50:
            return x * {"a": 1}["b"]
        if x.max() > 50:
            return x * self.scaled.scale
        return x * 2 + 1


def test_a_way_on_which_a_name_is_not_there_is_taken_for_granted_not_to_be_gone():
    result = ported(Lacking(), {"x": "N,3"}, dims={"N": (1, 2, 3)}, check=True)
    assert "cond" not in result.text and result.verdict is not None and result.verdict.passed
    assert len([note for note in result.notes if "taken for granted" in note]) == 4, result.notes


class Missing(nn.Module):
    def forward(self, x):
        return x.absent if x.sum() > 0 else torch.relu(x)


def test_a_way_that_fails_otherwise_is_no_way_that_is_not_gone():
    with pytest.raises(td.UnsupportedError, match="depends on a tensor's values(.|\n)*on one of its ways"):
        td.from_module(Missing(), ["N,3"])


class Catching(nn.Module):
    """What the sub-module refuses, forward computes otherwise."""

    def __init__(self):
        super().__init__()
        self.part = Bounded()

    def forward(self, x):
        try:
            return self.part(x)
        except ValueError:
            return x * 3


class Bounded(nn.Module):
    def forward(self, x):
        if x.abs().max() > 1e6:
            raise ValueError("too large")
        return x * 2


class Suppressing(nn.Module):
    def forward(self, x):
        with contextlib.suppress(AssertionError):
            assert x.abs().max() <= 1e6
            x = x * 2
        return x


@pytest.mark.parametrize("kind", [Catching, Suppressing])
def test_an_error_that_forward_catches_is_a_way_that_it_goes(kind):
    module, x = kind(), torch.tensor([[1.0, -2.0, 3.0]])
    run = Interpreter(td.from_module(module, {"x": "1,3"}).define())
    for each in (x, x * 1e7):
        torch.testing.assert_close(*run({"x": each}).values(), module(each))


class NearOneRow(nn.Module):
    def forward(self, x, y):
        return x + 2 if torch.allclose(x, y) else x


def test_tensors_of_other_shapes_may_be_close():
    run, y = Interpreter(td.from_module(NearOneRow(), {"x": "2,3", "y": "1,3"}).define()), torch.ones(1, 3)
    for x in (torch.ones(2, 3), torch.zeros(2, 3)):
        torch.testing.assert_close(*run({"x": x, "y": y}).values(), NearOneRow()(x, y))


class SumOfMasks(nn.Module):
    def forward(self, x):
        mask = x.abs() > 1e6
        if not mask.all():
            x = x.masked_fill(((mask + mask) < 2) & mask, -7.0)
        return x


def test_a_sum_of_truths_is_a_truth():
    run, x = Interpreter(td.from_module(SumOfMasks(), {"x": "2,3"}).define()), torch.ones(2, 3)
    for each in (x, x * 1e7):
        torch.testing.assert_close(*run({"x": each}).values(), SumOfMasks()(each))


class OtherSizes(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x[:, :2]
        return x


class OtherRanks(nn.Module):
    def forward(self, x):
        return x.flatten() if x.sum() > 0 else x


@pytest.mark.parametrize(("kind", "why"), [(OtherSizes, "other sizes"), (OtherRanks, "other ranks")])
def test_sides_that_give_other_shapes_are_refused_with_the_reason(kind, why):
    match = rf"shortcuts.py:\d+: what runs here depends on .*\n  no td.cond is written: its sides give .*{why}"
    with pytest.raises(td.UnsupportedError, match=match):
        td.from_module(kind(), {"x": "N,4"}, dims={"N": (1, 2, 3)})


class Alike(nn.Module):
    def forward(self, x):
        return x * 2 if (x == x[:1]).all() else x.cumsum(0)


def test_a_side_that_no_sample_takes_is_said():
    report = td.check(td.from_module(Alike(), {"x": "3,4"}))
    assert report.passed
    assert any("all: true never occurred" in each for each in report.unproven), report.unproven


def test_sizes_that_only_the_shortcut_asks_for_are_guarded():
    with pytest.raises(
        td.UnsupportedError, match=r"test_shortcuts.py:\d+: .* another path where T = 6: .* needs T < 6"
    ):
        td.from_module(ByLength(), {"tokens": "N,T:int64:0:7"}, dims=DIMS).define()
    td.from_module(ByLength(), {"tokens": "N,T:int64:0:7"}, dims={**DIMS, "T": (2, 4, 5)}).define()


class Until(nn.Module):
    """A loop that runs until the values say so, which no trace does."""

    def forward(self, x):
        while (mask := x > 0).any():
            x = x.masked_fill(mask, 0) - 1
        return x


def test_a_loop_that_runs_until_values_say_so_is_refused():
    with pytest.raises(
        td.UnsupportedError, match=r"(?s)shortcuts.py:\d+: what runs here depends on a .*td.while_loop, or"
    ):
        td.from_module(Until(), {"x": "N,3"}, dims={"N": (1, 2, 3)})


class Counted(Padded):
    def forward(self, tokens):
        mask = tokens.eq(1)
        x = self.embedding(tokens)
        if mask.any():
            x = x.masked_fill(mask[..., None], 0)
        return x[:, :: int(tokens.max()) + 1]  # counted


def test_what_is_refused_after_a_shortcut_is_named_by_its_own_line():
    lines = Path(__file__).read_text().splitlines()
    line = next(number for number, text in enumerate(lines, start=1) if text.endswith("# counted"))
    with pytest.raises(td.UnsupportedError, match=rf"^\S*shortcuts.py:{line}: a size, an end of a slice, "
                       rf".*\n  \S*shortcuts.py:{line - 2} asks for values, too"):  # fmt: skip
        td.from_module(Counted(), {"tokens": "N,T:int64:0:4"}, dims=DIMS)


class TwiceAWindow(nn.Module):
    """A constant that is made once more, before one branch and after another."""

    def backward(self, s):
        if s.isnan().any():
            SAID.append("NaN")
        window = torch.hann_window(16)
        x = torch.istft(s, 16, 4, window=window)
        if x.isnan().any():
            x = torch.where(x.isnan(), torch.zeros_like(x), x)
        return x

    def forward(self, x):
        window = torch.hann_window(16)
        return self.backward(torch.stft(x, 16, 4, window=window, return_complex=True))


SAID = []


def test_constants_that_are_equal_are_one_whatever_their_names():
    spec = td.from_module(TwiceAWindow(), ["N,64:float32:-1:1"], dims={"N": (1, 2, 3)})
    td.check(spec).raise_for_mismatch()
