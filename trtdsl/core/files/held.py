"""The files that a command reads: while it runs, each is one state, or the command says that it is not."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

from ..errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")

_HELD: ContextVar[dict[str, tuple[int, ...] | None] | None] = ContextVar("_HELD", default=None)
"""By path, what told the file from any other when it was read first; None for what the command writes itself."""


def one_state(command: Callable[P, R]) -> Callable[P, R]:
    """The command, in which a file that is read again is what it was the first time; else UsageError."""

    @functools.wraps(command)
    def call(*given: P.args, **named: P.kwargs) -> R:
        if _HELD.get() is not None:  # a command that is part of another
            return command(*given, **named)
        token = _HELD.set({})
        try:
            return command(*given, **named)
        finally:
            _HELD.reset(token)

    return call


def hold(path: str | os.PathLike[str], found: os.stat_result) -> None:
    """Takes what is read of a path as its state, or compares it with that."""
    held = _HELD.get()
    if held is None:
        return
    state = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
    if held.setdefault(os.path.abspath(path), state) not in (state, None):
        raise UsageError(
            f"{os.fspath(path)} changed while it was in use: what was read of it before is not what is there now. "
            "Start again"
        )


def release(path: str | os.PathLike[str]) -> None:
    """The command writes this file: it may change, and whoever writes it judges what is there."""
    held = _HELD.get()
    if held is not None:
        held[os.path.abspath(path)] = None
