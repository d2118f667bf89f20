"""Functions of :mod:`trtdsl.functional` as methods of Tensor: those that torch.Tensor has, under the same names.

The names are those of the stub beside this file, which has each method's parameters for editors and type checkers;
tools/make_contents.py writes it from the functions. A method is the function itself, with its signature and docstring.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ..core.lazy import F

NAMES = tuple(re.findall(r"^    def (\w+)\(", Path(__file__).with_suffix(".pyi").read_text(), re.MULTILINE))


class FunctionMethod:
    """A placeholder for a function, replaced by it at the first use: functional is imported after Tensor."""

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        function = getattr(F, self.name)
        setattr(FunctionMethods, self.name, function)
        return function if instance is None else function.__get__(instance)


class FunctionMethods:
    """The methods that are functions of :mod:`trtdsl.functional` themselves."""

    __slots__ = ()


for _name in NAMES:
    setattr(FunctionMethods, _name, FunctionMethod(_name))
