"""Engines on torch's CUDA tensors: no copies, in the order of torch's current stream, and no waiting."""

import gc

import pytest
import torch

from device.networks import doubling
from device.torch_cuda import simulated_torch


@pytest.fixture(autouse=True)
def streams(machine):
    with simulated_torch(machine) as made:
        yield made


def test_tensors_in_and_out(machine):
    engine = doubling()
    x = torch.arange(8.0).reshape(2, 4).cuda()
    engine(x=x)
    before = machine.counts["cudaMemcpyAsync"], machine.synchronizations, machine.allocations
    y = engine(x=x)["y"]
    assert (machine.counts["cudaMemcpyAsync"], machine.synchronizations, machine.allocations) == before
    assert (y.device.type, tuple(y.shape), y.dtype) == ("cuda", (2, 4), torch.float32)
    assert y.cpu().tolist() == (x.cpu() * 2).tolist()


def test_torchs_default_stream_goes_through_events(machine):
    """TensorRT works on a stream of its own, so that CUDA graphs are captured."""
    engine = doubling(cuda_graphs=True)
    y = engine(x=torch.ones(2, 4).cuda())["y"]
    z = engine(x=y)["y"]
    assert z.cpu().tolist() == [[4.0] * 4] * 2
    assert machine.counts["run without the graph that was asked for"] == 0


def test_another_current_stream(machine):
    engine, stream = doubling(), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.ones(2, 4).cuda()
        y = engine(x=x)["y"]
        z = engine(x=y)["y"]
    stream.synchronize()
    assert z.raw.tolist() == [[4.0] * 4] * 2


def test_feeds_and_results_that_are_let_go_at_once(machine):
    """torch uses the memory of a tensor again on its own stream, as soon as nobody has the tensor."""
    engine, stream = doubling(), torch.cuda.Stream()
    results = []
    for value in range(4):
        with torch.cuda.stream(stream):
            results.append(engine(x=torch.full((2, 4), float(value)).cuda())["y"])
        engine(x=torch.ones(2, 4).cuda())
        gc.collect()
    stream.synchronize()
    assert [result.raw[0, 0].item() for result in results] == [0, 2, 4, 6]


def test_a_stream_that_is_not_torchs(machine):
    """Inputs are on torch's stream, the run on another one: events make the order both ways."""
    from trtdsl.engine import cuda

    engine, stream = doubling(), cuda.Stream()
    y = engine.run({"x": torch.ones(2, 4).cuda()}, stream=stream.handle)["y"]
    cuda.synchronize(stream.handle)
    assert y.raw.tolist() == [[2.0] * 4] * 2


def test_slices_and_transposes(machine):
    engine = doubling()
    big = torch.arange(64.0).cuda()
    sliced = big[3:11].view(2, 4)
    assert sliced.data_ptr() % 256
    assert engine(x=sliced)["y"].cpu().tolist() == (torch.arange(3.0, 11).reshape(2, 4) * 2).tolist()
    turned = torch.arange(8.0).reshape(4, 2).cuda().t()
    assert engine(x=turned)["y"].cpu().tolist() == (torch.arange(8.0).reshape(4, 2).t() * 2).tolist()


def test_outputs_into_torchs_memory(machine):
    engine, y = doubling(), torch.zeros(2, 4).cuda()
    got = engine.run({"x": torch.ones(2, 4).cuda()}, out={"y": y})
    assert got["y"] is y
    assert y.cpu().tolist() == [[2.0] * 4] * 2


def test_captured(machine):
    engine = doubling()
    x = torch.ones(2, 4).cuda()
    captured = engine.capture({"x": x})
    assert captured.run({"x": x})["y"].cpu().tolist() == [[2.0] * 4] * 2
    assert captured.run({"x": torch.full((2, 4), 3.0).cuda()})["y"].cpu().tolist() == [[6.0] * 4] * 2
