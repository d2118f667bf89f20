"""Arrays that go into an engine and come out: numpy, torch, DLPack and the CUDA array interface, without copies."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from ..core.dtypes import dtype_name
from ..core.errors import FeedError
from ..core.lazy import np, torch
from . import cuda, dlpack
from .cuda import DEFAULT_STREAMS, LEGACY_STREAM, Memory

Kind = Literal["numpy", "torch", "cuda", "device"]  # of an array: on the host, or torch's or another's on the GPU
KINDS = get_args(Kind)
ON_HOST: tuple[Kind, ...] = ("numpy", "torch")

ITEMSIZES = {
    "float64": 8,
    "int64": 8,
    "float32": 4,
    "int32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
    "float8_e4m3fn": 1,
}
NOT_NUMPY = ("bfloat16", "float8_e4m3fn")


@dataclass(frozen=True)
class View:
    """Contiguous memory and what it means; ``owner`` keeps it alive. ``device`` is None for host memory.

    ``ready`` is the stream on which its values are computed; None where they are complete, or computed for the stream
    that reads.
    """

    pointer: int
    shape: tuple[int, ...]
    dtype: str
    device: int | None
    kind: Kind
    owner: Any
    ready: int | None = None

    @property
    def size(self) -> int:
        """In bytes."""
        return math.prod(self.shape) * ITEMSIZES.get(self.dtype, 8)


class DeviceArray:
    """An output that stays on the GPU; it supports DLPack and the CUDA array interface.

    ``torch.from_dlpack(array)``, ``cupy.asarray(array)`` and the like share its memory; ``array.numpy()`` copies it.
    """

    def __init__(self, memory: Memory, shape: Sequence[int], dtype: str, device: int, stream: int | None = None):
        self.memory, self.shape, self.dtype, self.device = memory, tuple(shape), dtype, device
        self._stream = stream  # on which its values are computed; None when they are complete

    def __repr__(self) -> str:
        return f"DeviceArray({self.dtype} {self.shape} on cuda:{self.device})"

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.dtype in NOT_NUMPY:
            raise AttributeError(f"the CUDA array interface has no {self.dtype}; use DLPack")
        self.memory.share()
        stream = LEGACY_STREAM if self._stream in DEFAULT_STREAMS else self._stream  # the interface forbids 0
        return {
            "shape": self.shape,
            "typestr": np.dtype(self.dtype).str,
            "data": (self.memory.pointer, False),
            "version": 3,
            "stream": stream,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CUDA, self.device

    def __dlpack__(self, *, stream: int | None = None, **_: Any) -> Any:
        # The unversioned protocol; -1 says that the consumer needs no order, None is the default stream.
        if self._stream is not None and stream != -1:
            cuda.order(self._stream, LEGACY_STREAM if stream is None else stream)
        self.memory.share()
        return dlpack.write(self.memory.pointer, self.shape, self.dtype, (dlpack.CUDA, self.device), self.memory)

    def numpy(self) -> Any:
        """A copy on the host. Raises FeedError for a dtype that numpy does not have."""
        return self._to_host("numpy")

    def torch(self) -> Any:
        """A copy on the host, as a torch tensor."""
        return self._to_host("torch")

    def _to_host(self, kind: Kind) -> Any:
        result = host_array(self.shape, self.dtype, kind)
        target, stream = view(result), self._stream or 0
        with cuda.on_device(self.device):
            cuda.copy(target.pointer, self.memory.pointer, target.size, stream)
            cuda.synchronize(stream)
        return result


def to_device(tensor: torch.Tensor, device: int, stream: int) -> DeviceArray:
    """A copy of a CPU tensor on the GPU, complete when this returns."""
    given = view(tensor)
    with cuda.on_device(device):
        memory = Memory(given.size)
        cuda.copy(memory.pointer, given.pointer, given.size, stream)
        cuda.synchronize(stream)  # the tensor may be freed now, and its memory may be pinned
    return DeviceArray(memory, given.shape, given.dtype, device)


def host_array(shape: Sequence[int], dtype: str, kind: Kind) -> Any:
    """An uninitialized array on the host, numpy's or torch's."""
    if kind == "torch":
        return torch.empty(tuple(shape), dtype=getattr(torch, dtype))
    if dtype in NOT_NUMPY:
        raise FeedError(f"numpy has no {dtype}: feed torch tensors to get torch tensors back")
    return np.empty(tuple(shape), dtype=dtype)


def zeros(shape: Sequence[int], dtype: str) -> Any:
    """Zeros on the host: numpy's, or torch's of a dtype that numpy does not have."""
    array = host_array(shape, dtype, "torch" if dtype in NOT_NUMPY else "numpy")
    array[...] = 0
    return array


def kind_of(value: Any) -> Kind:
    """Where an array lies and which library it belongs to, without reading its memory."""
    if _is_torch(value):
        return "cuda" if value.device.type == "cuda" else "torch"
    if hasattr(value, "__cuda_array_interface__"):
        return "device"
    if hasattr(value, "__dlpack__") and not isinstance(value, (np.ndarray, np.generic)):
        return "device" if value.__dlpack_device__()[0] in (dlpack.CUDA, dlpack.CUDA_MANAGED) else "numpy"
    return "numpy"


def view(value: Any, *, stream: int | None = None) -> View:
    """The memory of an array, contiguous (copied on its own device when it is not).

    ``stream`` is the stream that will read it: an array whose library takes a stream is prepared for it. Raises
    FeedError for a value that is not an array.
    """
    if _is_torch(value):
        return _torch_view(value)
    if hasattr(value, "__cuda_array_interface__"):
        return _cuda_view(value)
    if hasattr(value, "__dlpack__") and not isinstance(value, (np.ndarray, np.generic)):
        return _dlpack_view(value, stream)
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise FeedError(f"not an array of numbers: {type(value).__name__}")
    array = np.ascontiguousarray(array).reshape(array.shape)  # ascontiguousarray gives scalars a dimension
    return View(array.ctypes.data, array.shape, str(array.dtype), None, "numpy", array)


def target_view(name: str, value: Any) -> View:
    """The memory of an array that output ``name`` is written to. Raises FeedError for one that cannot be written to."""
    if isinstance(value, np.ndarray) and not value.flags.writeable:
        raise FeedError(f"the array for output {name!r} is read-only")
    if isinstance(value, np.ndarray):
        contiguous = bool(value.flags.c_contiguous)
    else:
        contiguous = kind_of(value) not in ("torch", "cuda") or value.is_contiguous()
    if not contiguous:
        raise FeedError(f"the array for output {name!r} is not contiguous")
    found = view(value)
    if isinstance(found.owner, np.ndarray) and found.owner is not value and not hasattr(value, "__dlpack__"):
        raise FeedError(f"the {type(value).__name__} for output {name!r} is not an array that can be written to")
    return found


def _is_torch(value: Any) -> bool:
    """Whether it is a torch tensor or of a subclass of one; torch is not imported for the answer."""
    return "torch" in sys.modules and isinstance(value, torch.Tensor)


def _torch_view(value: Any) -> View:
    if value.device.type not in ("cpu", "cuda"):
        raise FeedError(f"a tensor on {value.device} cannot be fed: move it to the CPU or to the engine's GPU")
    tensor = value.detach().contiguous()
    dtype = dtype_name(tensor.dtype)
    on_gpu = tensor.device.type == "cuda"
    device = tensor.device.index if on_gpu else None
    ready = torch.cuda.current_stream(device).cuda_stream if on_gpu else None
    return View(tensor.data_ptr(), tuple(tensor.shape), dtype, device, "cuda" if on_gpu else "torch", tensor, ready)


def _cuda_view(value: Any) -> View:
    facts = value.__cuda_array_interface__
    try:
        dtype = np.dtype(facts["typestr"])
    except TypeError:
        raise FeedError(f"this {type(value).__name__} has a dtype that TensorRT does not have") from None
    shape = tuple(facts["shape"])
    strides = facts.get("strides")
    if strides is not None and not _is_contiguous(shape, [stride // dtype.itemsize for stride in strides]):
        raise FeedError(f"this {type(value).__name__} is not contiguous: feed a contiguous copy")
    ready = facts.get("stream")
    device = getattr(value, "device", 0)
    index = device if isinstance(device, int) else getattr(device, "id", 0)
    ready = None if ready is None else int(ready)
    return View(int(facts["data"][0]), shape, str(dtype), int(index), "device", value, ready)


def _dlpack_view(value: Any, stream: int | None) -> View:
    kind, _ = value.__dlpack_device__()
    on_gpu = kind in (dlpack.CUDA, dlpack.CUDA_MANAGED)
    reader = LEGACY_STREAM if stream is None or stream in DEFAULT_STREAMS else stream
    capsule = value.__dlpack__(stream=reader) if on_gpu else value.__dlpack__()
    pointer, shape, strides, dtype, kind, index = dlpack.read(capsule)
    if dtype is None:
        raise FeedError(f"this {type(value).__name__} has a dtype that TensorRT does not have")
    if strides is not None and not _is_contiguous(shape, strides):
        raise FeedError(f"this {type(value).__name__} is not contiguous: feed a contiguous copy")
    if not on_gpu and kind not in (dlpack.CPU, dlpack.CUDA_HOST):
        raise FeedError(f"this {type(value).__name__} is on a device that is neither the CPU nor a CUDA GPU")
    kind_, device = ("device", index) if on_gpu else ("numpy", None)
    return View(pointer, shape, dtype, device, kind_, capsule, reader if on_gpu else None)


def _is_contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether elements lie in C order; the stride of a dimension of size 1 does not matter."""
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size > 1 and stride != step:
            return math.prod(shape) == 0
        step *= size
    return True
