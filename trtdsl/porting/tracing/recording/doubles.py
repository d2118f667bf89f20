"""What calls give of known numbers in float64, as a check has it: without the rounding of what they are made of."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from typing import Any

from ....core.lazy import torch
from ...calls import Op, SizeOf, SizeOp, Value, Weight, function_of, leaves, rebuilt

WIDE = {torch.float32: torch.float64, torch.complex64: torch.complex128}
ROUNDING = 1e-15  # of a number, by a few operations in float64
CLOSE = 1e-3  # of the greatest value, as far as float32's rounding may lead


class _Unknown(Exception):
    """A call that cannot be made once more."""


def in_double(op: Op, single: torch.Tensor) -> torch.Tensor | None:
    """What a call gives that gives ``single`` in float32; None where it cannot be said."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # that of what is made of numbers
    try:
        found = Doubles({}).made(op)
    except Exception:  # torch's own, of what a call in float64 does not take
        return None
    finally:
        torch.set_default_dtype(usual)
    if not isinstance(found, torch.Tensor) or found.dtype != WIDE[single.dtype] or found.shape != single.shape:
        return None
    same = torch.isclose(
        found.to(single.dtype), single, CLOSE, CLOSE * float(single.abs().nan_to_num(0, 0).max()), equal_nan=True
    )
    wide = single.to(found.dtype)  # a number that float32 has, but for the rounding of float64 itself, is that number
    found = torch.where((found - wide).abs() <= ROUNDING * wide.abs(), wide, found)
    return found if bool(same.all()) else None


class Doubles:
    """What values are, in float64, where some of them are ``given``."""

    def __init__(self, given: Mapping[Value, torch.Tensor]):
        self._given = given
        self.value = functools.cache(self._value)

    def made(self, op: Op) -> Any:
        function = operator.attrgetter(op.name) if op.form == "attribute" else function_of(op.qualified)
        if op.inner or op.form == "setitem" or not callable(function):
            raise _Unknown
        args, kwargs = rebuilt((op.args, op.kwargs), self._leaf)
        return function(*args, **kwargs)

    def _leaf(self, leaf: Any) -> Any:
        if isinstance(leaf, Value):
            return self.value(leaf).clone()
        if isinstance(leaf, (SizeOf, SizeOp)):
            return leaf.number
        return WIDE.get(leaf, leaf) if isinstance(leaf, torch.dtype) else leaf

    def _value(self, value: Value) -> torch.Tensor:
        op = value.producer
        if value in self._given:
            return self._given[value]
        if isinstance(value, Weight) or op is None:
            raise _Unknown
        made = self.made(op)
        found = next(each for own, each in zip(leaves(op.results), leaves(made), strict=True) if own is value)
        return found.to(WIDE.get(found.dtype, found.dtype))
