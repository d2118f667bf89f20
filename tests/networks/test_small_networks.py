"""MobileFaceNet and the vision transformer: equal to torch, in half precision too, and their engines build."""

from pathlib import Path

import pytest
import torch

import trtdsl as td
from trtdsl.build import compile_engine

FOLDER = Path(__file__).parents[2] / "networks"
SMALL = {"N": (1, 2, 3)}


@pytest.mark.parametrize("name", ["mobilefacenet", "vit"])
def test_equals_its_reference(name):
    spec = td.load_spec(str(FOLDER / f"{name}.py"))
    assert td.check(spec, dims=SMALL).passed
    assert td.check(spec, dims={"N": 2}, precision="bf16").passed


@pytest.mark.parametrize("name", ["mobilefacenet", "vit"])
def test_engine_builds(name):
    network = td.load_spec(str(FOLDER / f"{name}.py")).define(dims=SMALL)
    assert len(compile_engine(network).data) > 0


def test_embeddings_are_unit_vectors_and_differ():
    spec = td.load_spec(str(FOLDER / "mobilefacenet.py"))
    feeds = td.sample_feeds(spec, {"N": 2}, torch.Generator().manual_seed(0))
    got = td.interpret(spec.define(dims=SMALL), feeds)["embedding"]
    assert torch.allclose(got.norm(dim=1), torch.ones(2), atol=1e-5)
    assert (got[0] - got[1]).abs().max() > 0.01
