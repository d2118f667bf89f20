"""ST-GCN three ways: the engine on the GPU, the interpreter, and torch."""

from pathlib import Path

import pytest
import torch

import trtdsl as td
from trtdsl.check import compare, make_feeds, named_outputs, profile_points
from trtdsl.engine import engine_of

NETWORKS = Path(__file__).parents[2] / "networks"


@pytest.mark.parametrize("name", ["stgcn", "stgcn_ntu"])
def test_three_ways(name):
    spec = td.load_spec(f"{NETWORKS / 'stgcn.py'}:{name}")
    network = spec.define()
    run = engine_of(network)
    reference = spec.reference_module(spec.open_weights())
    for env in profile_points(network)[:2]:
        feeds = make_feeds(spec.inputs, network, env, torch.Generator().manual_seed(7))
        with torch.inference_mode():
            expected = named_outputs(reference(*feeds.values()), list(network.outputs))
        executed = run(feeds)
        interpreted = td.interpret(network, feeds)
        for output in network.outputs:
            for got, other, what in (
                (executed[output], expected[output], "engine and torch"),
                (executed[output], interpreted[output], "engine and interpreter"),
                (interpreted[output], expected[output], "interpreter and torch"),
            ):
                result = compare(output, got, other)
                assert result.passed, f"{what} differ at {env}: {result}"


def test_check_on_the_engine():
    report = td.check(td.load_spec(str(NETWORKS / "stgcn.py")), on="engine")
    assert report.passed
    assert report.on == "engine"
