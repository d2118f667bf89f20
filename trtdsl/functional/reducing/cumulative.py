"""Running sums, products and extremes along a dimension, and differences of neighbours."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from ...core.dtypes import as_dtype
from ..common import DefinitionError, L, Selected, ShapeError, Tensor, family, operation, prepared, size_max, torch
from ..operands import along, as_tensor, axis_of, doubled, floating, on_axis, stretch, with_dimension
from ..pointwise.arithmetic import logaddexp
from ..shaping.create import counted
from ..shaping.join import cat, part
from .reduction import summable


def _accumulated(compute: Callable[[Tensor, int], Tensor], input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    return with_dimension(summable(input, dtype), lambda x: compute(x, axis_of(dim, input.ndim)))


@prepared(_accumulated)
def cumsum(x: Tensor, axis: int) -> Tensor:
    """Sums of the elements up to each: ICumulativeLayer SUM; integers and bool as int64."""
    return L.cumulative(x, axis, "SUM")


@prepared(_accumulated)
def cumprod(x: Tensor, axis: int) -> Tensor:
    """Products of the elements up to each: ISliceLayer and IElementWiseLayer PROD for each power of two.

    Raises UnsupportedError for a dimension without an upper bound.
    """
    return _scan(x, axis, 1, operator.mul)


@operation
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """``log(cumsum(exp(input)))`` without overflow, as :func:`cumprod`, by :func:`logaddexp`."""
    return _scan(floating(input), dim, -math.inf, logaddexp)


def _scan(x: Tensor, dim: int, identity: float, combine: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Each element combined with all before it, in about log2(length) steps (Hillis and Steele, 1986)."""
    axis = axis_of(dim, x.ndim)
    if x.ndim == 0:
        return x
    fill = as_tensor(identity, x.network, as_dtype(x.dtype))
    for step in doubled(x.shape[axis]):
        x = combine(x, along(x, axis, -step, x.shape[axis], mode="FILL", fill=fill))
    return x


def _running_extreme(op: str, input: Tensor, dim: int) -> Selected:
    """Pairs of a value and its place, combined with those before: an earlier one stays where it is beyond the later."""
    axis = axis_of(dim, input.ndim)
    if input.ndim == 0:
        return Selected(input, input.network.constant(torch.tensor(0)))
    values = L.cast(input, torch.int32) if input.dtype == torch.bool else input
    length = input.shape[axis]
    places = stretch(on_axis(counted(input.network, length), axis, input.ndim), input.shape)
    for step in doubled(length):
        earlier, where = (along(x, axis, -step, length, mode="CLAMP") for x in (values, places))
        beyond = L.elementwise(earlier, values, op)
        if values.dtype.is_floating_point:
            number = ~L.unary(values, "ISNAN")
            beyond = (beyond | (L.unary(earlier, "ISNAN") & number)) & number
        values, places = L.select(beyond, earlier, values), L.select(beyond, where, places)
    return Selected(L.cast(values, input.dtype), places)


cummax, cummin = family(
    _running_extreme,
    """The {} element up to each, and where it is (the last of equal ones): as :func:`cumprod`.

    ISliceLayer, IElementWiseLayers and ISelectLayers for each power of two. NaN is taken before all, as in torch.

    Raises UnsupportedError for a dimension without an upper bound.
    """,
    cummax=("GREATER", "greatest"),
    cummin=("LESS", "least"),
)


@operation
def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """The differences of neighbours along ``dim``, ``n`` times: ISliceLayers and IElementWiseLayer SUB (XOR for bool).

    >>> F.diff(net.input("x", (2, "T"))).shape
    (2, T - 1)
    """
    if n < 0:
        raise DefinitionError(f"diff: n must not be negative, not {n}")
    if input.ndim == 0:
        raise ShapeError("diff takes a tensor of one dimension at least")
    axis = axis_of(dim, input.ndim)
    parts = [given for given in (prepend, input, append) if given is not None]
    x = cat(parts, axis) if len(parts) > 1 and n else input
    whole = x.shape[axis]
    for _ in range(min(n, whole) if isinstance(whole, int) else n):  # of nothing there are no differences
        length = size_max(x.shape[axis] - 1, 0)
        left, right = (part(x, axis, start, length) for start in (0, 1))
        x = L.elementwise(right, left, "XOR" if x.dtype == torch.bool else "SUB")
    return x


def _integral(
    total: Callable[[Tensor, int], Tensor], y: Tensor, x: Tensor | None = None, *, dx: float = 1, dim: int = -1
) -> Tensor:
    """``total`` of the areas below the pieces of a line, along their axis."""
    y = floating(y)
    axis = axis_of(dim, y.ndim)
    length = y.shape[axis] - 1
    heights = part(y, axis, 0, length) + part(y, axis, 1, length)
    if x is None:
        return total(heights * (dx / 2), axis)
    x = floating(x)
    if x.ndim == 1:
        x = on_axis(x, axis, y.ndim)
    areas = heights * diff(x, dim=axis - y.ndim) * 0.5
    return total(areas, axis + areas.ndim - y.ndim)


@prepared(_integral)
def trapezoid(areas: Tensor, axis: int) -> Tensor:
    """The area below the line through ``y`` at ``x``, or steps of ``dx``: ISliceLayers, IElementWiseLayers, a sum."""
    return L.reduce(areas, "SUM", [axis])


@prepared(_integral)
def cumulative_trapezoid(areas: Tensor, axis: int) -> Tensor:
    """The area below the line up to each point after the first: as :func:`trapezoid`, ICumulativeLayer."""
    return L.cumulative(areas, axis, "SUM")
