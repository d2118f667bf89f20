"""Rounding, element by element; the whole part of a quotient and what it leaves over, without an error of rounding."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..common import L, Tensor, family, operation, torch
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


# -- quotients ---------------------------------------------------------------------------------------------------------


DIGIT = 4096  # base of a quotient's digits: a digit times half of a float32's 24 bits has at most 24 bits


def floor_quotient(a: Tensor, b: Tensor) -> Tensor:
    """``floor(a / b)`` of the exact quotient of two floats; the IEEE quotient where ``b`` is 0."""
    whole, rest = _whole_and_rest(a, b)
    apart = _signs_differ(a, b)
    whole = L.select(apart & (rest > 0), whole + 1, whole)
    whole = L.cast(L.select(apart, -whole, whole), a.dtype)
    return whole if b.is_constant and bool(b.data.all()) else L.select(b == 0, a / b, whole)


def floor_rest(a: Tensor, b: Tensor) -> Tensor:
    """``a - b * floor(a / b)`` of two floats, with the sign of ``b``; rounded once."""
    rest = truncated_rest(a, b)
    return L.select(_signs_differ(rest, b) & ~(rest == 0), rest + b, rest)


def truncated_rest(a: Tensor, b: Tensor) -> Tensor:
    """``a - b * trunc(a / b)`` of two floats, with the sign of ``a``, which is C's ``fmod``."""
    _, rest = _whole_and_rest(a, b, rest_alone=True)
    return L.cast(L.select(a < 0, -rest, rest), a.dtype)


def is_power_of_two(b: Tensor) -> bool:
    """Whether it is one constant power of two, by which a quotient is exact (if it is no subnormal number)."""
    if not b.is_constant or not b.data.numel() or not bool((b.data == b.data.flatten()[0]).all()):
        return False
    return abs(math.frexp(float(b.data.flatten()[0]))[0]) == 0.5


def _signs_differ(a: Tensor, b: Tensor) -> Tensor:
    return (a < 0) ^ (b < 0)


def _whole_and_rest(a: Tensor, b: Tensor, *, rest_alone: bool = False) -> tuple[Tensor, Tensor]:
    """``floor(|a| / |b|)`` and ``|a| - |b| * floor(|a| / |b|)`` in float32; with ``rest_alone`` the rest alone.

    A rounded quotient is one too large where the exact one lies just below a whole number: 1.0 / 0.1 rounds to 10. So
    the quotient is taken in two digits of 12 bits, the greater first, and each digit times the divisor is subtracted in
    two parts, the upper and the lower 12 bits of the divisor. All these products and differences are exact, and hence
    the same where a compiler fuses a product with a sum. In the end the rest is compared with 0 and with the divisor.
    """
    a, b = (L.unary(L.cast(x, torch.float32), "ABS") for x in (a, b))
    upper = (b - (b - b * (1 / DIGIT))) * DIGIT
    lower = b - upper

    def without(rest: Tensor, digit: Tensor) -> Tensor:
        return rest - digit * upper - digit * lower

    first = L.unary(a / b * (1 / DIGIT), "FLOOR") * DIGIT
    rest = without(a, first)
    second = L.elementwise(rest, b, "FLOOR_DIV")
    rest = without(rest, second)

    below = rest < 0
    least = L.select(below, rest + b, rest)
    above = ~(least < b)
    less = a < b  # than an infinite divisor too
    rest = L.select(less, a, L.select(above, least - b, least))
    if rest_alone:
        return first, rest
    second = L.select(below, second - 1, second)
    second = L.select(above, second + 1, second)
    return choose(less, 0, first + second, torch.float32), rest
