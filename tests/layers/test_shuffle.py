"""Shuffles become layers where they are needed, and those that follow one another become one where one can do it."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L
from trtdsl.layers.evaluation import Node
from trtdsl.layers.shuffle_steps import ShuffleSteps


def kinds(net):
    return [Node(net.backend, net.definition.get_layer(index)).type for index in range(net.definition.num_layers)]


def names(net):
    return [net.definition.get_layer(index).name for index in range(net.definition.num_layers)]


def apply(x, steps):
    """As TensorRT documents IShuffleLayer."""
    x = x.permute(steps.first)
    return x if steps.reshape is None else x.reshape(steps.reshape).permute(steps.second)


@st.composite
def factored(draw, elements):
    """A shape of so many elements."""
    shape = []
    while elements > 1 and len(shape) < 4:
        size = draw(st.sampled_from([size for size in range(1, elements + 1) if elements % size == 0]))
        shape.append(size)
        elements //= size
    return (*shape, elements) if elements > 1 or not shape else tuple(shape)


@st.composite
def chains(draw):
    """A shape, and the steps of two to four shuffles that follow one another."""
    shape = draw(factored(draw(st.sampled_from([1, 6, 12, 36]))))
    steps, current = [], shape
    for _ in range(draw(st.integers(2, 4))):
        first = tuple(draw(st.permutations(range(len(current)))))
        reshape = draw(st.none() | factored(math.prod(shape)))
        rank = len(current) if reshape is None else len(reshape)
        second = tuple(range(rank)) if reshape is None else tuple(draw(st.permutations(range(rank))))
        steps.append(ShuffleSteps(first, reshape, second))
        current = steps[-1].result(current)
    return shape, steps


@given(chains())
@settings(max_examples=300, deadline=None)
def test_composed_steps_do_what_those_they_are_made_of_do(chain):
    shape, (one, two, *_) = chain
    x = torch.arange(math.prod(shape)).reshape(shape)
    expected = apply(apply(x, one.on(shape)), two.on(one.result(shape)))
    assert torch.equal(apply(x, one), apply(x, one.on(shape)))
    composed = two.after(one)
    if composed is not None:
        assert composed.result(shape) == tuple(expected.shape)
        assert torch.equal(apply(x, composed), expected)
        assert torch.equal(apply(x, composed.on(shape)), expected)


@given(chains())
@settings(max_examples=60, deadline=None)
def test_a_network_of_shuffles_equals_torch(chain):
    shape, steps = chain
    value = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    net = td.Network()
    x, expected = net.input("x", shape), value
    for step in steps:
        x, expected = L.shuffle(x, *step), apply(expected, step)
    net.output(x, "y")
    assert torch.equal(td.interpret(net, {"x": value})["y"], expected)
    assert len([kind for kind in kinds(net) if kind == "SHUFFLE"]) <= len(steps)


@settings(max_examples=60, deadline=None)
@given(chains())
def test_a_shuffled_constant_equals_torch(chain):
    shape, steps = chain
    value = torch.arange(math.prod(shape), dtype=torch.float32).reshape(shape)
    x, expected = td.Network().constant(value), value
    for each in steps:
        x, expected = L.shuffle(x, *each), apply(expected, each)
        assert torch.equal(x.data, expected)


def test_a_constant_reshaped_into_the_strides_that_it_had_is_another_one():
    value = torch.arange(16.0).reshape(4, 4)
    x = L.shuffle(L.shuffle(td.Network().constant(value), (1, 0), (2, 8)), reshape=(4, 4))
    assert torch.equal(x.data, value.T.reshape(2, 8).reshape(4, 4))
    y = L.shuffle(td.Network().constant(value.T.reshape(8, 2)), (1, 0), (8, 2))
    assert torch.equal(y.data, value.T.reshape(8, 2).T.reshape(8, 2))


def test_a_reshape_and_a_permute_are_one_layer():
    net = td.Network()
    x = net.input("x", ("N", 12, 64))
    heads = x.reshape(x.shape[0], 12, 4, 16).permute(0, 2, 1, 3)
    assert kinds(net) == []
    merged = F.relu(heads).permute(0, 2, 1, 3).reshape(x.shape[0], 12, 64)
    net.output(F.relu(merged), "y")
    assert kinds(net) == ["SHUFFLE", "ACTIVATION", "SHUFFLE", "ACTIVATION"]
    assert names(net) == ["permute", "relu", "reshape", "relu_1"]
    value = torch.randn(2, 12, 64)
    torch.testing.assert_close(td.interpret(net, {"x": value})["y"], value.relu())


def test_shuffles_that_cancel_add_no_layer():
    net = td.Network()
    x = net.input("x", ("N", 6, 4))
    assert x.permute(2, 0, 1).reshape(4, -1).reshape(4, x.shape[0], 6).permute(1, 2, 0) is x
    assert x.unsqueeze(0).squeeze(0) is x


def test_an_unused_shuffle_adds_no_layer():
    net = td.Network()
    x = net.input("x", (2, 3))
    x.reshape(3, 2)
    net.output(F.relu(x), "y")
    assert kinds(net) == ["ACTIVATION"]


def test_two_users_share_a_shuffle():
    net = td.Network()
    flat = net.input("x", (2, 3, 4)).reshape(6, 4)
    net.output(F.relu(flat) + F.exp(flat), "y")
    assert kinds(net).count("SHUFFLE") == 1


def test_a_shuffle_after_one_that_is_a_layer_begins_there():
    net = td.Network()
    flat = net.input("x", (2, 3, 4)).reshape(6, 4)
    net.output(F.relu(flat), "y")
    net.output(flat.t(), "z")
    value = torch.randn(2, 3, 4)
    assert torch.equal(td.interpret(net, {"x": value})["z"], value.reshape(6, 4).t())
    second = next(node for node in map(net.definition.get_layer, range(3)) if node.name == "t")
    assert second.get_input(0).name == "reshape"


def test_a_transpose_between_two_reshapes_takes_two_layers():
    net = td.Network()
    x = net.input("x", (2, 6, 5, 4))
    net.output(x.reshape(2, 3, 2, 5, 4).transpose(1, 2).reshape(2, 6, 5, 4), "y")
    assert kinds(net) == ["SHUFFLE", "SHUFFLE"]
    value = torch.randn(2, 6, 5, 4)
    assert torch.equal(td.interpret(net, {"x": value})["y"], torch.nn.functional.channel_shuffle(value, 3))


def test_two_reshapes_stay_apart_where_one_would_need_a_shape_tensor():
    net = td.Network()
    x = net.input("x", ("A", "B", 6))
    y = x.reshape(x.shape[0] * x.shape[1], 6).reshape(x.shape[0] * x.shape[1], 2, 3)
    z = x.reshape(x.shape[0], x.shape[1] * 6).reshape(x.shape[0] * 2, x.shape[1] * 3)
    net.output(y, "y")
    net.output(z, "z")
    value = torch.randn(4, 5, 6)
    results = td.interpret(net, {"x": value})
    assert torch.equal(results["y"], value.reshape(20, 2, 3))
    assert torch.equal(results["z"], value.reshape(8, 15))
    flat, rows = x.reshape(-1, 6), None
    before = net.definition.num_layers
    rows = F.relu(flat.reshape(x.shape[0], 6 * x.shape[1]))  # [0, -1] of what came in: one layer, no shape tensor
    assert kinds(net)[before:] == ["SHUFFLE", "ACTIVATION"]
    assert rows.shape == (x.shape[0], 6 * x.shape[1])


def test_the_layer_has_the_name_the_scope_and_the_line_of_its_call():
    net = td.Network()
    x = net.input("x", (2, 3))
    with net.scope("head"):
        turned = x.t()  # this line
    net.output(F.relu(turned), "y")
    assert names(net) == ["head.t", "head.relu"]
    with open(__file__) as file:
        assert file.readlines()[net.layers["head.t"].location.line - 1].endswith("# this line\n")
    assert net.layers["head.relu"].location.line > net.layers["head.t"].location.line


def test_an_output_that_is_only_a_shuffle():
    net = td.Network()
    net.output(net.input("x", (2, 3)).t(), "y")
    assert net.outputs["y"].shape == (3, 2)
    assert torch.equal(td.interpret(net, {"x": torch.ones(2, 3)})["y"], torch.ones(3, 2))


@pytest.mark.parametrize("inside", [True, False])
def test_a_shuffle_from_outside_is_used_in_a_branch_and_in_a_loop(inside):
    net = td.Network()
    x, flag = net.input("x", (2, 3)), net.input("flag", (), "bool")
    outer = x.t()
    if not inside:
        assert outer.trt is not None
    y = td.cond(flag, lambda t: F.relu(outer.reshape(2, 3)) + t, lambda t: t - outer.reshape(2, 3), (x,))
    total = td.while_loop(lambda n, s: n < 3, lambda n, s: (n + 1, s + outer.reshape(2, 3)), (net.constant(0), y))[1]
    net.output(total, "y")
    value = torch.randn(2, 3)
    again = value.t().reshape(2, 3)
    for taken in (True, False):
        expected = (again.relu() + value if taken else value - again) + 3 * again
        got = td.interpret(net, {"x": value, "flag": torch.tensor(taken)})["y"]
        torch.testing.assert_close(got, expected)
