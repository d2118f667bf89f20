"""What a traced module asks of sizes, which are proven for all sizes (proof/), and of values (alike.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
    """Whether loops over sizes become scans, and what the traces so far have found out."""

    on: bool
    refused: bool = False
    """Whether a loop over a size that is no scan is a condition on the size."""
    forms: dict[Any, Any] = field(default_factory=dict)
    unlike: dict[Location | None, str] = field(default_factory=dict)
    """Why loops are no scans, by their lines."""
    again: bool = False
    """Whether the first traces did not agree: what is computed of sizes may have other numbers at other sizes."""
    packages: set[str] = field(default_factory=set)
    """Packages in which sizes were lost, which a trace has to follow."""
    types_in: set[str] = field(default_factory=set)
    """Files that give torch a type of Python, such as ``dtype=int``, and so keep Python's own."""
    changes: dict[Any, Any] = field(default_factory=dict)
    """What traces change in the names of packages, as the last one left them."""


@dataclass
class Record:
    """What the module that runs has asked."""

    guards: list[Guard] = field(default_factory=list)
    """Behind the trace, None in the place of one that is left out: loops know theirs by their places."""
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
    parted: dict[Any, Guard] = field(default_factory=dict)
    """The calls that give as many parts of a tensor as a size says, and what says that these are so many everywhere."""
    tried: dict[Any, Callable[..., Any]] = field(default_factory=dict)
    """The functions of numbers that were tried, so that each number is tried once."""


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


MOST = 64  # ways that are traced, where values choose


@dataclass
class Sides:
    """Whether both sides of branches on values are computed, and whether there are any such branches."""

    both: bool = False
    met: bool = False


WRITTEN: ContextVar[bool] = ContextVar("trtdsl_written", default=False)
"""Whether forward may write to parameters."""


BY_VALUES: ContextVar[bool] = ContextVar("trtdsl_by_values", default=False)
"""Whether the greatest number of an input makes sizes of itself, where it is none of the inputs' sizes."""


UNBOUNDED: ContextVar[bool] = ContextVar("trtdsl_unbounded", default=False)
"""Whether numbers that nothing bounds make sizes."""


DERIVATIVES: ContextVar[bool] = ContextVar("trtdsl_derivatives", default=False)
"""Whether forward takes derivatives of what it computes: then operators are recorded, as those of derivatives are."""


class TakesDerivatives(Exception):
    """The cause of a refusal: forward takes a derivative of what it computes."""


class WritesParameters(Exception):
    """The cause of a refusal: forward writes to a parameter."""


SIDES: ContextVar[Sides | None] = ContextVar("trtdsl_sides", default=None)


@dataclass(frozen=True)
class Choice:
    """What forward asked of a value, and the outcome that it was given."""

    guard: Guard
    mask: Value | None
    """That of ``mask.any()`` and ``mask.all()``; None for another question."""
    taken: bool
    """Whether the outcome is the second one: of a mask, that which says something of every element."""

    @property
    def number(self) -> int:
        """What every element of the mask is, where the outcome is the second one."""
        return int(self.guard.outcome)


@dataclass
class Choices:
    """What forward asks of values in a run. ``taken`` says which have the second outcome, by their number."""

    taken: Sequence[bool]
    made: list[Choice] = field(default_factory=list)
    places: set[Location] = field(default_factory=set)
    """Where forward has asked."""

    def choose(self, value: Value | None, place: Location | None) -> Choice | None:
        """The outcome of a truth that forward asks for; None after the most."""
        record, number = GUARDS.get(), len(self.made)
        if number >= MOST or value is None or place is None or record is None:
            return None  # a loop that runs until the values say so asks again and again
        self.places.add(place)
        for known in self.made:
            if known.guard.left is value:
                return known
        op, taken = value.producer, number < len(self.taken) and self.taken[number]
        every, mask = op is not None and op.name == "all", None
        if op is not None and op.name in ("any", "all") and len(op.args) == 1 and not op.kwargs:
            mask = op.args[0] if isinstance(op.args[0], Value) else None
            mask = None if mask is not None and every and mask.dtype != torch.bool else mask
        self.made.append(Choice(Guard("!=", value, 0, taken == every, place, at=record.calls), mask, taken))
        return self.made[-1]

    def further(self, is_settled: Callable[[Value], bool]) -> Iterator[Sequence[bool]]:
        """The ways that differ from the run's in a choice that was not decided yet, where its truth is not settled."""
        taken = [each.taken for each in self.made]
        places = range(len(self.taken), len(taken))
        return ((*taken[:place], True) for place in places if not is_settled(self.made[place].guard.left))
