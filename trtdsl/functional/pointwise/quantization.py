"""Other dtypes and copies; explicit quantization: where values become int8, fp8 or int4, by scales of the network."""

from __future__ import annotations

from typing import Any

from ...core.dtypes import as_dtype, dtype_name
from ...core.errors import ShapeError, UnsupportedError, UsageError
from ...core.tensors.exact import beside
from ...core.tensors.operators import scales_between
from ...definition.tuning.precisions import GROUP, NARROW, PER_TENSOR, narrow_dtype
from ..common import L, Later, Tensor, complexes, is_static, made_by, operation, shape_text, torch, weight_names_of
from ..operands import as_tensor, binary
from .arithmetic import clamp


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
        narrow = Tensor(input.network, input.shape, torch.int8, data=values, weight_names=input.weight_names)
        return L.int4_constant(narrow)
    return L.quantize(input, scale, wanted, axis=axis, block_shape=blocks)


@operation
def dequantize(
    input: Tensor, scale: Tensor | torch.Tensor | float, dtype: Any = "float32", axis: int | None = None
) -> Tensor:
    """``input * scale`` in a floating-point dtype: one IDequantizeLayer. ``scale`` is as for :func:`quantize`.

    Raises UnsupportedError for an input that is not narrow, ShapeError for a scale that does not fit.
    """
    _narrow(input.dtype)
    wide = as_dtype(dtype)
    if wide not in (torch.float32, torch.float16, torch.bfloat16):
        raise UnsupportedError(f"values are dequantized to float32, float16 or bfloat16, not {dtype}")
    scale = _scale(input, scale, wide)
    if scale.is_constant and scale.dtype == wide:  # the same numbers: docs/traps/builder-scales.md
        scale = L.cast(scale, "float32")
    blocks = _blocks(input, scale, axis)
    if dtype_name(input.dtype) == "int4":
        blocks = None  # TensorRT-RTX takes blocks of int4 by the scale's shape alone
    return L.dequantize(input, scale, wide, axis=axis, block_shape=blocks)


@operation
def fake_quantize_per_tensor_affine(
    input: Tensor, scale: Tensor | float, zero_point: Tensor | int, quant_min: int, quant_max: int
) -> Tensor:
    """``input`` rounded to whole numbers of ``scale`` between two bounds: IQuantizeLayer, IDequantizeLayer.

    What a module that is trained for quantization computes; a product between two of them runs in int8. The values are
    ``scale * clamp(round(input / scale), quant_min - zero_point, quant_max - zero_point)``, half to even. TensorRT has
    no zero point, and int8: where these bounds are narrower ``input`` is clamped first, and where they are wider the
    same is computed in floating point. A constant is rounded here; a weight of such values becomes int8 where its
    product takes another such tensor.

    Raises UnsupportedError for a scale or a zero point that is computed.
    """
    return _faked(input, scale, zero_point, None, quant_min, quant_max)


@operation
def fake_quantize_per_channel_affine(
    input: Tensor,
    scale: Tensor | torch.Tensor,
    zero_point: Tensor | torch.Tensor,
    axis: int,
    quant_min: int,
    quant_max: int,
) -> Tensor:
    """:func:`fake_quantize_per_tensor_affine` with a scale and a zero point for each index of ``axis``.

    What is not constant is computed in floating point: IElementWiseLayer, IUnaryLayer ROUND.
    """
    return _faked(input, scale, zero_point, axis % input.ndim, quant_min, quant_max)


@operation
def fused_moving_avg_obs_fake_quant(
    input: Tensor,
    observer_on: Tensor,
    fake_quant_on: Tensor,
    running_min: Tensor,
    running_max: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    averaging_const: float,
    quant_min: int,
    quant_max: int,
    ch_axis: int,
    per_row_fake_quant: bool = False,
    symmetric_quant: bool = False,
) -> Tensor:
    """:func:`fake_quantize_per_tensor_affine`, or per channel with ``per_row_fake_quant``, as torch's modules for
    quantization call it, whose observer is off. As in torch, the scale and the zero point are those of the least and
    greatest values observed, whatever ``scale`` and ``zero_point`` are.

    Raises UnsupportedError for an observer that is on: it finds other scales with each run.
    """
    given = [as_tensor(each, input.network) for each in (observer_on, fake_quant_on, running_min, running_max)]
    on, faked, low, high = given
    if not on.is_constant or not faked.is_constant or bool((on.data != 0).any()):
        raise UnsupportedError("its observer is on: module.apply(torch.ao.quantization.disable_observer) turns it off")
    if bool((faked.data == 0).all()):
        return input
    axis = ch_axis % input.ndim
    if not (low.is_constant and high.is_constant):
        raise UnsupportedError("the bounds of a fake quantization are constants, not computed")
    if bool((low.data > high.data).any()):
        raise UnsupportedError("its observer has seen no values: run the module on data before it is turned off")
    steps, zeros = scales_between(low.data, high.data, quant_min, quant_max, axis, per_row_fake_quant, symmetric_quant)
    given += [as_tensor(each, input.network) for each in (scale, zero_point)]
    return _faked(input, steps, zeros, axis if per_row_fake_quant else None, quant_min, quant_max, *given)


def _faked(input: Tensor, scale: Any, zero_point: Any, axis: int | None, low: int, high: int, *read: Tensor) -> Tensor:
    network, wide = input.network, input.dtype
    scale, zero = as_tensor(scale, network), as_tensor(zero_point, network)
    if not (scale.is_constant and zero.is_constant):
        raise UnsupportedError("scale or zero point is computed: module.apply(torch.ao.quantization.disable_observer)")
    scale = network.plain_constant(scale.data, weight_names_of((scale, zero, *read)))
    shape = tuple(-1 if dim == axis else 1 for dim in range(input.ndim))
    least, most = ((bound - zero.data.double()).reshape(shape) for bound in (low, high))
    computed = axis is not None and not input.is_constant
    if computed or bool((least < -128).any()) or bool((most > 127).any()):
        step = scale.data.reshape(shape)  # torch multiplies by the reciprocal
        step, inverse = (network.plain_constant(each, scale.weight_names) for each in (step, step.reciprocal()))
        steps = L.unary(input * L.cast(inverse, wide), "ROUND")
        ends = [float(x) if x.numel() == 1 else network.plain_constant(x.to(wide), ()) for x in (least, most)]
        return clamp(steps, *ends) * L.cast(step, wide)
    if input.is_constant:
        values, steps = input.data.float(), scale.data.float().reshape(shape)
        codes = (values * steps.reciprocal()).round().clamp(least, most)

        def exact(x: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
            step = step.reshape(shape)
            # Of ties, which greatest values mostly are, torch's rounding decides; by channel of what is computed, too.
            own = axis is not None or torch.equal(x, values.double())
            return (codes.double() if own else (x / step).round().clamp(least, most)) * step

        made = beside((codes * steps).to(wide), exact, input.data, scale.data)
        return network.plain_constant(made, weight_names_of((input, scale)))
    return fake_quantized(input, L.shuffle(scale, reshape=()), float(least), float(most), "int8", wide)


def fake_quantized(x: Tensor, scale: Tensor, low: float, high: float, dtype: str, wide: torch.dtype) -> Tensor:
    """``x`` as numbers of int8 or fp8, from ``low`` to ``high``, times a constant ``scale``, in the dtype ``wide``."""
    if dtype == "int8" and (low > -128 or high < 127):
        step = float(scale.data)
        x = clamp(x, low * step, high * step)
    step = L.cast(scale, x.dtype)
    return L.dequantize(L.quantize(x, step, dtype), step, wide)


def rounded(x: Tensor, scale: float, dtype: str, *, apart: bool = False) -> Tensor:
    """``x`` as a narrow dtype has it, in its own dtype: IQuantizeLayer, IDequantizeLayer.

    A network that computes so by its precision means ``x`` itself: what is rounded off belongs to its quality. With
    ``apart`` builders do not see that another tensor has the same numbers of another scale: an IElementWiseLayer MAX.
    """
    step = x.network.constant(torch.tensor(scale), x.dtype)
    if apart:  # docs/traps/builder-fp8.md
        x = binary(x, -torch.inf, "MAX", x.dtype)
    return L.dequantize(L.quantize(x, step, dtype, meant=True), step, x.dtype)


def product_in_int4(x: Tensor, weight: Tensor) -> Tensor:
    """``x @ weight.T`` with the constant ``weight`` rounded to int4 in groups of a row.

    IDequantizeLayer, IShuffleLayer, IElementWiseLayer PROD and IReduceLayer SUM, which builders make one launch that
    reads a quarter of float16. The network means ``weight`` itself: what is rounded off belongs to its quality.
    """
    network = weight.network
    # Of rows of one group builders write kernels that no compiler takes: docs/traps/builder-int4.md.
    size = GROUP if weight.data.shape[-1] > GROUP else GROUP // 2
    groups = weight.data.float().reshape(-1, size)
    scale = _least_squares(groups, NARROW["int4"])
    codes = L.quantize_values(groups, scale, as_dtype("int4"), 0)
    codes = beside(codes, lambda w, step: w.reshape(-1, size) / step[:, None], weight.data, scale)
    narrow = L.int4_constant(Tensor(network, codes.shape, torch.int8, data=codes, weight_names=weight.weight_names))
    wide = L.dequantize(narrow, network.plain_constant(scale, ()), torch.float32, axis=0)
    rows = L.cast(L.unsqueeze(x, [x.ndim - 1]), torch.float32)
    return L.cast(L.reduce(rows * L.shuffle(wide, reshape=weight.shape), "SUM", [x.ndim]), x.dtype)


def _least_squares(rows: torch.Tensor, most: float) -> torch.Tensor:
    """The scale of each row by which rounding, and clipping what is above, have the least square error."""
    greatest = (rows.abs().amax(1) / most).clamp(min=torch.finfo(torch.float32).tiny)
    best, found = torch.full_like(greatest, torch.inf), greatest
    for part in range(32, 19, -1):
        scale = greatest * part / 32
        steps = rows / scale[:, None]
        error = (steps.round().clamp(-most, most) - steps).mul_(scale[:, None]).square_().sum(1)
        found = torch.where(error < best, scale, found)
        best = torch.minimum(best, error)
    return found


def narrow_weight(input: Tensor, kernel: Tensor, axis: int) -> tuple[Tensor, Tensor | None] | None:
    """The constant weight of a product in int8 or fp8 with one scale, and the factor of each index of ``axis`` behind.

    Where the author's call computes so, and where ``input`` was rounded so and the weight has such values, as that of
    a module trained for it does; None where it stays as it is. Builders write float32 behind a product whose
    weight has a scale for each channel, and the weight's own dtype behind one with a single float32 scale. Without
    factors, by :data:`PER_TENSOR` and in fp8, whose steps shrink with the values, bias, ReLU and sum are part of a
    convolution's launch, and a linear product without a bias writes int8 itself.
    """
    network = kernel.network
    call = network.current_operation
    asked, peers = ("", []) if call is None else (call.narrow, call.peers)
    rounded = "" if asked else rounded_to(input)
    if not asked and not (kernel.is_constant and kernel.data.numel() and rounded in ("int8", "float8_e4m3fn")):
        return None
    others = [dim for dim in range(kernel.ndim) if dim != axis]
    shape = [-1 if dim == axis else 1 for dim in range(kernel.ndim)]
    values = kernel.data.float()
    dtype = as_dtype(narrow_dtype(asked or rounded))
    steps = values.abs().amax(others) / NARROW[asked or rounded]
    if asked in (PER_TENSOR, "float8_e4m3fn"):
        steps = steps.max().expand_as(steps)
    if not asked:
        rows, known = values.movedim(axis, 0).flatten(1), torch.finfo(kernel.dtype)
        one = _steps(rows.reshape(1, -1), known, dtype)
        found = _steps(rows, known, dtype) if one is None else one.expand_as(steps)
        if found is None:
            return None
        steps = found
    one = torch.tensor(torch.finfo(torch.float32).tiny)
    for peer in peers:
        one = torch.maximum(one, peer.data.to(kernel.dtype).float().abs().max() / NARROW[asked or rounded])
    steps = torch.maximum(steps, one) if asked else steps
    steps = beside(steps, steps.double)  # chosen, not rounded: two weights of equal steps share the constant
    broad = steps.reshape(shape)
    codes = beside(L.quantize_values(values, steps, dtype, axis), torch.div, kernel.data, broad)
    most = beside(one, one.double) if peers else steps.max()
    narrow = Tensor(network, kernel.shape, dtype, data=codes, weight_names=kernel.weight_names)
    factors = steps / most
    wide = L.dequantize(narrow, network.plain_constant(most, ()), kernel.dtype)
    return wide, None if bool((factors == 1).all()) else network.plain_constant(factors, ())


FP8_GREATEST = 448, 416, 384, 352, 320, 288, 256, 240
"""Numbers of fp8, one for each mantissa: others are these over a power of two, and what is less over it, too."""


def _steps(rows: torch.Tensor, known: torch.finfo, dtype: torch.dtype) -> torch.Tensor | None:
    """A step for each row, whose numbers over it int8 or fp8 has, but for the rounding of the dtype that is ``known``;
    None where one has none."""
    greatest = rows.abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny)
    few, steps, left = rows[:, :: max(1, rows.shape[1] // 64)], torch.zeros_like(greatest), torch.arange(len(rows))
    for most in (127, 128, *range(126, 0, -1)) if dtype == torch.int8 else FP8_GREATEST:
        fits = left
        for part in (few, rows):
            one = (greatest[fits] / most)[:, None]
            codes = part[fits] / one
            if dtype == torch.int8:
                near = ((codes - codes.round()).abs() <= min(2 * most * known.eps, 0.1)) & (codes < 127.5)
            else:
                off = codes - L.quantize_values(part[fits], one, dtype, None).float()
                near = off.abs() <= 4 * known.eps * torch.maximum(codes.abs(), known.smallest_normal / one)
            fits = fits[near.all(1)]
        steps[fits] = greatest[fits] / most
        left = left[~torch.isin(left, fits)]
        if not len(left):
            return steps
    return None


def rounded_to(x: Tensor) -> str:
    """The narrow dtype from which a value, or what it is a view of, comes; "" for none."""
    while getattr(x.node, "steps", None) is not None:  # a shuffle's
        x = x.node.source
    if isinstance(x.node, Later) and x.network.graph.is_emitting:
        x = x.node.resolved()
    layer = made_by(x, "dequantize")
    return "" if layer is None else layer.what[1]


def _narrow(dtype: Any) -> torch.dtype:
    wanted = as_dtype(dtype)
    if dtype_name(wanted) not in NARROW:
        names = dict.fromkeys(map(narrow_dtype, NARROW))
        raise UnsupportedError(f"values are quantized to {', '.join(names)}, not to {dtype}")
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
        if scale.shape != (size,):
            raise ShapeError(f"a scale for dimension {axis} must be ({size},), not {shape_text(scale.shape)}")
        return None
    if scale.ndim != x.ndim:
        raise ShapeError(f"a scale is a number, one per index of axis=, or has {x.ndim} dimensions of blocks")
    pairs: list[Any] = list(zip(x.shape, scale.shape, strict=True))
    if not is_static((*x.shape, *scale.shape)) or any(have == 0 or want % have for want, have in pairs):
        raise ShapeError(f"a scale of {shape_text(scale.shape)} does not divide {shape_text(x.shape)} into blocks")
    return tuple(want // have for want, have in pairs)


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
