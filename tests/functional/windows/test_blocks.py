"""Convolutions of an odd number of channels in half precision: torch's values, and the launches and bytes of programs.

Every value of the operands is a small integer, so that sums are exact in any order. The limits are those of
TensorRT-RTX 1.7.1.
"""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import layer_types

import trtdsl as td
import trtdsl.functional as F

HALF = [torch.float16, torch.bfloat16]
NAMES = ["fp16", "bf16"]


def integers(*shape, seed=0):
    return torch.randint(-2, 3, shape, generator=torch.Generator().manual_seed(seed))


def network(function, shape, dtype):
    net = td.Network()
    with net.current():
        net.output(function(F, net.input("x", shape, dtype)), "y")
    return net


def by_interpreter(function, shape, dtype=torch.float16, sizes=None):
    x = integers(*(sizes or shape), seed=1).to(dtype)
    return td.interpret(network(function, shape, dtype), {"x": x})["y"], x


@st.composite
def convolutions(draw):
    ndim = draw(st.integers(1, 3))
    sides = [
        (draw(st.integers(1, 4)), draw(st.integers(1, 7)), draw(st.integers(0, 6)), draw(st.sampled_from([1, 1, 1, 2])))
        for _ in range(ndim)
    ]
    stride, size, padding, dilation = map(list, zip(*sides, strict=True))
    lengths = [step * draw(st.integers(1, 4)) + draw(st.sampled_from([0, 0, 0, 1])) for step in stride]
    if any(length + 2 * pad < d * (k - 1) + 1 for length, pad, d, k in zip(lengths, padding, dilation, size)):
        padding = [d * (k - 1) for d, k in zip(dilation, size, strict=True)]
    channels = draw(st.sampled_from([1, 3, 5]))
    shape = (draw(st.integers(1, 2)), channels, *lengths)
    return shape, size, draw(st.booleans()), {"stride": stride, "padding": padding, "dilation": dilation}


@settings(max_examples=150, deadline=None)
@given(convolutions())
def test_equals_torch(case):
    shape, size, biased, options = case
    weight, bias = integers(4, shape[1], *size, seed=2), integers(4, seed=3) if biased else None
    name = f"conv{len(size)}d"

    def convolved(f, x):
        low = [None if each is None else each.to(x.dtype) for each in (weight, bias)]
        return getattr(f, name)(x, *low, **options)

    found, x = by_interpreter(convolved, shape)
    torch.testing.assert_close(found.float(), convolved(torch.nn.functional, x.float()), rtol=1e-3, atol=0)


def test_an_open_batch():
    weight, net = integers(4, 3, 3, 3, seed=2).half(), td.Network()
    y = F.conv2d(net.input("x", ("N", 3, 6, 8), torch.float16), weight, stride=2, padding=1)
    net.output(y, "y")
    assert str(y.shape) == "(N, 4, 3, 4)"
    assert layer_types(net).count("SHUFFLE") == 2
    x = integers(2, 3, 6, 8, seed=1).half()
    expected = torch.conv2d(x.float(), weight.float(), stride=2, padding=1)
    torch.testing.assert_close(td.interpret(net, {"x": x})["y"].float(), expected, rtol=0, atol=0)


def test_open_sides_stay():
    net, sides = td.Network(), (2 * td.Dim("H2", min=1, max=4), 8)
    y = F.conv2d(net.input("x", ("N", 3, *sides), torch.float16), integers(4, 3, 3, 3).half(), stride=2, padding=1)
    net.output(y, "y")
    assert layer_types(net) == ["CONVOLUTION"]


@pytest.mark.parametrize("raw", ["before", "after"])
def test_a_norm_is_folded_and_the_raw_result_stays(raw):
    weight, bias = integers(4, 3, 3, 3, seed=2), integers(4, seed=3)
    mean, scale = torch.zeros(4), torch.tensor([2.0, 1.0, -1.0, 4.0])

    def write(f, x):
        y = f.conv2d(x, weight.to(x.dtype), bias.to(x.dtype), stride=2, padding=1)
        early = f.relu(y) if raw == "before" else None
        normed = f.batch_norm(y, *(each.to(x.dtype) for each in (mean, torch.ones(4), scale, mean)), eps=0.0)
        return f.relu(normed) + (f.relu(y) if early is None else early)

    found, x = by_interpreter(write, (2, 3, 8, 8))
    torch.testing.assert_close(found.float(), write(torch.nn.functional, x.float()), rtol=1e-3, atol=0)


STEM, PATCH, WIDE = integers(32, 3, 3, 3), integers(96, 3, 16, 16), integers(32, 3, 7, 7)
GRAY, NEXT, CLIP = integers(16, 1, 5, 5), integers(32, 32, 3, 3), integers(16, 3, 5, 7, 7)


def stem(f, x, kernel=STEM, **options):
    return f.conv2d(f.relu(f.conv2d(x, kernel.to(x.dtype), **options)), NEXT.to(x.dtype)[:, : len(kernel)])


def normalized(f, x):
    return stem(f, x / 4 - 1, stride=2, padding=1)


def patches(f, x):
    return f.relu(f.conv2d(x, PATCH.to(x.dtype), stride=16))


def clip(f, x):
    return f.relu(f.conv3d(x, CLIP.to(x.dtype), stride=(1, 2, 2), padding=(2, 3, 3)))


# name -> (function of a namespace and the input, its shape, the launches, bytes moved and bytes of the engine, both in
# megabytes). Behind each is what the convolution layer by itself gives.
CASES = {
    "stem": (partial(stem, stride=2, padding=1), (1, 3, 256, 320), 4, 7.94, 0.32),  # 4, 8.43, 0.48
    "normalized input": (normalized, (1, 3, 256, 320), 4, 7.94, 0.32),  # 4, 8.43, 0.46
    "wide stem": (partial(stem, kernel=WIDE, stride=2, padding=3), (1, 3, 128, 160), 4, 1.99, 0.33),  # 4, 2.11, 0.36
    "patches": (patches, (2, 3, 224, 224), 3, 2.18, 0.43),  # 3, 2.83, 0.68
    "clip": (clip, (1, 3, 8, 64, 64), 3, 1.54, 0.33),  # 3, 1.60, 0.39
    "gray image": (partial(stem, kernel=GRAY, padding=2), (4, 1, 32, 128), 4, 4.13, 0.31),  # 4, 4.16, 0.32
    "no stride": (partial(stem, padding=1), (4, 3, 64, 128), 4, 10.94, 0.33),  # 4, 11.00, 0.38
    "odd sides": (partial(stem, stride=2, padding=1), (1, 3, 255, 319), 4, 8.26, 0.33),  # 4, 8.42, 0.48
}


@pytest.mark.parametrize("dtype", HALF, ids=NAMES)
@pytest.mark.parametrize("case", CASES)
def test_launches_and_bytes(case, dtype):
    function, shape, launches, megabytes, engine = CASES[case]
    program = td.program(network(function, shape, dtype))
    assert program.launch_count <= launches
    assert program.bytes <= megabytes * 1e6
    assert program.engine_bytes <= engine * 1e6


def test_float32_stays():
    net = network(lambda f, x: f.conv2d(x, STEM.float(), stride=2, padding=1), (1, 3, 8, 8), torch.float32)
    assert layer_types(net) == ["CONVOLUTION"]
