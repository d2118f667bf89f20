"""Activations in several calls, such as x * sigmoid(x): executed with the pass and without, and their programs."""

import math

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
    assert (
        remark.applied and remark.rule == "handwritten activation" and remark.text.endswith(f" is computed as F.{name}")
    )
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
    assert not remark.applied and remark.text.endswith("written: sigmoid is used otherwise, too")
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


# -- choices by the sign -----------------------------------------------------------------------------------------------

NUMBERS = torch.randn(6, 32, generator=torch.Generator().manual_seed(1))
NUMBERS[0, 0], NUMBERS[1, 0], NUMBERS[2, 0], NUMBERS[3] = math.nan, math.inf, -math.inf, 0.0
CHOSEN = {
    "filled": lambda y: y.masked_fill(y < 0, 0.0),
    "relu below": lambda y: torch.where(y < 0, 0.0, y),
    "leaky": lambda y: torch.where(y > 0, y, 0.1 * y),
    "leaky from 0 on": lambda y: torch.where(y >= 0, y, y * 1.5),
    "leaky below": lambda y: torch.where(y < 0, y * -0.25, y),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("write", CHOSEN.values(), ids=CHOSEN)
def test_it_is_one_layer_and_gives_what_torch_gives(write, dtype, monkeypatch):
    net = network(write, dtype)
    got = td.interpret(net, {"x": NUMBERS.to(dtype)})["y"]
    assert "SELECT" not in types(net)
    (remark,) = net.graph.remarks
    assert remark.applied and remark.text.startswith("where(x ") and " is computed as " in remark.text
    monkeypatch.setattr(passes, "PASSES", ())
    before = network(write, dtype)
    assert "SELECT" in types(before)
    want = write(torch.nn.functional.linear(NUMBERS.to(dtype), WEIGHT.to(dtype), BIAS.to(dtype)))
    for value in (got, td.interpret(before, {"x": NUMBERS.to(dtype)})["y"]):
        assert torch.equal(value.isnan(), want.isnan()) and torch.equal(value.isinf(), want.isinf())
        finite = want.isfinite()
        assert_close(value[finite], want[finite], 1e-6 if dtype == torch.float32 else 4e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_it_takes_a_launch_less(dtype, monkeypatch):
    def program(write):
        made = td.program(
            network(lambda y: F.linear(write(y), y.network.constant(WEIGHT.mT.contiguous(), dtype)), dtype)
        )
        return made.launch_count, made.bytes

    got = [program(CHOSEN[name]) for name in ("filled", "leaky")]
    assert got == [program(F.relu), program(F.leaky_relu)]
    monkeypatch.setattr(passes, "PASSES", ())
    for (launches, size), name in zip(got, ("filled", "leaky"), strict=True):
        before = program(CHOSEN[name])
        assert before[0] == launches + 1 and before[1] > size


def test_a_choice_stays_where_it_is_said_why():
    def shared(y):
        above = y > 0
        return torch.where(above, y, 0.1 * y) + above.to(y.dtype)

    net = network(shared)
    assert "SELECT" in types(net)
    (remark,) = net.graph.remarks
    assert not remark.applied and remark.text.endswith("stays as it is written: gt is used otherwise, too")
    net = td.Network()
    net.output(CHOSEN["filled"](net.input("x", X.shape)), "y")
    assert "SELECT" in types(net) and "no product with weights gives x" in net.graph.remarks[0].text


@pytest.mark.parametrize("write", [lambda y: torch.where(y > 0, y, 0.0), lambda y: torch.where(y >= 0, y, 0.0)])
def test_what_makes_0_of_nan_stays_since_a_product_keeps_it(write):
    net = network(write)
    want = write(torch.nn.functional.linear(NUMBERS, WEIGHT, BIAS))
    assert_close(td.interpret(net, {"x": NUMBERS})["y"].nan_to_num(), want.nan_to_num(), 1e-6)
    (remark,) = net.graph.remarks
    assert "SELECT" in types(net) and not remark.applied and "F.relu, which keeps it" in remark.text


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("name", ["filled", "leaky from 0 on"])
def test_the_engine_gives_what_torch_gives(name, dtype):
    net, write = network(CHOSEN[name], dtype), CHOSEN[name]
    got = td.evaluate_engine(net, {"x": NUMBERS[:5].to(dtype)})["y"]
    want = write(torch.nn.functional.linear(NUMBERS[:5].to(dtype), WEIGHT.to(dtype), BIAS.to(dtype)))
    assert torch.equal(got.isnan(), want.isnan()) and torch.equal(got.isinf(), want.isinf())
    assert_close(got[want.isfinite()], want[want.isfinite()], 1e-5 if dtype == torch.float32 else 4e-3)


def test_a_slope_of_0_stays_since_infinity_times_it_is_nan():
    net = network(lambda y: torch.where(y > 0, y, 0.0 * y))
    assert "SELECT" in types(net) and not net.graph.remarks


class Leaky(torch.nn.Module):
    slope = 0.1

    def forward(self, x):
        y = torch.nn.functional.linear(x, SQUARE)
        return torch.where(y > 0, y, y * self.slope)


SQUARE = torch.randn(16, 16, generator=torch.Generator().manual_seed(0)) / 4


@pytest.mark.parametrize(("slope", "passes"), [(0.1, True), (0.10001, False)])
def test_a_slope_that_half_precision_rounds_means_what_was_written(slope, passes):
    def leaky(x):
        y = F.linear(x, SQUARE)
        return F.where(y > 0, y, y * slope)

    spec = td.network(inputs={"x": td.Input((8, 16))}, reference=Leaky)(leaky)
    assert td.check(spec, precision="fp16").passed == passes
