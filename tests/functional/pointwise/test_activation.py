"""Activations that are made of several layers, on values where their parts could go wrong."""

import math

import pytest
import torch
from support import assert_close, evaluate, layer_types

import trtdsl as td
import trtdsl.functional as F

VALUES = torch.tensor([-math.inf, -3e4, -1.5, -0.0, 0.0, 1e-30, 2.0, 3e4, math.inf, math.nan])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("slope", [0.25, -0.5, 1.0, 3.0])
def test_prelu(dtype, slope):
    x = VALUES.to(dtype).reshape(1, 2, 5)
    weight = torch.tensor([slope, 0.125], dtype=dtype)
    want = torch.nn.functional.prelu(x, weight)
    assert_close(evaluate(F.prelu, x, weight), want, tolerance=1e-6)
    assert_close(evaluate(F.prelu, x, weight, dims=[("N", 2, "T"), None]), want, tolerance=1e-6)


def test_prelu_is_made_of_what_a_convolution_takes_in():
    net = td.Network()
    x = F.conv2d(net.input("x", (1, 3, 8, 8)), net.constant(torch.ones(4, 3, 1, 1)))
    net.output(F.prelu(x, net.constant(torch.ones(4))), "y")
    assert "PARAMETRIC_RELU" not in layer_types(net)
