"""torch.Tensor's methods: dtypes and copies.

Each is one call into :mod:`trtdsl.functional`, where its arguments are documented.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.lazy import torch
from ..above import F

if TYPE_CHECKING:
    from ..tensor import Tensor


class ConversionMethods:
    """Other dtypes, and copies."""

    __slots__ = ()

    def to(self, *args: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        return F.to(self, *args, dtype=dtype, **kwargs)

    def cpu(self) -> Tensor:
        return F.clone(self)

    def cuda(self, device: Any = None, non_blocking: Any = False) -> Tensor:
        return F.clone(self)

    def type_as(self, other: Tensor) -> Tensor:
        return F.to(self, other.dtype)

    def float(self) -> Tensor:
        return F.to(self, torch.float32)

    def half(self) -> Tensor:
        return F.to(self, torch.float16)

    def bfloat16(self) -> Tensor:
        return F.to(self, torch.bfloat16)

    def int(self) -> Tensor:
        return F.to(self, torch.int32)

    def long(self) -> Tensor:
        return F.to(self, torch.int64)

    def bool(self) -> Tensor:
        return F.to(self, torch.bool)

    def clone(self, *, memory_format: Any = None) -> Tensor:
        return F.clone(self, memory_format=memory_format)

    def contiguous(self, memory_format: Any = None) -> Tensor:
        return F.clone(self, memory_format=memory_format)

    def detach(self) -> Tensor:
        return F.clone(self)

    def where(self, condition: Tensor, other: Any) -> Tensor:
        return F.where(condition, self, other)

    def unfold(self, dimension: Any, size: Any, step: Any) -> Tensor:
        return F.unfold_dimension(self, dimension, size, step)

    @property
    def T(self) -> Tensor:
        return F.t(self)

    @property
    def mT(self) -> Tensor:
        return F.transpose(self, -2, -1)
