"""cuda-python's names over a simulated machine: every function that trtdsl calls, with its signature and its errors.

Enumerations and constants are the real package's.
"""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

from cuda.bindings import driver as real_driver
from cuda.bindings import runtime as real

from .machine import ALLOCATION, CudaError, Machine
from .work import Event, Graph, Stream

FUNCTIONS: list[str] = []


def cuda_function(function: Any) -> Any:
    """A function of CUDA: counted, under the lock, with its status before its results."""
    name = function.__name__
    FUNCTIONS.append(name)

    @functools.wraps(function)
    def call(self: Runtime, *arguments: Any) -> tuple[Any, ...]:
        with self.machine.lock:
            try:
                self.machine.enter(name, ALLOCATION if name in ("cudaMalloc", "cudaFree") else 0.001)
                results = function(self, *arguments)
            except CudaError as error:
                return getattr(real.cudaError_t, error.name), *[None] * RESULTS.get(name, 0)
        if results is None:
            results = ()
        return real.cudaError_t.cudaSuccess, *(results if isinstance(results, tuple) else (results,))

    return call


RESULTS = dict.fromkeys(
    (
        "cudaGetDevice", "cudaGetDeviceCount", "cudaDeviceGetAttribute", "cudaGetDeviceProperties", "cudaMalloc",
        "cudaStreamCreateWithFlags", "cudaEventCreateWithFlags", "cudaEventElapsedTime", "cudaStreamEndCapture",
        "cudaGraphInstantiate", "cudaStreamIsCapturing", "cudaGetErrorString",
    ),
    1,
) | {"cudaMemGetInfo": 2}  # fmt: skip


class Runtime:
    """The double of the module cuda.bindings.runtime."""

    def __init__(self, machine: Machine):
        self.machine = machine

    def __getattr__(self, name: str) -> Any:
        value = getattr(real, name)
        if callable(value) and not isinstance(value, type):
            raise AttributeError(f"the simulated device has no {name}")
        return value

    # -- devices -------------------------------------------------------------------------------------------------------

    @cuda_function
    def cudaGetDeviceCount(self) -> int:
        return self.machine.devices

    @cuda_function
    def cudaSetDevice(self, index: int) -> None:
        if not 0 <= index < self.machine.devices:
            raise CudaError("cudaErrorInvalidDevice")
        self.machine.current = index

    @cuda_function
    def cudaGetDevice(self) -> int:
        return self.machine.current

    @cuda_function
    def cudaDeviceGetAttribute(self, attribute: Any, index: int) -> int:
        if not 0 <= index < self.machine.devices:
            raise CudaError("cudaErrorInvalidDevice")
        attributes = real.cudaDeviceAttr
        major, minor = self.machine.capability
        return {
            attributes.cudaDevAttrComputeCapabilityMajor: major,
            attributes.cudaDevAttrComputeCapabilityMinor: minor,
        }[attribute]

    @cuda_function
    def cudaGetDeviceProperties(self, index: int) -> Any:
        if not 0 <= index < self.machine.devices:
            raise CudaError("cudaErrorInvalidDevice")
        return SimpleNamespace(name=b"Simulated GPU", totalGlobalMem=self.machine.memory.total)

    @cuda_function
    def cudaDeviceSynchronize(self) -> None:
        self.machine.refuse_while_capturing()
        self.machine.finish_all()

    def cudaGetErrorString(self, status: Any) -> tuple[Any, bytes]:
        return real.cudaError_t.cudaSuccess, f"simulated {real.cudaError_t(int(status)).name}".encode()

    # -- memory --------------------------------------------------------------------------------------------------------

    @cuda_function
    def cudaMemGetInfo(self) -> tuple[int, int]:
        return self.machine.memory.total - self.machine.memory.used, self.machine.memory.total

    @cuda_function
    def cudaMalloc(self, size: int) -> int | None:
        self.machine.refuse_while_capturing()
        address = self.machine.memory.allocate(int(size), self.machine.current)
        if address is None:
            raise CudaError("cudaErrorMemoryAllocation")
        return address

    @cuda_function
    def cudaFree(self, address: int) -> None:
        self.machine.refuse_while_capturing()
        if address and not self.machine.memory.free(int(address)):
            self.machine.violations.append(f"{int(address):#x} is freed, and is not live memory")
            raise CudaError("cudaErrorInvalidValue")

    @cuda_function
    def cudaMemcpyAsync(self, target: int, source: int, size: int, kind: Any, stream: Any) -> None:
        self.machine.copy(int(target), int(source), int(size), self.machine.stream(stream))

    # -- streams and events --------------------------------------------------------------------------------------------

    @cuda_function
    def cudaStreamCreateWithFlags(self, flags: int) -> Stream:
        machine = self.machine
        stream = Stream(machine.new_handle(), machine.current, blocking=flags != real.cudaStreamNonBlocking)
        machine.streams[stream.handle] = stream
        return stream

    @cuda_function
    def cudaStreamDestroy(self, handle: Any) -> None:
        stream = self.machine.stream(handle)
        if stream is self.machine.legacy:
            raise CudaError("cudaErrorInvalidResourceHandle")
        stream.destroyed = True  # what was put on it is still done

    @cuda_function
    def cudaStreamSynchronize(self, handle: Any) -> None:
        stream = self.machine.stream(handle)
        if stream.capture is not None:
            stream.capture.invalid = True
            raise CudaError("cudaErrorStreamCaptureUnsupported")
        if stream is self.machine.legacy:  # it stands after all that the blocking streams have
            self.machine.put(stream, "synchronize", None)
        self.machine.finish(stream.last)

    @cuda_function
    def cudaStreamQuery(self, handle: Any) -> None:
        last = self.machine.stream(handle).last
        if last is not None and not last.done:
            raise CudaError("cudaErrorNotReady")

    @cuda_function
    def cudaStreamWaitEvent(self, stream: Any, event: Any, flags: int) -> None:
        waiting = self.machine.stream(stream)
        at = self.machine.event(event).at
        if waiting.capture is not None and at is not None and not at.done:
            waiting.capture.invalid = True
            raise CudaError("cudaErrorStreamCaptureIsolation")
        self.machine.wait(waiting, at)

    @cuda_function
    def cudaEventCreateWithFlags(self, flags: int) -> Event:
        timing = not int(flags) & int(real.cudaEventDisableTiming)
        event = Event(self.machine.new_handle(), timing)
        self.machine.events[event.handle] = event
        return event

    @cuda_function
    def cudaEventDestroy(self, handle: Any) -> None:
        self.machine.event(handle).destroyed = True
        del self.machine.events[int(handle)]

    @cuda_function
    def cudaEventRecord(self, event: Any, stream: Any) -> None:
        self.machine.event(event).at = self.machine.put(self.machine.stream(stream), "event", None)

    @cuda_function
    def cudaEventQuery(self, event: Any) -> None:
        at = self.machine.event(event).at
        if at is not None and not at.done:
            raise CudaError("cudaErrorNotReady")

    @cuda_function
    def cudaEventSynchronize(self, event: Any) -> None:
        self.machine.finish(self.machine.event(event).at)

    @cuda_function
    def cudaEventElapsedTime(self, start: Any, end: Any) -> float:
        first, last = self.machine.event(start), self.machine.event(end)
        if not first.timing or not last.timing or first.at is None or last.at is None:
            raise CudaError("cudaErrorInvalidResourceHandle")
        if not first.at.done or not last.at.done:
            raise CudaError("cudaErrorNotReady")
        return last.at.ended - first.at.ended

    # -- graphs --------------------------------------------------------------------------------------------------------

    @cuda_function
    def cudaStreamBeginCapture(self, handle: Any, mode: Any) -> None:
        stream = self.machine.stream(handle)
        if stream is self.machine.legacy:
            raise CudaError("cudaErrorStreamCaptureUnsupported")
        if stream.capture is not None:
            raise CudaError("cudaErrorIllegalState")
        stream.capture = Graph()
        self.machine.capturing.append(stream)

    @cuda_function
    def cudaStreamEndCapture(self, handle: Any) -> Graph:
        stream = self.machine.stream(handle)
        graph, stream.capture = stream.capture, None
        if graph is None:
            raise CudaError("cudaErrorIllegalState")
        self.machine.capturing.remove(stream)
        if graph.invalid:
            raise CudaError("cudaErrorStreamCaptureInvalidated")
        return graph

    @cuda_function
    def cudaStreamIsCapturing(self, handle: Any) -> Any:
        states = real.cudaStreamCaptureStatus
        active = self.machine.stream(handle).capture is not None
        return states.cudaStreamCaptureStatusActive if active else states.cudaStreamCaptureStatusNone

    @cuda_function
    def cudaGraphInstantiate(self, graph: Graph, flags: int) -> Graph:
        if graph.destroyed:
            raise CudaError("cudaErrorInvalidValue")
        return Graph(list(graph.items))

    @cuda_function
    def cudaGraphLaunch(self, graph: Graph, handle: Any) -> None:
        if graph.destroyed:
            raise CudaError("cudaErrorInvalidValue")
        stream = self.machine.stream(handle)
        for label, action, seconds in graph.items:
            self.machine.put(stream, label, action, seconds)

    @cuda_function
    def cudaGraphDestroy(self, graph: Graph) -> None:
        graph.destroyed = True

    @cuda_function
    def cudaGraphExecDestroy(self, graph: Graph) -> None:
        graph.destroyed = True


class Driver:
    """The double of the module cuda.bindings.driver."""

    def __init__(self, machine: Machine):
        self.machine = machine

    def __getattr__(self, name: str) -> Any:
        value = getattr(real_driver, name)
        if callable(value) and not isinstance(value, type):
            raise AttributeError(f"the simulated device has no {name}")
        return value

    def cuInit(self, flags: int) -> tuple[Any]:
        return (real_driver.CUresult.CUDA_SUCCESS,)

    def cuDeviceGetCount(self) -> tuple[Any, int]:
        return real_driver.CUresult.CUDA_SUCCESS, self.machine.devices

    def cuDriverGetVersion(self) -> tuple[Any, int]:
        return real_driver.CUresult.CUDA_SUCCESS, 13000
