"""Normalizations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.errors import DefinitionError, ShapeError, UnsupportedError
from ...sizes.size import SizeLike, product
from ..common import MAX_DIMS, Call, L, Tensor, lowered, operation, require_floats, require_rank, shape_text, torch, way
from ..lowerings import Choice
from ..operands import along, binary, scaled
from ..products.folding import Scaled, affine, made_of
from .statistics import vector_norm


@operation
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *,
    lowering: str = "auto",
) -> Tensor:
    """``(input - mean) / sqrt(var + eps) * weight + bias`` per channel of dimension 1, for any rank from 2 on.

    No layer where ``input`` is the result of a convolution that nothing else uses: its weights take in the statistics,
    computed in float64 (``lowering="folded"``), unless they become too small or too great for float16. Otherwise, and
    for ``"scale"``, one IScaleLayer in float32, between two IShuffleLayers below rank 4. Statistics that are not
    constants take IElementWiseLayers in float32. ``training=True`` normalizes by the batch's own statistics
    (INormalizationLayer) when there are no running ones, and is refused when there are; ``momentum`` matters only
    there.
    """
    if input.ndim < 2:
        raise UnsupportedError(f"batch_norm takes (N, C, …), not {shape_text(input.shape)}")
    if training:
        if running_mean is not None or running_var is not None:
            raise UnsupportedError("batch_norm(training=True) updates its statistics: an engine is for inference")
        axes = [axis for axis in range(input.ndim) if axis != 1]
        return _normalized(input, axes, _channels(input, weight), _channels(input, bias), eps, by_channel=True)
    if running_mean is None or running_var is None:
        raise DefinitionError("batch_norm needs running_mean and running_var, as in torch, unless training=True")
    given = [tensor for tensor in (running_mean, running_var, weight, bias) if tensor is not None]
    channels = (input.shape[1],)
    for tensor in given:
        if tensor.shape != channels:
            raise ShapeError(f"batch_norm: {shape_text(tensor.shape)} is not one value per channel of {channels[0]}")
    if any(tensor.data is None for tensor in given):
        mean, var = (L.cast(value, torch.float32) for value in (running_mean, running_var))
        return _by_moments(input, mean, var, _channels(input, weight), _channels(input, bias), eps)
    scale, shift = affine(running_mean, running_var, eps, weight, bias)
    choice, call = Choice("batch_norm", lowering, input), input.network.current_operation
    assert call is not None
    scaled = Scaled(call, [input], input, given, scale, shift, 1, choice)
    if isinstance(input.node, Call):
        return scaled.tensor(input.shape, input.dtype, "batch_norm", input.scope)
    return scaled.lower()


@way(
    "batch_norm",
    "folded",
    "no layer: the weights of the convolution before it take it in",
    unless=lambda x, within, **_: within if isinstance(within, str) else None,
)
def _norm_in_weights(x: Tensor, within: Callable[[], Tensor], **_: Any) -> Tensor:
    return within()


@way("batch_norm", "scale", "IScaleLayer")
def _norm_as_scale(x: Tensor, statistics: Sequence[Tensor], by: tuple[Any, Any], **_: Any) -> Tensor:
    """In float32: a mean far greater than the deviation makes a shift that half precision rounds to more than that."""
    scale, shift = by
    wide = L.cast(L.shuffle(x, reshape=(*x.shape, *(1,) * (4 - x.ndim))), torch.float32)
    result = L.scale(wide, *made_of(statistics, shift.float(), scale.float()), axis=1)
    return L.shuffle(L.cast(result, x.dtype), reshape=x.shape)


def _channels(x: Tensor, values: Tensor | None) -> Tensor | None:
    """One value per channel, in the rank of ``x``."""
    return None if values is None else L.shuffle(values, reshape=(1, x.shape[1], *(1,) * (x.ndim - 2)))


def _normalized(
    x: Tensor,
    axes: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    groups: int = 1,
    by_channel: bool = False,
) -> Tensor:
    """INormalizationLayer with weights that are absent made up; ``weight`` and ``bias`` have the rank of ``x``."""
    given = weight if weight is not None else bias
    if given is None:
        # In float32 one value for all channels takes the builder more launches than one for each; in half precision
        # it is the other way round (docs/benchmarks.md, "Lowerings").
        each = groups != 1 or (by_channel and x.dtype == torch.float32 and isinstance(x.shape[1], int))
        dims: tuple[int, ...] = tuple(int(x.shape[1]) if each and axis == 1 else 1 for axis in range(x.ndim))
    else:
        dims = tuple(int(size) for size in given.shape)
    weight = x.network.constant(torch.ones(dims, dtype=x.dtype)) if weight is None else weight
    bias = x.network.constant(torch.zeros(dims, dtype=x.dtype)) if bias is None else bias
    return L.normalization(x, L.cast(weight, x.dtype), L.cast(bias, x.dtype), axes, eps, groups)


@operation
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[SizeLike],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """``(input - mean) / sqrt(var + eps) * weight + bias`` over the last dimensions, which are ``normalized_shape``.

    INormalizationLayer.

    Raises ShapeError where the last dimensions are others.
    """
    axes = _last(input, normalized_shape)
    lead = range(len(axes) and axes[0])
    weight, bias = (None if value is None else L.unsqueeze(value, lead) for value in (weight, bias))
    return _normalized(input, axes, weight, bias, eps)


def _reciprocal_root(var: Tensor, eps: float) -> Tensor:
    """``1 / sqrt(var + eps)``."""
    return L.unary(L.unary(var + eps, "SQRT"), "RECIP")


def _last(x: Tensor, normalized_shape: Sequence[SizeLike]) -> list[int]:
    wanted = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not wanted or x.shape[x.ndim - len(wanted) :] != wanted:
        raise ShapeError(f"the last dimensions of {shape_text(x.shape)} are not {shape_text(wanted)}")
    return list(range(x.ndim - len(wanted), x.ndim))


@operation
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *,
    lowering: str = "auto",
) -> Tensor:
    """``(input - mean) / sqrt(var + eps) * weight + bias`` over groups of channels and all spatial dimensions.

    INormalizationLayer; IReduceLayers over a row for each group in float32 for ``lowering="rows"``.

    Raises ShapeError where the channels do not divide into ``num_groups``.
    """
    require_rank(input, "group_norm takes (N, C, …)", 2, MAX_DIMS)
    channels = input.shape[1]
    if not isinstance(channels, int) or channels % num_groups:
        raise ShapeError(f"{channels} channels do not divide into {num_groups} groups")
    return lowered("group_norm", lowering, input, groups=num_groups, weight=weight, bias=bias, eps=eps)


@way("group_norm", "layer", "INormalizationLayer")
def _groups_by_layer(x: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    if groups > 1 and x.ndim == 2:
        return L.squeeze(_groups_by_layer(L.unsqueeze(x, [2]), groups, weight, bias, eps), [2])
    scale, shift = _channels(x, weight), _channels(x, bias)
    return _normalized(x, list(range(1 if groups == 1 else 2, x.ndim)), scale, shift, eps, groups)


@way("group_norm", "rows", "the moments of each group as a row, in float32")
def _groups_as_rows(x: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    rows = (x.shape[0] * groups, x.shape[1] // groups * product(x.shape[2:]))
    flat = L.cast(L.shuffle(x, reshape=rows), torch.float32)
    mean, var = _moments(flat)
    result = L.cast(L.shuffle((flat - mean) * _reciprocal_root(var, eps), reshape=x.shape), x.dtype)
    for values, op in ((weight, "PROD"), (bias, "SUM")):
        result = result if values is None else binary(result, _channels(x, values), op, x.dtype)
    return result


@operation
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *,
    lowering: str = "auto",
) -> Tensor:
    """``(input - mean) / sqrt(var + eps) * weight + bias`` over the spatial dimensions of each channel.

    IReduceLayer AVG over the rows of an IShuffleLayer, in float32: a row for each channel (``lowering="rows"``), or
    parts of rows whose moments are then put together (``"blocks"``), for sizes that are dynamic and for few long rows.
    INormalizationLayer for ``"layer"``.

    ``use_input_stats=False`` is :func:`batch_norm` with the running statistics. With ``use_input_stats`` torch would
    update them, with ``momentum``: that is refused.
    """
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    if running_mean is not None or running_var is not None:
        raise UnsupportedError("instance_norm updates running statistics: leave them out, or use_input_stats=False")
    require_rank(input, "instance_norm takes (N, C, L, …)", 3, MAX_DIMS)
    default = "rows" if _at_once(product(input.shape[:2]), product(input.shape[2:])) else "blocks"
    scale, shift = _channels(input, weight), _channels(input, bias)
    return lowered("instance_norm", lowering, input, weight=scale, bias=shift, eps=eps, default=default)


def _at_once(rows: SizeLike, length: SizeLike) -> bool:
    """Whether the builder makes one kernel of the moments of rows and what normalizes them.

    It takes several passes where rows are of any length, or long and few. Found by building for 2 to 1024 rows of 8192
    to 262,144 elements (TensorRT-RTX 1.7.1).
    """
    if not isinstance(length, int):
        return False
    most = 16_000 if not isinstance(rows, int) or rows < 64 else 25_000 if rows < 192 else length
    return length <= most


@way("instance_norm", "rows", "the moments of each channel as a row, in float32")
def _channels_as_rows(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    moments = _moments(L.shuffle(x, reshape=(product(x.shape[:2]), product(x.shape[2:]))))
    return _by_moments(x, *moments, weight, bias, eps)


@way(
    "instance_norm",
    "blocks",
    "the moments of parts of each row, put together",
    unless=lambda x, **_: "a row of one dimension has no parts" if x.ndim == 3 else None,
)
def _channels_in_blocks(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    channels, (height, *rest) = product(x.shape[:2]), x.shape[2:]
    parts = (channels, height)
    means, variances = _moments(L.shuffle(x, reshape=(channels * height, product(rest))))
    moments = _moments(L.shuffle(means, reshape=parts), L.shuffle(variances, reshape=parts))
    return _by_moments(x, *moments, weight, bias, eps)


@way("instance_norm", "layer", "INormalizationLayer")
def _channels_by_layer(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    return _normalized(x, list(range(2, x.ndim)), weight, bias, eps, by_channel=True)


def _by_moments(x: Tensor, mean: Tensor, var: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """Every channel normalized by its own moments, of each item or of all; ``weight`` and ``bias`` have the rank of
    ``x``."""
    each = (x.shape[0] if mean.ndim > 1 else 1, x.shape[1], *(1,) * (x.ndim - 2))
    scale = _reciprocal_root(var, eps)
    scale, mean = (L.shuffle(values, reshape=each) for values in (scale, mean))
    if weight is not None:
        scale = scale * L.cast(weight, torch.float32)
    shift, scaled = mean * scale, L.cast(x, torch.float32) * scale
    result = scaled - shift if bias is None else scaled + (L.cast(bias, torch.float32) - shift)
    return L.cast(result, x.dtype)


def _moments(rows: Tensor, variances: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The mean and the variance of each row of ``rows``, whose elements have ``variances`` of their own."""
    rows = L.cast(rows, torch.float32)
    mean = L.reduce(rows, "AVG", [1], True)
    centred = rows - mean
    squares = centred * centred if variances is None else variances + centred * centred
    return mean, L.reduce(squares, "AVG", [1], True)


@operation
def rms_norm(
    input: Tensor, normalized_shape: Sequence[SizeLike], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """``input / sqrt(mean(input ** 2) + eps) * weight`` over the last dimensions, which are ``normalized_shape``.

    IElementWiseLayer PROD, IReduceLayer AVG, IUnaryLayer SQRT and RECIP, in float32. ``eps`` is that of float32
    when None, also in half precision, as in torch.
    """
    axes = _last(input, normalized_shape)
    small = torch.finfo(torch.float32).eps if eps is None else eps
    wide = L.cast(input, torch.float32)
    result = wide * _reciprocal_root(L.reduce(wide * wide, "AVG", axes, True), small)
    return L.cast(result if weight is None else result * L.cast(weight, torch.float32), input.dtype)


@operation
def normalize(input: Tensor, p: float = 2.0, dim: int | Sequence[int] = 1, eps: float = 1e-12) -> Tensor:
    """``input / max(norm, eps)`` over ``dim``: the layers of :func:`vector_norm`, IElementWiseLayer MAX and DIV."""
    length = vector_norm(input, p, dim, keepdim=True)
    return input / binary(length, eps, "MAX", input.dtype)


@operation
def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """``input / (k + alpha * mean(input ** 2)) ** beta``, the mean over ``size`` neighbouring channels.

    IPoolingLayer AVERAGE over the channels, IElementWiseLayers.
    """
    require_floats("local_response_norm takes", input)
    require_rank(input, "local_response_norm takes (N, C, L, …)", 3, MAX_DIMS)
    padded = along(input * input, 1, -(size // 2), input.shape[1] + (size - 1), mode="FILL")
    batch, rest = input.shape[0], product(input.shape[2:])
    column = L.shuffle(padded, reshape=(batch, 1, padded.shape[1], rest))
    none = (0, 0)
    means = L.pooling(column, "AVERAGE", (size, 1), stride=(1, 1), pre_padding=none, post_padding=none)
    scale = scaled(L.shuffle(means, reshape=input.shape), alpha) + k
    return input / binary(scale, beta, "POW", scale.dtype)
