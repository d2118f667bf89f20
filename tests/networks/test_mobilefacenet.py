"""MobileFaceNet: equal to torch, in half precision too, and its engine builds."""

from pathlib import Path

import pytest
import torch

import trtdsl as td
from trtdsl.engine.compiling.compiler import compile_engine

FILE = Path(__file__).parents[2] / "networks" / "mobilefacenet.py"
SMALL = {"N": (1, 2, 3)}


@pytest.fixture(scope="module")
def spec():
    return td.load_spec(str(FILE))


def test_equals_its_reference(spec):
    assert td.check(spec, dims=SMALL).passed


@pytest.mark.parametrize(("precision", "dtype"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_half_precision_is_as_near_to_float32_as_torchs_autocast(spec, precision, dtype):
    """Roundings of some fifty layers add up, in torch as here: neither is nearer to the other than to float32."""
    feeds = td.sample_feeds(spec, {"N": 2}, torch.Generator().manual_seed(0))
    (got,) = td.interpret(spec.define(dims={"N": 2}, precision=precision), feeds).values()
    reference = spec.reference_module(spec.open_weights())
    with torch.inference_mode():
        exact = reference(feeds["x"])
        with torch.autocast("cpu", dtype):
            rounded = reference(feeds["x"]).float()
    assert 0 < (got - exact).abs().max() < 2 * (rounded - exact).abs().max()


def test_engine_builds(spec):
    assert len(compile_engine(spec.define(dims=SMALL)).data) > 0


def test_embeddings_are_unit_vectors_and_differ(spec):
    feeds = td.sample_feeds(spec, {"N": 2}, torch.Generator().manual_seed(0))
    got = td.interpret(spec.define(dims=SMALL), feeds)["embedding"]
    assert torch.allclose(got.norm(dim=1), torch.ones(2), atol=1e-5)
    assert (got[0] - got[1]).abs().max() > 0.01
