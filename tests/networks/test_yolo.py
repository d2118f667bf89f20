"""YOLO with its post-processing: equal to torch with greedy suppression, and its engine builds."""

from pathlib import Path

import pytest
import torch

import trtdsl as td
from trtdsl.core.author import load_module
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


def test_without_suppression_it_equals_the_detector(weights):
    spec = td.load_spec(f"{FILE}:without_suppression")
    assert td.check(spec, weights=weights, dims=SMALL).passed


# What the engines of torch.onnx's exporters do without the suppression, whose loop tracing writes as the sample decides
# it: launches, bytes moved, activation memory and bytes of the engine.
EXPORTED = {
    torch.float32: (94, 236_146_944, 44_569_600, 16_271_996),
    torch.float16: (97, 122_713_760, 38_566_400, 11_327_172),
    torch.bfloat16: (96, 122_099_360, 38_668_800, 11_081_244),
}


@pytest.mark.parametrize("dtype", EXPORTED)
def test_without_suppression_its_engine_moves_nine_tenths_of_the_exported_ones_bytes(weights, dtype):
    spec = td.load_spec(f"{FILE}:without_suppression")
    if dtype != torch.float32:
        spec, weights = load_module(FILE.parents[1] / "tools" / "bench" / "networks.py").halved(spec, weights, dtype)
    program = td.program(spec.define(weights=weights, dims={"N": 1, "H32": 20, "W32": 20}, profiles=[]))
    launches, moved, memory, engine = EXPORTED[dtype]
    assert program.launch_count <= launches - 5
    assert program.bytes < 0.9 * moved
    assert program.memory <= memory
    assert program.engine_bytes <= engine
    assert program.rearranged_bytes < 0.11 * program.bytes  # a quarter, with slices in all blocks


def test_its_engine_needs_less_memory_than_the_traced_one(weights):
    """At 640 × 640, where the TorchScript-based exporter's has 98 launches and needs 36,377,600 bytes."""
    program = td.program(
        td.load_spec(str(FILE)).define(weights=weights, dims={"N": 1, "H32": 20, "W32": 20}, profiles=[])
    )
    assert program.launch_count <= 98
    assert program.memory <= 36_377_600
