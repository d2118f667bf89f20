"""Half precision after torch.autocast: which functions run low, and whole networks against torch under autocast."""

from __future__ import annotations

import pytest
import torch
from support import layer_types

import trtdsl as td
import trtdsl.functional as F
from trtdsl.definition.precision import FLOAT32, LOW, WIDEST, as_precision
from trtdsl.definition.tuning.precisions import Precisions
from trtdsl.engine.compiling.compiler import compile_engine

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


def test_the_lists_name_existing_functions():
    for name in LOW | FLOAT32 | WIDEST:
        assert hasattr(F, name), name
    assert not LOW & FLOAT32
    assert not WIDEST & (LOW | FLOAT32)


@pytest.mark.parametrize("precision", DTYPES)
def test_functions_run_in_the_dtype_that_autocast_gives_them(precision):
    net = td.Network(precision=precision)
    low = DTYPES[precision]
    x = net.input("x", (2, 3, 8, 8))
    y = F.conv2d(x, net.constant(torch.ones(4, 3, 3, 3)), net.constant(torch.ones(4)))
    assert y.dtype == low
    assert F.relu(y).dtype == low
    assert F.max_pool2d(y, 2).dtype == low
    assert F.softmax(y, 1).dtype == torch.float32
    assert F.layer_norm(y, (6,)).dtype == torch.float32
    assert (y**2).dtype == torch.float32
    assert y.sum().dtype == torch.float32
    assert (y + x[:, :1, 1:-1, 1:-1]).dtype == torch.float32
    assert (F.softmax(y, 1) @ y.transpose(-2, -1)).dtype == low
    assert F.matmul(x, x.long().float()).dtype == low
    assert F.addcmul(x[:1], x, 1.0).dtype == torch.float32
    assert F.argmax(y, 1).dtype == torch.int64
    q = y.flatten(2)
    assert F.scaled_dot_product_attention(q, q, q).dtype == low


def test_without_a_precision_nothing_changes():
    for precision in (None, "fp32"):
        net = td.Network(precision=precision)
        y = F.linear(net.input("x", (2, 3)), net.constant(torch.ones(4, 3)))
        assert y.dtype == torch.float32
        net.output(y, "y")
        assert "CAST" not in layer_types(net)


def test_the_layers_floor_takes_dtypes_as_they_are():
    import trtdsl.layers as L

    net = td.Network(precision="fp16")
    assert L.softmax(net.input("x", (2, 3), "float16"), 1).dtype == torch.float16
    assert L.matrix_multiply(net.input("a", (2, 3)), net.input("b", (3, 2))).dtype == torch.float32


def test_inputs_and_outputs_keep_their_dtypes():
    net = td.Network(precision="fp16")
    x = net.input("x", (2, 3))
    net.output(F.linear(x, net.constant(torch.ones(4, 3))), "y")
    assert net.outputs["y"].dtype == torch.float32
    got = td.interpret(net, {"x": torch.full((2, 3), 1 / 3)})["y"]
    assert got.dtype == torch.float32
    assert torch.equal(got, got.half().float())  # computed in half precision
    assert torch.equal(got, (torch.full((2, 3), 1 / 3).half().float() @ torch.ones(3, 4)).half().float())


CONVOLUTIONS = ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]


@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_in_half_precision_build_and_round_once(name, precision):
    """Products of the rounded operands, summed in float32 and rounded; builders have no bfloat16 deconvolution."""
    low, ndim = DTYPES[precision], int(name[-2])
    generator = torch.Generator().manual_seed(0)
    x, weight, bias = (
        torch.randn(shape, generator=generator) for shape in ((2, 8, *(5,) * ndim), (8, 8, *(3,) * ndim), (8,))
    )
    net = td.Network(precision=precision)
    function = getattr(F, name)
    y = function(net.input("x", ("N", 8, "A", *(5,) * (ndim - 1))), net.constant(weight), net.constant(bias), stride=2)
    assert y.dtype == low
    net.output(y, "y")
    expected = getattr(torch, name)(*(tensor.to(low).float() for tensor in (x, weight, bias)), stride=2)
    got = td.interpret(net, {"x": x})["y"]
    assert torch.equal(got, got.to(low).float())
    assert (got - expected).abs().max() <= 1.01 * torch.finfo(low).eps * expected.abs().max()
    net = td.Network(precision=precision)
    net.output(function(net.input("x", x.shape), net.constant(weight), net.constant(bias), stride=2), "y")
    assert len(compile_engine(net).data) > 0


def test_an_unknown_precision():
    with pytest.raises(
        td.UsageError,
        match=r"precision is 'fp32', 'fp16' or 'bf16' .* 'int8', 'fp8' or the path of a file, not 'int4'; `trtdsl pre",
    ):
        td.Network(precision="int4")
    with pytest.raises(td.UsageError, match=r"not 'FP16' \(nearest: fp16\); `trtdsl"):
        td.Network(precision="FP16")


@pytest.mark.parametrize("precision", DTYPES)
def test_a_network_against_its_reference_under_autocast(small, precision):
    spec = td.load_spec(str(small / "small.py"))
    report = td.check(spec, precision=precision)
    assert report.passed
    network = spec.define(precision=precision)
    types = layer_types(network)
    assert "CAST" in types
    convolution = next(
        network.definition.get_layer(k) for k in range(network.definition.num_layers) if types[k] == "CONVOLUTION"
    )
    assert network.backend.torch_dtype(convolution.get_output(0).dtype) == DTYPES[precision]
    float32 = td.check(spec)
    worst = [max(o.max_abs for case in r.cases for o in case.outputs) for r in (report, float32)]
    assert worst[0] > worst[1]  # it did run low


@pytest.mark.parametrize("precision", DTYPES)
def test_attention_under_autocast(precision):
    torch.manual_seed(0)
    module = torch.nn.MultiheadAttention(16, 4).eval()
    net = td.Network(precision=precision)
    x = net.input("x", (5, "N", 16))
    w = {name: net.constant(value.detach()) for name, value in module.named_parameters()}
    result, weights = F.multi_head_attention_forward(
        x, x, x, 16, 4, w["in_proj_weight"], w["in_proj_bias"], None, None, False, 0.0,
        w["out_proj.weight"], w["out_proj.bias"], False,
    )  # fmt: skip
    assert result.dtype == DTYPES[precision]
    net.output(result, "y")
    net.output(weights, "weights")
    feed = torch.randn(5, 3, 16)
    got = td.interpret(net, {"x": feed})
    with torch.inference_mode(), torch.autocast("cpu", DTYPES[precision]):
        expected, expected_weights = module(feed, feed, feed)
    tolerance = 5e-3 if precision == "fp16" else 4e-2
    assert (got["y"] - expected.float()).abs().max() < tolerance * expected.abs().max()
    assert (got["weights"] - expected_weights.float()).abs().max() < tolerance


def test_a_loop_has_one_precision_for_all_calls_inside():
    """They follow autocast's lists in it, and what is carried is as it is there."""
    weight = torch.randn(16, 16, generator=torch.Generator().manual_seed(0)) / 4

    class Steps(torch.nn.Module):
        def forward(self, x):
            h = torch.tanh(x[:, 0])
            for t in range(1, 5):
                h = torch.sigmoid(torch.nn.functional.linear(h, weight)) + x[:, t]
            return torch.relu(h)

    @td.network(inputs={"x": td.Input((2, 5, 16))}, reference=Steps)
    def steps(x):
        def step(h, part):
            return F.sigmoid(F.linear(h, weight)) + part, ()

        h, _ = td.scan(step, F.tanh(x[:, 0]), x[:, 1:].transpose(0, 1))
        return {"y": F.relu(h)}

    sites = steps.define(precision=Precisions({})).policy.calls.sites
    assert [site.key.function for site in sites] == ["tanh", "scan", "relu"]
    products = []
    for dtype in ("float32", "float16"):
        precision = Precisions({sites[1].key: dtype})
        launches = td.program(steps.define(precision=precision)).launches
        products += {each.dtype for each in launches if each.kind == "product"}
        assert td.check(steps, precision=precision).passed
    assert products == ["float32", "float16"]


def test_a_loop_over_constants_does_not_compute_as_the_loop_before_it():
    """It takes no operand that has a precision, so no file names it."""
    weight = torch.eye(4)

    @td.network(inputs={"x": td.Input((3, 4))})
    def two(x):
        def step(h, part):
            return F.linear(h, weight) + part, ()

        first, _ = td.scan(step, x[0], x)
        inside = []

        def again(h, part):
            inside.append(F.linear(h, weight).dtype)
            return h + part, ()

        td.scan(again, torch.zeros(4), torch.ones(3, 4))
        assert inside == [torch.float32]
        return {"y": first}

    sites = two.define(precision=Precisions({})).policy.calls.sites
    (loop,) = (site.key for site in sites if site.key.function == "scan")
    two.define(precision=Precisions({loop: "float16"}))


@td.network(inputs={"x": td.Input((4, 4, 32)), "mask": td.Input((4, 4))})
def mixed(x, mask):
    """A call of each list, of none, of another floating-point dtype beside it, in a loop and made of others."""
    weights = [torch.randn(32, 32, generator=torch.Generator().manual_seed(n)) / 6 for n in range(3)]
    y = F.linear(F.tanh(x), weights[0])
    y = F.softmax(F.relu(y) @ y.mT + mask, -1) @ y
    y = F.multi_head_attention_forward(
        *(y.transpose(0, 1),) * 3, 32, 4, torch.cat(weights), None, None, None, False, 0.0, weights[1], None, False
    )[0].transpose(0, 1)
    y, _ = td.scan(lambda h, part: (F.tanh(F.linear(h, weights[2]) + F.exp(part)), ()), F.cat([x, y], 1)[:, 0], x)
    return {"y": F.cumsum(F.linear(y, weights[0]), 0)}


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_calls_that_are_named_compute_as_autocast_has_them(precision):
    named = mixed.define(precision=Precisions({}, low=as_precision(precision)))
    dtypes = {site.key: site.lowering for site in named.policy.calls.sites}
    assert len(set(dtypes.values())) == 2
    feeds = td.sample_feeds(mixed, {}, torch.Generator().manual_seed(0))
    wanted = td.interpret(mixed.define(precision=precision), feeds)["y"]
    for network in (named, mixed.define(precision=Precisions(dtypes))):
        assert torch.equal(td.interpret(network, feeds)["y"], wanted)
