"""Where an engine's elementwise arithmetic is not torch's: what the functions make of NaN, halves and integers.

The layers are interpreted as TensorRT-RTX's generated kernels compute them (tests/layers/cases/arithmetic.py).
"""

import itertools
import math

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F

VALUES = [math.nan, -math.inf, math.inf, -2.0, -0.0, 0.0, 1.0, 3.0]
FLOATS = [torch.float32, torch.float16, torch.bfloat16]


def run(compute, *feeds):
    """A function's result in the interpreter."""
    net = td.Network()
    net.output(compute(*(net.input(f"x{i}", feed.shape, feed.dtype) for i, feed in enumerate(feeds))), "y")
    return td.interpret(net, {f"x{i}": feed for i, feed in enumerate(feeds)})["y"]


def pairs(dtype):
    return [torch.tensor(side, dtype=dtype) for side in zip(*itertools.product(VALUES, repeat=2))]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin"])
def test_extremes_of_two_treat_nan_as_torch_does(name, dtype):
    a, b = pairs(dtype)
    assert_same(run(getattr(F, name), a, b), getattr(torch, name)(a, b))
    if name in ("maximum", "minimum"):
        for value in (1.0, math.nan):
            want = getattr(torch, name)(a, torch.tensor(value, dtype=dtype))
            assert_same(run(lambda x, v=value: getattr(F, name)(x, v), a), want)
            assert_same(run(lambda x, v=value: getattr(F, name)(v, x), a), want)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("bounds", [(-1.0, 2.0), (2.0, -1.0), (None, 1.0), (0.0, None)])
def test_clamp_keeps_nan(bounds, dtype):
    x = torch.tensor(VALUES, dtype=dtype)
    assert_same(run(lambda x: F.clamp(x, *bounds), x), torch.clamp(x, *bounds))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["relu6", "hardtanh", "hardsigmoid", "hardswish"])
def test_cut_activations_keep_nan(name, dtype):
    x = torch.tensor([math.nan, -4.0, -1.0, 0.5, 2.0, 7.0], dtype=dtype)
    torch.testing.assert_close(
        run(getattr(F, name), x), getattr(torch.nn.functional, name)(x), equal_nan=True, rtol=1e-2, atol=1e-2
    )


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_of_great_halves_is_finite(approximate):
    x = torch.tensor([40000.0, 65504.0, -40000.0, -3.0, 1.0, 0.001]).half()
    want = torch.nn.functional.gelu(x.double(), approximate=approximate).half()
    torch.testing.assert_close(run(lambda x: F.gelu(x, approximate=approximate), x), want, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_powers_of_integers_are_exact(dtype):
    base = torch.tensor([-7, -3, -2, -1, 0, 1, 2, 3, 5, 16777217], dtype=dtype)
    for exponent in (0, 1, 2, 3, 4, 7, 16, 19):
        assert_same(run(lambda x, e=exponent: F.pow(x, e), base), base**exponent)
    every, exponents = torch.meshgrid(base, torch.arange(40, dtype=dtype), indexing="ij")
    assert_same(run(F.pow, every, exponents), every**exponents)
    assert_same(run(lambda e: F.pow(3, e), torch.arange(40, dtype=dtype)), 3 ** torch.arange(40, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_shifts_are_exact(dtype):
    bits = torch.iinfo(dtype).bits
    shifts = torch.arange(-2, bits + 3, dtype=dtype)  # those that the dtype has not, too
    x = torch.full_like(shifts, -12345)
    assert_same(run(F.bitwise_left_shift, x, shifts), x << shifts)
    assert_same(run(F.bitwise_right_shift, x, shifts), x >> shifts)


@pytest.mark.parametrize("source", FLOATS)
def test_floats_become_int8_by_way_of_int32(source):
    x = torch.tensor([300.7, -300.7, 127.9, -128.9, 3e4, 1.0], dtype=source)
    assert_same(run(lambda x: F.to(x, torch.int8), x), x.int().to(torch.int8))


def assert_same(found, want):
    torch.testing.assert_close(found, want, equal_nan=True, rtol=0, atol=0)
