"""DDRNet-23-slim, whose weights are made for the test: equal to torch at odd sizes, and its engine builds."""

from pathlib import Path

import pytest

import trtdsl as td
from trtdsl.engine.compiling.compiler import compile_engine

ROOT = Path(__file__).parents[2]
ODD = {"N": 1, "H": (64, 97, 100), "W": (65, 66, 130)}


@pytest.fixture(scope="module")
def weights(made_weights):
    return made_weights("ddrnet")


def test_equals_its_reference(weights):
    report = td.check(td.load_spec(str(ROOT / "networks" / "ddrnet.py")), weights=weights, dims=ODD)
    assert report.passed
    assert len(report.cases) >= 4


def test_sizes_keep_their_names(weights):
    network = td.load_spec(str(ROOT / "networks" / "ddrnet.py")).define(weights=weights)
    assert str(network.outputs["scores"].shape) == "(N, 19, (H + 7)//8, (W + 7)//8)"
    network.check_sizes()


def test_engine_builds(weights):
    network = td.load_spec(str(ROOT / "networks" / "ddrnet.py")).define(weights=weights, dims=ODD)
    assert len(compile_engine(network).data) > 0
