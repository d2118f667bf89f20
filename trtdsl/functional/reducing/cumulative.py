"""Running sums, products and extremes along a dimension."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ... import layers as L
from ...core.dtypes import as_dtype
from ...core.errors import UnsupportedError
from ...definition.operation import operation
from ...definition.shape import INFINITY, bounds
from ...definition.tensor import Tensor
from ..operands import as_tensor, axis_of, floating, with_dimension
from ..pointwise.arithmetic import logaddexp
from .reduction import _summable


@operation
def cumsum(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Sums of the elements up to each: ICumulativeLayer SUM; integers and bool as int64.

    >>> F.cumsum(td.Network().input("x", (2, 3)), 1).shape
    (2, 3)
    """
    axis = axis_of(dim, input.ndim)
    return with_dimension(_summable(input, dtype), lambda x: L.cumulative(x, axis, "SUM"))


@operation
def cumprod(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Products of the elements up to each, by doubling strides.

    ISliceLayer and IElementWiseLayer PROD for each power of two.

    Raises UnsupportedError for a dimension without an upper bound.

    >>> F.cumprod(td.Network().input("x", (2, 5)), 1).shape
    (2, 5)
    """
    return _scan(_summable(input, dtype), dim, 1, lambda a, b: L.elementwise(a, b, "PROD"))


@operation
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """``log(cumsum(exp(input)))`` without overflow, as :func:`cumprod`, by :func:`logaddexp`.

    >>> F.logcumsumexp(td.Network().input("x", (2, 5)), 1).shape
    (2, 5)
    """
    return _scan(floating(input), dim, -math.inf, logaddexp)


def _scan(x: Tensor, dim: int, identity: float, combine: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Each element combined with all before it, in about log2(length) steps (Hillis and Steele, 1986)."""
    axis = axis_of(dim, x.ndim)
    if x.ndim == 0:
        return x
    longest = bounds(x.shape[axis])[1]
    if longest >= INFINITY:
        raise UnsupportedError(
            f"the dimension {x.shape[axis]} has no upper bound, which says how many steps are needed: "
            "give the Dim a max"
        )
    fill = as_tensor(identity, x.network, as_dtype(x.dtype))
    step = 1
    while step < longest:
        start = [-step if other == axis else 0 for other in range(x.ndim)]
        x = combine(x, L.slice(x, start, x.shape, mode="FILL", fill=fill))
        step *= 2
    return x
