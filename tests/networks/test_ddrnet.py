"""DDRNet-23-slim, whose weights are made for the test: equal to torch at odd sizes, and its engine builds."""

from pathlib import Path

import pytest
import torch

import trtdsl as td
from trtdsl.core.author import load_module
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


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_its_engine_in_half_precision_rearranges_less_than_a_twentieth(weights, dtype):
    """Weights and images of half precision at 512 × 1024, where the exporters' engines move 153,022,502 bytes."""
    halved = load_module(ROOT / "tools" / "bench" / "networks.py").halved
    spec, low = halved(td.load_spec(str(ROOT / "networks" / "ddrnet.py")), weights, dtype)
    program = td.program(spec.define(weights=low, dims={"N": 1, "H": 512, "W": 1024}, profiles=[]))
    assert program.rearranged_bytes < 0.05 * program.bytes  # 5.9 % with a channel of zeros for the first convolution
    assert program.bytes < 153_022_502
    assert program.launch_count <= 80
