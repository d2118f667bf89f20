"""CUDA's runtime through cuda-python: the device, memory, streams and events, with one error for each failure."""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ..core.backend import cuda_status
from ..core.errors import BackendError, ExecutionError, NoDriverError, OutOfMemoryError

GRAIN = 512  # bytes: sizes of pooled memory are multiples of it

DEFAULT_STREAMS = (0, 1)  # CUDA's handles of the legacy default stream, on which no graph is captured
LEGACY_STREAM = 1  # the handle that DLPack and the CUDA array interface use for it


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
    """Calls a function of the CUDA runtime and returns its results without the status.

    Raises OutOfMemoryError with what was ``needed`` and what is free, ExecutionError for anything else.
    """
    status, *results = getattr(runtime(), name)(*arguments)
    check(name, status, needed)
    return None if not results else results[0] if len(results) == 1 else tuple(results)


def check(name: str, status: Any, needed: int | None = None) -> None:
    """The error for the status of a function of the CUDA runtime; None for success."""
    if int(status) == int(runtime().cudaError_t.cudaSuccess):
        return
    if int(status) == int(runtime().cudaError_t.cudaErrorMemoryAllocation):
        raise OutOfMemoryError(needed, free_memory())
    text = runtime().cudaGetErrorString(status)[1]
    raise ExecutionError(f"{name} failed: {text.decode() if isinstance(text, bytes) else text} ({int(status)})")


def free_memory() -> int | None:
    """Bytes free on the current device; None when CUDA does not say."""
    status, *results = runtime().cudaMemGetInfo()
    return int(results[0]) if int(status) == 0 else None


@contextmanager
def on_device(index: int) -> Iterator[None]:
    """Makes a device current in this thread for the block, and restores the previous one afterwards.

    Raises NoDriverError for a device that this machine does not have.
    """
    count = int(call("cudaGetDeviceCount"))
    if not 0 <= index < count:
        raise NoDriverError(f"there is no CUDA device {index}: there {'is' if count == 1 else 'are'} {count}, from 0")
    before = int(call("cudaGetDevice"))
    call("cudaSetDevice", index)
    try:
        yield
    finally:
        if before != index:
            call("cudaSetDevice", before)


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


class Pool:
    """A pool of device memory for reuse: the pieces that :class:`Memory` gives back, by size."""

    KEPT = 8  # pieces of each size; more are freed

    def __init__(self) -> None:
        self._free: dict[int, list[int]] = {}
        self._lock = threading.Lock()

    def take(self, size: int) -> int | None:
        with self._lock:
            pointers = self._free.get(size)
            return pointers.pop() if pointers else None

    def give(self, pointer: int, size: int) -> bool:
        """Takes a piece back; False when the pool has enough of that size."""
        with self._lock:
            pointers = self._free.setdefault(size, [])
            if len(pointers) < self.KEPT:
                pointers.append(pointer)
                return True
        return False

    def __del__(self) -> None:
        with suppress(Exception):
            for pointers in self._free.values():
                for pointer in pointers:
                    runtime().cudaFree(pointer)


class Memory:
    """Device memory, freed or given back to its ``pool`` when the last reference to it is dropped.

    It must not be freed before the GPU is done with it.
    """

    def __init__(self, size: int, pool: Pool | None = None):
        self.size = -(-max(size, 1) // GRAIN) * GRAIN if pool else max(size, 1)  # an empty tensor has an address too
        self._pool = pool
        self.pointer = (pool and pool.take(self.size)) or int(call("cudaMalloc", self.size, needed=self.size))

    def share(self) -> None:
        """Marks the memory as shared with users on unknown streams, so that the pool never uses it again."""
        self._pool = None

    def __del__(self) -> None:
        with suppress(Exception):  # at the end of the process CUDA may already be shut down
            if getattr(self, "pointer", 0) and not (self._pool and self._pool.give(self.pointer, self.size)):
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
        """Makes later work on ``stream`` wait for this event."""
        call("cudaStreamWaitEvent", stream, self.handle, 0)

    @property
    def done(self) -> bool:
        """Whether all work that was on the stream when the event was recorded is done. Raises ExecutionError."""
        status = runtime().cudaEventQuery(self.handle)[0]
        if int(status) == int(runtime().cudaError_t.cudaErrorNotReady):
            return False
        check("cudaEventQuery", status)
        return True

    def wait(self) -> None:
        """The host waits for the event."""
        call("cudaEventSynchronize", self.handle)

    def milliseconds_since(self, start: Event) -> float:
        self.wait()
        return float(call("cudaEventElapsedTime", start.handle, self.handle))

    def __del__(self) -> None:
        with suppress(Exception):
            if getattr(self, "handle", None) is not None:
                runtime().cudaEventDestroy(self.handle)


def order(before: int, after: int) -> None:
    """Makes later work on the stream ``after`` wait for the work on the stream ``before``; the host does not wait."""
    if before != after:
        event = Event()
        event.record(before)
        event.block(after)


def synchronize(stream: int) -> None:
    """Waits until all work on the stream is done; ExecutionError when some of it failed."""
    call("cudaStreamSynchronize", stream)


def copy(target: int, source: int, size: int, stream: int) -> None:
    """Copies bytes between host and device, in the order of the stream; CUDA determines where each address lies."""
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
    """Captures the work enqueued on the stream in the block; the list then holds the Graph."""
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
