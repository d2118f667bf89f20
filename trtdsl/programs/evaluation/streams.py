"""Which launch happens before which, by the streams that they are on and the events between these."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ...core.errors import ProgramFaultError, UnevaluatedProgramError
from ..grammar import Record
from .memory import Place

MOST_ACCESSES = 100_000


@dataclass(frozen=True)
class Access:
    """The memory that one launch uses, and when."""

    stream: str
    time: int
    what: str
    reads: list[Place]
    writes: list[Place]


@dataclass
class Order:
    """A clock for each stream: what it has seen of every other, through the events that it waited for."""

    streams: int
    clocks: dict[str, dict[str, int]] = field(default_factory=dict)
    events: dict[str, dict[str, int]] = field(default_factory=dict)
    accesses: list[Access] = field(default_factory=list)
    """Of the launches that some stream has not seen."""

    def note(self, kind: str, record: Record) -> None:
        """A ``signal`` or a ``wait``."""
        stream, event = record.text("stream", "0"), record.text("event")
        if not event:
            raise UnevaluatedProgramError(f"a {kind} without an event is not known")
        clock = self._clock(stream)
        if kind == "signal":
            self.events[event] = dict(clock)
            return
        for other, time in self.events.get(event, {}).items():
            clock[other] = max(clock.get(other, 0), time)
        if len(self.clocks) == self.streams:
            self.accesses = [
                access
                for access in self.accesses
                if any(seen.get(access.stream, 0) < access.time for seen in self.clocks.values())
            ]

    def launch(self, record: Record, what: str, reads: Sequence[Place], writes: Sequence[Place]) -> None:
        """Raises ProgramFaultError for a launch that another stream's launch may overlap in memory and in time."""
        stream = record.text("stream", "0")
        if not stream.isdigit() or int(stream) >= max(self.streams, 1):
            raise ProgramFaultError(f"{what} is on stream {stream[:20]}, and the program has {self.streams}")
        if self.streams < 2:
            return
        clock = self._clock(stream)
        clock[stream] = clock.get(stream, 0) + 1
        own = Access(stream, clock[stream], what, list(reads), list(writes))
        for earlier in self.accesses:
            if clock.get(earlier.stream, 0) >= earlier.time:
                continue
            if _meet(own.writes, earlier.reads + earlier.writes) or _meet(own.reads, earlier.writes):
                raise ProgramFaultError(
                    f"{what} races with {earlier.what.removesuffix(',')}: streams {stream} and {earlier.stream} use "
                    "one piece of memory, and no event orders them"
                )
        self.accesses.append(own)
        if len(self.accesses) > MOST_ACCESSES:
            raise UnevaluatedProgramError("the program's streams run too long beside each other to be checked")

    def _clock(self, stream: str) -> dict[str, int]:
        return self.clocks.setdefault(stream, {stream: 0})


def _meet(first: Iterable[Place], second: Sequence[Place]) -> bool:
    return any(a.meets(b) for a in first for b in second)
