"""Calls are lowered when the network is whole: what that means for an author."""

import pytest
import torch
from support import assert_close

import trtdsl as td
import trtdsl.functional as F

KERNEL = torch.randn(4, 3, 3, 3, generator=torch.Generator().manual_seed(0))
ONE, MEAN, VAR = torch.ones(4), torch.linspace(-1, 1, 4), torch.linspace(0.5, 2, 4)
X = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))


def normed(y):
    return F.batch_norm(y, MEAN, VAR, ONE, ONE)


def types(net):
    return [net.definition.get_layer(index).type.name for index in range(net.definition.num_layers)]


def remarks(net):
    return [(remark.applied, remark.text) for remark in net.graph.remarks]


@pytest.mark.parametrize("norm_first", [True, False])
def test_a_product_that_is_used_twice_is_computed_once_whatever_the_order_of_its_uses(norm_first):
    calls = 0

    @td.network(inputs={"x": td.Input(X.shape)})
    def twice(x):
        nonlocal calls
        calls += 1
        y = F.conv2d(x, KERNEL)
        uses = [normed(y), F.tanh(y)] if norm_first else [F.tanh(y), normed(y)][::-1]
        return {"normed": uses[0], "plain": uses[1]}

    net = twice.define()
    assert calls == 1 and types(net).count("CONVOLUTION") == 1 and types(net).count("SCALE") == 1
    assert remarks(net) == [(False, "a layer of its own: the result of conv2d is used otherwise, too")]
    got, y = td.interpret(net, {"x": X}), torch.conv2d(X, KERNEL)
    assert_close(got["normed"], torch.nn.functional.batch_norm(y, MEAN, VAR, ONE, ONE))
    assert_close(got["plain"], y.tanh())


def test_what_nothing_needs_of_a_product_does_not_count_as_a_use():
    net = td.Network()
    y = F.conv2d(net.input("x", X.shape), KERNEL)
    y.transpose(1, 2)  # no layer needs it
    net.output(normed(y), "y")
    assert types(net) == ["CONVOLUTION"] and remarks(net) == [(True, "taken into conv2d")]


def test_what_was_emitted_stays_as_it_is():
    net = td.Network()
    y = F.conv2d(net.input("x", X.shape), KERNEL)
    assert y.trt.name == "conv2d"
    net.output(normed(y), "y")
    assert types(net) == ["CONVOLUTION", "SCALE"]
    assert remarks(net) == [(False, "a layer of its own: conv2d is a layer already")]
    want = torch.nn.functional.batch_norm(torch.conv2d(X, KERNEL), MEAN, VAR, ONE, ONE)
    assert_close(td.interpret(net, {"x": X})["y"], want)


def test_an_error_takes_an_unfinished_loop_back():
    net = td.Network()
    x = net.input("x", ("T", 3))

    def step(total, row):
        raise KeyError("the author's own")

    with pytest.raises(KeyError, match="the author's own"):
        td.scan(step, net.constant(torch.zeros(3)), x)
    assert net.regions == 0 and net.definition.num_layers == 0
    _, sums = td.scan(lambda total, row: (total + row, total + row), net.constant(torch.zeros(3)), x)
    net.output(sums, "y")
    assert td.interpret(net, {"x": torch.ones(2, 3)})["y"].tolist() == [[1] * 3, [2] * 3]
