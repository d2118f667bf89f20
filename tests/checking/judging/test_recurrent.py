"""Recurrent layers in half precision, which torch's CPU does not have: right networks pass, wrong ones do not."""

import pytest
import torch
from torch import nn

import trtdsl as td
import trtdsl.functional as F

N, T = td.Dim("N", min=1, opt=2, max=5), td.Dim("T", min=1, opt=6, max=9)


class Scores(nn.Module):
    """A linear layer before and after a recurrent one, as autocast leaves them: halves meet float32 weights."""

    def __init__(self, kind):
        super().__init__()
        torch.manual_seed(0)
        self.before, self.rnn, self.after = nn.Linear(6, 16), kind(16, 16), nn.Linear(16, 4)

    def forward(self, x):
        return self.after(self.rnn(self.before(x))[0])


def checked(kind, precision, change=lambda params: params):
    function = F.lstm if kind is nn.LSTM else F.gru

    @td.network(inputs={"x": td.Input((T, N, 6))}, reference=lambda: Scores(kind))
    def scores(x, w):
        x = F.linear(x, w.before.weight, w.before.bias)
        start = F.zeros((1, x.shape[1], 16), dtype=x.dtype)
        hx = (start, start) if kind is nn.LSTM else start
        params = [w.rnn.weight_ih_l0, w.rnn.weight_hh_l0, w.rnn.bias_ih_l0, w.rnn.bias_hh_l0]
        y = function(x, hx, change(params), True, 1, 0.0, False, False, False)[0]
        return F.linear(y, w.after.weight, w.after.bias)

    weights = Scores(kind).state_dict()
    return td.check(scores, precision=precision, weights=weights)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_a_right_network_passes_and_the_report_says_how_torch_ran(kind, precision):
    report = checked(kind, precision).raise_for_mismatch()
    assert any(line.startswith(f"torch's CPU has no {kind.__name__.lower()} in half") for line in report.unproven)


WRONG = {
    "a bias is left out": lambda params: [*params[:2], params[2] * 0.0, params[3]],
    "gates are swapped": lambda params: [params[0], F.roll(params[1], 16, 0), *params[2:]],
    "a weight is off by a sixteenth": lambda params: [params[0] * 1.0625, *params[1:]],
}


@pytest.mark.parametrize("change", WRONG)
def test_a_wrong_network_does_not(change):
    assert not checked(nn.LSTM, "fp16", WRONG[change]).passed


def test_float32_is_torchs_own():
    report = checked(nn.LSTM, None).raise_for_mismatch()
    assert not any("in half" in line for line in report.unproven)
