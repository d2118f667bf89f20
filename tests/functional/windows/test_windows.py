"""Convolution, pooling and unfolding refuse the windows that torch refuses, and take the others."""

from __future__ import annotations

import itertools

import pytest
import torch
from support import assert_close, layer_types

import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L

# By torch's module or ours: windows of k, every s, with a padding of p, along the third dimension of (1, 3, length, 2).
FUNCTIONS = {
    "avg_pool1d": lambda M, x, k, s, p: M.avg_pool1d(x[0].flatten(1), k, s, p),
    "avg_pool2d": lambda M, x, k, s, p: M.avg_pool2d(x, (k, 1), (s, 1), (p, 0)),
    "max_pool3d": lambda M, x, k, s, p: M.max_pool3d(x, (1, k, 1), (1, s, 1), (0, p, 0)),
    "ceil_mode": lambda M, x, k, s, p: M.avg_pool2d(x, (k, 1), (s, 1), (p, 0), True),
    "max_pool2d": lambda M, x, k, s, p: M.max_pool2d(x, (k, 1), (s, 1), (p, 0), 1, True),
    "dilation": lambda M, x, k, s, p: M.max_pool2d(x, (k, 1), (s, 1), 0, (p, 1)),
    "return_indices": lambda M, x, k, s, p: M.max_pool2d(x, (k, 1), (s, 1), (p, 0), return_indices=True)[0],
    "lp_pool2d": lambda M, x, k, s, p: M.lp_pool2d(x, 2, (k, 1), (s, 1)),
    "conv1d": lambda M, x, k, s, p: M.conv1d(x[0].flatten(1), torch.zeros(2, 3, k), None, s, p),
    "conv2d": lambda M, x, k, s, p: M.conv2d(x, torch.zeros(2, 3, k, 1), None, (s, 1), (p, 0)),
    "conv_transpose2d": lambda M, x, k, s, p: M.conv_transpose2d(x, torch.zeros(3, 2, k, 1), None, (s, 1), (p, 0)),
    "unfold": lambda M, x, k, s, p: M.unfold(x, (k, 1), 1, (p, 0), (s, 1)),
}


def shape_or_none(function, *arguments):
    """The shape of what it gives; None where it refuses. Anything that is no refusal is raised."""
    try:
        return tuple(function(*arguments).shape)
    except (td.DefinitionError, RuntimeError, ValueError):  # torch's are of the latter kinds
        return None


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_windows_are_refused_as_by_torch(function):
    for *window, length in itertools.product(range(5), range(4), range(3), range(1, 5)):
        x = torch.zeros(1, 3, length, 2)
        expected = shape_or_none(function, torch.nn.functional, x, *window)
        assert shape_or_none(function, F, td.Network().input("x", x.shape), *window) == expected, (window, length)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: F.avg_pool2d(x, 9), "a window of 9 does not fit a dimension of 5\n"),
        (lambda x: F.max_pool2d(x, 4, 1, 1, 3), "a window of 10 does not fit a dimension of 5 and 2 of padding\n"),
        (lambda x: F.avg_pool2d(x, 2, 0), "stride must be at least 1, not 0\n"),
        (lambda x: F.avg_pool2d(x, 0), "kernel_size must be at least 1, not 0\n"),
        (lambda x: F.max_pool2d(x, 2, dilation=0), "dilation must be at least 1, not 0\n"),
        (lambda x: F.conv2d(x, torch.ones(2, 4, 3, 3), stride=0), "stride must be at least 1, not 0\n"),
        (lambda x: F.conv2d(x, torch.ones(2, 4, 6, 6)), "a window of 6 does not fit a dimension of 5\n"),
        (lambda x: F.conv2d(x.int(), torch.ones(2, 4, 6, 6, dtype=torch.int32)), "a window of 6 does not fit"),
        (lambda x: F.conv2d(x.int(), torch.ones(2, 4, 3, 3, dtype=torch.int32), stride=0), "stride must be at least 1"),
        (lambda x: F.conv_transpose2d(x, torch.ones(4, 2, 1, 2), padding=(0, 3)), r"the output .* would be empty"),
        (lambda x: L.pooling(x, "MAX", (2, 2), stride=(0, 0), pre_padding=(0, 0), post_padding=(0, 0)), "stride must"),
    ],
)
def test_refusals_say_what_does_not_fit(function, message):
    with pytest.raises(td.DefinitionError, match=rf"test_windows.py:\d+: {message}"):
        function(td.Network().input("x", (1, 4, 5, 5)))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(
    "options", [{}, {"padding": 3}, {"stride": 2, "padding": 1}, {"dilation": 2, "padding": 4}, {"padding": "valid"}]
)
def test_a_depthwise_conv1d_is_multiplied_out(options, dtype, dynamic):
    """One kernel with what is around it, where a convolution would have both of its sides rearranged."""
    torch.manual_seed(0)
    x, weight, bias = torch.randn(2, 6, 19), torch.randn(6, 1, 4), torch.randn(6)
    net = td.Network()
    given = net.input("x", ("N", 6, td.Dim("L", min=9, opt=19, max=30)) if dynamic else x.shape, dtype)
    y = F.conv1d(given, net.constant(weight, dtype), net.constant(bias, dtype), groups=6, **options)
    net.output(F.silu(y), "y")
    assert "CONVOLUTION" not in layer_types(net)
    x, weight, bias = (value.to(dtype).double() for value in (x, weight, bias))
    want = torch.nn.functional.silu(torch.nn.functional.conv1d(x, weight, bias, groups=6, **options)).to(dtype)
    assert_close(td.interpret(net, {"x": x.to(dtype)})["y"], want, 1e-6 if dtype == torch.float32 else 2e-3)
    if not dynamic:
        assert td.program(net).launch_count == 1


def test_a_depthwise_conv1d_of_other_channels_is_refused():
    net = td.Network()
    with pytest.raises(td.ShapeError, match="is for 6 channels, not 12"):
        F.conv1d(net.input("x", (2, 12, 9)), net.constant(torch.ones(6, 1, 3)), groups=6)


def test_a_relu_after_maxima_goes_into_the_convolution_before_them():
    torch.manual_seed(0)
    x, weight, bias = torch.randn(2, 3, 12, 14), torch.randn(8, 3, 3, 3), torch.randn(8)
    net = td.Network()
    y = F.max_pool2d(F.conv2d(net.input("x", x.shape), net.constant(weight), net.constant(bias)), 3, 2, 1)
    assert y.order == (0, 2, 3, 1)
    net.output(F.relu(y), "y")
    assert layer_types(net)[:3] == ["CONVOLUTION", "ACTIVATION", "POOLING"]
    want = torch.nn.functional.max_pool2d(torch.conv2d(x, weight, bias), 3, 2, 1)
    assert_close(td.interpret(net, {"x": x})["y"], want.relu())


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("first", ["pool", "conv"])
def test_a_relu_after_maxima_stays_where_something_else_uses_them(first, order):
    """What is used otherwise, too, would be computed twice."""
    x, weight = torch.randn(2, 3, 12, 14), torch.randn(8, 3, 3, 3)
    net = td.Network()
    y = F.conv2d(net.input("x", x.shape), net.constant(weight))
    z = F.max_pool2d(y, 2)
    for name, function, used in [("first", F.sigmoid, z if first == "pool" else y), ("y", F.relu, z)][::order]:
        net.output(function(used), name)
    types = layer_types(net)
    assert types.index("POOLING") < len(types) - 1 - types[::-1].index("ACTIVATION")
    assert_close(td.interpret(net, {"x": x})["y"], torch.nn.functional.max_pool2d(torch.conv2d(x, weight), 2).relu())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (3, 2), ((1, 2), (3, 1))])
def test_maxima_of_what_is_not_channels_last_are_one_launch(dtype, kernel, stride):
    """IPoolingLayer takes three: its input and its result are rearranged."""
    net = td.Network()
    x = net.input("x", (2, 3, 13, 14), dtype)
    net.output(F.max_pool2d(F.exp(x), kernel, stride), "y")
    assert "POOLING" not in layer_types(net)
    assert td.program(net).launch_count == 1
    given = torch.randn(2, 3, 13, 14).to(dtype)
    want = torch.nn.functional.max_pool2d(td.interpret(exponential(dtype), {"x": given})["y"], kernel, stride)
    assert torch.equal(td.interpret(net, {"x": given})["y"], want)


def exponential(dtype):
    net = td.Network()
    net.output(F.exp(net.input("x", (2, 3, 13, 14), dtype)), "y")
    return net


@pytest.mark.parametrize("padding", [0, 1])
def test_maxima_in_bfloat16_are_not_cast(padding):
    """IPoolingLayer has its operands cast to float32 and back."""
    net = td.Network()
    weights = [net.constant(torch.randn(8, channels, 3, 3).bfloat16()) for channels in (3, 8)]
    x = net.input("x", (1, 3, 9, 9), torch.bfloat16)
    net.output(F.conv2d(F.max_pool2d(F.relu(F.conv2d(x, weights[0])), 3, 2, padding), weights[1], padding=1), "y")
    assert not [launch.name for launch in td.program(net).launches if "Cast" in launch.name]


def test_maxima_of_a_convolution_stay_a_pooling():
    net = td.Network()
    x = F.conv2d(net.input("x", (1, 3, 8, 8)), net.constant(torch.ones(4, 3, 3, 3)))
    net.output(F.max_pool2d(x, 2), "y")
    assert layer_types(net).count("POOLING") == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_the_average_of_what_is_not_channels_last_is_one_launch(dtype):
    """IPoolingLayer takes three: its input and its result are rearranged."""
    net = td.Network()
    net.output(F.adaptive_avg_pool2d(F.exp(net.input("x", (2, 3, 8, 9), dtype)), 1), "y")
    assert td.program(net).launch_count == 1


def test_the_average_of_concatenated_convolutions_is_a_pooling():
    """They lie channels last, as a pooling reads them: a reduction would move half as much again."""
    net = td.Network()
    x = net.input("x", (1, 3, 8, 8))
    parts = [F.conv2d(x, net.constant(torch.randn(8, 3, size, size)), padding=size // 2) for size in (1, 3)]
    net.output(F.adaptive_avg_pool2d(F.cat(parts, 1), 1), "y")
    assert layer_types(net).count("POOLING") == 1


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "launches", "bytes"), [(2, 2, 0, 6, 16_088_224), (3, 2, 1, 6, 20_423_088)]
)
def test_maxima_of_a_convolution_with_their_places(kernel, stride, padding, launches, bytes):
    """A slice for each element of a window takes 13 launches and 19 here, and 36,772,488 bytes of the second."""
    net = td.Network()
    x = F.conv2d(net.input("x", (2, 64, 56, 60)), net.constant(torch.ones(64, 64, 3, 3)), padding=1)
    values, places = F.max_pool2d(x, kernel, stride, padding, return_indices=True)
    net.output(values, "values")
    net.output(places, "places")
    program = td.program(net)
    assert program.launch_count <= launches
    assert program.bytes <= bytes
