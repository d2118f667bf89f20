"""Tensors of one number that is computed from sizes, such as ``torch.ceil(torch.as_tensor(n / 2)).long()``.

Where such a tensor bounds a slice, or becomes a number again, the size that it was made of takes its place.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from ...core.lazy import torch
from .names import CONVERSIONS
from .traced_sizes import NAMESAKES, TracedFloat, TracedInt

MADE = {"tensor", "as_tensor", "scalar_tensor"}
COMPUTED: dict[str, Callable[..., Any]] = {
    "ceil": math.ceil, "floor": math.floor, "round": round, "trunc": math.trunc, "neg": operator.neg,
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
    "floor_divide": operator.floordiv, "remainder": operator.mod, "rsub": lambda x, other: other - x,
}  # fmt: skip
READ = {"item", "int", "float", "index"}


def number_of(
    name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any, numbers: Mapping[int, Any]
) -> Any:
    """The traced number that a call's result holds, computed from those of its operands; None where there is none."""
    if type(result) is not torch.Tensor or result.dim() or (name not in CONVERSIONS and (kwargs or len(args) > 2)):
        return None
    operands = [numbers.get(id(given), given) for given in args]
    if not operands or not any(isinstance(each, (TracedInt, TracedFloat)) for each in operands):
        return None
    number: Any = None
    if name in MADE or name in CONVERSIONS:
        kind = NAMESAKES["float" if result.dtype.is_floating_point else "int"]
        number = kind(operands[0])
    elif name in COMPUTED and all(isinstance(each, (int, float)) for each in operands):
        number = COMPUTED[name](*operands)
    exact = isinstance(number, (TracedInt, TracedFloat)) and math.isclose(number, result.item(), rel_tol=1e-6)
    return number if exact else None
