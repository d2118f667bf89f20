"""Variance, norms, the logarithm of a sum, quantiles and covariances."""

from __future__ import annotations

import math
from typing import Any

from ...definition.methods import Dims
from ..common import (
    DefinitionError,
    L,
    ShapeError,
    Tensor,
    UnsupportedError,
    as_dtype,
    operation,
    product,
    shape_text,
    torch,
)
from ..family import family
from ..operands import as_tensor, axes_of, axis_of, binary, choose, floating, on_axis, promote, sum_in_float32
from ..shaping.arrange import diagonal
from .reduction import _reduce, or_nan
from .sort import sort


def _spread(
    root: bool,
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    return _moments(root, input, dim, unbiased, keepdim, correction=correction)[0]


var, std = family(
    _spread,
    var=(
        False,
        """The variance over ``dim`` (all dimensions when None): the squares over their number less ``correction`` (1).

        IReduceLayer AVG, IElementWiseLayer SUB and PROD, IReduceLayer SUM, IElementWiseLayer DIV; AVG alone without
        correction.

        >>> F.var(net.input("x", (2, "T", 4)), dim=1, correction=0).shape
        (2, 4)
        """,
    ),
    std=(
        True,
        """The square root of the variance: the layers of :func:`var`, IUnaryLayer SQRT.

        >>> F.std(net.input("x", (2, "T", 4)), dim=(0, 2), keepdim=True).shape
        (1, T, 1)
        """,
    ),
)


def _moments(
    root: bool,
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Variance, or its ``root``, and mean; torch's older form has ``unbiased`` in the place of ``dim``."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        raise UnsupportedError("var: give unbiased or correction, not both")
    if not input.dtype.is_floating_point:
        raise UnsupportedError(f"the variance of {input.dtype}: as in torch, cast to a floating-point dtype first")
    less = correction if correction is not None else 1 if unbiased is None else int(unbiased)
    axes = axes_of(dim, input.ndim)
    wide = L.cast(input, torch.float32)
    mean = L.reduce(wide, "AVG", axes, True) if axes else wide
    centred = L.elementwise(wide, mean, "SUB")
    squares = L.elementwise(centred, centred, "PROD")
    if less == 0 and axes:
        variance = L.reduce(squares, "AVG", axes, True)
    else:
        total = L.reduce(squares, "SUM", axes, True) if axes else squares
        number = product(input.shape[axis] for axis in axes)
        if isinstance(number, int):
            divisor: Any = float(max(number - less, 0))
        else:
            divisor = binary(binary(as_tensor(number, input.network, wide.dtype), less, "SUB", wide.dtype), 0.0, "MAX")
        variance = binary(total, divisor, "DIV", wide.dtype)
    variance = L.unary(variance, "SQRT") if root else variance
    results = [value if keepdim or not axes else L.squeeze(value, axes) for value in (variance, mean)]
    return L.cast(results[0], input.dtype), L.cast(results[1], input.dtype)


var_mean, std_mean = family(
    _moments,
    var_mean=(
        False,
        """The variance and the mean, as :func:`var`.

        >>> F.var_mean(net.input("x", (2, 3)), dim=1)[1].shape
        (2,)
        """,
    ),
    std_mean=(
        True,
        """The standard deviation and the mean, as :func:`std`.

        >>> F.std_mean(net.input("x", (2, 3)), dim=1)[0].shape
        (2,)
        """,
    ),
)


# -- norms -------------------------------------------------------------------------------------------------------------


@operation
def norm(input: Tensor, p: Any = "fro", dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """The ``p``-norm of vectors (``"fro"`` is 2) over ``dim``; as :func:`vector_norm`, which it is made of.

    >>> F.norm(net.input("x", ("N", 3)), p=2, dim=1, keepdim=True).shape
    (N, 1)
    """
    if p == "nuc":
        raise UnsupportedError("the nuclear norm needs a singular value decomposition, which TensorRT does not have")
    if isinstance(p, str) and p != "fro":
        raise UnsupportedError(f"norm: p is a number or 'fro', not {p!r}")
    order = 2 if p is None or p == "fro" else p
    return vector_norm(input, order, None if dim is None else dim, keepdim, dtype=dtype)


@operation
def vector_norm(x: Tensor, ord: float = 2, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """``sum(|x| ** ord) ** (1 / ord)`` over ``dim``.

    The greatest or least ``|x|`` for an infinite ``ord``, and how many are not 0 for 0.

    IElementWiseLayer PROD, IReduceLayer SUM and IUnaryLayer SQRT for 2, otherwise IUnaryLayer ABS, IElementWiseLayer
    POW. Half precision is summed in float32.

    >>> F.vector_norm(net.input("x", ("N", 3)), dim=1).shape
    (N,)
    """
    if not x.dtype.is_floating_point:
        raise UnsupportedError(f"vector_norm of {x.dtype}: as in torch, cast to a floating-point dtype first")
    x = x if dtype is None else L.cast(x, as_dtype(dtype))
    wide = L.cast(x, torch.float32)
    if ord == 2:
        result = L.unary(_reduce(L.elementwise(wide, wide, "PROD"), "SUM", dim, keepdim), "SQRT")
    elif ord == 0:
        result = _reduce(L.cast(L.cast(wide, torch.bool), torch.float32), "SUM", dim, keepdim)
    elif math.isinf(ord):
        result = _reduce(L.unary(wide, "ABS"), "MAX" if ord > 0 else "MIN", dim, keepdim)
    elif ord == 1:
        result = _reduce(L.unary(wide, "ABS"), "SUM", dim, keepdim)
    else:
        powers = binary(L.unary(wide, "ABS"), float(ord), "POW")
        result = binary(_reduce(powers, "SUM", dim, keepdim), 1 / ord, "POW")
    return L.cast(result, x.dtype)


@operation
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The ``p``-norm of ``input - other``: IElementWiseLayer SUB and the layers of :func:`vector_norm`.

    >>> F.dist(net.input("x", (2, 3)), net.input("y", (3,))).shape
    ()
    """
    return vector_norm(binary(input, other, "SUB"), p)


@operation
def logsumexp(input: Tensor, dim: Dims, keepdim: bool = False) -> Tensor:
    """``log(sum(exp(input)))`` over ``dim`` without overflow.

    The greatest element is subtracted first and added at the end.

    IReduceLayer MAX and SUM, IUnaryLayer EXP and LOG, IElementWiseLayer SUB and SUM; ISelectLayer for infinite
    extremes.

    >>> F.logsumexp(net.input("x", (2, 3)), 1).shape
    (2,)
    """
    x = floating(input)
    return sum_in_float32(lambda x: _log_of_sum(x, dim, keepdim), x, axes_of(dim, x.ndim))


def _log_of_sum(x: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    axes = axes_of(dim, x.ndim)
    if not axes:
        return x
    empty = any(x.shape[axis] == 0 for axis in axes)
    if empty:
        return L.unary(L.reduce(L.unary(x, "EXP"), "SUM", axes, keepdim), "LOG")
    greatest = L.reduce(x, "MAX", axes, True)
    greatest = choose(L.unary(greatest, "ISINF"), 0, greatest, x.dtype)
    powers = L.unary(L.elementwise(x, greatest, "SUB"), "EXP")
    total = L.unary(L.reduce(powers, "SUM", axes, True), "LOG")
    result = L.elementwise(*promote(total, greatest), op="SUM")
    return result if keepdim else L.squeeze(result, axes)


# -- quantiles and covariances -----------------------------------------------------------------------------------------


INTERPOLATIONS = ("linear", "lower", "higher", "nearest", "midpoint")


@operation
def quantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The ``q`` quantile (a number, or a vector of them in front) of all elements, or along ``dim``.

    ITopKLayer, which sorts 3840 elements at most, IGatherLayers and IElementWiseLayers; for rows with NaN, which give
    NaN, IUnaryLayer ISNAN, ISelectLayer and IReduceLayer SUM.

    Raises UnsupportedError for a ``q`` that is computed.

    >>> F.quantile(net.input("x", ("N", 9)), 0.5, dim=1).shape
    (N,)
    """
    if interpolation not in INTERPOLATIONS:
        raise DefinitionError(f"quantile: interpolation is one of {', '.join(INTERPOLATIONS)}, not {interpolation!r}")
    fractions = as_tensor(q, input.network)
    if not fractions.is_constant:
        raise UnsupportedError("quantile: q must be a number or a constant, not computed when the network runs")
    if fractions.ndim > 1 or bool(((fractions.data < 0) | (fractions.data > 1)).any()):
        raise DefinitionError("quantile: q is a number from 0 to 1, or a vector of them")
    if input.ndim == 0:
        x, axis = L.unsqueeze(input, [0]), 0
    elif dim is None:
        x, axis = L.shuffle(input, reshape=(input.numel(),)), 0
    else:
        x, axis = input, axis_of(dim, input.ndim)
    ordered = sort(x, axis).values
    flat = L.cast(fractions if fractions.ndim else L.unsqueeze(fractions, [0]), torch.float32)
    places = binary(flat, binary(as_tensor(x.shape[axis], x.network, torch.float32), 1.0, "SUB"), "PROD")
    found = or_nan(_between(ordered, places, axis, interpolation), x, axis)
    found = L.shuffle(found, [axis, *(other for other in range(found.ndim) if other != axis)])
    if keepdim:
        rest = (
            (1,) * input.ndim
            if dim is None or input.ndim == 0
            else tuple(1 if other == axis else size for other, size in enumerate(input.shape))
        )
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
    weight = binary(places, low, "SUB") if interpolation == "linear" else None
    rise = binary(above, below, "SUB")
    if weight is None:
        return binary(below, binary(rise, 0.5, "PROD", rise.dtype), "SUM")
    return binary(below, binary(rise, L.cast(on_axis(weight, axis, rise.ndim), rise.dtype), "PROD"), "SUM")


@operation
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """The covariances of the rows of a matrix, the variance of a vector: IReduceLayer AVG, IMatrixMultiplyLayer.

    Each column counts ``fweights`` times, with a weight of ``aweights``: IElementWiseLayer PROD and IReduceLayer SUM.

    >>> F.cov(net.input("x", (3, "T"))).shape
    (3, 3)
    """
    if input.ndim > 2:
        raise ShapeError(f"cov takes a matrix or a vector, not {shape_text(input.shape)}")
    x = input if input.ndim == 2 else L.shuffle(input, reshape=(1, input.numel()))
    x = x if x.dtype.is_floating_point else L.cast(x, torch.float32)
    if fweights is None and aweights is None:
        centred = L.elementwise(x, L.reduce(x, "AVG", [1], True), "SUB")
        products = L.matrix_multiply(centred, centred, op_b="TRANSPOSE")
        number = as_tensor(x.shape[1] - correction, x.network, x.dtype)
    else:
        given = [L.cast(part, x.dtype) for part in (fweights, aweights) if part is not None]
        weights = given[0] if len(given) == 1 else L.elementwise(*given, op="PROD")
        total = L.reduce(weights, "SUM", [0])
        mean = binary(L.reduce(binary(x, weights, "PROD"), "SUM", [1], True), total, "DIV")
        centred = L.elementwise(x, mean, "SUB")
        products = L.matrix_multiply(binary(centred, weights, "PROD"), centred, op_b="TRANSPOSE")
        less = as_tensor(float(correction), x.network, x.dtype)
        if aweights is not None and correction:
            squares = L.reduce(binary(weights, L.cast(aweights, x.dtype), "PROD"), "SUM", [0])
            less = binary(binary(squares, total, "DIV"), less, "PROD")
        number = binary(total, less, "SUB")
    found = binary(products, binary(number, 0.0, "MAX", x.dtype), "DIV", x.dtype)
    return L.squeeze(found, [0, 1]) if x.shape[0] == 1 else found


@operation
def corrcoef(input: Tensor) -> Tensor:
    """The correlations of the rows of a matrix, between -1 and 1: the layers of :func:`cov`, IElementWiseLayers.

    >>> F.corrcoef(net.input("x", (3, "T"))).shape
    (3, 3)
    """
    found = cov(input)
    if found.ndim == 0:
        return L.elementwise(found, found, "DIV")
    deviation = L.unary(diagonal(found), "SQRT")
    for axis in (0, 1):
        found = L.elementwise(found, L.unsqueeze(deviation, [axis]), "DIV")
    return binary(binary(found, -1.0, "MAX", found.dtype), 1.0, "MIN", found.dtype)


@operation
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """The parts of ``dim`` whose ``p``-norm is above ``maxnorm``, shortened to it: the layers of :func:`vector_norm`.

    >>> F.renorm(net.input("x", ("N", 3)), 2, 0, 1.0).shape
    (N, 3)
    """
    axis = axis_of(dim, input.ndim)
    others = [other for other in range(input.ndim) if other != axis]
    if not others:
        raise ShapeError(f"renorm takes two dimensions at least, not {shape_text(input.shape)}")
    length = vector_norm(input, p, others, True)
    factor = binary(maxnorm, binary(length, 1e-7, "SUM", length.dtype), "DIV", length.dtype)
    return binary(input, binary(factor, 1.0, "MIN", factor.dtype), "PROD")
