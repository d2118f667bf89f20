"""The gallery in half precision: what a check of each network allows there, at small sizes."""

from pathlib import Path

import pytest

import trtdsl as td

NETWORKS = Path(__file__).parents[2] / "networks"
SIZES = {
    "stn": {"N": 2},
    "mamba": {"N": 1, "T": 8},
    "crnn": {"N": 1, "W": 64},
    "mobilefacenet": {"N": 1},
    "vit": {"N": 1},
    "ddrnet": {"N": 1, "H": 64, "W": 128},
    "slowfast": {"N": 1, "T": 8, "H": 64, "W": 64},
    "stgcn": {"N": 1},
    "raft_small": {"N": 1, "H8": 16, "W8": 16},
}
LIGHT = ("stn", "mamba", "crnn", "mobilefacenet")


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in LIGHT else pytest.mark.heavy) for n in SIZES])
def test_is_as_accurate_as_torch_in_half_precision(made_weights, name, precision):
    spec = td.load_spec(str(NETWORKS / f"{name}.py"))
    weights = None if spec.weights.exists() else made_weights(name)
    report = td.check(spec, weights=weights, dims=SIZES[name], precision=precision)
    assert report.passed, str(report)
    assert report.cases
