"""Explicit quantization: where values become int8, fp8 or int4, by scales that are part of the network."""

from __future__ import annotations

from typing import Any

from ...core.tensors.exact import beside
from ..common import L, ShapeError, Tensor, UnsupportedError, as_dtype, dtype_name, operation, shape_text, torch

NARROW = ("int8", "float8_e4m3fn", "int4")


@operation
def quantize(
    input: Tensor, scale: Tensor | torch.Tensor | float, dtype: Any = "int8", axis: int | None = None
) -> Tensor:
    """``clamp(round(input / scale))`` in a narrow dtype, half to even, without zero point: one IQuantizeLayer.

    ``dtype`` is int8, float8_e4m3fn, or int4 for constants alone (weights), whose values are then computed here.
    ``scale`` is a positive scalar (the whole tensor), has one value for each index of ``axis`` (channels), or the rank
    of ``input``, where each of its sizes divides that of ``input`` (blocks). The values are torch's
    ``quantize_per_tensor`` and ``quantize_per_channel``, where those have the dtype.

    Raises UnsupportedError for another dtype or an int4 value that is not constant, ShapeError for a scale that does
    not fit or is not positive.

    >>> F.quantize(net.input("x", (2, 8)), 0.5).dtype
    torch.int8
    """
    wanted = _narrow(dtype)
    scale = _scale(input, scale, input.dtype)
    blocks = _blocks(input, scale, axis)
    if dtype_name(wanted) == "int4":
        if blocks is not None and sum(size > 1 for size in blocks) > 1:
            raise ShapeError(f"int4 has blocks along one dimension alone, not of {shape_text(blocks)}")
        if not (input.is_constant and scale.is_constant):
            raise UnsupportedError("int4 is for weights: TensorRT does not quantize to it when the network runs")
        values = L.quantize_values(input.data, scale.data, wanted, axis)
        return L.int4_constant(
            Tensor(input.network, input.shape, torch.int8, data=values, weight_names=input.weight_names)
        )
    return L.quantize(input, scale, wanted, axis=axis, block_shape=blocks)


@operation
def dequantize(
    input: Tensor, scale: Tensor | torch.Tensor | float, dtype: Any = "float32", axis: int | None = None
) -> Tensor:
    """``input * scale`` in a floating-point dtype: one IDequantizeLayer. ``scale`` is as for :func:`quantize`.

    Raises UnsupportedError for an input that is not narrow, ShapeError for a scale that does not fit.

    >>> x = net.input("x", (2, 8))
    >>> F.dequantize(F.quantize(x, 0.5), 0.5).dtype
    torch.float32
    """
    _narrow(input.dtype)
    wide = as_dtype(dtype)
    if wide not in (torch.float32, torch.float16, torch.bfloat16):
        raise UnsupportedError(f"values are dequantized to float32, float16 or bfloat16, not {dtype}")
    scale = _scale(input, scale, wide)
    blocks = _blocks(input, scale, axis)
    if dtype_name(input.dtype) == "int4":
        blocks = None  # TensorRT-RTX takes blocks of int4 by the scale's shape alone
    return L.dequantize(input, scale, wide, axis=axis, block_shape=blocks)


def rounded(x: Tensor, scale: float) -> Tensor:
    """``x`` as int8 has it, in its own dtype: IQuantizeLayer, IDequantizeLayer.

    A network that computes in int8 by its precision means ``x`` itself: what is rounded off belongs to its quality.
    """
    step = x.network.constant(torch.tensor(scale), x.dtype)
    return L.dequantize(L.quantize(x, step, meant=True), step, x.dtype)


def weight_in_int8(kernel: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """A constant weight as int8 has it with one scale, and the factor of each index of ``axis`` behind its product.

    Builders write float32 behind a product whose weight has a scale for each channel, and the weight's own dtype behind
    one with a single float32 scale.
    """
    others = [dim for dim in range(kernel.ndim) if dim != axis]
    values = kernel.data.float()
    steps = (values.abs().amax(others) / 127).clamp(min=torch.finfo(torch.float32).tiny)
    broad = steps.reshape([-1 if dim == axis else 1 for dim in range(kernel.ndim)])
    codes = beside((values / broad).round().to(torch.int8), torch.div, kernel.data, broad)
    most = steps.max()
    factors, network = steps / most, kernel.network
    narrow = Tensor(network, kernel.shape, torch.int8, data=codes, weight_names=kernel.weight_names)
    return L.dequantize(narrow, network.plain_constant(most, ()), kernel.dtype), network.plain_constant(factors, ())


def _narrow(dtype: Any) -> torch.dtype:
    wanted = as_dtype(dtype)
    if dtype_name(wanted) not in NARROW:
        raise UnsupportedError(f"values are quantized to {', '.join(NARROW)}, not to {dtype}")
    return wanted


def _scale(x: Tensor, scale: Any, dtype: torch.dtype) -> Tensor:
    return scale if isinstance(scale, Tensor) else x.network.constant(scale, dtype)


def _blocks(x: Tensor, scale: Tensor, axis: int | None) -> tuple[int, ...] | None:
    """The shape of a block, where ``scale`` has one value per block; checks that the scale fits."""
    if scale.is_constant and not bool((scale.data.float() > 0).all()):
        raise ShapeError("a scale must be positive")
    if scale.ndim == 0:
        return None
    if axis is not None:
        size = x.shape[axis]
        if scale.ndim != 1 or scale.shape[0] != size:
            raise ShapeError(
                f"a scale for dimension {axis} of {shape_text(x.shape)} must be ({size},), "
                f"not {shape_text(scale.shape)}"
            )
        return None
    if scale.ndim != x.ndim:
        raise ShapeError(
            f"a scale must be a number, have one value per index of axis=, or {x.ndim} dimensions of blocks: "
            f"it is {shape_text(scale.shape)} and axis is not given"
        )
    block = []
    for have, want in zip(scale.shape, x.shape, strict=True):
        if not isinstance(have, int) or not isinstance(want, int) or have == 0 or want % have:
            raise ShapeError(f"a scale of {shape_text(scale.shape)} does not divide {shape_text(x.shape)} into blocks")
        block.append(want // have)
    return tuple(block)
