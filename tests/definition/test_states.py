"""States of a network: what the next run takes for them, and what it cannot take, at the author's line."""

import pytest
import torch

import trtdsl as td
from trtdsl.core.errors import FeedNameError


def written(after, dtype="float32"):
    @td.network(inputs={"x": td.Input((3,)), "sum": td.State((3,), dtype, sample=(0, 3))})
    def running(x, sum):
        return after(x, sum)

    return running


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_state_keeps_its_dtype(dtype):
    outputs = written(lambda x, sum: {"next_sum": sum.to(torch.float32) + x}, dtype).define().outputs
    assert outputs["next_sum"].dtype == getattr(torch, dtype)


@pytest.mark.parametrize(
    ("dtype", "after", "message"),
    [
        ("float32", lambda x, sum: {"y": sum + x}, "the state 'sum' needs an output 'next_sum', which the next run"),
        ("float32", lambda x, sum: {"next_sum": sum[:2]}, r"has the shape \(3,\), and 'next_sum' \(2,\)"),
        ("int64", lambda x, sum: {"next_sum": sum + x}, r"is int64, and 'next_sum' float32: say .to\(torch.int64\)"),
        ("float32", lambda x, sum: {"next_sum": sum > x}, "is float32, and 'next_sum' bool"),
        ("float32", lambda x, sum: {"next_sum": 5}, "output 'next_sum' must be a td.Tensor, not int"),
    ],
)
def test_what_no_run_can_take(dtype, after, message):
    with pytest.raises(td.DefinitionError, match=message) as caught:
        written(after, dtype).define()
    assert caught.value.location.file == __file__


def test_a_single_step_is_fed_its_state():
    """Where nothing has written it: a session and td.Generator begin with zeros, one step does not guess."""
    network, x = written(lambda x, sum: {"next_sum": sum + x}).define(), torch.ones(3)
    said = "the state 'sum' is read before anything has written it: feed zeros to the first step, and 'next_sum'"
    for step in (td.interpret, td.evaluate_engine):
        with pytest.raises(FeedNameError, match=said):
            step(network, {"x": x})
        assert torch.equal(step(network, {"x": x, "sum": torch.zeros(3)})["next_sum"], x)


def test_a_network_written_by_hand():
    """A state of another shape went through unseen, and one without an output too."""
    net = td.Network("running")
    x, total = net.input("x", (3,)), net.add_input("sum", td.State((3,)))
    net.output(total + x, "y")
    for use in (td.program, td.Generator):
        with pytest.raises(td.DefinitionError, match="the state 'sum' needs an output 'next_sum'") as caught:
            use(net)
        assert caught.value.location.file == __file__
    with pytest.raises(td.DefinitionError, match=r"has the shape \(3,\), and 'next_sum' \(2,\)"):
        net.output(total[:2], "next_sum")
    net.output(total + x, "next_sum")
    assert net.states == {"sum": "next_sum"} and td.program(net).launches
    with pytest.raises(td.UsageError, match="the network has an input 'sum' already"):
        net.add_input("sum", td.State((3,)))
