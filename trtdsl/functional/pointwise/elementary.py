"""Functions of one tensor, element by element."""

from __future__ import annotations

import math

from ... import layers as L
from ...core.lazy import torch
from ...definition.operation import operation
from ...definition.tensor import Tensor
from ..family import family
from ..operands import as_tensor, binary, choose, numeric, promote, scaled


def _floating(input: Tensor) -> Tensor:
    """A floating-point Tensor, as torch's transcendental functions make of integers and bool."""
    (x,) = promote(input, integers_to_float=True)
    return x


# -- one IUnaryLayer ---------------------------------------------------------------------------------------------------


@operation
def abs(input: Tensor) -> Tensor:
    """The absolute value: IUnaryLayer ABS; bool is itself.

    >>> F.abs(td.Network().input("x", (2, 3))).shape
    (2, 3)
    """
    (x,) = promote(input)
    return x if x.dtype == torch.bool else L.unary(x, "ABS")


@operation
def neg(input: Tensor) -> Tensor:
    """``-input``: IUnaryLayer NEG. bool is refused, as by torch.

    >>> F.neg(td.Network().input("x", (2, 3))).shape
    (2, 3)
    """
    return L.unary(numeric(input), "NEG")


@operation
def positive(input: Tensor) -> Tensor:
    """``input`` itself; no layer.

    >>> F.positive(td.Network().input("x", (2, 3))).shape
    (2, 3)
    """
    return numeric(input)


@operation
def sign(input: Tensor) -> Tensor:
    """-1, 0 or 1: IUnaryLayer SIGN; bool is itself.

    >>> F.sign(td.Network().input("x", (2, 3))).shape
    (2, 3)
    """
    (x,) = promote(input)
    return x if x.dtype == torch.bool else L.unary(x, "SIGN")


@operation
def sgn(input: Tensor) -> Tensor:
    """As :func:`sign`: TensorRT has no complex numbers.

    >>> F.sgn(td.Network().input("x", (2, 3))).shape
    (2, 3)
    """
    return sign(input)


def _unary(op: str, input: Tensor) -> Tensor:
    return L.unary(_floating(input), op)


(exp, log, sqrt, reciprocal, sin, cos, tan, sinh, cosh, asin, acos, atan, asinh, acosh, atanh, erf) = family(
    _unary,
    """{}: IUnaryLayer {key}; integers become float32 first.

    >>> F.{name}(td.Network().input("x", (2, 3))).shape
    (2, 3)
    """,
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


# -- composed ----------------------------------------------------------------------------------------------------------


@operation
def square(input: Tensor) -> Tensor:
    """``input * input``: IElementWiseLayer PROD.

    >>> F.square(td.Network().input("x", (2, 3))).shape
    (2, 3)
    """
    (x,) = promote(input)
    x = L.cast(x, torch.int64) if x.dtype == torch.bool else x
    return L.elementwise(x, x, "PROD")


@operation
def rsqrt(input: Tensor) -> Tensor:
    """``1 / sqrt(input)``: IUnaryLayer SQRT and RECIP.

    >>> F.rsqrt(td.Network().input("x", (2, 3))).shape
    (2, 3)
    """
    return L.unary(L.unary(_floating(input), "SQRT"), "RECIP")


@operation
def exp2(input: Tensor) -> Tensor:
    """``2 ** input``: IElementWiseLayer POW.

    >>> F.exp2(td.Network().input("x", (2, 3))).shape
    (2, 3)
    """
    x = _floating(input)
    return binary(2, x, "POW", x.dtype)


@operation
def expm1(input: Tensor) -> Tensor:
    """``exp(input) - 1``, exact near 0 too, where it is ``2t / (1 - t)`` with ``t = tanh(input / 2)``.

    IUnaryLayer EXP, IActivationLayer TANH, IElementWiseLayers and ISelectLayer.

    >>> F.expm1(td.Network().input("x", (2, 3))).shape
    (2, 3)
    """
    x = _floating(input)
    t = L.activation(scaled(x, 0.5), "TANH")
    near = L.elementwise(scaled(t, 2), binary(1, t, "SUB", x.dtype), "DIV")
    far = binary(L.unary(x, "EXP"), 1, "SUB", x.dtype)
    return choose(binary(L.unary(x, "ABS"), 1, "LESS", x.dtype), near, far)


@operation
def log1p(input: Tensor) -> Tensor:
    """``log(1 + input)``, exact near 0 too, where it is ``2 * atanh(input / (2 + input))``.

    IUnaryLayer LOG and ATANH, IElementWiseLayers and ISelectLayer.

    >>> F.log1p(td.Network().input("x", (2, 3))).shape
    (2, 3)
    """
    x = _floating(input)
    ratio = L.elementwise(x, binary(x, 2, "SUM", x.dtype), "DIV")
    near = scaled(L.unary(ratio, "ATANH"), 2)
    far = L.unary(binary(x, 1, "SUM", x.dtype), "LOG")
    return choose(binary(x, 1, "LESS", x.dtype), near, far)


@operation
def log2(input: Tensor) -> Tensor:
    """The logarithm to base 2: IUnaryLayer LOG and IElementWiseLayer PROD.

    >>> F.log2(td.Network().input("x", (2, 3))).shape
    (2, 3)
    """
    return scaled(L.unary(_floating(input), "LOG"), 1 / math.log(2))


@operation
def log10(input: Tensor) -> Tensor:
    """The logarithm to base 10: IUnaryLayer LOG and IElementWiseLayer PROD.

    >>> F.log10(td.Network().input("x", (2, 3))).shape
    (2, 3)
    """
    return scaled(L.unary(_floating(input), "LOG"), 1 / math.log(10))


@operation
def erfc(input: Tensor) -> Tensor:
    """``1 - erf(input)``: IUnaryLayer ERF and IElementWiseLayer SUB; its tail below 1e-7 is lost to rounding.

    >>> F.erfc(td.Network().input("x", (2, 3))).shape
    (2, 3)
    """
    x = L.unary(_floating(input), "ERF")
    return binary(1, x, "SUB", x.dtype)


@operation
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """``log(input / (1 - input))``, ``input`` clamped to ``[eps, 1 - eps]`` first.

    IElementWiseLayers and IUnaryLayer LOG.

    >>> F.logit(td.Network().input("x", (2, 3)), eps=1e-6).shape
    (2, 3)
    """
    x = _floating(input)
    if eps is not None:
        x = binary(binary(x, 1 - eps, "MIN", x.dtype), eps, "MAX", x.dtype)
    return L.unary(L.elementwise(x, binary(1, x, "SUB", x.dtype), "DIV"), "LOG")


@operation
def nan_to_num(
    input: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """NaN and infinities replaced by numbers: IUnaryLayer ISNAN, IElementWiseLayer EQUAL, ISelectLayers.

    By default NaN becomes 0, infinities the dtype's extremes. Integers are themselves.

    >>> F.nan_to_num(td.Network().input("x", (2, 3)), nan=1.0).shape
    (2, 3)
    """
    (x,) = promote(input)
    if not x.dtype.is_floating_point:
        return x
    limits = torch.finfo(x.dtype)
    result = choose(L.unary(x, "ISNAN"), 0.0 if nan is None else nan, x, x.dtype)
    for infinity, given, extreme in ((math.inf, posinf, limits.max), (-math.inf, neginf, limits.min)):
        result = choose(binary(x, infinity, "EQUAL", x.dtype), extreme if given is None else given, result, x.dtype)
    return result


@operation
def deg2rad(input: Tensor) -> Tensor:
    """Degrees as radians: IElementWiseLayer PROD.

    >>> F.deg2rad(td.Network().input("x", (2, 3))).shape
    (2, 3)
    """
    return scaled(_floating(input), math.pi / 180)


@operation
def rad2deg(input: Tensor) -> Tensor:
    """Radians as degrees: IElementWiseLayer PROD.

    >>> F.rad2deg(td.Network().input("x", (2, 3))).shape
    (2, 3)
    """
    return scaled(_floating(input), 180 / math.pi)


@operation
def sinc(input: Tensor) -> Tensor:
    """``sin(pi * input) / (pi * input)``, 1 at 0: IUnaryLayer SIN, IElementWiseLayers, ISelectLayer.

    >>> F.sinc(td.Network().input("x", (2, 3))).shape
    (2, 3)
    """
    x = scaled(_floating(input), math.pi)
    ratio = L.elementwise(L.unary(x, "SIN"), x, "DIV")
    return choose(binary(x, 0, "EQUAL", x.dtype), 1, ratio, x.dtype)


@operation
def signbit(input: Tensor) -> Tensor:
    """Whether the sign is set, of -0.0 too (where ``1 / input`` is negative).

    IElementWiseLayer LESS and OR, IUnaryLayer RECIP.

    >>> F.signbit(td.Network().input("x", (2, 3))).dtype
    torch.bool
    """
    (x,) = promote(input)
    if x.dtype == torch.bool:
        return L.elementwise(x, as_tensor_like(False, x), "AND")
    return negative(x)


def negative(x: Tensor) -> Tensor:
    """Where the sign of a number is set, -0.0 included."""
    below = binary(x, 0, "LESS", x.dtype)
    if not x.dtype.is_floating_point:
        return below
    return L.elementwise(below, binary(L.unary(x, "RECIP"), 0, "LESS", x.dtype), "OR")


def as_tensor_like(value: float, x: Tensor) -> Tensor:
    """A number in the dtype and rank of ``x``."""
    return promote(x, as_tensor(value, x.network, x.dtype), dtype=x.dtype)[1]
