"""Normalizations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...sizes.size import SizeLike, product
from ..common import Call, DefinitionError, L, ShapeError, Tensor, UnsupportedError, operation, shape_text, torch
from ..lowerings import Choice, lowered, way
from ..operands import binary, scaled
from ..products.folding import Scaled, scaled_by
from ..products.fusion import affine
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

    >>> one = net.constant(torch.ones(3))
    >>> F.batch_norm(net.input("x", ("N", 3)), one, one, one, one).shape
    (N, 3)
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
            raise ShapeError(
                f"batch_norm: {shape_text(tensor.shape)} is not one value for each of {input.shape[1]} channels"
            )
    if any(tensor.data is None for tensor in given):
        return _computed(input, running_mean, running_var, weight, bias, eps)
    scale, shift = affine(running_mean, running_var, eps, weight, bias)
    choice, call = Choice("batch_norm", lowering, input), input.network.current_operation
    assert call is not None
    scaled = Scaled(call, input, given, scale, shift, 1, choice)
    if isinstance(input.node, Call):
        return scaled.tensor(input.shape, input.dtype, "batch_norm", input.scope)
    return scaled.lower()


def _why_not_folded(x: Tensor, within: Callable[[], Tensor] | str, **_: Any) -> str | None:
    return within if isinstance(within, str) else None


@way("batch_norm", "folded", "no layer: the weights of the convolution before it take it in", unless=_why_not_folded)
def _norm_in_weights(x: Tensor, within: Callable[[], Tensor], **_: Any) -> Tensor:
    return within()


@way("batch_norm", "scale", "IScaleLayer")
def _norm_as_scale(x: Tensor, statistics: Sequence[Tensor], by: tuple[Any, Any], **_: Any) -> Tensor:
    wide = L.shuffle(x, reshape=(*x.shape, *(1,) * (4 - x.ndim))) if x.ndim < 4 else x
    result = scaled_by(wide, statistics, *by)
    return L.shuffle(result, reshape=x.shape) if x.ndim < 4 else result


def _computed(x: Tensor, mean: Tensor, var: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    mean, scale = L.cast(mean, torch.float32), _reciprocal_root(L.cast(var, torch.float32), eps)
    if weight is not None:
        scale = binary(scale, weight, "PROD", torch.float32)
    centred = binary(L.cast(x, torch.float32), _channels(x, mean), "SUB", torch.float32)
    return L.cast(_weighed(binary(centred, _channels(x, scale), "PROD"), None, _channels(x, bias)), x.dtype)


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
    shape = weight if weight is not None else bias if bias is not None else None
    if shape is None:
        # In float32 one value for all channels takes the builder more launches than one for each; in half precision
        # it is the other way round (docs/benchmarks.md, "Lowerings").
        each = groups != 1 or (by_channel and x.dtype == torch.float32 and isinstance(x.shape[1], int))
        dims: tuple[int, ...] = tuple(int(x.shape[1]) if each and axis == 1 else 1 for axis in range(x.ndim))
    else:
        dims = tuple(int(size) for size in shape.shape)
    if weight is None:
        weight = x.network.constant(torch.ones(dims, dtype=x.dtype))
    if bias is None:
        bias = x.network.constant(torch.zeros(dims, dtype=x.dtype))
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

    >>> F.layer_norm(net.input("x", ("N", "T", 8)), (8,)).shape
    (N, T, 8)
    """
    axes = _last(input, normalized_shape)
    lead = range(len(axes) and axes[0])
    weight, bias = (None if value is None else L.unsqueeze(value, lead) for value in (weight, bias))
    return _normalized(input, axes, weight, bias, eps)


def _reciprocal_root(var: Tensor, eps: float) -> Tensor:
    """``1 / sqrt(var + eps)``."""
    return L.unary(L.unary(binary(var, eps, "SUM", var.dtype), "SQRT"), "RECIP")


def _standardized(x: Tensor, axes: Sequence[int], eps: float) -> Tensor:
    """``x`` with a mean of 0 and a variance of 1 over ``axes``, in float32."""
    mean, var = _moments(x, axes=axes)
    scale = _reciprocal_root(var, eps)
    return L.elementwise(L.elementwise(L.cast(x, torch.float32), mean, "SUB"), scale, "PROD")


def _weighed(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """``x * weight + bias``, as far as they are there."""
    x = x if weight is None else binary(x, weight, "PROD", x.dtype)
    return x if bias is None else binary(x, bias, "SUM", x.dtype)


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

    >>> F.group_norm(net.input("x", ("N", 6, "H", 4)), 3).shape
    (N, 6, H, 4)
    """
    if input.ndim < 2:
        raise ShapeError(f"group_norm takes (N, C, …), not {shape_text(input.shape)}")
    channels = input.shape[1]
    if not isinstance(channels, int) or channels % num_groups:
        raise ShapeError(f"{channels} channels do not divide into {num_groups} groups")
    return lowered("group_norm", lowering, input, groups=num_groups, weight=weight, bias=bias, eps=eps)


@way("group_norm", "layer", "INormalizationLayer")
def _groups_by_layer(x: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    if groups > 1 and x.ndim == 2:
        return L.squeeze(_groups_by_layer(L.unsqueeze(x, [2]), groups, weight, bias, eps), [2])
    scale, shift = _channels(x, weight), _channels(x, bias)
    if groups == 1:
        return _normalized(x, list(range(1, x.ndim)), scale, shift, eps)
    return _normalized(x, list(range(2, x.ndim)), scale, shift, eps, groups)


@way("group_norm", "rows", "the moments of each group as a row, in float32")
def _groups_as_rows(x: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    rows = (x.shape[0] * groups, x.shape[1] // groups * product(x.shape[2:]))
    result = L.shuffle(_standardized(L.shuffle(x, reshape=rows), [1], eps), reshape=x.shape)
    return _weighed(L.cast(result, x.dtype), _channels(x, weight), _channels(x, bias))


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

    >>> F.instance_norm(net.input("x", ("N", 3, "H", 4))).shape
    (N, 3, H, 4)
    """
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    if running_mean is not None or running_var is not None:
        raise UnsupportedError("instance_norm updates running statistics: leave them out, or use_input_stats=False")
    if input.ndim < 3:
        raise ShapeError(f"instance_norm takes (N, C, L, …), not {shape_text(input.shape)}")
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


def _why_not_blocks(x: Tensor, **_: Any) -> str | None:
    return "a row of one dimension has no parts" if x.ndim == 3 else None


@way("instance_norm", "blocks", "the moments of parts of each row, put together", unless=_why_not_blocks)
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
    """Every channel normalized by its own moments; ``weight`` and ``bias`` have the rank of ``x``."""
    each = (*x.shape[:2], *(1,) * (x.ndim - 2))
    scale = _reciprocal_root(var, eps)
    scale, mean = (L.shuffle(values, reshape=each) for values in (scale, mean))
    if weight is not None:
        scale = binary(scale, weight, "PROD", torch.float32)
    shift = L.elementwise(mean, scale, "PROD")
    scaled_input = L.elementwise(L.cast(x, torch.float32), scale, "PROD")
    if bias is not None:
        result = L.elementwise(scaled_input, binary(bias, shift, "SUB", torch.float32), "SUM")
    else:
        result = L.elementwise(scaled_input, shift, "SUB")
    return L.cast(result, x.dtype)


def _moments(rows: Tensor, variances: Tensor | None = None, axes: Sequence[int] = (1,)) -> tuple[Tensor, Tensor]:
    """The mean and the variance of each row of ``rows``, whose elements have ``variances`` of their own."""
    rows = L.cast(rows, torch.float32)
    mean = L.reduce(rows, "AVG", axes, True)
    centred = L.elementwise(rows, mean, "SUB")
    squares = L.elementwise(centred, centred, "PROD")
    if variances is not None:
        squares = L.elementwise(variances, squares, "SUM")
    return mean, L.reduce(squares, "AVG", axes, True)


@operation
def rms_norm(
    input: Tensor, normalized_shape: Sequence[SizeLike], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """``input / sqrt(mean(input ** 2) + eps) * weight`` over the last dimensions, which are ``normalized_shape``.

    IElementWiseLayer PROD, IReduceLayer AVG, IUnaryLayer SQRT and RECIP, in float32. ``eps`` is that of float32
    when None, also in half precision, as in torch.

    >>> F.rms_norm(net.input("x", ("N", "T", 8)), (8,)).shape
    (N, T, 8)
    """
    axes = _last(input, normalized_shape)
    small = torch.finfo(torch.float32).eps if eps is None else eps
    wide = L.cast(input, torch.float32)
    mean = L.reduce(L.elementwise(wide, wide, "PROD"), "AVG", axes, True)
    result = L.elementwise(wide, _reciprocal_root(mean, small), "PROD")
    return L.cast(result if weight is None else binary(result, weight, "PROD", torch.float32), input.dtype)


@operation
def normalize(input: Tensor, p: float = 2.0, dim: int | Sequence[int] = 1, eps: float = 1e-12) -> Tensor:
    """``input / max(norm, eps)`` over ``dim``: the layers of :func:`vector_norm`, IElementWiseLayer MAX and DIV.

    >>> F.normalize(net.input("x", ("N", 128))).shape
    (N, 128)
    """
    length = vector_norm(input, p, dim, keepdim=True)
    return L.elementwise(input, binary(length, eps, "MAX", input.dtype), "DIV")


@operation
def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """``input / (k + alpha * mean(input ** 2)) ** beta``, the mean over ``size`` neighbouring channels.

    IPoolingLayer AVERAGE over the channels, IElementWiseLayers.

    >>> F.local_response_norm(net.input("x", ("N", 6, 4, 4)), 3).shape
    (N, 6, 4, 4)
    """
    if not input.dtype.is_floating_point:
        raise UnsupportedError(
            f"local_response_norm pools, and TensorRT pools no integers: cast {input.dtype} to float32"
        )
    if input.ndim < 3:
        raise ShapeError(f"local_response_norm takes (N, C, L, …), not {shape_text(input.shape)}")
    squares = L.elementwise(input, input, "PROD")
    start, sizes = [0] * input.ndim, list(input.shape)
    start[1], sizes[1] = -(size // 2), input.shape[1] + (size - 1)
    padded = L.slice(squares, start, sizes, mode="FILL")
    batch, rest = input.shape[0], product(input.shape[2:])
    column = L.shuffle(padded, reshape=(batch, 1, sizes[1], rest))
    mean = L.shuffle(
        L.pooling(column, "AVERAGE", (size, 1), stride=(1, 1), pre_padding=(0, 0), post_padding=(0, 0)),
        reshape=input.shape,
    )
    divisor = binary(binary(scaled(mean, alpha), k, "SUM", mean.dtype), beta, "POW", mean.dtype)
    return L.elementwise(input, divisor, "DIV")
