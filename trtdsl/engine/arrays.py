"""Arrays that go into an engine and come out: numpy, torch, DLPack and the CUDA array interface, without copies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from ..core.dtypes import dtype_name
from ..core.errors import FeedError
from ..core.lazy import np, torch
from ..core.tensors.dense import is_torch, why_unreadable
from ..sizes.shape import channels_last as memory_order
from . import cuda, dlpack
from .cuda import DEFAULT_STREAMS, LEGACY_STREAM, Memory

Kind = Literal["numpy", "torch", "cuda", "device"]  # of an array: on the host, or torch's or another's on the GPU
KINDS = get_args(Kind)
ON_HOST: tuple[Kind, ...] = ("numpy", "torch")

ITEMSIZES = {name: bits // 8 for (_, bits), name in dlpack.DTYPES.items()}
NOT_NUMPY = ("bfloat16", "float8_e4m3fn")


@dataclass(frozen=True)
class View:
    """Contiguous memory and what it means; ``owner`` keeps it alive. ``device`` is None for host memory.

    Where the engine takes channels last, that is the order of the memory; the shape is the same.

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

    def __init__(
        self,
        memory: Memory,
        shape: Sequence[int],
        dtype: str,
        device: int,
        stream: int | None = None,
        *,
        channels_last: bool = False,
    ):
        self.memory, self.shape, self.dtype, self.device = memory, tuple(shape), dtype, device
        self._stream = stream  # on which its values are computed; None when they are complete
        self._channels_last = channels_last

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
            "strides": tuple(stride * ITEMSIZES[self.dtype] for stride in self._strides),
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
        place = dlpack.CUDA, self.device
        return dlpack.write(self.memory.pointer, self.shape, self._strides, self.dtype, place, self.memory)

    @property
    def _strides(self) -> tuple[int, ...]:
        """In elements."""
        return strides_of(self.shape, channels_last=self._channels_last)

    def numpy(self) -> Any:
        """A copy on the host. Raises FeedError for a dtype that numpy does not have."""
        return self._to_host("numpy")

    def torch(self) -> Any:
        """A copy on the host, as a torch tensor."""
        return self._to_host("torch")

    def _to_host(self, kind: Kind) -> Any:
        result = host_array(self.shape, self.dtype, kind, channels_last=self._channels_last)
        target, stream = view(result, channels_last=self._channels_last), self._stream or 0
        with cuda.on_device(self.device):
            cuda.copy(target.pointer, self.memory.pointer, target.size, stream)
            cuda.synchronize(stream)
        return result


def to_device(tensor: torch.Tensor, device: int, stream: int, *, channels_last: bool = False) -> DeviceArray:
    """A copy of a CPU tensor on the GPU, complete when this returns."""
    given = view(tensor, channels_last=channels_last)
    with cuda.on_device(device):
        memory = Memory(given.size)
        cuda.copy(memory.pointer, given.pointer, given.size, stream)
        cuda.synchronize(stream)  # the tensor may be freed now, and its memory may be pinned
    return DeviceArray(memory, given.shape, given.dtype, device, channels_last=channels_last)


def strides_of(shape: Sequence[int], *, channels_last: bool = False) -> tuple[int, ...]:
    """How many elements apart the neighbours of each dimension lie in contiguous memory."""
    axes = memory_order(len(shape)) if channels_last else range(len(shape))
    strides, step = [0] * len(shape), 1
    for axis in reversed(axes):
        strides[axis], step = step, step * shape[axis]
    return tuple(strides)


def host_array(shape: Sequence[int], dtype: str, kind: Kind, *, channels_last: bool = False) -> Any:
    """An uninitialized array on the host, numpy's or torch's."""
    if channels_last:
        batch, channels, *sides = shape
        array = host_array((batch, *sides, channels), dtype, kind)
        return array.movedim(-1, 1) if kind == "torch" else np.moveaxis(array, -1, 1)
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
    if is_torch(value):
        return "cuda" if value.device.type == "cuda" else "torch"
    if hasattr(value, "__cuda_array_interface__"):
        return "device"
    if hasattr(value, "__dlpack__") and not isinstance(value, (np.ndarray, np.generic)):
        return "device" if value.__dlpack_device__()[0] in (dlpack.CUDA, dlpack.CUDA_MANAGED) else "numpy"
    return "numpy"


def view(value: Any, *, stream: int | None = None, channels_last: bool = False) -> View:
    """The memory of an array, contiguous (copied on its own device when it is not), or so with its channels last.

    ``stream`` is the stream that will read it: an array whose library takes a stream is prepared for it. Raises
    FeedError for a value that is not an array, or whose memory does not hold its values.
    """
    if reason := why_unreadable(value):
        raise FeedError(f"this {type(value).__name__} cannot be fed: {reason}")
    if is_torch(value):
        return _torch_view(value, channels_last)
    if hasattr(value, "__cuda_array_interface__"):
        return _cuda_view(value, channels_last)
    if hasattr(value, "__dlpack__") and not isinstance(value, (np.ndarray, np.generic)):
        return _dlpack_view(value, stream, channels_last)
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise FeedError(f"not an array of numbers: {type(value).__name__}")
    if channels_last and array.ndim > 2:
        array = np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)
    else:
        array = np.ascontiguousarray(array).reshape(array.shape)  # ascontiguousarray gives scalars a dimension
    return View(array.ctypes.data, array.shape, str(array.dtype), None, "numpy", array)


def target_view(name: str, value: Any, *, channels_last: bool = False) -> View:
    """The memory of an array that output ``name`` is written to. Raises FeedError for one that cannot be written to."""
    if isinstance(value, np.ndarray) and not value.flags.writeable:
        raise FeedError(f"the array for output {name!r} is read-only")
    found = view(value, channels_last=channels_last)
    own = value.ctypes.data if isinstance(value, np.ndarray) else value.data_ptr() if is_torch(value) else found.pointer
    if found.pointer != own:
        order = " with its channels last" if channels_last else ""
        raise FeedError(f"the array for output {name!r} is not contiguous{order}, or its memory holds the negatives")
    if isinstance(found.owner, np.ndarray) and found.owner is not value and not hasattr(value, "__dlpack__"):
        raise FeedError(f"the {type(value).__name__} for output {name!r} is not an array that can be written to")
    return found


def _torch_view(value: Any, channels_last: bool) -> View:
    if value.device.type not in ("cpu", "cuda"):
        raise FeedError(f"a tensor on {value.device} cannot be fed: move it to the CPU or to the engine's GPU")
    tensor = value.detach().resolve_neg()  # memory may hold the negatives, as of z.conj().imag
    order = {4: torch.channels_last, 5: torch.channels_last_3d}.get(tensor.ndim if channels_last else 0)
    tensor = tensor.contiguous(memory_format=torch.contiguous_format if order is None else order)
    dtype = dtype_name(tensor.dtype)
    on_gpu = tensor.device.type == "cuda"
    device = tensor.device.index if on_gpu else None
    ready = torch.cuda.current_stream(device).cuda_stream if on_gpu else None
    return View(tensor.data_ptr(), tuple(tensor.shape), dtype, device, "cuda" if on_gpu else "torch", tensor, ready)


def _cuda_view(value: Any, channels_last: bool) -> View:
    facts = value.__cuda_array_interface__
    try:
        dtype = np.dtype(facts["typestr"])
    except TypeError:
        raise FeedError(f"this {type(value).__name__} has a dtype that TensorRT does not have") from None
    shape = tuple(facts["shape"])
    strides = facts.get("strides")
    steps = None if strides is None else [stride // dtype.itemsize for stride in strides]
    _check_contiguous(value, shape, steps, channels_last)
    ready = facts.get("stream")
    device = getattr(value, "device", 0)
    index = device if isinstance(device, int) else getattr(device, "id", 0)
    ready = None if ready is None else int(ready)
    return View(int(facts["data"][0]), shape, str(dtype), int(index), "device", value, ready)


def _dlpack_view(value: Any, stream: int | None, channels_last: bool) -> View:
    kind, _ = value.__dlpack_device__()
    on_gpu = kind in (dlpack.CUDA, dlpack.CUDA_MANAGED)
    reader = LEGACY_STREAM if stream is None or stream in DEFAULT_STREAMS else stream
    capsule = value.__dlpack__(stream=reader) if on_gpu else value.__dlpack__()
    pointer, shape, strides, dtype, kind, index = dlpack.read(capsule)
    if dtype is None:
        raise FeedError(f"this {type(value).__name__} has a dtype that TensorRT does not have")
    _check_contiguous(value, shape, strides, channels_last)
    if not on_gpu and kind not in (dlpack.CPU, dlpack.CUDA_HOST):
        raise FeedError(f"this {type(value).__name__} is on a device that is neither the CPU nor a CUDA GPU")
    kind_, device = ("device", index) if on_gpu else ("numpy", None)
    return View(pointer, shape, dtype, device, kind_, capsule, reader if on_gpu else None)


def _check_contiguous(value: Any, shape: Sequence[int], strides: Sequence[int] | None, channels_last: bool) -> None:
    """FeedError where elements lie in another order; the stride of a dimension of size 1 does not matter."""
    wanted = strides_of(shape, channels_last=channels_last and len(shape) > 2)
    found = strides_of(shape) if strides is None else strides
    if any(size > 1 and a != b for size, a, b in zip(shape, found, wanted, strict=True)) and math.prod(shape):
        order = " with its channels last" if channels_last else ""
        raise FeedError(f"this {type(value).__name__} is not contiguous{order}: feed a contiguous copy")
