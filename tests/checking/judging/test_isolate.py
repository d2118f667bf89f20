"""A reference shares nothing with the network, and is asked in float64 whatever it does."""

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import TorchDispatchMode

import trtdsl as td
from trtdsl.checking.judging.isolate import Reference as Isolated
from trtdsl.core.tensors.exact import Exact

X = torch.tensor([[1.0, -2.0, 3.0]])


def Reference(module, precision=None):
    return Isolated(lambda: module, precision, Exact())


class Keeps(nn.Module):
    """It counts its calls in a buffer, an attribute and a parameter."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))
        self.seen = []
        self.scale = nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, x):
        self.calls += 1
        self.seen.append(1)
        return x * self.scale + self.calls + len(self.seen)


def test_every_call_finds_the_same_state():
    reference = Reference(Keeps().eval())
    assert torch.equal(reference({"x": X}), X + 2)
    assert torch.equal(reference({"x": X}), X + 2)
    assert torch.equal(reference.exact.of(reference({"x": X}, noise=(0, 2.0**-52))), X.double() + 2)
    assert list(reference.notes) == ["the reference changes its buffer 'calls'"]


@pytest.mark.parametrize("times", [1, 2])
def test_what_is_kept_outside_of_the_module_is_what_torch_computes(times):
    """A table in a cache of all, once of exact values alone: the author's own calls read it afterwards."""
    tables = {}

    class Looks(nn.Module):
        def forward(self, x):
            table = tables.setdefault(len(x), torch.sin(torch.arange(3) / 7)[None])
            table += 1
            return x * table[:, 1:]

    x, sines = torch.ones(1, 2), torch.tensor([[0.0, 1 / 7, 2 / 7]]).sin()
    reference = Reference(Looks().eval())
    for _ in range(times):
        reference({"x": x}, by="meaning")
    torch.testing.assert_close(tables[1], sines + times)
    torch.testing.assert_close(reference({"x": x}, by="own"), sines[:, 1:] + times + 1)


def test_inputs_stay_as_they_are():
    class Adds(nn.Module):
        def forward(self, x):
            x += 1
            return x

    reference, feed = Reference(Adds()), X.clone()
    assert torch.equal(reference({"x": feed}), X + 1)
    assert torch.equal(feed, X)
    assert list(reference.notes) == ["the reference changes its input 'x' in place"]


class Creates(nn.Module):
    """Tensors of float32 in many ways: computed in float64 all the same."""

    def __init__(self):
        super().__init__()
        self.held = torch.full((3,), 0.1)
        self.several = [torch.full((3,), 0.1)]

    def forward(self, x):
        y = torch.zeros(x.shape[-1], dtype=torch.float32) + x.float()
        y = y + torch.arange(3, dtype=torch.float32) / 3 + torch.linspace(0, 1, 3) + torch.tensor(0.1)
        y = y.to(torch.float32) * self.held + self.several[0].to(x.dtype)
        return torch.sin(y) + torch.ones(3).type_as(y) + torch.empty(3).fill_(1.0)


def test_changes_by_the_reference_never_reach_the_network():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("c", torch.ones(3))

        def forward(self, x):
            self.c += 1
            return x * self.c

    given = {"c": torch.ones(3)}
    spec = td.network(inputs={"x": td.Input((2, 3))}, reference=Counts)(lambda x, w: x * (w.c + 1))
    network = spec.define(weights=given)
    assert td.check(spec, weights=given, network=network).passed
    assert torch.equal(given["c"], torch.ones(3))
    given["c"] *= 7  # the caller's own; the network has its copy
    assert torch.equal(td.interpret(network, {"x": torch.ones(2, 3)})["output"], torch.full((2, 3), 2.0))


@pytest.mark.parametrize("as_array", [False, True])
def test_constants_are_the_networks_own(as_array):
    values = torch.ones(3)
    net = td.Network()
    net.output(net.input("x", (3,)) + (values.numpy() if as_array else values), "y")
    values.mul_(5)
    assert torch.equal(td.interpret(net, {"x": torch.zeros(3)})["y"], torch.ones(3))


@pytest.mark.parametrize("precision", [None, "fp16", "bf16"])
@pytest.mark.parametrize("masked", ["bool", "added"])
@pytest.mark.parametrize("encoder", [False, True])
def test_modules_of_attention_compute_what_their_code_says(precision, masked, encoder):
    """Where nothing watches its functions, torch gives NaN for rows that a bool mask hides, and 0 for what it hides."""

    class Attends(nn.Module):
        def __init__(self):
            super().__init__()
            layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
            self.part = nn.TransformerEncoder(layer, 1) if encoder else nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x, hidden):
            if masked == "added":
                hidden = torch.zeros_like(hidden, dtype=x.dtype).masked_fill(hidden, -torch.inf)
            if encoder:
                return self.part(x, src_key_padding_mask=hidden)
            return self.part(x, x, x, key_padding_mask=hidden, need_weights=False)[0]

    torch.manual_seed(0)
    report = td.check(td.from_module(Attends().eval(), {"x": "2,4,8", "hidden": "2,4:bool"}), precision=precision)
    assert report.passed, str(report)
    assert "ties" in str(report)
    assert not any("NaN" in remark for remark in report.unproven)


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("swapped", [False, True])
def test_einsum_of_a_parameter_and_a_result_runs_under_autocast(precision, swapped):
    class Queries(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv1d(4, 4, 1)
            self.q = nn.Parameter(torch.randn(3, 4))

        def forward(self, x):
            y = self.conv(x)
            return torch.einsum("nct,qc->nqt", y, self.q) if swapped else torch.einsum("qc,nct->nqt", self.q, y)

    torch.manual_seed(0)
    spec = td.from_module(Queries().eval(), {"x": "N,4,T"}, dims={"N": (1, 2, 4), "T": (3, 5, 9)})
    assert td.check(spec, precision=precision, sizes="quick").passed


class Seen(TorchDispatchMode):
    """It keeps the names of the operations that dispatch modes see."""

    def __init__(self):
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(func._schema.name)
        return func(*args, **(kwargs or {}))


def test_what_is_read_of_a_tensor_in_loops_keeps_its_exact_value():
    class Reads(nn.Module):
        constant = torch.tensor([0.1, 0.2])

        def forward(self, x):
            above = x > 0
            kept = [x[0, place] for place in range(3) if above[0, place]]
            return {"y": kept[0] * kept[1] * above[0, 0].item(), "half": (x[0] * 0.1).half()[1:] * self.constant}

    reference = Reference(Reads().eval())
    own = reference({"x": X})
    assert own["y"] == 3
    expected = X[0, 1:].double() * 0.1 * Reads.constant.double()
    torch.testing.assert_close(reference.exact.of(own["half"]), expected, rtol=1e-15, atol=0)


def nested(x):
    return (torch.nested.nested_tensor([x[0, :2], x[0]], layout=torch.jagged) * 2)[1]


def subclass(x):
    return TwoTensor(x, x + 1)[0].b


def by_subclass(x):
    return x[TwoTensor(torch.tensor([0]), torch.tensor([0]))].a


def mapped(x):
    return torch.vmap(lambda row: row[1:] * row[0])(x)


def traced(x):
    return make_fx(lambda x: x[0] * 2 + x[0, 1])(x)(x * 2)


def watched(x):
    with Seen() as seen:
        row = x[0]
    return row * len(seen.names)


@pytest.mark.parametrize("forward", [nested, subclass, by_subclass, mapped, traced, watched])
def test_tensors_that_dispatch_to_python_are_read_as_ever(forward):
    class Reads(nn.Module):
        def forward(self, x):
            return forward(x)

    reference = Reference(Reads().eval())
    expected = forward(X)
    assert torch.equal(reference({"x": X}), expected)
    assert torch.equal(reference.exact.of(reference({"x": X})), expected.double())
