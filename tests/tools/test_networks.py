"""tools/bench/networks.py: rows are kept, each with what it depends on, and the ratios are of these rows."""

import json
from pathlib import Path

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.core.author import load_module

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tool():
    return load_module(ROOT / "tools" / "bench" / "networks.py")


def figures(launches, moved, rearranged=0, memory=8, engine=9):
    parts = {"launches": launches, "bytes": moved, "limit": moved / 1.25, "rearranged": rearranged, "memory": memory}
    return {"definition": 0.1, "build": 0.2, "floor": 0.3, "engine": engine, **parts}


ROWS = {
    "trtdsl, fp32": figures(3, 90, rearranged=9),
    "trtdsl, all fp16": figures(2, 50),
    "trtdsl, all bf16": {"refused": "UnsupportedError: no"},
    "torch.onnx, TorchScript, fp32": figures(4, 120, memory=4),
    "torch.onnx, TorchScript, fp16": {"refused": "RuntimeError: no"},
    "torch.onnx, dynamo, fp32": figures(6, 100, memory=16),
    "torch.onnx, dynamo, fp16": figures(4, 100),
    "torch.onnx, dynamo, bf16": figures(4, 100),
}


def test_the_limit_is_what_products_and_residuals_move(tool):
    network = td.Network()
    image, other = network.input("image", (1, 8, 16, 16)), network.input("other", (1, 8, 16, 16))
    kernel, weight = torch.ones(8, 8, 3, 3) / 72, torch.ones(8, 8, 1, 1) / 8
    y = F.relu(F.conv2d(image, network.constant(kernel), padding=1) + other)  # the residual is part of its launch
    y = F.interpolate(y, scale_factor=2)
    network.output(F.conv2d(y, network.constant(weight)), "y")
    small, large = 8 * 16 * 16 * 4, 8 * 32 * 32 * 4
    program = td.program(network)
    assert tool.limit(program) == (3 * small + 8 * 8 * 9 * 4) + (2 * large + 8 * 8 * 4)
    moved = sum(launch.bytes for launch in program.launches if launch.kind in ("rearranging", "resize", "pointwise"))
    assert program.bytes == tool.limit(program) + moved


def test_ratios_are_to_the_least_of_each_figure_of_both_exporters(tool):
    lines = tool.ratios({"net": ROWS}, ("fp32", "all fp16", "all bf16")).splitlines()
    assert lines[2] == "| net | fp32 | 0.750 | 0.900 | 2.000 | 1.000 | 10.0% | 1.25 |"  # 3/4, 90/100, 8/4, 9/9 and 9/90
    assert lines[3] == "| net | all fp16 | 0.500 | 0.500 | 1.000 | 1.000 | 0.0% | 1.25 |"
    assert lines[4] == "| net | all bf16 | refused | | | | | |"
    alone = {"trtdsl, fp32": ROWS["trtdsl, fp32"], "torch.onnx, dynamo, fp32": {"refused": "no"}}
    assert "| net | fp32 | not measured" in tool.ratios({"net": alone}, ("fp32",))
    alone["torch.onnx, TorchScript, fp32"] = {"refused": "no"}
    assert "| net | fp32 | no exporter" in tool.ratios({"net": alone}, ("fp32",))


def test_a_run_goes_on_where_it_stopped_and_writes_whole_tables_only(tool, monkeypatch, tmp_path, capsys):
    document, results = tmp_path / "benchmarks.md", tmp_path / "rows.jsonl"
    text = "".join(f"{name}\n{begin}\nold\n{end}\n" for name, (begin, end) in tool.PARTS.items())
    document.write_text(text)
    monkeypatch.setattr(tool, "DOCUMENT", document)
    monkeypatch.setattr(tool, "NAMES", ("stn",))
    monkeypatch.setattr(tool, "ours", lambda spec, weights, sizes, kind, device: figures(2, 50))
    monkeypatch.setattr(tool, "exported", lambda spec, weights, sizes, *how: figures(4, 100))
    options = ["stn", "--results", str(results)]
    tool.main([*options, "--only", "trtdsl"])
    assert "Not measured: stn: torch.onnx, TorchScript, fp32" in capsys.readouterr().out
    tool.main([*options, "--only", "trtdsl", "--write"])
    assert "Not measured: stn: torch.onnx, TorchScript, fp32; " in document.read_text()
    assert "| stn | fp32 | not measured |" in document.read_text()
    with pytest.raises(SystemExit, match="whole tables"):
        tool.main(["mamba", "--only", "nothing", "--write"])
    tool.main([*options, "--write"])
    written = document.read_text()
    assert "old" not in written
    assert "| stn | fp32 | 0.500 | 0.500 | 1.000 | 1.000 | 0.0% | 1.25 |" in written
    assert len(results.read_text().splitlines()) == 11
    monkeypatch.setattr(tool.Networks, "measured", lambda *_: pytest.fail("it is measured already"))
    tool.main([*options, "--write"])
    assert document.read_text() == written
    assert {json.loads(line)["commit"].startswith("torch.onnx") for line in results.read_text().splitlines()} == {
        True,
        False,
    }


@pytest.mark.parametrize(("changed", "again"), [("commit", "trtdsl"), ("reference", "torch.onnx")])
def test_rows_of_another_commit_or_reference_are_measured_again(tool, monkeypatch, tmp_path, changed, again, capsys):
    results = tmp_path / "rows.jsonl"
    monkeypatch.setattr(tool, "ours", lambda spec, weights, sizes, kind, device: figures(2, 50))
    monkeypatch.setattr(tool, "exported", lambda spec, weights, sizes, *how: figures(4, 100))
    tool.main(["stn", "--results", str(results)])
    if changed == "commit":
        monkeypatch.setattr("measured.commit", lambda: "another")
    else:
        monkeypatch.setattr(tool.Networks, "content", lambda self, name: "another")
    before = len(results.read_text().splitlines())
    tool.main(["stn", "--results", str(results)])
    added = [json.loads(line)["road"] for line in results.read_text().splitlines()[before:]]
    assert added
    assert all(road.startswith(again) for road in added)
