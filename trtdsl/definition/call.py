"""Where the author's call stands, and what a message says of it."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, NamedTuple

from ..core.author import is_authors
from ..core.errors import PACKAGE
from .common import Location, Shape, SizeLike, dtype_name, shape_text, torch


class Operand(NamedTuple):
    """What a message says of an operand."""

    shape: Shape
    dtype: Any

    def __str__(self) -> str:
        return f"{shape_text(self.shape)} {dtype_name(self.dtype)}"


class Call(NamedTuple):
    """The author's call without the values of its operands, for a message."""

    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]

    @classmethod
    def of(cls, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
        """The call of a function with these arguments."""
        return cls(function, list(map(_seen, args)), {name: _seen(given) for name, given in kwargs.items()})

    def operands(self) -> list[tuple[str, Operand]]:
        """The operands with the names of their arguments: ``tensors[1]``."""
        given = inspect.signature(self.function).bind_partial(*self.args, **self.kwargs).arguments
        return [found for argument, value in given.items() for found in _labelled(argument, value)]

    def lines(self, *sizes: SizeLike) -> list[str]:
        """A line for each operand; it says which of its dimensions has one of the ``sizes`` that are in question."""
        texts, lines = list(map(str, sizes)), []
        for label, operand in self.operands():
            found = [(axis, text) for axis, text in enumerate(map(str, operand.shape)) if text in texts]
            note = f", dimension {found[0][0]} is {found[0][1]}" if len(found) == 1 and operand.shape[1:] else ""
            lines.append(f"{label}: {operand}{note}")
        return lines


def author_location() -> Location | None:
    """The author's place: the first frame outside trtdsl."""
    frame = author_frame()
    return None if frame is None else Location(frame.f_code.co_filename, frame.f_lineno)


def author_frame() -> FrameType | None:
    """The first frame outside trtdsl."""
    frame: FrameType | None = sys._getframe(2)  # trtdsl's own functions call this one
    while frame is not None:
        if not _is_passed(frame.f_code.co_filename):
            return frame
        frame = frame.f_back
    return None


def caller_of(frame: FrameType | None) -> Location | None:
    """The author's place that calls the function of an author's frame; None where trtdsl or a library calls it."""
    outer = None if frame is None else frame.f_back
    while outer is not None and outer.f_code.co_name in COMPREHENSIONS:
        outer = outer.f_back  # Python 3.12 has no functions for them
    if frame is None or outer is None or frame.f_code.co_name == "<module>" or not is_authors(outer.f_code.co_filename):
        return None
    return Location(outer.f_code.co_filename, outer.f_lineno)


COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


@functools.lru_cache(maxsize=1024)
def _is_passed(file: str) -> bool:
    """Whether a frame of this file stands between the author's code and the layers."""
    return file.startswith(PACKAGE) or file.endswith(("contextlib.py", "functools.py"))


def _seen(given: Any) -> Any:
    """An argument with the shape and the dtype of a tensor in its place."""
    if isinstance(given, (list, tuple)):
        return list(map(_seen, given))
    if hasattr(type(given), "shape") and hasattr(type(given), "dtype"):  # a Scope has every name
        return Operand(tuple(given.shape), given.dtype if isinstance(given.dtype, torch.dtype) else str(given.dtype))
    return given


def _labelled(label: str, given: Any) -> Iterator[tuple[str, Operand]]:
    """The operands in an argument, each with its place: ``tensors[1]``."""
    if isinstance(given, Operand):
        yield label, given
    elif isinstance(given, (list, tuple)):
        for index, item in enumerate(given):
            yield from _labelled(f"{label}[{index}]", item)
