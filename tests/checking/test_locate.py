"""The first call that differs is named itself, on both sides, with both lines."""

import inspect
import json

import pytest
import torch
from torch import nn

import trtdsl as td
import trtdsl.functional as F
from trtdsl.checking.locate import compare_calls, locate_call
from trtdsl.checking.report import CheckReport
from trtdsl.core.tensors.exact import Exact


class Decoder(nn.Module):
    """One layer of a decoder: attention, a residual, a norm, a gated product."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(8, 8, bias=False) for _ in range(4))
        self.norm = nn.LayerNorm(8)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        h = self.norm(x)
        q, k, v = (f(h).reshape(2, 5, 2, 4).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = q @ k.transpose(-1, -2) / 2.0
        mask = torch.ones(5, 5, dtype=torch.bool).tril()
        scores = scores.masked_fill(~mask, -1e4)
        p = torch.softmax(scores, -1)
        x = x + self.o((p @ v).transpose(1, 2).reshape(2, 5, 8))
        return x + self.down(nn.functional.gelu(self.up(x)))


LINES = {}


def at(what, value):
    """Remembers the line of a call."""
    LINES[what] = inspect.currentframe().f_back.f_lineno
    return value


def define(module, *, axis=-1, scale=2.0, transpose=True, approximate="none", residual=True, masked=-1e4):
    net = td.Network()
    w = {name: net.constant(value.detach(), source=name) for name, value in module.state_dict().items()}
    x = net.input("x", (2, 5, 8))
    h = F.layer_norm(x, (8,), w["norm.weight"], w["norm.bias"])
    q, k, v = (F.linear(h, w[f"{name}.weight"]).reshape(2, 5, 2, 4).transpose(1, 2) for name in "qkv")
    scores = at("div", q @ k.transpose(-1, -2) / scale)
    mask = net.constant(torch.ones(5, 5, dtype=torch.bool).tril())
    scores = at("masked_fill", F.masked_fill(scores, ~mask, masked))
    p = at("softmax", F.softmax(scores, axis))
    y = p @ v
    y = at("reshape", (y.transpose(1, 2) if transpose else y).reshape(2, 5, 8))
    y = F.linear(y, w["o.weight"])
    x = at("add", x + y if residual else x - y)
    y = F.linear(x, w["up.weight"], w["up.bias"])
    y = at("gelu", F.gelu(y, approximate=approximate))
    net.output(x + F.linear(y, w["down.weight"], w["down.bias"]), "y")
    return net


@pytest.fixture
def module():
    torch.manual_seed(0)
    return Decoder().eval()


FEEDS = {"x": torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))}


def test_a_right_network_agrees_in_every_call(module):
    report = compare_calls(define(module), FEEDS, module)
    assert report.passed
    assert report.agreed > 15


@pytest.mark.parametrize(
    ("change", "torch_name", "network_name", "line"),
    [
        ({"axis": -2}, "softmax", "softmax", "softmax"),
        ({"scale": 2.5}, "div", "div", "div"),
        ({"approximate": "tanh"}, "gelu", "gelu", "gelu"),
        ({"residual": False}, "add", "sub", "add"),
        ({"masked": -1.0}, "masked_fill", "masked_fill", "masked_fill"),
    ],
)
def test_the_wrong_call_is_named_itself(module, change, torch_name, network_name, line):
    found = compare_calls(define(module, **change), FEEDS, module).difference
    assert found is not None
    assert found.torch.name == torch_name
    assert found.network.location.line == LINES[line]
    assert found.network.location.file == __file__
    source = inspect.getsource(Decoder).split("\n")
    written = source[found.torch.location.line - inspect.getsourcelines(Decoder)[1]]
    assert {"div": "/ 2.0", "add": "x + self.o"}.get(torch_name, torch_name) in written
    assert network_name in str(found)


def test_a_transpose_that_is_missing_is_named(module):
    found = compare_calls(define(module, transpose=False), FEEDS, module).difference
    assert found.torch.name in ("transpose", "reshape")


def test_the_last_call_that_agrees_stands_before_it(module):
    found = compare_calls(define(module, axis=-2), FEEDS, module).difference
    assert found.last_torch.name == "masked_fill"
    assert found.last_network.location.line == LINES["masked_fill"]
    assert found.error > 0.1
    assert "the last that agrees is masked_fill" in str(found)


def test_a_reference_that_works_in_place_is_followed():
    class InPlace(nn.Module):
        def forward(self, x):
            x = x * 2
            x += 1
            return torch.sigmoid(x.relu_())

    def network(activation):
        net = td.Network()
        net.output(F.sigmoid(activation(net.input("x", (4,)) * 2 + 1)), "y")
        return net

    feeds = {"x": torch.tensor([-2.0, -0.3, 0.7, 1.0])}
    assert compare_calls(network(F.relu), feeds, InPlace()).passed
    found = compare_calls(network(F.tanh), feeds, InPlace()).difference
    assert (found.torch.name, found.network.name) == ("relu", "tanh")


def test_a_missing_call_is_reported():
    class Two(nn.Module):
        def forward(self, x):
            return torch.exp(torch.sin(x))

    net = td.Network()
    net.output(F.exp(net.input("x", (4,))), "y")
    found = compare_calls(net, {"x": torch.tensor([-2.0, -0.3, 0.7, 1.0])}, Two()).difference
    assert found.torch.name in ("sin", "exp")
    assert found.network.name == "exp"


NETWORK = """\
import trtdsl as td
import trtdsl.functional as F


@td.network(inputs={"x": td.Input((3, 4))}, reference="reference.py:Model")
def scores(x):
    y = x * 2
    return F.softmax(y, 0) + 1
"""
REFERENCE = """\
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        y = x * 2
        return torch.softmax(y, 1) + 1
"""
EQUAL = """\
import trtdsl as td
import trtdsl.functional as F


@td.network(inputs={"x": td.Input((3, 5))}, reference="reference.py:Model")
def scores(x):
    return F.amax(F.softmax(x + 1.5, 1), 1)
"""
EQUAL_REFERENCE = """\
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(5, 5)
        with torch.no_grad():
            self.linear.weight.copy_(torch.eye(5))
            self.linear.bias.fill_(0.5)

    def forward(self, x):
        return torch.max(torch.softmax(self.linear(x), 1), 1).values
"""


def test_the_command_names_both_lines(tmp_path, command_line):
    (tmp_path / "scores.py").write_text(NETWORK)
    (tmp_path / "reference.py").write_text(REFERENCE)
    trtdsl = command_line(tmp_path)
    said = trtdsl("check", "scores.py", "--layers", code=1).stdout.replace("\n", "")
    assert "first call that differs: softmax at" in said
    assert "scores.py:8 (torch: softmax at" in said
    found = json.loads(trtdsl("check", "scores.py", "--layers", "--json", code=1).stdout)["calls"]["difference"]
    assert (found["network"]["location"][1], found["torch"]["location"][1]) == (8, 7)
    assert found["last_torch"]["name"] == "mul"


def test_nothing_differs_where_the_check_passes(tmp_path, command_line):
    """The network adds one more than the linear layer, which softmax undoes, and has no indices of the greatest."""
    (tmp_path / "scores.py").write_text(EQUAL)
    (tmp_path / "reference.py").write_text(EQUAL_REFERENCE)
    trtdsl = command_line(tmp_path)
    said = trtdsl("check", "scores.py", "--layers").stdout.replace("\n", " ")
    assert "first" not in said
    assert "no call differs" in said
    found = json.loads(trtdsl("check", "scores.py", "--layers", "--json").stdout)
    assert found["calls"]["difference"] is None
    assert found["calls"]["absent_modules"] == ["linear"]


def test_a_cast_to_the_dtype_that_a_tensor_has_is_no_call():
    class Scores(torch.nn.Module):
        def forward(self, x):
            return torch.softmax(x.to(torch.float32), 1) + 1

    net = td.Network()
    net.output(F.softmax(net.input("x", (3, 3)), 0) + 1, "y")
    found = td.compare_calls(net, {"x": torch.tensor([[1.0, 2.0, 0.0]] * 3)}, Scores()).difference
    assert found is not None and found.torch is not None
    assert found.torch.name == "softmax"


def test_an_epsilon_far_below_rounding_is_named(module):
    other = Decoder().eval()
    other.load_state_dict(module.state_dict())
    other.norm.eps = 1.01e-5
    network = define(module)
    network.exact = Exact()
    assert compare_calls(network, FEEDS, other).difference.torch.name == "layer_norm"


def test_a_call_that_is_computed_badly_is_named_where_all_means_the_same():
    class Small(nn.Module):
        def forward(self, x):
            return torch.expm1(x * 2) * 3

    net = td.Network()
    net.output((F.exp(net.input("x", (2, 4)) * 2) - 1) * 3, "y")
    feeds = {"x": torch.tensor([[1e-4, 2e-4, 3e-4, 4e-4]] * 2)}
    found = compare_calls(net, feeds, Small()).difference
    assert (found.torch.name, found.network.name, found.last_torch.name) == ("expm1", "exp", "mul")


@pytest.mark.parametrize(
    "change", [{"dims": {"N": 5}}, {"dims": {"N": -1}}, {"dims": {"N": 10**30}}, {"seed": 1 << 64}]
)
def test_a_report_of_what_no_check_has_is_refused(change):
    @td.network(inputs={"x": td.Input((td.Dim("N", min=1, opt=2, max=4), 3))}, reference=torch.nn.ReLU)
    def relu(x):
        return F.relu(x)

    facts = td.check(relu).to_json()
    for name, value in change.items():
        (facts if name == "seed" else facts["cases"][0])[name] = value
    report = CheckReport.from_json(facts, "r.json")
    with pytest.raises(td.UsageError, match="a case or a seed that no check of relu has"):
        locate_call(relu, relu.define(), report)


def test_what_is_in_the_weights_of_the_layer_that_differs_is_named():
    """A norm that was taken into a convolution, with the statistics of another one."""

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.conv, self.one, self.other = nn.Conv2d(2, 2, 3), nn.BatchNorm2d(2), nn.BatchNorm2d(2)
            self.other.running_mean += 1

        def forward(self, x):
            return self.other(torch.relu(self.one(self.conv(x))))

    def norm(x, w):
        return F.batch_norm(x, w.running_mean, w.running_var, w.weight, w.bias)

    @td.network(inputs={"x": td.Input((1, 2, 5, 5))}, weights=Two().state_dict(), reference=Two)
    def two(x, w):
        return norm(F.relu(norm(F.conv2d(x, w.conv.weight, w.conv.bias), w.other)), w.one)

    found = td.locate_call(two, two.define(exact=True), td.check(two)).difference
    assert found.network.name == "conv2d"
    assert {"conv.weight", "other.running_mean"} <= set(found.weights) and "one.running_mean" not in found.weights
    assert "other.running_mean" in str(found)


@pytest.mark.parametrize("draw", ["ties", "large"])
def test_a_call_is_found_that_differs_for_the_values_of_the_check_that_failed(draw):
    limit, other = (2.5, 2.625) if draw == "ties" else (40.0, 41.0)

    class Model(nn.Module):
        def forward(self, x):
            y = torch.where(x == limit, 9.0, x) if draw == "ties" else x.clamp(-20.0, limit)
            return (y * 2).sum(1)

    def ours(x):
        y = F.where(x == other, 9.0, x) if draw == "ties" else F.clamp(x, -20.0, other)
        return (y * 2).sum(1)

    spec = td.network(inputs={"x": td.Input((4, 6))}, reference=Model)(ours)
    network = spec.define(exact=True)
    report = td.check(spec, network=network)
    failed = [case.draw for case in report.cases if not case.passed]
    assert failed[0] == draw
    difference = td.locate_call(spec, network, report).difference
    assert difference is not None and difference.torch.name == ("eq" if draw == "ties" else "clamp")
