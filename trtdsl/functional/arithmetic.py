"""Arithmetic on elements, with torch's broadcasting, type promotion and integer rules."""

from __future__ import annotations

from typing import Any

from .. import layers as L
from ..errors import UnsupportedError
from ..lazy import torch
from ..network import operation
from ..tensor import Tensor
from .operands import promote


@operation
def add(input: Any, other: Any, *, alpha: float = 1) -> Tensor:
    """``input + alpha * other``, broadcast: IElementWiseLayer SUM (OR for bool), PROD before it for an alpha.

    https://docs.pytorch.org/docs/stable/generated/torch.add.html

    >>> net = td.Network()
    >>> F.add(net.input("x", (2, 3)), 1).shape
    (2, 3)
    """
    a, b = promote(input, other)
    if a.dtype == torch.bool:
        return L.elementwise(a, b, "OR")
    if alpha != 1:
        a, b = promote(a, L.elementwise(*promote(b, alpha, dtype=b.dtype), "PROD"))
    return L.elementwise(a, b, "SUM")


@operation
def sub(input: Any, other: Any, *, alpha: float = 1) -> Tensor:
    """``input - alpha * other``, broadcast: IElementWiseLayer SUB. bool is refused, as by torch.

    >>> net = td.Network()
    >>> F.sub(net.input("x", (2, 3)), net.input("y", (3,))).shape
    (2, 3)
    """
    a, b = promote(input, other)
    if a.dtype == torch.bool:
        raise UnsupportedError("torch does not subtract bool tensors: use F.logical_xor or F.logical_not")
    if alpha != 1:
        a, b = promote(a, L.elementwise(*promote(b, alpha, dtype=b.dtype), "PROD"))
    return L.elementwise(a, b, "SUB")


@operation
def mul(input: Any, other: Any) -> Tensor:
    """``input * other``, broadcast: IElementWiseLayer PROD (AND for bool).

    >>> F.mul(td.Network().input("x", (2, 3)), 2.0).shape
    (2, 3)
    """
    a, b = promote(input, other)
    return L.elementwise(a, b, "AND" if a.dtype == torch.bool else "PROD")


@operation
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """``input / other``, broadcast: IElementWiseLayer DIV; integers become float32 first.

    ``rounding_mode="floor"`` gives FLOOR_DIV, ``"trunc"`` integer DIV, or on floats ``sign(q) * floor(abs(q))``.

    >>> net = td.Network()
    >>> F.div(net.input("n", (2,), "int32"), 2).dtype
    torch.float32
    """
    if rounding_mode not in (None, "floor", "trunc"):
        raise UnsupportedError(f"div: rounding_mode is None, 'floor' or 'trunc', not {rounding_mode!r}")
    a, b = promote(input, other, integers_to_float=rounding_mode is None)
    if rounding_mode == "floor":
        return L.elementwise(a, b, "FLOOR_DIV")
    quotient = L.elementwise(a, b, "DIV")
    if rounding_mode == "trunc" and quotient.dtype.is_floating_point:
        quotient = L.elementwise(L.unary(quotient, "SIGN"), L.unary(L.unary(quotient, "ABS"), "FLOOR"), "PROD")
    return quotient


@operation
def floor_divide(input: Any, other: Any) -> Tensor:
    """``input // other``, rounded down: IElementWiseLayer FLOOR_DIV.

    >>> F.floor_divide(td.Network().input("n", (2,), "int32"), 2).dtype
    torch.int32
    """
    return L.elementwise(*promote(input, other), "FLOOR_DIV")


@operation
def pow(input: Any, exponent: Any) -> Tensor:
    """``input ** exponent``, broadcast: IElementWiseLayer POW; PROD for a square, IUnaryLayer SQRT for a square root.

    >>> F.pow(td.Network().input("x", (2, 3)), 2).shape
    (2, 3)
    """
    if isinstance(exponent, (int, float)) and isinstance(input, Tensor):
        if exponent == 2 and not isinstance(exponent, bool) and input.dtype != torch.bool:
            a, _ = promote(input, exponent)
            return L.elementwise(a, a, "PROD")
        if exponent == 0.5 and input.dtype.is_floating_point:
            return L.unary(input, "SQRT")
    return L.elementwise(*promote(input, exponent), "POW")


@operation
def neg(input: Tensor) -> Tensor:
    """``-input``: IUnaryLayer NEG.

    >>> F.neg(td.Network().input("x", (2, 3))).shape
    (2, 3)
    """
    (x,) = promote(input)
    return L.unary(x, "NEG")


@operation
def abs(input: Tensor) -> Tensor:
    """The absolute value: IUnaryLayer ABS.

    >>> F.abs(td.Network().input("x", (2, 3))).shape
    (2, 3)
    """
    (x,) = promote(input)
    return L.unary(x, "ABS")


@operation
def exp(input: Tensor) -> Tensor:
    """``e ** input``: IUnaryLayer EXP; integers become float32 first.

    >>> F.exp(td.Network().input("x", (2, 3))).shape
    (2, 3)
    """
    (x,) = promote(input, integers_to_float=True)
    return L.unary(x, "EXP")


@operation
def sqrt(input: Tensor) -> Tensor:
    """The square root: IUnaryLayer SQRT; integers become float32 first.

    >>> F.sqrt(td.Network().input("x", (2, 3))).shape
    (2, 3)
    """
    (x,) = promote(input, integers_to_float=True)
    return L.unary(x, "SQRT")
