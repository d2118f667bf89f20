"""Programs of more than two ways: torch's values at each size, of the program itself, which TensorRT may not build."""

import pytest
import torch
from torch import nn

import trtdsl as td
from trtdsl.interpreter.interpret import Interpreter
from trtdsl.porting.given import checked_inputs
from trtdsl.porting.module import written_spec
from trtdsl.porting.origin import Origin
from trtdsl.porting.tracing.agree import traced_at_all_sizes
from trtdsl.porting.writing.write import File


class ThreeWays(nn.Module):
    def forward(self, x):
        if x.shape[0] > 12:
            return x.tanh() + 1
        if x.shape[0] < 6:
            return x.relu() + 1
        return x.exp() + 1


class TwoComparisons(nn.Module):
    def forward(self, x):
        n = x.shape[0]
        k = (14 - n) // 2 if n <= 14 else -((n - 14) // 2)
        j = (n - 9) // 2 if n >= 9 else -((9 - n) // 2)
        return x * k + j


class FourWays(nn.Module):
    def forward(self, x):
        if x.shape[0] > 12:
            return x.tanh()
        if x.shape[0] > 9:
            return x.relu()
        return x * 2 if x.shape[0] > 5 else x + 1


@pytest.mark.parametrize("kind", [ThreeWays, TwoComparisons, FourWays])
def test_ways_by_several_comparisons(kind):
    module = kind().eval()
    given = checked_inputs(module, {"x": td.Input(("N", 3))}, {"N": (1, 4, 20)})

    def made(trace):
        if trace.elsewhere:
            raise td.UnsupportedError("one way for all")
        written = File(Origin.of(module), trace, given, None, None, None)
        return written_spec(written, written.text(), module, trace.constants)

    network = traced_at_all_sizes(module, given, made).define()
    run = Interpreter(network.definition)
    for size in range(1, 21):
        x = torch.randn(size, 3)
        torch.testing.assert_close(*run({"x": x}).values(), module(x))
