"""What the GPU still reads or writes is held until it is done, and no longer."""

import gc
import weakref

import numpy as np
import pytest
import torch

from device.networks import doubling, picking, pinned
from trtdsl.core.errors import ExecutionError
from trtdsl.engine import cuda
from trtdsl.engine.arrays import to_device


def test_feeds_are_held_until_the_gpu_has_read_them(machine):
    """Many runs on a stream that nobody waits for; each feed is let go, and its memory is another's, at once."""
    engine, stream = doubling(), cuda.Stream()
    results = [
        engine.run({"x": pinned(machine, torch.full((2, 4), float(value)))}, outputs="device", stream=stream.handle)
        for value in range(5)
    ]
    gc.collect()
    for value, result in enumerate(results):
        assert result["y"].torch().tolist() == [[2.0 * value] * 4] * 2


def test_feeds_on_the_device_are_held_too(machine):
    engine, stream = doubling(), cuda.Stream()
    results = [
        engine.run({"x": to_device(torch.ones(2, 4), 0, stream.handle)}, outputs="device", stream=stream.handle)
        for _ in range(3)
    ]
    gc.collect()
    assert [result["y"].torch()[0, 0].item() for result in results] == [2.0] * 3


def test_memory_of_finished_runs_is_released(machine):
    engine, stream = doubling(), cuda.Stream()
    feed = torch.ones(2, 4)
    gone = weakref.ref(feed)
    result = engine.run({"x": feed}, outputs="device", stream=stream.handle)
    del feed
    cuda.synchronize(stream.handle)
    engine.run({"x": torch.ones(2, 4)}, outputs="device", stream=stream.handle)
    assert gone() is None
    assert result["y"].numpy().tolist() == [[2.0] * 4] * 2
    cuda.synchronize(stream.handle)


def test_results_that_are_dropped_at_once(machine):
    engine, stream = doubling(), cuda.Stream()
    for _ in range(5):
        engine.run({"x": torch.ones(2, 4)}, outputs="device", stream=stream.handle)
    del engine
    gc.collect()
    cuda.synchronize(stream.handle)


@pytest.mark.parametrize("call", ["execute_async_v3", "infer_shapes", "set_tensor_address"])
def test_a_failed_run_lets_go_of_nothing_that_the_gpu_still_reads(machine, call):
    engine, stream = doubling(), cuda.Stream()
    x = pinned(machine, torch.ones(2, 4))
    engine.run({"x": x}, outputs="device", stream=stream.handle)
    machine.fail(call)
    with pytest.raises(ExecutionError):
        engine.run({"x": pinned(machine, torch.ones(8, 4))}, outputs="device", stream=stream.handle)
    gc.collect()
    cuda.synchronize(stream.handle)
    assert engine.run({"x": x})["y"].tolist() == [[2.0] * 4] * 2


def test_a_copy_to_the_device_from_pinned_memory(machine):
    stream = cuda.Stream()
    array = to_device(pinned(machine, torch.full((4,), 3.0)), 0, stream.handle)
    gc.collect()
    assert array.torch().tolist() == [3.0] * 4


def test_a_greater_buffer_does_not_take_the_smaller_from_under_a_run(machine):
    engine, stream = doubling(), cuda.Stream()
    small = engine.run({"x": torch.ones(1, 4)}, outputs="device", stream=stream.handle)
    great = engine.run({"x": torch.ones(8, 4)}, outputs="device", stream=stream.handle)
    assert small["y"].numpy().sum() == 8
    assert great["y"].numpy().sum() == 64


def test_runs_on_different_streams_share_a_context_in_order(machine):
    engine, streams = doubling(), [cuda.Stream(), cuda.Stream()]
    results = [
        engine.run({"x": torch.full((2, 4), float(value))}, outputs="device", stream=streams[value % 2].handle)
        for value in range(6)
    ]
    for value, result in reversed(list(enumerate(results))):
        assert result["y"].numpy()[0, 0] == 2 * value
    assert machine.counts["create_execution_context"] == 1


def test_an_engine_goes_without_the_garbage_collector(machine):
    gc.collect()
    before = machine.memory.used
    gc.disable()
    try:
        for make in (doubling, picking):
            engine = make()
            captured = engine.capture({"x": torch.ones(2, 4)}) if make is doubling else None
            engine.run({"x": torch.ones(2, 4) if make is doubling else torch.ones(8)})
            del engine, captured
            assert machine.memory.used == before, machine.memory.live
    finally:
        gc.enable()


def test_an_allocator_for_each_output_and_not_for_each_run(machine):
    engine = picking()
    for count in (3, 0, 8):
        x = np.zeros(8, np.float32)
        x[:count] = 1
        assert engine.run({"x": x})["where"].shape == (count, 1)
    assert machine.counts["set_output_allocator"] == 1
