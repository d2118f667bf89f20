"""Statistics that need an order, and covariances."""

from __future__ import annotations

from typing import Any

from ..common import DefinitionError, L, ShapeError, Tensor, UnsupportedError, operation, shape_text, torch
from ..operands import as_tensor, axis_of, binary, on_axis
from .reduction import or_nan
from .sort import sort
from .statistics import vector_norm

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
    if input.ndim < 2:
        return binary(cov(input), cov(input), "DIV")
    x = input if input.dtype.is_floating_point else L.cast(input, torch.float32)
    centred = L.elementwise(x, L.reduce(x, "AVG", [1], True), "SUB")
    unit = L.elementwise(centred, vector_norm(centred, 2, 1, True), "DIV")
    found = L.matrix_multiply(unit, unit, op_b="TRANSPOSE")
    found = binary(binary(found, -1.0, "MAX", x.dtype), 1.0, "MIN", x.dtype)
    return L.squeeze(found, [0, 1]) if x.shape[0] == 1 else found


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
