"""Sizes while a module is traced: numbers that remember which dimension of which tensor they are.

A :class:`TracedInt` is an int in every respect; what Python computes from it is one too. So a module runs as it does
with numbers, branches and all, and a size can be written back as its author wrote it: ``h // 2 * w``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .graph import SizeExpression, SizeOp


class TracedInt(int):
    """An int and the expression that it came from."""

    expression: SizeExpression

    def __reduce__(self) -> Any:
        return int, (int(self),)  # a copy is a number


class TracedFloat(float):
    """A float made from sizes, as ``h / 2``."""

    expression: SizeExpression

    def __reduce__(self) -> Any:
        return float, (float(self),)


def traced(number: Any, expression: SizeExpression) -> Any:
    """The number with its expression; anything but an int or a float stays what it is."""
    kind = TracedInt if type(number) is int else TracedFloat if type(number) is float else None
    if kind is None:
        return number
    result = kind(number)
    result.expression = expression
    return result


def expression_of(number: Any) -> Any:
    """The expression of a traced number; any other number is its own."""
    return number.expression if isinstance(number, (TracedInt, TracedFloat)) else number


NEUTRAL = {("+", 0), ("-", 0), ("*", 1), ("//", 1)}  # on the right of a size


def _plain(number: Any) -> Any:
    if isinstance(number, TracedInt):
        return int(number)
    return float(number) if isinstance(number, TracedFloat) else number


def _operator(symbol: str, compute: Callable[..., Any], *, swapped: bool = False) -> Callable[..., Any]:
    def method(self: Any, *others: Any) -> Any:
        if not all(isinstance(other, (int, float)) for other in others):
            return NotImplemented
        operands = (*others, self) if swapped else (self, *others)
        if (symbol, operands[-1]) in NEUTRAL and type(operands[-1]) is int and len(operands) == 2:
            return self
        number = compute(*map(_plain, operands))
        return traced(number, SizeOp(symbol, tuple(map(expression_of, operands)), number))

    return method


_BINARY: dict[str, tuple[str, Callable[..., Any]]] = {
    "add": ("+", lambda a, b: a + b),
    "sub": ("-", lambda a, b: a - b),
    "mul": ("*", lambda a, b: a * b),
    "floordiv": ("//", lambda a, b: a // b),
    "truediv": ("/", lambda a, b: a / b),
    "mod": ("%", lambda a, b: a % b),
    "pow": ("**", lambda a, b: a**b),
}
for _name, (_symbol, _compute) in _BINARY.items():
    for _kind in (TracedInt, TracedFloat):
        setattr(_kind, f"__{_name}__", _operator(_symbol, _compute))
        setattr(_kind, f"__r{_name}__", _operator(_symbol, _compute, swapped=True))
for _kind in (TracedInt, TracedFloat):
    _kind.__neg__ = _operator("-", lambda a: -a)
for _name, _compute in (("ceil", math.ceil), ("floor", math.floor)):
    setattr(TracedFloat, f"__{_name}__", _operator(_name, _compute))
