"""From naive lowerings a tuning finds what the defaults have learnt: ST-GCN's einsum and MobileFaceNet's PReLU."""

from pathlib import Path

import pytest

import trtdsl as td

NETWORKS = Path(__file__).parents[2] / "networks"
NAIVE = {"einsum": "row_major", "prelu": "layer", "batch_norm": "scale"}


@pytest.mark.heavy
@pytest.mark.parametrize(("name", "function", "launches"), [("stgcn", "einsum", 17), ("mobilefacenet", "prelu", 33)])
def test_the_leads_are_found_from_naive_lowerings(name, function, launches, tmp_path):
    spec = td.load_spec(str(NETWORKS / f"{name}.py"))
    report = td.tune(spec, start=NAIVE, seconds=240, output=tmp_path / "found.tuning.json")
    plain = td.program(spec.tuned(False))
    assert function in {change.function for change in report.changes}
    assert report.after.bytes <= 1.002 * plain.bytes < 0.6 * report.before.bytes
    assert report.before.launches - report.after.launches >= launches
    assert td.check(spec.tuned(report.tuning), sizes="quick").passed
