"""A convolution of each channel by itself, where the number of channels is open."""

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


def test_padding_takes_a_value_of_0_in_every_mode_as_torch_does():
    net = td.Network()
    x = net.input("x", ("N", 5))
    net.output(F.pad(x, (1, 2), "reflect", 0.0), "y")
    feed = torch.randn(2, 5)
    expected = torch.nn.functional.pad(feed, (1, 2), "reflect", 0.0)
    assert torch.equal(td.interpret(net, {"x": feed})["y"], expected)
