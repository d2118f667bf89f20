"""torch.Tensor's methods that differ from the functions of their names: sizes one by one, dtypes, copies.

Each is one call into :mod:`trtdsl.functional`. The methods that are functions themselves are in
:mod:`trtdsl.definition.function_methods`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.above import F
from ..core.lazy import torch

if TYPE_CHECKING:
    from .tensor import Tensor

Dims = int | Sequence[int] | None


class Extremes(NamedTuple):
    """What :func:`aminmax` gives."""

    min: Tensor
    max: Tensor


class Selected(NamedTuple):
    """Values and where they were, as :func:`max`, :func:`sort` and :func:`topk` give them."""

    values: Tensor
    indices: Tensor


def _listed(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """``x.reshape(2, 3)`` and ``x.reshape((2, 3))`` alike: the values as one tuple."""
    return tuple(values[0]) if len(values) == 1 and isinstance(values[0], (list, tuple)) else values


class ShapeMethods:
    """Methods that take sizes or dimensions one by one, or as one tuple."""

    __slots__ = ()

    def reshape(self, *shape: Any) -> Tensor:
        """The elements in another shape: ``x.reshape(2, 3)`` or ``x.reshape((2, 3))``."""
        return F.reshape(self, _listed(shape))

    def permute(self, *dims: Any) -> Tensor:
        """The dimensions in another order: ``x.permute(1, 0)`` or ``x.permute((1, 0))``."""
        return F.permute(self, _listed(dims))

    def tile(self, *dims: Any) -> Tensor:
        """The tensor repeated: ``x.tile(2, 3)`` or ``x.tile((2, 3))``."""
        return F.tile(self, _listed(dims))

    def flip(self, *dims: Any) -> Tensor:
        """Some dimensions in reverse: ``x.flip(0, 1)`` or ``x.flip((0, 1))``."""
        return F.flip(self, _listed(dims))

    def unfold(self, dimension: Any, size: Any, step: Any) -> Tensor:
        """Windows of ``size`` along a dimension, every ``step``, as a new last dimension."""
        return F.unfold_dimension(self, dimension, size, step)

    def where(self, condition: Tensor, other: Any) -> Tensor:
        """The tensor's elements where ``condition`` holds, elsewhere those of ``other``."""
        return F.where(condition, self, other)

    @property
    def T(self) -> Tensor:
        """A matrix transposed."""
        return F.t(self)

    @property
    def mT(self) -> Tensor:
        """The last two dimensions transposed."""
        return F.transpose(self, -2, -1)


class ConversionMethods:
    """Other dtypes, and copies, which a network does not need."""

    __slots__ = ()

    def to(self, *args: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        """The tensor in another dtype: ``x.to(torch.float16)``, ``x.to(other)``; devices are left to the engine."""
        return F.to(self, *args, dtype=dtype, **kwargs)

    def type_as(self, other: Tensor) -> Tensor:
        """The tensor in the dtype of another."""
        return F.to(self, other.dtype)

    def float(self) -> Tensor:
        """The tensor as float32."""
        return F.to(self, torch.float32)

    def half(self) -> Tensor:
        """The tensor as float16."""
        return F.to(self, torch.float16)

    def bfloat16(self) -> Tensor:
        """The tensor as bfloat16."""
        return F.to(self, torch.bfloat16)

    def int(self) -> Tensor:
        """The tensor as int32."""
        return F.to(self, torch.int32)

    def long(self) -> Tensor:
        """The tensor as int64."""
        return F.to(self, torch.int64)

    def bool(self) -> Tensor:
        """Whether each element is not zero."""
        return F.to(self, torch.bool)

    def contiguous(self, memory_format: Any = None) -> Tensor:
        """The tensor itself: layouts are TensorRT's to choose."""
        return F.clone(self, memory_format=memory_format)

    def cpu(self) -> Tensor:
        """The tensor itself: an engine places its values."""
        return F.clone(self)

    def cuda(self, device: Any = None, non_blocking: Any = False) -> Tensor:
        """The tensor itself: an engine places its values."""
        return F.clone(self)

    def detach(self) -> Tensor:
        """The tensor itself: a network has no gradients."""
        return F.clone(self)
