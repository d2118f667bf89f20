"""What is recorded of a network: groups of calls, their ranges, what int8 would take, and precisions by name alone."""

from __future__ import annotations

import json
import re

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.building.recording import Recording
from trtdsl.core.errors import PrecisionWarning
from trtdsl.definition.tuning.precisions import Precisions
from trtdsl.programs.devices import find_device

made = torch.Generator().manual_seed(0)
KERNEL, LARGE = (torch.randn(16, 16, 3, 3, generator=made) / 12 * size for size in (1, 1e5))
X = torch.rand(2, 16, 32, 32, generator=made) + 0.5


@td.network(inputs={"x": td.Input((2, 16, 32, 32))})
def convolutions(x):
    x = F.relu(F.conv2d(x, KERNEL, padding=1))
    y = F.conv2d(x, LARGE, padding=1)
    x = F.relu(y + x * 1e5) / 1e5
    return {"logits": F.relu(F.conv2d(x, KERNEL, padding=1) + x).mean((2, 3))}


def recorded():
    network = convolutions.define(precision=Precisions({}), exact=True)
    return Recording(network, [{"x": X}], lambda phase, done, total: None)


def test_calls_that_share_a_tensor_have_one_dtype_and_products_begin_another():
    recording = recorded()
    groups = [[call.site.key.function for call in group.calls] for group in recording.groups()]
    assert groups[0] == ["conv2d", "relu"]
    assert ["conv2d", "add", "relu", "mean"] in groups
    large = [call for call in recording.calls.values() if not call.fits("float16")]
    assert {call.site.key.function for call in large} >= {"conv2d", "mul", "add", "relu", "div"}
    assert recording.own.decibels()["logits"] > 100


def test_int8_takes_the_operands_of_products_and_sums_by_one_scale_a_tensor():
    recording = recorded()
    first, second, third = (call for call in recording.calls.values() if call.is_product)
    assert first.operands == ("x",) and recording.scale("x", "max", "int8") * 127 < 1.51
    assert list(first.work.values()) == [2 * X.numel() * 16 * 9]
    *_, added = (call for call in recording.calls.values() if len(call.operands) == 2)
    assert third.operands[0] in added.operands
    assert not second.fits("int8") and first.fits("int8")
    device = find_device("orin")
    assert first.gain("int8", device, 1.0) < 0  # as small as it is, the launch behind it costs more


NET = """
import torch

import trtdsl as td
import trtdsl.functional as F

made = torch.Generator().manual_seed(0)
KERNELS = [torch.randn(16, 16, 3, 3, generator=made) / 12 for _ in range(3)]
SHIFT = torch.rand(16, 1, 1, generator=made)


class Model(torch.nn.Module):
    def forward(self, x):
        conv = torch.nn.functional.conv2d
        y = torch.relu(conv(x, KERNELS[0], padding=1))
        y = y + torch.relu(conv(y, KERNELS[1], padding=1))
        return torch.softmax(conv(y + SHIFT, KERNELS[2], padding=1), 1)


@td.network(inputs={"x": td.Input(("N", 16, 12, 12))}, reference=Model)
def net(x):
    y = F.relu(F.conv2d(x, KERNELS[0], padding=1))
    y = y + F.relu(F.conv2d(y, KERNELS[1], padding=1))
    return {"y": F.softmax(F.conv2d(y + SHIFT, KERNELS[2], padding=1), 1)}
"""
DIMS = {"N": (1, 2, 4)}


@pytest.fixture
def spec(tmp_path):
    (tmp_path / "net.py").write_text(NET)
    return td.load_spec(str(tmp_path / "net.py"))


@pytest.mark.parametrize(("name", "dtype", "most"), [("int8", "int8", 127), ("fp8", "float8_e4m3fn", 448)])
def test_a_precision_by_name_is_every_call_that_may_be_so_by_the_greatest_drawn_values(name, dtype, most, spec):
    said = rf"^4 of 8 calls of net compute in {dtype} by .* not representative; `trtdsl precision` chooses "
    with pytest.warns(PrecisionWarning, match=said) as caught:
        network = spec.define(precision=name, dims=DIMS)
    assert len(caught) == 1
    sites = network.policy.calls.sites
    ways = [dtype, "float16", dtype, "float16", dtype, "float16", dtype, "float32"]
    assert [site.lowering for site in sites] == ways
    assert [site.key.function for site in sites if site.lowering == dtype] == ["conv2d", "conv2d", "add", "conv2d"]
    drawn = (td.sample_feeds(spec, {"N": 2}, torch.Generator().manual_seed(seed)) for seed in (0, 1))
    greatest = max(float(feeds["x"].abs().max()) for feeds in drawn)
    assert sites[0].scales == (pytest.approx(greatest / most, rel=1e-3),)
    assert {launch.dtype for launch in td.program(network).launches if launch.kind == "convolution"} == {dtype}


def test_check_build_inspect_view_and_tune_take_it_and_the_manifest_says_so(spec, tmp_path, command_line):
    run = command_line(tmp_path)
    options = ("net.py", "--precision", "int8", "--dim", "N=2")
    for command in (
        ("check", *options),
        ("build", *options, "-o", "net.engine", "--tune", "--tune-seconds", "1"),
        ("inspect", *options, "--program"),
        ("view", *options, "-o", "net.html"),
    ):
        assert len(re.findall("4 of 8 calls of net compute in int8 by the greatest values", run(*command).stderr)) == 1
    manifest = json.loads((tmp_path / "net.engine.json").read_text())
    calls, data = {"int8": 4, "float16": 3, "float32": 1}, "values that were drawn as a check draws them, which are not"
    assert manifest["precisions"]["calls"] == calls and manifest["precisions"]["data"].startswith(data)
    assert manifest["precisions"]["file"] is None and "sqnr" not in manifest["precisions"]
    assert f"4 in int8, 3 in float16, 1 in float32; scales, measured on {data}" in run("inspect", "net.engine").stdout
    assert "is up to date" in run("build", *options, "-o", "net.engine").stdout  # values are drawn alike each time


def test_a_block_goes_before_a_name_and_what_float16_does_not_hold_is_float32():
    @td.network(inputs={"x": td.Input((1, 16, 8, 8))})
    def three(x):
        with td.precision("fp32"):
            x = F.conv2d(x, KERNEL)
        return {"y": F.conv2d(F.conv2d(x, LARGE) / 1e5, KERNEL)}

    said = r"^1 of 4 calls .*test_recording\.py:\d+: conv2d stays in float32, since it has values of \d.*e\+05$"
    with pytest.warns(PrecisionWarning, match=said):
        network = three.define(precision="int8")
    assert [site.lowering for site in network.policy.calls.sites] == ["float32", "float32", "float32", "int8"]
    assert not td.interpret(network, {"x": X[:1, :, :8, :8]})["y"].isnan().any()


def test_a_call_that_has_no_int8_is_float32_too_where_float16_does_not_hold_its_values():
    small = KERNEL * 1e-4

    @td.network(inputs={"x": td.Input((1, 16, 8, 8))})
    def scaled(x):
        return {"y": F.conv2d(x, small) * 1e5}

    with pytest.warns(PrecisionWarning):
        network = scaled.define(precision="int8")
    x = X[:1, :, :8, :8]
    exact = torch.nn.functional.conv2d(x.double(), small.double()) * 1e5
    away = td.interpret(network, {"x": x})["y"] - exact
    assert float(away.square().mean() / exact.square().mean()) < 0.01


def test_a_network_of_which_no_call_may_be_so_is_refused_by_name():
    with pytest.raises(td.UsageError, match=r"no call of lone can compute in int8: those can whose weight is constant"):
        td.network(inputs={"x": td.Input((2, 3))}, name="lone")(lambda x: {"y": F.relu(x)}).define(precision="int8")
    with pytest.raises(td.UsageError, match="and of a @td.network 'int8', 'fp8' or the path of a file, not 'int8'"):
        td.Network(precision="int8")


def test_a_maximum_is_of_int8_and_a_sum_reads_what_it_adds_in_int8():
    @td.network(inputs={"x": td.Input((2, 16, 32, 32))})
    def net(x):
        x = F.relu(F.conv2d(x, KERNEL, padding=1))
        x = F.relu(F.conv2d(x, KERNEL, padding=1) + x)
        return {"y": F.conv2d(F.max_pool2d(x, 2), KERNEL, padding=1)}

    with pytest.warns(PrecisionWarning):
        program = td.program(net, precision="int8")
    (pooled,) = (launch for launch in program.launches if launch.kind == "pooling")
    assert pooled.reads[0].bytes == X.numel() and pooled.writes[0].bytes == X.numel() // 4  # one byte an element
    (added,) = (launch for launch in program.launches if "Add" in launch.name)
    assert sorted(each.bytes for each in added.reads)[-2:] == [X.numel(), 2 * X.numel()]


def test_a_device_that_computes_no_call_in_int8_is_refused_where_int8_was_asked_for(tmp_path, command_line):
    (tmp_path / "net.py").write_text(NET)
    options = ("--precision", "int8", "--dim", "N=2", "--compute-capability", "7.5", "--no-check")
    said = command_line(tmp_path)("build", "net.py", *options, code=4).stderr
    assert re.search(r"net\.py:22: conv2d in int8 is computed in float16 .*: use precision='fp16'\. ", said)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["net.py"]
    config = td.BuildConfig(compute_capabilities=("7.5",))
    with pytest.warns(PrecisionWarning), pytest.raises(td.BuildError, match="is computed in float16"):
        td.program(str(tmp_path / "net.py"), precision="int8", dims=DIMS, config=config)
