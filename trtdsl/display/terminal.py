"""The terminal: lines on stdout, notes, errors and progress on stderr."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

from ..core.cancel import PRESSED
from ..core.errors import printed, shown


def print_line(text: str) -> None:
    """One line on stdout."""
    terminal().print(text, highlight=False, markup=False, soft_wrap=True)


def print_pieces(pieces: Iterable[str]) -> None:
    """A text on stdout, each piece as soon as it is there."""
    console = terminal()
    for piece in pieces:
        console.print(piece, end="", highlight=False, markup=False, soft_wrap=True)
        console.file.flush()
    print_line("")


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

    terminal(stderr=True).print(Text.assemble(("error: ", "bold red"), text), soft_wrap=True)


def shortened(path: object) -> str:
    """A path from the working directory on, where it is below it."""
    return printed(str(path).removeprefix(os.getcwd() + os.sep))


def terminal(*, stderr: bool = False) -> Any:
    """rich's console on stdout or stderr."""
    from rich.console import Console

    class Terminal(Console):
        def render(self, renderable: Any, options: Any = None) -> Iterator[Any]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else segment._replace(text=shown(segment.text))

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else 500  # piped output is not wrapped
    # Without emoji: the range 1:100:200 is text.
    return Terminal(stderr=stderr, highlight=False, emoji=False, width=width)


STARTING = "importing torch and TensorRT"


def table_width() -> int:
    """The columns that a table may take: the terminal's, and in a pipe or a file what an editor shows."""
    return terminal().width if sys.stdout.isatty() or "COLUMNS" in os.environ else PIPED


PIPED = 160
OFTEN, LONG = 10.0, 2.0
"""Seconds after which a log hears of a phase again, and from which on it is told that one has ended."""


class Progress:
    """A bar with count and time left on a terminal, lines with times elsewhere, nothing when silent; always on stderr.

    What stands in brackets behind a phase's name changes within it: ``checking against torch (size 2 of 5)``.
    """

    def __init__(self, silent: bool):
        self.silent = silent
        self._bar: Any = None
        self._tasks: dict[str, Any] = {}
        self._last = ""
        self._began: dict[str, float] = {}
        self._said = 0.0

    def __enter__(self) -> Progress:
        if not self.silent and sys.stderr.isatty():
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                SpinnerColumn,
                TextColumn,
                TimeElapsedColumn,
                TimeRemainingColumn,
            )
            from rich.progress import Progress as Bar
            from rich.table import Column

            console = terminal(stderr=True)
            # In a narrow terminal long names are cut, never counts and times: they and the blanks take 29 characters.
            bar = 20 if console.width >= 100 else 8
            name = Column(no_wrap=True, overflow="ellipsis", max_width=max(console.width - bar - 29, 1))
            columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False, table_column=name))
            columns += (BarColumn(bar), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
            # What is printed into a file or a pipe meanwhile goes there.
            redirected = sys.stdout.isatty()
            self._bar = Bar(*columns, console=console, transient=True, redirect_stdout=redirected)
            self._bar.start()
        if "torch" not in sys.modules:  # which takes seconds
            self.step(STARTING, 0, 1)
        return self

    def step(self, phase: str, done: int, total: int) -> None:
        """``done`` of ``total`` steps of a phase; phases nest, and the innermost is shown. None after Ctrl-C."""
        if PRESSED.is_set():  # TensorRT reports phases until it notices
            self.stop()
            return
        name = phase.partition(" (")[0]
        if self._bar is not None:
            if STARTING in self._tasks:
                self._bar.remove_task(self._tasks.pop(STARTING))
            if name not in self._tasks:
                self._tasks[name] = self._bar.add_task(phase, total=total)
            self._bar.update(self._tasks[name], description=phase, completed=done, total=total)
            if done >= total:
                self._bar.remove_task(self._tasks.pop(name))
        elif not self.silent:
            self._line(name, phase, done, total)

    def _line(self, name: str, phase: str, done: int, total: int) -> None:
        """In a log: when a phase begins, every ``OFTEN`` seconds, and when one ends that took long."""
        now = time.monotonic()
        began = self._began.setdefault(name, now)
        seconds = now - began
        if done >= total:
            del self._began[name]
            text = f"{name}: done in {seconds:.0f} s" if seconds >= LONG else ""
        elif name != self._last and done == 0:
            self._last, text = name, name
        else:
            left = f", about {seconds / done * (total - done):.0f} s left" if done > 1 else ""
            text = f"{phase}: {done} of {total} in {seconds:.0f} s{left}" if now - self._said >= OFTEN else ""
        if text:
            self._said = now
            print(text, file=sys.stderr, flush=True)

    def stop(self) -> None:
        """Clears the bar, so that results can be printed."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def __exit__(self, *error: object) -> None:
        self.stop()
