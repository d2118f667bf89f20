"""What engines of ported modules move: no more than their calls need, worked by hand, nor than the exporter's."""

import warnings

import pytest
import torch
from torch import nn

import trtdsl as td

FLOAT = 4  # bytes
LENGTH = 512


class Chomp(nn.Module):
    """Leaves out what the padding made too much at the end."""

    def __init__(self, more):
        super().__init__()
        self.more = more

    def forward(self, x):
        return x[:, :, : -self.more].contiguous()


class Block(nn.Module):
    """A block of a temporal convolutional network, as it is published."""

    def __init__(self, inside, outside, dilation):
        super().__init__()
        layers = []
        for width in (inside, outside):
            conv = nn.Conv1d(width, outside, 3, padding=2 * dilation, dilation=dilation)
            layers += [nn.utils.parametrizations.weight_norm(conv), Chomp(2 * dilation), nn.ReLU(), nn.Dropout(0.1)]
        self.net = nn.Sequential(*layers)
        self.downsample = nn.Conv1d(inside, outside, 1) if inside != outside else None

    def forward(self, x):
        return torch.relu(self.net(x) + (x if self.downsample is None else self.downsample(x)))


class Rounds(nn.Module):
    """A residual block of HiFi-GAN."""

    def __init__(self, width):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv1d(width, width, 3, padding=d, dilation=d) for d in (1, 3, 5))

    def forward(self, x):
        for conv in self.convs:
            x = conv(nn.functional.leaky_relu(x, 0.1)) + x
        return x


class Generator(nn.Module):
    """HiFi-GAN: transposed convolutions, residual blocks and their mean."""

    def __init__(self):
        super().__init__()
        self.pre, self.post = nn.Conv1d(32, 64, 7, padding=3), nn.Conv1d(32, 1, 7, padding=3)
        self.up = nn.utils.parametrizations.weight_norm(nn.ConvTranspose1d(64, 32, 8, 4, 2))
        self.blocks = nn.ModuleList(Rounds(32) for _ in range(2))

    def forward(self, x):
        x = self.up(nn.functional.leaky_relu(self.pre(x), 0.1))
        x = sum(block(x) for block in self.blocks) / 2
        return torch.tanh(self.post(nn.functional.leaky_relu(x, 0.1)))


class Adapted(nn.Module):
    """LoRA: a weight, and a product of two narrow ones that is added to it."""

    def __init__(self):
        super().__init__()
        self.q = nn.Linear(WIDTH, WIDTH)
        self.a, self.b = nn.Parameter(torch.rand(WIDTH, 2)), nn.Parameter(torch.rand(2, WIDTH))

    def forward(self, x):
        return nn.functional.linear(x, self.q.weight + self.a @ self.b, self.q.bias)


def conv(inside, outside, kernel, length=LENGTH, before=LENGTH):
    """Bytes of one launch: its input, weights and bias are read, its output is written."""
    return FLOAT * (inside * before + inside * outside * kernel + outside + outside * length)


def work(*widths, length=LENGTH):
    """Bytes of one launch of elementwise work: each of its operands, and its result."""
    return FLOAT * sum(widths) * length


LONG, WIDTH = 4 * LENGTH, 4096
# What is padded at both ends by a dilation is two dilations longer, which a launch leaves out and takes the ReLU of.
FIRST = conv(32, 64, 3, LENGTH + 2) + work(64, 64) + conv(64, 64, 3, LENGTH + 2) + work(64, 64)
SECOND = conv(64, 64, 3, LENGTH + 4) + work(64, 64) + conv(64, 64, 3, LENGTH + 4) + work(64, 64, 64)
TCN = work(32, 32) + FIRST + conv(32, 64, 1) + work(64) + SECOND  # the sequence as an image; the residual sum in a conv
ROUND = conv(32, 32, 3, LONG, LONG) + work(32, length=LONG)  # with the residual sum
HIFI_GAN = work(32, 32) + conv(32, 64, 7) + conv(64, 32, 8, LONG) + conv(32, 1, 7, LONG, LONG) + work(1, 1, length=LONG)
HIFI_GAN += 6 * ROUND + work(32, length=LONG) + 5 * work(32, 32, length=LONG)  # the blocks' sum; leaky ReLUs
CASES = {
    "TCN": (lambda: nn.Sequential(Block(32, 64, 1), Block(64, 64, 2)), TCN),
    "HiFi-GAN": (Generator, HIFI_GAN),
}


@pytest.mark.parametrize("name", CASES)
def test_a_network_over_sequences_moves_no_more_than_its_layers_need(name, tmp_path):
    make, needed = CASES[name]
    torch.manual_seed(0)
    module, x = make().eval().requires_grad_(False), torch.rand(1, 32, LENGTH)
    program = td.program(td.from_module(module, ["1,32,512"], dims={}).define())
    assert program.bytes <= needed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (x,), tmp_path / "module.onnx", dynamo=False)
    exported = td.program(tmp_path / "module.onnx")
    assert program.bytes <= exported.bytes and program.launch_count <= exported.launch_count


def test_an_adapted_weight_of_any_size_is_computed_once():
    """The weight keeps its name; the engine reads it, the bias and the input, and writes the output."""
    network = td.from_module(Adapted().requires_grad_(False), ["4,4096"], dims={}).define()
    program = td.program(network)
    assert (program.launch_count, program.bytes) == (1, FLOAT * (2 * 4 * WIDTH + WIDTH * WIDTH + WIDTH))
    names = {name for layer in network.layers.values() for name in layer.weights}
    assert names == {"q.weight", "q.bias", "a", "b"}
