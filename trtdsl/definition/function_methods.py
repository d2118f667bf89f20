"""Functions of :mod:`trtdsl.functional` as methods of Tensor: those that torch.Tensor has, and Python's operators.

The names are those of the stub beside this file, which editors and type checkers read;
tools/make_contents.py writes it. A method is the function itself, with its signature and docstring.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ..core.lazy import F
from ..sizes.torch_calls import OPERATORS

NAMES = tuple(re.findall(r"^    ([a-z]\w*) = ", Path(__file__).with_suffix(".pyi").read_text("utf-8"), re.MULTILINE))
REFLECTED = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor")


class FunctionMethod:
    """A placeholder for a function, replaced by it at the first use: functional is imported after Tensor."""

    def __init__(self, name: str, function: str, reflected: bool = False):
        self.name, self.function, self.reflected = name, function, reflected

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        function = found = getattr(F, self.function)
        if self.reflected:

            def function(self: Any, other: Any) -> Any:
                return found(other, self)

        setattr(FunctionMethods, self.name, function)
        return function if instance is None else function.__get__(instance)


class FunctionMethods:
    """The methods that are functions of :mod:`trtdsl.functional` themselves."""

    __slots__ = ()


for _name in NAMES:
    setattr(FunctionMethods, _name, FunctionMethod(_name, _name))
for _name, _function in OPERATORS.items():
    setattr(FunctionMethods, f"__{_name}__", FunctionMethod(f"__{_name}__", _function))
for _name in REFLECTED:
    setattr(FunctionMethods, f"__r{_name}__", FunctionMethod(f"__r{_name}__", OPERATORS[_name], True))
