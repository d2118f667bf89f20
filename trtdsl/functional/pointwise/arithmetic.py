"""Arithmetic of two tensors and more, element by element, with torch's broadcasting, promotion and integer rules."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...definition.operation import author_location, find_network
from ..common import L, Size, Tensor, UnsupportedError, UsageError, family, is_low, member, operation, prepared, torch
from ..operands import as_tensor, binary, choose, in_float32, may_be_nan, promote, raised, result_type, scaled
from .elementary import floor_quotient, floor_rest, is_power_of_two, log1p, negative, truncated, truncated_rest


def _added(op: str, input: Any, other: Any, *, alpha: float = 1) -> Tensor:
    a, b = promote(input, other)
    if a.dtype == torch.bool:
        if op == "SUB":
            raise UnsupportedError("torch does not subtract bool tensors: use F.logical_xor or F.logical_not")
        return L.elementwise(a, b if alpha else b & ~b, "OR")
    if isinstance(alpha, float) and not a.dtype.is_floating_point:
        raise UnsupportedError(f"alpha must be an int for {a.dtype}, as in torch, not {alpha}")
    return L.elementwise(a, scaled(b, alpha), op)


add, sub = family(
    _added,
    add=(
        "SUM",
        "``input + alpha * other``, broadcast: IElementWiseLayer SUM (OR for bool), PROD before it for an alpha.",
    ),
    sub=("SUB", "``input - alpha * other``, broadcast: IElementWiseLayer SUB, PROD as in :func:`add`; not for bool."),
)


@operation
def rsub(input: Any, other: Any, *, alpha: float = 1) -> Tensor:
    """``other - alpha * input``: as :func:`sub`."""
    return sub(other, input, alpha=alpha)


@operation
def mul(input: Any, other: Any) -> Tensor:
    """``input * other``, broadcast: IElementWiseLayer PROD (AND for bool)."""
    return binary(input, other, "AND" if result_type(input, other) == torch.bool else "PROD")


@operation
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """``input / other``, broadcast: IElementWiseLayer DIV; integers become float32 first.

    ``rounding_mode="floor"`` gives FLOOR_DIV, ``"trunc"`` integer DIV, or on floats the layers of :func:`trunc`
    after it.
    """
    if rounding_mode not in (None, "floor", "trunc"):
        raise UnsupportedError(f"div: rounding_mode is None, 'floor' or 'trunc', not {rounding_mode!r}")
    if rounding_mode == "floor":
        return floor_divide(input, other)
    dtype = result_type(input, other)
    if rounding_mode is None and not dtype.is_floating_point:
        dtype = torch.float32
    if dtype == torch.bool:
        raise UnsupportedError("torch does not divide bool tensors with a rounding_mode: cast them first")
    quotient = binary(input, other, "DIV", dtype)
    return truncated(quotient) if rounding_mode == "trunc" and quotient.dtype.is_floating_point else quotient


def _whole(
    kind: tuple[str, Callable[[Tensor, Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]], input: Any, other: Any
) -> Tensor:
    """A whole quotient or what it leaves over: why bool is refused, and what is computed where the quotient that is
    rounded is inexact, and elsewhere: of integers, and for a power of two."""
    refusal, inexact, exact = kind
    a, b = promote(input, other)
    if a.dtype == torch.bool:
        raise UnsupportedError(f"torch {refusal}: cast them first")
    return inexact(a, b) if a.dtype.is_floating_point and not is_power_of_two(b) else exact(a, b)


def _floored(a: Tensor, b: Tensor) -> Tensor:
    return L.elementwise(a, b, "FLOOR_DIV")


@member(_whole, ("does not divide bool tensors with rounding", floor_quotient, _floored))
def floor_divide():
    """``input // other``, rounded down: IElementWiseLayer FLOOR_DIV on integers and for a constant power of two.

    On other floats, the quotient that is rounded down is the exact one, as in torch (1.0 // 0.1 is 9, though 1.0 /
    0.1 rounds to 10): long division by IElementWiseLayers, exact for quotients below 2**24 and ``|input|`` below
    3.4e38. Greater quotients are right to a few units in their last place. Half types are computed in float32.
    """


@member(_whole, ("has no remainder of bool tensors", floor_rest, lambda a, b: a - b * _floored(a, b)))
def remainder():
    """``input - other * floor(input / other)``, with the sign of ``other``: IElementWiseLayer FLOOR_DIV, PROD, SUB.

    On floats of the exact quotient, as in torch, by the long division of :func:`floor_divide`; the rest of a
    quotient greater than 2**24 means nothing. For a constant power of two everything is exact by the three layers,
    unless ``input / other`` is too great or too small for the dtype.
    """


@member(_whole, ("has no fmod of bool tensors", truncated_rest, lambda a, b: a - b * div(a, b, rounding_mode="trunc")))
def fmod():
    """``input - other * trunc(input / other)``, with the sign of ``input``: IElementWiseLayer DIV, PROD and SUB.

    Floats are computed as those of :func:`remainder`.
    """


def _extreme(kind: tuple[str, str, bool], input: Any, other: Any) -> Tensor:
    """The names of the operation on numbers and on bool; whether NaN is taken before all, or after."""
    op, logical, nan = kind
    a, b = promote(input, other)
    if a.dtype == torch.bool:
        return L.elementwise(a, b, logical)
    if nan and a.is_constant:
        a, b = b, a
    # The extreme, NaN where a is, and a where b is.
    result = L.elementwise(*((b, a) if is_low(a) else (a, b)), op=op)
    if not nan:
        return L.select(L.unary(a, "ISNAN"), b, result) if a.dtype.is_floating_point else result
    return L.select(L.unary(b, "ISNAN"), b, result) if may_be_nan(b) else result


@member(_extreme, ("MAX", "OR", True))
def maximum():
    """The greater, NaN where either is NaN: IElementWiseLayer MAX (OR for bool).

    TensorRT gives NaN for that of one operand alone (:func:`layers.elementwise`); two tensors take IUnaryLayer
    ISNAN and ISelectLayer for the other's.
    """


@member(_extreme, ("MIN", "AND", True))
def minimum():
    """The lesser, NaN where either is NaN: IElementWiseLayer MIN (AND for bool), as :func:`maximum`."""


fmax, fmin = family(
    _extreme,
    "The {}, the other one where one is NaN: IElementWiseLayer, IUnaryLayer ISNAN and ISelectLayer.",
    fmax=(("MAX", "OR", False), "greater"),
    fmin=(("MIN", "AND", False), "lesser"),
)


@operation
def clamp(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """``input`` not below ``min`` and not above ``max``, numbers or tensors; ``max`` wins where they cross.

    IElementWiseLayer MAX and MIN; in half precision IActivationLayer CLIP for two numbers (in float32 it loses NaN).
    """
    if min is None and max is None:
        raise UnsupportedError("clamp: give min, max or both")
    given = [bound for bound in (min, max) if bound is not None]
    dtype = result_type(input, *given)
    x = as_tensor(input, input.network, dtype)
    if is_low(x) and isinstance(min, (int, float)) and isinstance(max, (int, float)):
        low, high = float(min), float(max)
        if -math.inf < low <= high < math.inf:
            return L.activation(x, "CLIP", alpha=low, beta=high)
    if min is not None:
        x = maximum(x, as_tensor(min, x.network, dtype))
    return x if max is None else minimum(x, as_tensor(max, x.network, dtype))


@operation
def clamp_min(input: Tensor, min: Any) -> Tensor:
    """``input`` not below ``min``: IElementWiseLayer MAX."""
    return clamp(input, min=min)


@operation
def clamp_max(input: Tensor, max: Any) -> Tensor:
    """``input`` not above ``max``: IElementWiseLayer MIN."""
    return clamp(input, max=max)


@operation
def lerp(input: Tensor, end: Tensor, weight: Any) -> Tensor:
    """``input + weight * (end - input)``: IElementWiseLayer SUB, PROD and SUM.

    Exact at both ends, as in torch: from a weight of 0.5 on it is ``end - (end - input) * (1 - weight)``, by
    ISelectLayer for a weight that is a tensor. Half precision is computed in float32 and rounded once, as in torch.
    """
    return in_float32(_between, input, end, weight)


def _between(input: Tensor, end: Tensor, weight: Any) -> Tensor:
    a, b = promote(input, end)
    difference = b - a
    if isinstance(weight, (int, float)):
        if -0.5 < weight < 0.5:
            return a + scaled(difference, weight)
        return b - scaled(difference, 1 - weight)
    return choose(abs(weight) < 0.5, a + weight * difference, b - difference * (1 - weight))


def _plus(
    combine: Callable[[Any, Any], Tensor], input: Tensor, tensor1: Any, tensor2: Any, *, value: float = 1
) -> Tensor:
    return in_float32(lambda x, y, z: add(x, combine(y, z), alpha=value), input, tensor1, tensor2)


@member(_plus, mul)
def addcmul():
    """``input + value * tensor1 * tensor2``: IElementWiseLayer PROD and SUM; half types in float32, rounded once."""


@member(_plus, div)
def addcdiv():
    """``input + value * tensor1 / tensor2``: IElementWiseLayer DIV, PROD and SUM; half types as in :func:`addcmul`."""


def _of_floats(compute: Callable[[Tensor, Tensor], Tensor], input: Any, other: Any) -> Tensor:
    """``compute`` of floating-point Tensors, as torch's transcendental functions make of integers and bool."""
    a, b = promote(input, other, integers_to_float=True)
    return compute(a, b)


def _unless_zero(a: Tensor, b: Tensor, product: Tensor) -> Tensor:
    """A product of ``a``: 0 where that is 0 and ``b`` is not NaN."""
    return choose((a == 0) & ~L.unary(b, "ISNAN"), 0, product, a.dtype)


@prepared(_of_floats)
def copysign(a: Tensor, b: Tensor) -> Tensor:
    """The size of ``input`` with the sign of ``other``: IUnaryLayer ABS and NEG, ISelectLayer."""
    size = abs(a)
    return choose(negative(b), -size, size)


def _logaddexp(base: float) -> Callable[[Tensor, Tensor], Tensor]:
    def compute(a: Tensor, b: Tensor) -> Tensor:
        tail = L.activation(-abs(a - b), "SOFTPLUS", alpha=1 / base, beta=base)
        apart = maximum(a, b) + tail  # two infinities of one sign have no distance
        return L.select(a == b, a + math.log(2) / base, apart)

    return compute


@prepared(_of_floats)
def atan2(y: Tensor, x: Tensor) -> Tensor:
    """The angle of the point (``other``, ``input``) up to pi: IUnaryLayer ATAN, IElementWiseLayers, ISelectLayers."""
    high, wide = abs(y), abs(x)
    # The ratio is at most 1, so that it never overflows; of two zeros it is 0.
    greater = L.elementwise(high, wide, "MAX")
    ratio = choose(greater == 0, 0, L.elementwise(high, wide, "MIN") / greater, y.dtype)
    angle = L.unary(choose(L.unary(high, "ISINF") & L.unary(wide, "ISINF"), 1, ratio, y.dtype), "ATAN")
    angle = L.select(high > wide, math.pi / 2 - angle, angle)
    angle = choose(negative(x), math.pi - angle, angle)
    return choose(negative(y), -angle, angle)


xlogy, xlog1py, logaddexp, logaddexp2, ldexp = family(
    _of_floats,
    xlogy=(
        lambda a, b: _unless_zero(a, b, a * L.unary(b, "LOG")),
        "``input * log(other)``, 0 where ``input`` is 0 unless ``other`` is NaN: IUnaryLayer LOG, ISelectLayers.",
    ),
    xlog1py=(
        lambda a, b: _unless_zero(a, b, a * log1p(b)),
        "``x log(1 + y)``, 0 where x is 0 unless y is NaN: the layers of :func:`log1p`, ISelectLayers.",
    ),
    logaddexp=(
        _logaddexp(1.0),
        "``log(exp(input) + exp(other))`` without overflow: the greater and IActivationLayer SOFTPLUS of -distance.",
    ),
    logaddexp2=(_logaddexp(math.log(2)), "``log2(2 ** input + 2 ** other)`` without overflow: as :func:`logaddexp`."),
    ldexp=(
        lambda x, y: x * binary(2.0, y, "POW", y.dtype),
        "``x * 2 ** y``: IElementWiseLayers POW and PROD; integers become float32 first.",
    ),
)


@operation
def hypot(input: Any, other: Any) -> Tensor:
    """``sqrt(input ** 2 + other ** 2)`` without overflow: scaled by the greater of the two first."""
    a, b = map(abs, promote(input, other))
    greater, lesser = L.elementwise(a, b, "MAX"), L.elementwise(a, b, "MIN")
    ratio = choose(lesser == 0, 0, lesser / greater, a.dtype)
    return greater * L.unary(ratio * ratio + 1, "SQRT")


@operation
def heaviside(input: Any, values: Any) -> Tensor:
    """0 below zero, ``values`` at zero, 1 above: IElementWiseLayer GREATER and EQUAL, ICastLayer, ISelectLayer."""
    x, v = promote(input, values)
    if x.dtype == torch.bool:
        return L.elementwise(x, v, "OR")
    return choose(x == 0, v, L.cast(x > 0, x.dtype))


@operation
def pow(input: Any, exponent: Any) -> Tensor:
    """``input ** exponent``, broadcast: IElementWiseLayer POW.

    Exponents that are numbers take cheaper layers: PROD for 2 and 3, IUnaryLayer SQRT for 0.5, RECIP for -1, both
    for -0.5. Integers take PROD alone, since TensorRT raises them by way of float32; with an exponent that is a tensor,
    ISelectLayer for each of its bits, below 64. Theirs must not be negative.
    """
    a, b = promote(input, exponent)
    if a.dtype == torch.bool:
        return a | ~b  # 0 ** 0 is 1
    if isinstance(exponent, (int, float)) and not isinstance(exponent, bool) and isinstance(input, Tensor):
        if exponent == 1:
            return a
        if not a.dtype.is_floating_point:
            if exponent < 0:
                raise UnsupportedError("integers to negative integer powers are not defined, in torch either")
            return raised(a, int(exponent), mul) if exponent >= 1 else choose(a == a, 1, a, a.dtype)
        if exponent in (2, 3):
            return a * a if exponent == 2 else a * a * a
        if exponent in (0.5, -0.5):
            root = L.unary(a, "SQRT")
            return root if exponent == 0.5 else L.unary(root, "RECIP")
        if exponent == -1:
            return L.unary(a, "RECIP")
    return L.elementwise(a, b, "POW") if a.dtype.is_floating_point else _power_by_bits(a, b)


def _power_by_bits(x: Tensor, exponent: Tensor) -> Tensor:
    result = x.network.constant(torch.ones((1,) * x.ndim, dtype=x.dtype))
    for bit in range(6):
        half = binary(exponent, 2, "DIV", exponent.dtype)
        result = L.select(exponent > half * 2, result * x if bit else x, result)
        if bit < 5:
            x, exponent = x * x, half
    return result


SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floor_divide": "//", "remainder": "%", "pow": "**"}


def fraction(function: str, left: Any, right: Any) -> Tensor:
    """The result of an operator on a Size and a number where it is not a size: a 0-d Tensor.

    Computed when the network runs. It is float32, as a Python float counts in torch; a power of an int by a size is
    int64. IShapeLayer and IGatherLayer for the size, ICastLayer, and the layers of ``function``.

    Raises UsageError, with the author's line, where no network is being written.

    >>> x = net.input("x", (2, "T", 3))
    >>> with net.current():
    ...     scale = x.shape[1] ** -0.5
    >>> (x * scale).shape, scale.shape, scale.dtype
    ((2, T, 3), (), torch.float32)
    """
    network = find_network(())
    if network is None:
        raise UsageError(
            f"no network here to compute {left} {SIGNS.get(function, function)} {right}, which is a Tensor: write it "
            "in a @td.network function, or inside `with net.current():`",
            location=author_location(),
        )
    whole = function == "pow" and isinstance(left, int)
    with network.operation(function):
        operands = (
            as_tensor(x, network, None if whole else torch.float32)
            if isinstance(x, Size) or function in ("maximum", "minimum")
            else x
            for x in (left, right)
        )
        return globals()[function](*operands)
