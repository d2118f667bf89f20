"""The model of the order in memory, held against the strides in the programs that the builder makes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from layers.test_shuffle import apply, chains

import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L


def conv(x, channels, size=3):
    kernel = x.network.constant(torch.randn(channels, x.shape[1], size, size), x.dtype)
    return F.conv2d(x, kernel, x.network.constant(torch.randn(channels), x.dtype), padding=size // 2)


CASES = {
    "a convolution": lambda x: conv(x, 32),
    "a pointwise convolution": lambda x: conv(x, 32, 1),
    "a convolution and its activation": lambda x: F.relu(conv(x, 32)),
    "a sum of convolutions": lambda x: conv(x, 32) + conv(x, 32, 1),
    "what the builder does not fuse": lambda x: F.sin(conv(x, 32)) * F.sigmoid(conv(x, 32, 1)),
    "a depthwise convolution": lambda x: F.conv2d(conv(x, 32), x.network.constant(torch.randn(32, 1, 3, 3)), groups=32),
    "pooling": lambda x: F.max_pool2d(conv(x, 32), 2),
    "average pooling": lambda x: F.avg_pool2d(conv(x, 32), 2),
    "a concatenation": lambda x: F.cat([conv(x, 32), F.relu(conv(x, 8))], 1),
    "a concatenation with pooling": lambda x: F.cat([conv(x, 32), F.max_pool2d(conv(x, 8), 3, 1, 1)], 1),
    "a concatenation of batches": lambda x: F.cat([conv(x, 32), F.sin(conv(x, 32, 1))], 0),
    "nearest, twice the size": lambda x: F.interpolate(conv(x, 32), scale_factor=2),
    "bilinear, to another size": lambda x: F.interpolate(conv(x, 32), size=(12, 10), mode="bilinear"),
    "rows": lambda x: conv(x, 32)[:, :, 3:17],
    "every other row and column": lambda x: conv(x, 32)[:, :, ::2, ::2],
    "padding": lambda x: F.sin(F.pad(conv(x, 32), (1, 2, 1, 2))),
    "softmax": lambda x: F.softmax(conv(x, 32), 1),
    "prelu": lambda x: F.prelu(F.sin(conv(x, 32)), x.network.constant(torch.rand(32)), lowering="layer"),
    "a half": lambda x: conv(x.half(), 32),
}


@pytest.mark.parametrize("case", CASES)
def test_the_model_is_what_the_builder_does(case):
    """A convolution reads the value: it must lie as the model says, without a launch that only moves it."""
    net = td.Network()
    value = CASES[case](net.input("x", (2, 16, 24, 20)))
    net.output(conv(value, 48), "y")
    program = td.program(net)
    shape = tuple(value.shape)
    orders = {
        tensor.order
        for launch in program.launches
        for tensor in [program.tensors[operand.tensor] for operand in (*launch.reads, *launch.writes)]
        if tensor.shape == shape
    }
    assert orders == {value.order}


@given(chains(), st.randoms(use_true_random=False))
@settings(max_examples=300, deadline=None)
def test_a_shuffle_of_what_lies_in_any_order(chain, random):
    """As torch has it: where its view exists, the strides fall in the order that the model says."""
    shape, (steps, *_) = chain
    order = list(range(len(shape)))
    random.shuffle(order)
    x = torch.zeros([shape[axis] for axis in order]).permute([order.index(axis) for axis in range(len(shape))])
    lies = steps.order(shape, tuple(order))
    assert sorted(lies) == list(range(len(lies)))
    y = x.permute(steps.first)
    try:
        y = y if steps.reshape is None else y.view(steps.reshape).permute(steps.second)
    except RuntimeError:  # the reshape copies
        return
    strides = [y.stride(axis) for axis in lies if y.shape[axis] != 1]
    assert strides == sorted(strides, reverse=True)


@given(chains())
@settings(max_examples=300, deadline=None)
def test_transposing_first_does_the_same(chain):
    shape, (steps, *_) = chain
    x = torch.arange(torch.Size(shape).numel()).reshape(shape)
    assert torch.equal(apply(x, steps.transposed_first(shape)), apply(x, steps))


@given(chains(), st.randoms(use_true_random=False))
@settings(max_examples=300, deadline=None)
def test_reshaping_along_the_order_does_the_same(chain, random):
    shape, (steps, *_) = chain
    order = list(range(len(shape)))
    random.shuffle(order)
    x = torch.arange(torch.Size(shape).numel()).reshape(shape)
    along = steps.along(shape, tuple(order))
    assert torch.equal(apply(x, along), apply(x, steps))
    if along != steps:  # what is transposed first then lies as it is written
        places = [order.index(axis) for axis in along.first if shape[axis] != 1]
        assert places == sorted(places)


@given(chains(), st.randoms(use_true_random=False))
@settings(max_examples=300, deadline=None)
def test_merging_along_the_order_permutes_the_last_dimension(chain, random):
    shape, (steps, *_) = chain
    order = list(range(len(shape)))
    random.shuffle(order)
    found = steps.merged_along(shape, tuple(order))
    if found is None:
        return
    other, sizes, places = found
    x = torch.arange(torch.Size(shape).numel()).reshape(shape)
    columns = torch.arange(torch.Size(sizes).numel()).reshape(sizes).permute(places).flatten()
    assert torch.equal(apply(x, other), apply(x, steps)[..., columns])


def test_a_permute_that_splits_joins_the_next_reshape():
    net = td.Network()
    x = conv(net.input("x", ("N", 4, 5, 6)), 12)
    split = x.reshape(x.shape[0], 3, 4, 5, 6).permute(0, 3, 4, 1, 2)
    assert split.order == (0, 1, 2, 3, 4)
    net.output(F.relu(split.reshape(x.shape[0], 5, 18, 4)), "y")
    types = [net.definition.get_layer(k).type.name for k in range(net.definition.num_layers)]
    assert types == ["CONVOLUTION", "SHUFFLE", "ACTIVATION"]
    value = torch.randn(2, 4, 5, 6)
    first = net.definition.get_layer(0)
    got = td.interpret(net, {"x": value})["y"]
    assert got.shape == (2, 5, 18, 4)
    assert first.name == "conv2d"


def test_a_reshape_that_tears_memory_apart_is_row_major():
    net = td.Network()
    x = L.shuffle(net.input("x", (2, 3, 4)), (0, 2, 1))
    assert x.order == (0, 2, 1)
    assert L.shuffle(x, reshape=(2, 12)).order == (0, 1)
    assert L.shuffle(x, reshape=(2, 2, 2, 3)).order == (0, 3, 1, 2)
