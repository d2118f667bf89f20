"""The whole part of a quotient of floats and what it leaves over, without an error of rounding."""

from __future__ import annotations

import math

from ..common import L, Tensor, torch
from ..operands import binary, choose
from .rounding import truncated

DIGIT = 4096  # base of a quotient's digits: a digit times half of a float32's 24 bits has at most 24 bits


def floor_quotient(a: Tensor, b: Tensor) -> Tensor:
    """``floor(a / b)`` of the exact quotient of two floats; the IEEE quotient where ``b`` is 0."""
    if is_power_of_two(b):
        return L.elementwise(a, b, "FLOOR_DIV")
    whole, rest = _whole_and_rest(a, b)
    apart = _signs_differ(a, b)
    up = L.elementwise(apart, binary(rest, 0, "GREATER", rest.dtype), "AND")
    whole = L.select(up, binary(whole, 1, "SUM", whole.dtype), whole)
    whole = L.cast(L.select(apart, L.unary(whole, "NEG"), whole), a.dtype)
    if b.is_constant and bool(b.data.all()):
        return whole
    return L.select(binary(b, 0, "EQUAL", b.dtype), L.elementwise(a, b, "DIV"), whole)


def floor_rest(a: Tensor, b: Tensor) -> Tensor:
    """``a - b * floor(a / b)`` of two floats, with the sign of ``b``; rounded once."""
    if is_power_of_two(b):
        return L.elementwise(a, L.elementwise(b, L.elementwise(a, b, "FLOOR_DIV"), "PROD"), "SUB")
    rest = truncated_rest(a, b)
    up = L.elementwise(_signs_differ(rest, b), L.unary(binary(rest, 0, "EQUAL", rest.dtype), "NOT"), "AND")
    return L.select(up, L.elementwise(rest, b, "SUM"), rest)


def truncated_rest(a: Tensor, b: Tensor) -> Tensor:
    """``a - b * trunc(a / b)`` of two floats, with the sign of ``a``, which is C's ``fmod``."""
    if is_power_of_two(b):
        return L.elementwise(a, L.elementwise(b, truncated(L.elementwise(a, b, "DIV")), "PROD"), "SUB")
    _, rest = _whole_and_rest(a, b, rest_alone=True)
    return L.cast(L.select(binary(a, 0, "LESS", a.dtype), L.unary(rest, "NEG"), rest), a.dtype)


def is_power_of_two(b: Tensor) -> bool:
    """Whether it is one constant power of two, by which a quotient is exact (if it is no subnormal number)."""
    if not b.is_constant or not b.data.numel() or not bool((b.data == b.data.flatten()[0]).all()):
        return False
    return abs(math.frexp(float(b.data.flatten()[0]))[0]) == 0.5


def _signs_differ(a: Tensor, b: Tensor) -> Tensor:
    return L.elementwise(binary(a, 0, "LESS", a.dtype), binary(b, 0, "LESS", b.dtype), "XOR")


def _whole_and_rest(a: Tensor, b: Tensor, *, rest_alone: bool = False) -> tuple[Tensor, Tensor]:
    """``floor(|a| / |b|)`` and ``|a| - |b| * floor(|a| / |b|)`` in float32; with ``rest_alone`` the rest alone.

    A rounded quotient is one too large where the exact one lies just below a whole number: 1.0 / 0.1 rounds to 10. So
    the quotient is taken in two digits of 12 bits, the greater first, and each digit times the divisor is subtracted in
    two parts, the upper and the lower 12 bits of the divisor. All these products and differences are exact, and hence
    the same where a compiler fuses a product with a sum. In the end the rest is compared with 0 and with the divisor.
    """
    a, b = (L.unary(L.cast(x, torch.float32), "ABS") for x in (a, b))
    slightly_less = L.elementwise(b, _times(b, 1 / DIGIT), "SUB")
    upper = _times(L.elementwise(b, slightly_less, "SUB"), DIGIT)
    lower = L.elementwise(b, upper, "SUB")

    def without(rest: Tensor, digit: Tensor) -> Tensor:
        rest = L.elementwise(rest, L.elementwise(digit, upper, "PROD"), "SUB")
        return L.elementwise(rest, L.elementwise(digit, lower, "PROD"), "SUB")

    first = _times(L.unary(_times(L.elementwise(a, b, "DIV"), 1 / DIGIT), "FLOOR"), DIGIT)
    rest = without(a, first)
    second = L.elementwise(rest, b, "FLOOR_DIV")
    rest = without(rest, second)

    below = binary(rest, 0, "LESS")
    least = L.select(below, L.elementwise(rest, b, "SUM"), rest)
    above = L.unary(L.elementwise(least, b, "LESS"), "NOT")
    inside = L.select(above, L.elementwise(least, b, "SUB"), least)
    less = L.elementwise(a, b, "LESS")  # than an infinite divisor too
    if rest_alone:
        return first, L.select(less, a, inside)
    second = L.select(below, binary(second, 1, "SUB"), second)
    second = L.select(above, binary(second, 1, "SUM"), second)
    return choose(less, 0, L.elementwise(first, second, "SUM"), torch.float32), L.select(less, a, inside)


def _times(x: Tensor, factor: float) -> Tensor:
    return binary(x, factor, "PROD", x.dtype)
