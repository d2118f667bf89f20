"""Outputs that show nothing, and weights that nothing depends on, are named; an author may allow them."""

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.checking.exercise import weights_without_effect


def check(function, reference, **options):
    class Module(torch.nn.Module):
        def forward(self, x):
            return reference(x)

    spec = td.network(inputs={"x": td.Input((4, 8))}, reference=Module)(lambda x: {"y": function(x)})
    return td.check(spec, **options)


@pytest.mark.parametrize(
    ("network", "reference", "said"),
    [
        (lambda x: x[:, :0], lambda x: {"y": x[:, :0]}, "is empty in every case"),
        (lambda x: F.sqrt(-1 - x.abs()), lambda x: {"y": (-1 - x.abs()).sqrt()}, "has no finite value in any case"),
        (lambda x: F.ones((3,)), lambda x: {"y": torch.ones(3)}, "depends on no input"),
        (lambda x: F.relu(x - 1e6), lambda x: {"y": torch.relu(x - 1e6)}, "is the same whatever is fed"),
    ],
    ids=["empty", "nan", "no input", "constant"],
)
def test_an_output_that_shows_nothing_fails_unless_it_is_allowed(network, reference, said):
    (problem,) = check(network, reference).problems()
    assert problem == f"output 'y' {said}: equal, but nothing is proven (trivial='y' allows it)"
    assert check(network, reference, trivial=["y"]).passed


def test_places_that_are_not_finite_are_reported():
    report = check(lambda x: F.log(x), lambda x: {"y": torch.log(x)})
    assert report.passed
    said = "output 'y' is NaN or infinite in places, in every case: are the inputs what the network expects?"
    assert said in report.unproven
    seldom = check(lambda x: F.log(F.abs(x)), lambda x: {"y": torch.log(x.abs())})  # of ties and sparse values alone
    assert f"output 'y' is NaN or infinite in places, in 2 of {len(seldom.cases)} cases" in seldom.unproven


def test_what_overflows_in_float32_alone_is_reported():
    def shares(x):
        y = (x.abs() + 1) * 1e25  # of which float32 has no squares
        return y * y / (y * y).sum(-1, keepdim=True)

    report = check(shares, lambda x: {"y": shares(x)})
    assert report.passed
    assert any(line.startswith("output 'y' is NaN or infinite in places") for line in report.unproven)


def test_weights_that_no_output_depends_on():
    net = td.Network()
    x = net.input("x", (2, 3))
    a, b, c = (net.constant(torch.ones(3), source=name) for name in ("a.w", "a.b", "c"))
    unused = x + b
    assert unused.shape == (2, 3)
    net.output(x * (a + c), "y")
    assert weights_without_effect(net, ["a.w", "a.b", "c"]) == ["a.b"]
    assert weights_without_effect(net, ["a.w", "a.b", "c"], ["a"]) == []


def test_an_output_that_changes_at_some_sizes_alone():
    """It is fed other values where the factor is not 0, too."""
    N, T = td.Dim("N", min=1, opt=2, max=4), td.Dim("T", min=1, opt=5, max=9)

    class Seldom(torch.nn.Module):
        def forward(self, x):
            return x * (x.shape[0] // x.shape[1])

    spec = td.network(inputs={"x": td.Input((N, T))}, reference=Seldom)(lambda x: x * (x.shape[0] // x.shape[1]))
    report = td.check(spec)
    assert report.passed, report.problems()


def test_an_output_that_a_condition_alone_decides():
    def sign(x):
        return {"y": torch.tensor(1) if x.sum() > 0 else torch.tensor(0)}

    report = check(lambda x: td.cond(x.sum() > 0, lambda: F.tensor(1), lambda: F.tensor(0), ()), sign)
    assert report.passed, report.problems()
