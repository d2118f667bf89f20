"""Inputs and outputs that lie channels last: the shape is torch's, the memory is (N, H, W, C)."""

import json

import numpy as np
import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from device.torch_cuda import simulated_torch

N = td.Dim("N", min=1, opt=2, max=4)
X = torch.arange(2 * 3 * 2 * 5, dtype=torch.float32).reshape(2, 3, 2, 5)
Y = X + torch.tensor([1.0, 2.0, 3.0]).reshape(3, 1, 1)


@td.network(inputs={"x": td.Input((N, 3, "H", 5), format="channels_last")})
def last(x):
    y = x + torch.tensor([1.0, 2.0, 3.0]).reshape(3, 1, 1)
    return {"y": td.Output(y, format="channels_last"), "first": F.relu(y)}


@pytest.fixture
def engine(machine, tmp_path):
    td.build(last.define(dims={"H": (1, 2, 4)}), tmp_path / "last.engine", check=False)
    with td.load_engine(tmp_path / "last.engine") as engine:
        yield engine


def right(results):
    assert results["y"].shape == results["first"].shape == (2, 3, 2, 5)
    assert results["y"].tolist() == results["first"].tolist() == Y.tolist()


def test_the_signature_says_so(engine, tmp_path):
    text = (
        "x: float32 (?, 3, ?, 5), channels last -> y: float32 (?, 3, ?, 5), channels last, first: float32 (?, 3, ?, 5)"
    )
    assert str(engine.signature) == str(engine.manifest.signature) == text
    facts = json.loads((tmp_path / "last.engine.json").read_text())
    assert [facts["outputs"][name].get("format") for name in ("y", "first")] == ["channels_last", None]


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
def test_arrays_of_the_host_in_any_order(engine, order):
    x = X.contiguous(memory_format=order)
    right(engine.run({"x": x}))
    right(engine.run({"x": x.numpy()}))
    y = engine.run({"x": x})["y"]
    assert y.is_contiguous(memory_format=torch.channels_last)
    right(engine.capture({"x": x})(x=x))


def test_arrays_that_are_given_for_outputs(engine):
    y = torch.zeros(2, 3, 2, 5).contiguous(memory_format=torch.channels_last)
    engine.run({"x": X}, out={"y": y})
    assert y.tolist() == Y.tolist()
    with pytest.raises(td.FeedError, match="the array for output 'y' is not contiguous with its channels last"):
        engine.run({"x": X}, out={"y": np.zeros((2, 3, 2, 5), np.float32)})


def test_arrays_of_the_device(engine):
    results = engine.run({"x": X}, outputs="device")
    right({name: array.numpy() for name, array in results.items()})
    again = engine.run({"x": results["y"]}, outputs="numpy")
    assert again["y"].tolist() == (2 * Y - X).tolist()
    with pytest.raises(td.FeedError, match="is not contiguous with its channels last: feed a contiguous copy"):
        engine.run({"x": results["first"]})


def test_tensors_of_torch_on_the_gpu(machine, engine):
    with simulated_torch(machine):
        x = X.contiguous(memory_format=torch.channels_last).cuda()
        engine(x=x)
        before = machine.counts["cudaMemcpyAsync"]
        y = engine(x=x)["y"]
        assert machine.counts["cudaMemcpyAsync"] == before  # it is read where it lies
        assert y.stride() == (30, 1, 15, 3)
        assert y.cpu().tolist() == Y.tolist()


def test_wrong_shapes_are_told_as_ever(engine):
    with pytest.raises(td.FeedError, match="has 4 dimensions, and 2 were fed"):
        engine.run({"x": np.zeros((2, 3), np.float32)})
    with pytest.raises(td.FeedError, match="has 4 dimensions, and 5 were fed"):
        engine.run({"x": torch.zeros(2, 3, 2, 5, 1)})
