"""RAFT small: equal to torch at several sizes, with torchvision's names, and its engine builds."""

from pathlib import Path

import pytest
import torch
from support import layer_types

import trtdsl as td
from trtdsl.engine.compiling.compiler import compile_engine

FILE = Path(__file__).parents[2] / "networks" / "raft_small.py"


@pytest.fixture(scope="module")
def spec():
    return td.load_spec(str(FILE))


@pytest.mark.parametrize(("n", "height", "width"), [(1, 128, 152), pytest.param(2, 168, 136, marks=pytest.mark.heavy)])
def test_equals_its_reference(spec, n, height, width):
    report = td.check(spec, dims={"N": n, "H8": height // 8, "W8": width // 8})
    assert report.passed
    for case in report.cases:
        for output in case.outputs:
            assert output.scale > 1  # a flow of pixels, not of nothing
            assert output.max_abs < 1e-5 * output.scale


def test_one_dynamic_network_at_several_sizes():
    every = td.load_spec(f"{FILE}:raft_small_all")
    net = every.define()
    assert list(net.outputs) == [f"flow{index}" for index in range(1, 7)]
    assert str(net.outputs["flow6"].shape) == "(N, 2, 8*H8, 8*W8)"
    interpreter = td.Interpreter(net)
    module = every.reference_module(every.open_weights())
    for dims in ({"N": 1, "H8": 16, "W8": 17}, {"N": 2, "H8": 18, "W8": 16}, {"N": 1, "H8": 21, "W8": 19}):
        feeds = td.sample_feeds(every, dims, torch.Generator().manual_seed(1))
        with torch.inference_mode():
            expected = module(*feeds.values())
        got = interpreter(feeds)
        for index, flow in enumerate(expected, 1):
            assert (got[f"flow{index}"] - flow).abs().max() < 1e-5 * flow.abs().max()


def test_names_and_sizes_are_torchvisions(spec):
    shapes = spec.open_weights().shapes
    assert sum(torch.Size(shape).numel() for shape in shapes.values()) == 990_162  # torchvision's num_params
    assert shapes["feature_encoder.convnormrelu.0.weight"] == (32, 3, 7, 7)
    assert shapes["feature_encoder.layer2.0.downsample.0.bias"] == (64,)
    assert shapes["context_encoder.conv.weight"] == (160, 96, 1, 1)
    assert shapes["update_block.motion_encoder.convcorr1.0.weight"] == (96, 4 * 49, 1, 1)
    assert shapes["update_block.motion_encoder.conv.0.weight"] == (80, 128, 3, 3)
    assert shapes["update_block.recurrent_block.convgru1.convq.weight"] == (96, 96 + 64 + 82, 3, 3)
    assert shapes["update_block.flow_head.conv2.bias"] == (2,)


def test_layers_and_engine(spec):
    net = spec.define(dims={"N": 1, "H8": 16, "W8": 16})
    types = layer_types(net)
    assert types.count("MATRIX_MULTIPLY") == 1  # the correlation volume
    assert types.count("GATHER") == 4 * 4  # one for each neighbour in each level of the pyramid: the updates are a loop
    plan = compile_engine(net)
    assert len(plan.data) > 3_900_000


@pytest.mark.heavy
def test_dynamic_engine_builds(spec):
    assert compile_engine(spec.define()).data
