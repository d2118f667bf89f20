"""Runs that happen at the same time, and what must happen alone: new weights."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """Runs enter it side by side. Who has to be alone waits for them, and meanwhile no further run enters."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0
        self._waiting = 0

    @contextmanager
    def run(self) -> Iterator[None]:
        """Inside, nobody is alone. It must not be entered again from inside."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting)
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Inside, nothing runs."""
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: not self._running)
                yield
            finally:
                self._waiting -= 1
                self._changed.notify_all()
