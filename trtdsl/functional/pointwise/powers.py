"""Powers, exactly where they are of integers."""

from __future__ import annotations

from typing import Any

from ..common import L, Tensor, UnsupportedError, operation, torch
from ..operands import binary, choose, promote


@operation
def pow(input: Any, exponent: Any) -> Tensor:
    """``input ** exponent``, broadcast: IElementWiseLayer POW.

    Exponents that are numbers take cheaper layers: PROD for 2 and 3, IUnaryLayer SQRT for 0.5, RECIP for -1, both
    for -0.5. Integers take PROD alone, since TensorRT raises them by way of float32; with an exponent that is a tensor,
    ISelectLayer for each of its bits, below 64. Theirs must not be negative.

    >>> F.pow(net.input("x", (2, 3)), 2).shape
    (2, 3)
    """
    a, b = promote(input, exponent)
    if a.dtype == torch.bool:
        # A power of bool is input or not exponent: 0 ** 0 is 1.
        return L.elementwise(a, L.unary(b, "NOT"), "OR")
    if isinstance(exponent, (int, float)) and not isinstance(exponent, bool) and isinstance(input, Tensor):
        if exponent == 1:
            return a
        if not a.dtype.is_floating_point:
            return _whole_power(a, int(exponent))
        if exponent in (2, 3):
            squared = L.elementwise(a, a, "PROD")
            return squared if exponent == 2 else L.elementwise(squared, a, "PROD")
        if exponent in (0.5, -0.5):
            root = L.unary(a, "SQRT")
            return root if exponent == 0.5 else L.unary(root, "RECIP")
        if exponent == -1:
            return L.unary(a, "RECIP")
    return L.elementwise(a, b, "POW") if a.dtype.is_floating_point else _power_by_bits(a, b)


def _whole_power(x: Tensor, exponent: int) -> Tensor:
    """An integer to a constant power: the product of its powers of two."""
    if exponent < 0:
        raise UnsupportedError("integers to negative integer powers are not defined, in torch either")
    result = None
    while exponent:
        if exponent % 2:
            result = x if result is None else L.elementwise(result, x, "PROD")
        exponent //= 2
        x = L.elementwise(x, x, "PROD") if exponent else x
    return choose(binary(x, x, "EQUAL"), 1, x, x.dtype) if result is None else result


def _power_by_bits(x: Tensor, exponent: Tensor) -> Tensor:
    one = x.network.constant(torch.ones((1,) * x.ndim, dtype=x.dtype))
    result = None
    for bit in range(6):
        half = binary(exponent, 2, "DIV", exponent.dtype)
        odd = L.elementwise(exponent, binary(half, 2, "PROD", half.dtype), "GREATER")
        result = L.select(
            odd, x if result is None else L.elementwise(result, x, "PROD"), one if result is None else result
        )
        if bit < 5:
            x, exponent = L.elementwise(x, x, "PROD"), half
    assert result is not None
    return result
