"""How near each tensor is to torch: by networks of which it is known where they differ."""

import pytest
import torch
from torch import nn

import trtdsl as td
import trtdsl.functional as F
from trtdsl.checking.judging.isolate import Reference as Running
from trtdsl.checking.locate import Located, located
from trtdsl.core.tensors.exact import Exact


class Reference(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return torch.tanh(self.second(torch.relu(self.first(x)) * 2))


def measured(write):
    torch.manual_seed(0)
    reference = Reference().eval()
    net = td.Network()
    w = {name: net.constant(value.detach(), source=name) for name, value in reference.state_dict().items()}
    net.output(write(net.input("x", (3, 4)), w), "y")
    found = Located(
        net, {"x": torch.randn(3, 4)}, Running(lambda: reference, None, Exact(), values=True), equal=False
    ).nearness()
    return {name: (each.state, each.error) for name, each in found.items()}


def right(x, w):
    x = F.relu(F.linear(x, w["first.weight"], w["first.bias"])) * 2
    return F.tanh(F.linear(x, w["second.weight"], w["second.bias"]))


def test_an_equal_network_agrees_everywhere():
    found = measured(right)
    assert {state for state, _ in found.values()} <= {"agrees", "within", "unseen"}
    assert found["y"][0] == "agrees" and found["y"][1] < 1e-6
    assert all(error is None or error < 1e-6 for _, error in found.values())


def test_differences_that_follow_from_the_first_are_marked():
    def wrong(x, w):
        x = F.relu(F.linear(x, w["first.weight"], w["first.bias"])) * 3
        return F.tanh(F.linear(x, w["second.weight"], w["second.bias"]))

    found = measured(wrong)
    states = {state: [name for name in found if found[name][0] == state] for state in ("agrees", "differs", "behind")}
    assert states["differs"] == ["mul"] and "relu" in states["agrees"]
    assert "y" in states["behind"]


def test_an_equal_network_that_computes_otherwise_differs_nowhere():
    class Scaled(nn.Module):
        def forward(self, x):
            return torch.exp(x) * 6

    def otherwise(x):
        return (F.exp(x) * 2) * 3

    inputs = {"x": td.Input((td.Dim("N", min=1, max=2), 3))}
    spec = td.network(inputs=inputs, reference=Scaled)(otherwise)
    found = located(spec, spec.define(), td.check(spec, sizes="quick")).nearness()
    assert {each.state for each in found.values()} <= {"agrees", "within", "unseen"}


def test_a_report_of_other_dimensions_is_refused():
    class Double(nn.Module):
        def forward(self, x):
            return x * 2

    one = td.network(inputs={"x": td.Input((td.Dim("N", min=1, max=2),))}, reference=Double)(lambda x: x * 2)
    two = td.network(inputs={"x": td.Input((td.Dim("M", min=1, max=2),))}, reference=Double)(lambda x: x * 2)
    with pytest.raises(td.UsageError, match="no case"):
        located(two, two.define(), td.check(one))
