"""What exact values take of torch's operators: what each kind does with them, and what is computed in their place."""

from __future__ import annotations

import itertools
from typing import Any

from ..errors import UnsupportedError
from ..lazy import torch

STEPS = {"floor", "ceil", "round", "trunc", "sign", "sgn", "frac", "remainder", "fmod", "floor_divide", "heaviside"}
"""Operations whose floating-point result jumps: it is taken from the exact value, as indices and comparisons are."""
REMAINDERS = {"frac", "remainder", "fmod"}
NEAREST = {"upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"}
NEAREST |= {"_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d"}
RECURRENT = {"lstm", "gru", "rnn_tanh", "rnn_relu"}
"""Functions that are one call of a library without float64, if they are not made of operators."""
MOVING = STEPS | {
    *("abs", "alias", "amax", "amin", "as_strided", "broadcast_tensors", "cat", "clamp", "clamp_max", "clamp_min"),
    *("clone", "constant_pad_nd", "contiguous", "copy", "cummax", "cummin", "detach", "diagonal", "embedding"),
    *("expand", "fill", "flip", "full", "full_like", "gather", "hardtanh", "im2col", "index", "index_copy"),
    *("index_put", "index_select", "kthvalue", "lift_fresh", "masked_fill", "masked_scatter", "masked_select", "max"),
    *("max_pool2d_with_indices", "max_pool3d_with_indices", "maximum", "median", "min", "minimum", "neg", "ones"),
    *("permute", "pixel_shuffle", "pixel_unshuffle", "reflection_pad1d", "reflection_pad2d", "relu", "repeat"),
    *("replication_pad1d", "replication_pad2d", "roll", "scatter", "select", "select_scatter", "slice"),
    *("slice_scatter", "sort", "split", "split_with_sizes", "squeeze", "stack", "t", "threshold", "to", "_to_copy"),
    *("topk", "transpose", "tril", "triu", "unbind", "unfold", "unsqueeze", "view", "_unsafe_view", "where", "zeros"),
    *("view_as_real", "view_as_complex", "_reshape_alias", "unsafe_split", "adaptive_max_pool2d", "zero"),
} | NEAREST  # fmt: skip
"""What only moves, selects or compares values: noise is added to none of their results."""
COMPARING = {"gt", "lt", "ge", "le", "eq", "ne", "isnan", "isinf", "isfinite", "argmax", "argmin"}
"""Operations whose results are those of the exact values, where these decide."""
READING = {"view", "_local_scalar_dense", "empty_like", "new_empty", "new_empty_strided", "set_", "resize_"}
"""Operations that cannot be made of exact values alone, or need not be."""
ORDERING = {
    *("alias", "as_strided", "cat", "clone", "detach", "diagonal", "expand", "flip", "gather", "index", "index_select"),
    *("permute", "repeat", "roll", "select", "slice", "split", "split_with_sizes", "squeeze", "stack", "t"),
    *("transpose", "unbind", "unfold", "unsqueeze", "view", "_unsafe_view", "_reshape_alias"),
}
"""What gives the elements of its operands in another order."""
CACHED = 1 << 17  # numbers in float64, half of what a core keeps near


def _attended(q: Any, k: Any, v: Any, dropout: float = 0.0, causal: bool = False, **how: Any) -> Any:
    """Attention by products and a softmax; several heads of queries may share one of keys and values."""
    scale, mask = how.get("scale"), how.get("attn_mask")
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) if x.shape[1] else x for x in (k, v))
    scores = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        hidden = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).triu_(1)
        scores = scores.masked_fill(hidden, -torch.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    weights = torch.softmax(scores, -1)
    return torch.where(torch.isnan(weights), 0.0, weights) @ v, scores.logsumexp(-1)  # which only gradients need


def faked(x: Any, scale: Any, zero: Any, *rest: Any, weight: Any = None) -> Any:
    """Fake quantization per tensor, or along an axis; torch keeps the scale in float32.

    A ``weight`` is rounded as torch rounds it: its greatest value is mostly a tie, which the last digit decides.
    """
    *axis, low, high = rest
    enabled = bool(axis.pop()) if axis and isinstance(axis[0], torch.Tensor) else True
    shape = [-1 if axis and place == axis[0] else 1 for place in range(x.ndim)]
    scale, zero = (each.reshape(shape) if isinstance(each, torch.Tensor) else each for each in (scale, zero))
    exact = x / scale if weight is None else weight * (1 / torch.as_tensor(scale, dtype=weight.dtype))
    steps = torch.round(exact).to(x.dtype) + zero
    inside = (steps >= low) & (steps <= high)
    return ((steps.clamp(low, high) - zero) * scale, inside) if enabled else (x.clone(), torch.ones_like(inside))


def by_channel(name: str, args: Any) -> bool:
    """Whether each channel has a scale, as those of weights have that were made of others (a batch norm's)."""
    return args[0].dtype == torch.float32 and ("per_channel" in name or any(args[11:12]))


def scales_between(
    low: torch.Tensor, high: torch.Tensor, least: int, most: int, axis: int, each: bool, symmetric: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """The scales and zero points that torch's fused fake quantization finds of the least and the greatest values.

    It does so whenever it rounds, whatever scales it is given; where no values were observed, too.
    """
    with torch._C._DisableTorchDispatch():  # in float32, as torch does
        count = low.numel()
        scale, zero = torch.ones(count), torch.zeros(count, dtype=torch.int32)
        x = torch.zeros([count if place == axis else 1 for place in range(max(axis + 1, 2))])
        first, last = (bound.detach().float().reshape(count).clone() for bound in (low, high))
        compute: Any = torch.fused_moving_avg_obs_fake_quant
        observing, rounding = torch.zeros(1), torch.ones(1)
        compute(x, observing, rounding, first, last, scale, zero, 1.0, least, most, axis, each, symmetric)
    return scale, zero


def observed(x: Any, on: Any, rounds: Any, low: Any, high: Any, scale: Any, zero: Any, *rest: Any, **more: Any) -> Any:
    """The same of a module whose observer is off."""
    _, least, most, axis, each, symmetric, *_ = (*rest, False, False)
    if bool(on):
        raise RuntimeError("scales that change")
    if not bool(rounds):
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    scale, zero = scales_between(low, high, least, most, axis, each, symmetric)
    return faked(x, scale, zero, *([axis] if each else []), least, most, **more)


def rounded_to_fp8(
    input: Any, amax: Any, num_bits: int = 8, exponent_bits: int = 0, unsigned: bool = False, narrow_range: bool = True
) -> Any:
    """ModelOpt's ``tensorrt.quantize_op``: fp8 in steps of a 448th of the greatest value. UnsupportedError for other
    formats, which it does not compute on a CPU."""
    if (num_bits, exponent_bits) != (8, 4):
        raise UnsupportedError(f"tensorrt.quantize_op has 8 bits, 4 of exponent, not {num_bits} and {exponent_bits}")
    wide = torch.promote_types(input.dtype, torch.float32)
    greatest = amax.to(wide)
    steps = 448.0 / torch.where(greatest <= 2**-24, torch.ones_like(greatest), greatest)
    codes = (input.to(wide) * steps).clamp(-448.0, 448.0).to(torch.float8_e4m3fn)
    return (codes.to(wide) * (1 / steps)).to(input.dtype)


def _sorted(x: Any, dim: int = -1, descending: bool = False, stable: Any = None) -> Any:
    """A stable sort: of equal values torch's own gives any first."""
    return tuple(torch.sort(x, dim=dim, descending=descending, stable=True))


def _best(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    if not x.ndim:
        return x, torch.zeros((), dtype=torch.int64)
    return tuple(each.narrow(dim, 0, k).contiguous() for each in _sorted(x, dim, largest))  # which may be viewed


def converted(x: Any, dtype: Any = None, **how: Any) -> Any:
    """Numbers in another dtype; what int32 or int64 cannot hold, saturates, as on a GPU (a CPU gives any)."""
    made = torch.ops.aten._to_copy(x, dtype=dtype, **how)
    if dtype not in (torch.int32, torch.int64) or not x.is_floating_point():
        return made
    known = torch.iinfo(dtype)
    made = torch.where(x >= float(known.max), known.max, torch.where(x <= float(known.min), known.min, made))
    return torch.where(torch.isnan(x), 0, made)


def _convolved(x: Any, kernel: Any, bias: Any, *how: Any) -> Any:
    """A convolution in float64: by products of parts that stay in the cache, where torch's own copies all places of the
    kernel at once. A kernel of one column needs no copy: rows lie behind each other, and a place of it is a distance.
    """
    stride, padding, dilation, transposed, _, groups = how
    plain = tuple(stride) == (1, 1)
    if x.ndim != 4 or transposed or groups > 1 or not x.numel() or (plain and kernel.shape[2:].numel() == 1):
        return torch.ops.aten.convolution(x, kernel, bias, *how)
    padded = torch.nn.functional.pad(x, (padding[1], padding[1], padding[0], padding[0])).contiguous()
    batch, channels, height, width = padded.shape
    edges = zip((height, width), dilation, kernel.shape[2:], stride, strict=True)
    rows, columns = ((size - step * (last - 1) - 1) // by + 1 for size, step, last, by in edges)
    made = x.new_zeros(batch, kernel.shape[0], rows * columns)
    if bias is not None:
        made += bias.reshape(1, -1, 1)
    if plain and kernel.shape[3] == 1:
        for image, sums in zip(padded.reshape(batch, channels, -1), made, strict=True):
            for row in range(kernel.shape[2]):
                first = row * dilation[0] * width
                sums.addmm_(kernel[:, :, row, 0], image[:, first : first + rows * width])
        return made.reshape(batch, -1, rows, columns)
    flat = kernel.flatten(1)
    most = max(CACHED // (flat.shape[1] * columns), 1)
    steps = (height * width, dilation[0] * width, dilation[1], stride[0] * width, stride[1])
    for image, first in itertools.product(range(batch), range(0, rows, most)):
        shape = *kernel.shape[1:], min(most, rows - first), columns
        places = padded[image, :, first * stride[0] :].as_strided(shape, steps).reshape(flat.shape[1], -1)
        made[image, :, first * columns : (first + most) * columns].addmm_(flat, places)
    return made.reshape(batch, -1, rows, columns)


LEFT_OPEN = {"sort": _sorted, "topk": _best}
"""What computes operators that leave it open which of equal elements come first, of whatever dtype."""
INSTEAD = {
    "convolution": _convolved,
    **LEFT_OPEN,
    "_to_copy": converted,
    "_euclidean_dist": lambda a, b: torch.ops.aten._cdist_forward(a, b, 2.0, 2),  # not of squares, which cancel
    "_scaled_dot_product_flash_attention_for_cpu": _attended,
    "fake_quantize_per_tensor_affine_cachemask": faked,
    "fake_quantize_per_channel_affine_cachemask": faked,
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": faked,
    "_fused_moving_avg_obs_fq_helper": observed,
    "quantize_op": rounded_to_fp8,
}
"""What computes the exact values of operators that round in float64, or leave it open what they give."""


def finite_of(dtype: torch.dtype, nan: Any = None, posinf: Any = None, neginf: Any = None) -> tuple[Any, Any, Any]:
    """What ``nan_to_num`` writes for NaN and the infinities of a dtype."""
    known = torch.finfo(dtype)
    return nan, known.max if posinf is None else posinf, known.min if neginf is None else neginf


def nearest(func: Any, args: Any, kwargs: Any, wide: Any, how: Any) -> torch.Tensor:
    """The nearest elements that torch takes in float32: in float64 it takes others for some sizes."""
    shape = args[0].shape[2:]
    places = torch.arange(shape.numel(), dtype=torch.float32).reshape(1, 1, *shape)
    chosen = func(places, *args[1:], **kwargs)
    return wide[0].flatten(2)[..., chosen.flatten().long()].reshape(*args[0].shape[:2], *chosen.shape[2:])
