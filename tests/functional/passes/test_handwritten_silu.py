"""x * sigmoid(x) in two calls: executed with the pass and without, and its program."""

import pytest
import torch
from support import assert_close

import trtdsl as td
import trtdsl.functional as F
from trtdsl.core.lazy import passes

WEIGHT, BIAS = torch.randn(48, 32, generator=torch.Generator().manual_seed(0)), torch.linspace(-2, 2, 48)
X = torch.randn(5, 32, generator=torch.Generator().manual_seed(1))
WRITTEN = {
    "x first": lambda y: y * F.sigmoid(y),
    "sigmoid first": lambda y: F.sigmoid(y) * y,
    "torch": lambda y: torch.mul(y, torch.sigmoid(y)),
}


def network(write, dtype=torch.float32):
    net = td.Network()
    y = F.linear(net.input("x", ("N", 32), dtype), net.constant(WEIGHT.to(dtype)), net.constant(BIAS.to(dtype)))
    net.output(write(y), "y")
    return net


def types(net):
    return [net.definition.get_layer(index).type.name for index in range(net.definition.num_layers)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("write", WRITTEN.values(), ids=WRITTEN)
def test_it_is_computed_as_silu(write, dtype, monkeypatch):
    net = network(write, dtype)
    got = td.interpret(net, {"x": X.to(dtype)})["y"]
    assert types(net) == types(network(F.silu, dtype)) and "ACTIVATION" not in types(net)[:4]
    (remark,) = net.graph.remarks
    assert remark.applied and str(remark).endswith("mul: x * sigmoid(x) is computed as F.silu")
    assert __file__.rpartition("/")[2] in str(remark)
    monkeypatch.setattr(passes, "PASSES", ())
    before = network(write, dtype)
    assert "ACTIVATION" in types(before) and not before.graph.remarks
    want = torch.nn.functional.silu(torch.nn.functional.linear(X.to(dtype), WEIGHT.to(dtype), BIAS.to(dtype)))
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
    assert not remark.applied and remark.text.endswith("layers: sigmoid(x) is used otherwise, too")
    net = td.Network()
    x = net.input("x", (2, 3))
    net.output(x * F.sigmoid(x), "y")
    assert_close(td.interpret(net, {"x": torch.ones(2, 3)})["y"], torch.nn.functional.silu(torch.ones(2, 3)))
    assert "no product with weights gives x" in str(net.graph.remarks[0])


def test_an_authors_own_way_of_silu_stays():
    net = network(lambda y: F.silu(y, lowering="sigmoid"))
    assert "ACTIVATION" in types(net) and net.graph.remarks == []
