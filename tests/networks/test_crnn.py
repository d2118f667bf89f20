"""CRNN, whose weights are made for the test: equal to torch at odd widths, and its engine builds."""

from pathlib import Path

import pytest
from support import layer_types

import trtdsl as td
from trtdsl.engine.compiling.compiler import compile_engine

FILE = Path(__file__).parents[2] / "networks" / "crnn.py"
SMALL = {"N": (1, 2, 3), "W": (32, 37, 50)}


@pytest.fixture(scope="module")
def weights(made_weights):
    return made_weights("crnn")


def test_equals_its_reference(weights):
    report = td.check(td.load_spec(str(FILE)), weights=weights, dims=SMALL)
    assert report.passed


def test_a_loop_for_each_layer(weights):
    network = td.load_spec(str(FILE)).define(weights=weights)
    types = layer_types(network)
    assert types.count("ITERATOR") == 2
    assert types.count("RECURRENCE") == 4
    assert str(network.outputs["log_probabilities"].shape) == "(W//4 + 1, N, 37)"


def test_engine_builds(weights):
    network = td.load_spec(str(FILE)).define(weights=weights, dims=SMALL)
    assert len(compile_engine(network).data) > 0
