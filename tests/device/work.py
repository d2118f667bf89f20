"""Streams, events and graphs: work is done when something asks for its result, and no sooner.

CUDA promises an order only where there is one: within a stream, and where a stream waits for an event. What has no such
order is done here at the moment that harms most, which is the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

LEGACY, PER_THREAD = 1, 2  # CUDA's handles of the default streams, besides 0, which is the first of them


class Work:
    """One thing that a stream is to do."""

    __slots__ = ("action", "after", "done", "ended", "label", "put", "seconds")

    def __init__(
        self, label: str, action: Callable[[], None] | None, after: Iterable[Work], put: float, seconds: float
    ):
        self.label, self.action = label, action
        self.after = [work for work in after if not work.done]
        self.done = False
        self.put, self.seconds = put, seconds
        self.ended = max((work.ended for work in after), default=0.0)  # of what is done already; more when it runs

    def follow(self) -> list[Work]:
        """What is to be done before this, and is not."""
        return [work for work in self.after if not work.done]

    def run(self) -> None:
        begun = max(self.put, self.ended, *(work.ended for work in self.after), 0.0)
        self.ended = begun + self.seconds
        self.done = True
        self.after = []
        action, self.action = self.action, None
        if action is not None:
            action()


@dataclass(eq=False)
class Stream:
    """A stream; ``handle`` is what CUDA calls it."""

    handle: int
    device: int
    blocking: bool
    last: Work | None = None
    capture: Graph | None = None
    destroyed: bool = False

    def __int__(self) -> int:
        return self.handle


@dataclass(eq=False)
class Event:
    """A point in a stream."""

    handle: int
    timing: bool
    at: Work | None = None
    destroyed: bool = False

    def __int__(self) -> int:
        return self.handle


@dataclass(eq=False)
class Graph:
    """What was put on a stream while it was captured."""

    items: list[tuple[str, Callable[[], None] | None, float]] = field(default_factory=list)
    invalid: bool = False
    destroyed: bool = False

    def __int__(self) -> int:
        return id(self)


def complete(work: Work | None) -> None:
    """Does a piece of work and all that comes before it, and nothing else."""
    waiting = [work] if work is not None else []
    while waiting:
        top = waiting[-1]
        if top.done:
            waiting.pop()
            continue
        before = top.follow()
        if before:
            waiting.extend(before)
        else:
            waiting.pop()
            top.run()
