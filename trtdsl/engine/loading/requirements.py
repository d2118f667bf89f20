"""What an engine requires of its feeds' sizes beyond the ranges of its profiles: ``td.require``, in the manifest."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...sizes.condition import SIGNS

Shape = tuple[int, ...]
Place = tuple[str, int, int, int]
"""An input's name, one of its axes, and a and b where that is ``a * dimension + b``."""

ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "*": operator.mul, "//": operator.floordiv, "max": max, "min": min
}  # fmt: skip
LARGEST = 2**63 - 1  # of numbers, as in C++
DEEPEST = 64  # of an expression in a file


@dataclass(frozen=True)
class Requirement:
    """A condition of sizes: ``[sign, left, right]``, of ints, names of dimensions, and ``[operation, size, …]``."""

    text: str
    why: str
    expression: tuple[Any, ...]
    places: Mapping[str, Place]
    """Where each dimension is found."""

    def failure(self, shapes: Mapping[str, Shape]) -> str | None:
        """A sentence on the sizes of these inputs that violate a condition; None where all conditions hold."""
        env = {
            name: (shapes[tensor][axis] - offset) // factor
            for name, (tensor, axis, factor, offset) in self.places.items()
        }
        sign, left, right = self.expression
        try:
            if SIGNS[sign](_value(left, env), _value(right, env)):
                return None
        except ArithmeticError:
            pass
        found = ", ".join(
            f"dimension {axis} of input {tensor!r} is {shapes[tensor][axis]}"
            for tensor, axis, _, _ in dict.fromkeys(self.places.values())
        )
        return f"{found}, and the engine serves only sizes where {self.text}{f': {self.why}' * bool(self.why)}"


def _value(size: Any, env: Mapping[str, int]) -> int:
    if isinstance(size, int):
        return size
    if isinstance(size, str):
        return env[size]
    return functools.reduce(functools.partial(_computed, size[0]), (_value(part, env) for part in size[1:]))


def _computed(operation: str, a: int, b: int) -> int:
    result = ARITHMETIC[operation](a, b)
    if not -LARGEST - 1 <= result <= LARGEST:
        raise OverflowError
    return result


def checked_expression(given: Any, names: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """A condition read from a file, in the form that a Requirement keeps; None for a value that is no condition."""
    if not isinstance(given, list) or len(given) != 3 or not isinstance(given[0], str) or given[0] not in SIGNS:
        return None
    left, right = (_checked(size, names, DEEPEST) for size in given[1:])
    return None if left is None or right is None else (given[0], left, right)


def _checked(size: Any, names: Mapping[str, Any], depth: int) -> Any:
    if isinstance(size, str):
        return size if size in names else None
    if isinstance(size, int):
        return None if isinstance(size, bool) or not -LARGEST - 1 <= size <= LARGEST else size
    if not isinstance(size, list) or len(size) < 3 or not isinstance(size[0], str) or depth == 0:
        return None
    parts = [_checked(part, names, depth - 1) for part in size[1:]]
    known = size[0] in ARITHMETIC and all(part is not None for part in parts)
    return (size[0], *parts) if known and (size[0] in "+*" or len(parts) == 2) else None
