"""The spatial transformer: equal to torch, its sampling matters, and its engine builds."""

from pathlib import Path

import torch

import trtdsl as td
from trtdsl.engine.compiling.compiler import compile_engine

FILE = Path(__file__).parents[2] / "networks" / "stn.py"


def test_equals_its_reference():
    report = td.check(td.load_spec(str(FILE)))
    assert report.passed
    assert len(report.cases) >= 3


def test_the_image_is_really_transformed():
    spec = td.load_spec(str(FILE))
    feeds = td.sample_feeds(spec, {"N": 3}, torch.Generator().manual_seed(0))
    got = td.interpret(spec.define(), feeds)
    assert got["seen"].shape == feeds["x"].shape
    assert (got["seen"] - feeds["x"]).abs().mean() > 0.1
    assert got["log_probabilities"].exp().sum(1).sub(1).abs().max() < 1e-5


def test_engine_builds():
    assert len(compile_engine(td.load_spec(str(FILE)).define()).data) > 0
