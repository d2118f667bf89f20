"""The simulated device itself: it is late where CUDA may be late, and notices what a GPU would die of."""

import gc
import inspect

import numpy as np
import pytest
from cuda.bindings import runtime as real

from device import nvinfer, simulated_device
from device.cudart import FUNCTIONS
from trtdsl.core.backend import cuda_status, get_backend
from trtdsl.core.errors import ExecutionError, OutOfMemoryError
from trtdsl.engine import cuda


def numbers(memory, machine):
    return machine.memory.bytes(memory.pointer, 16).view(np.float32).tolist()


def test_the_simulated_device_exists_only_inside_its_context():
    before = cuda_status()
    with simulated_device():
        assert cuda_status() is None
        assert cuda.compute_capability(0) == "8.9"
    assert cuda_status() == before


def test_every_double_has_a_name_that_is_real():
    trt = get_backend("tensorrt-rtx").trt
    for name in FUNCTIONS:
        assert hasattr(real, name), name
    for double, original in (
        (nvinfer.Runtime, trt.Runtime),
        (nvinfer.Engine, trt.ICudaEngine),
        (nvinfer.Context, trt.IExecutionContext),
        (nvinfer.Refitter, trt.Refitter),
        (nvinfer.RuntimeConfig, trt.IRuntimeConfig),
        (nvinfer.RuntimeCache, trt.IRuntimeCache),
    ):
        for name, _ in inspect.getmembers(double, inspect.isfunction):
            assert name.startswith("_") or hasattr(original, name), (double, name)


def test_a_copy_from_pinned_memory_is_read_late_and_one_from_pageable_memory_at_once(machine):
    stream, pinned, pageable = cuda.Stream(), machine.pinned_array((4,)), np.zeros(4, np.float32)
    pinned[:] = pageable[:] = 1
    targets = [cuda.Memory(16), cuda.Memory(16)]
    for target, source in zip(targets, (pinned, pageable), strict=True):
        cuda.copy(target.pointer, source.ctypes.data, 16, stream.handle)
    pinned[:] = pageable[:] = 7
    cuda.synchronize(stream.handle)
    assert [numbers(target, machine)[0] for target in targets] == [7, 1]


def test_streams_have_no_order_but_what_events_make(machine):
    first, second, third = cuda.Stream(), cuda.Stream(), cuda.Stream()
    source, middle, target = machine.pinned_array((4,)), cuda.Memory(16), cuda.Memory(16)
    source[:] = 3
    cuda.copy(middle.pointer, source.ctypes.data, 16, first.handle)
    cuda.copy(target.pointer, middle.pointer, 16, second.handle)
    cuda.synchronize(second.handle)
    assert np.isnan(numbers(target, machine)).all()  # the first stream has done nothing yet
    event = cuda.Event()
    event.record(first.handle)
    event.block(third.handle)
    cuda.copy(target.pointer, middle.pointer, 16, third.handle)
    cuda.synchronize(third.handle)
    assert numbers(target, machine) == [3] * 4


def test_the_default_stream_waits_for_others_and_not_for_those_that_do_not_block(machine):
    runtime = cuda.runtime()
    blocking, other = cuda.call("cudaStreamCreateWithFlags", 0), cuda.Stream()
    assert runtime.cudaStreamNonBlocking == 1
    source, targets = machine.pinned_array((4,)), [cuda.Memory(16), cuda.Memory(16)]
    source[:] = 5
    for target, stream in zip(targets, (int(blocking), other.handle), strict=True):
        cuda.copy(target.pointer, source.ctypes.data, 16, stream)
    cuda.synchronize(0)
    assert numbers(targets[0], machine) == [5] * 4
    assert np.isnan(numbers(targets[1], machine)).all()


@pytest.mark.parametrize("spoil", ["freed", "beyond", "host"])
def test_an_access_that_is_not_allowed_loses_the_device(spoil):
    with simulated_device() as machine:
        stream, source, target = cuda.Stream(), cuda.Memory(16), cuda.Memory(16)
        pointer, size = source.pointer, 16
        if spoil == "freed":
            cuda.copy(target.pointer, pointer, size, stream.handle)
            del source
            gc.collect()
        elif spoil == "beyond":
            cuda.copy(target.pointer, pointer, 17, stream.handle)
        else:
            cuda.copy(target.pointer, 0xA0_0000_0000_0000, size, stream.handle)
        with pytest.raises(ExecutionError, match="cudaErrorIllegalAddress"):
            cuda.synchronize(stream.handle)
        with pytest.raises(ExecutionError, match="cudaErrorIllegalAddress"):  # and so does every later call
            cuda.Memory(16)
        assert len(machine.violations) == 1


def test_errors_that_are_asked_for(machine):
    machine.fail("cudaMalloc", "cudaErrorMemoryAllocation", after=1)
    cuda.Memory(16)
    with pytest.raises(OutOfMemoryError):
        cuda.Memory(16)
    cuda.Memory(16)


def test_a_graph_is_done_as_often_as_it_is_launched(machine):
    stream, source, target = cuda.Stream(), machine.pinned_array((4,)), cuda.Memory(16)
    with cuda.capture(stream.handle) as captured:
        cuda.copy(target.pointer, source.ctypes.data, 16, stream.handle)
    for value in (1, 2):
        source[:] = value
        captured[0].launch(stream.handle)
        cuda.synchronize(stream.handle)
        assert numbers(target, machine) == [value] * 4


def test_calls_that_are_forbidden_during_capture(machine):
    stream = cuda.Stream()
    with pytest.raises(ExecutionError, match="Unsupported"), cuda.capture(stream.handle):
        cuda.Memory(16)
    with pytest.raises(ExecutionError, match="Unsupported"), cuda.capture(stream.handle):
        cuda.synchronize(stream.handle)
    cuda.synchronize(stream.handle)


def test_the_clock_shows_what_is_between_two_events(machine):
    stream = cuda.Stream()
    begin, end = cuda.Event(timing=True), cuda.Event(timing=True)
    begin.record(stream.handle)
    cuda.Memory(16)  # a tenth of a millisecond of the host's
    end.record(stream.handle)
    assert 0.1 < end.milliseconds_since(begin) < 0.3


def test_memory_that_is_pinned_is_poisoned_when_it_is_let_go(machine):
    array = machine.pinned_array((4,))
    array[:] = 1
    page = machine._pages[-1]
    del array
    gc.collect()
    assert set(page.tolist()) == {0xCD}
