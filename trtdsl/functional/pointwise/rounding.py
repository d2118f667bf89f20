"""Rounding, element by element."""

from __future__ import annotations

from collections.abc import Callable

from ..common import L, Tensor, operation
from ..family import family
from ..operands import choose, numeric


def truncated(x: Tensor) -> Tensor:
    """A floating-point Tensor rounded towards zero."""
    return choose(x < 0, L.unary(x, "CEIL"), L.unary(x, "FLOOR"))


def _rounded(compute: Callable[[Tensor], Tensor], input: Tensor) -> Tensor:
    x = numeric(input)
    return compute(x) if x.dtype.is_floating_point else x


ceil, floor, trunc = family(
    _rounded,
    "Rounded {}; integers are themselves.",
    ceil=(lambda x: L.unary(x, "CEIL"), "up: IUnaryLayer CEIL"),
    floor=(lambda x: L.unary(x, "FLOOR"), "down: IUnaryLayer FLOOR"),
    trunc=(truncated, "towards zero: IUnaryLayer FLOOR, CEIL and ISelectLayer"),
)


@operation
def frac(input: Tensor) -> Tensor:
    """``input - trunc(input)``: the layers of :func:`trunc` and IElementWiseLayer SUB."""
    return input - truncated(input)


@operation
def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """Rounded to ``decimals`` places, halves to even: IUnaryLayer ROUND between two scalings; integers as they are."""
    x = numeric(input)
    if not x.dtype.is_floating_point:
        return x
    if decimals == 0:
        return L.unary(x, "ROUND")
    power = 10.0 ** (decimals if decimals > 0 else -decimals)
    return L.unary(x * power, "ROUND") / power if decimals > 0 else L.unary(x / power, "ROUND") * power
