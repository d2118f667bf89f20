"""torch's dtypes and their names."""

from __future__ import annotations

from typing import Any

from .errors import UsageError
from .lazy import torch

SHORT = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8": "float8_e4m3fn"}
"""torch's names of dtypes by those that precisions have."""


# What a network computes in where torch computes in a dtype that TensorRT does not have.
NARROWED = {"float64": "float32", "complex128": "complex64", "uint8": "int32", "int8": "int32", "int16": "int32"}


def as_dtype(dtype: Any) -> torch.dtype:
    """torch's dtype for a dtype or its name; UsageError for an unknown name.

    >>> as_dtype("float16"), as_dtype(torch.int64)
    (torch.float16, torch.int64)
    """
    if isinstance(dtype, torch.dtype):
        return dtype
    found = getattr(torch, str(dtype), None)
    if not isinstance(found, torch.dtype):
        raise UsageError(f"unknown dtype {dtype!r}: use a torch dtype or its name, such as 'float32'")
    return found


def dtype_name(dtype: torch.dtype | str) -> str:
    """A dtype's name: not every torch has the narrow ones, whose names can be compared all the same.

    >>> dtype_name(torch.float8_e4m3fn)
    'float8_e4m3fn'
    """
    return str(dtype).removeprefix("torch.")


def narrowed(dtype: torch.dtype) -> torch.dtype:
    """The dtype that a network has instead of one that TensorRT does not have."""
    name = NARROWED.get(dtype_name(dtype))
    return dtype if name is None else as_dtype(name)
