"""Sizes on both sides of a reference's branches: every one that sizes of the ranges reach, and which none reaches."""

import pytest
import torch

import trtdsl as td
from trtdsl.checking.judging.branches import Branches
from trtdsl.checking.judging.isolate import Reference
from trtdsl.checking.tried_sizes import sizes_to_try
from trtdsl.core.tensors.exact import Exact

SHAPE = tuple(td.Dim(name, min=1, opt=6, max=12) for name in "ABC")


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """As many runs as there are branches, however slow the machine is."""
    monkeypatch.setattr("trtdsl.checking.judging.branches.SECONDS", 600.0)


def branches(forward, shape=SHAPE):
    class Module(torch.nn.Module):
        pass

    Module.forward = lambda self, x: forward(x)
    network = td.network(inputs={"x": td.Input(shape)})(lambda x: x * 2).define()
    return Branches(network, Reference(Module, None, Exact()).copied, sizes_to_try(network))


def test_a_branch_inside_of_another_is_reached():
    def forward(x):
        if x.shape[0] == 9:
            return x * 2 if x.shape[1] > 10 else x
        return x

    found = branches(forward).further
    assert {(point["A"] == 9, point["B"] > 10) for point in found} == {(True, False), (True, True)}


def test_both_sides_of_an_order_are_tried_at_its_border():
    found = branches(lambda x: x if x.shape[0] * x.shape[1] > 30 else x * 2).further
    assert {point["A"] * point["B"] for point in found} == {30, 32}


def test_sizes_of_results_are_known():
    (point,) = branches(lambda x: x if torch.cat([x, x[:, 2:]], 1).flatten().shape[0] == 70 else x * 2).further
    assert point["A"] * (2 * point["B"] - 2) * point["C"] == 70


def test_a_side_that_no_size_has_is_said():
    def forward(x):
        if x.shape[1] > 12:
            raise ValueError("too long")
        return x

    found = branches(forward)
    (line,) = found.unreached
    assert "test_branches.py" in line and line.endswith("no size of the ranges has B > 12")
    assert not found.further


@pytest.mark.parametrize("raised", [ValueError, SystemExit])
def test_a_side_that_raises_is_reached(raised):
    def forward(x):
        if x.shape[0] == 9:
            raise raised
        return x

    assert [point["A"] for point in branches(forward).further] == [9]


def test_a_module_that_reads_values_is_followed_so_far():
    def forward(x):
        if x.shape[2] % 7 == 0:
            x = x + 1
        return x if x.sum() > 0 else -x

    assert [point["C"] for point in branches(forward).further] == [7]


def test_what_a_module_keeps_is_not_changed():
    class Keeps(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.last = torch.zeros(1)

        def forward(self, x):
            if x.shape[0] > 4:
                self.last = x
            return x

    network = td.network(inputs={"x": td.Input(SHAPE)})(lambda x: x * 2).define()
    reference = Reference(Keeps, None, Exact())
    Branches(network, reference.copied, sizes_to_try(network))
    assert torch.equal(reference.module.last, torch.zeros(1))


def test_squeezing_in_place_where_there_is_nothing_to_do_leaves_the_process_alive():
    def forward(x):
        y = (x * 2).squeeze_(-1).unsqueeze_(1).squeeze_(1)
        return y if y.shape[0] == 9 else x

    (point,) = branches(forward, (*SHAPE[:2], 3)).further
    assert point["A"] == 9
