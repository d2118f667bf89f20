"""What a traced module asks of sizes: traced_sizes.py notes it, prove_guards.py proves it for all sizes."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from ...core.errors import Location


@dataclass(frozen=True, eq=False)
class Guard:
    """A comparison of sizes that the module made, and its result."""

    symbol: str
    left: Any
    right: Any
    """Expressions of sizes, and numbers."""
    outcome: bool
    location: Location
    how: str = ""
    """What made a plain number of the size, where nothing was compared: its record ends there."""
    at: int = 0
    """How many calls of torch were written down before."""


@dataclass
class Record:
    """What the module that runs has asked."""

    guards: list[Guard] = field(default_factory=list)
    packages: set[str] = field(default_factory=set)
    """Packages that call ``int`` or ``float`` of sizes and have Python's own."""
    calls: int = 0
    """How many calls of torch are written down."""


GUARDS: ContextVar[Record | None] = ContextVar("trtdsl_guards", default=None)


def note(symbol: str, left: Any, right: Any, outcome: bool, location: Location | None, how: str = "") -> None:
    """Notes a comparison; one without a location is torch's own, whose calls are recorded as they are."""
    record = GUARDS.get()
    if record is not None and location is not None:
        record.guards.append(Guard(symbol, left, right, outcome, location, how, record.calls))
