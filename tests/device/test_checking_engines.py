"""`td.check(…, on="engine")`: an engine is built, and executed at the check's own sizes and values."""

import torch

import trtdsl as td
import trtdsl.functional as F

N = td.Dim("N", min=1, opt=2, max=5)


class Scores(torch.nn.Module):
    def forward(self, x):
        return {"scores": torch.softmax(x, -1), "best": x.argmax(-1)}


def spec(temperature):
    @td.network(inputs={"x": td.Input((N, 6))}, reference=Scores)
    def scores(x):
        return {"scores": F.softmax(x / temperature, -1), "best": F.argmax(x, -1)}

    return scores


def test_an_engine_is_executed_at_every_size_and_kind_of_values(machine):
    report = td.check(spec(1.0), on="engine").raise_for_mismatch()
    assert report.on == "engine"
    assert "The engine itself was executed" in report.statement
    assert sorted(size["N"] for size in report.sizes) == [1, 2, 3, 4, 5]
    assert report.draws == ["normal", "small", "large", "offset", "ties", "sparse"]


def test_an_engine_that_differs(machine):
    report = td.check(spec(1.01), on="engine")
    assert not report.passed
    assert "output 'scores' differs" in next(iter(report.problems()))


def test_saved_outputs_stand_for_the_reference(machine, tmp_path):
    td.check(spec(1.0), save=tmp_path / "kept.safetensors")
    assert td.check(spec(1.0), on="engine", against=tmp_path / "kept.safetensors").passed
    assert not td.check(spec(1.01), on="engine", against=tmp_path / "kept.safetensors").passed


def test_half_precision(machine):
    td.check(spec(1.0), on="engine", precision="fp16").raise_for_mismatch()
