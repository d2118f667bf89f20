"""Sizes as numbers that tell where something is decided by them, or by what is computed of them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from .operators import ARITHMETIC, BITWISE, COMPARISONS, ROUNDING

UNARY = {"neg": operator.neg, "pos": operator.pos, "abs": abs, **ROUNDING}
BINARY = {**{compute.__name__: compute for compute in ARITHMETIC.values()}, "pow": pow}
DECIDING = [compute.__name__.strip("_") for compute in (*COMPARISONS.values(), *BITWISE.values())]
DECIDING += ["bool", "hash", "str", "repr", "format", "int", "float", "index", "divmod", "lshift", "rshift"]
"""What gives no number, or one that tells nothing any more."""


class FollowedInt(int):
    """An int in every respect, which calls ``tell`` where the author's code decides by it."""

    tell: Callable[[], None]
    __hash__ = int.__hash__


class FollowedFloat(float):
    """The same of what is computed as a float."""

    tell: Callable[[], None]
    __hash__ = float.__hash__


def followed(number: Any, tell: Callable[[], None]) -> Any:
    """A number that tells; of a tuple each; anything else as it is."""
    if isinstance(number, tuple):
        return type(number)([followed(each, tell) for each in number])
    kind = {int: FollowedInt, float: FollowedFloat}.get(type(number))
    if kind is None:
        return number
    made = kind(number)
    made.tell = tell
    return made


def _plain(number: Any) -> Any:
    if isinstance(number, FollowedInt):
        return int.__pos__(number)
    return float.__pos__(number) if isinstance(number, FollowedFloat) else number


def _computing(compute: Callable[..., Any], *, swapped: bool = False) -> Callable[..., Any]:
    def method(self: Any, *others: Any) -> Any:
        if not all(other is None or isinstance(other, (int, float)) for other in others):
            return NotImplemented
        given = map(_plain, (*others, self) if swapped else (self, *others))
        return followed(compute(*given), self.tell)

    return method


def _deciding(name: str) -> Callable[..., Any]:
    def method(self: Any, *others: Any) -> Any:
        self.tell()
        return getattr(_plain(self), name)(*map(_plain, others))

    return method


_kind: Any
for _kind in (FollowedInt, FollowedFloat):
    for _name, _compute in (UNARY | BINARY).items():
        setattr(_kind, f"__{_name}__", _computing(_compute))
    for _name, _compute in BINARY.items():
        setattr(_kind, f"__r{_name}__", _computing(_compute, swapped=True))
    for _name in (f"__{side}{name}__" for name in DECIDING for side in ("", "r")):
        if hasattr(_kind, _name):
            setattr(_kind, _name, _deciding(_name))
    _kind.is_integer = _deciding("is_integer")
    _kind.__reduce_ex__ = lambda self, protocol: (type(_plain(self)), (_plain(self),))  # of copies
