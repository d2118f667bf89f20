"""What a network decides is recorded, and taken where its values are accurate or the decision is open."""

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.checking.judging.calls import Call, op_of
from trtdsl.checking.judging.equality import Tolerance
from trtdsl.checking.judging.network_decisions import Order, OwnError, Proposal, Sides, proposals


def test_orders_comparisons_and_roundings_are_recorded():
    network = td.Network()
    x = network.input("x", (2, 4))
    network.output(x.topk(3, 1)[1], "order")
    network.output(x > 0.5, "above")
    network.output(F.floor(x), "steps")
    feed = torch.tensor([[0.1, 0.9, 0.4, 0.6], [3.0, 1.5, 2.0, 0.0]])
    proposal = proposals(network)({"x": feed})
    (order,) = proposal.orders
    assert torch.equal(order.places, torch.tensor([[1, 3, 2], [0, 2, 1]])) and torch.equal(order.keys, feed)
    above, steps = sorted(proposal.sides, key=lambda side: side.result.is_floating_point())
    assert torch.equal(above.result, (feed > 0.5).flatten()) and torch.equal(steps.result, feed.floor().flatten())
    torch.testing.assert_close(above.keys, (feed - 0.5).flatten().double())


def test_samples_of_a_batch_are_found_one_by_one():
    keys = torch.arange(24.0).reshape(6, 4)
    proposal = Proposal([Order(keys, keys.long().argsort(1))], [Sides(None, torch.arange(12) > 5)])
    assert [block.keys.tolist() for block in proposal.order_blocks(3, 4)] == [keys[:3].tolist(), keys[3:].tolist()]
    assert list(proposal.order_blocks(3, 5)) == list(proposal.order_blocks(4, 4)) == []
    assert [len(block.result) for block in proposal.side_blocks(4, bools=True)] == [3]


def error(rms):
    return OwnError(rms, 3 * rms, Tolerance(), torch.float32)


@pytest.mark.parametrize(("part", "right"), [(1.0, True), (1.5, True), (5.0, False), (50.0, False)])
def test_values_are_as_accurate_as_an_output_must_be(part, right):
    torch.manual_seed(0)
    true = torch.randn(8, 40).double()
    own = true + 1e-4 * torch.randn(true.shape)
    theirs = true + part * 1e-4 * torch.randn(true.shape)
    assert (error(1e-4).distance(theirs, own, true, true.abs()) is not None) == right


def sort(values, own):
    x = torch.tensor(values, dtype=torch.float64)
    op = op_of(torch.ops.aten.sort.default, (x, -1, True), {})
    call = Call("sort", None, x.shape, x.argsort(descending=True), torch.tensor(own, dtype=torch.float64), error(0.01))
    return op, call


NEAR = [1.0, 0.97, 0.94, 0.91, 0.88]  # 0.03 apart; 0.06 are open


@pytest.mark.parametrize(
    ("order", "open_"),
    [
        ([0, 1, 2, 3, 4], True),
        ([1, 0, 2, 3, 4], True),
        ([2, 1, 0, 3, 4], True),
        ([1, 2, 0, 3, 4], True),
        ([3, 0, 1, 2, 4], False),
        ([4, 3, 2, 1, 0], False),
        ([0, 1, 2, 4, 4], False),
    ],
)
def test_an_order_may_exchange_only_pairs_that_are_open(order, open_):
    """A chain of near neighbours moves no element further than one decision may."""
    op, call = sort(NEAR, [value + 1e-3 for value in NEAR])
    taken = op.agreeing(torch.arange(5), torch.tensor(order), call)
    assert torch.equal(taken, torch.tensor(order if open_ else [0, 1, 2, 3, 4]))


def test_values_that_were_never_rounded_keep_their_order():
    op, call = sort(NEAR, NEAR)
    assert torch.equal(
        op.agreeing(torch.arange(5), torch.tensor([1, 0, 2, 3, 4]), call, accurate=True), torch.arange(5)
    )
