"""Comparisons, logic, bits, and choosing by them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..common import DefinitionError, L, Tensor, UnsupportedError, family, member, operation, require_network, torch
from ..operands import as_tensor, binary, choose, floating, may_be_nan, promote


def _compared(how: tuple[str, bool], input: Any, other: Any) -> Tensor:
    """What a layer compares, or the contrary, which of an order is False where either is NaN, as IEEE has it."""
    op, contrary = how
    a, b = promote(input, other)
    if op != "EQUAL" and a.dtype == torch.bool:
        a, b = (L.cast(x, torch.int32) for x in (a, b))
    result = ~L.elementwise(a, b, op) if contrary else L.elementwise(a, b, op)
    for x in filter(may_be_nan, (a, b) if contrary and op != "EQUAL" else ()):
        result = result & ~L.unary(x, "ISNAN")
    return result


eq, ne, lt, le, gt, ge = family(
    _compared,
    eq=(("EQUAL", False), "``input == other``, broadcast: IElementWiseLayer EQUAL."),
    ne=(("EQUAL", True), "``input != other``, broadcast: IElementWiseLayer EQUAL and IUnaryLayer NOT."),
    lt=(("LESS", False), "``input < other``, broadcast: IElementWiseLayer LESS."),
    le=(("GREATER", True), "``input <= other``, broadcast: as :func:`gt`, IUnaryLayer NOT; ISNAN for what may be NaN."),
    gt=(("GREATER", False), "``input > other``, broadcast: IElementWiseLayer GREATER."),
    ge=(("LESS", True), "``input >= other``, broadcast: as :func:`lt`, IUnaryLayer NOT; ISNAN for what may be NaN."),
)


def _of_kind(compute: Callable[[Tensor], Tensor], input: Tensor) -> Tensor:
    """What is so of floating-point numbers alone: integers are never NaN or infinite."""
    return compute(input) if input.dtype.is_floating_point else _never(input)


isnan, isinf, isposinf, isneginf = family(
    _of_kind,
    isnan=(lambda x: L.unary(x, "ISNAN"), "Whether an element is NaN: IUnaryLayer ISNAN; integers never are."),
    isinf=(lambda x: L.unary(x, "ISINF"), "Whether an element is infinite: IUnaryLayer ISINF; integers never are."),
    isposinf=(lambda x: x == math.inf, "Whether an element is positive infinity: IElementWiseLayer EQUAL."),
    isneginf=(lambda x: x == -math.inf, "Whether an element is negative infinity: IElementWiseLayer EQUAL."),
)


@operation
def isfinite(input: Tensor) -> Tensor:
    """Whether an element is neither infinite nor NaN: IUnaryLayer ISINF, ISNAN and NOT, IElementWiseLayer OR."""
    infinite = L.unary(input, "ISINF") | L.unary(input, "ISNAN") if input.dtype.is_floating_point else _never(input)
    return ~infinite


def _never(x: Tensor) -> Tensor:
    """False for every element: of the shape of ``x``, which may be dynamic."""
    flags = L.cast(x, torch.bool)
    return flags & ~flags


@operation
def isclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """``|input - other| <= atol + rtol * |other|``, or equal: IElementWiseLayers and IUnaryLayers."""
    if rtol < 0 or atol < 0:
        raise DefinitionError(f"isclose: rtol and atol must not be negative: {rtol}, {atol}")
    if input.dtype != other.dtype:
        raise DefinitionError(f"isclose compares tensors of one dtype, not {input.dtype} and {other.dtype}")
    a, b = promote(input, other)
    same = a == b
    if a.dtype == torch.bool:
        return same
    floats = a.dtype.is_floating_point
    if floats and equal_nan:
        same = same | (L.unary(a, "ISNAN") & L.unary(b, "ISNAN"))
    wide, other_wide = floating(a), floating(b)
    allowed = abs(other_wide) * rtol + atol
    difference = abs(wide - other_wide)
    near = difference <= allowed
    return same | (near & isfinite(difference) if floats else near)


def _flags(*operands: Any) -> list[Tensor]:
    network = require_network(*operands)
    return promote(*(L.cast(as_tensor(operand, network), torch.bool) for operand in operands))


@operation
def logical_not(input: Tensor) -> Tensor:
    """Whether an element is 0: IUnaryLayer NOT, after ICastLayer for numbers."""
    return ~_flags(input)[0]


def _both(op: str, input: Any, other: Any) -> Tensor:
    return L.elementwise(*_flags(input, other), op=op)


logical_and, logical_or, logical_xor = family(
    _both,
    "{}, broadcast: IElementWiseLayer {key}; numbers are true unless 0.",
    logical_and=("AND", "Both"),
    logical_or=("OR", "Either or both"),
    logical_xor=("XOR", "One of the two"),
)


@operation
def bitwise_not(input: Tensor) -> Tensor:
    """Every bit inverted: IUnaryLayer NOT for bool, ``-1 - input`` (IElementWiseLayer SUB) for integers."""
    (x,) = promote(input)
    _refuse_floats(x)
    return L.unary(x, "NOT") if x.dtype == torch.bool else -1 - x


def _of_bits(compute: Callable[[Tensor, Tensor], Tensor], input: Any, other: Any) -> Tensor:
    a, b = promote(input, other)
    _refuse_floats(a)
    return compute(a, b)


def _bitwise(op: str) -> Callable[[Tensor, Tensor], Tensor]:
    def compute(a: Tensor, b: Tensor) -> Tensor:
        if a.dtype == torch.bool:
            return L.elementwise(a, b, op)
        bits = torch.iinfo(a.dtype).bits
        low = L.elementwise(_bits(a, bits), _bits(b, bits), op)
        places = torch.tensor([1 << k for k in range(bits - 1)], dtype=a.dtype)
        value = L.reduce(L.cast(low, a.dtype) * places, "SUM", [low.ndim - 1])
        # The sign of two's complement: -2 ** (bits - 1), which is the least value that the dtype has.
        return value + L.cast(L.elementwise(a < 0, b < 0, op), a.dtype) * torch.iinfo(a.dtype).min

    return compute


@member(_of_bits, _bitwise("AND"))
def bitwise_and():
    """The bits that both have: IElementWiseLayer AND for bool.

    TensorRT has no bit operations on integers: they are taken apart into bits (IElementWiseLayer FLOOR_DIV by
    powers of two along a new dimension), and put together by IReduceLayer SUM. That takes 32 or 64 times the
    memory.
    """


bitwise_or, bitwise_xor = family(
    _of_bits,
    "The bits that {} for bool; integers as in :func:`bitwise_and`.",
    bitwise_or=(_bitwise("OR"), "either has: IElementWiseLayer OR"),
    bitwise_xor=(_bitwise("XOR"), "one of the two has: IElementWiseLayer XOR"),
)


def _shift(op: str) -> Callable[[Tensor, Tensor], Tensor]:
    def compute(a: Tensor, b: Tensor) -> Tensor:
        known = torch.iinfo(a.dtype)
        is_right = op == "FLOOR_DIV"
        places = known.bits - (1 if is_right and known.min < 0 else 0)
        table = a.network.constant(torch.ones(places, dtype=torch.int64) << torch.arange(places))
        far = (b < 0) | (b >= places)
        inside = far.data is not None and not far.data.any()
        exponent = b if inside else choose(far, 0, b)
        near = L.elementwise(a, L.gather(L.cast(table, a.dtype), L.cast(exponent, torch.int64)), op)
        return near if inside else choose(far, -L.cast(a < 0, a.dtype) if is_right else 0, near, a.dtype)

    return compute


@member(_of_bits, _shift("PROD"))
def bitwise_left_shift():
    """``input * 2 ** other``: IGatherLayer in the powers of two, and IElementWiseLayer PROD.

    0 for more places than the dtype has, and for fewer than none (ISelectLayer, unless the places are constants).
    """


@member(_of_bits, _shift("FLOOR_DIV"))
def bitwise_right_shift():
    """``floor(input / 2 ** other)``: IGatherLayer in the powers of two, and IElementWiseLayer FLOOR_DIV.

    The sign for more places than the dtype has, and for fewer than none, as in :func:`bitwise_left_shift`.
    """


def _refuse_floats(x: Tensor) -> None:
    if x.dtype.is_floating_point:
        raise UnsupportedError(f"the bits are taken of bool and integers, as in torch, not of {x.dtype}")


def _bits(x: Tensor, bits: int) -> Tensor:
    """All bits but the sign, as bool, along a new last dimension; floor division leaves two's complement as it is."""
    places = torch.tensor([1 << k for k in range(bits - 1)], dtype=x.dtype)
    shifted = binary(L.unsqueeze(x, [x.ndim]), places, "FLOOR_DIV", x.dtype)
    return L.cast(shifted - binary(shifted, 2, "FLOOR_DIV", x.dtype) * 2, torch.bool)


@operation
def where(condition: Tensor, input: Any, other: Any) -> Tensor:
    """``input`` where ``condition`` holds, ``other`` elsewhere, broadcast: ISelectLayer."""
    network = require_network(condition, input, other)
    return choose(as_tensor(condition, network, torch.bool), input, other)


@operation
def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """``input`` with ``value`` where ``mask`` holds: ISelectLayer; the dtype is that of ``input``."""
    if mask.dtype != torch.bool:
        raise DefinitionError(f"masked_fill takes a mask of bool, not {mask.dtype}")
    return choose(mask, value, input, input.dtype)
