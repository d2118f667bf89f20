"""The author's code in Python's stack of frames: which line is running, inside of which functions."""

from __future__ import annotations

import inspect
import os
import sys
from functools import cache
from types import FrameType
from typing import Any

from ...core.errors import PACKAGE, Location
from ...core.lazy import torch

MODULE_FILE = os.path.join("torch", "nn", "modules", "module.py")


@cache
def is_inside(file: str) -> bool:
    """Whether the file is torch's, trtdsl's or Python's own, and not the author's."""
    # The last is Python itself, whose exit() is written in it.
    inside = (os.path.dirname(torch.__file__) + os.sep, PACKAGE, "<frozen")
    return file.startswith(inside) or file.endswith(("contextlib.py", "functools.py"))


def authors_frame() -> FrameType | None:
    """The innermost frame of the author's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_inside(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def here() -> Location | None:
    """The author's line that is running."""
    frame = authors_frame()
    return None if frame is None else Location(frame.f_code.co_filename, frame.f_lineno)


def place_of(error: BaseException) -> Location | None:
    """The author's line that raised the error."""
    place = None
    traceback = error.__traceback__
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if not is_inside(file):
            place = Location(file, traceback.tb_lineno)
        traceback = traceback.tb_next
    return place


def helper_frames(begins: bool) -> list[FrameType]:
    """The functions of the author's that run inside of the running module's forward, outermost first.

    ``begins`` says that another module is about to run.
    """
    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    if begins:  # torch's own call of the module that begins
        while frame is not None and not frame.f_code.co_filename.endswith(MODULE_FILE):
            frame = frame.f_back
        while frame is not None and frame.f_code.co_filename.endswith(MODULE_FILE):
            frame = frame.f_back
    while frame is not None and not frame.f_code.co_filename.endswith(MODULE_FILE):
        if not is_inside(frame.f_code.co_filename):
            frames.append(frame)
        frame = frame.f_back
    frames.reverse()
    names = [frame.f_code.co_name for frame in frames]
    frames = frames[names.index("forward") + 1 if "forward" in names else 1 :]
    return [frame for frame in frames if not _anonymous(frame)]


def _anonymous(frame: FrameType) -> bool:
    """Whether the frame is a comprehension, a lambda, a generator or a decorator's."""
    code = frame.f_code
    wraps = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS) and code.co_freevars
    return code.co_name.startswith("<") or bool(code.co_flags & inspect.CO_GENERATOR) or bool(wraps)


def bound(forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments by the names of forward's parameters; those of ``*args`` by number."""
    try:
        arguments = inspect.signature(forward).bind(*args, **kwargs).arguments
    except TypeError:
        return {**{f"argument_{index}": item for index, item in enumerate(args)}, **kwargs}
    result: dict[str, Any] = {}
    for name, given in arguments.items():
        kind = inspect.signature(forward).parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            result.update(given)
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            result.update({f"{name}_{index}": item for index, item in enumerate(given)})
        else:
            result[name] = given
    return result
