"""CUDA's runtime through cuda-python: the device, memory, streams and events, and one error for each way it fails."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ..core.backend import cuda_status
from ..core.errors import BackendError, ExecutionError, NoDriverError, OutOfMemoryError
from ..core.lazy import torch


def require_device() -> None:
    """NoDriverError with one sentence when no CUDA device is usable here."""
    problem = cuda_status()
    if problem is not None:
        raise NoDriverError(f"an engine runs on an NVIDIA GPU, and {problem}")


@functools.cache
def runtime() -> Any:
    """cuda-python's binding of the CUDA runtime; BackendError when it is not installed."""
    try:
        found = importlib.import_module("cuda.bindings.runtime")
    except ImportError:
        raise BackendError("the package cuda-python is not installed: pip install cuda-python") from None
    return found


def call(name: str, *arguments: Any, needed: int | None = None) -> Any:
    """Calls a function of the CUDA runtime and gives what it returns after its status.

    Raises OutOfMemoryError with what was ``needed`` and what is free, ExecutionError for anything else.
    """
    status, *results = getattr(runtime(), name)(*arguments)
    if int(status) == int(runtime().cudaError_t.cudaSuccess):
        return None if not results else results[0] if len(results) == 1 else tuple(results)
    if int(status) == int(runtime().cudaError_t.cudaErrorMemoryAllocation):
        raise OutOfMemoryError(needed, free_memory())
    text = runtime().cudaGetErrorString(status)[1]
    raise ExecutionError(f"{name} failed: {text.decode() if isinstance(text, bytes) else text} ({int(status)})")


def free_memory() -> int | None:
    """Bytes free on the current device; None when CUDA does not say."""
    status, *results = runtime().cudaMemGetInfo()
    return int(results[0]) if int(status) == 0 else None


def set_device(index: int) -> None:
    """Makes a device current in this thread."""
    call("cudaSetDevice", index)


def compute_capability(index: int) -> str:
    """``"8.9"``."""
    attributes = runtime().cudaDeviceAttr
    major = call("cudaDeviceGetAttribute", attributes.cudaDevAttrComputeCapabilityMajor, index)
    minor = call("cudaDeviceGetAttribute", attributes.cudaDevAttrComputeCapabilityMinor, index)
    return f"{major}.{minor}"


def device_name(index: int) -> str:
    """The GPU's name."""
    name = call("cudaGetDeviceProperties", index).name
    return name.decode().rstrip("\0") if isinstance(name, bytes) else str(name)


def to_device(tensor: torch.Tensor, device: int, stream: int) -> Any:
    """A copy of a CPU tensor on the GPU, as a :class:`~trtdsl.arrays.DeviceArray`."""
    from .arrays import DeviceArray, view

    given = view(tensor)
    memory = Memory(given.size)
    copy(memory.pointer, given.pointer, given.size, stream)
    return DeviceArray(memory, given.shape, given.dtype, device, stream)  # its reader waits for the stream


class Memory:
    """Device memory, freed when the last reference to it goes."""

    def __init__(self, size: int):
        self.size = max(size, 1)  # TensorRT wants an address for an empty tensor too
        self.pointer = int(call("cudaMalloc", self.size, needed=self.size))

    def __del__(self) -> None:
        with suppress(Exception):  # at the end of the process CUDA may be gone already
            if getattr(self, "pointer", 0):
                runtime().cudaFree(self.pointer)


class Stream:
    """A stream of our own, destroyed with the object."""

    def __init__(self) -> None:
        self.handle = int(call("cudaStreamCreateWithFlags", runtime().cudaStreamNonBlocking))

    def __del__(self) -> None:
        with suppress(Exception):
            if getattr(self, "handle", 0):
                runtime().cudaStreamDestroy(self.handle)


class Event:
    """A point in a stream that another stream, or the host, can wait for."""

    def __init__(self, *, timing: bool = False):
        flags = 0 if timing else runtime().cudaEventDisableTiming
        self.handle = call("cudaEventCreateWithFlags", flags)

    def record(self, stream: int) -> None:
        call("cudaEventRecord", self.handle, stream)

    def block(self, stream: int) -> None:
        """What ``stream`` does from now on waits for this event."""
        call("cudaStreamWaitEvent", stream, self.handle, 0)

    def milliseconds_since(self, start: Event) -> float:
        call("cudaEventSynchronize", self.handle)
        return float(call("cudaEventElapsedTime", start.handle, self.handle))

    def __del__(self) -> None:
        with suppress(Exception):
            if getattr(self, "handle", None) is not None:
                runtime().cudaEventDestroy(self.handle)


def wait_for_torch(stream: int, device: int) -> None:
    """What ``stream`` does from now on waits for what torch has put on its current stream."""
    event = Event()
    event.record(torch.cuda.current_stream(device).cuda_stream)
    event.block(stream)


def synchronize(stream: int) -> None:
    """Waits until all that was put on the stream is done; ExecutionError when something of it failed."""
    call("cudaStreamSynchronize", stream)


def copy(target: int, source: int, size: int, stream: int) -> None:
    """Copies bytes between host and device, in the order of the stream; CUDA knows which address is where."""
    if size:
        call("cudaMemcpyAsync", target, source, size, runtime().cudaMemcpyKind.cudaMemcpyDefault, stream)


class Graph:
    """Work captured from a stream, launched as one."""

    def __init__(self, handle: Any):
        self._handle = call("cudaGraphInstantiate", handle, 0)

    def launch(self, stream: int) -> None:
        call("cudaGraphLaunch", self._handle, stream)

    def __del__(self) -> None:
        with suppress(Exception):
            if getattr(self, "_handle", None) is not None:
                runtime().cudaGraphExecDestroy(self._handle)


@contextmanager
def capture(stream: int) -> Iterator[list[Graph]]:
    """Captures what is put on the stream in the block; the list then holds the Graph."""
    result: list[Graph] = []
    call("cudaStreamBeginCapture", stream, runtime().cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal)
    try:
        yield result
    except BaseException:
        with suppress(ExecutionError):
            call("cudaStreamEndCapture", stream)
        raise
    graph = call("cudaStreamEndCapture", stream)
    try:
        result.append(Graph(graph))
    finally:
        call("cudaGraphDestroy", graph)
