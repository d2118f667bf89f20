"""Other dtypes, and copies."""

from __future__ import annotations

from typing import Any

from .. import layers as L
from ..errors import UnsupportedError
from ..network import as_dtype, operation
from ..tensor import Tensor


@operation
def to(input: Tensor, dtype: Any = None, *, copy: bool = False) -> Tensor:
    """``input`` in another dtype, or in that of another Tensor: ICastLayer. ``copy`` makes no difference: Tensors are values.

    Devices are refused: an engine has its own.

    >>> F.to(td.Network().input("x", (2, 3)), torch.float16).dtype
    torch.float16
    """
    if isinstance(dtype, Tensor):
        dtype = dtype.dtype
    if dtype is None:
        return input
    if isinstance(dtype, str) and dtype.partition(":")[0] in ("cpu", "cuda", "meta", "mps"):
        raise UnsupportedError(f"to({dtype!r}): an engine runs on its own device; leave it out")
    return L.cast(input, as_dtype(dtype))


@operation
def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """``input`` itself: Tensors of a network are values. ``memory_format`` is TensorRT's own choice.

    >>> F.clone(td.Network().input("x", (2, 3))).name
    'x'
    """
    return input
