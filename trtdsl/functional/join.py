"""Joining tensors."""

from __future__ import annotations

from collections.abc import Sequence

from .. import layers as L
from ..errors import DefinitionError
from ..network import operation
from ..tensor import Tensor
from .operands import result_type


@operation
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """The tensors one after the other along ``dim``, in their common dtype: IConcatenationLayer.

    >>> net = td.Network()
    >>> F.cat([net.input("a", (2, 3)), net.input("b", (2, 5))], dim=1).shape
    (2, 8)
    """
    if not tensors:
        raise DefinitionError("cat needs at least one tensor")
    dtype = result_type(*tensors)
    # torch skips the legacy empty tensor of shape (0,)
    parts = [L.cast(tensor, dtype) for tensor in tensors if tensor.shape != (0,) or len(tensors) == 1]
    return L.concatenation(parts, dim) if len(parts) > 1 else parts[0]
