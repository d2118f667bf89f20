"""Checks of trtdsl's CUDA code on a real device, without TensorRT: memory, streams, events, copies, graphs, torch.

Prints one line per check, ok or FAILED with the exception; goes on after a failure.
"""

import gc
import sys
import threading
import traceback

import numpy as np
import torch

from trtdsl.core import errors
from trtdsl.core.backend import cuda_status
from trtdsl.engine import cuda
from trtdsl.engine.arrays import DeviceArray, to_device, view

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


@check
def facts():
    from importlib.metadata import version

    print("  cuda-bindings", version("cuda-bindings"), "| status", cuda_status())
    print("  device", cuda.device_name(0), cuda.compute_capability(0), "| free", cuda.free_memory())


@check
def round_trip():
    cuda.call("cudaSetDevice", 0)
    stream = cuda.Stream()
    x = torch.randn(1000, 1000)
    array = to_device(x, 0, stream.handle)
    assert torch.equal(array.torch(), x)
    assert np.array_equal(array.numpy(), x.numpy())


@check
def dlpack_into_torch():
    stream = cuda.Stream()
    x = torch.arange(12.0).reshape(3, 4)
    array = to_device(x, 0, stream.handle)
    shared = torch.from_dlpack(array)
    assert shared.is_cuda and shared.data_ptr() == array.memory.pointer, (shared.device, shared.data_ptr())
    assert torch.equal(shared.cpu(), x)
    del array
    gc.collect()
    assert torch.equal(shared.cpu(), x), "the memory did not live as long as torch's tensor"
    half = to_device(x.to(torch.bfloat16), 0, stream.handle)
    assert torch.from_dlpack(half).dtype == torch.bfloat16


@check
def cuda_array_interface_into_torch():
    stream = cuda.Stream()
    x = torch.arange(12.0).reshape(3, 4)
    array = to_device(x, 0, stream.handle)
    assert torch.equal(torch.as_tensor(array, device="cuda").cpu(), x)


@check
def cupy_both_ways():
    import cupy

    theirs = cupy.arange(12, dtype=cupy.float32).reshape(3, 4)
    seen = view(theirs)
    assert (seen.device, seen.shape, seen.dtype, seen.kind) == (0, (3, 4), "float32", "device"), seen
    stream = cuda.Stream()
    ours = to_device(torch.arange(12.0).reshape(3, 4), 0, stream.handle)
    assert (cupy.asarray(ours) == theirs).all()
    zero = DeviceArray(ours.memory, ours.shape, ours.dtype, 0, 0)  # made on the default stream, handle 0
    assert (cupy.asarray(zero) == theirs).all()


@check
def view_of_torch_and_others():
    x = torch.randn(3, 5, device="cuda")
    seen = view(x.t())
    assert seen.kind == "cuda" and seen.shape == (5, 3)
    import jax.numpy as jnp

    j = jnp.arange(6.0)
    print("  jax array:", view(j).kind, view(j).device)


@check
def events_time_and_order():
    a, b = cuda.Event(timing=True), cuda.Event(timing=True)
    stream, other = cuda.Stream(), cuda.Stream()
    a.record(stream.handle)
    memory = cuda.Memory(1 << 28)
    for _ in range(20):
        cuda.copy(memory.pointer, memory.pointer + (1 << 27), 1 << 27, stream.handle)
    b.record(stream.handle)
    b.block(other.handle)
    cuda.synchronize(other.handle)
    print(f"  20 copies of 128 MiB: {b.milliseconds_since(a):.2f} ms")
    cuda.order(torch.cuda.current_stream(0).cuda_stream, stream.handle)
    cuda.synchronize(stream.handle)


@check
def capture_and_launch():
    stream = cuda.Stream()
    source = to_device(torch.ones(1024), 0, stream.handle)
    target = cuda.Memory(4096)
    cuda.synchronize(stream.handle)
    with cuda.capture(stream.handle) as captured:
        cuda.copy(target.pointer, source.memory.pointer, 4096, stream.handle)
    captured[0].launch(stream.handle)
    cuda.synchronize(stream.handle)
    assert DeviceArray(target, (1024,), "float32", 0).numpy().sum() == 1024


@check
def a_failing_capture_leaves_the_stream_usable():
    stream = cuda.Stream()
    try:
        with cuda.capture(stream.handle):
            raise KeyError("inside")
    except KeyError:
        pass
    cuda.synchronize(stream.handle)


@check
def errors_map():
    free = cuda.free_memory()
    for call, expected in (
        (lambda: cuda.Memory(free * 4), errors.OutOfMemoryError),
        (lambda: cuda.on_device(99).__enter__(), errors.TrtdslError),
    ):
        try:
            call()
        except expected as error:
            print("  ", type(error).__name__, str(error)[:140])
        else:
            raise AssertionError(f"no {expected.__name__}")
    cuda.call("cudaSetDevice", 0)
    cuda.Memory(16)  # usable afterwards


@check
def pageable_and_pinned_copies():
    """Whether an asynchronous copy reads the host's memory after it returns: pinned memory only."""
    stream = cuda.Stream()
    for pinned in (False, True):
        seen = 0
        for _ in range(20):
            x = torch.ones(1 << 24, pin_memory=pinned)
            memory = cuda.Memory(x.numel() * 4)
            cuda.copy(memory.pointer, x.data_ptr(), x.numel() * 4, stream.handle)
            x.zero_()
            cuda.synchronize(stream.handle)
            seen += int((DeviceArray(memory, (1 << 24,), "float32", 0).torch() != 1).any())
        print(f"  pinned {pinned}: {seen} of 20 copies saw what was written to the source afterwards")


@check
def costs():
    import time

    for size in (1 << 10, 1 << 20, 1 << 26):
        started = time.perf_counter()
        for _ in range(50):
            cuda.Memory(size)
        print(f"  cudaMalloc and cudaFree of {size} bytes: {(time.perf_counter() - started) / 50 * 1e6:.1f} us")


@check
def threads_have_their_own_device():
    problems = []

    def work():
        try:
            cuda.call("cudaSetDevice", 0)
            stream = cuda.Stream()
            for _ in range(200):
                x = torch.randn(64)
                assert torch.equal(to_device(x, 0, stream.handle).torch(), x)
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not problems, problems


def main():
    failed = 0
    for function in CHECKS:
        try:
            function()
            print("ok    ", function.__name__, flush=True)
        except Exception:
            failed += 1
            print("FAILED", function.__name__, traceback.format_exc(limit=-2).replace("\n", "\n    "), flush=True)
    print(f"VERDICT device: {len(CHECKS) - failed} of {len(CHECKS)} checks passed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
