"""Each way that a device or TensorRT fails has its error, and leaves the thread as it was."""

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from device import Machine, simulated_device
from device.networks import doubling, picking
from trtdsl.core.errors import (
    ExecutionError,
    FeedError,
    NoDriverError,
    OutOfMemoryError,
    RuntimeCacheWarning,
    UsageError,
)
from trtdsl.engine import cuda
from trtdsl.engine.arrays import to_device
from trtdsl.engine.compiling.compiler import compile_engine
from trtdsl.engine.engine import Engine

X = torch.ones(2, 4)


def lost(call):
    """What is raised on a device that is lost meanwhile, which is then amiss for good."""
    with simulated_device() as machine:
        engine = doubling()
        engine.run({"x": X})
        call(machine)
        with pytest.raises(ExecutionError) as caught:
            engine.run({"x": X})
        with pytest.raises(ExecutionError) as again:
            engine.run({"x": X})
    return caught.value, again.value


def test_an_illegal_access_is_not_called_out_of_memory():
    for error in lost(lambda machine: machine.fail_launch("cudaErrorIllegalAddress")):
        assert type(error) is ExecutionError
        assert error.code == "execution-failed"


def test_tensorrts_own_words_for_an_illegal_access(machine):
    engine = doubling()
    machine.fail("execute_async_v3", "Error Code 1: Cuda Runtime (an illegal memory access was encountered)")
    with pytest.raises(ExecutionError, match="illegal memory access") as caught:
        engine.run({"x": X})
    assert type(caught.value) is ExecutionError
    machine.fail("execute_async_v3", "Error Code 2: OutOfMemory (Requested size was 7 bytes.)")
    with pytest.raises(OutOfMemoryError):
        engine.run({"x": X})
    machine.fail("create_execution_context", "Error Code 1: Cuda Runtime (an illegal memory access was encountered)")
    with pytest.raises(ExecutionError) as caught:
        engine.run({"x": X})
    assert type(caught.value) is ExecutionError


@pytest.mark.parametrize(
    "error", ["cudaErrorLaunchFailure", "cudaErrorECCUncorrectable", "cudaErrorDevicesUnavailable"]
)
def test_a_launch_that_fails_and_a_device_that_is_lost(error):
    first, second = lost(lambda machine: machine.fail_launch(error))
    assert error in str(first)
    assert second.exit_code == 8


def test_too_little_memory(machine):
    engine = doubling()
    machine.fail("cudaMalloc", "cudaErrorMemoryAllocation")
    with pytest.raises(OutOfMemoryError) as caught:
        engine.run({"x": X})
    assert caught.value.needed is not None
    assert engine.run({"x": X})["y"].tolist() == [[2.0] * 4] * 2
    with simulated_device(Machine(memory=1000)), pytest.raises(OutOfMemoryError):
        doubling()


def test_a_device_that_is_not_there(machine):
    with pytest.raises(NoDriverError, match="there is no CUDA device 7: there is 1, from 0") as caught:
        doubling(device=7)
    assert caught.value.exit_code == 6


@pytest.mark.parametrize("device", ["cuda:0", True, 1.0, None])
def test_a_device_is_a_number(machine, device):
    with pytest.raises(UsageError, match=r"device=.*: expected int, got"):
        doubling(device=device)
    with pytest.raises(UsageError, match=r"runs='3': expected int, got str"):
        doubling().warm_up("3")


def test_a_sparse_tensor_is_refused(machine):
    with pytest.raises(FeedError, match=r"its layout is torch\.sparse_coo: give its to_dense"):
        doubling().run({"x": torch.ones(2, 4).to_sparse()})
    with pytest.raises(FeedError, match=r"its layout is torch\.sparse_coo: give its to_dense"):
        doubling().run({"x": X}, out={"y": torch.ones(2, 4).to_sparse()})


def test_a_tensor_whose_memory_holds_its_negatives(machine):
    """The imaginary part of a conjugate is the same memory with another sign, which torch applies when it is read."""
    x = torch.complex(torch.zeros(8), torch.arange(8.0)).conj().imag
    small = x[3:4].reshape(1, 1)  # of one element, and thereby contiguous
    assert small.is_neg() and small.is_contiguous() and small.item() == -3
    net = td.Network()
    net.output(net.input("x", (1, 1)) * 2, "y")
    engine = Engine(compile_engine(net).data, backend=net.backend)
    assert engine.run({"x": small})["y"].item() == -6
    with pytest.raises(FeedError, match="its memory holds the negatives"):
        engine.run({"x": small}, out={"y": small})
    assert small.item() == -3


def test_the_threads_device_is_set_back():
    with simulated_device(Machine(devices=2)) as machine:
        engine = doubling(device=1)
        assert machine.current == 0
        with cuda.on_device(1):
            stream = cuda.Stream()
        for call in (
            lambda: engine.run({"x": X}),
            lambda: engine.capture({"x": X}).run({"x": X}),
            engine.warm_up,
            lambda: to_device(X, 1, stream.handle),
        ):
            call()
            assert machine.current == 0
        for nothing in ({}, 5, None, [X]):
            with pytest.raises(FeedError):
                engine.run(nothing)
        assert machine.current == 0
        (context,) = {allocation.device for allocation in machine.memory.live if "context" in allocation.what}
        assert context == 1
        assert not machine.violations


def test_outputs_of_no_kind(machine):
    engine = doubling()
    with pytest.raises(UsageError, match="outputs is one of numpy, torch, cuda, device, not 'gpu'"):
        engine.run({"x": X}, outputs="gpu")
    with pytest.raises(UsageError, match="not 'gpu'"):
        engine.capture({"x": X}, outputs="gpu")


def test_a_dtype_that_numpy_does_not_have_is_refused_before_the_run(machine):
    net = td.Network()
    net.output(F.relu(net.input("x", (4,), "bfloat16")), "y")
    engine = Engine(compile_engine(net).data, backend=net.backend)
    x = torch.ones(4, dtype=torch.bfloat16)
    with pytest.raises(FeedError, match="which numpy does not have: ask for outputs='torch'"):
        engine.run({"x": x}, outputs="numpy")
    assert machine.counts["execute_async_v3"] == 0
    assert engine.run({"x": x})["y"].dtype == torch.bfloat16


@pytest.mark.parametrize("call", ["set_tensor_address", "set_input_shape", "set_output_allocator"])
def test_calls_that_tensorrt_refuses(machine, call):
    engine = picking()
    machine.fail(call)
    with pytest.raises(ExecutionError):
        engine.run({"x": torch.ones(8)})
    assert engine.run({"x": torch.ones(8)})["where"].shape == (8, 1)


def test_a_runtime_cache_that_is_not_taken(machine, tmp_path):
    engine = doubling(runtime_cache=tmp_path / "cache")
    machine.fail("set_runtime_cache")
    with pytest.raises(ExecutionError, match="runtime cache"):
        engine.run({"x": X})


@pytest.mark.parametrize("content", [b"dear diary", bytes(4000) + b"x" * 1000, b"ftrt", b'{"kind": "mine"}'])
def test_a_file_of_another_kind_is_no_runtime_cache(machine, tmp_path, content):
    path = tmp_path / "cache"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"cache: the file that is there is not a runtime cache"):
        doubling(runtime_cache=path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("zeros", [5000, 100_000])
def test_a_runtime_cache_that_was_lost_when_power_failed_is_made_anew(machine, tmp_path, zeros):
    path = tmp_path / "cache"
    with doubling(runtime_cache=path) as engine:
        engine.run({"x": X})
    whole = path.read_bytes()
    path.write_bytes(bytes(zeros) + whole[zeros:])
    warned = pytest.warns(RuntimeCacheWarning, match="built anew: it is not a runtime cache")
    with warned, doubling(runtime_cache=path) as engine:
        engine.run({"x": X})
    assert path.read_bytes() == whole


def test_a_thread_has_its_own_device(machine):
    with cuda.on_device(0):
        assert machine.current == 0
    with pytest.raises(NoDriverError), cuda.on_device(-1):
        pass
