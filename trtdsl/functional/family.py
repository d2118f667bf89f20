"""Functions that differ in one thing alone: one implementation, and a row with name and docstring for each function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from ..definition.operation import operation

Key = TypeVar("Key")
P = ParamSpec("P")
R = TypeVar("R")


def family(function: Callable[Concatenate[Key, P], R], **rows: tuple[Key, str]) -> tuple[Callable[P, R], ...]:
    """A public function for each row: its name, the first argument of ``function``, and its docstring.

    The others are the parameters that each function has, with their defaults.

    >>> power = lambda exponent, x: x**exponent
    >>> square, cube = family(power, square=(2, "The square."), cube=(3, "The cube."))
    >>> square(5), cube.__name__
    (25, 'cube')
    """
    return tuple(_member(function, name, key, text) for name, (key, text) in rows.items())


def _member(function: Callable[Concatenate[Key, P], R], name: str, key: Key, text: str) -> Callable[P, R]:
    def member(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(key, *args, **kwargs)

    signature = inspect.signature(function)
    member.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])  # type: ignore[attr-defined]
    first = next(iter(signature.parameters))
    member.__annotations__ = {part: kind for part, kind in function.__annotations__.items() if part != first}
    member.__module__, member.__name__, member.__qualname__ = function.__module__, name, name
    member.__doc__ = inspect.cleandoc(text)
    return operation(member)
