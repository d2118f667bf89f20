"""The simulated machine: its devices' memory, streams, clock, counters and faults."""

from __future__ import annotations

import ctypes
import itertools
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from .memory import STALE, IllegalAccessError, Memory, host_bytes, is_device
from .work import LEGACY, PER_THREAD, Event, Stream, Work, complete

# Milliseconds that things take, invented, and told apart by their size.
CALL, ALLOCATION, KERNEL = 0.001, 0.1, 1.0


NUMBERS, HANDLES = itertools.count(), itertools.count(0x1000)  # no handle and no address is another machine's


class CudaError(Exception):
    """What a function of CUDA gives instead of success."""

    def __init__(self, name: str):
        super().__init__(name)
        self.name = name


class Machine:
    """Devices that do as late as CUDA allows what they are told, and notice what they must not be told.

    ``violations`` are accesses that a real device would have made silently or died of. ``counts`` are calls by name;
    ``log`` is all calls in order.
    """

    def __init__(self, *, memory: int = 16 << 30, devices: int = 1, capability: tuple[int, int] = (8, 9)):
        self.memory = Memory(memory, next(NUMBERS))
        self.devices, self.capability = devices, capability
        self.violations: list[str] = []
        self.counts: Counter[str] = Counter()
        self.log: list[str] = []
        self.clock = 0.0  # the host's, in milliseconds
        self.lock = threading.RLock()
        self.lost: str | None = None  # the error that all calls give from now on
        self.faults: list[tuple[str, str, int]] = []  # which call, what it gives, after how many good ones
        self.failing_launches: list[str] = []
        self.streams: dict[int, Stream] = {}
        self.events: dict[int, Event] = {}
        self.pinned: dict[int, int] = {}
        self._pages: list[np.ndarray] = []
        self._thread = threading.local()
        self.torch: Any = None  # torch's streams, where torch is simulated too
        self.legacy = Stream(0, 0, blocking=True)
        for handle in (0, LEGACY, PER_THREAD):
            self.streams[handle] = self.legacy

    # -- calls ---------------------------------------------------------------------------------------------------------

    def enter(self, name: str, cost: float = CALL) -> None:
        """Counts a call; raises the error that it is to give."""
        self.counts[name] += 1
        self.log.append(name)
        self.clock += cost
        for index, (which, error, after) in enumerate(self.faults):
            if which == name:
                if after:
                    self.faults[index] = (which, error, after - 1)
                    continue
                del self.faults[index]
                raise CudaError(error)
        if self.lost is not None:
            raise CudaError(self.lost)

    def fail(self, name: str, error: str = "", after: int = 0) -> None:
        """Makes one call of a function fail, after so many good ones."""
        self.faults.append((name, error, after))

    def fail_launch(self, error: str = "cudaErrorIllegalAddress") -> None:
        """Makes the next kernel fail when it runs: the device is lost to this process from then on."""
        self.failing_launches.append(error)

    @property
    def synchronizations(self) -> int:
        """How often the host waited for the device."""
        waits = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "pageable copy to the host")
        return sum(self.counts[name] for name in waits)

    @property
    def allocations(self) -> int:
        return self.counts["cudaMalloc"]

    @property
    def current(self) -> int:
        """The calling thread's device."""
        return getattr(self._thread, "device", 0)

    @current.setter
    def current(self, index: int) -> None:
        self._thread.device = index

    @property
    def capturing(self) -> list[Stream]:
        """The streams that the calling thread captures."""
        if not hasattr(self._thread, "capturing"):
            self._thread.capturing = []
        return self._thread.capturing

    def refuse_while_capturing(self) -> None:
        """What a thread must not do while it captures a stream: it spoils the capture."""
        for stream in self.capturing:
            assert stream.capture is not None
            stream.capture.invalid = True
        if self.capturing:
            raise CudaError("cudaErrorStreamCaptureUnsupported")

    # -- streams -------------------------------------------------------------------------------------------------------

    def new_handle(self) -> int:
        return next(HANDLES)

    def stream(self, handle: Any) -> Stream:
        found = self.streams.get(int(handle))
        if found is None or found.destroyed:
            raise CudaError("cudaErrorInvalidResourceHandle")
        return found

    def event(self, handle: Any) -> Event:
        found = self.events.get(int(handle))
        if found is None or found.destroyed:
            raise CudaError("cudaErrorInvalidResourceHandle")
        return found

    def put(self, stream: Stream, label: str, action: Callable[[], None] | None, seconds: float = 0.0) -> Work | None:
        """Puts work on a stream; None when the stream is captured."""
        if stream.capture is not None:
            stream.capture.items.append((label, action, seconds))
            return None
        before = [stream.last, self.legacy.last if stream.blocking else None]
        if stream is self.legacy:
            before += [other.last for other in self.streams.values() if other.blocking]
        work = Work(label, action and self._guarded(action), [w for w in before if w is not None], self.clock, seconds)
        stream.last = work
        return work

    def wait(self, stream: Stream, work: Work | None) -> None:
        """What is put on the stream from now on comes after ``work``."""
        if work is not None:
            self.put(stream, "wait", None)
            assert stream.last is not None
            stream.last.ended = max(stream.last.ended, work.ended)
            if not work.done:
                stream.last.after.append(work)

    def _guarded(self, action: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            if self.lost is None:
                try:
                    action()
                except IllegalAccessError as error:
                    self.violations.append(str(error))
                    self.lost = "cudaErrorIllegalAddress"
                except CudaError as error:
                    self.lost = error.name

        return run

    def finish(self, work: Work | None) -> None:
        """The host waits for some work; raises what was found on the way."""
        complete(work)
        if work is not None:
            self.clock = max(self.clock, work.ended)
        if self.lost is not None:
            raise CudaError(self.lost)

    def finish_all(self) -> None:
        for stream in list(self.streams.values()):
            self.finish(stream.last)

    def launch(self, stream: Stream, label: str, action: Callable[[], None], seconds: float = KERNEL) -> Work | None:
        """A kernel."""

        def run() -> None:
            if self.failing_launches:
                raise CudaError(self.failing_launches.pop(0))
            action()

        return self.put(stream, label, run, seconds)

    # -- memory --------------------------------------------------------------------------------------------------------

    def bytes_at(self, address: int, size: int) -> np.ndarray:
        """Host or device memory."""
        return self.memory.bytes(address, size) if is_device(address) else host_bytes(address, size)

    def copy(self, target: int, source: int, size: int, stream: Stream) -> None:
        """An asynchronous copy: at once as far as it touches pageable host memory, otherwise late."""
        from_pageable = not is_device(source) and not self.is_pinned(source, size)
        to_pageable = not is_device(target) and not self.is_pinned(target, size)
        staged = host_bytes(source, size).copy() if from_pageable and stream.capture is None else None

        def action() -> None:
            data = self.bytes_at(source, size) if staged is None else staged
            self.bytes_at(target, size)[:] = data

        work = self.put(stream, "copy", action)
        if work is not None and to_pageable:
            self.counts["pageable copy to the host"] += 1
            self.log.append("pageable copy to the host")
            self.finish(work)

    def is_pinned(self, address: int, size: int) -> bool:
        return any(start <= address and address + size <= start + length for start, length in self.pinned.items())

    def pinned_array(self, shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
        """A host array that copies read and write late; poisoned when it is let go, as memory is that others get."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        page = np.zeros(max(size, 1), np.uint8)
        self._pages.append(page)
        self.pinned[page.ctypes.data] = page.size
        buffer = (ctypes.c_uint8 * page.size).from_address(page.ctypes.data)
        weakref.finalize(buffer, page.fill, STALE)
        return np.frombuffer(buffer, dtype, int(np.prod(shape))).reshape(shape)
