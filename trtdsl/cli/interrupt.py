"""Ctrl-C, or a wish to end, answered at once: what runs may notice it only when TensorRT or torch returns."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from ..core.cancel import ENDING, NOTICED, PRESSED, SIGNALS

PATIENCE, MOMENT = 1.5, 0.02  # seconds
_BEFORE: list[dict[int, Any]] = []
"""What answered the signals before each command that is running, one inside of another."""


def _forget() -> None:
    """In a process that was forked: it answers signals by itself, and tells nobody of them."""
    if _BEFORE:
        signal.set_wakeup_fd(-1)
        ENDING.clear()
        for number, handler in _BEFORE[0].items():
            signal.signal(number, handler)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


@contextmanager
def answered() -> Iterator[None]:
    """Inside, "cancelling…" stands on stderr as soon as Ctrl-C is pressed, whatever the main thread is doing."""
    if threading.current_thread() is not threading.main_thread() or os.name == "nt":
        yield
        return
    read, write = os.pipe()
    os.set_blocking(write, False)
    before, ended = signal.set_wakeup_fd(write, warn_on_full_buffer=False), threading.Event()
    heard = [each for each in SIGNALS if each == signal.SIGINT or signal.getsignal(each) is not signal.SIG_IGN]
    lock, told, lost = threading.RLock(), threading.Event(), threading.Event()

    def tell() -> None:
        """Says so once, before the main thread goes on."""
        with lock:
            if not told.is_set():
                told.set()
                clear, end = ("\r\x1b[2K", "\r\n") if sys.stderr.isatty() else ("", "\n")
                with suppress(OSError):
                    os.write(sys.stderr.fileno(), f"{clear}cancelling…{end}".encode())

    def interrupt(number: int, frame: FrameType | None) -> None:
        """As Python's own, but noted before the exception: an error that a library makes of it is known as such."""
        if NOTICED.is_set():  # the error is being printed
            return
        PRESSED.set()
        tell()
        signal.default_int_handler(number, frame)

    if not _BEFORE:
        NOTICED.clear()
    handlers: dict[int, Any] = {number: signal.signal(number, interrupt) for number in heard}
    _BEFORE.append(handlers)
    alone = dict(ENDING)
    ENDING.update(dict.fromkeys(heard, tell))

    def unraisable(what: Any) -> None:
        """Python drops what is raised within a finalizer: Ctrl-C is raised again."""
        if isinstance(what.exc_value, KeyboardInterrupt):
            lost.set()
        else:
            report(what)

    report, sys.unraisablehook = sys.unraisablehook, unraisable
    thread = threading.Thread(target=_answer, args=(read, ended, tell, lost), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        lost.set()
        ENDING.clear()
        ENDING.update(alone)
        sys.unraisablehook = report
        for number, handler in handlers.items():
            signal.signal(number, handler)
        _BEFORE.pop()
        signal.set_wakeup_fd(before)
        os.close(write)  # the thread reads the end of the pipe
        thread.join(PATIENCE)


def _answer(pipe: int, ended: threading.Event, tell: Callable[[], None], lost: threading.Event) -> None:
    """Waits for the numbers of signals, which Python's own handler writes at once.

    Python raises KeyboardInterrupt wherever the main thread is, where a library's callback or a finalizer may lose it:
    it is raised again where it is known to be ``lost``, or the command still runs after a while and nobody has noticed.
    """
    answered = False
    while data := os.read(pipe, 16):
        if not answered and any(number in data for number in SIGNALS):
            answered = True
            PRESSED.set()
            tell()
            while not ended.is_set() and not NOTICED.is_set():
                if lost.wait(PATIENCE):
                    lost.clear()
                    time.sleep(MOMENT)  # until the finalizer is done
                if not ended.is_set() and not NOTICED.is_set():
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)  # ends what sleeps, too
    os.close(pipe)
