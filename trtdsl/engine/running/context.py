"""An execution context with its buffers: it binds memory, enqueues a run, and holds what the run uses until it ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ...core.errors import ExecutionError, OutOfMemoryError, TrtdslError
from .. import cuda
from ..arrays import ON_HOST, Kind, View
from ..loading.loaded import Loaded
from ..loading.loader import says_out_of_memory
from ..loading.signature import TensorInfo
from .outputs import ALIGNMENT, Sink, check_output_shape, make_allocator, overlap


class Context:
    """An execution context with its buffers: used by one run at a time."""

    def __init__(self, loaded: Loaded, *, graphs: bool = False, eager: bool = False):
        self.loaded = loaded
        self.trt, self._config = loaded.make_context(graphs=graphs, eager=eager)
        self.broken = False
        """Whether a run failed: it is not known what is on its stream."""
        self.addresses: dict[str, int] = {}
        """Where the inputs and outputs of the next run lie, by name; those that TensorRT allocates are not there."""
        self._buffers: dict[str, cuda.Memory] = {}
        self._allocators: dict[str, Any] = {}
        self._stream = cuda.Stream()
        self._last: tuple[int, cuda.Event] | None = None
        self._profile = 0
        self._held: deque[tuple[cuda.Event, Any]] = deque()  # memory in use, and the event that ends its use
        self._spare: list[cuda.Event] = []

    @property
    def stream(self) -> int:
        """The handle of its own stream."""
        return self._stream.handle

    def working_stream(self, asked: int | None) -> int:
        """The stream that a run works on when the caller expects its results in the order of the stream ``asked``.

        It is never the default stream: no graph can be captured from that one, and TensorRT would synchronize around
        it.
        """
        return self.stream if asked is None or asked in cuda.DEFAULT_STREAMS else asked

    def run(
        self, feeds: Mapping[str, View], kind: Kind, asked: int | None, profile: int, given: Mapping[str, View]
    ) -> dict[str, Any]:
        """Enqueues one run on the stream ``asked`` (or its own) and returns the outputs that are not ``given``.

        Waits for outputs on the host, and for all outputs on its own stream, since their consumer does not know that
        stream.
        """
        stream = self.working_stream(asked)
        self.sweep()
        owners: list[Any] = [feeds, given]
        try:
            if self._last is not None and self._last[0] != stream:
                self._last[1].block(stream)  # its scratch memory and buffers are in use until then
            seen = stream if asked is None else asked
            sinks = self.bind(feeds, kind, stream, profile, given=given, seen=seen)
            owners.append(sinks)
            if asked is not None:
                cuda.order(asked, stream)  # after the caller's work there, and torch's own use of its memory
            self.execute(stream)
            results = {name: sink.result(complete=asked is None) for name, sink in sinks.items()}
            for allocator in self._allocators.values():
                allocator.sink = None
            done = self._spare.pop() if self._spare else cuda.Event()
            done.record(stream)
            self._held.append((done, owners))
            self._last = (stream, done)
            if asked is not None and asked != stream:
                done.block(asked)
            if asked is None or any(sink.on_host for sink in sinks.values()):
                cuda.synchronize(stream)
        except BaseException:
            self.broken = True
            with suppress(TrtdslError):
                cuda.synchronize(stream)  # the memory that it reads may be freed only now
            raise
        return {name: result for name, result in results.items() if name not in given}

    def bind(
        self,
        feeds: Mapping[str, View],
        kind: Kind,
        stream: int,
        profile: int,
        *,
        given: Mapping[str, View] | None = None,
        seen: int | None = None,
    ) -> dict[str, Sink]:
        """Sets profile, shapes and addresses for the next run; copies inputs that TensorRT cannot read where they lie.

        ``given`` are arrays for outputs; ``seen`` is the stream in whose order the caller sees the outputs. An input
        that TensorRT overwrites with an output is copied to that one's memory, unless the caller gave its own for it.
        """
        signature = self.loaded.signature
        overwritten = {info.alias for info in signature.outputs.values()}
        for ready in {view.ready for view in feeds.values() if view.ready is not None}:
            cuda.order(ready, stream)
        with self.loaded.backend.listen() as messages:
            if profile != self._profile:
                if not self.trt.set_optimization_profile_async(profile, stream):
                    raise ExecutionError(f"profile {profile} cannot be chosen: {messages.summary()}")
                self._profile = profile
            for name, fed in feeds.items():
                if not self.trt.set_input_shape(name, fed.shape):
                    raise ExecutionError(f"TensorRT does not take shape {fed.shape} for input {signature.inputs[name]}")
                if name not in overwritten:
                    self._feed(signature.inputs[name], fed, stream)
            try:
                missing = self.trt.infer_shapes()
            except RuntimeError as error:
                raise ExecutionError(f"the shapes do not fit each other: {messages.summary()}") from error
            if missing:
                raise ExecutionError(f"the shapes of {', '.join(missing)} are not known: {messages.summary()}")
            order, sinks = stream if seen is None else seen, {}
            for name, info in signature.outputs.items():
                into, old = (given or {}).get(name), feeds.get(info.alias or "")
                in_place = into is not None and old is not None and into.pointer == old.pointer
                others = [fed for fed in feeds.values() if not (in_place and fed is old)]
                shared = into is not None and any(overlap(into, fed) for fed in others)
                sinks[name] = self._sink(info, kind, stream, order, into, shared)
                if old is not None and info.alias is not None:
                    pointer = self.addresses[name]
                    if pointer != old.pointer:
                        cuda.copy(pointer, old.pointer, old.size, stream)
                    self._set_address(info.alias, pointer)
            return sinks

    def execute(self, stream: int) -> None:
        """Enqueues the engine's work on the stream. Raises ExecutionError, OutOfMemoryError."""
        with self.loaded.backend.listen() as messages:
            if not self.trt.execute_async_v3(stream):
                if says_out_of_memory(messages):
                    raise OutOfMemoryError(None, cuda.free_memory(), "the run")
                raise ExecutionError(f"the engine did not run: {messages.summary()}")

    def buffer(self, name: str, size: int) -> cuda.Memory:
        """Device memory of at least ``size`` bytes that stays with the context."""
        memory = self._buffers.get(name)
        if memory is None or memory.size < size:
            if memory is not None and self._held:
                self._held[-1][1].append(memory)  # the run before may still use it
            memory = self._buffers[name] = cuda.Memory(size)
        return memory

    def sweep(self) -> None:
        """Releases the memory that the GPU no longer uses."""
        while self._held and self._held[0][0].done:
            event, _ = self._held.popleft()
            if self._last is None or self._last[1] is not event:
                self._spare.append(event)

    def __del__(self) -> None:
        with suppress(Exception):
            for event, _ in self._held:
                event.wait()

    def _feed(self, info: TensorInfo, given: View, stream: int) -> None:
        pointer = given.pointer
        if not info.on_host and (given.device is None or given.size == 0 or pointer % ALIGNMENT):
            memory = self.buffer(info.name, given.size)
            cuda.copy(memory.pointer, given.pointer, given.size, stream)
            pointer = memory.pointer
        self._set_address(info.name, pointer)

    def _sink(self, info: TensorInfo, kind: Kind, stream: int, seen: int, given: View | None, shared: bool) -> Sink:
        shape = tuple(self.trt.get_tensor_shape(info.name))
        known = None if min(shape, default=0) < 0 else shape
        check_output_shape(info, known, given)
        sink = Sink(info, kind, self.loaded.device, known, stream, seen, given, shared)
        if known is not None:
            pooled = kind not in ON_HOST and given is None
            pool = self.loaded.pool
            buffer = (lambda size: cuda.Memory(size, pool)) if pooled else lambda size: self.buffer(info.name, size)
            self._set_address(info.name, sink.place(sink.size, buffer))
            return sink
        allocator = self._allocators.get(info.name)
        if allocator is None:  # TensorRT keeps every allocator that it is given, so each output has one for all runs
            allocator = self._allocators[info.name] = make_allocator(self.loaded.backend.trt, self.loaded.pool)
            if not self.trt.set_output_allocator(info.name, allocator):
                raise ExecutionError(f"TensorRT takes no allocator for output {info}")
        allocator.sink = sink
        return sink

    def _set_address(self, name: str, pointer: int) -> None:
        if not self.trt.set_tensor_address(name, pointer):
            raise ExecutionError(f"TensorRT does not take the address {pointer:#x} for {name!r}")
        self.addresses[name] = pointer
