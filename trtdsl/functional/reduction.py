"""Reductions over dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import layers as L
from ..errors import UnsupportedError
from ..lazy import torch
from ..network import as_dtype, operation
from ..tensor import Tensor
from .operands import axes_of


@operation
def sum(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum over ``dim`` (all dimensions when None): IReduceLayer SUM; integers and bool are summed as int64.

    >>> F.sum(td.Network().input("x", (2, 3, 4)), (0, 2)).shape
    (3,)
    """
    if dtype is not None:
        input = L.cast(input, as_dtype(dtype))
    elif not input.dtype.is_floating_point:
        input = L.cast(input, torch.int64)
    return _reduce(input, "SUM", dim, keepdim)


@operation
def mean(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The mean over ``dim`` (all dimensions when None: a true scalar): IReduceLayer AVG.

    >>> F.mean(td.Network().input("x", (2, "T", 4))).shape
    ()
    """
    if dtype is not None:
        input = L.cast(input, as_dtype(dtype))
    if not input.dtype.is_floating_point:
        raise UnsupportedError(f"mean of {input.dtype}: as in torch, give dtype=torch.float32")
    return _reduce(input, "AVG", dim, keepdim)


def _reduce(x: Tensor, op: str, dim: int | Sequence[int] | None, keepdim: bool) -> Tensor:
    axes = axes_of(dim, x.ndim)
    return L.reduce(x, op, axes, keepdim) if axes else x
