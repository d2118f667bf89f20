"""What a traced module asks of sizes, which prove_guards.py proves for all sizes, and of values (alike.py)."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from ...core.errors import Location
from ...core.lazy import torch
from ..calls import Call, Value


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
    loop: bool = False
    """Whether a loop has so many rounds."""


@dataclass
class Scans:
    """Whether loops over sizes become scans, and what is known of these."""

    on: bool
    refused: bool = False
    """Whether a loop over a size that is no scan is a condition on the size."""
    forms: dict[Any, Any] = field(default_factory=dict)
    unlike: dict[Location | None, str] = field(default_factory=dict)
    """Why loops are no scans, by their lines."""
    again: bool = False
    """Whether the first traces did not agree: what is computed of sizes may have other numbers at other sizes."""


@dataclass
class Record:
    """What the module that runs has asked."""

    guards: list[Guard] = field(default_factory=list)
    packages: set[str] = field(default_factory=set)
    """Packages that call ``int`` or ``float`` of sizes and have Python's own."""
    calls: int = 0
    """How many calls of torch are written down."""
    scans: Scans | None = None
    more: list[tuple[int, Guard]] = field(default_factory=list)
    """What scans ask of sizes, and how many guards were there before."""
    loops: list[Any] = field(default_factory=list)
    """The loops that have ended, those inside of others first."""
    told: Callable[[Record, Guard], None] | None = None
    """What hears of each guard, such as which loop it belongs to."""
    container: Callable[[], Call] | None = None
    """The call whose body is being written."""


GUARDS: ContextVar[Record | None] = ContextVar("trtdsl_guards", default=None)
SCANS: ContextVar[Scans | None] = ContextVar("trtdsl_scans", default=None)


def again() -> bool:
    """Whether the module is traced once more, since what was computed of sizes did not agree."""
    scans = SCANS.get()
    return scans is not None and scans.again


def note(
    symbol: str, left: Any, right: Any, outcome: bool, location: Location | None, how: str = "", *, loop: bool = False
) -> None:
    """Notes a comparison; one without a location is torch's own, whose calls are recorded as they are."""
    record = GUARDS.get()
    if record is not None and location is not None:
        record.guards.append(Guard(symbol, left, right, outcome, location, how, record.calls, loop))
        if record.told is not None:
            record.told(record, record.guards[-1])


MOST = 16  # ways that are traced, where values choose


@dataclass(frozen=True)
class Shortcut:
    """What forward asked of a mask at a place, and the outcome that it was given."""

    mask: Value
    taken: bool
    """Whether the outcome is the one that says something of every element of the mask."""
    outcome: bool
    place: Location | None

    @property
    def number(self) -> int:
        """What every element of the mask is, where the shortcut is taken."""
        return int(self.outcome)


def asked_of(value: Value | None, taken: bool, place: Location | None) -> Shortcut | None:
    """The shortcut where forward asks for the truth of a value; None for another question than ``mask.any()``."""
    op = None if value is None else value.producer
    if op is None or op.name not in ("any", "all") or len(op.args) != 1 or op.kwargs:
        return None
    mask, every = op.args[0], op.name == "all"
    if not isinstance(mask, Value) or (every and mask.dtype != torch.bool):
        return None
    return Shortcut(mask, taken, taken == every, place)
