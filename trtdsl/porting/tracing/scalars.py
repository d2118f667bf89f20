"""Tensors of one number that is computed from sizes, such as ``torch.ceil(torch.as_tensor(n / 2)).long()``.

Where such a tensor bounds a slice, or becomes a number again, the size that it was made of takes its place.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...core.errors import Location
from ...core.lazy import torch
from ...sizes.operators import ARITHMETIC, COMPARISONS, FUNCTIONS, ROUNDING, SYMBOLS
from ..calls import leaves
from .frames import here
from .guards import note
from .names import CONVERSIONS
from .stand_ins import NAMESAKES
from .traced_sizes import expression_of, is_traced, plain_number

MADE = {"tensor", "as_tensor", "scalar_tensor"}
COMPUTED = {name: FUNCTIONS[symbol] for name, symbol in SYMBOLS.items() if symbol in ARITHMETIC}
COMPUTED |= {**ROUNDING, "neg": operator.neg, "rsub": lambda x, other: other - x}
READ = {"item", "int", "float", "index", "bool", "is_nonzero"}


@dataclass(frozen=True)
class Compared:
    """A comparison of sizes that a tensor holds; whoever reads it, asks it."""

    symbol: str
    left: Any
    right: Any
    outcome: bool

    def asked(self, location: Location | None) -> bool:
        note(self.symbol, expression_of(self.left), expression_of(self.right), self.outcome, location)
        return self.outcome


def number_of(
    name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any, numbers: Mapping[int, Any]
) -> Any:
    """The traced number that a call's result holds, computed from those of its operands; None where there is none."""
    if type(result) is not torch.Tensor or result.dim() or (name not in CONVERSIONS and (kwargs or len(args) > 2)):
        return None
    operands = [numbers.get(id(given), given) for given in args]
    if not operands or not any(map(is_traced, operands)):
        return None
    numbers_alone = all(isinstance(each, (int, float)) for each in operands)
    if (symbol := SYMBOLS.get(name)) in COMPARISONS and numbers_alone and len(operands) == 2:
        outcome = COMPARISONS[symbol](*map(plain_number, operands))
        return Compared(symbol, operands[0], operands[1], outcome) if outcome == result.item() else None
    number: Any = None
    if name in MADE or name in CONVERSIONS:
        kind = NAMESAKES["float" if result.dtype.is_floating_point else "int"]
        number = kind(operands[0])
    elif name in COMPUTED and numbers_alone:
        number = COMPUTED[name](*operands)
    exact = is_traced(number) and math.isclose(plain_number(number), result.item(), rel_tol=1e-6)
    return number if exact else None


def ends(name: str, sizes: Iterable[Any]) -> None:
    """Notes that the record of these sizes ends: what the call gives is known for them alone."""
    for size in sizes:
        note("==", size, size.number, True, here(), f"{name} of a tensor")


def measured(name: str, tensor: torch.Tensor, args: tuple[Any, ...], result: Any, shape: tuple[Any, ...]) -> Any:
    """What follows from a tensor's ``shape`` and its order in memory, such as its strides."""
    if name == "nbytes" and shape:
        return functools.reduce(operator.mul, shape) * tensor.element_size()
    if name == "stride" and shape:
        strides = tuple(functools.reduce(operator.mul, shape[axis + 1 :], 1) for axis in range(len(shape)))
        if tuple(map(plain_number, strides)) == tensor.stride():
            return strides[args[1]] if len(args) > 1 else strides
    ends(name, [size.expression for size in shape])
    return result


class SizesBehind:
    """The sizes that tensors with values are computed from."""

    def __init__(self, kept: list[Any]):
        self._sizes: dict[int, tuple[Any, ...]] = {}
        self._kept = kept

    def remember(self, operands: list[torch.Tensor], given: Any, result: Any) -> None:
        """Notes them for the result of a call with these operands and arguments."""
        sizes = [leaf.expression for leaf in leaves(given) if is_traced(leaf)]
        for operand in operands:
            sizes += self._sizes.get(id(operand), ())
        for tensor in leaves(result) if sizes else ():
            if type(tensor) is torch.Tensor:
                self._sizes[id(tensor)] = tuple(dict.fromkeys(sizes))
                self._kept.append(tensor)

    def end(self, name: str, tensor: torch.Tensor) -> None:
        """The record of what stands behind the tensor ends with the call."""
        ends(name, self._sizes.get(id(tensor), ()))
