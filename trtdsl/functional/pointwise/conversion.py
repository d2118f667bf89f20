"""Other dtypes, and copies."""

from __future__ import annotations

from typing import Any

from ...core.errors import UnsupportedError, UsageError
from ..common import L, Tensor, as_dtype, dtype_name, operation, torch


@operation
def to(input: Tensor, *args: Any, dtype: Any = None, copy: bool = False, **placement: Any) -> Tensor:
    """``input`` in another dtype, or in that of another Tensor: ICastLayer.

    As torch.Tensor.to: a dtype, a device, both, or a tensor. A device and ``non_blocking``, ``memory_format`` and
    ``copy`` have no meaning in an engine, which has a place of its own for its values.

    >>> F.to(net.input("x", (2, 3)), torch.float16).dtype
    torch.float16
    """
    unknown = set(placement) - {"device", "non_blocking", "memory_format", "other"}
    if unknown:
        raise UsageError(f"to() has no argument {', '.join(sorted(unknown))}")
    for argument in (*args, placement.get("other")):
        if isinstance(argument, Tensor):
            dtype = argument.dtype
        elif isinstance(argument, torch.dtype) or (
            isinstance(argument, str) and argument.partition(":")[0] not in ("cpu", "cuda", "meta", "mps", "xpu")
        ):
            dtype = argument
    if dtype is not None and dtype_name(as_dtype(dtype)).startswith("float8") and not input.is_constant:
        raise UnsupportedError(
            "TensorRT converts no value to fp8 without a scale: F.quantize(x, scale, 'float8_e4m3fn') does, "
            "or td.find_precision(allow=('fp16', 'fp8'))"
        )
    return input if dtype is None else L.cast(input, as_dtype(dtype))


@operation
def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """``input`` itself: Tensors of a network are values. ``memory_format`` is TensorRT's own choice."""
    return input
