"""Functions of one tensor, element by element."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..common import L, Tensor, family, operation, prepared, torch
from ..operands import binary, choose, numeric, promote, scaled

# -- one IUnaryLayer ---------------------------------------------------------------------------------------------------


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


# -- composed ----------------------------------------------------------------------------------------------------------


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


@prepared(_of_floats)
def erfc(x: Tensor) -> Tensor:
    """``1 - erf(input)``: IUnaryLayer ERF, IElementWiseLayer SUB; its tail below 1e-7 is lost to rounding."""
    return 1 - L.unary(x, "ERF")


rsqrt, exp2, log2, log10, deg2rad, rad2deg, ndtr = family(
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
    ndtr=(
        lambda x: erfc(x * -math.sqrt(0.5)) * 0.5,
        "The standard normal distribution up to x, ``erfc(-x / √2) / 2``: the layers of :func:`erfc`.",
    ),
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
