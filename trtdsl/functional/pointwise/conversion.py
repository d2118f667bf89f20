"""Other dtypes, and copies."""

from __future__ import annotations

from typing import Any

from ..common import L, Tensor, UnsupportedError, UsageError, as_dtype, complexes, dtype_name, operation, torch


@operation
def to(input: Tensor, *args: Any, dtype: Any = None, copy: bool = False, **placement: Any) -> Any:
    """``input`` in another dtype, or in that of another Tensor: ICastLayer. torch.complex64 gives a ComplexTensor.

    As torch.Tensor.to: a dtype, a device, both, or a tensor. A device and ``non_blocking``, ``memory_format`` and
    ``copy`` have no meaning in an engine, which has a place of its own for its values. To ``float8_e4m3fn`` and back it
    is IQuantizeLayer and IDequantizeLayer with a scale of 1, which saturate at 448, where torch gives NaN.
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
    if dtype is torch.complex64:
        return complexes.of_real(L.cast(input, torch.float32))
    wanted = input.dtype if dtype is None else as_dtype(dtype)
    if input.is_constant or input.dtype == wanted:
        return L.cast(input, wanted)
    if wanted == torch.float8_e4m3fn:
        wide = input if input.dtype.is_floating_point else L.cast(input, torch.float32)
        return L.quantize(wide, input.network.constant(1.0, wide.dtype), wanted)
    if dtype_name(wanted).startswith("float8"):
        raise UnsupportedError("TensorRT converts values to one fp8, torch.float8_e4m3fn")
    if input.dtype == torch.float8_e4m3fn:
        wide = wanted if wanted in (torch.float16, torch.bfloat16) else torch.float32
        input = L.dequantize(input, input.network.constant(1.0, wide), wide)
    return L.cast(input, wanted)


@operation
def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """``input`` itself: Tensors of a network are values. ``memory_format`` is TensorRT's own choice."""
    return input
