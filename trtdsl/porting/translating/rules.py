"""Rules for operators of aten whose arguments are not those of a public function of torch.

Each is written with public functions and takes the operator's arguments in the order of its schema.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from ...core.errors import UnsupportedError
from ...core.lazy import torch
from ...core.tensors.operators import rounded_to_fp8
from ..calls import along, leaves


def _convolution(
    x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, output: Any,
    groups: int, *_: Any,
) -> Any:  # fmt: skip
    dims = weight.dim() - 2
    if transposed:
        made = getattr(torch.nn.functional, f"conv_transpose{dims}d")
        return made(x, weight, bias, stride, padding, output, groups, dilation)
    return getattr(torch.nn.functional, f"conv{dims}d")(x, weight, bias, stride, padding, dilation, groups)


def _convolution_backward(
    grad: Any, x: Any, weight: Any, _: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, __: Any,
    groups: int, needed: Any,
) -> Any:  # fmt: skip
    """The derivatives by what is convolved, a convolution that is the other's transpose, by weight and by bias."""
    by_weight = by_bias = None
    if needed[1]:
        inside, outside = (grad, x) if transposed else (x, grad)
        parts = zip(inside.chunk(groups, 1), outside.chunk(groups, 1))
        found = [_by_weight(*each, weight.shape[2:], stride, padding, dilation) for each in parts]
        by_weight = torch.cat(found) if groups > 1 else found[0]
    if needed[2]:
        by_bias = grad.sum([axis for axis in range(grad.dim()) if axis != 1])
    if transposed:
        return _convolution(grad, weight, None, stride, padding, dilation, False, None, groups), by_weight, by_bias
    sides = zip(x.shape[2:], grad.shape[2:], weight.shape[2:], stride, padding, dilation)
    output = [size - ((g - 1) * s - 2 * p + d * (k - 1) + 1) for size, g, k, s, p, d in sides]
    by_input = _convolution(grad, weight, None, stride, padding, dilation, True, output, groups)
    return by_input, by_weight, by_bias


def _by_weight(x: Any, grad: Any, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Any:
    """The derivative by the weight: samples are channels, and the steps within windows are those between them."""
    found = _convolution(x.transpose(0, 1), grad.transpose(0, 1), None, dilation, padding, stride, False, None, 1)
    return found[(..., *map(slice, kernel))].transpose(0, 1)


def _cdist_backward(grad: Any, a: Any, b: Any, p: float, distance: Any) -> Any:
    """The derivative by the first points: of each difference, ``sign(d) * (|d| / distance) ** (p - 1)``."""
    if p not in (1.0, 2.0):
        raise UnsupportedError(f"the derivative of distances by p={p} is not written here: 1 and 2 are")
    difference = a.unsqueeze(-2) - b.unsqueeze(-3)
    slope = grad if p == 1 else torch.where(distance == 0, 0.0, grad / distance)
    return ((torch.sign(difference) if p == 1 else difference) * slope.unsqueeze(-1)).sum(-2)


def _transposed_along(grad: Any, sizes: Any, function: Callable[[Any, int], Any]) -> Any:
    """The derivative of a function that is linear, and the same along each axis: ``function(x, axis)`` of its rows."""
    for axis, size in enumerate(sizes):
        matrix = function(torch.eye(size), axis)
        grad = (grad.movedim(axis + 2, -1) @ matrix.mT).movedim(-1, axis + 2)
    return grad


def _avg_pool_backward(
    grad: Any, x: Any, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, padded: bool, divisor: Any
) -> Any:
    stride = stride or kernel

    def pooled(rows: Any, axis: int) -> Any:
        means = torch.nn.functional.avg_pool1d(rows, kernel[axis], stride[axis], padding[axis], ceil_mode, padded)
        return means if divisor is None else torch.sign(means)  # which elements a window has

    return _transposed_along(grad if divisor is None else grad / divisor, x.shape[2:], pooled)


def _adaptive_avg_pool_backward(grad: Any, x: Any) -> Any:
    sizes = grad.shape[2:]
    return _transposed_along(
        grad, x.shape[2:], lambda rows, axis: torch.nn.functional.adaptive_avg_pool1d(rows, sizes[axis])
    )


def _resized_backward(mode: str) -> Callable[..., Any]:
    def rule(grad: Any, sizes: Any, own: Any, *rest: Any) -> Any:
        aligned = () if mode.startswith("nearest") else rest[:1]
        scales = rest[len(aligned) :]

        def resized(rows: Any, axis: int) -> Any:
            scale = [1.0, scales[axis]] if axis < len(scales) and scales[axis] is not None else []
            return _resized(mode)(rows[None, None], [own[2 + axis], sizes[axis]], *aligned, *scale)[0, 0]

        return _transposed_along(grad, own[2:], resized)

    return rule


def _native_layer_norm(x: Any, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    axes = list(range(x.dim() - len(shape), x.dim()))
    mean, variance = x.mean(axes, True), x.var(axes, correction=0, keepdim=True)
    return torch.nn.functional.layer_norm(x, shape, weight, bias, eps), mean, torch.rsqrt(variance + eps)


def _native_group_norm(x: Any, weight: Any, bias: Any, n: int, c: int, area: int, groups: int, eps: float) -> Any:
    split = x.reshape(x.shape[0], groups, -1)
    mean, variance = split.mean(-1), split.var(-1, correction=0)
    return torch.nn.functional.group_norm(x, groups, weight, bias, eps), mean, torch.rsqrt(variance + eps)


def _native_batch_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any = None, running_var: Any = None, training: bool = False,
    *, momentum: float, eps: float,
) -> Any:  # fmt: skip
    result = torch.nn.functional.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    return result, *(result.new_empty(0) for _ in range(2))  # a tensor that training saves; empty in evaluation


def _embedding(weight: Any, indices: Any, *_: Any) -> Any:
    return torch.nn.functional.embedding(indices, weight)


def _embedding_bag(
    weight: Any, indices: Any, offsets: Any, by_freq: bool = False, mode: int = 0, sparse: bool = False,
    per_sample: Any = None, include_last: bool = False, padding_idx: int = -1,
) -> Any:  # fmt: skip
    bags = torch.nn.functional.embedding_bag(
        indices, weight, offsets, None, 2.0, by_freq, ("sum", "mean", "max")[mode], sparse, per_sample, include_last,
        None if padding_idx < 0 else padding_idx,
    )  # fmt: skip
    return bags, *(bags.new_empty(0) for _ in range(3))


def _to(self: Any, dtype: Any = None, **_: Any) -> Any:
    if not isinstance(self, torch.Tensor):  # a number that stands for a tensor without dimensions
        return torch.tensor(self, dtype=dtype)
    return self.clone() if dtype is None else self.to(dtype)


def _slice(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1) -> Any:
    start = None if type(start) is int and start == 0 else start
    end = None if type(end) is int and end >= 2**63 - 1 else end
    if start is None and end is None and step == 1:
        return x
    return _select(x, dim, slice(start, end, None if step == 1 else step))


def _select(x: Any, dim: int, index: Any) -> Any:
    return x[along(dim % x.dim(), index)]


def _index(x: Any, indices: Any) -> Any:
    return x[_places(indices)]


def _index_put(x: Any, indices: Any, values: Any, accumulate: bool = False, *_: Any) -> Any:
    if accumulate or not _has_mask(indices):
        return torch.index_put(x, _without_none(x, indices), values, accumulate)
    result = x.clone()
    result[_places(indices)] = values
    return result


def _index_put_(x: Any, indices: Any, values: Any, accumulate: bool = False, *_: Any) -> Any:
    if accumulate or not _has_mask(indices):
        return x.index_put_(_without_none(x, indices), values, accumulate)
    x[_places(indices)] = values
    return x


def _has_mask(indices: Any) -> bool:
    return any(index is not None and index.dtype == torch.bool for index in indices)


def _places(indices: Any) -> tuple[Any, ...]:
    places = [slice(None) if index is None else index for index in indices]
    while places and isinstance(places[-1], slice):
        places.pop()
    return tuple(places) if places else (Ellipsis,)


def _without_none(x: Any, indices: Any) -> tuple[Any, ...]:
    """Indices of all the dimensions that are named, those without one taken whole."""
    indices = list(indices)
    while indices and indices[-1] is None:
        indices.pop()
    if not any(index is None for index in indices):
        return tuple(indices)
    given = [index for index in indices if index is not None]
    rank = max(index.dim() for index in given)
    free = [axis for axis, index in enumerate(indices) if index is None]
    first = next(axis for axis, index in enumerate(indices) if index is not None)
    adjacent = all(index is not None for index in indices[first : first + len(given)])
    before = first if adjacent else 0  # where torch puts the dimensions of the indices
    made = []
    for axis, index in enumerate(indices):
        if index is None:
            place = free.index(axis)
            after = len(free) - place - 1 + (rank if place < before else 0)
            made.append(torch.arange(x.shape[axis]).reshape((-1, *[1] * after)))
        else:
            made.append(index.reshape((*index.shape, *[1] * (len(free) - before))))
    return tuple(made)


def _scalar_tensor(number: Any, *, dtype: Any = None, **_: Any) -> Any:
    return torch.full((), number, dtype=torch.get_default_dtype() if dtype is None else dtype)


def _resized(mode: str, antialias: bool = False) -> Callable[..., Any]:
    """``upsample_X(input, output_size, [align_corners,] scales…)``: scales come before the sizes that they give.

    The overload ``vec`` has them in a list, or has no sizes.
    """

    def rule(x: Any, size: Any, *rest: Any) -> Any:
        aligned = {} if mode.startswith("nearest") else {"align_corners": rest[0]}
        scales = [each for each in leaves(rest[len(aligned) :]) if each is not None]
        scaled = [int(side * scale) for side, scale in zip(x.shape[2:], scales)]
        sizes = None if size is None else list(size)
        by_scales = sizes is None or (scales and scaled == [int(each) for each in sizes])
        given: dict[str, Any] = {"scale_factor": scales} if by_scales else {"size": sizes}
        return torch.nn.functional.interpolate(x, mode=mode, antialias=antialias, **given, **aligned)

    return rule


def _padded(mode: str) -> Callable[..., Any]:
    def rule(x: Any, pad: Any, value: Any = None) -> Any:
        return torch.nn.functional.pad(x, list(pad), mode, *([value] if value is not None else []))

    return rule


def _pad_enum(x: Any, pad: Any, mode: int, value: Any = None) -> Any:
    return _padded(("reflect", "replicate", "circular", "constant")[mode])(x, pad, value)


def _grid_sampler(x: Any, grid: Any, mode: int, padding: int, align_corners: bool) -> Any:
    modes, paddings = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
    return torch.nn.functional.grid_sample(x, grid, modes[mode], paddings[padding], align_corners)


def _elu(x: Any, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Any:
    if (scale, input_scale) == (1, 1):
        return torch.nn.functional.elu(x, alpha)
    if input_scale == 1:
        return torch.where(x > 0, x, torch.expm1(x) * alpha) * scale
    return torch.where(x > 0, x, torch.expm1(x * input_scale) * alpha) * scale


def _attended(
    query: Any, key: Any, value: Any, attn_bias: Any = None, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: Any = None, **_: Any,
) -> Any:  # fmt: skip
    mask, causal = attn_mask if attn_bias is None else attn_bias, is_causal
    if mask is not None and causal:  # which the public function does not take together
        allowed = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
        mask, causal = torch.where(allowed, mask, -math.inf), False
    result = torch.nn.functional.scaled_dot_product_attention(query, key, value, mask, dropout_p, causal, scale=scale)
    return result, *(None for _ in range(8))


def _adaptive_max_pool(dims: int) -> Callable[..., Any]:
    return lambda x, size: getattr(torch.nn.functional, f"adaptive_max_pool{dims}d")(x, size, return_indices=True)


def _native_multi_head_attention(
    query: Any, key: Any, value: Any, size: int, heads: int, qkv_weight: Any, qkv_bias: Any, weight: Any, bias: Any,
    mask: Any = None, need_weights: bool = True, average: bool = True, mask_type: int | None = None,
) -> Any:  # fmt: skip
    given = (each.transpose(0, 1) for each in (query, key, value))
    masks = {"key_padding_mask" if mask_type == 1 else "attn_mask": mask}
    if mask is not None and mask.dim() == 4:  # of each head
        masks["attn_mask"] = mask.flatten(0, 1)
    taken: list[Any] = [*given, size, heads, qkv_weight, qkv_bias, None, None, False, 0.0, weight, bias, False]
    more: dict[str, Any] = {**masks, "need_weights": need_weights, "average_attn_weights": average}
    made, weights = torch.nn.functional.multi_head_attention_forward(*taken, **more)
    return made.transpose(0, 1), weights


def _transformer_encoder_layer(
    src: Any, size: int, heads: int, qkv_weight: Any, qkv_bias: Any, proj_weight: Any, proj_bias: Any, use_gelu: bool,
    norm_first: bool, eps: float, weight_1: Any, bias_1: Any, weight_2: Any, bias_2: Any, fc_weight_1: Any,
    fc_bias_1: Any, fc_weight_2: Any, fc_bias_2: Any, mask: Any = None, mask_type: int | None = None,
) -> Any:  # fmt: skip
    functional = torch.nn.functional
    activation = functional.gelu if use_gelu else functional.relu

    def attention(x: Any) -> Any:
        weights = qkv_weight, qkv_bias, proj_weight, proj_bias
        return _native_multi_head_attention(x, x, x, size, heads, *weights, mask, False, True, mask_type)[0]

    def products(x: Any) -> Any:
        return functional.linear(activation(functional.linear(x, fc_weight_1, fc_bias_1)), fc_weight_2, fc_bias_2)

    def norms(x: Any, weight: Any, bias: Any) -> Any:
        return functional.layer_norm(x, (size,), weight, bias, eps)

    if norm_first:
        x = src + attention(norms(src, weight_1, bias_1))
        return x + products(norms(x, weight_2, bias_2))
    x = norms(src + attention(src), weight_1, bias_1)
    return norms(x + products(x), weight_2, bias_2)


def _stft(
    x: Any, n_fft: int, hop: Any = None, size: Any = None, window: Any = None, normalized: bool = False,
    onesided: Any = None, return_complex: Any = None, *_: Any,
) -> Any:  # fmt: skip
    more = {"normalized": normalized, "onesided": onesided, "return_complex": return_complex}
    return torch.stft(x, n_fft, hop, size, window, center=False, **more)


def _pool(name: str, indices: bool = False) -> Callable[..., Any]:
    def rule(x: Any, kernel: Any, stride: Any = None, padding: Any = 0, *rest: Any) -> Any:
        function = getattr(torch.nn.functional, name)
        stride = None if isinstance(stride, (list, tuple)) and not stride else stride
        if not indices:
            return function(x, kernel, stride, padding, *rest)
        dilation, ceil_mode, *_ = (*rest, *(1, False)[len(rest) :])
        return function(x, kernel, stride, padding, dilation, ceil_mode, return_indices=True)

    return rule


def _copy(x: Any, source: Any, *_: Any) -> Any:
    return source.to(x.dtype).expand(x.shape)


def _method(name: str) -> Callable[..., Any]:
    return lambda x, *given, **named: getattr(x, name)(*given, **named)


def _tensordot(a: Any, b: Any, *dims: Any) -> Any:
    return torch.tensordot(a, b, dims)  # pyright: ignore[reportArgumentType]


def _cdist(a: Any, b: Any, p: float = 2.0, mode: Any = None) -> Any:
    return torch.cdist(a, b, p)


def _broadcast_in_dim(x: Any, shape: Any, dims: Any) -> Any:
    """Dimension k of x becomes dimension ``dims[k]``."""
    kept = [x.shape[dims.index(axis)] if axis in dims else 1 for axis in range(len(shape))]
    return x.reshape(kept).expand(*shape)


def _of_prims(name: str) -> Callable[..., Any]:
    """A reduction over dimensions, which may be given a dtype."""

    def rule(x: Any, dims: Any, *, output_dtype: Any = None, correction: Any = None) -> Any:
        named = {} if output_dtype is None else {"dtype": output_dtype}
        named |= {} if correction is None else {"correction": correction}
        return getattr(torch, name)(x, tuple(dims), **named)

    return rule


def _prims_div(a: Any, b: Any) -> Any:
    whole = isinstance(a, torch.Tensor) and not a.dtype.is_floating_point
    return torch.div(a, b, rounding_mode="trunc") if whole else a / b


def _erfinv(x: Any) -> Any:
    """As torch's own in float32, by rational functions near 0 and near 1, and two steps of Newton's method."""
    dtype, x = x.dtype if x.is_floating_point() else torch.float32, x.float()

    def polynomial(x: Any, *coefficients: float) -> Any:
        return functools.reduce(lambda result, each: result * x + each, coefficients)

    square, tail = x * x, torch.sqrt(-torch.log((1 - x.abs()) / 2))
    middle = x * polynomial(square, -0.140543331, 0.914624893, -1.645349621, 0.886226899)
    middle = middle / polynomial(square, 0.012229801, -0.329097515, 1.442710462, -2.118377725, 1.0)
    outer = polynomial(tail, 1.641345311, 3.429567803, -1.624906493, -1.970840454)
    outer = outer / polynomial(tail, 1.637067800, 3.543889200, 1.0) * torch.sign(x)
    found = torch.where(x.abs() <= 0.7, middle, outer)
    for _ in range(2):
        found = found - (torch.erf(found) - x) / (2 / math.sqrt(math.pi) * torch.exp(-found * found))
    return torch.where(x.abs() == 1, x * math.inf, found).to(dtype)


def _cholesky_solve(b: Any, factor: Any, upper: bool = False) -> Any:
    lower = factor.mH if upper else factor
    inner = torch.linalg.solve_triangular(lower, b, upper=False)
    return torch.linalg.solve_triangular(lower.mH, inner, upper=True)


def _mode(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The least of the numbers that occur most, and the last place of it."""
    rows = x.movedim(dim, -1)
    counts = (rows.unsqueeze(-1) == rows.unsqueeze(-2)).sum(-1)
    most = counts == counts.amax(-1, keepdim=True)
    other = math.inf if x.is_floating_point() else torch.iinfo(x.dtype).max
    found = torch.where(most, rows, other).amin(-1, keepdim=True)
    place = torch.where(rows == found, torch.arange(rows.shape[-1]), -1).amax(-1, keepdim=True)
    made = (each.movedim(-1, dim) if keepdim else each.squeeze(-1) for each in (found, place))
    return tuple(made)


def _nanmedian(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The lower median of the numbers beside NaN, which a sort puts last, and its place."""
    rows = x.reshape(-1) if dim is None else x.movedim(dim, -1)
    ordered, places = rows.sort(-1)
    middle = ((~rows.isnan()).sum(-1, keepdim=True) - 1).clamp(min=0) // 2
    made = [each.gather(-1, middle) for each in (ordered, places)]
    if dim is None:
        return made[0].reshape(())
    return tuple(each.movedim(-1, dim) if keepdim else each.squeeze(-1) for each in made)


def _trilinear(a: Any, b: Any, c: Any, expand_a: Any, expand_b: Any, expand_c: Any, summed: Any, *_: Any) -> Any:
    """The product of three tensors with new dimensions, summed over some."""
    for axis in range(max(x.dim() + len(new) for x, new in ((a, expand_a), (b, expand_b), (c, expand_c)))):
        a, b, c = (x.unsqueeze(axis) if axis in new else x for x, new in ((a, expand_a), (b, expand_b), (c, expand_c)))
    product = a * b * c
    return product.sum(tuple(summed)) if len(summed) else product


def _with_no_error(found: Any) -> Any:
    """A result, and the number of the error that each matrix has: none."""
    return found, torch.zeros(found.shape[:-2], dtype=torch.int32)


def _logdet(x: Any) -> Any:
    sign, logarithm = torch.linalg.slogdet(x)
    return torch.log(sign) + logarithm


def _index_reduce(x: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    places = index.reshape(-1, *[1] * (source.dim() - 1 - dim % x.dim())).expand(source.shape)
    return torch.scatter_reduce(x, dim, places, source, reduce, include_self=include_self)


def _safe_softmax(x: Any, dim: int, dtype: Any = None) -> Any:
    """A softmax that gives 0 where a row is masked whole."""
    return x.softmax(dim, dtype=dtype).masked_fill((x == -math.inf).all(dim, keepdim=True), 0)


def _flex_attention(
    query: Any, key: Any, value: Any, score_mod: Any, block_mask: Any, scale: Any, options: Any,
    of_scores: Any = (), of_masks: Any = (),
) -> Any:  # fmt: skip
    """An attention whose functions of a score and its place see all scores and places at once."""
    from torch.nn.attention.flex_attention import noop_mask

    groups = query.size(1) // key.size(1)
    if groups != 1:
        key, value = (each.repeat_interleave(groups, dim=1) for each in (key, value))
    scores = query @ key.mT * scale
    after = (-1, 1, 1, 1), (-1, 1, 1), (-1, 1), (-1,)
    places = [torch.arange(size).view(shape) for size, shape in zip(scores.shape, after)]
    scores = score_mod(scores, *places, *of_scores)
    if block_mask[-1] is not noop_mask:
        scores = torch.where(block_mask[-1](*places, *of_masks), scores, -math.inf)
    found = _safe_softmax(scores, -1) @ value
    return found, scores.logsumexp(-1) / math.log(2), scores.amax(-1) / math.log(2)


HIGHER_ORDER = {"flex_attention": _flex_attention}
"""Operators of higher order, which a trace sees by their sizes, as torch's own code of them does not keep these."""

LIBRARIES: dict[str, Callable[..., Any]] = {"tensorrt::quantize_op": rounded_to_fp8}
"""What operators of libraries compute whose code torch does not give."""
BY_NAME: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("native_batch_norm", "_native_batch_norm_legit"), _native_batch_norm),
    **dict.fromkeys(("_native_batch_norm_legit.no_stats", "_native_batch_norm_legit_no_training"), _native_batch_norm),
    **dict.fromkeys(("_to_copy", "to.dtype", "to.device", "to.dtype_layout"), _to),
    **{f"_scaled_dot_product_{kind}_attention": _attended for kind in ("efficient", "flash")},
    "_scaled_dot_product_flash_attention_for_cpu": _attended,
}
"""Rules that take the arguments by the schema's names."""
RESIZED = {
    "upsample_nearest": ("nearest", "123"), "_upsample_nearest_exact": ("nearest-exact", "123"),
    "upsample_linear": ("linear", "1"), "upsample_bilinear": ("bilinear", "2"), "upsample_bicubic": ("bicubic", "2"),
    "upsample_trilinear": ("trilinear", "3"),
}  # fmt: skip
"""Operators that resize, with their modes and the numbers of dimensions that they are for."""
RULES: dict[str, Callable[..., Any]] = {
    "_safe_softmax": _safe_softmax,
    "sym_size.int": lambda x, dim: x.shape[dim],
    "sym_size": lambda x: x.shape,
    "sym_numel": lambda x: x.numel(),
    **dict.fromkeys(("convolution", "_convolution"), _convolution),
    "convolution_backward": _convolution_backward,
    "_cdist_backward": _cdist_backward,
    **{f"avg_pool{dims}d_backward": _avg_pool_backward for dims in (2, 3)},
    **{f"_adaptive_avg_pool{dims}d_backward": _adaptive_avg_pool_backward for dims in (2, 3)},
    "native_layer_norm": _native_layer_norm,
    "native_group_norm": _native_group_norm,
    "embedding": _embedding,
    **dict.fromkeys(("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only"), _embedding_bag),
    **dict.fromkeys(("slice", "slice_copy"), _slice),
    "select": _select,
    **dict.fromkeys(("index", "_unsafe_index"), _index),
    **dict.fromkeys(("index_put", "_unsafe_index_put"), _index_put),
    **dict.fromkeys(("index_put_", "_index_put_impl_"), _index_put_),
    "_trilinear": _trilinear,
    "mode": _mode,
    "nanmedian": _nanmedian,
    "scalar_tensor": _scalar_tensor,
    "constant_pad_nd": _padded("constant"),
    **{f"reflection_pad{dims}d": _padded("reflect") for dims in (1, 2, 3)},
    **{f"replication_pad{dims}d": _padded("replicate") for dims in (1, 2, 3)},
    "_pad_circular": _padded("circular"),
    "_pad_enum": _pad_enum,
    **dict.fromkeys(("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"), _grid_sampler),
    "elu": _elu,
    "alias": lambda tensor: tensor.detach(),
    **{name: _pool(name) for dims in (1, 2, 3) for name in (f"max_pool{dims}d", f"avg_pool{dims}d")},
    **{f"max_pool{dims}d_with_indices": _pool(f"max_pool{dims}d", indices=True) for dims in (1, 2, 3)},
    **{f"adaptive_max_pool{dims}d": _adaptive_max_pool(dims) for dims in (1, 2, 3)},
    "unfold": _method("unfold"),
    "log_sigmoid_forward": lambda x: (torch.nn.functional.logsigmoid(x), x.new_empty(0)),
    "copy": _copy,
    **dict.fromkeys(("cdist", "_cdist_forward"), _cdist),
    "cholesky_solve": _cholesky_solve,
    "linalg_cholesky_ex": lambda x, upper=False, **_: _with_no_error(torch.linalg.cholesky(x, upper=upper)),
    "linalg_inv_ex": lambda x, **_: _with_no_error(torch.linalg.inv(x)),
    "erfinv": _erfinv,
    "index_reduce": _index_reduce,
    "logdet": _logdet,
    "prims.erf_inv": _erfinv,
    "tensordot": _tensordot,
    "stft": _stft,
    "stft.center": lambda *args, **named: torch.stft(*args, **named),
    "_native_multi_head_attention": _native_multi_head_attention,
    "_transformer_encoder_layer_fwd": _transformer_encoder_layer,
    "_unsafe_view": _method("reshape"),
    "_reshape_alias": lambda x, size, stride: x.reshape(size),
    "lift_fresh_copy": _method("clone"),
    "lift_fresh": lambda x: x,
    "prims.broadcast_in_dim": _broadcast_in_dim,
    "prims.convert_element_type": lambda x, dtype: x.to(dtype),
    "prims.div": _prims_div,
    **{f"prims.{name}": _of_prims(name) for name in ("sum", "amax", "amin", "var")},
    "prims.split_dim": lambda x, dim, outer: x.unflatten(dim, (outer, -1)),
    "prims.transpose": _method("permute"),
    "prims.rev": _method("flip"),
    "prims.copy_to": _method("copy_"),
    "prims.view_of": _method("detach"),
    **dict.fromkeys(("prims.collapse", "prims.collapse_view"), _method("flatten")),
}
RULES |= {f"{name}{dims}d": _resized(mode) for name, (mode, ranks) in RESIZED.items() for dims in ranks}
IN_2D = {"linear": "bilinear", "trilinear": "bilinear"}
RULES |= {
    f"{name}{dims}d_backward": _resized_backward(IN_2D.get(mode, mode))
    for name, (mode, ranks) in RESIZED.items()
    for dims in ranks
}
RULES |= {f"_upsample_{mode}2d_aa": _resized(mode, antialias=True) for mode in ("bilinear", "bicubic")}
