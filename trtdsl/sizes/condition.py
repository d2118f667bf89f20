"""Comparisons of sizes that hold for some values of the dynamic dimensions and not for others."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from ..core.errors import ShapeError
from ..core.lazy import CURRENT_NETWORK
from .proof import signs
from .size import INFINITY, Atom, Size, SizeLike, ranges_text, size_to_json, value

SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


class Condition:
    """``left sign right`` of two sizes, such as ``H % 32 == 0``: for :func:`trtdsl.require`.

    It has a truth value only where the ranges of the dimensions, with what the network requires of them, decide it:
    ShapeError otherwise. ``~condition`` is its opposite.

    >>> td.Dim("H", min=1, max=64) % 32 == 0
    H % 32 == 0
    """

    __slots__ = ("left", "right", "sign")
    __hash__ = object.__hash__

    def __init__(self, left: SizeLike, sign: str, right: SizeLike):
        self.left, self.sign, self.right = left, sign, right

    def holds(self, env: Mapping[str, int]) -> bool:
        """Whether it holds where the dimensions have the values in ``env``."""
        return bool(SIGNS[self.sign](value(self.left, env), value(self.right, env)))

    def atoms(self) -> set[Atom]:
        """The Dims and tensor dimensions that it is about."""
        return {atom for size in (self.left, self.right) if isinstance(size, Size) for atom in size.atoms()}

    @property
    def names(self) -> set[str]:
        """Those of its atoms."""
        return set(map(str, self.atoms()))

    def to_json(self) -> list[Any]:
        """``[sign, left, right]``, the sizes as nested lists."""
        return [self.sign, size_to_json(self.left), size_to_json(self.right)]

    def __invert__(self) -> Condition:
        return Condition(self.left, OPPOSITE[self.sign], self.right)

    def __bool__(self) -> bool:
        decided = verdict(self)
        if decided is None:
            raise ShapeError(
                f"whether {self} depends on the dynamic dimensions ({ranges_text(self.left, self.right)}), but the "
                f"network is written once for all of them{self._hint()}"
            )
        return decided

    def _hint(self) -> str:
        extremum = "" if self.sign in ("==", "!=") else "; the greater and the lesser of two: td.size_max, td.size_min"
        return f" (td.require({self}) serves only the sizes where it holds{extremum})"

    def __repr__(self) -> str:
        return f"{self.left} {self.sign} {self.right}"


def compared(left: SizeLike, sign: str, right: SizeLike | float) -> bool | Condition:
    """A comparison: True or False where the ranges of the dimensions decide it, otherwise the Condition."""
    sign, bound = _whole(sign, right) if isinstance(right, float) else (sign, right)
    network = CURRENT_NETWORK.get()
    if network is not None:  # which may have another range for a dimension, or one size
        left, bound = network.resolved(left), network.resolved(bound)
    condition = Condition(left, sign, bound)
    decided = verdict(condition, required=False)
    return condition if decided is None else decided


def verdict(condition: Condition, *, required: bool = True) -> bool | None:
    """Whether the condition holds everywhere (True), nowhere (False), or neither is known (None).

    ``required`` takes what the network that is being written requires for granted.
    """
    least, zero, most = signs(condition.left - condition.right)
    outcomes = {SIGNS[condition.sign](sign, 0) for sign, possible in ((-1, least), (0, zero), (1, most)) if possible}
    if len(outcomes) == 1:
        return outcomes.pop()
    if not required:
        return None
    network = CURRENT_NETWORK.get()
    return None if network is None else network.constraints.decide(condition)


def _whole(sign: str, number: float) -> tuple[str, int]:
    """A comparison with a whole number that means the same: a size is more than 2.5 where it is more than 2."""
    if math.isinf(number):
        number = math.copysign(2.0 * INFINITY, number)
    below = math.floor(number)
    if number == below:
        return sign, below
    return {"==": ("==", -4 * INFINITY), "!=": ("!=", -4 * INFINITY), "<": ("<=", below), ">=": (">", below)}.get(
        sign, (sign, below)
    )
