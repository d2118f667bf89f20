"""Where the outputs of one run go: memory for each, and the object that the caller gets."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, cast

from ...core.errors import ExecutionError, FeedDtypeError, FeedError, FeedNameError, FeedPlaceError, FeedShapeError
from ...core.lazy import torch
from .. import cuda
from ..arrays import ITEMSIZES, NOT_NUMPY, ON_HOST, DeviceArray, Kind, View, host_array, strides_of, view
from ..loading.signature import Signature, TensorInfo

ALIGNMENT = 256  # bytes, of the addresses that TensorRT takes


class Sink:
    """Where one output of one run goes.

    ``shape`` is None where it is known only after the run. ``stream`` is the stream of the run, ``seen`` the stream in
    whose order the caller sees the output, and ``given`` the caller's own memory for it, which is not written to before
    the run is done where it is ``shared`` with an input.
    """

    def __init__(
        self,
        info: TensorInfo,
        kind: Kind,
        device: int,
        shape: tuple[int, ...] | None,
        stream: int,
        seen: int,
        given: View | None,
        shared: bool = False,
    ):
        self._shared = shared
        self.info, self.device, self.shape = info, device, shape
        self.kind: Kind = kind
        self.stream, self.seen, self.given = stream, seen, given
        self._memory: cuda.Memory | None = None
        self._tensor: Any = None  # on the host, or torch's on the GPU

    @property
    def size(self) -> int:
        """In bytes."""
        return math.prod(self.shape or ()) * ITEMSIZES[self.info.dtype]

    @property
    def on_host(self) -> bool:
        """Whether its values go to the host."""
        return self.info.on_host or (self.kind in ON_HOST if self.given is None else self.given.device is None)

    def place(self, size: int, buffer: Callable[[int], cuda.Memory]) -> int:
        """The address of at least ``size`` bytes that TensorRT writes to; ``buffer`` gives memory to copy from."""
        given = self.given
        if self.info.on_host:
            if given is not None:
                return given.pointer
            shape = (size // ITEMSIZES[self.info.dtype],) if self.shape is None else self.shape
            self._tensor = host_array(shape, self.info.dtype, "torch")
            return view(self._tensor).pointer
        direct = given is not None and given.device is not None and not given.pointer % ALIGNMENT and not self._shared
        if given is not None and direct and size:
            return given.pointer
        if given is None and self.kind == "cuda":
            with torch.cuda.stream(torch_stream(self.seen, self.device)):
                self._tensor = torch.empty(max(size, 1), dtype=torch.uint8, device=f"cuda:{self.device}")
            return self._tensor.data_ptr()
        self._memory = buffer(size)
        return self._memory.pointer

    def result(self, *, complete: bool) -> Any:
        """The output, whose values are complete when the stream is done; ``complete`` says that the caller waits."""
        if self.shape is None:
            raise ExecutionError(f"TensorRT did not say the shape of output {self.info.name!r}")
        dtype, given, last = self.info.dtype, self.given, self.info.channels_last
        if given is not None:
            if self._memory is not None:
                cuda.copy(given.pointer, self._memory.pointer, self.size, self.stream)
            return None
        if self.info.on_host:
            tensor = self._tensor.reshape(-1)[: math.prod(self.shape)].reshape(self.shape)
            return tensor.numpy() if self.kind == "numpy" else tensor
        if self.kind == "cuda":
            found = self._tensor[: self.size].view(getattr(torch, dtype))
            return found.as_strided(self.shape, strides_of(self.shape, channels_last=last))
        assert self._memory is not None
        if self.kind == "device":
            ready = None if complete else self.seen
            return DeviceArray(self._memory, self.shape, dtype, self.device, ready, channels_last=last)
        array = host_array(self.shape, dtype, self.kind, channels_last=last)
        cuda.copy(view(array, channels_last=last).pointer, self._memory.pointer, self.size, self.stream)
        return array


def check_outputs(signature: Signature, kind: Kind, given: Mapping[str, View], device: int) -> None:
    """Checks before the run that outputs can be of the kind that was asked for.

    Raises FeedError for a dtype that numpy does not have, and FeedNameError, FeedDtypeError, FeedShapeError or
    FeedPlaceError for an array that was given for an output and does not fit it.
    """
    unknown = [name for name in given if name not in signature.outputs]
    if unknown:
        raise FeedNameError(f"there is no output {unknown[0]!r}. The outputs are {', '.join(signature.outputs)}")
    for name, info in signature.outputs.items():
        into = given.get(name)
        if into is None:
            if kind == "numpy" and info.dtype in NOT_NUMPY:
                raise FeedError(f"output {info} is {info.dtype}, which numpy does not have: ask for outputs='torch'")
            continue
        if into.dtype != info.dtype:
            raise FeedDtypeError(f"output {name!r} is {info.dtype}, and the array for it {into.dtype}")
        if into.device is not None and (info.on_host or into.device != device):
            there = "on the CPU" if info.on_host else f"on cuda:{device}"
            raise FeedPlaceError(f"output {name!r} is made {there}, and the array for it is on cuda:{into.device}")

    taken: list[tuple[str, View]] = []
    for name, into in given.items():
        for other, view_ in taken:
            if overlap(into, view_):
                raise FeedPlaceError(f"the arrays for outputs {other!r} and {name!r} share memory")
        taken.append((name, into))


def overlap(a: View, b: View) -> bool:
    """Whether two arrays share a byte."""
    return a.pointer < b.pointer + b.size and b.pointer < a.pointer + a.size


def check_output_shape(info: TensorInfo, shape: tuple[int, ...] | None, given: View | None) -> None:
    """FeedShapeError for an array whose shape is not the output's shape in this run."""
    if given is None:
        return
    if shape is None:
        raise FeedShapeError(f"the shape of output {info.name!r} depends on values: no array can be given for it")
    if given.shape != shape:
        raise FeedShapeError(f"output {info.name!r} has shape {shape} here, and the array for it {given.shape}")


def torch_stream(handle: int, device: int) -> torch.cuda.Stream:
    """torch's object for a stream's handle."""
    current = torch.cuda.current_stream(device)
    if current.cuda_stream == handle:
        return current
    if handle in cuda.DEFAULT_STREAMS:  # torch takes an external stream 0 to mean none, and makes a new one
        return torch.cuda.default_stream(device)
    return cast("torch.cuda.Stream", torch.cuda.ExternalStream(handle, device=device))


def make_allocator(trt: Any, pool: cuda.Pool) -> Any:
    """TensorRT's output allocator over a Sink, which is its ``sink`` for one run."""

    class OutputAllocator(trt.IOutputAllocator):
        def __init__(self, pool: cuda.Pool) -> None:  # a class is a reference cycle: it keeps what it closes over
            trt.IOutputAllocator.__init__(self)
            self.sink: Sink | None = None
            self.pool = pool

        def reallocate_output(self, tensor_name: str, memory: int, size: int, alignment: int) -> int:
            assert self.sink is not None
            return self.sink.place(size, lambda needed: cuda.Memory(needed, self.pool))

        def reallocate_output_async(self, tensor_name: str, memory: int, size: int, alignment: int, stream: int) -> int:
            return self.reallocate_output(tensor_name, memory, size, alignment)

        def notify_shape(self, tensor_name: str, shape: Any) -> None:
            assert self.sink is not None
            self.sink.shape = tuple(shape)

    return OutputAllocator(pool)
