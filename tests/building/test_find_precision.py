"""`td.find_precision`: what overflows is mended without a hint, the budget is met, and bad input writes nothing."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.building.precision_search import as_budget
from trtdsl.checking.judging.evidence import as_tolerances
from trtdsl.definition.tuning.precisions import Precisions

made = torch.Generator().manual_seed(0)
FIRST = torch.randn(16, 3, 3, 3, generator=made) / 5
KERNELS = [torch.randn(16, 16, 3, 3, generator=made) / 12 for _ in range(8)]
LARGE = (3, 4)
WEIGHTS = [torch.randn(64, 64, generator=made) / 8 for _ in range(4)]


@td.network(inputs={"x": td.Input((2, 3, 64, 64))})
def convolutions(x):
    """26 calls, of which two convolutions have values of 2e4 and more."""
    x = F.relu(F.conv2d(x, FIRST, padding=1))
    for index, kernel in enumerate(KERNELS):
        y = F.conv2d(x, kernel * 1e5 if index in LARGE else kernel, padding=1)
        x = F.relu(y + x * 1e5) / 1e5 if index in LARGE else F.relu(y + x)
    return {"logits": x.mean((2, 3))}


@td.network(inputs={"x": td.Input((4, 256, 64))})
def attention(x):
    q, k, v, out = (x @ each for each in WEIGHTS)
    scores = (q * 60) @ (k * 60).mT
    weights = F.softmax(scores / 3600 / 8, -1)
    return {"y": (weights @ v) + out}


@td.network(inputs={"x": td.Input((8, 512, 64))})
def norm(x):
    y = (x @ WEIGHTS[0]) * 120
    y = y / F.sqrt((y * y).sum(-1, keepdim=True) / 64 + 1e-3)
    return {"y": F.gelu(y @ WEIGHTS[1]) @ WEIGHTS[2]}


def is_ruined(spec, feeds):
    """Whether nothing is left of the results where every call computes in float16: NaN, or zeros over an infinity."""
    sites = spec.define(precision=Precisions({})).policy.calls.sites
    low = spec.define(precision=Precisions({site.key: "float16" for site in sites}))
    exact, got = td.interpret(spec.define(), feeds), td.interpret(low, feeds)
    return all(not float(value.norm() / (got[name] - value).norm()) > 4 for name, value in exact.items())


@pytest.mark.parametrize(
    ("spec", "lines"),
    [(convolutions, "conv2d"), (attention, "matmul"), (norm, "mul")],
    ids=["large activations", "attention's logits", "squares of a norm"],
)
def test_what_overflows_is_mended_without_a_hint(spec, lines, tmp_path):
    generator = torch.Generator().manual_seed(1)
    feeds = [{"x": torch.rand(spec.inputs["x"].shape, generator=generator) + 0.5} for _ in range(2)]
    if spec is attention:
        feeds = [{"x": torch.randn(spec.inputs["x"].shape, generator=generator) * 4} for _ in range(2)]
    assert is_ruined(spec, feeds[0])
    path = tmp_path / "found.precision.json"
    (name,) = spec.define().outputs
    report = td.find_precision(spec, data=feeds, budget={name: td.SQNR(45)}, device="orin", output=path)
    assert all(value >= 45 for value in report.decibels["found"].values())
    assert repr(report).startswith(f"PrecisionReport({spec.name}: ") and repr(report).endswith(f"in {path})")
    wide = [line for line in report.lines if line.dtypes != ("float16",)]
    assert any(lines in line.calls and line.greatest > 65504 / 2 for line in wide)
    assert any(line.dtypes == ("float16",) for line in report.lines)
    assert not report.figures["fp32"].beats(report.figures["found"])
    network = spec.define(precision=path)
    exact, got = td.interpret(spec.define(), feeds[1]), td.interpret(network, feeds[1])
    for name, value in exact.items():
        assert 20 * math.log10(float(value.norm() / (got[name] - value).norm())) > 40
    dtypes = {site.lowering for site in network.policy.calls.sites}
    assert "float16" in dtypes and dtypes & {"float32", "bfloat16"}


@td.network(inputs={"x": td.Input(("N", 64))})
def mlp(x):
    return {"y": F.relu(x @ WEIGHTS[0]) @ WEIGHTS[1], "largest": F.argmax(x, -1)}


DIMS = {"N": (1, 8, 32)}


def test_a_metric_an_iterable_and_a_network_that_half_precision_serves(tmp_path):
    data = (torch.randn(8, 64, generator=torch.Generator().manual_seed(seed)) for seed in range(100))
    seen = []

    def cosine(got, exact):
        seen.append(got)
        return float(torch.nn.functional.cosine_similarity(got["y"].double(), exact["y"], dim=-1).mean())

    path = tmp_path / "mlp.precision.json"
    report = td.find_precision(mlp, data=data, metric=cosine, budget=0.999, allow="fp16", dims=DIMS, output=path)
    assert report.samples == 32 and len(seen) >= 64
    assert {line.dtypes for line in report.lines if line.calls} == {("float16",)}
    won = report.figures["fp32"].floor_seconds - report.figures["found"].floor_seconds
    assert math.isclose(sum(line.won for line in report.lines), won, abs_tol=1e-12)
    assert sum(line.launches for line in report.lines) == report.figures["found"].launches
    assert not report.figures["fp16"].beats(report.figures["found"])
    facts = json.loads(path.read_text())
    assert facts["kind"] == "precision" and facts["variants"][0]["measured"]["samples"] == 32
    json.dumps(report.to_json())


def test_of_programs_that_cost_the_same_the_one_with_less_noise_is_taken(tmp_path):
    """Squares above float16's range may be bfloat16, which saves nothing inside of a launch, and loses 14 dB."""

    @td.network(inputs={"x": td.Input((1, 32, 64))})
    def normalized(x):
        x = x * F.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)
        return {"y": F.silu(x @ WEIGHTS[0]) @ WEIGHTS[1]}

    outliers = torch.ones(64).index_fill(0, torch.tensor([5, 40]), 600)
    data = [torch.randn(1, 32, 64, generator=torch.Generator().manual_seed(1)) * outliers]
    report = td.find_precision(normalized, data=data, device="orin", output=tmp_path / "n.precision.json")
    half, found = report.figures["fp16"], report.figures["found"]
    assert (half.bytes, half.floor_seconds) == (found.bytes, found.floor_seconds)
    assert report.decibels["found"]["y"] >= report.decibels["fp16"]["y"]


def test_the_least_number_of_float32_is_a_mask_and_not_a_range(tmp_path):
    """As transformers mask attention: in float16 it is minus infinity, and masks the same."""
    least = torch.tensor(torch.finfo(torch.float32).min)

    @td.network(inputs={"x": td.Input((2, 256, 128)), "keep": td.Input((2, 1, 1, 256), dtype="bool")})
    def masked(x, keep):
        q, k, v = (
            F.linear(x, torch.cat([each, each], 1)).unflatten(-1, (4, 16)).transpose(1, 2) for each in WEIGHTS[:3]
        )
        return {"y": F.scaled_dot_product_attention(q, k, v, attn_mask=F.where(keep, torch.tensor(0.0), least))}

    generator, kept = torch.Generator().manual_seed(1), torch.tensor([100, 256]).reshape(2, 1, 1, 1)
    data = [{"x": torch.randn(2, 256, 128, generator=generator), "keep": torch.arange(256) < kept}]
    report = td.find_precision(masked, data=data, device="orin", output=tmp_path / "m.precision.json")
    assert report.figures["found"].floor_seconds <= report.figures["fp16"].floor_seconds
    assert report.figures["found"].floor_seconds < 0.7 * report.figures["fp32"].floor_seconds
    assert report.decibels["found"]["y"] > 50 and max(line.greatest for line in report.lines) < 1e3


def test_a_folder_is_read_and_the_manifest_and_the_check_say_what_was_measured(tmp_path, command_line):
    (tmp_path / "net.py").write_text(NETWORK)
    folder = tmp_path / "data"
    folder.mkdir()
    for index in range(2):
        np.save(folder / f"{index}.npy", np.random.default_rng(index).normal(size=(512, 256)).astype(np.float32))
    run = command_line(tmp_path)
    said = run(
        "precision", "net.py", "--data", "data", "--budget", "50dB", "--device", "orin", "-o", "net.precision.json"
    )
    assert "float16" in said.stdout and "own SQNR" in said.stdout and "2 samples of data" in said.stdout
    checked = run("check", "net.py", "--precision", "net.precision.json")
    assert "calls that lose most precision:" in checked.stdout and "net.py:17: matmul in float16" in checked.stdout
    run("build", "net.py", "--precision", "net.precision.json", "-o", "net.engine")
    entry = json.loads((tmp_path / "net.engine.json").read_text())["precisions"]
    assert entry["file"] == "net.precision.json" and entry["data"] == "data" and entry["sqnr"]["y"] >= 50
    assert "precision of each call by net.precision.json" in run("inspect", "net.engine").stdout
    measured = (tmp_path / "net.precision.json").read_text()
    (tmp_path / "net.precision.json").write_text(measured.replace('"float16"', '"bfloat16"'))
    run("build", "net.py", "--precision", "net.precision.json", "-o", "net.engine", "--no-check")
    assert "sqnr" not in json.loads((tmp_path / "net.engine.json").read_text())["precisions"], "of other dtypes"
    (tmp_path / "net.precision.json").write_text(measured)
    (tmp_path / "net.py").write_text(NETWORK.replace("manual_seed(0)", "manual_seed(1)"))
    run("build", "net.py", "--precision", "net.precision.json", "-o", "net.engine", "--no-check")
    assert "sqnr" not in json.loads((tmp_path / "net.engine.json").read_text())["precisions"], "of other weights"
    drawn = run("precision", "net.py", "-o", "net.precision.json")
    assert "not representative" in drawn.stdout


NETWORK = """
import torch
import trtdsl as td
import trtdsl.functional as F

w = torch.randn(256, 256, generator=torch.Generator().manual_seed(0)) / 16


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x @ w) @ w


@td.network(inputs={"x": td.Input((512, 256))}, reference=Model)
def net(x):
    return {
        "y": F.relu(x @ w) @ w}
"""


def test_a_metric_scores_integers_and_the_network_may_have_nothing_else(tmp_path):
    @td.network(inputs={"x": td.Input((4096, 64))})
    def classes(x):
        return {"top": F.argmax(F.relu(x @ WEIGHTS[0]) @ WEIGHTS[1], -1)}

    def agreement(got, exact):
        return float((got["top"] == exact["top"]).double().mean())

    data = [torch.randn(4096, 64, generator=torch.Generator().manual_seed(0))]
    options: dict = {"data": data, "metric": agreement, "device": "orin", "output": tmp_path / "classes.precision.json"}
    report = td.find_precision(classes, budget=0.9, **options)
    assert report.budget == {"metric": 0.9} and report.decibels["found"] == {}
    network = classes.define(precision=report.file)
    scores = torch.relu(data[0].double() @ WEIGHTS[0].double()) @ WEIGHTS[1].double()
    alike = float((td.interpret(network, {"x": data[0]})["top"] == scores.argmax(-1)).double().mean())
    assert 0.9 <= alike < 1 and report.figures["found"].bytes < report.figures["fp32"].bytes
    exact = td.find_precision(classes, budget=1.0, **options)
    assert {line.dtypes for line in exact.lines if line.calls} == {("float32",)}, (
        "a rounding makes another the greatest"
    )


def test_a_metric_may_write_in_what_it_is_given(tmp_path):
    def spoils(got, exact):
        for outputs in (got, exact):
            outputs["y"].sigmoid_()
        return 1.0

    data = [torch.randn(8, 64, generator=torch.Generator().manual_seed(0))]
    options: dict = {"data": data, "metric": spoils, "allow": "fp16", "dims": DIMS}
    found = td.find_precision(mlp, budget=0.5, output=tmp_path / "mlp.precision.json", **options).decibels
    network = mlp.define(precision="fp16", dims=DIMS)
    exact = torch.relu(data[0].double() @ WEIGHTS[0].double()) @ WEIGHTS[1].double()
    noise = (td.interpret(network, {"x": data[0]})["y"].double() - exact).square().sum()
    wanted = 10 * float((exact.square().sum() / noise).log10())
    assert found["fp16"]["y"] == pytest.approx(wanted, abs=0.1)


def test_nothing_is_found_that_moves_more_bytes_than_half_precision_that_serves(tmp_path):
    """Casts around an LSTM cost launches, so that float32 has the lower floor: that is said, and not taken."""
    gates = [torch.randn(256, 64, generator=torch.Generator().manual_seed(seed)) / 8 for seed in range(2)]

    @td.network(inputs={"x": td.Input((32, 4, 64))})
    def recurrent(x):
        start = torch.zeros(1, 4, 64)
        return {"y": F.exp(F.lstm(x, (start, start), gates, False, 1, 0.0, False, False, False)[0])}

    data = [torch.randn(32, 4, 64, generator=torch.Generator().manual_seed(0))]
    options: dict = {"data": data, "allow": "fp16", "output": tmp_path / "recurrent.precision.json"}
    report = td.find_precision(recurrent, budget=40, **options)
    found, half, single = (report.figures[name] for name in ("found", "fp16", "fp32"))
    assert single.floor_seconds < half.floor_seconds and single.bytes > half.bytes
    assert found.bytes <= half.bytes and found.floor_seconds <= half.floor_seconds
    (note,) = report.notes
    assert note.startswith("fp32 has the lower floor (") and "moves more bytes than fp16, which meets the" in note
    strict = td.find_precision(recurrent, budget=100, **options)
    assert strict.figures["found"] == single
    assert "fp16 moves fewer bytes, and does not meet the budget" in strict.notes[0]


@td.network(inputs={"x": td.Input((512, 64))})
def close(x):
    return {"y": F.relu(F.linear(F.linear(x * 1e4, WEIGHTS[0]), WEIGHTS[1])) / 1e4}


def test_half_precision_that_values_come_close_to_is_not_taken(tmp_path):
    """docs/cookbook/mixed-precision.md: a call stays a factor of two below its dtype's greatest value."""
    x = torch.randn(512, 64, generator=torch.Generator().manual_seed(0)).clamp(-3, 3)
    path = tmp_path / "close.precision.json"
    report = td.find_precision(close, data=[x], allow="fp16", output=path)
    assert 65504 / 2 < max(line.greatest for line in report.lines) < 65504
    assert report.decibels["fp16"]["y"] > 60  # on this data
    assert any(
        re.search(r"fp16 .*, and is close to its greatest number: .*: linear has \d", note) for note in report.notes
    )
    assert td.interpret(close.define(precision=path), {"x": 2 * x})["y"].isfinite().all()


class Soft(torch.nn.Module):
    def forward(self, x):
        return {"y": torch.log(torch.nn.functional.linear(x, WEIGHTS[0]).abs() + 1e-6), "z": torch.log1p(torch.exp(x))}


@td.network(inputs={"x": td.Input((16, 64))}, reference=Soft)
def soft(x):
    return {"y": F.log(F.abs(F.linear(x, WEIGHTS[0])) + 1e-6), "z": F.log1p(F.exp(x))}


def test_values_outside_of_the_ranges_of_the_data_are_judged_by_meaning_and_given_ones_by_the_budget(tmp_path):
    """An exponential of 12 is infinite in float16, and no value of the data is above 6."""
    x = torch.randn(16, 64, generator=torch.Generator().manual_seed(0))
    path = tmp_path / "soft.precision.json"
    td.find_precision(soft, data=[x], allow="fp16", budget=30, output=path)
    path.write_text(path.read_text().replace('"dtype": "float32"', '"dtype": "float16"'))
    network = soft.define(precision=path)
    assert "float16" in {site.lowering for site in network.policy.calls.sites if site.key.function == "exp"}
    report = td.check(soft, precision=path)
    assert report.passed and any("larger values than its dtypes were found for" in line for line in report.unproven)
    assert td.check(soft, precision=path, feeds={"x": x}).passed
    far = td.check(soft, precision=path, feeds={"x": 20 * x})
    assert not far.passed and "inf" in str(far)


class Doubly(torch.nn.Module):
    def forward(self, x):
        return {"y": torch.exp(x @ WEIGHTS[0]) @ WEIGHTS[1]}


@td.network(inputs={"x": td.Input((64, 64))}, reference=Doubly)
def doubly(x):
    return {"y": F.exp(x @ WEIGHTS[0]) @ WEIGHTS[1]}


def test_given_values_that_leave_the_ranges_of_the_data_fail_the_budget_where_autocast_fails_too(tmp_path):
    x, path = torch.randn(64, 64, generator=torch.Generator().manual_seed(0)), tmp_path / "doubly.precision.json"
    td.find_precision(doubly, data=[x], allow="fp16", output=path)
    path.write_text(path.read_text().replace('"dtype": "float32"', '"dtype": "float16"'))
    network = doubly.define(precision=path)
    assert "float16" in {site.lowering for site in network.policy.calls.sites if site.key.function == "exp"}
    assert not td.interpret(network, {"x": 5 * x})["y"].isfinite().all()
    assert td.check(doubly, precision=path, feeds={"x": x}).passed
    assert not td.check(doubly, precision=path, feeds={"x": 5 * x}).passed


def test_a_check_that_misses_the_budget_says_so_in_decibels(tmp_path):
    x, path = torch.randn(16, 64, generator=torch.Generator().manual_seed(0)), tmp_path / "soft.precision.json"
    found = td.find_precision(soft, data=[x], allow="fp16", budget=30, output=path).decibels["found"]["y"]
    path.write_text(path.read_text().replace('"y": 30.0', f'"y": {found + 2}'))
    (problem,) = td.check(soft, precision=path, feeds={"x": x}).problems()
    assert f"its SQNR is {found:.1f} dB, 2 below its precision's budget" in problem


MASK = torch.zeros(32, 32).masked_fill(torch.ones(32, 32).triu(1).bool(), -torch.inf)


@td.network(inputs={"x": td.Input((2, 4, 32, 16))})
def masked(x):
    return {"y": F.softmax(x @ x.transpose(-1, -2) / 4 + MASK, -1) @ x}


def test_the_figures_of_half_precision_are_those_of_its_name(tmp_path):
    """torch.autocast adds a mask of float32 in float32, and a file says a dtype for the whole call."""
    x = torch.randn(2, 4, 32, 16, generator=torch.Generator().manual_seed(0))
    report = td.find_precision(masked, data=[x], allow="fp16", output=tmp_path / "masked.precision.json")
    program = td.program(masked.define(precision="fp16"))
    assert (report.figures["fp16"].launches, report.figures["fp16"].bytes) == (program.launch_count, program.bytes)
    assert report.figures["found"].bytes <= program.bytes


@td.network(inputs={"x": td.Input((512, 256))})
def cancelling(x):
    same = x @ torch.eye(256)  # a product, which half precision rounds
    mean = same.mean(-1, keepdim=True)
    return {"y": F.relu(x[:, :64] @ WEIGHTS[0]), "variance": (same * same).mean(-1, keepdim=True) - mean * mean}


def test_an_output_without_a_budget_may_be_noise_and_is_said_to_be(tmp_path):
    x = 3 + torch.randn(512, 256, generator=torch.Generator().manual_seed(0)) / 100
    path = tmp_path / "cancelling.precision.json"
    report = td.find_precision(cancelling, data=[x], allow="fp16", budget={"y": 30}, output=path)
    found = report.decibels["found"]["variance"]
    got = td.interpret(cancelling.define(precision=path), {"x": x})["variance"].double()
    exact = x.double().var(-1, correction=0, keepdim=True)
    assert (
        found == pytest.approx(-10 * math.log10((got - exact).square().sum() / exact.square().sum()), abs=0.1)
        and found < 0
    )
    assert any(
        f"without a budget, and whatever it comes to: {found:.1f} dB of 'variance'" in note for note in report.notes
    )
    assert json.loads(path.read_text())["variants"][0]["measured"]["sqnr"]["variance"] == found


def test_samples_for_which_there_is_no_time_are_left_out(tmp_path):
    data = [torch.randn(8, 64, generator=torch.Generator().manual_seed(seed)) for seed in range(8)]
    path = tmp_path / "mlp.precision.json"
    report = td.find_precision(mlp, data=data, dims=DIMS, seconds=1e-6, output=path)
    assert report.samples == 1 and "time for 1 of 8 samples: give more seconds" in report.notes
    assert json.loads(path.read_text())["variants"][0]["measured"]["samples"] == 1


def test_of_a_folder_no_more_is_read_than_is_taken(tmp_path):
    for index in range(40):
        np.save(tmp_path / f"{index:02}.npy", np.ones((4, 64), np.float32) * index)
    (tmp_path / "39.npy").write_bytes(b"nothing that can be read")
    report = td.find_precision(mlp, data=tmp_path, dims=DIMS, output=tmp_path / "mlp.precision.json")
    assert report.samples == 32


def good():
    return torch.zeros(4, 64)


def failing():
    """Samples of a folder that ends while it is read."""
    yield good()
    raise OSError("the disk is gone")


@pytest.mark.parametrize("number", [np.float32(40), np.float64(40), np.int64(40), np.array(40.0), torch.tensor(40.0)])
def test_numbers_of_numpy_and_torch_are_numbers(number):
    assert as_budget(number, ["y"]) == as_budget({"y": td.SQNR(number)}, ["y"]) == {"y": td.SQNR(40)}
    assert json.dumps(td.SQNR(number).decibels) in ("40", "40.0")
    assert as_tolerances(np.float32(0.5), {"y": torch.tensor(0.25)}) == {
        None: td.Tolerance(floor=0.5),
        "y": td.Tolerance(floor=0.25),
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data": []}, "the data has no sample"),
        ({"data": failing()}, r"test_find_precision.py:\d+: the data fails: OSError: the disk is gone"),
        ({"data": [good(), torch.zeros(4, 3)]}, "the feeds do not fit: .*64"),
        ({"data": [{"x": torch.zeros(4, 64).long()}]}, "'x' is int64, not float32"),
        ({"data": [{"x": torch.full((4, 64), math.nan)}]}, "sample 0 of the data: 'x' has NaN in it"),
        ({"data": [{"x": torch.full((4, 64), math.inf)}]}, "output 'y' has no finite value on this data"),
        ({"data": [{"x": good()}]}, "no output has a floating-point value other than 0 on this data"),
        ({"data": [(good(), good())]}, "has 2 parts, and the network 1 inputs"),
        ({"data": "empty"}, "there is no x.npy in"),
        ({"data": "nowhere"}, "there is no folder nowhere"),
        ({"budget": 299}, "float32 itself has"),
        ({"budget": {"logits": 40}}, "there is no output 'logits'"),
        ({"budget": -3}, "decibels between 0 and 300"),
        ({"budget": 400}, "decibels between 0 and 300"),
        ({"output": "mlp.txt"}, "mlp.txt is taken as a precision where its name ends in .json alone"),
        ({"budget": "x", "metric": lambda got, exact: 1.0}, "the least that it may be"),
        (
            {"budget": 0.5, "metric": lambda got, exact: "x"},
            "test_find_precision.py:.* a metric gives a number, not 'x'",
        ),
        ({"budget": 0.5, "metric": lambda got, exact: got["y"]}, "a metric gives a number, not tensor"),
        (
            {"budget": 2.0, "metric": lambda got, exact: 1.0},
            "float32 itself has 1 of the metric, below the budget of 2",
        ),
        ({"budget": math.nan, "metric": lambda got, exact: 1.0}, "the least that it may be, a number, not nan"),
        ({"device": "rtx-9"}, "no device"),
        ({"device": None}, "no device None in the table"),
        ({"allow": "int3"}, "below float32, 'fp16', 'bf16', 'int8', .* not 'int3'"),
        ({"allow": None}, "below float32"),
        ({"allow": "fp32"}, "below float32"),
        ({"seconds": 0}, "more than 0 seconds"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value[:30],
)
def test_bad_input_is_refused_in_one_sentence_and_nothing_is_written(options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    given = {"data": [{"x": torch.randn(4, 64)}], "dims": DIMS, "output": tmp_path / "mlp.precision.json", **options}
    with pytest.raises((td.UsageError, td.FeedError, td.DefinitionError), match=message) as caught:
        td.find_precision(mlp, **given)
    assert "\n" not in caught.value.message
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]
