"""Functions that take sizes as the numbers that they are: what they give is found by trying, and proven by it, too."""

from __future__ import annotations

import builtins
import math
import opcode
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from itertools import pairwise
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from ...sizes.operators import ARITHMETIC
from ..calls import SizeExpression, SizeOp, leaves, number_of, rebuilt

PERIOD = 64  # the longest after which a function goes on as before
LINES = 50_000  # that a function may run for one number
PLAIN = (int, float, str, bytes, Enum, type(None), type)  # what arguments may be beside sizes
PURE = {
    "abs", "all", "any", "bool", "divmod", "enumerate", "float", "int", "len", "list", "map", "max", "min", "pow",
    "range", "reversed", "round", "set", "sorted", "str", "sum", "tuple", "zip",
}  # fmt: skip
"""Python's own functions that compute of what they are given alone."""


class OfNumbers:
    """One result of a function of which some arguments are open: of these numbers; NaN where it gives no number."""

    def __init__(self, function: Callable[..., Any], given: Any, is_open: Callable[[Any], bool], place: int | None):
        self._function, self._given, self._is_open, self._place = function, given, is_open, place
        self._known: dict[tuple[Any, ...], Any] = {}

    def __call__(self, *numbers: Any) -> Any:
        if not all(isinstance(number, (int, float)) for number in numbers):
            raise TypeError("it is a function of numbers")
        if numbers not in self._known:
            self._known[numbers] = self._computed(numbers)
        return self._known[numbers]

    def _computed(self, numbers: tuple[Any, ...]) -> Any:
        left = iter(numbers)
        args, options = rebuilt(self._given, lambda leaf: next(left) if self._is_open(leaf) else leaf)
        try:
            with _at_most(LINES):
                result = self._function(*args, **options)
            return whole_number(result if self._place is None else result[self._place])
        except Exception:  # as forward fails there
            return math.nan


@contextmanager
def _at_most(lines: int) -> Iterator[None]:
    """A context in which Python runs so many lines at most: at numbers that are no sizes, a loop may have no end."""
    left, before = lines, sys.gettrace()

    def ran(*_: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise RuntimeError("it goes on and on")
        return ran

    sys.settrace(ran)
    try:
        yield
    finally:
        sys.settrace(before)


def whole_number(number: Any) -> Any:
    """A whole number, or a truth, as Python's own; NaN for anything else."""
    if type(number).__module__ == "numpy" and getattr(number, "shape", None) == ():
        number = number.item()
    return number if type(number) in (int, bool) else math.nan


def fitted(function: Callable[[int], Any], size: SizeExpression) -> SizeExpression | None:
    """The size ``d * ((a * size + b) // c) + e`` that a function gives of the numbers near this one; None for no such.

    Of a function that goes on like this it is the same size wherever it is looked for.
    """
    number = int(number_of(size))
    low = high = number
    while low > max(number - 2 * PERIOD, 1) and _is_whole(function(low - 1)):  # what is below is no size
        low -= 1
    while high < number + 2 * PERIOD and _is_whole(function(high + 1)):
        high += 1
    found = [function(each) for each in range(low, high + 1)]
    for period in range(1, min(PERIOD, (high - low) // 2) + 1):
        rises = {after - before for before, after in zip(found, found[period:])}
        if len(rises) == 1:
            rise = rises.pop()
            return _in_steps(size, found[: period + 1], low, period, rise) if rise else None
    return None


def _is_whole(number: Any) -> bool:
    return type(number) is int


def _in_steps(size: SizeExpression, found: list[int], low: int, period: int, rise: int) -> SizeExpression | None:
    step = math.gcd(*(after - before for before, after in pairwise(found)))
    beside = found[0] % step
    ends = [(each - beside) // step * period - rise // step * (low + place) for place, each in enumerate(found)]
    if max(ends) - min(ends) >= period:
        return None
    top = _plus(_times(size, rise // step), max(ends))
    whole = top if period == 1 else _op("//", top, period)
    return _plus(_times(whole, step), beside)


def _times(size: SizeExpression, number: int) -> SizeExpression:
    return size if number == 1 else _op("*", size, number)


def _plus(size: SizeExpression, number: int) -> SizeExpression:
    return size if not number else _op("+" if number > 0 else "-", size, abs(number))


def _op(symbol: str, size: SizeExpression, number: int) -> SizeExpression:
    return SizeOp(symbol, (size, number), ARITHMETIC[symbol](number_of(size), number))


# -- which functions are tried -----------------------------------------------------------------------------------------


def is_plain(tree: Any) -> bool:
    """Whether arguments are numbers, texts and their like alone."""
    return all(isinstance(leaf, PLAIN) for leaf in leaves(tree))


def is_function(held: Any) -> bool:
    """Whether it is a function in Python or in C, and no method of an object."""
    owner = getattr(held, "__self__", None)
    alone = owner is None or isinstance(owner, ModuleType) or type(owner).__name__ == "PyCapsule"
    return alone and (isinstance(held, (FunctionType, BuiltinFunctionType)) or type(held).__name__ in OTHERS)


OTHERS = {"_lru_cache_wrapper", "cython_function_or_method", "fused_cython_function", "nb_func"}
CHANGES = {
    opcode.opmap[name]
    for name in ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR", "IMPORT_NAME", "YIELD_VALUE")
}


def computes_numbers(held: Any, inside: tuple[Any, ...] = ()) -> bool:
    """Whether a function in Python is seen to compute of its arguments alone, by arithmetic and Python's functions."""
    if type(held) is not FunctionType or held.__closure__ or not is_plain((held.__defaults__, held.__kwdefaults__)):
        return False
    return held in inside or _is_pure(held.__code__, held.__globals__, (*inside, held))


def _is_pure(code: CodeType, names: dict[str, Any], inside: tuple[Any, ...]) -> bool:
    for name in code.co_names:
        known = names.get(name)
        if name in names:
            of_numbers = isinstance(known, ModuleType) and known.__name__ in ("math", "numpy")
            if not (of_numbers or type(known) in (int, float, bool, str) or computes_numbers(known, inside)):
                return False
        elif name == "random" or (name in vars(builtins) and name not in PURE):
            return False
    own = (each for each in code.co_consts if isinstance(each, CodeType))
    return CHANGES.isdisjoint(code.co_code[::2]) and all(_is_pure(each, names, inside) for each in own)
