"""Memory of tensors: copies of weights in another order, and blocks that are used again."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence

from ..lazy import np, torch
from .exact import beside

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of malloc.h
LARGEST = (1 << 31) - 1


def keep_freed_memory() -> None:
    """Lets this process keep the blocks that it frees, for the next ones: for a command, not for a library.

    glibc gives blocks of more than 32 MB back at once, and the kernel clears each page of the next one.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:  # of another C library there may be none, and musl has none
            mallopt(MMAP_THRESHOLD, 1 << 30)
            mallopt(TRIM_THRESHOLD, LARGEST)


def storage_of(tensor: torch.Tensor) -> int:
    """The identity of a tensor's memory, which tensors that share it have in common."""
    try:
        return tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):  # sparse and other tensors without one
        return id(tensor)


def contiguous(data: torch.Tensor) -> torch.Tensor:
    """``data.contiguous()`` of a CPU tensor without history, on one thread: torch's wait for each other on busy cores.

    >>> contiguous(torch.tensor([[1.0, 2.0], [3.0, 4.0]]).T).flatten().tolist()
    [1.0, 3.0, 2.0, 4.0]
    """
    if data.is_contiguous():
        return data
    if data.dtype != torch.float32:
        return data.contiguous()
    made = torch.from_numpy(np.ascontiguousarray(data.numpy()))
    return beside(made, lambda exact: exact.contiguous(), data)


def reshaped(data: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """``data.reshape(shape)`` of a CPU tensor without history: a view of the same values where there is one.

    >>> reshaped(torch.tensor([[1.0, 2.0], [3.0, 4.0]]).T, (4,)).tolist()
    [1.0, 3.0, 2.0, 4.0]
    """
    if data.dtype != torch.float32 or data.is_contiguous():
        return data.reshape(tuple(shape))
    made = torch.from_numpy(data.numpy().reshape(tuple(shape)))
    return beside(made, lambda exact: exact.reshape(tuple(shape)), data)


def flat(data: torch.Tensor) -> torch.Tensor:
    """The elements of a contiguous tensor in one dimension; of a single element torch keeps any stride.

    >>> flat(torch.ones(1, 1, 1)).stride()
    (1,)
    """
    return data.as_strided((data.numel(),), (1,))
