"""An execution context with its buffers, and where a run's outputs go."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..core.errors import ExecutionError, OutOfMemoryError
from ..core.lazy import torch
from . import cuda
from .arrays import ITEMSIZES, DeviceArray, Kind, View, host_array, view
from .signature import TensorInfo

if TYPE_CHECKING:
    from .engine import Engine

ON_HOST: tuple[Kind, ...] = ("numpy", "torch")


class Context:
    """An execution context with its buffers: used by one run at a time."""

    def __init__(self, engine: Engine, *, graphs: bool = False):
        self.engine = engine
        with engine.backend.listen() as messages:
            if engine.backend.compiles_where_it_runs:
                config = engine.runtime_config(graphs=graphs or engine.cuda_graphs)
                self.trt = engine.trt.create_execution_context(config)
            else:
                self.trt = engine.trt.create_execution_context()
        if self.trt is None:
            text = messages.summary()
            if "memory" in text.lower():
                needed = int(engine.trt.device_memory_size_v2)
                raise OutOfMemoryError(needed, cuda.free_memory(), "an execution context")
            raise ExecutionError(f"TensorRT makes no execution context: {text}")
        self._buffers: dict[str, cuda.Memory] = {}
        self._stream = cuda.Stream()
        self._done = cuda.Event()
        self._last: int | None = None
        self._profile = 0
        self._held: Any = None  # what the GPU may still read and write of the last run

    def run(self, feeds: Mapping[str, View], kind: Kind, given: int | None, profile: int) -> dict[str, Any]:
        """Puts one run on the stream (its own without one) and gives the outputs.

        Waits for outputs on the host, and for all on its own stream, which their consumer does not know.
        """
        stream = self._stream.handle if given is None else given
        if self._last is not None and self._last != stream:
            self._done.block(stream)  # its scratch memory and buffers are in use until then
        sinks = self.bind(feeds, kind, stream, profile)
        self.execute(stream)
        results = {name: sink.result(complete=given is None) for name, sink in sinks.items()}
        self._done.record(stream)
        self._last = stream
        self._held = [feed.owner for feed in feeds.values()], sinks
        if given is None or kind in ON_HOST:
            cuda.synchronize(stream)
        return results

    def bind(self, feeds: Mapping[str, View], kind: Kind, stream: int, profile: int) -> dict[str, Sink]:
        """Sets profile, shapes and addresses for the next run; copies inputs from the host."""
        signature = self.engine.signature
        with self.engine.backend.listen() as messages:
            if profile != self._profile:
                if not self.trt.set_optimization_profile_async(profile, stream):
                    raise ExecutionError(f"profile {profile} cannot be chosen: {messages.summary()}")
                self._profile = profile
            for name, given in feeds.items():
                self._feed(signature.inputs[name], given, stream)
            try:
                missing = self.trt.infer_shapes()
            except RuntimeError as error:
                raise ExecutionError(f"the shapes do not fit each other: {messages.summary()}") from error
            if missing:
                raise ExecutionError(f"the shapes of {', '.join(missing)} are not known: {messages.summary()}")
            return {name: Sink(self, info, kind, stream) for name, info in signature.outputs.items()}

    def execute(self, stream: int) -> None:
        """Puts the engine's work on the stream. Raises ExecutionError, OutOfMemoryError."""
        with self.engine.backend.listen() as messages:
            if not self.trt.execute_async_v3(stream):
                if "memory" in messages.summary().lower():
                    raise OutOfMemoryError(None, cuda.free_memory(), "the run")
                raise ExecutionError(f"the engine did not run: {messages.summary()}")

    def _feed(self, info: TensorInfo, given: View, stream: int) -> None:
        pointer = given.pointer
        if given.kind == "cuda":  # torch may not reuse the memory before this stream is done with it
            given.owner.record_stream(torch_stream(stream, self.engine.device))
        if info.on_host:
            pass
        elif given.device is None:
            memory = self.buffer(info.name, given.size)
            cuda.copy(memory.pointer, given.pointer, given.size, stream)
            pointer = memory.pointer
        elif given.size == 0:
            pointer = self.buffer(info.name, 1).pointer
        if not self.trt.set_input_shape(info.name, given.shape):
            raise ExecutionError(f"TensorRT does not take shape {given.shape} for input {info}")
        self.trt.set_tensor_address(info.name, pointer)

    def buffer(self, name: str, size: int) -> cuda.Memory:
        """Device memory of at least ``size`` bytes that stays with the context."""
        memory = self._buffers.get(name)
        if memory is None or memory.size < size:
            memory = self._buffers[name] = cuda.Memory(size)
        return memory


class Sink:
    """Where one output of one run goes."""

    def __init__(self, context: Context, info: TensorInfo, kind: Kind, stream: int):
        self.kind: Kind = kind
        self.context, self.info, self.stream = context, info, stream
        shape = tuple(context.trt.get_tensor_shape(info.name))
        self.shape: tuple[int, ...] | None = None if min(shape, default=0) < 0 else shape
        self._memory: cuda.Memory | None = None
        self._tensor: Any = None  # on the host, or torch's on the GPU
        self._allocator: Any = None
        if self.shape is None:  # known only when the engine has run: TensorRT asks for memory then
            self._allocator = make_allocator(context.engine.backend.trt, self)
            context.trt.set_output_allocator(info.name, self._allocator)
        else:
            context.trt.set_tensor_address(info.name, self.allocate(self.size))

    @property
    def size(self) -> int:
        """In bytes."""
        return math.prod(self.shape or ()) * ITEMSIZES[self.info.dtype]

    def allocate(self, size: int) -> int:
        """Memory of at least ``size`` bytes; its address."""
        if self.info.on_host:
            self._tensor = host_array(self.shape or (size,), self.info.dtype, "torch")
            return view(self._tensor).pointer
        if self.kind == "cuda":
            device = f"cuda:{self.context.engine.device}"
            with torch.cuda.stream(torch_stream(self.stream, self.context.engine.device)):
                self._tensor = torch.empty(max(size, 1), dtype=torch.uint8, device=device)
            return self._tensor.data_ptr()
        if self.kind == "device":
            self._memory = cuda.Memory(size)
        else:
            self._memory = self.context.buffer(self.info.name, size)
        return self._memory.pointer

    def result(self, *, complete: bool) -> Any:
        """The output, whose values are there when the stream is done; ``complete`` says that the caller waits."""
        if self.shape is None:
            raise ExecutionError(f"TensorRT did not say the shape of output {self.info.name!r}")
        dtype = self.info.dtype
        if self.info.on_host:
            return self._tensor.numpy() if self.kind == "numpy" else self._tensor
        if self.kind == "cuda":
            return self._tensor[: self.size].view(getattr(torch, dtype)).reshape(self.shape)
        assert self._memory is not None
        if self.kind == "device":
            stream = None if complete else self.stream
            return DeviceArray(self._memory, self.shape, dtype, self.context.engine.device, stream)
        array = host_array(self.shape, dtype, self.kind)
        cuda.copy(view(array).pointer, self._memory.pointer, self.size, self.stream)
        return array


def torch_stream(handle: int, device: int) -> torch.cuda.Stream:
    """torch's object for a stream's handle."""
    current = torch.cuda.current_stream(device)
    if current.cuda_stream == handle:
        return current
    if handle == 0:  # torch takes an external stream 0 for none, and makes a new one
        return torch.cuda.default_stream(device)
    return torch.cuda.ExternalStream(handle, device=device)


def make_allocator(trt: Any, sink: Sink) -> Any:
    """TensorRT's output allocator over a Sink."""

    class OutputAllocator(trt.IOutputAllocator):
        def __init__(self) -> None:
            trt.IOutputAllocator.__init__(self)

        def reallocate_output(self, tensor_name: str, memory: int, size: int, alignment: int) -> int:
            return sink.allocate(size)

        def reallocate_output_async(self, tensor_name: str, memory: int, size: int, alignment: int, stream: int) -> int:
            return sink.allocate(size)

        def notify_shape(self, tensor_name: str, shape: Any) -> None:
            sink.shape = tuple(shape)

    return OutputAllocator()
