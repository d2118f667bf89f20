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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("lowering", ["auto", "exp", "sigmoid", "float32"])
def test_silu_far_below_zero(dtype, lowering):
    x = torch.tensor(
        [-3e4, -200.0, -100.0, -89.0, -20.0, -12.0, -11.0, -8.0, -0.5, 0.0, 9.0, 3e4, math.inf], dtype=dtype
    )
    got = evaluate(lambda x: F.silu(x, lowering=lowering), x)
    assert_close(
        got, torch.nn.functional.silu(x.double()).to(dtype), tolerance=1e-2 if dtype == torch.bfloat16 else 1e-3
    )


def test_silu_becomes_part_of_the_product_before_it():
    weight = torch.randn(32, 32, generator=torch.Generator().manual_seed(0))
    launches = {}
    for lowering in ("auto", "sigmoid"):
        net = td.Network()
        y = F.linear(net.input("x", (4, 16, 32)), weight)
        net.output(F.linear(F.silu(y, lowering=lowering), weight), "y")
        launches[lowering] = td.program(net).launch_count
    assert launches == {"auto": 2, "sigmoid": 3}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_silu_of_a_convolution_is_rounded_once(dtype):
    weight, net = torch.eye(4, dtype=dtype).reshape(4, 4, 1, 1), td.Network()
    net.output(F.silu(F.conv2d(net.input("x", (1, 4, 16, 16), dtype), weight)), "y")
    x = (4 * torch.randn(1, 4, 16, 16, generator=torch.Generator().manual_seed(0))).to(dtype)
    assert torch.equal(td.interpret(net, {"x": x})["y"], torch.nn.functional.silu(x.double()).to(dtype))


def test_silu_takes_no_integers():
    with pytest.raises(td.UnsupportedError, match="silu takes floating-point numbers, not int64"):
        F.silu(td.Network().input("x", (2, 3), "int64"))
