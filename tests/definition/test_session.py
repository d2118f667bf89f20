"""A network that is written in the cells of a notebook: what a refused call leaves behind, and cells run again."""

from __future__ import annotations

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F

N = td.Dim("N", min=1, opt=2, max=4)


def goes_on(net, x, feed):
    """Whether what comes after a refused call is checked, computed and built as if it had not been written."""
    net.output(F.relu(x) * 2, "y")
    net.check_sizes()
    assert torch.equal(td.interpret(net, {"x": feed})["y"], feed.relu() * 2)


REFUSED = {
    "before a layer": lambda net, x: F.linear(x, torch.zeros(4, 9)),
    "after a layer": lambda net, x: F.conv2d(F.relu(x) + 1, torch.zeros(4, 9, 3, 3)),
    "after a constraint": lambda net, x: torch.cat([x, torch.zeros(1, 3, 8, 9)], 1),
    "in a scan": lambda net, x: td.scan(lambda c, i: (F.linear(c, torch.zeros(3, 7)), c), x[0, 0], x[0]),
    "in a while loop": lambda net, x: td.while_loop(
        lambda i: i.sum() < 3, lambda i: F.linear(i, torch.zeros(3, 7)), (x,)
    ),
    "in a branch": lambda net, x: td.cond(x.sum() > 0, lambda: x + 1, lambda: F.linear(x, torch.zeros(3, 7))),
    "in a loop in a loop": lambda net, x: td.scan(
        lambda c, i: td.scan(lambda d, j: (F.linear(d, torch.zeros(3, 7)), d), c, i), x[0, 0], x[0]
    ),
    "an input with a new dimension": lambda net, x: net.input("q", ("M", 3), "float64"),
    "an input with a known dimension": lambda net, x: net.input("q", ("M", td.Dim("N", min=1, max=99))),
    "an output": lambda net, x: net.output(3, "y"),
    "in a scope": lambda net, x: in_scope(net, lambda: F.relu(x) / torch.zeros(3, 9)),
}


def in_scope(net, call):
    with net.scope("head"):
        call()


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED)
def test_a_network_goes_on_after_a_refused_call(refused, tmp_path):
    net = td.Network("cells")
    x = net.input("x", (N, 3, 8, 8))
    with pytest.raises(td.TrtdslError):
        refused(net, x)
    feed = torch.randn(3, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    goes_on(net, x, feed)
    assert net.dims == {"N": N}
    assert td.build(net, tmp_path / "cells.engine", check=False).built


def test_a_size_that_is_refused_at_the_end_says_how_to_go_on():
    """The call is in the network, which TensorRT does not take back."""
    net = td.Network()
    x = net.input("x", (N, td.Dim("Q", min=1, max=9)))
    F.linear(x, torch.zeros(4, 5))
    net.output(x * 2, "y")
    with pytest.raises(td.ShapeError, match="the call stays in this td.Network: write it otherwise, from a new one on"):
        net.check_sizes()


def test_a_spec_is_written_anew_and_says_nothing_of_that():
    @td.network(inputs={"x": td.Input((N, td.Dim("Q", min=1, max=9)))})
    def network(x):
        return F.linear(x, torch.zeros(4, 5))

    with pytest.raises(td.ShapeError) as caught:
        td.build(network, "never.engine", check=False)
    assert "new one" not in str(caught.value)


def test_a_cell_that_is_run_again():
    net = td.Network()
    x = net.input("x", (3,))
    net.output(x * 2, "y")
    with pytest.raises(td.UsageError, match=r"input 'x' already: to run a notebook's cell again, run the one with"):
        net.input("x", (3,))
    with pytest.raises(td.UsageError, match=r"two outputs 'y'.*run the one with its td.Network"):
        net.output(x * 3, "y")


def test_an_output_with_the_name_of_an_input():
    @td.network(inputs={"x": td.Input((N,))})
    def network(x):
        return {"x": x * 2}

    with pytest.raises(td.UsageError, match="the output 'x' has the name of an input: call it otherwise, such as 'x_o"):
        network.define()


def test_a_reference_without_forward():
    class Forwards(torch.nn.Module):
        def forwad(self, x):
            return x

    network = td.network(inputs={"x": td.Input((N,))}, reference=Forwards)(lambda x: x * 2)
    with pytest.raises(td.DefinitionError) as caught:
        td.check(network)
    message = str(caught.value)
    assert "the reference Forwards has no method forward (nearest: forwad): a torch.nn.Module computes in" in message
    assert "test_session.py:" in message
