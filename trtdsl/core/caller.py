"""The caller, at a shell or from Python: advice in the reader's language, and arguments judged by their types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any

from msgspec import Meta

from .errors import Location, TrtdslError, UsageError
from .files.names import brief
from .files.reading import as_struct

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

Positive = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Seed = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Finite = Annotated[float, Meta(ge=0, le=1e300)]


JSON = {"array": "list", "object": "dict", "null": "None"}


def as_argument(
    name: str, value: Any, kind: Any, error: type[TrtdslError] = UsageError, *, location: Location | None = None
) -> Any:
    """The ``value`` that the caller gives for ``name``, as the ``kind`` that it must have.

    Numbers and arrays of numpy and torch are Python's. Raises ``error``, which says the value and what is expected.

    >>> as_argument("top_k", "3", Positive)
    Traceback (most recent call last):
    trtdsl.core.errors.UsageError: top_k='3': expected int, got str
    """

    def refuse(words: str) -> TrtdslError:
        text = re.sub("array|object|null", lambda word: JSON[word[0]], words)
        return error(f"{brief(option(name, value))}: {text}", location=location)

    return as_struct(_plain(value), kind, "", refuse)


def as_number(value: Any) -> float | None:
    """A number of Python's, numpy's or torch's, as Python's; None for anything else.

    >>> import numpy as np
    >>> as_number(3), as_number(np.float32(0.5)), as_number(True), as_number(np.ones(1)), as_number("3")
    (3, 0.5, None, None, None)
    """
    plain = value.item() if getattr(value, "shape", None) == () else value
    return plain if isinstance(plain, (int, float)) and not isinstance(plain, bool) else None


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple, range)):
        return [_plain(each) for each in value]
    return value.tolist() if hasattr(value, "tolist") else value
