"""MobileFaceNet, SlowFast and a vision transformer: equal to torch, in half precision too, and their engines build."""

from pathlib import Path

import pytest
import torch

import trtdsl as td
from trtdsl.compiler import compile_engine

FOLDER = Path(__file__).parents[2] / "networks"
SMALL = {"N": (1, 2, 3)}
CLIPS = {"N": (1, 2, 2), "T4": (1, 2, 3), "H": (32, 33, 40), "W": (33, 47, 50)}
NETWORKS = {"mobilefacenet": SMALL, "vit": SMALL, "slowfast": CLIPS}


@pytest.mark.parametrize("name", NETWORKS)
def test_equals_its_reference(name):
    spec = td.load_spec(str(FOLDER / f"{name}.py"))
    assert td.check(spec, dims=NETWORKS[name]).passed


@pytest.mark.parametrize(("precision", "dtype"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
@pytest.mark.parametrize("name", ["mobilefacenet", "vit"])
def test_half_precision_is_as_near_to_float32_as_torchs_autocast(name, precision, dtype):
    """Roundings of some fifty layers add up, in torch as here: neither is nearer to the other than to float32."""
    spec = td.load_spec(str(FOLDER / f"{name}.py"))
    feeds = td.sample_feeds(spec, {"N": 2}, torch.Generator().manual_seed(0))
    (got,) = td.interpret(spec.define(dims={"N": 2}, precision=precision), feeds).values()
    reference = spec.reference_module(spec.open_weights())
    with torch.inference_mode():
        exact = reference(feeds["x"])
        with torch.autocast("cpu", dtype):
            rounded = reference(feeds["x"]).float()
    assert 0 < (got - exact).abs().max() < 2 * (rounded - exact).abs().max()


@pytest.mark.parametrize("name", NETWORKS)
def test_engine_builds(name):
    network = td.load_spec(str(FOLDER / f"{name}.py")).define(dims=NETWORKS[name])
    assert len(compile_engine(network).data) > 0


def test_embeddings_are_unit_vectors_and_differ():
    spec = td.load_spec(str(FOLDER / "mobilefacenet.py"))
    feeds = td.sample_feeds(spec, {"N": 2}, torch.Generator().manual_seed(0))
    got = td.interpret(spec.define(dims=SMALL), feeds)["embedding"]
    assert torch.allclose(got.norm(dim=1), torch.ones(2), atol=1e-5)
    assert (got[0] - got[1]).abs().max() > 0.01
