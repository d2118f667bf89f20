"""torch's CUDA tensors and streams over a simulated machine, for a torch that was built without CUDA.

A tensor's bytes are the simulated device's; its address is one of the device's. torch's own work on such tensors is
done at once, after all that its current stream has: CUDA allows that. Memory that torch gets back is used again by
torch on the stream that it was allocated on, so it is poisoned as soon as that stream has come so far.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_map

from trtdsl.core import lazy

from .machine import Machine
from .memory import STALE, Allocation
from .work import Stream, complete


class Block:
    """Memory of torch's caching allocator: poisoned when the last tensor on it goes."""

    def __init__(self, machine: Machine, size: int):
        address = machine.memory.allocate(max(size, 1), 0, "torch's memory")
        assert address is not None
        self.allocation = machine.memory.owner(address)
        self.bytes = torch.from_numpy(self.allocation.bytes)
        stream = machine.stream(Streams.of(machine).current.cuda_stream)
        weakref.finalize(self, _poison, machine, stream, self.allocation)


def _poison(machine: Machine, stream: Stream, allocation: Allocation) -> None:
    with machine.lock:
        complete(stream.last)
        allocation.bytes.fill(STALE)


class CudaTensor(torch.Tensor):
    """A tensor on the simulated device. ``raw`` shares its bytes, on the host."""

    raw: torch.Tensor
    block: Block
    machine: Machine

    @staticmethod
    def make(machine: Machine, raw: torch.Tensor, block: Block) -> CudaTensor:
        made = torch.Tensor._make_wrapper_subclass(
            CudaTensor, raw.shape, strides=raw.stride(), dtype=raw.dtype, storage_offset=raw.storage_offset()
        )
        made.raw, made.block, made.machine = raw, block, machine
        return made

    @staticmethod
    def copy_of(machine: Machine, tensor: torch.Tensor) -> CudaTensor:
        strides = torch.empty_like(tensor).stride()  # a dense tensor's are kept, as torch does
        block = Block(machine, tensor.numel() * tensor.itemsize)
        raw = block.bytes[: tensor.numel() * tensor.itemsize].view(tensor.dtype).as_strided(tensor.shape, strides)
        raw.copy_(tensor)
        return CudaTensor.make(machine, raw, block)

    @property
    def device(self) -> torch.device:  # the wrapper's own is the CPU: this torch knows no other
        return torch.device("cuda:0")

    @property
    def is_cuda(self) -> bool:
        return True

    def data_ptr(self) -> int:
        return self.block.allocation.address + self.raw.data_ptr() - self.block.bytes.data_ptr()

    def cpu(self) -> torch.Tensor:
        _finish_current(self.machine)
        return self.raw.clone()

    def record_stream(self, stream: Any) -> None:
        raise AssertionError("an engine holds what it reads, and torch need not")

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors: list[CudaTensor] = []

        def unwrap(value: Any) -> Any:
            if isinstance(value, CudaTensor):
                tensors.append(value)
                return value.raw
            return value

        args, kwargs = tree_map(unwrap, (args, kwargs or {}))
        machine = tensors[0].machine
        _finish_current(machine)
        result = func(*args, **kwargs)
        by_storage = {tensor.raw.untyped_storage().data_ptr(): tensor.block for tensor in tensors}

        def wrap(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            block = by_storage.get(value.untyped_storage().data_ptr())
            return CudaTensor.copy_of(machine, value) if block is None else CudaTensor.make(machine, value, block)

        return tree_map(wrap, result)


def _finish_current(machine: Machine) -> None:
    with machine.lock:
        machine.finish(machine.stream(Streams.of(machine).current.cuda_stream).last)


class TorchStream:
    """torch.cuda.Stream."""

    def __init__(self, machine: Machine, handle: int):
        self._machine, self.cuda_stream = machine, handle

    def synchronize(self) -> None:
        with self._machine.lock:
            self._machine.finish(self._machine.stream(self.cuda_stream).last)


class Streams:
    """The functions of torch.cuda around streams."""

    def __init__(self, machine: Machine):
        self.machine = machine
        self.default = self.current = TorchStream(machine, 0)
        machine.torch = self

    @staticmethod
    def of(machine: Machine) -> Streams:
        return machine.torch

    def new(self, *_: Any, **__: Any) -> TorchStream:
        stream = Stream(self.machine.new_handle(), 0, blocking=False)
        self.machine.streams[stream.handle] = stream
        return TorchStream(self.machine, stream.handle)

    @contextmanager
    def use(self, stream: TorchStream) -> Iterator[None]:
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before


@contextmanager
def simulated_torch(machine: Machine) -> Iterator[Streams]:
    """Gives torch the simulated machine for its CUDA device."""
    streams, empty = Streams(machine), torch.empty

    def make_empty(*shape: Any, device: Any = None, **options: Any) -> torch.Tensor:
        if device is None or torch.device(device).type != "cuda":
            return empty(*shape, device=device, **options)
        return CudaTensor.copy_of(machine, empty(*shape, **options))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", lambda: True)
        patch.setattr(torch.cuda, "current_stream", lambda device=None: streams.current)
        patch.setattr(torch.cuda, "default_stream", lambda device=None: streams.default)
        patch.setattr(torch.cuda, "ExternalStream", lambda handle, device=None: TorchStream(machine, handle))
        patch.setattr(torch.cuda, "Stream", streams.new)
        patch.setattr(torch.cuda, "stream", streams.use)
        patch.setattr(torch.Tensor, "cuda", lambda tensor, *_, **__: CudaTensor.copy_of(machine, tensor))
        patch.setattr(lazy.torch, "empty", make_empty, raising=False)
        yield streams
