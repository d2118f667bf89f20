"""YOLO with its post-processing: equal to torch with greedy suppression, and its engine builds."""

from pathlib import Path

import pytest
import torch

import trtdsl as td
from trtdsl.engine.compiling.compiler import compile_engine

FILE = Path(__file__).parents[2] / "networks" / "yolo.py"
SMALL = {"N": (1, 1, 2), "H32": (4, 4, 5), "W32": (4, 5, 7)}


@pytest.fixture(scope="module")
def weights(made_weights):
    return made_weights("yolo")


def test_equals_its_reference(weights):
    report = td.check(td.load_spec(str(FILE)), weights=weights, dims=SMALL)
    assert report.passed


def test_suppression_has_something_to_do(weights):
    spec = td.load_spec(str(FILE))
    dims = {"N": 2, "H32": 4, "W32": 5}
    feeds = td.sample_feeds(spec, dims, torch.Generator().manual_seed(0))
    got = td.interpret(spec.define(weights=weights, dims=dims), feeds)
    assert (got["number"] > 3).all()
    assert (got["classes"].max(1).values > got["classes"].min(1).values).all()


def test_engine_builds(weights):
    network = td.load_spec(str(FILE)).define(weights=weights, dims={"N": 1, "H32": 4, "W32": 4})
    assert len(compile_engine(network).data) > 0
