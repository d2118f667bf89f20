"""The comparison of two programs: their costs, and the lines where they differ most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .devices import DEFAULT, Device, find_device, floor_of
from .program import Program

JUDGED = ("launches", "bytes", "rearranged bytes", "floor", "memory")
"""What ``--fail-above`` looks at: engine bytes and build time say nothing about speed."""


@dataclass(frozen=True)
class Row:
    """One figure of both programs; None where a program does not have it."""

    name: str
    before: float | None
    after: float | None

    @property
    def ratio(self) -> float | None:
        """After over before; None where the ratio has no meaning."""
        if self.before is None or self.after is None:
            return None
        if not self.before:
            return 1.0 if not self.after else None
        return self.after / self.before


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare_programs` found."""

    before: str
    after: str
    device: str
    rows: tuple[Row, ...]
    lines: tuple[Row, ...]
    """Bytes by the author's line, those that differ most first; a line that only one has is 0 in the other."""

    def worse_than(self, ratio: float) -> tuple[Row, ...]:
        """The judged figures that grew by more than ``ratio``; growth from 0 is more than any ratio."""
        return tuple(
            row
            for row in self.rows
            if row.name in JUDGED and row.after and row.before is not None and row.after > ratio * row.before
        )

    def to_json(self) -> dict[str, Any]:
        """As one JSON object."""
        rows, lines = ([{**asdict(row), "ratio": row.ratio} for row in group] for group in (self.rows, self.lines))
        return {
            "schema": 1, "kind": "comparison", "before": self.before, "after": self.after, "device": self.device,
            "rows": rows, "lines": lines,
        }  # fmt: skip


def compare_programs(before: Program, after: Program, device: str | Device = DEFAULT) -> Comparison:
    """Launches, bytes, floor, memory, engine bytes and build time of two programs, and bytes by line.

    >>> net = td.Network()
    >>> net.output(F.exp(net.input("x", (2, 3))), "y")
    >>> program = td.program(net)
    >>> compare_programs(program, program).worse_than(1.0)
    ()
    """
    device = find_device(device) if isinstance(device, str) else device
    rows = [
        Row(name, get(before), get(after))
        for name, get in (
            ("launches", lambda program: program.launch_count),
            ("bytes", lambda program: program.bytes),
            ("rearranged bytes", lambda program: program.rearranged_bytes),
            ("FLOPs", lambda program: program.flops),
            ("floor", lambda program: floor_of(program, device).seconds),
            ("memory", lambda program: program.memory),
            ("live memory", lambda program: program.live_memory),
            ("constants", lambda program: program.constant_bytes),
            ("engine bytes", lambda program: program.engine_bytes),
            ("build seconds", lambda program: program.build_seconds),
        )
    ]
    return Comparison(before.label, after.label, device.name, tuple(rows), _lines(before, after))


def _lines(before: Program, after: Program) -> tuple[Row, ...]:
    tables: Sequence[dict[str, int]] = [
        {share.name: share.bytes for share in program.by("line")} for program in (before, after)
    ]
    names = dict.fromkeys([*tables[0], *tables[1]])
    rows = [Row(name, tables[0].get(name, 0), tables[1].get(name, 0)) for name in names]
    changed = [row for row in rows if row.before != row.after]
    return tuple(sorted(changed, key=lambda row: -abs((row.after or 0) - (row.before or 0))))
