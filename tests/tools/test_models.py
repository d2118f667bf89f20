"""tools/bench/models.py: both roads of a module, the ratios and the tables, and what is missing is named."""

import importlib

import pytest
import torch
from torch import nn

from trtdsl.core.author import load_module

from .test_networks import ROOT, figures


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return load_module(ROOT / "tools" / "bench" / "models.py")


class Clamped(nn.Module):
    """What transformers' decoders do in half precision, where a trace sees one of two paths."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(16, 32)

    def forward(self, x):
        y = self.inner(x)
        if y.dtype == torch.float16 and not torch.isfinite(y).all():
            y = y.clamp(-6e4, 6e4)
        return {"y": (torch.relu(y), None)}


def subject(tool, inputs=None):
    return importlib.import_module("surveyed").Subject("clamped", Clamped, inputs or {"x": "3,16"}, {})


def test_a_module_is_built_in_both_precisions(tool):
    rows = {kind: tool.ours(subject(tool), kind) for kind in tool.KINDS}
    assert rows["fp32"]["launches"] == rows["all fp16"]["launches"] == 1
    assert rows["fp32"]["bytes"] == 4 * (3 * 16 + 16 * 32 + 32 + 3 * 32) == 2 * rows["all fp16"]["bytes"]
    assert "UsageError" in tool.ours(subject(tool, ["3,16", "4"]), "fp32")["refused"]


def test_an_exporter_is_given_tensors_in_order_and_gives_tensors(tool):
    given = subject(tool, {"x": "3,16:float32:1:2"})
    feeds = tool.feeds(given, "all fp16")
    assert feeds["x"].dtype == torch.float16 and feeds["x"].min() >= 1
    assert tool.inputs_of(subject(tool, ["2:int64:0:9", "3", "4:bool"]), "all fp16") == [
        "2:int64:0:9",
        "3:float16",
        "4:bool",
    ]
    x, module = torch.randn(3, 16), Clamped()
    (result,) = tool.Plain(module, ["x"])(x)
    assert torch.equal(result, torch.relu(module.inner(x)))
    assert torch.equal(tool.Plain(module, None)(x)[0], result)


def test_tables_and_the_summary(tool, monkeypatch, tmp_path, capsys):
    document, results = tmp_path / "benchmarks.md", tmp_path / "rows.jsonl"
    document.write_text("\n".join(("before", *tool.PART, "after")))
    monkeypatch.setattr(tool, "DOCUMENT", document)
    monkeypatch.setattr(tool, "MAKERS", {"torch": lambda _: [subject(tool)], "absent_library": None})
    mine = {"fp32": figures(3, 4_000_000, rearranged=10_000), "all fp16": {"refused": "Error: /tmp/no | sorry"}}
    monkeypatch.setattr(tool, "ours", lambda subject, kind: mine[kind])
    monkeypatch.setattr(tool, "theirs", lambda subject, kind: {**figures(2, 5_000_000, memory=4), "exporter": "dynamo"})
    tool.main(["--results", str(results), "--minutes", "0"])
    assert "Not measured: torch clamped, fp32, trtdsl; " in capsys.readouterr().out
    tool.main(["--results", str(results), "--write"])
    written = document.read_text()
    assert "| torch clamped (dynamo) | 3 / 2 | 4.00 / 5.00 | 0.01 / 0.00 | 1.500 | 0.800 | 2.000 | 1.000 |" in written
    assert "| fp32 | 1 | 1.500, 1.500, 1 | 0.800, 0.800, 0 | 2.000, 2.000, 1 | 1.000, 1.000, 0 |" in written
    assert "| torch clamped | trtdsl: Error: /tmp/no " in written and "| all fp16 | 0 |" in written
    assert "absent_library is not installed" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="whole tables"):
        tool.main(["--only", "x", "--write"])
    monkeypatch.setattr(tool, "measured", lambda *_: pytest.fail("it is measured already"))
    tool.main(["--results", str(results), "--write"])
    assert document.read_text() == written
