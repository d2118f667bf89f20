"""Convolution with an open number of channels, windows beyond the input, and padding with a value of 0."""

import torch

import trtdsl as td
import trtdsl.functional as F


def test_channels_that_are_open_are_convolved_each_by_its_own_kernel():
    net = td.Network()
    x = net.input("x", (1, "C", 5, 9))
    weight = net.input("weight", (x.shape[1], 1, 3, 2))
    net.output(F.conv2d(x, weight, stride=2, padding=(1, 0), dilation=(1, 2), groups=x.shape[1]), "y")
    for channels in (1, 2, 7):
        image, kernels = torch.randn(1, channels, 5, 9), torch.randn(channels, 1, 3, 2)
        expected = torch.nn.functional.conv2d(image, kernels, None, 2, (1, 0), (1, 2), channels)
        torch.testing.assert_close(td.interpret(net, {"x": image, "weight": kernels})["y"], expected)


def test_windows_beyond_the_input_end_with_it_where_sizes_are_rounded_up():
    net = td.Network()
    x = net.input("x", ("N", 3, 2, 5))
    net.output(F.avg_pool2d(x, 320, ceil_mode=True), "y")
    net.output(F.avg_pool2d(x, (2, 4), (1, 3), ceil_mode=True), "z")
    feed = torch.randn(2, 3, 2, 5)
    got = td.interpret(net, {"x": feed})
    torch.testing.assert_close(got["y"], torch.nn.functional.avg_pool2d(feed, 320, ceil_mode=True))
    torch.testing.assert_close(got["z"], torch.nn.functional.avg_pool2d(feed, (2, 4), (1, 3), ceil_mode=True))
    assert (td.size_max(1.5, 1), td.size_min(2, 1.0)) == (1.5, 1.0)


def test_padding_takes_a_value_of_0_in_every_mode_as_torch_does():
    net = td.Network()
    x = net.input("x", ("N", 5))
    net.output(F.pad(x, (1, 2), "reflect", 0.0), "y")
    feed = torch.randn(2, 5)
    expected = torch.nn.functional.pad(feed, (1, 2), "reflect", 0.0)
    assert torch.equal(td.interpret(net, {"x": feed})["y"], expected)
