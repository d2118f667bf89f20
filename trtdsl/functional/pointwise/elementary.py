"""Functions of one tensor, element by element; the whole part of a quotient and its rest, without rounding errors."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..common import L, Tensor, family, operation, prepared, torch
from ..operands import binary, choose, numeric, promote, scaled


def _unary(op: str, input: Tensor) -> Tensor:
    return L.unary(promote(input, integers_to_float=True)[0], op)


(exp, log, sqrt, reciprocal, sin, cos, tan, sinh, cosh, asin, acos, atan, asinh, acosh, atanh, erf) = family(
    _unary,
    "{}: IUnaryLayer {key}; integers become float32 first.",
    exp=("EXP", "``e ** input``"),
    log=("LOG", "The natural logarithm"),
    sqrt=("SQRT", "The square root"),
    reciprocal=("RECIP", "``1 / input``"),
    sin=("SIN", "The sine of radians"),
    cos=("COS", "The cosine of radians"),
    tan=("TAN", "The tangent of radians"),
    sinh=("SINH", "The hyperbolic sine"),
    cosh=("COSH", "The hyperbolic cosine"),
    asin=("ASIN", "The inverse sine"),
    acos=("ACOS", "The inverse cosine"),
    atan=("ATAN", "The inverse tangent"),
    asinh=("ASINH", "The inverse hyperbolic sine"),
    acosh=("ACOSH", "The inverse hyperbolic cosine"),
    atanh=("ATANH", "The inverse hyperbolic tangent"),
    erf=("ERF", "The error function"),
)


def _of_any(compute: Callable[[Tensor], Tensor], input: Tensor) -> Tensor:
    return compute(promote(input)[0])


def _but_bool(op: str) -> Callable[[Tensor], Tensor]:
    return lambda x: x if x.dtype == torch.bool else L.unary(x, op)


def _squared(x: Tensor) -> Tensor:
    x = L.cast(x, torch.int64) if x.dtype == torch.bool else x
    return L.elementwise(x, x, "PROD")


abs, neg, positive, sign, sgn, square = family(
    _of_any,
    abs=(_but_bool("ABS"), "The absolute value: IUnaryLayer ABS; bool is itself."),
    neg=(lambda x: L.unary(numeric(x), "NEG"), "``-input``: IUnaryLayer NEG. bool is refused, as by torch."),
    positive=(numeric, "``input`` itself; no layer."),
    sign=(_but_bool("SIGN"), "-1, 0 or 1: IUnaryLayer SIGN; bool is itself."),
    sgn=(_but_bool("SIGN"), "As :func:`sign`: TensorRT has no complex numbers."),
    square=(_squared, "``input * input``: IElementWiseLayer PROD."),
)


def _of_floats(compute: Callable[[Tensor], Tensor], input: Tensor) -> Tensor:
    """``compute`` of a floating-point Tensor, as torch's transcendental functions make of integers and bool."""
    return compute(promote(input, integers_to_float=True)[0])


@prepared(_of_floats)
def expm1(x: Tensor) -> Tensor:
    """``exp(input) - 1``, exact near 0 too, where it is ``2t / (1 - t)`` with ``t = tanh(input / 2)``.

    IUnaryLayer EXP, IActivationLayer TANH, IElementWiseLayers and ISelectLayer.
    """
    t = L.activation(x * 0.5, "TANH")
    return choose(abs(x) < 1, t * 2 / (1 - t), L.unary(x, "EXP") - 1)


@prepared(_of_floats)
def log1p(x: Tensor) -> Tensor:
    """``log(1 + input)``, exact near 0 too, where it is ``2 * atanh(input / (2 + input))``.

    IUnaryLayer LOG and ATANH, IElementWiseLayers and ISelectLayer.
    """
    return choose(x < 1, L.unary(x / (x + 2), "ATANH") * 2, L.unary(x + 1, "LOG"))


@prepared(_of_floats)
def sinc(x: Tensor) -> Tensor:
    """``sin(pi * input) / (pi * input)``, 1 at 0: IUnaryLayer SIN, IElementWiseLayers, ISelectLayer."""
    x = x * math.pi
    return choose(x == 0, 1, L.unary(x, "SIN") / x, x.dtype)


@prepared(_of_floats)
def entr(x: Tensor) -> Tensor:
    """``-x log(x)``, 0 for 0 and -inf below: IUnaryLayer LOG, IElementWiseLayers, ISelectLayers."""
    positive = x > 0
    inside = -(x * L.unary(choose(positive, x, 1.0, x.dtype), "LOG"))
    return L.select(positive, inside, choose(x < 0, -math.inf, x * x, x.dtype))  # 0 for 0, NaN stays


rsqrt, exp2, log2, log10, deg2rad, rad2deg, erfc, ndtr, frac = family(
    _of_floats,
    rsqrt=(lambda x: L.unary(L.unary(x, "SQRT"), "RECIP"), "``1 / sqrt(input)``: IUnaryLayer SQRT and RECIP."),
    exp2=(lambda x: binary(2, x, "POW", x.dtype), "``2 ** input``: IElementWiseLayer POW."),
    log2=(
        lambda x: scaled(L.unary(x, "LOG"), 1 / math.log(2)),
        "The logarithm to base 2: IUnaryLayer LOG and IElementWiseLayer PROD.",
    ),
    log10=(
        lambda x: scaled(L.unary(x, "LOG"), 1 / math.log(10)),
        "The logarithm to base 10: IUnaryLayer LOG and IElementWiseLayer PROD.",
    ),
    deg2rad=(lambda x: scaled(x, math.pi / 180), "Degrees as radians: IElementWiseLayer PROD."),
    rad2deg=(lambda x: scaled(x, 180 / math.pi), "Radians as degrees: IElementWiseLayer PROD."),
    erfc=(
        lambda x: 1 - L.unary(x, "ERF"),
        "``1 - erf(input)``: IUnaryLayer ERF, IElementWiseLayer SUB; its tail below 1e-7 is lost to rounding.",
    ),
    ndtr=(
        lambda x: erfc(x * -math.sqrt(0.5)) * 0.5,
        "The standard normal distribution up to x, ``erfc(-x / √2) / 2``: the layers of :func:`erfc`.",
    ),
    frac=(lambda x: x - truncated(x), "``input - trunc(input)``: the layers of :func:`trunc`, IElementWiseLayer SUB."),
)


@operation
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """``log(input / (1 - input))`` of ``input`` from ``eps`` to ``1 - eps``: IElementWiseLayers and IUnaryLayer LOG."""
    (x,) = promote(input, integers_to_float=True)
    if eps is not None:
        x = binary(binary(x, 1 - eps, "MIN", x.dtype), eps, "MAX", x.dtype)
    return L.unary(x / (1 - x), "LOG")


@operation
def nan_to_num(
    input: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """NaN and infinities replaced by numbers: IUnaryLayer ISNAN, IElementWiseLayer EQUAL, ISelectLayers.

    By default NaN becomes 0, infinities the dtype's extremes. Integers are themselves.
    """
    (x,) = promote(input)
    if not x.dtype.is_floating_point:
        return x
    limits = torch.finfo(x.dtype)
    result = choose(L.unary(x, "ISNAN"), 0.0 if nan is None else nan, x, x.dtype)
    for infinity, given, extreme in ((math.inf, posinf, limits.max), (-math.inf, neginf, limits.min)):
        result = choose(x == infinity, extreme if given is None else given, result, x.dtype)
    return result


@operation
def signbit(input: Tensor) -> Tensor:
    """Whether the sign is set, of -0.0 too, by ``1 / input``: IElementWiseLayer LESS and OR, IUnaryLayer RECIP."""
    (x,) = promote(input)
    return x & False if x.dtype == torch.bool else negative(x)


def negative(x: Tensor) -> Tensor:
    """Where the sign of a number is set, -0.0 included."""
    return (x < 0) | (L.unary(x, "RECIP") < 0) if x.dtype.is_floating_point else x < 0


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
def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """Rounded to ``decimals`` places, halves to even: IUnaryLayer ROUND between two scalings; integers as they are."""
    x = numeric(input)
    if not x.dtype.is_floating_point:
        return x
    if decimals == 0:
        return L.unary(x, "ROUND")
    power = 10.0 ** (decimals if decimals > 0 else -decimals)
    return L.unary(x * power, "ROUND") / power if decimals > 0 else L.unary(x / power, "ROUND") * power


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
    return math.fabs(math.frexp(float(b.data.flatten()[0]))[0]) == 0.5


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
