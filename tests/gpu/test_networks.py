"""Every network in networks/ three ways: the engine on the GPU, the interpreter, and torch."""

from pathlib import Path

import pytest
import torch

import trtdsl as td
from trtdsl.checking.judging.equality import judge
from trtdsl.checking.judging.outputs import leaves, match
from trtdsl.checking.tried_sizes import sizes_to_try
from trtdsl.core.author import load_module
from trtdsl.definition.spec.spec import NetworkSpec
from trtdsl.engine.engine import engine_of
from trtdsl.interpreter.feeds import make_feeds

NETWORKS = Path(__file__).parents[2] / "networks"
SPECS = [
    spec
    for path in sorted(NETWORKS.glob("*.py"))
    for spec in vars(load_module(path)).values()
    if isinstance(spec, NetworkSpec) and spec.reference is not None
]


kernels = pytest.mark.real_gpu("the numbers of its kernels")


@pytest.fixture
def weights(spec, made_weights):
    """None for the spec's own; those that are not in the repository are made."""
    if spec.weights.is_file():
        return None
    if spec.name == "mamba_130m":
        pytest.skip("the published weights of mamba-130m are not here")
    return made_weights(spec.name)


def three_ways(spec, env_index, weights):
    network = spec.define(weights=weights)
    run = engine_of(network)
    reference = spec.reference_module(spec.open_weights(weights))
    env = sizes_to_try(network)[env_index % len(sizes_to_try(network))]
    feeds = make_feeds(spec.inputs, network, env, torch.Generator().manual_seed(7))
    with torch.inference_mode():
        expected = match(leaves(reference(*feeds.values())), list(network.outputs))
    return run(feeds), td.interpret(network, feeds), expected


def assert_equal(executed, interpreted, expected):
    for output in expected:
        for got, other, what in (
            (executed[output], expected[output], "engine and torch"),
            (executed[output], interpreted[output], "engine and interpreter"),
            (interpreted[output], expected[output], "interpreter and torch"),
        ):
            result = judge(output, got, other)
            assert result.passed, f"{what} differ: {result}"


@kernels
@pytest.mark.parametrize("env_index", [0, 1], ids=["min", "opt"])
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_three_ways(spec, env_index, weights):
    assert_equal(*three_ways(spec, env_index, weights))


@pytest.mark.skipif(not torch.cuda.is_available(), reason=f"torch {torch.__version__} has no CUDA here")
def test_stgcn_three_ways_on_torch_cuda_tensors(tmp_path):
    spec = td.load_spec(str(NETWORKS / "stgcn.py"))
    config = td.BuildConfig(tf32=False)
    engine = td.load_engine(td.build(spec, tmp_path / "stgcn.engine", config=config, check=False).engine)
    feeds = td.sample_feeds(spec, {"N": 2}, torch.Generator().manual_seed(7))
    with torch.inference_mode():
        expected = {"logits": spec.reference_module(spec.open_weights())(feeds["x"])}
    executed = engine(x=feeds["x"].cuda())
    assert executed["logits"].is_cuda
    assert_equal({"logits": executed["logits"].cpu()}, td.interpret(spec.define(), feeds), expected)


@kernels
@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_three_ways_in_half_precision(spec, precision, weights):
    """The engine is within the tolerance that a check has for the precision, wherever the definition itself is.

    The STN and the Mamba loop are not, on the interpreter as little as on a GPU: coordinates and a recurrence make
    much of a rounding.
    """
    interpreted = td.check(spec, precision=precision, weights=weights)
    if not interpreted.passed:
        pytest.skip(f"{spec.name} does not hold {precision} by its definition, which a GPU does not change")
    td.check(spec, on="engine", precision=precision, weights=weights).raise_for_mismatch()


def test_check_on_the_engine():
    report = td.check(td.load_spec(str(NETWORKS / "stgcn.py")), on="engine", dims={"N": 1})
    assert report.passed
    assert report.on == "engine"
