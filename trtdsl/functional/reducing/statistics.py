"""Variance, norms, the logarithm of a sum, order, quantiles and covariances."""

from __future__ import annotations

import math
from typing import Any

from ...core.dtypes import as_dtype
from ...core.errors import DefinitionError, ShapeError, UnsupportedError
from ...definition.methods import Dims
from ...definition.tensor import Selected, Tensor
from ...sizes.size import Size, SizeLike, product
from ..common import L, family, member, operation, require_floats, require_one_of, require_rank, shape_text, torch
from ..operands import along, as_tensor, as_vector, axes_of, axis_of, binary, choose, floating, on_axis, sum_in_float32
from ..pointwise.arithmetic import sub
from ..shaping.arrange import diagonal
from ..shaping.create import counted
from ..shaping.reshape import movedim, ravel
from .reduction import or_nan, reduce, top, with_axis

LIMIT = 3840  # of ITopKLayer


def _top(x: Tensor, k: SizeLike, dim: int, op: str) -> Selected:
    """The first ``k`` along a dimension, in order; a scalar is the only one."""
    axis = axis_of(dim, x.ndim)
    if k == 0 and x.ndim:
        return Selected(along(x, axis, 0, 0), along(L.cast(x, torch.int64), axis, 0, 0))
    if isinstance(k, int) and k > LIMIT:
        raise UnsupportedError(f"ITopKLayer sorts at most {LIMIT} elements, not {k}")
    return top(x, k, axis, op)


@operation
def topk(input: Tensor, k: SizeLike, dim: int = -1, largest: bool = True, sorted: bool = True) -> Selected:
    """The ``k`` greatest (or least) elements along ``dim``, in order, and their indices: ITopKLayer.

    They are sorted also when ``sorted`` is False, where torch promises no order. Of equal elements the first comes
    first.

    >>> values, indices = F.topk(net.input("x", ("N", 8)), 3)
    >>> values.shape, indices.dtype
    ((N, 3), torch.int64)
    """
    axis, op = axis_of(dim, input.ndim), "MAX" if largest else "MIN"
    if input.ndim == 0 or k == 0:
        return _top(input, k, dim, op)
    length = input.shape[axis]
    if isinstance(length, int) and isinstance(k, int) and not 0 < k <= length:
        raise ShapeError(f"topk: k = {k} is not between 0 and the {length} elements of dimension {axis}")
    input.network.constraints.inside(0, k, length, input.network.current_operation)
    return _top(input, k, axis, op)


@operation
def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = True) -> Selected:
    """All elements along ``dim`` in order, and where they were: ITopKLayer, which takes 3840 elements at most.

    Always stable: equal elements keep their order.
    """
    if input.ndim and input.numel() == 0:
        return Selected(input, L.cast(input, torch.int64))
    every = input.shape[axis_of(dim, input.ndim)] if input.ndim else 1
    return _top(input, every, dim, "MAX" if descending else "MIN")


@operation
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Where the elements were that :func:`sort` puts in order: ITopKLayer."""
    return sort(input, dim, descending, stable).indices


@operation
def msort(input: Tensor) -> Tensor:
    """:func:`sort` along dimension 0, values alone: ITopKLayer."""
    return sort(input, 0).values


@operation
def kthvalue(input: Tensor, k: SizeLike, dim: int = -1, keepdim: bool = False) -> Selected:
    """The ``k``-th least element along ``dim`` and where it is: ITopKLayer and ISliceLayer."""
    axis = axis_of(dim, input.ndim)
    if input.ndim == 0:
        return top(input, 1, 0, "MIN")
    input.network.constraints.inside(k - 1, 1, input.shape[axis], input.network.current_operation)
    return with_axis((along(x, axis, k - 1, 1) for x in _top(input, k, axis, "MIN")), axis, keepdim)


@operation
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor | Selected:
    """The lower median of all elements, or (values, indices) along ``dim``: ITopKLayer and ISliceLayer.

    A row with NaN gives NaN and where the first is: IUnaryLayer ISNAN, ISelectLayers, IReduceLayer SUM, ITopKLayer.
    """
    if dim is None:
        return median(ravel(input), 0).values  # type: ignore[union-attr]
    axis = axis_of(dim, input.ndim)
    if input.ndim == 0:
        return top(input, 1, 0, "MIN")
    length = input.shape[axis]
    if length == 0:
        raise ShapeError(f"there is no median of no elements: dimension {axis} of {shape_text(input.shape)}")
    middle = (length - 1) // 2
    values, indices = (along(x, axis, middle, 1) for x in _top(input, middle + 1, axis, "MIN"))
    values = or_nan(values, input, axis)
    if input.dtype.is_floating_point:
        first = _top(L.cast(L.unary(input, "ISNAN"), torch.int32), 1, axis, "MAX").indices
        indices = L.select(L.unary(values, "ISNAN"), first, indices)
    return with_axis((values, indices), axis, keepdim)


@operation
def one_hot(tensor: Tensor, num_classes: SizeLike = -1) -> Tensor:
    """1 at the class that ``tensor`` names along a new last dimension, 0 elsewhere, as int64: IOneHotLayer.

    A dynamic number of classes takes IFillLayer and IElementWiseLayer EQUAL instead. ``num_classes=-1`` is refused: the
    size would depend on data.
    """
    if tensor.dtype.is_floating_point or tensor.dtype == torch.bool:
        raise DefinitionError(f"one_hot takes integers, not {tensor.dtype}")
    if isinstance(num_classes, Size):
        return L.cast(L.unsqueeze(tensor, [tensor.ndim]) == counted(tensor.network, num_classes), torch.int64)
    if num_classes < 1:
        if num_classes == -1 and tensor.is_constant and tensor.data.numel():
            num_classes = int(tensor.data.max()) + 1
        else:
            raise UnsupportedError("one_hot(num_classes=-1) has a size that depends on data: give num_classes")
    values = tensor.network.constant(torch.tensor([0, 1], dtype=torch.int32))
    return L.cast(L.one_hot(L.cast(tensor, torch.int32), values, num_classes), torch.int64)


def _moments(
    how: tuple[bool, bool],
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Any:
    """The variance, or its root, and perhaps the mean; torch's older form has ``unbiased`` in the place of ``dim``."""
    root, with_mean = how
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        raise UnsupportedError("var: give unbiased or correction, not both")
    require_floats("the variance is of", input)
    less = correction if correction is not None else 1 if unbiased is None else int(unbiased)
    axes = axes_of(dim, input.ndim)
    wide = L.cast(input, torch.float32)
    mean = reduce(wide, "AVG", axes, True)
    centred = wide - mean
    if less == 0 and axes:
        variance = L.reduce(centred * centred, "AVG", axes, True)
    else:
        number = as_tensor(product(input.shape[axis] for axis in axes), input.network, wide.dtype)
        divisor = binary(number - float(less), 0.0, "MAX")
        variance = reduce(centred * centred, "SUM", axes, True) / divisor
    variance = L.unary(variance, "SQRT") if root else variance
    results = (variance, mean) if with_mean else (variance,)
    found = tuple(L.cast(x if keepdim or not axes else L.squeeze(x, axes), input.dtype) for x in results)
    return found if with_mean else found[0]


@member(_moments, (False, False))
def var():
    """The variance over ``dim`` (all dimensions when None): the squares over their number less ``correction`` (1).

    IReduceLayer AVG, IElementWiseLayer SUB and PROD, IReduceLayer SUM, IElementWiseLayer DIV; AVG alone without
    correction.
    """


std, var_mean, std_mean = family(
    _moments,
    std=((True, False), "The square root of the variance: the layers of :func:`var`, IUnaryLayer SQRT."),
    var_mean=((False, True), "The variance and the mean, as :func:`var`."),
    std_mean=((True, True), "The standard deviation and the mean, as :func:`std`."),
)


@operation
def norm(input: Tensor, p: Any = "fro", dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """The ``p``-norm of vectors (``"fro"`` is 2) over ``dim``; as :func:`vector_norm`, which it is made of."""
    if p == "nuc":
        raise UnsupportedError("the nuclear norm needs a singular value decomposition, which TensorRT does not have")
    if isinstance(p, str) and p != "fro":
        raise UnsupportedError(f"norm: p is a number or 'fro', not {p!r}")
    return vector_norm(input, 2 if p is None or p == "fro" else p, dim, keepdim, dtype=dtype)


@operation
def vector_norm(x: Tensor, ord: float = 2, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """``sum(|x| ** ord) ** (1 / ord)`` over ``dim``.

    The greatest or least ``|x|`` for an infinite ``ord``, and how many are not 0 for 0.

    IElementWiseLayer PROD, IReduceLayer SUM and IUnaryLayer SQRT for 2, otherwise IUnaryLayer ABS, IElementWiseLayer
    POW. Half precision is summed in float32.
    """
    x = x.abs() if x.dtype.is_complex else x
    require_floats("a norm is of", x)
    x = x if dtype is None else L.cast(x, as_dtype(dtype))
    wide = L.cast(x, torch.float32)
    if ord == 2:
        result = L.unary(reduce(wide * wide, "SUM", dim, keepdim), "SQRT")
    elif ord == 0:
        result = reduce(L.cast(L.cast(wide, torch.bool), torch.float32), "SUM", dim, keepdim)
    elif ord in (1, math.inf, -math.inf):
        result = reduce(abs(wide), "SUM" if ord == 1 else "MAX" if ord > 0 else "MIN", dim, keepdim)
    else:
        powers = binary(abs(wide), float(ord), "POW")
        result = binary(reduce(powers, "SUM", dim, keepdim), 1 / ord, "POW")
    return L.cast(result, x.dtype)


@operation
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The ``p``-norm of ``input - other``: IElementWiseLayer SUB and the layers of :func:`vector_norm`."""
    return vector_norm(sub(input, other), p)


@operation
def logsumexp(input: Tensor, dim: Dims, keepdim: bool = False) -> Tensor:
    """``log(sum(exp(input)))`` over ``dim`` without overflow.

    The greatest element is subtracted first and added at the end.

    IReduceLayer MAX and SUM, IUnaryLayer EXP and LOG, IElementWiseLayer SUB and SUM; ISelectLayer for infinite
    extremes.
    """
    x = floating(input)
    return sum_in_float32(lambda x: _log_of_sum(x, dim, keepdim), x, axes_of(dim, x.ndim))


def _log_of_sum(x: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    axes = axes_of(dim, x.ndim)
    if not axes:
        return x
    if any(x.shape[axis] == 0 for axis in axes):
        return L.unary(L.reduce(L.unary(x, "EXP"), "SUM", axes, keepdim), "LOG")
    greatest = L.reduce(x, "MAX", axes, True)
    greatest = choose(L.unary(greatest, "ISINF"), 0, greatest, x.dtype)
    total = L.reduce(L.unary(x - greatest, "EXP"), "SUM", axes, True)
    result = L.unary(total, "LOG") + greatest
    return result if keepdim else L.squeeze(result, axes)


@operation
def quantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The ``q`` quantile (a number, or a vector of them in front) of all elements, or along ``dim``.

    ITopKLayer, which sorts 3840 elements at most, IGatherLayers and IElementWiseLayers; for rows with NaN, which give
    NaN, IUnaryLayer ISNAN, ISelectLayer and IReduceLayer SUM.

    Raises UnsupportedError for a ``q`` that is computed.
    """
    known = ("linear", "lower", "higher", "nearest", "midpoint")
    require_one_of("quantile: interpolation", interpolation, known)
    fractions = as_tensor(q, input.network)
    if not fractions.is_constant:
        raise UnsupportedError("quantile: q must be a number or a constant, not computed when the network runs")
    if fractions.ndim > 1 or bool(((fractions.data < 0) | (fractions.data > 1)).any()):
        raise DefinitionError("quantile: q is a number from 0 to 1, or a vector of them")
    whole = dim is None or input.ndim == 0
    x, axis = (ravel(input), 0) if whole else (input, axis_of(dim or 0, input.ndim))
    flat = L.cast(as_vector(fractions), torch.float32)
    places = flat * (as_tensor(x.shape[axis], x.network, torch.float32) - 1.0)
    found = or_nan(_between(sort(x, axis).values, places, axis, interpolation), x, axis)
    found = movedim(found, axis, 0)
    if keepdim:
        rest = [1 if whole or other == axis else size for other, size in enumerate(input.shape)]
        found = L.shuffle(found, reshape=(found.shape[0], *rest))
    return found if fractions.ndim else L.squeeze(found, [0])


def _between(ordered: Tensor, places: Tensor, axis: int, interpolation: str) -> Tensor:
    """Elements at fractional places of an axis."""
    if interpolation == "nearest":
        return L.gather(ordered, L.cast(L.unary(places, "ROUND"), torch.int64), axis)
    low, high = L.unary(places, "FLOOR"), L.unary(places, "CEIL")
    below, above = (L.gather(ordered, L.cast(place, torch.int64), axis) for place in (low, high))
    if interpolation in ("lower", "higher"):
        return below if interpolation == "lower" else above
    rise = above - below
    if interpolation == "midpoint":
        return below + rise * 0.5
    return below + rise * L.cast(on_axis(places - low, axis, rise.ndim), rise.dtype)


@operation
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """The covariances of the rows of a matrix, the variance of a vector: IReduceLayer AVG, IMatrixMultiplyLayer.

    Each column counts ``fweights`` times, with a weight of ``aweights``: IElementWiseLayer PROD and IReduceLayer SUM.
    """
    require_rank(input, "cov takes a matrix or a vector", 0, 2)
    x = floating(input if input.ndim == 2 else L.shuffle(input, reshape=(1, input.numel())))
    if fweights is None and aweights is None:
        centred = x - L.reduce(x, "AVG", [1], True)
        products = L.matrix_multiply(centred, centred, op_b="TRANSPOSE")
        number = as_tensor(x.shape[1] - correction, x.network, x.dtype)
    else:
        weights, *further = (L.cast(part, x.dtype) for part in (fweights, aweights) if part is not None)
        weights = weights * further[0] if further else weights
        total = L.reduce(weights, "SUM", [0])
        centred = x - L.reduce(x * weights, "SUM", [1], True) / total
        products = L.matrix_multiply(centred * weights, centred, op_b="TRANSPOSE")
        less: Any = float(correction)
        if aweights is not None and correction:
            less = L.reduce(weights * L.cast(aweights, x.dtype), "SUM", [0]) / total * less
        number = total - less
    found = products / binary(number, 0.0, "MAX", x.dtype)
    return L.squeeze(found, [0, 1]) if x.shape[0] == 1 else found


@operation
def corrcoef(input: Tensor) -> Tensor:
    """The correlations of the rows of a matrix, between -1 and 1: the layers of :func:`cov`, IElementWiseLayers."""
    found = cov(input)
    if found.ndim == 0:
        return found / found
    deviation = L.unary(diagonal(found), "SQRT")
    for axis in (0, 1):
        found = found / L.unsqueeze(deviation, [axis])
    return binary(binary(found, -1.0, "MAX", found.dtype), 1.0, "MIN", found.dtype)


@operation
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """The parts of ``dim`` whose ``p``-norm is over ``maxnorm``, shortened to it: the layers of :func:`vector_norm`."""
    axis = axis_of(dim, input.ndim)
    others = [other for other in range(input.ndim) if other != axis]
    if not others:
        raise ShapeError(f"renorm takes two dimensions at least, not {shape_text(input.shape)}")
    length = vector_norm(input, p, others, True)
    return input * binary(maxnorm / (length + 1e-7), 1.0, "MIN", length.dtype)
