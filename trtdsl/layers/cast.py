"""CAST and IDENTITY."""

from __future__ import annotations

from typing import Any

from ..definition.graph import Layer
from .common import Evaluate, Mistakes, Node, Tensor, add_layer, adds, as_dtype, dtype_name, evaluates, operation, torch


@operation
def cast(x: Tensor, dtype: Any) -> Tensor:
    """``x`` in another dtype (torch's, or its name): one ICastLayer; ``x`` itself when it has that dtype.

    Floating-point to integer truncates; to int32 and int64 it saturates, int8 and uint8 keep the low bits of a wider
    conversion, which saturates; anything to bool is ``!= 0``. A constant without
    dimensions and a weight in float64, int16 or uint8, of which TensorRT makes none, are converted at once.

    >>> cast(net.input("x", (2, 3)), "float16").dtype
    torch.float16
    """
    dtype = as_dtype(dtype)
    if x.dtype == dtype:
        return x
    if x.is_constant and (x.ndim == 0 or x.dtype in (torch.float64, torch.int16, torch.uint8)):
        x.network.backend.data_type(dtype)
        return Tensor(x.network, x.shape, dtype, data=convert(x.data, dtype), weight_names=x.weight_names)
    if dtype == torch.int8 and x.dtype.is_floating_point:
        x = cast(x, torch.int32)  # of which int8 keeps the low bits: out of range, the direct conversion is undefined
    add = adds("add_cast", x.network.backend.data_type(dtype))
    before = x.node.what if isinstance(x.node, Layer) else ()
    return add_layer(add, x, shape=x.shape, dtype=dtype, order="kept", what=("cast", *before))


def convert(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A value in another dtype as TensorRT converts it: see the evaluator of CAST."""
    name = dtype_name(dtype)
    if name == "float8_e4m3fn":
        return x.float().clamp(-448, 448).to(dtype)
    if name == "float4_e2m1fn_x2":
        return round_to_fp4(x.float())
    if name == "int4":
        return (((x.long() & 15) ^ 8) - 8).to(torch.int8)
    if x.dtype == dtype:
        return x
    if x.dtype.is_floating_point and not dtype.is_floating_point and dtype != torch.bool:
        return _truncated(x, dtype)
    return x.to(dtype)


def _truncated(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    info = torch.iinfo(dtype)
    low, high = info.min, info.max
    if info.bits == 8:
        bits = 16 if x.itemsize == 2 else 32
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if low < 0 else (0, (1 << bits) - 1)
    wide = x.double().nan_to_num(0.0, high, low).trunc().clamp(min=low)
    if info.bits == 64:  # float64 cannot hold the greatest int64: what reaches it saturates by hand
        return torch.where(wide >= 2.0**63, high, wide.clamp(max=2.0**63 - 1024).to(dtype))
    return wide.clamp(max=high).long().to(dtype)


def round_to_fp4(x: torch.Tensor) -> torch.Tensor:
    """float32 values rounded half to even to those of fp4: one bit of sign, two of exponent, one of mantissa."""
    x = torch.where(torch.isnan(x), 0.0, x)  # fp4 has none
    size = x.abs().clamp(max=6)
    step = torch.where(size < 2, 0.5, torch.where(size < 4, 1.0, 2.0))
    return torch.copysign(torch.round(size / step) * step, x)


def _rounded(node: Node) -> Evaluate | None:
    cuts = node.input_dtype().is_floating_point and not node.dtype.is_floating_point and node.dtype != torch.bool
    return (lambda f, x: f(torch.round(x))) if cuts else None


MISTAKES = Mistakes(instead={"rounded": _rounded})


@evaluates("CAST", category="pointwise", carries_sizes=True, computes=False, mistakes=MISTAKES)
def _cast(node: Node) -> Evaluate:
    """Floating-point to integer truncates, NaN is 0. It saturates to int32 and int64; int8 and uint8 are the low bits
    of int32 and uint32 (of int16 and uint16 for half types), which saturate. Integers keep their low bits; fp8 and
    fp4 round half to even and saturate. Assumed: what becomes int4 keeps its low bits, as in ONNX.
    """
    dtype = node.logical_dtype
    return lambda x: convert(x, dtype)


@operation
def identity(x: Tensor) -> Tensor:
    """``x`` unchanged, under a name of its own: one IIdentityLayer."""
    return add_layer(adds("add_identity"), x, shape=x.shape, order="kept", takes=True)


@evaluates("IDENTITY", category="pointwise", carries_sizes=True, computes=False, moves=False, fp8="takes gives")
def _identity(node: Node) -> Evaluate:
    return lambda x: x
