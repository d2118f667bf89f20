"""Loops whose turns cast their slice to half precision, by their programs: docs/traps/builder-loops.md"""

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.core.lazy import passes

X = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0))
WEIGHTS = [torch.randn(size, generator=torch.Generator().manual_seed(1)) for size in ((24, 4), (24, 8), (24,), (24,))]
ALONE = {
    "cast": lambda x: x.half().tanh(),
    "transposed": lambda x: x.transpose(0, 1).half().tanh().transpose(0, 1),
    "reshaped": lambda x: x.reshape(8).half().tanh().reshape(2, 4),
    "twice": lambda x: x.half().tanh() + x.reshape(8).half().sin().reshape(2, 4),
    "to bfloat16": lambda x: x.bfloat16().tanh(),
}
ALSO = {
    "as it is": lambda x: x.half().tanh().float() + x,
    "in another dtype": lambda x: x.half().tanh().float() + x.bfloat16().float(),
}


def sums(turn, dim):
    """Running sums of what a turn gives of its slice."""
    net = td.Network()
    x = net.input("x", X.shape if dim else X.transpose(0, 1).shape)
    with net.current():

        def step(total, slice):
            total = total + turn(slice).float()
            return total, total

        net.output(td.scan(step, torch.zeros(2, 4), x, dim=dim)[1], "y")
    return net, td.evaluate_engine(net, {"x": X if dim else X.transpose(0, 1)})["y"]


def assert_close(got, want):
    torch.testing.assert_close(got, want, atol=0.02, rtol=0)


def of_torch(turn):
    return torch.stack([turn(X[:, t]).float() for t in range(X.shape[1])]).cumsum(0)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("turn", ALONE.values(), ids=ALONE)
def test_what_a_loop_only_casts_is_cast_before_it(turn, dim):
    net, got = sums(turn, dim)
    assert_close(got, of_torch(turn))
    (remark,) = net.graph.remarks
    assert remark.applied and remark.text == "all that the loop goes along is cast before it"


@pytest.mark.parametrize("turn", ALSO.values(), ids=ALSO)
def test_a_slice_that_is_needed_otherwise_is_cast_in_its_turn(turn):
    net, got = sums(turn, 1)
    assert_close(got, of_torch(turn))
    (remark,) = net.graph.remarks
    assert not remark.applied and remark.text == "stays: the slice is needed, too"


def test_a_loop_within_a_loop():
    net = td.Network()
    x = net.input("x", (3, 2, 5, 4))
    with net.current():

        def inner(total, slice):
            return total + slice.half().tanh().float(), None

        def outer(total, part):
            total, _ = td.scan(inner, total, part, dim=1)
            return total, None

        net.output(td.scan(outer, torch.zeros(2, 4), x)[0], "y")
    fed = torch.randn(3, 2, 5, 4, generator=torch.Generator().manual_seed(2))
    assert_close(td.evaluate_engine(net, {"x": fed})["y"], fed.half().tanh().float().sum((0, 2)))


@pytest.mark.parametrize("dim", [0, 1])
def test_a_recurrent_cell_in_half_precision(dim):
    cell = torch.nn.GRUCell(4, 8)
    cell.load_state_dict(dict(zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), WEIGHTS, strict=True)))

    @td.network(inputs={"x": td.Input(("N", 5, 4) if dim else (5, "N", 4)), "h": td.Input(("N", 8))})
    def net(x, h):
        def step(h, x):
            h = F.gru_cell(x, h, *WEIGHTS)
            return h, h

        return td.scan(step, h, x, dim=dim)[1]

    h, states = torch.zeros(2, 8), []
    for t in range(5):
        h = cell(X[:, t], h).detach()
        states.append(h)
    defined = net.define(precision="fp16", dims={"N": 2})
    feeds = {"x": X if dim else X.transpose(0, 1).contiguous(), "h": torch.zeros(2, 8)}
    assert_close(td.evaluate_engine(defined, feeds)["output"], torch.stack(states))


@pytest.mark.parametrize("dim", [0, 1])
def test_the_builder_builds_no_such_loop(dim, monkeypatch):
    """Where this fails, the builder is mended, and the pass is for less bytes alone."""
    monkeypatch.setattr(passes, "PASSES", ())
    with pytest.raises(td.BuildError, match="MyelinCheckException"):
        sums(ALONE["cast"], dim)
