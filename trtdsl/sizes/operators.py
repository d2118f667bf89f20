"""Python's operators by their symbols, torch's names for them, and the functions that numbers are made by."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

from .size import SizeLike, size_max, size_min, size_sqrt

ARITHMETIC: dict[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "/": operator.truediv,
    "%": operator.mod, "**": operator.pow,
}  # fmt: skip
BITWISE: dict[str, Callable[..., Any]] = {"&": operator.and_, "|": operator.or_, "^": operator.xor}
COMPARISONS: dict[str, Callable[..., Any]] = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
FUNCTIONS = {**ARITHMETIC, **BITWISE, **COMPARISONS, "@": operator.matmul}
SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "true_divide": "/", "matmul": "@", "floor_divide": "//",
    "remainder": "%", "pow": "**", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
    "eq": "==", "ne": "!=", "gt": ">", "ge": ">=", "lt": "<", "le": "<=",
}  # fmt: skip
"""By torch's names of its functions."""


def _isqrt(size: SizeLike) -> SizeLike:
    return math.isqrt(size) if isinstance(size, int) else size_sqrt(size)


MATH: dict[str, Callable[..., Any]] = {
    f"math.{name}": getattr(math, name)
    for name in ("log", "log2", "log10", "log1p", "exp", "pow", "gcd", "lcm", "hypot", "fabs", "copysign")
} | {"math.isqrt": _isqrt}
FRACTIONS = ("math.log", "math.log2", "math.log10", "math.log1p", "math.exp")
"""Those of one number, which a Tensor has too."""
ROUNDING: dict[str, Callable[..., Any]] = {
    "int": int, "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "round": round,
}  # fmt: skip
EXTREMA: dict[str, Callable[..., Any]] = {
    "min": lambda *given: functools.reduce(size_min, given),
    "max": lambda *given: functools.reduce(size_max, given),
}
OF_SIZES = {**FUNCTIONS, **MATH, **ROUNDING, **EXTREMA}
"""All that numbers of a trace are computed by, of numbers and, where these can, of sizes."""
