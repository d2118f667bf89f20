"""Modules that choose by values several times, inside of one another and beside sizes: torch's values on every way."""

import itertools

import pytest
import torch
from torch import nn

import trtdsl as td
from trtdsl.interpreter.interpret import Interpreter
from trtdsl.porting import ported

pytestmark = pytest.mark.long
DIMS = {"T": (2, 4, 7)}


class Chains(nn.Module):
    """Twelve ways."""

    def forward(self, x):
        if x.max() > 1 and x.min() > -1:
            x = x - 1
        if x.mean() > 0 or x.min() < -2:
            x = x * 3
        return x + 7 if not (x.sum() > 0) else x


class Returning(nn.Module):
    def forward(self, x):
        if x.max() > 3:
            return x / x.max()
        y = x.exp()
        if y.min() < 0.5:
            return y
        return y.log1p()


class Until(nn.Module):
    """A loop that ends early."""

    def forward(self, x):
        for _ in range(3):
            x = x / 2
            if x.norm() < 1:
                break
        return x + 1


class ChoosingPart(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def forward(self, x):
        if x.max() > 3:
            raise ValueError("too large")
        return self.fc(x[:, :2])


class Trying(nn.Module):
    """What a module that raised does not do, with an end in common."""

    def __init__(self):
        super().__init__()
        self.part, self.tail = ChoosingPart(), nn.Linear(2, 3)

    def forward(self, x):
        try:
            y = self.part(x)
        except ValueError:
            y = x[:, :2] * 2
        return self.tail(y).relu() - x.mean()


def signed(x):
    return x * 2 if x.sum() > 0 else 1 - x


class Helped(nn.Module):
    """Eight ways through a function that is called three times."""

    def forward(self, x):
        return signed(signed(x - 0.5) - 2) + signed(-x)


class Writing(nn.Module):
    def forward(self, x):
        y = torch.zeros_like(x)
        row = y[:, 0]
        if x.sum() > 0:
            y[:, 1:] += x[:, 1:]
            row += 5
        else:
            y.add_(1)
        return y * 2 + row[:, None]


class Filled(nn.Module):
    """Elements that a mask chooses, where it chooses any."""

    def forward(self, x):
        mask = x > 1
        return x - x[mask].mean() if mask.any() else x


class ThenSize(nn.Module):
    def forward(self, x):
        if x.mean() > 0:
            x = x * 2
        return x.cumsum(1) if x.shape[1] > 5 else x + 1


class AroundSize(nn.Module):
    def forward(self, x):
        if x.mean() > 0:
            x = x.cumsum(1) if x.shape[1] > 5 else x - 3
        return x + 1


class WithinSize(nn.Module):
    def forward(self, x):
        if x.shape[1] > 5:
            x = x.cumsum(1) if x.mean() > 0 else x - 3
        return x + 1


class Remembering(nn.Module):
    """A truth that is asked for twice is the same both times: otherwise there is no second part."""

    def forward(self, x):
        large, parts = x.sum() > 0, [x]
        if large:
            parts.append(x * 2)
        y = x.cumsum(1)
        return y + parts[1] if large else y


KINDS = [Chains, Returning, Until, Trying, Helped, Writing, Filled, ThenSize, AroundSize, WithinSize, Remembering]


@pytest.mark.parametrize("kind", KINDS)
def test_each_way_gives_what_torch_does(kind):
    torch.manual_seed(0)
    module = kind().eval()
    network = td.from_module(module, {"x": "2,T"}, dims=DIMS).define()
    run = Interpreter(network)
    for length, mean in itertools.product((2, 5, 6, 7), (-3.0, -0.5, 0.0, 0.3, 3.0, 50.0)):
        x = torch.randn(2, length) + mean
        with torch.no_grad():
            torch.testing.assert_close(*run({"x": x}).values(), module(x.clone()))


def test_both_sides_are_computed_where_tensorrt_builds_no_branch_inside_of_another():
    spec = td.from_module(Returning(), {"x": "2,T"}, dims=DIMS)
    calls = [layer.call.name for layer in spec.define().layers.values() if layer.call]
    assert "cond" in calls and "where" in calls, calls  # the outer branch stays


class Greatest(nn.Module):
    def forward(self, x):
        return x * 2 if x.max() > 1 else x - 1


class Summed(nn.Module):
    def forward(self, x):
        return x * 2 if x.amax(1).sum() > 1 else x - 1


@pytest.mark.parametrize(("kind", "said"), [(Greatest, True), (Summed, False)])
def test_a_greatest_value_that_chooses_is_said_to_skip_nan(kind, said):
    notes = ported(kind(), {"x": "2,3"}).notes
    assert any("beside NaN" in note and "test_choices.py" in note for note in notes) is said, notes


class Alike(nn.Module):
    """Asks again and again whether two tensors are equal, as torch's own attention did before 1.9 (ABINet)."""

    def forward(self, x, y):
        for number in range(8):
            x = torch.tanh(x * 2 if torch.equal(x, y) else x * number + y)
        return x * 3 if x.sum() > 0 else x


def test_tensors_that_are_compared_often_are_taken_for_different_ones_and_that_is_said():
    result = ported(Alike(), {"x": "2,T", "y": "2,T"}, dims=DIMS, check=True)
    assert result.verdict.passed and "cond" in result.text, result.text
    said = [note for note in result.notes if "are equal, element by element" in note]
    assert len(said) == 1 and "test_choices.py" in said[0], result.notes
