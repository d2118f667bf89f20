"""Long work: who is told how far it is, and Ctrl-C, which ends it with a :class:`~trtdsl.CancelledError`.

Python raises KeyboardInterrupt anywhere in the main thread. :func:`cancellable` makes a CancelledError of it, and
:func:`noted` keeps it out of a library's callbacks. The command line raises it again where a library loses it, until
the cancellation is noticed.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from .errors import CancelledError

Progress = Callable[[str, int, int], None]
"""Is told of a phase, the steps done and the steps in all. What changes within a phase stands in brackets behind it."""


def untold(phase: str, done: int, total: int) -> None:
    """The progress of work that nobody follows."""


PRESSED = threading.Event()
"""Whether Ctrl-C was pressed while a command runs: an error that comes up afterwards is its consequence."""
NOTICED = threading.Event()
"""Whether :func:`cancellable` has seen it: what is now being kept is not to be interrupted."""


SIGNALS = (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))
"""Each cancels as Ctrl-C does, so that nothing half-written stays; but not a hang-up under ``nohup``."""

WRITTEN: list[str] = []
"""The names of the files that were written, of which an error that cancels must not say that they were not."""


def _unanswered() -> None:
    """Nobody is told."""


ENDING: dict[int, Callable[[], None]] = {signal.SIGINT: _unanswered}
"""The signals that cancel, with what answers each at once; a command answers more of them."""


@contextmanager
def cancellable() -> Iterator[None]:
    """Inside, Ctrl-C raises a CancelledError.

    >>> with cancellable():
    ...     raise KeyboardInterrupt
    Traceback (most recent call last):
    trtdsl.core.errors.CancelledError: cancelled; nothing was written
    """
    before = len(WRITTEN)
    try:
        yield
    except KeyboardInterrupt:
        NOTICED.set()
        written = WRITTEN[before:]
        if not written:
            raise CancelledError from None
        more = f" and {len(written) - 1} more were" if len(written) > 1 else " was"
        raise CancelledError(f"cancelled when {written[0]}{more} written") from None
    except CancelledError:
        NOTICED.set()
        raise


@contextmanager
def noted() -> Iterator[Callable[[], bool]]:
    """Inside, Ctrl-C leaves a note, and the function that this gives says whether it did."""
    note = threading.Event()
    main = threading.current_thread() is threading.main_thread()

    def answer(number: int, frame: FrameType | None) -> None:
        note.set()
        ENDING[number]()

    before = {each: signal.signal(each, answer) for each in ENDING if main}
    try:
        yield note.is_set
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
