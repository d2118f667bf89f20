"""Copies of weights in another order, on one thread: torch's threads take longer wherever one waits for a busy core."""

from __future__ import annotations

from collections.abc import Sequence

from ..lazy import np, torch
from .exact import beside


def contiguous(data: torch.Tensor) -> torch.Tensor:
    """``data.contiguous()`` of a CPU tensor without history.

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
