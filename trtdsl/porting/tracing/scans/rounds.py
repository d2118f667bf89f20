"""The rounds of a loop that may be a scan, and what is known of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from ...calls import Call, Op, Value
from ..guards import Guard, Record
from . import taking
from .marks import Going, Mark
from .taking import Unlike


@dataclass(eq=False)
class Form:
    """What is known of a loop's rounds from a trace of several: their calls, and where their values come from."""

    kinds: list[Any]
    sources: list[Any]
    """Of each value that a round's calls take: ``local``, ``outside``, ``part``, or its place so many rounds before."""
    steps: dict[int, tuple[int, int]]
    """By the number of a call that takes a part of a tensor: which item of its index goes on, and how far."""
    apart: int
    """How many rounds are written out before the loop."""
    backwards: set[int] = field(default_factory=set)
    """The places of what lists have from the last round to the first."""
    parts: set[tuple[int, Any]] = field(default_factory=set)
    """The places of what another loop takes of each round, and not of the last alone, with the line of that loop."""


class Rounds:
    """The rounds of one loop."""

    ops: list[list[Op]]
    made: list[dict[Value, int]]
    slots: list[list[Value]]
    form: Form

    def __init__(self, loop: Going, root: Call, results: Any, record: Record, form: Form | None, apart: int):
        """``apart`` is how many rounds stay as they are, ``form`` what is known of the rounds."""
        self.loop, self.root, self.results, self.record, self.known = loop, root, results, record, form
        self.apart, self.length = apart, taking.less(loop.length, apart)
        self.container = loop.marks[0].container
        body = self.container.body
        places = [place for place, item in enumerate(body) if isinstance(item, Mark) and item.loop is loop][apart:]
        self.rounds = [[item for item in body[a + 1 : b] if not isinstance(item, Mark)] for a, b in pairwise(places)]
        if len(self.rounds) < (2 if form is None else 1):
            raise Unlike("it has one round where it is traced, or none")
        self.begin, self.end = places[0], places[-1]
        self.before: list[Op] = []
        self.after: list[Op] = []
        self.asked: list[Guard] = []
        self.without: set[int] = set()  # what the first round alone does, which goes before the loop
        self.moved: dict[Op, Any] = {}  # its arguments there
        self.carried: dict[tuple[int, int], tuple[Value, Value]] = {}
        """What goes in at first and what it is in each round, by its place and of how many rounds before it is."""
        self.along: list[tuple[Value, Value, int, bool]] = []
        """Tensors, what they are in each round, along which dimensions, and whether backwards."""
        self.writes: dict[int, tuple[Op, Value]] = {}
        """What is written part by part, by its place."""
        self.rows: dict[Op, Value] = {}
        """What a write to some elements of a part makes of the part."""
        self.heads: list[Any] = []
        """Calls of unbind of whose parts the rounds have all but the first."""
        self.parts: dict[Value, Value] = {}
        """What stands for a part that unbind gives."""
        self.changed: dict[Op, Any] = {}

    def op(self, name: str, args: Any, shape: Sequence[int], dtype: Any = None, *, after: bool = False) -> Value:
        form = "method" if name in ("getitem", "movedim", "flatten") else "function"
        op = Op(name, f"torch.{name}", form, args, {}, None, self.loop.location, self.container.path)
        dtype = dtype or (args[0] if isinstance(args[0], Value) else args[0][0]).dtype
        op.results = Value(tuple(shape), dtype, producer=op)
        (self.after if after else self.before).append(op)
        return op.results
