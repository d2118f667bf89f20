"""`td.find_precision` below float16: meaning, scales, what it costs, and where it is left alone."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.checking.judging.quality import sqnr
from trtdsl.core.errors import PrecisionWarning
from trtdsl.definition.tuning.precisions import PER_TENSOR, Precisions

pytestmark = pytest.mark.long

made = torch.Generator().manual_seed(0)
KERNELS = [torch.randn(64, 64, 3, 3, generator=made) / 24 for _ in range(3)]
KERNELS[1] *= torch.logspace(-3, 0, 64).reshape(-1, 1, 1, 1)  # a scale for each channel
BIASES = [torch.randn(64, generator=made) for _ in range(3)]
IN, OUT = torch.randn(64, 128, generator=made) / 8, torch.randn(64, 128, generator=made) / 11
X = torch.randn(2, 64, 32, 32, generator=made)


class Blocks(torch.nn.Module):
    def forward(self, x):
        conv = torch.nn.functional.conv2d
        x = torch.relu(conv(x, KERNELS[0], BIASES[0], padding=1))
        x = x + torch.relu(conv(x, KERNELS[1], BIASES[1], padding=1))
        x = torch.relu(conv(torch.max_pool2d(x, 2), KERNELS[2], BIASES[2], padding=1))
        return torch.nn.functional.linear(torch.relu(x.flatten(2).mT @ IN), OUT)


@td.network(inputs={"x": td.Input((2, 64, 32, 32))}, reference=Blocks)
def blocks(x):
    x = F.relu(F.conv2d(x, KERNELS[0], BIASES[0], padding=1))
    x = x + F.relu(F.conv2d(x, KERNELS[1], BIASES[1], padding=1))
    x = F.relu(F.conv2d(F.max_pool2d(x, 2), KERNELS[2], BIASES[2], padding=1))
    return {"y": F.linear(F.relu(x.flatten(2).mT @ IN), OUT)}


def everything(spec, scale, dtype="int8"):
    """All calls in a narrow dtype that may be, the others in float16."""
    sites = spec.define(precision=Precisions({})).policy.calls.sites
    dtypes = {site.key: dtype if dtype in site.ways else "float16" for site in sites}
    narrow = [site for site in sites if dtype in site.ways and dtype != "int4"]
    return Precisions(dtypes, {site.key: (scale,) * (2 if site.key.function == "add" else 1) for site in narrow})


def test_convolutions_products_and_sums_in_int8_mean_what_the_module_does():
    precision = everything(blocks, 0.04)
    network = blocks.define(precision=precision)
    dtypes = [site.lowering for site in network.policy.calls.sites]
    assert dtypes.count("int8") == 6
    report = td.check(blocks, precision=precision)
    assert report.passed and any("none was fed" in line for line in report.unproven)
    witnessed = td.check(blocks, precision=precision, on="program")
    assert witnessed.passed, str(witnessed)
    given = td.check(blocks, precision=precision, feeds={"x": X})
    assert given.passed and 20 < given.cases[0].outputs[0].snr_db < 45
    coarse = td.check(blocks, precision=everything(blocks, 1.0), feeds={"x": X})
    assert not coarse.passed


class Alike(torch.nn.Module):
    """Two weights whose greatest numbers are one in float16."""

    def __init__(self):
        super().__init__()
        one, other = (torch.rand(16, 16, 3, 3, generator=torch.Generator().manual_seed(k)) / 12 for k in (1, 2))
        one[0, 0, 0, 0], other[0, 0, 0, 0] = 0.08339, 0.08337
        self.weights = torch.nn.ParameterList([one, other])

    def forward(self, x):
        for weight in self.weights:
            x = torch.nn.functional.conv2d(x, weight, padding=1)
        return x


@td.network(inputs={"x": td.Input((1, 16, 6, 6))}, reference=Alike)
def alike(x):
    one, other = (weight.detach() for weight in Alike().weights)
    return F.conv2d(F.conv2d(x, one, padding=1), other, padding=1)


@pytest.mark.parametrize("precision", ["int8", "fp8"])
def test_weights_whose_scales_round_to_one_number_keep_their_meaning(precision):
    greatest = [weight.half().max() for weight in Alike().weights]
    assert greatest[0] == greatest[1]
    with pytest.warns(PrecisionWarning, match="not representative"):
        report = td.check(alike, precision=precision)
    assert report.passed, str(report)


def beside(x):
    first, second = (F.linear(x, weight) for weight in SQUARES[:2])
    norm = torch.tensor([4.0]).expand(64), torch.tensor([0.01]).expand(64)
    return {
        "sum": first + second,
        "gate": F.relu(x @ SQUARES[2]) * second,
        "again": F.linear(F.linear(x, SQUARES[0]), SQUARES[1]) + F.linear(F.linear(x, SQUARES[2]), SQUARES[0]),
        "norm": F.batch_norm(F.linear(x, SQUARES[1]), *norm),
    }


SQUARES = [torch.randn(64, 64, generator=torch.Generator().manual_seed(k)) / 8 * (k + 1) for k in range(3)]


def views(x):
    pairs = {"view": (x, x.unsqueeze(1)), "twice": (F.relu(x), F.relu(x * 1.0)), "scaled": (x, x * 4)}
    return {
        f"{name}{number}": F.linear(F.linear(each, SQUARES[number] * 20**number), SQUARES[2])
        for name, pair in pairs.items()
        for number, each in enumerate(pair)
    }


@pytest.mark.parametrize("define", [beside, views])
def test_products_in_fp8_of_one_tensor_are_computed_as_they_are_defined(define):
    """docs/traps/builder-fp8.md: the builder makes one of them, and rounds its sums before they have their scale."""
    spec = td.network(inputs={"x": td.Input((128, 64))})(define)
    with pytest.warns(PrecisionWarning):
        network = spec.define(precision="fp8")
    assert any("+" in launch.name for launch in td.program(network).launches)
    x = torch.randn(128, 64, generator=torch.Generator().manual_seed(5))
    expected = td.interpret(network, {"x": x})
    for name, got in td.evaluate_engine(network, {"x": x}).items():
        assert sqnr(got, expected[name].double()) > 30, name


def test_values_whose_scale_float16_does_not_hold_are_not_quantized():
    @td.network(inputs={"x": td.Input((128, 64))})
    def tiny(x):
        return F.linear(x * 1e-5, SQUARES[0])

    said = (
        "no call of tiny can compute in int8: .* the reciprocal of their scale.*: linear takes values of at most 4e-05"
    )
    with pytest.raises(td.UsageError, match=said):
        tiny.define(precision="int8")


def test_fp8_means_what_the_module_does():
    precision = everything(blocks, 0.04, "float8_e4m3fn")
    network = blocks.define(precision=precision)
    assert [site.lowering for site in network.policy.calls.sites].count("float8_e4m3fn") == 6
    assert {launch.dtype for launch in td.program(network).launches} >= {"float8_e4m3fn"}
    report = td.check(blocks, precision=precision, on="program")
    assert report.passed, str(report)
    given = td.check(blocks, precision=precision, feeds={"x": X})
    assert given.passed and 20 < given.cases[0].outputs[0].snr_db < 35


MIXING = [torch.randn(128, 128, generator=made) / 11 for _ in range(3)]


class Mixed(torch.nn.Module):
    causal = False

    def forward(self, x):
        heads = (torch.nn.functional.linear(x, w).unflatten(-1, (2, 64)).transpose(1, 2) for w in MIXING)
        attend = torch.nn.functional.scaled_dot_product_attention
        return attend(*heads, is_causal=self.causal).transpose(1, 2).flatten(2)


class Causal(Mixed):
    causal = True


@td.network(inputs={"x": td.Input((1, 4096, 128))}, reference=Mixed)
def mixed(x):
    return {"y": mixing(x, False)}


@td.network(inputs={"x": td.Input((1, 192, 128))}, reference=Causal)
def causal(x):
    return {"y": mixing(x, True)}


def mixing(x, is_causal, normed=False):
    heads = [F.linear(x, w).reshape(1, x.shape[1], 2, 64) for w in MIXING]
    heads = [F.rms_norm(each, (64,)) if normed and each is not heads[2] else each for each in heads]
    heads = [each.transpose(1, 2) for each in heads]
    return F.scaled_dot_product_attention(*heads, is_causal=is_causal).transpose(1, 2).flatten(2)


class Normed(torch.nn.Module):
    def forward(self, x):
        q, k, v = (torch.nn.functional.linear(x, w).unflatten(-1, (2, 64)) for w in MIXING)
        q, k = (torch.nn.functional.rms_norm(each, (64,)) for each in (q, k))
        attend = torch.nn.functional.scaled_dot_product_attention
        return attend(*(each.transpose(1, 2) for each in (q, k, v))).transpose(1, 2).flatten(2)


@td.network(inputs={"x": td.Input((1, 4096, 128))}, reference=Normed)
def normed(x):
    return {"y": mixing(x, False, normed=True)}


def test_attention_over_many_keys_is_in_fp8_where_that_costs_less_and_moves_no_more(tmp_path):
    """Where norms round queries and keys in launches that there are anyway; not where each needs one of its own."""
    path = tmp_path / "normed.precision.json"
    data = [{"x": torch.randn(1, 4096, 128, generator=made)}]
    options: dict = {"data": data, "allow": ("fp16", "fp8"), "budget": 20, "output": path}
    report = td.find_precision(normed, device="orin", **options)
    assert report.device == "orin" and all("float8_e4m3fn" not in line.dtypes for line in report.lines)  # it has none
    apart = td.find_precision(mixed, **options | {"output": tmp_path / "mixed.precision.json"})
    assert "float8_e4m3fn" not in str(apart.lines)
    report = td.find_precision(normed, **options)
    dtypes = {name: line.dtypes for line in report.lines for name in line.calls}
    assert dtypes["scaled_dot_product_attention"] == ("float8_e4m3fn",) and dtypes["linear"] == ("float16",)
    found, half = report.figures["found"], report.figures["fp16"]
    assert found.floor_seconds < 0.7 * half.floor_seconds and found.bytes < half.bytes
    assert [
        each.dtype for each in td.program(normed.define(precision=str(path))).launches if each.kind == "attention"
    ] == ["float8_e4m3fn"]
    checked = td.check(normed, precision=str(path), feeds=data[0])
    assert checked.passed and 20 < checked.cases[0].outputs[0].snr_db < 35


@pytest.mark.parametrize("spec", [causal, replace(mixed, inputs=causal.inputs)], ids=["causal", "whole"])
def test_attention_in_fp8_means_what_the_module_does_and_its_kernel_computes_so(spec):
    sites = spec.define(precision=Precisions({})).policy.calls.sites
    attends = [site.key for site in sites if site.key.function == "scaled_dot_product_attention"]
    dtypes = {site.key: "float8_e4m3fn" if site.key in attends else "float16" for site in sites}
    precision = Precisions(dtypes, dict.fromkeys(attends, (0.02,)))
    assert "float8_e4m3fn" in {each.dtype for each in td.program(spec.define(precision=precision)).launches}
    report = td.check(spec, precision=precision, on="program", feeds={"x": torch.randn(1, 192, 128, generator=made)})
    assert report.passed and 20 < report.cases[0].outputs[0].snr_db < 35, str(report)
    wrong = replace(spec, reference=Mixed if spec is causal else Causal)
    assert not td.check(wrong, precision=precision).passed


def test_with_one_scale_a_weight_nothing_is_computed_behind_a_convolution():
    precision = everything(blocks, 0.04, PER_TENSOR)
    report = td.check(blocks, precision=precision, on="program")
    assert report.passed, str(report)
    given = td.check(blocks, precision=precision, feeds={"x": X})
    assert given.passed and 20 < given.cases[0].outputs[0].snr_db < 45
    program = td.program(blocks.define(precision=precision))
    convolutions = [launch for launch in program.launches if launch.kind == "convolution"]
    assert [(each.dtype, each.epilogue) for each in convolutions] == [("int8", ("bias", "relu"))] * 3
    first = next(launch for launch in program.launches if launch.kind == "product")
    assert program.tensors[first.writes[0].tensor].dtype == "int8" and first.epilogue == ("relu", "quantize")


ROWS = [torch.randn(1024, 1024, generator=made) / 32 for _ in range(2)]


class Token(torch.nn.Module):
    def forward(self, x):
        linear = torch.nn.functional.linear
        return torch.sigmoid(linear(torch.relu(linear(x, ROWS[0])), ROWS[1]))


class Shifted(Token):
    def forward(self, x):
        return super().forward(x * 1.0001)


@td.network(inputs={"x": td.Input((1, 1024))}, reference=Token)
def token(x):
    return {"y": F.sigmoid(F.linear(F.relu(F.linear(x, ROWS[0])), ROWS[1]))}


def test_the_weights_of_few_rows_are_in_int4_where_that_is_within_the_budget(tmp_path):
    path = tmp_path / "token.precision.json"
    data = [{"x": torch.randn(1, 1024, generator=made)} for _ in range(2)]
    options = {"data": data, "allow": ("fp16", "int8", "fp8", "int4"), "device": "orin", "output": path}
    report = td.find_precision(token, budget=20, **options)
    assert {line.dtypes for line in report.lines if line.calls} == {("float16", "int4")}
    assert report.figures["found"].bytes < 0.3 * report.figures["fp16"].bytes
    assert 20 < report.decibels["found"]["y"] < 35
    checked = td.check(token, precision=str(path), feeds=data[0])
    assert checked.passed, str(checked)
    built = td.build(token, tmp_path / "token.engine", precision=str(path), check=False)
    assert built.manifest["precisions"]["sqnr"]["y"] == pytest.approx(report.decibels["found"]["y"])
    wrong = td.check(replace(token, reference=Shifted), precision=str(path), feeds=data[0])
    assert not wrong.passed and "in exact arithmetic" in str(wrong)  # noise of 25 dB hides no meaning
    high = td.find_precision(token, budget=40, **options)
    assert not any("int4" in line.dtypes for line in high.lines)


def test_one_tensor_is_quantized_once_and_channels_keep_their_digits():
    network = blocks.define(precision=everything(blocks, 0.04))
    definition = network.definition
    types = [definition.get_layer(index).type.name for index in range(definition.num_layers)]
    assert types.count("QUANTIZE") == 6  # x, relu, relu, the pool's result, and both operands of the linear products
    one = torch.nn.functional.conv2d(X, KERNELS[1])
    net = td.Network(precision=single(0.04))
    with net.current():
        net.output(conv(net.input("x", X.shape)), "y")
    got = td.interpret(net, {"x": X})["y"]
    noise = ((got - one).square().mean((0, 2, 3)) / one.square().mean((0, 2, 3))).log10() * 10
    assert float(noise.max()) < -30  # with one scale for all, the least channel would be lost


def conv(x):
    return F.conv2d(x, KERNELS[1])


def single(scale):
    net = td.Network(precision=Precisions({}))
    with net.current():
        conv(net.input("x", X.shape))
    (site,) = net.policy.calls.sites
    return Precisions({site.key: "int8"}, {site.key: (scale,)})


DEEP = [torch.randn(256, 256, 3, 3, generator=made) / 48 for _ in range(2)]


class Deep(torch.nn.Module):
    def forward(self, x):
        conv = torch.nn.functional.conv2d
        return torch.tanh(conv(torch.relu(conv(x, DEEP[0], padding=1)), DEEP[1], padding=1))


@td.network(inputs={"x": td.Input((1, 256, 28, 28))}, reference=Deep)
def deep(x):
    return {"y": F.tanh(F.conv2d(F.relu(F.conv2d(x, DEEP[0], padding=1)), DEEP[1], padding=1))}


def test_the_search_takes_int8_where_it_wins_within_the_budget(tmp_path):
    path, data = tmp_path / "deep.precision.json", [{"x": torch.randn(1, 256, 28, 28, generator=made)}]
    options = {"data": data, "allow": ("fp16", "int8"), "device": "orin", "output": path}
    report = td.find_precision(deep, budget=30, **options)
    assert report.figures["found"].floor_seconds < 0.9 * report.figures["fp16"].floor_seconds
    assert 30 <= report.decibels["found"]["y"] < 50
    assert any("int8_per_tensor" in line.dtypes for line in report.lines)
    calls = json.loads(path.read_text())["variants"][0]["calls"]
    assert any(call["dtype"].startswith("int8") and call["scales"] for call in calls)
    assert td.check(deep, precision=path, feeds=data[0]).passed
    high = td.find_precision(deep, budget=60, **options)
    assert not any("int8" in dtype for line in high.lines for dtype in line.dtypes)


@td.network(inputs={"x": td.Input((1, 8, 16, 16))})
def small(x):
    return {"y": F.relu(F.conv2d(x, KERNELS[0][:8, :8]))}


def test_what_int8_does_not_make_faster_is_left_in_half_precision(tmp_path):
    path = tmp_path / "small.precision.json"
    data = [torch.randn(1, 8, 16, 16)]
    report = td.find_precision(small, data=data, allow=("fp16", "int8"), budget=20, output=path)
    assert not any("int8" in dtype for line in report.lines for dtype in line.dtypes)


@pytest.mark.parametrize(
    ("scales", "message"),
    [((), "variants.0.: 'calls' has one in int8 without scales"), ((0.04, 0.04), "does not fit small")],
    ids=["none", "two"],
)
def test_a_file_whose_scales_do_not_fit_is_refused(scales, message, tmp_path):
    path = tmp_path / "small.precision.json"
    td.find_precision(small, data=[torch.randn(1, 8, 16, 16)], budget=20, output=path)
    facts = json.loads(path.read_text())
    facts["variants"][0]["calls"][0] |= {"dtype": "int8", "scales": list(scales)}
    path.write_text(json.dumps(facts))
    with pytest.raises(td.UsageError, match=message):
        small.define(precision=path)


def test_a_kernel_for_each_channel_of_a_sequence_stays_in_half_precision():
    kernels = torch.randn(8, 1, 4, generator=made)

    @td.network(inputs={"x": td.Input((1, 8, 16))})
    def taps(x):
        return {"y": F.conv1d(x, kernels, groups=8)}

    network = taps.define(precision=everything(taps, 0.05))
    assert {site.lowering for site in network.policy.calls.sites} == {"int8"}
    x = torch.randn(1, 8, 16, generator=made)
    got = td.interpret(network, {"x": x})["y"].float()
    torch.testing.assert_close(got, torch.nn.functional.conv1d(x, kernels, groups=8), atol=0.1, rtol=0.05)
    assert {launch.dtype for launch in td.program(network).launches} <= {"float16", "float32", "int8"}


class Turned(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.linear(torch.relu(torch.nn.functional.linear(x, IN.t())), IN)


@pytest.mark.parametrize("precision", ["int8", "fp8"])
def test_weights_that_lie_transposed_mean_what_they_are(precision):
    @td.network(inputs={"x": td.Input((4, 64))}, reference=Turned)
    def turned(x):
        return F.linear(F.relu(F.linear(x, IN.t())), IN)

    with pytest.warns(PrecisionWarning, match="not representative"):
        report = td.check(turned, precision=precision)
    assert report.passed, report
