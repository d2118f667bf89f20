"""Who reads a message: someone at a shell, or someone who calls from Python. Advice is in the reader's language."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_AT_SHELL: ContextVar[bool] = ContextVar("at_shell", default=False)


@contextmanager
def at_shell() -> Iterator[None]:
    """Inside, a command of the command line runs."""
    token = _AT_SHELL.set(True)
    try:
        yield
    finally:
        _AT_SHELL.reset(token)


def to_write(python: str, shell: str) -> str:
    """What the reader of a message writes.

    >>> to_write("dims={'N': 4}", "--dim N=4")
    "dims={'N': 4}"
    >>> with at_shell():
    ...     to_write("dims={'N': 4}", "--dim N=4")
    '--dim N=4'
    """
    return shell if _AT_SHELL.get() else python


def option(name: str, value: object = True) -> str:
    """An argument of a function, or the option of a command that has its name.

    >>> option("backend", "tensorrt"), option("refit")
    ("backend='tensorrt'", 'refit=True')
    >>> with at_shell():
    ...     option("compute_capabilities", "8.9"), option("allow_rtx")
    ('--compute-capability 8.9', '--allow-rtx')
    """
    if not _AT_SHELL.get():
        return f"{name}={([value] if name in REPEATED else value)!r}"
    flag = f"--{REPEATED.get(name, name).replace('_', '-')}"
    return flag if value is True else f"{flag} {value}"


REPEATED = {"compute_capabilities": "compute_capability"}
"""Arguments that are lists, whose options are given once for each."""
