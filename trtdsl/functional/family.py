"""Functions that differ in one thing alone: one implementation, and a row with name and docstring for each function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from ..definition.operation import operation

Key = TypeVar("Key")
P = ParamSpec("P")
R = TypeVar("R")
Function = TypeVar("Function", bound=Callable[..., Any])


def family(
    function: Callable[Concatenate[Key, P], R], text: str = "{}", /, **rows: tuple[Key, str]
) -> tuple[Callable[P, R], ...]:
    """A public function for each row: its name, the first argument of ``function``, and its docstring.

    The others are the parameters that each function has, with their defaults. Where the docstrings are alike, ``text``
    is what they share: a row's own words take the place of ``{}``, its name and first argument that of ``{name}`` and
    ``{key}``. tools/make_contents.py writes what an editor shows of each function.

    >>> power = lambda exponent, x: x**exponent
    >>> square, cube = family(power, "The {} of x: ``x ** {key}``.", square=(2, "square"), cube=(3, "cube"))
    >>> square(5), cube.__name__, cube.__doc__
    (25, 'cube', 'The cube of x: ``x ** 3``.')
    """
    return tuple(_member(function, name, key, text, words) for name, (key, words) in rows.items())


def member(function: Callable[Concatenate[Key, P], R], key: Key) -> Callable[[Callable[[], None]], Callable[P, R]]:
    """Makes a function with a name and a docstring alone one of a :func:`family`, where rows would be long.

    >>> @member(lambda exponent, x: x**exponent, 4)
    ... def fourth():
    ...     "The square of the square."
    >>> fourth(3), fourth.__name__, fourth.__doc__
    (81, 'fourth', 'The square of the square.')
    """
    return lambda written: _member(function, written.__name__, key, "{}", written.__doc__ or "")


def prepared(
    function: Callable[Concatenate[Callable[..., Any], P], R],
) -> Callable[[Callable[..., Any]], Callable[P, R]]:
    """Makes a function that computes one of a :func:`family` whose ``function`` prepares the operands for it.

    >>> @prepared(lambda compute, x: compute(float(x)))
    ... def half(x):
    ...     "The half of a number."
    ...     return x / 2
    >>> half("5"), half.__doc__
    (2.5, 'The half of a number.')
    """
    return lambda compute: member(function, compute)(compute)


def _member(function: Callable[Concatenate[Key, P], R], name: str, key: Key, text: str, words: str) -> Callable[P, R]:
    def member(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(key, *args, **kwargs)

    describe(member, function, list(inspect.signature(function).parameters.values())[1:])
    member.__name__ = member.__qualname__ = name
    own = inspect.cleandoc(words)
    member.__doc__ = own if text == "{}" else inspect.cleandoc(text).format(own, name=name, key=key)
    return operation(member)


def describe(made: Any, function: Callable[..., Any], parameters: list[inspect.Parameter] | None = None) -> None:
    """Gives a function the name, the docstring and the module of another, and these parameters, or its own."""
    made.__name__, made.__qualname__, made.__doc__ = function.__name__, function.__name__, function.__doc__
    parameters = list(inspect.signature(function).parameters.values()) if parameters is None else parameters
    made.__signature__ = inspect.signature(function).replace(parameters=parameters)
    left = {*inspect.signature(function).parameters} - {parameter.name for parameter in parameters}
    made.__annotations__ = {part: kind for part, kind in function.__annotations__.items() if part not in left}
    made.__module__ = function.__module__
