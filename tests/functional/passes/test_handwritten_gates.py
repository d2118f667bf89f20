"""x * sigmoid(x) and x * tanh(softplus(x)) in several calls: executed with the pass and without, and their programs."""

import pytest
import torch
from support import assert_close

import trtdsl as td
import trtdsl.functional as F
from trtdsl.core.lazy import passes

WEIGHT, BIAS = torch.randn(48, 32, generator=torch.Generator().manual_seed(0)), torch.linspace(-2, 2, 48)
X = torch.randn(5, 32, generator=torch.Generator().manual_seed(1))
WRITTEN = {
    "x first": (F.silu, lambda y: y * F.sigmoid(y)),
    "sigmoid first": (F.silu, lambda y: F.sigmoid(y) * y),
    "torch": (F.silu, lambda y: torch.mul(y, torch.sigmoid(y))),
    "mish": (F.mish, lambda y: y * torch.tanh(torch.nn.functional.softplus(y))),
    "tanh first": (F.mish, lambda y: F.tanh(F.softplus(y)) * y),
}


def network(write, dtype=torch.float32):
    net = td.Network()
    y = F.linear(
        net.input("x", (td.Dim("N", min=1, opt=5, max=9), 32), dtype),
        net.constant(WEIGHT.to(dtype)),
        net.constant(BIAS.to(dtype)),
    )
    net.output(write(y), "y")
    return net


def types(net):
    return [net.definition.get_layer(index).type.name for index in range(net.definition.num_layers)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(("function", "write"), WRITTEN.values(), ids=WRITTEN)
def test_it_is_computed_as_the_function(function, write, dtype, monkeypatch):
    net, name = network(write, dtype), function.__name__
    got = td.interpret(net, {"x": X.to(dtype)})["y"]
    assert types(net) == types(network(function, dtype)) and "ACTIVATION" not in types(net)[:4]
    (remark,) = net.graph.remarks
    assert remark.applied and remark.rule == f"handwritten {name}" and remark.text.endswith(f" is computed as F.{name}")
    assert __file__.rpartition("/")[2] in str(remark)
    monkeypatch.setattr(passes, "PASSES", ())
    before = network(write, dtype)
    assert "ACTIVATION" in types(before) and not before.graph.remarks
    want = getattr(torch.nn.functional, name)(torch.nn.functional.linear(X.to(dtype), WEIGHT.to(dtype), BIAS.to(dtype)))
    for value in (got, td.interpret(before, {"x": X.to(dtype)})["y"]):
        assert_close(value, want, 1e-5 if dtype == torch.float32 else 4e-3)


def test_it_stays_where_it_is_said_why():
    def twice(y):
        gate = F.sigmoid(y)
        return y * gate + gate

    net = network(twice)
    want = torch.nn.functional.linear(X, WEIGHT, BIAS)
    assert_close(td.interpret(net, {"x": X})["y"], want * want.sigmoid() + want.sigmoid(), 1e-5)
    (remark,) = net.graph.remarks
    assert not remark.applied and remark.text.endswith("written: sigmoid(x) is used otherwise, too")
    net = td.Network()
    x = net.input("x", (2, 3))
    net.output(x * F.sigmoid(x), "y")
    assert_close(td.interpret(net, {"x": torch.ones(2, 3)})["y"], torch.nn.functional.silu(torch.ones(2, 3)))
    assert "no product with weights gives x" in str(net.graph.remarks[0])


def test_an_authors_own_way_of_silu_stays():
    net = network(lambda y: F.silu(y, lowering="sigmoid"))
    assert "ACTIVATION" in types(net) and net.graph.remarks == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_builder_makes_mish_part_of_a_product(dtype):
    launches = [len(td.program(network(function, dtype)).launches) for function in (F.mish, F.relu)]
    assert launches[0] == launches[1]


@pytest.mark.parametrize(
    "write", [lambda y: y * F.tanh(F.softplus(y, threshold=15)), lambda y: y * F.tanh(F.softplus(y, beta=2))]
)
def test_another_softplus_stays(write):
    net = network(write)
    assert "SELECT" in types(net) and net.graph.remarks == []


def test_mish_of_great_values_is_torchs():
    x = torch.tensor([[-torch.inf, -200.0, -20.0, -1e-3, 0.0, 5.0, 20.0, 90.0, 1e25, torch.inf, torch.nan]])
    net = td.Network()
    net.output(F.mish(F.conv2d(net.input("x", (11, 1, 1, 1)), net.constant(torch.ones(1, 1, 1, 1)))), "y")
    got = td.interpret(net, {"x": x.reshape(11, 1, 1, 1)})["y"].flatten()
    torch.testing.assert_close(got, torch.nn.functional.mish(x[0]), equal_nan=True)
