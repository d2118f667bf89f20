"""The terminal: lines on stdout, notes, errors and progress on stderr."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from typing import Any

from ..core.cancel import PRESSED
from ..core.files import UNPRINTED

UNSHOWN = re.compile(rf"(?![\t\n])[{UNPRINTED}]")


def print_line(text: str) -> None:
    """One line on stdout."""
    terminal().print(text, highlight=False, markup=False, soft_wrap=True)


def print_parts(parts: Iterable[Any]) -> None:
    """Lines and tables on stdout, in order."""
    for part in parts:
        if isinstance(part, str):
            print_line(part)
        else:
            terminal().print(part)


def print_note(text: str) -> None:
    """A line on stderr that is no error."""
    terminal(stderr=True).print(text, highlight=False, markup=False, soft_wrap=True)


def print_error(text: str) -> None:
    """An error on stderr."""
    from rich.text import Text

    terminal(stderr=True).print(Text.assemble(("error: ", "bold red"), shown(text)), soft_wrap=True)


def shown(text: str) -> str:
    """Text from a file as it may be printed: a terminal would obey its control characters.

    >>> shown("a\\x1b[2Jb")
    'a?[2Jb'
    """
    return UNSHOWN.sub("?", text)


def terminal(*, stderr: bool = False) -> Any:
    """rich's console on stdout or stderr."""
    from rich.console import Console

    class Terminal(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich's own would end the program as if it had failed

        def render_str(self, text: str, **options: Any) -> Any:
            return super().render_str(shown(text), **options)

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else 500  # piped output is not wrapped
    # Without emoji: the range 1:100:200 is text.
    return Terminal(stderr=stderr, highlight=False, emoji=False, width=width)


STARTING = "importing torch and TensorRT"


def table_width() -> int:
    """The columns that a table may take: the terminal's, and in a pipe or a file what an editor shows."""
    return terminal().width if sys.stdout.isatty() or "COLUMNS" in os.environ else PIPED


PIPED = 160


class Progress:
    """A bar on a terminal, one plain line per phase elsewhere, nothing when silent; always on stderr."""

    def __init__(self, silent: bool):
        self.silent = silent
        self._bar: Any = None
        self._tasks: dict[str, Any] = {}
        self._last = ""

    def __enter__(self) -> Progress:
        if not self.silent and sys.stderr.isatty():
            from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
            self._bar = Bar(*columns, console=terminal(stderr=True), transient=True)
            self._bar.start()
            if "torch" not in sys.modules:  # which takes seconds
                self._tasks[STARTING] = self._bar.add_task(STARTING, total=None)
        return self

    def step(self, phase: str, done: int, total: int) -> None:
        """``done`` of ``total`` steps of a phase; phases nest, and the innermost is shown. None after Ctrl-C."""
        if PRESSED.is_set():  # TensorRT reports phases until it notices
            self.stop()
            return
        if self._bar is not None:
            if STARTING in self._tasks:
                self._bar.remove_task(self._tasks.pop(STARTING))
            if phase not in self._tasks:
                self._tasks[phase] = self._bar.add_task(phase, total=total)
            self._bar.update(self._tasks[phase], completed=done, total=total)
            if done >= total:
                self._bar.remove_task(self._tasks.pop(phase))
        elif not self.silent and done == 0:
            phase = phase.partition(" (")[0]  # a log has one line for all sizes of a check
            if phase != self._last:
                print(phase, file=sys.stderr, flush=True)
            self._last = phase

    def stop(self) -> None:
        """Clears the bar, so that results can be printed."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def __exit__(self, *error: object) -> None:
        self.stop()
