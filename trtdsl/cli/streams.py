"""The streams of a process: closed ones, ones that cannot be written to, and terminals of few characters."""

from __future__ import annotations

import io
import os
import sys
from typing import Any

from ..core.errors import UsageError


class Stderr(io.TextIOWrapper):
    """Where notes, progress and errors go, which end no work when nobody can be told."""

    given: Any = None

    def write(self, text: str, /) -> int:
        """Writes characters."""
        try:
            return super().write(text)
        except OSError as error:
            self._failed(error)
            return len(text)

    def flush(self) -> None:
        """Writes what was not yet."""
        try:
            super().flush()
        except OSError as error:
            self._failed(error)

    def _failed(self, error: OSError) -> None:
        pass


class Stdout(Stderr):
    """Where results go. UsageError, once, where they cannot be written, as on a full disk.

    A reader that has seen enough (``| head -1``) is no error, and the exit code stays that of the whole result.
    """

    def _failed(self, error: OSError) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())  # the rest is dropped
        os.close(nowhere)
        if not isinstance(error, BrokenPipeError):
            raise UsageError(f"cannot write the output: {error.strerror}") from None


def _number(stream: Any) -> int | None:
    """The number of a stream's file; None where it has none."""
    try:
        return stream.fileno()
    except (OSError, ValueError, AttributeError):
        return None


def guard_streams() -> None:
    """Opens the standard streams that are closed, so that no file gets their numbers, and guards stdout and stderr."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # the lowest number that is free; what is written there is missed
    for name, number, kind in (("stdout", 1, Stdout), ("stderr", 2, Stderr)):
        given = getattr(sys, name)
        if given is not None and _number(given) != number:  # the caller's own, within his process
            continue
        encoding = getattr(given, "encoding", None) or "utf-8"
        raw = os.fdopen(number, "wb", closefd=False)
        lines = name == "stderr" or raw.isatty()
        guarded = kind(raw, encoding=encoding, errors="backslashreplace", line_buffering=lines)
        guarded.given = given  # which closes its file when nothing refers to it
        setattr(sys, name, guarded)
