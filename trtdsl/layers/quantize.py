"""QUANTIZE, DEQUANTIZE and DYNAMIC_QUANTIZE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.tensors.exact import beside
from .base import add_layer, adds, normalize_axis
from .common import Given, Mistakes, Node, ShapeError, Tensor, as_dtype, computes, dtype_name, is_half, operation, torch
from .pointwise import cast, convert, elementwise
from .shuffle import shuffle


@operation
def quantize(
    x: Tensor,
    scale: Tensor,
    dtype: Any = "int8",
    axis: int | None = None,
    block_shape: Sequence[int] | None = None,
    *,
    meant: bool = False,
) -> Tensor:
    """``clamp(round(x / scale))`` in a narrow dtype, rounding half to even: one IQuantizeLayer, and an
    IElementWiseLayer DIV before it where the scale of an axis is computed: docs/traps/builder-scales.md.

    ``dtype`` is int8, float8_e4m3fn, int4 or float4_e2m1fn_x2. ``scale`` (positive) is a scalar, or has one value for
    each index of ``axis``, or has the rank of ``x`` with one value per block (``block_shape``). TensorRT multiplies by
    the reciprocal, in the dtype of ``x``, or divides by a ``scale`` that is computed in half precision. With ``meant``
    the network means ``x / scale``, and its rounding counts as a matter of quality, as that of float16 does.
    """
    return _add("add_quantize", x, scale, dtype, axis, block_shape, meant)


@operation
def dequantize(
    x: Tensor, scale: Tensor, dtype: Any = "float32", axis: int | None = None, block_shape: Sequence[int] | None = None
) -> Tensor:
    """``x * scale`` in a floating-point dtype: one IDequantizeLayer, and an IElementWiseLayer PROD behind it where the
    scale of an axis is computed. ``scale`` is as for :func:`quantize`.
    """
    return _add("add_dequantize", x, scale, dtype, axis, block_shape, False)


def _add(
    method: str, x: Tensor, scale: Tensor, dtype: Any, axis: int | None, blocks: Sequence[int] | None, meant: bool
) -> Tensor:
    if axis is None and scale.ndim == 1 and x.ndim != 1:
        raise ShapeError("a scale per channel needs axis=")
    place = None if axis is None else normalize_axis(axis, x.ndim)
    if place is not None and scale.ndim == 1 and scale.shape != (1,) and not scale.is_constant:
        wide = x.dtype if method == "add_quantize" else scale.dtype
        steps = shuffle(scale, reshape=[scale.shape[0] if dim == place else 1 for dim in range(x.ndim)])
        one, steps = x.network.constant(torch.ones(()), wide), cast(steps, wide)
        if method == "add_quantize":
            return quantize(elementwise(x, steps, "DIV"), one, dtype, meant=meant)
        return cast(elementwise(dequantize(x, one, wide), steps, "PROD"), as_dtype(dtype))
    block = None if blocks is None else tuple(blocks)
    add = adds(method, x.network.backend.data_type(as_dtype(dtype)), axis=place, block_shape=block)
    # Never folded: the builder needs to see where a network is quantized.
    x.network.graph.is_quantized = True
    facts = {"numbers": {"meant": 1.0} if meant else {}, "what": (method[4:], dtype_name(x.dtype))}
    return add_layer(add, x, scale, shape=x.shape, dtype=as_dtype(dtype), fold=False, **facts)


def int4_constant(values: Tensor) -> Tensor:
    """int4 from a constant of int8 values between -8 and 7: one IConstantLayer, two values a byte, the first is low."""
    flat = values.data.to(torch.int8).flatten()
    if bool(((flat < -8) | (flat > 7)).any()):
        raise ShapeError("int4 holds whole numbers from -8 to 7")
    low = torch.nn.functional.pad(flat, (0, flat.numel() % 2)).view(torch.uint8) & 15
    packed = (low[0::2] | low[1::2] << 4).contiguous()

    def add(target):
        target.buffers.append(packed)
        if target.network.exact is not None:
            target.network.exact.settle(values.data, packed.data_ptr())
        weights = target.trt.Weights(target.trt.DataType.INT4, packed.data_ptr(), flat.numel())
        return target.definition.add_constant(tuple(values.shape), weights)

    return add_layer(add, weights=[values], shape=values.shape, dtype=as_dtype("int4"), fold=False)


def spread(scale: torch.Tensor, shape: Sequence[int], axis: int) -> torch.Tensor:
    """A scale per tensor, channel or block, so that it broadcasts to ``shape``."""
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
    if dtype_name(dtype) in ("float8_e4m3fn", "float4_e2m1fn_x2"):
        return convert(x, dtype)
    low, high = (-8, 7) if dtype_name(dtype) == "int4" else (-128, 127)
    return torch.round(x).clamp(low, high).to(torch.int8)


def quantize_values(x: torch.Tensor, scale: torch.Tensor, dtype: torch.dtype, axis: int | None) -> torch.Tensor:
    """What a QUANTIZE layer makes of a value; int4 unpacked, as int8 values."""
    return narrow(x.float() / spread(scale.float(), x.shape, 0 if axis is None else axis), dtype)


def _refuse_zero_point(zero: Given) -> None:
    if zero is not None and bool((zero.float() != 0).any()):
        raise ShapeError("the zero point must be 0: TensorRT quantizes symmetrically")


def _narrow_blocks(node: Node) -> str | None:
    quantizes = node.type == "QUANTIZE"
    name = dtype_name(node.backend.torch_dtype((node.outputs[0] if quantizes else node.inputs[0]).dtype))
    if name not in (("int4", "float4_e2m1fn_x2") if quantizes else ("int4",)) or not _has_blocks(node.layer):
        return None
    how = "reshape the weight to rows of one block each, with axis=0, and back after dequantize, or "
    instead = f"{how if name == 'int4' else ''}use int8 in blocks, or one scale for each channel"
    return f"{name} in blocks cannot be built without a GPU: {instead}"


def _has_blocks(layer: Any) -> bool:
    try:
        return layer.block_shape is not None
    except RuntimeError:  # unset
        return False


@computes(
    "QUANTIZE", category="pointwise", flops=3, unbuilt=_narrow_blocks, fp8="gives", mistakes=Mistakes(left_out=True)
)
def _quantize(node: Node, x: torch.Tensor, scale: torch.Tensor, zero: Given = None) -> torch.Tensor:
    """int8: a product with the reciprocal of the scale, in the type of the operand, in half types with each step
    rounded; NaN is 0, and 127 of half types, whose comparison with 127 is false. A quotient where the scale is one of
    blocks, and, of half types, where it is no constant; for fp8 always. int4 and fp4: a quotient in float32; int4 comes
    unpacked, as int8 values, and fp4 as float32 values.
    """
    axis, dtype, computed = node.layer.axis, node.logical_dtype, node.needs[1] not in node.fixed
    _refuse_zero_point(zero)
    if dtype not in (torch.int8, torch.float8_e4m3fn):
        return narrow(x.float() / spread(scale.float(), x.shape, axis), dtype)
    step = spread(scale.to(x.dtype), x.shape, axis)
    # Of one dimension, a scale for each element is one of blocks.
    divides = dtype != torch.int8 or (computed and is_half(x)) or (scale.numel() > 1 and scale.ndim == x.ndim)
    steps = x / step if divides else x * step.reciprocal()
    if dtype != torch.int8:
        made = narrow(steps.float(), dtype)
    else:
        whole = steps.round().clamp_(-128, 127).nan_to_num_(127.0 if is_half(x) else 0.0)
        made = whole.float().to(dtype)  # which torch's CPU does in half the time of a half type's
    return beside(made, lambda exact: exact, steps) if "meant" in node.numbers else made


@computes("DEQUANTIZE", category="pointwise", flops=1, unbuilt=_narrow_blocks, fp8="takes constants")
def _dequantize(node: Node, x: torch.Tensor, scale: torch.Tensor, zero: Given = None) -> torch.Tensor:
    """Computed in the type of the scale and rounded to the output's dtype."""
    _refuse_zero_point(zero)
    whole = x.float() if x.dtype == torch.int8 else x  # as above
    return (whole.to(scale.dtype) * spread(scale, x.shape, node.layer.axis)).to(node.dtype)


@operation
def dynamic_quantize(
    x: Tensor,
    block_shape: Sequence[int],
    dtype: Any = "float8_e4m3fn",
    scale_dtype: Any = "float8_e8m0fnu",
    double_scale: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """``x`` quantized with one scale per block, found from the values, and the scales: one IDynamicQuantizeLayer.

    NVFP4 is ``dtype="float4_e2m1fn_x2"``, ``scale_dtype="float8_e4m3fn"``, blocks of 16 and ``double_scale``, a scalar
    by which the scales are quantized; MXFP8 are the defaults with blocks of 32. -1 in ``block_shape`` is a whole
    dimension.

    >>> data, scales = dynamic_quantize(net.input("x", (4, 64)), (1, 32))
    >>> data.shape, scales.shape
    ((4, 64), (4, 2))
    """
    sizes = [size if block == -1 else block for size, block in zip(x.shape, block_shape, strict=True)]
    scales = tuple(size if block == 1 else size // block for size, block in zip(x.shape, sizes, strict=True))
    dtypes = [as_dtype(dtype), as_dtype(scale_dtype)]
    types = map(x.network.backend.data_type, dtypes)
    blocked = [(dim, step) for dim, step in enumerate(block_shape) if step != 1]
    if double_scale is not None and len(blocked) == 1:  # which builders take along one dimension alone
        add = adds("add_dynamic_quantize", *blocked[0], *types, takes=1)
    else:
        add = adds("add_dynamic_quantize_v2", tuple(block_shape), *types, takes=1)
    return add_layer(add, x, double_scale, shape=[x.shape, scales], dtype=dtypes, fold=False)


def dynamic_scales(
    x: torch.Tensor, block: Sequence[int], dtype: torch.dtype, scale_dtype: torch.dtype, double_scale: Given
) -> torch.Tensor:
    """The scale of each block, as float32: its greatest magnitude over that of ``dtype``, in ``scale_dtype``."""
    sizes = [size if step == -1 else step for size, step in zip(x.shape, block, strict=True)]
    split = [part for size, step in zip(x.shape, sizes, strict=True) for part in (size // step, step)]
    greatest = x.float().abs().reshape(split).amax(tuple(range(1, 2 * x.ndim, 2)))
    scales = greatest / {"float4_e2m1fn_x2": 6.0, "float8_e4m3fn": 448.0}.get(dtype_name(dtype), 127.0)
    if double_scale is not None:
        scales = scales / double_scale.float().reshape(())
    if dtype_name(scale_dtype) == "float8_e8m0fnu":
        return torch.exp2(torch.ceil(torch.log2(scales)).clamp(-127, 127))
    return convert(scales, scale_dtype).float() if scale_dtype == torch.float8_e4m3fn else scales


def _unbuilt(node: Node) -> str | None:
    block = tuple(node.layer.block_shape)
    if block and node.has_input(1):
        return "a double scale with a block shape cannot be built without a GPU: quantize with one scale (F.quantize)"
    if all(step in (-1, 1, size) for step, size in zip(block, tuple(node.inputs[0].shape), strict=False)) and block:
        return "blocks of whole dimensions cannot be built without a GPU: use blocks of 32"
    return None


@computes("DYNAMIC_QUANTIZE", flops=5, unbuilt=_unbuilt, fp8="gives")
def _dynamic_quantize(node: Node, x: torch.Tensor, double_scale: Given = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Assumed: scales of the type E8M0 are rounded up, so that nothing saturates; a block of zeros gives zeros."""
    layer, dtype, scale_dtype = node.layer, node.logical_dtype, node.output_dtype(1)
    block = tuple(layer.block_shape)
    if not block:
        block = tuple(layer.block_size if dim == layer.axis else 1 for dim in range(x.ndim))
    scales = dynamic_scales(x, block, dtype, scale_dtype, double_scale)
    steps = scales if double_scale is None else scales * double_scale.float().reshape(())
    steps = spread(torch.where(steps == 0, 1.0, steps), x.shape, -1)
    return narrow(x.float() / steps, dtype), scales.to(scale_dtype)
