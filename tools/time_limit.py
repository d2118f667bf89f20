"""A limit on how long a piece of work may compute."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def within(seconds: int) -> Iterator[None]:
    """Raises TimeoutError where the work inside takes more of the processor's time. In the main thread alone."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"more than {seconds} s")

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
