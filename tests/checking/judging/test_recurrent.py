"""Layers in half precision that torch's CPU does not have, or only slowly: right networks pass, wrong ones do not."""

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import trtdsl as td
import trtdsl.functional as F
from trtdsl.checking.judging.isolate import Reference
from trtdsl.checking.judging.recurrent import computed_wide

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
def test_a_wrong_recurrent_network_fails(change):
    assert not checked(nn.LSTM, "fp16", WRONG[change]).passed


def test_float32_is_torchs_own():
    report = checked(nn.LSTM, None).raise_for_mismatch()
    assert not any("in half" in line for line in report.unproven)


@pytest.mark.parametrize("layer", [nn.Conv1d(6, 8, 3), nn.Conv2d(6, 8, 3, padding=1, groups=2), nn.Conv3d(6, 8, 3, 2)])
def test_a_convolution_in_float16_is_torchs_own(layer):
    """Its sums are in float32, as torch's are: what differs is their order, a unit in the last place at most."""
    torch.manual_seed(0)
    x = torch.randn(2, 6, *[12] * (layer.weight.ndim - 2))
    notes = []
    with torch.inference_mode(), torch.autocast("cpu", torch.float16):
        own = layer(x)
        with computed_wide(torch.float16, notes.append):
            ours = layer(x)
    assert ours.dtype == own.dtype == torch.float16 and not notes
    assert (ours.double() - own.double()).abs().max() <= torch.finfo(torch.float16).eps * own.abs().max().double()
    assert (ours != own).float().mean() < 0.05


def test_a_convolution_in_float16_does_not_take_the_cpus_slow_way():
    """The operation that torch runs has float32 operands; in bfloat16, which is fast, it has its own."""
    seen = []

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if "conv" in str(func):
                seen.append(args[0].dtype)
            return func(*args, **(kwargs or {}))

    for precision in (torch.float16, torch.bfloat16):
        reference = Reference(nn.Conv2d(3, 4, 3), precision)
        with Seen():
            result = reference({"x": torch.randn(1, 3, 8, 8)})
        assert result.dtype == precision
    assert list(dict.fromkeys(seen)) == [torch.float32, torch.bfloat16]


def test_a_convolution_that_the_reference_keeps_in_float32_stays_so():
    class Exact(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)

        def forward(self, x):
            with torch.autocast("cpu", enabled=False):
                return self.conv(x)

    module, x = Exact(), torch.randn(1, 3, 8, 8)
    assert torch.equal(Reference(module, torch.float16)({"x": x}), module(x))
