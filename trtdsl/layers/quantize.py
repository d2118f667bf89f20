"""QUANTIZE and DEQUANTIZE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import ShapeError
from ..lazy import torch
from ..network import as_dtype, operation
from ..tensor import Tensor
from .base import Evaluate, Node, add_layer, evaluates, normalize_axis
from .cast import convert


@operation
def quantize(
    x: Tensor, scale: Tensor, dtype: Any = "int8", axis: int | None = None, block_shape: Sequence[int] | None = None
) -> Tensor:
    """``clamp(round(x / scale))`` in a narrow dtype, rounding half to even: one IQuantizeLayer.

    ``dtype`` is int8, float8_e4m3fn, int4 or float4_e2m1fn_x2. ``scale`` (positive) is a scalar, or has one value for
    each index of ``axis``, or has the rank of ``x`` with one value per block (``block_shape``).

    >>> net = td.Network()
    >>> quantize(net.input("x", (2, 3)), net.constant(0.5)).dtype
    torch.int8
    """
    return _add("add_quantize", x, scale, dtype, axis, block_shape)


@operation
def dequantize(
    x: Tensor, scale: Tensor, dtype: Any = "float32", axis: int | None = None, block_shape: Sequence[int] | None = None
) -> Tensor:
    """``x * scale`` in a floating-point dtype: one IDequantizeLayer. ``scale`` is as for :func:`quantize`.

    >>> net = td.Network()
    >>> dequantize(net.input("x", (2, 3), "int8"), net.constant(0.5)).dtype
    torch.float32
    """
    return _add("add_dequantize", x, scale, dtype, axis, block_shape)


def _add(
    method: str, x: Tensor, scale: Tensor, dtype: Any, axis: int | None, block_shape: Sequence[int] | None
) -> Tensor:
    if axis is None and scale.ndim == 1 and x.ndim != 1:
        raise ShapeError("a scale per channel needs axis=")
    place = None if axis is None else normalize_axis(axis, x.ndim)

    def add(site, x, scale):
        data_type = site.network.backend.data_type(as_dtype(dtype))
        layer = getattr(site.definition, method)(x, scale, data_type)
        if layer is not None and place is not None:
            layer.axis = place
        if layer is not None and block_shape is not None:
            layer.block_shape = tuple(block_shape)
        return layer

    # Never folded: the builder needs to see where a network is quantized.
    return add_layer(add, x, scale, shape=x.shape, fold=False)


def spread(scale: torch.Tensor, shape: Sequence[int], axis: int) -> torch.Tensor:
    """A scale per tensor, channel or block, so that it broadcasts to ``shape``."""
    scale = scale.float()
    if scale.numel() == 1:
        return scale.reshape(())
    if scale.ndim == len(shape) and (scale.ndim > 1 or scale.shape[0] != shape[0]):
        for dim, (have, want) in enumerate(zip(scale.shape, shape, strict=True)):
            if have not in (1, want):
                if want % have:
                    raise ShapeError(f"a scale of {tuple(scale.shape)} does not divide {tuple(shape)} into blocks")
                scale = scale.repeat_interleave(want // have, dim)
        return scale
    return scale.reshape((-1,) + (1,) * (len(shape) - axis % len(shape) - 1))


def narrow(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """float32 values rounded half to even and clamped to a quantized dtype."""
    if dtype in (torch.float8_e4m3fn, torch.float4_e2m1fn_x2):
        return convert(x, dtype)
    low, high = (-8, 7) if dtype == torch.int4 else (-128, 127)
    return torch.round(x).clamp(low, high).to(torch.int8)


def _refuse_zero_point(zero: torch.Tensor | None) -> None:
    if zero is not None and bool((zero.float() != 0).any()):
        raise ShapeError("the zero point must be 0: TensorRT quantizes symmetrically")


@evaluates("QUANTIZE", flops=3)
def _quantize(node: Node) -> Evaluate:
    """Computed in float32. int4 comes unpacked, as int8 values, and fp4 as float32 values."""
    axis, dtype = node.layer.axis, node.logical_dtype

    def evaluate(x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor | None = None) -> torch.Tensor:
        _refuse_zero_point(zero)
        return narrow(x.float() / spread(scale, x.shape, axis), dtype)

    return evaluate


@evaluates("DEQUANTIZE", flops=1)
def _dequantize(node: Node) -> Evaluate:
    """Computed in float32 and rounded to the output's dtype."""
    axis, dtype = node.layer.axis, node.dtype

    def evaluate(x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor | None = None) -> torch.Tensor:
        _refuse_zero_point(zero)
        return (x.float() * spread(scale, x.shape, axis)).to(dtype)

    return evaluate
