"""From naive lowerings a tuning finds what the defaults have learnt: MobileFaceNet's PReLU."""

from pathlib import Path

import pytest

import trtdsl as td

NETWORKS = Path(__file__).parents[2] / "networks"
NAIVE = {"prelu": "layer", "batch_norm": "scale"}


@pytest.mark.heavy
def test_the_leads_are_found_from_naive_lowerings(tmp_path):
    spec = td.load_spec(str(NETWORKS / "mobilefacenet.py"))
    report = td.tune(spec, start=NAIVE, seconds=240, output=tmp_path / "found.tuning.json")
    plain = td.program(spec.tuned(False))
    assert "prelu" in {change.function for change in report.changes}
    assert report.after.bytes <= 1.002 * plain.bytes < 0.6 * report.before.bytes
    assert report.before.launches - report.after.launches >= 33
    assert td.check(spec.tuned(report.tuning), sizes="quick").passed
