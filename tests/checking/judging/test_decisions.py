"""Decisions within torch's own rounding are taken as the network has them, and no others."""

import pytest
import torch
from torch import nn

import trtdsl as td
from trtdsl.checking.judging import calls, decisions
from trtdsl.checking.judging.alternatives import TRIALS
from trtdsl.checking.judging.calls import DECIDING
from trtdsl.checking.judging.evidence import Rules, gather
from trtdsl.checking.judging.isolate import Reference

NEAR = [1.0, 1.0 + 2.0**-23, 2.0, 0.5]  # float32's next value
FAR = [1.0, 1.001, 2.0, 0.5]


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def passes(function, x, got):
    """Whether results of a network pass."""
    names = [f"y{index}" for index in range(len(got))]
    tensors = dict(zip(names, got, strict=True))
    evidence = gather(Reference(Function(function)), {"x": torch.tensor(x)}, names, Rules(), called=DECIDING)
    return all(result.passed for result in evidence.compare(tensors))


def near(x):
    return x * 0.7 * 1.42857143  # 1.000000001 x, which float32 rounds


INDICES = {
    "topk": (lambda x: near(x).topk(3).indices, [2, 1, 0], [2, 0, 1]),
    "topk, the last": (lambda x: near(x).topk(2).indices, [2, 1], [2, 0]),
    "topk, smallest": (lambda x: near(x).topk(2, largest=False).indices, [3, 0], [3, 1]),
    "sort": (lambda x: near(x).sort().indices, [3, 0, 1, 2], [3, 1, 0, 2]),
    "sort, stable": (lambda x: near(x).sort(stable=True).indices, [3, 0, 1, 2], [3, 1, 0, 2]),
    "argsort": (lambda x: near(x).argsort(descending=True), [2, 1, 0, 3], [2, 0, 1, 3]),
    "argmax": (lambda x: near(-(x - 1).abs() - 1).argmax(), 0, 1),
    "argmax of an axis": (lambda x: near(-(x - 1).abs() - 1)[None].argmax(1), [0], [1]),
    "argmin": (lambda x: near((x - 1).abs() + 1).argmin(0, keepdim=True), [0], [1]),
    "max": (lambda x: near(-(x - 1).abs() - 1).max(0).indices, 0, 1),
    "min": (lambda x: near((x - 1).abs() + 1)[None].min(1, keepdim=True).indices, [[0]], [[1]]),
}


@pytest.mark.parametrize("name", INDICES)
def test_the_order_of_near_ties_is_the_networks(name):
    function, first, second = INDICES[name]
    assert passes(function, NEAR, [torch.tensor(first)])
    assert passes(function, NEAR, [torch.tensor(second)])


@pytest.mark.parametrize("name", INDICES)
def test_the_order_of_different_values_is_torchs(name):
    function, first, second = INDICES[name]
    assert passes(function, FAR, [torch.tensor(first)])
    assert not passes(function, FAR, [torch.tensor(second)])


@pytest.mark.parametrize("bad", [[0, 1, 2], [2, 1, 1], [2, 1, 3], [1, 2, 0]])
def test_orders_that_no_near_tie_explains_fail(bad):
    assert not passes(INDICES["topk"][0], NEAR, [torch.tensor(bad)])


def test_the_order_of_exact_values_is_torchs():
    assert not passes(lambda x: x.argsort(), NEAR, [torch.tensor([3, 1, 0, 2])])


@pytest.mark.parametrize("part", ["call", "open", "agreeing", "returned"])
def test_a_mistake_in_the_examination_is_said(monkeypatch, part):
    def fails(*_, **__):
        raise KeyError("a mistake")

    monkeypatch.setattr(calls.Order, part, fails)
    function, first, second = INDICES["topk"]
    with pytest.warns(decisions.DecisionWarning, match=r"topk.*KeyError: 'a mistake'"):
        passes(function, NEAR, [torch.tensor(second)])
    assert passes(function, NEAR, [torch.tensor(first)])  # torch's own order, for which nothing is examined


def test_all_outputs_have_one_order():
    x = torch.tensor(NEAR)

    def rows(x):
        found = near(x).topk(3)
        return x[found.indices] * 1000 + torch.tensor([1.0, 2, 4, 8])[found.indices], found.indices

    values = x * 1000 + torch.tensor([1.0, 2, 4, 8])
    assert passes(rows, NEAR, [values[[2, 1, 0]], torch.tensor([2, 1, 0])])
    assert passes(rows, NEAR, [values[[2, 0, 1]], torch.tensor([2, 0, 1])])
    assert not passes(rows, NEAR, [values[[2, 0, 1]], torch.tensor([2, 1, 0])])
    assert not passes(rows, NEAR, [values[[2, 1, 0]], torch.tensor([2, 0, 1])])


ELEMENTWISE = {
    "gt": (lambda x: near(x) > 1.0, [True, True, True, False], [False, True, True, False]),
    "ge": (lambda x: near(x) >= 1.00000003, [False, True, True, False], [True, True, True, False]),
    "lt of a tensor": (lambda x: near(x) < x * 1.00000003, [True] * 4, [True, False, True, False]),
    "floor": (lambda x: torch.floor(near(x) * 1.00000003), [1.0, 1, 2, 0], [0.0, 1, 2, 0]),
    "ceil": (lambda x: torch.ceil(near(x) * 0.99999999), [1.0, 1, 2, 1], [2.0, 1, 2, 1]),
    "trunc": (lambda x: torch.trunc(near(-x) * 1.00000003), [-1.0, -1, -2, 0], [0.0, -1, -2, 0]),
    "round": (lambda x: torch.round(near(x) * 0.5 * 1.00000003), [1.0, 1, 1, 0], [0.0, 1, 1, 0]),
    "long": (lambda x: (near(x) * 1.00000003).long(), [1, 1, 2, 0], [0, 1, 2, 0]),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_a_value_near_a_bound_is_on_either_side(name):
    function, first, second = ELEMENTWISE[name]
    assert passes(function, NEAR, [torch.tensor(first)])
    assert passes(function, NEAR, [torch.tensor(second)])


def test_a_value_at_a_bound_is_on_torchs_side():
    assert not passes(lambda x: x > 1.0, NEAR, [torch.tensor([True, True, True, False])])
    assert not passes(lambda x: near(x) > 1.5, NEAR, [torch.tensor([True, True, True, False])])


def test_values_after_a_decision_follow_it():
    def routed(x):
        return torch.stack([x * 2, x * 3, x * 5, x * 7])[near(-(x - 1).abs() - 1).argmax()]

    x = torch.tensor(NEAR)
    assert passes(routed, NEAR, [x * 2])
    assert passes(routed, NEAR, [x * 3])
    assert not passes(routed, NEAR, [x * 5])


def test_torchs_own_other_decision_hides_no_error():
    """Torch's float32 chooses another row than float64: its own error is not that of a whole row."""

    def chosen(x):
        sums = torch.stack([x.sum(), x.flip(0).sum() * (1 + 1e-9)])
        return torch.stack([x, -x])[sums.argmax()]

    x = [0.1, 0.7, -0.3, 0.9, 1e-3, 0.2]
    assert passes(chosen, x, [torch.tensor(x)])
    assert passes(chosen, x, [-torch.tensor(x)])
    assert not passes(chosen, x, [torch.tensor(x) * 0.9])
    assert not passes(chosen, x, [torch.zeros(6)])


def test_the_number_of_runs_is_limited():
    """Of hundreds of open decisions, a network may have any; no search tries all."""
    x = torch.rand(400).tolist()
    ran = []

    def compared(x):
        ran.append(x.dtype)
        return x * 0.7 * 1.42857143 > x, x

    right = torch.tensor(x) * 0.7 * 1.42857143 > torch.tensor(x)
    assert passes(compared, x, [right, torch.tensor(x)])
    assert not passes(compared, x, [torch.arange(400) % 5 == 0, torch.tensor(x) * 0.9])
    assert len(ran) <= 2 * TRIALS + 20


def test_a_number_that_becomes_complex_decides_nothing():
    def function(x):
        return x.to(torch.complex64).abs() + torch.ones(4), near(x).topk(2).indices

    assert passes(function, NEAR, [torch.tensor(NEAR) + 1, torch.tensor([2, 0])])
    assert not passes(function, NEAR, [torch.tensor(NEAR) + 2, torch.tensor([2, 0])])


class Steps(nn.Module):
    """Whole numbers of steps, where the steps have another dtype than what is divided."""

    def forward(self, x):
        return torch.floor_divide(torch.floor_divide(x, torch.full((1,), 0.75)), -2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int32])
def test_a_decided_result_has_the_dtype_of_both_operands(dtype):
    sample = (1, 9) if dtype == torch.int32 else None
    assert td.check(td.from_module(Steps(), {"x": td.Input((4, 5), dtype, sample)})).passed
