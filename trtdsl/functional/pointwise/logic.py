"""Comparisons, logic, bits, and choosing by them."""

from __future__ import annotations

import math
from typing import Any

from ... import layers as L
from ...core.errors import DefinitionError, UnsupportedError
from ...core.lazy import torch
from ...definition.operation import operation, require_network
from ...definition.tensor import Tensor
from ..operands import as_tensor, binary, choose, promote

# -- comparisons -------------------------------------------------------------------------------------------------------


def _comparable(input: Any, other: Any) -> list[Tensor]:
    """Operands that GREATER and LESS take: bool as int32."""
    a, b = promote(input, other)
    return [L.cast(x, torch.int32) for x in (a, b)] if a.dtype == torch.bool else [a, b]


def _not_ordered(a: Tensor, b: Tensor, op: str) -> Tensor:
    """``not (a op b)``, but False where either is NaN, as IEEE has it for <= and >=."""
    result = L.unary(L.elementwise(a, b, op), "NOT")
    for x in (a, b):
        if x.dtype.is_floating_point and not (x.is_constant and not bool(x.data.isnan().any())):
            result = L.elementwise(result, L.unary(L.unary(x, "ISNAN"), "NOT"), "AND")
    return result


@operation
def eq(input: Any, other: Any) -> Tensor:
    """``input == other``, broadcast: IElementWiseLayer EQUAL.

    >>> F.eq(td.Network().input("x", (2, 3)), 0).dtype
    torch.bool
    """
    return L.elementwise(*promote(input, other), op="EQUAL")


@operation
def ne(input: Any, other: Any) -> Tensor:
    """``input != other``, broadcast: IElementWiseLayer EQUAL and IUnaryLayer NOT.

    >>> F.ne(td.Network().input("x", (2, 3)), 0).dtype
    torch.bool
    """
    return L.unary(eq(input, other), "NOT")


@operation
def lt(input: Any, other: Any) -> Tensor:
    """``input < other``, broadcast: IElementWiseLayer LESS.

    >>> F.lt(td.Network().input("x", (2, 3)), 0).dtype
    torch.bool
    """
    return L.elementwise(*_comparable(input, other), op="LESS")


@operation
def le(input: Any, other: Any) -> Tensor:
    """``input <= other``, broadcast: IElementWiseLayer GREATER and IUnaryLayer NOT, ISNAN for operands that may be NaN.

    >>> F.le(td.Network().input("x", (2, 3)), 0).dtype
    torch.bool
    """
    a, b = _comparable(input, other)
    return _not_ordered(a, b, "GREATER")


@operation
def gt(input: Any, other: Any) -> Tensor:
    """``input > other``, broadcast: IElementWiseLayer GREATER.

    >>> F.gt(td.Network().input("x", (2, 3)), 0).dtype
    torch.bool
    """
    return L.elementwise(*_comparable(input, other), op="GREATER")


@operation
def ge(input: Any, other: Any) -> Tensor:
    """``input >= other``, broadcast: IElementWiseLayer LESS and IUnaryLayer NOT, ISNAN for operands that may be NaN.

    >>> F.ge(td.Network().input("x", (2, 3)), 0).dtype
    torch.bool
    """
    a, b = _comparable(input, other)
    return _not_ordered(a, b, "LESS")


@operation
def isnan(input: Tensor) -> Tensor:
    """Whether an element is NaN: IUnaryLayer ISNAN; integers never are.

    >>> F.isnan(td.Network().input("x", (2, 3))).dtype
    torch.bool
    """
    return L.unary(input, "ISNAN") if input.dtype.is_floating_point else _never(input)


@operation
def isinf(input: Tensor) -> Tensor:
    """Whether an element is infinite: IUnaryLayer ISINF; integers never are.

    >>> F.isinf(td.Network().input("x", (2, 3))).dtype
    torch.bool
    """
    return L.unary(input, "ISINF") if input.dtype.is_floating_point else _never(input)


@operation
def isposinf(input: Tensor) -> Tensor:
    """Whether an element is positive infinity: IElementWiseLayer EQUAL.

    >>> F.isposinf(td.Network().input("x", (2, 3))).dtype
    torch.bool
    """
    return binary(input, math.inf, "EQUAL", input.dtype) if input.dtype.is_floating_point else _never(input)


@operation
def isneginf(input: Tensor) -> Tensor:
    """Whether an element is negative infinity: IElementWiseLayer EQUAL.

    >>> F.isneginf(td.Network().input("x", (2, 3))).dtype
    torch.bool
    """
    return binary(input, -math.inf, "EQUAL", input.dtype) if input.dtype.is_floating_point else _never(input)


@operation
def isfinite(input: Tensor) -> Tensor:
    """Whether an element is neither infinite nor NaN: IUnaryLayer ISINF, ISNAN and NOT, IElementWiseLayer OR.

    >>> F.isfinite(td.Network().input("x", (2, 3))).dtype
    torch.bool
    """
    if not input.dtype.is_floating_point:
        return L.unary(_never(input), "NOT")
    return L.unary(L.elementwise(L.unary(input, "ISINF"), L.unary(input, "ISNAN"), "OR"), "NOT")


def _never(x: Tensor) -> Tensor:
    """False for every element: of the shape of ``x``, which may be dynamic."""
    flags = L.cast(x, torch.bool)
    return L.elementwise(flags, L.unary(flags, "NOT"), "AND")


@operation
def isclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """``|input - other| <= atol + rtol * |other|``, or equal: IElementWiseLayers and IUnaryLayers.

    >>> net = td.Network()
    >>> F.isclose(net.input("x", (2, 3)), net.input("y", (2, 3))).dtype
    torch.bool
    """
    if rtol < 0 or atol < 0:
        raise DefinitionError(f"isclose: rtol and atol must not be negative: {rtol}, {atol}")
    if input.dtype != other.dtype:
        raise DefinitionError(f"isclose compares tensors of one dtype, not {input.dtype} and {other.dtype}")
    a, b = promote(input, other)
    same = L.elementwise(a, b, "EQUAL")
    if a.dtype == torch.bool:
        return same
    if a.dtype.is_floating_point and equal_nan:
        same = L.elementwise(same, L.elementwise(L.unary(a, "ISNAN"), L.unary(b, "ISNAN"), "AND"), "OR")
    wide, other_wide = (x if x.dtype.is_floating_point else L.cast(x, torch.float32) for x in (a, b))
    allowed = binary(binary(L.unary(other_wide, "ABS"), rtol, "PROD", wide.dtype), atol, "SUM", wide.dtype)
    difference = L.unary(L.elementwise(wide, other_wide, "SUB"), "ABS")
    near = le(difference, allowed)
    if a.dtype.is_floating_point:
        near = L.elementwise(near, isfinite(difference), "AND")
    return L.elementwise(same, near, "OR")


# -- logic -------------------------------------------------------------------------------------------------------------


def _flags(*operands: Any) -> list[Tensor]:
    network = require_network(*operands)
    return promote(*(L.cast(as_tensor(operand, network), torch.bool) for operand in operands))


@operation
def logical_not(input: Tensor) -> Tensor:
    """Whether an element is 0: IUnaryLayer NOT, after ICastLayer for numbers.

    >>> F.logical_not(td.Network().input("x", (2, 3), "bool")).dtype
    torch.bool
    """
    return L.unary(_flags(input)[0], "NOT")


@operation
def logical_and(input: Any, other: Any) -> Tensor:
    """Both, broadcast: IElementWiseLayer AND; numbers are true unless 0.

    >>> F.logical_and(td.Network().input("x", (2, 3), "bool"), True).dtype
    torch.bool
    """
    return L.elementwise(*_flags(input, other), op="AND")


@operation
def logical_or(input: Any, other: Any) -> Tensor:
    """Either or both, broadcast: IElementWiseLayer OR; numbers are true unless 0.

    >>> F.logical_or(td.Network().input("x", (2, 3), "bool"), True).dtype
    torch.bool
    """
    return L.elementwise(*_flags(input, other), op="OR")


@operation
def logical_xor(input: Any, other: Any) -> Tensor:
    """One of the two, broadcast: IElementWiseLayer XOR; numbers are true unless 0.

    >>> F.logical_xor(td.Network().input("x", (2, 3), "bool"), True).dtype
    torch.bool
    """
    return L.elementwise(*_flags(input, other), op="XOR")


# -- bits --------------------------------------------------------------------------------------------------------------


@operation
def bitwise_not(input: Tensor) -> Tensor:
    """Every bit inverted: IUnaryLayer NOT for bool, ``-1 - input`` (IElementWiseLayer SUB) for integers.

    >>> F.bitwise_not(td.Network().input("n", (2, 3), "int32")).dtype
    torch.int32
    """
    (x,) = promote(input)
    _refuse_floats("bitwise_not", x)
    return L.unary(x, "NOT") if x.dtype == torch.bool else binary(-1, x, "SUB", x.dtype)


@operation
def bitwise_and(input: Any, other: Any) -> Tensor:
    """The bits that both have: IElementWiseLayer AND for bool.

    TensorRT has no bit operations on integers: they are taken apart into bits (IElementWiseLayer FLOOR_DIV by powers of
    two along a new dimension), and put together by IReduceLayer SUM. That takes 32 or 64 times the memory.

    >>> F.bitwise_and(td.Network().input("n", (2, 3), "int32"), 7).dtype
    torch.int32
    """
    return _bitwise("bitwise_and", input, other, "AND")


@operation
def bitwise_or(input: Any, other: Any) -> Tensor:
    """The bits that either has: IElementWiseLayer OR for bool; integers as in :func:`bitwise_and`.

    >>> F.bitwise_or(td.Network().input("n", (2, 3), "int32"), 7).dtype
    torch.int32
    """
    return _bitwise("bitwise_or", input, other, "OR")


@operation
def bitwise_xor(input: Any, other: Any) -> Tensor:
    """The bits that one of the two has: IElementWiseLayer XOR for bool; integers as in :func:`bitwise_and`.

    >>> F.bitwise_xor(td.Network().input("n", (2, 3), "int32"), 7).dtype
    torch.int32
    """
    return _bitwise("bitwise_xor", input, other, "XOR")


@operation
def bitwise_left_shift(input: Any, other: Any) -> Tensor:
    """``input * 2 ** other``: IGatherLayer in the powers of two, and IElementWiseLayer PROD.

    >>> F.bitwise_left_shift(td.Network().input("n", (2, 3), "int32"), 3).dtype
    torch.int32
    """
    a, b = promote(input, other)
    _refuse_floats("bitwise_left_shift", a)
    return L.elementwise(a, _power_of_two(b), "PROD")


@operation
def bitwise_right_shift(input: Any, other: Any) -> Tensor:
    """``floor(input / 2 ** other)``: IGatherLayer in the powers of two, and IElementWiseLayer FLOOR_DIV.

    >>> F.bitwise_right_shift(td.Network().input("n", (2, 3), "int32"), 3).dtype
    torch.int32
    """
    a, b = promote(input, other)
    _refuse_floats("bitwise_right_shift", a)
    return L.elementwise(a, _power_of_two(b), "FLOOR_DIV")


def _power_of_two(exponent: Tensor) -> Tensor:
    """``2 ** exponent`` exactly; POW of integers goes through float32."""
    bits = torch.iinfo(exponent.dtype).bits
    table = exponent.network.constant(torch.ones(bits, dtype=torch.int64).bitwise_left_shift_(torch.arange(bits)))
    return L.gather(L.cast(table, exponent.dtype), L.cast(exponent, torch.int64))


def _refuse_floats(name: str, x: Tensor) -> None:
    if x.dtype.is_floating_point:
        raise UnsupportedError(f"{name} takes bool and integers, as in torch, not {x.dtype}")


def _bitwise(name: str, input: Any, other: Any, op: str) -> Tensor:
    a, b = promote(input, other)
    _refuse_floats(name, a)
    if a.dtype == torch.bool:
        return L.elementwise(a, b, op)
    bits = torch.iinfo(a.dtype).bits
    low = L.elementwise(_bits(a, bits), _bits(b, bits), op)
    places = torch.tensor([1 << k for k in range(bits - 1)], dtype=a.dtype)
    value = L.reduce(binary(L.cast(low, a.dtype), places, "PROD", a.dtype), "SUM", [low.ndim - 1])
    # The sign of two's complement: -2 ** (bits - 1), which is the least value that the dtype has.
    high = L.elementwise(binary(a, 0, "LESS", a.dtype), binary(b, 0, "LESS", b.dtype), op)
    return L.elementwise(value, binary(L.cast(high, a.dtype), torch.iinfo(a.dtype).min, "PROD", a.dtype), "SUM")


def _bits(x: Tensor, bits: int) -> Tensor:
    """All bits but the sign, as bool, along a new last dimension; floor division leaves two's complement as it is."""
    places = torch.tensor([1 << k for k in range(bits - 1)], dtype=x.dtype)
    shifted = binary(L.unsqueeze(x, [x.ndim]), places, "FLOOR_DIV", x.dtype)
    halved = binary(shifted, 2, "FLOOR_DIV", x.dtype)
    return L.cast(L.elementwise(shifted, binary(halved, 2, "PROD", x.dtype), "SUB"), torch.bool)


# -- choosing ----------------------------------------------------------------------------------------------------------


@operation
def where(condition: Tensor, input: Any, other: Any) -> Tensor:
    """``input`` where ``condition`` holds, ``other`` elsewhere, broadcast: ISelectLayer.

    >>> net = td.Network()
    >>> F.where(net.input("c", (2, 1), "bool"), net.input("x", (3,)), 0.0).shape
    (2, 3)
    """
    network = require_network(condition, input, other)
    return choose(as_tensor(condition, network, torch.bool), input, other)


@operation
def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """``input`` with ``value`` where ``mask`` holds: ISelectLayer; the dtype is that of ``input``.

    >>> net = td.Network()
    >>> F.masked_fill(net.input("x", (2, 3)), net.input("m", (3,), "bool"), -1e9).shape
    (2, 3)
    """
    if mask.dtype != torch.bool:
        raise DefinitionError(f"masked_fill takes a mask of bool, not {mask.dtype}")
    return choose(mask, value, input, input.dtype)
