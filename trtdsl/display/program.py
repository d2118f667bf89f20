"""A program as people read it: totals, a table by launch, line, module or kind, and its hazards."""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import several
from ..programs.devices import LEFT_OUT, Floor, floor_of
from ..programs.hazards import find_hazards
from ..programs.program import By, Program, megabytes
from .summary import number
from .table import make_table
from .terminal import shortened

if TYPE_CHECKING:
    from rich.table import Table

    from ..building.search import Figures
    from ..programs.compare import Comparison, Row

CODE = 48  # the most characters of a line
SORTS = ("order", "bytes", "floor")


def program_table(
    program: Program, floor: Floor, *, by: By = "line", sort: str = "bytes", width: int | None = None
) -> Table:
    """A row for each launch, line, module or kind: launches, bytes, rearranged bytes, FLOPs, the floor."""
    if by == "launch":
        return _by_launch(program, floor, sort, width)
    graph = program.graph
    ways = {"line": graph.lines, "module": graph.scopes, "kind": lambda launch: (launch.kind,)}
    times = graph.seconds(floor.launches, ways[by])
    shares = program.by(by)
    if sort == "floor":
        shares.sort(key=lambda share: -times[share.name])
    total = max(program.bytes, 1)
    rows = [
        [
            shortened(share.name) or "–", str(share.launches), megabytes(share.bytes), f"{share.bytes / total:.1%}",
            megabytes(share.rearranged_bytes) if share.rearranged_bytes else "", number(share.flops),
            f"{times[share.name] * 1e6:.1f}",
        ]
        for share in shares
    ]  # fmt: skip
    head = ["launches", "bytes", "of all", "rearranged", "FLOPs", "floor µs"]
    totals = [
        "", str(program.launch_count), megabytes(program.bytes), "", megabytes(program.rearranged_bytes),
        number(program.flops), f"{floor.seconds * 1e6:.1f}",
    ]  # fmt: skip
    drop, codes = ("of all", "FLOPs", "rearranged", "floor µs"), [_code(program, share.name) for share in shares]
    columns, cut = [by, *head], (by,)
    if any(codes):
        rows = [[name, code, *figures] for (name, *figures), code in zip(rows, codes, strict=True)]
        totals.insert(1, "")
        columns, cut = [by, "code", *head], ("code", by)
    shared = f"0 launches: a {by} whose work is in launches that count at another" * any(not s.launches for s in shares)
    return make_table(columns, rows, numbers=head, totals=totals, width=width, drop=drop, cut=cut, note=shared)


def _code(program: Program, line: str) -> str:
    """The text of an author's line, as its file is now; of an engine's, if its manifest has this state of the file."""
    file, _, number = line.rpartition(":")
    found = next((path for path in (Path(file), Path("..") / file) if path.is_file()), None)
    if not number.isdecimal() or found is None:
        return ""
    if program.build_seconds is None and hashlib.sha256(found.read_bytes()).hexdigest() != program.file_sha256:
        return ""
    text = linecache.getline(str(found), int(number)).strip().removeprefix("return ")
    return text if len(text) <= CODE else f"{text[: CODE - 1]}…"


def _by_launch(program: Program, floor: Floor, sort: str, width: int | None) -> Table:
    graph = program.graph
    launches = list(program.launches)
    if sort == "bytes":
        launches.sort(key=lambda launch: -launch.bytes * launch.times)
    elif sort == "floor":
        launches.sort(key=lambda launch: -floor.launches[launch.index])
    rows = [
        [
            str(launch.index), launch.kind, _name(launch.name, launch.epilogue), str(launch.stream), str(launch.times),
            megabytes(launch.bytes * launch.times), number(launch.flops), f"{floor.launches[launch.index] * 1e6:.1f}",
            graph.cause(launch) if launch.rearranges else "", ", ".join(graph.lines(launch)),
        ]
        for launch in launches
    ]  # fmt: skip
    totals = [
        "", f"{program.launch_count} launches", "", "", "", megabytes(program.bytes), number(program.flops),
        f"{floor.seconds * 1e6:.1f}", "", "",
    ]  # fmt: skip
    counts = ["stream", "times", "bytes", "FLOPs", "floor µs"]
    head = ["", "kind", "name", *counts, "why", "line"]
    drop = ("why", "stream", "times", "FLOPs", "floor µs", "kind")
    return make_table(head, rows, numbers=["", *counts], totals=totals, width=width, drop=drop, cut=("line", "name"))


def _name(name: str, epilogue: tuple[str, ...]) -> str:
    shown = name if len(name) <= 48 else name[:47] + "…"
    return f"{shown} + {' '.join(epilogue)}" if epilogue and epilogue[0].islower() else shown


def program_line(figures: Mapping[str, Any]) -> str:
    """A one-line summary of a build's program, from the manifest's figures."""
    if "unreadable" in figures:
        return f"program not read: {figures['unreadable']}"
    at = ", ".join(f"{name}={size}" for name, size in figures["dims"].items())
    floor, share = figures["floor"], figures["rearranged_bytes"] / max(figures["bytes"], 1)
    launches, moved = several(figures["launches"], "launch"), megabytes(figures["bytes"])
    return (
        f"program{f' at {at}' if at else ''}: {launches}, {moved} moved, {share:.0%} of them only rearranged; "
        f"at least {floor['seconds'] * 1e3:.3g} ms on {floor['device']} (estimate)"
    )


def figures_text(before: Figures, after: Figures) -> str:
    """What two programs cost, side by side."""
    floors = f"{before.floor_seconds * 1e3:.3g} → {after.floor_seconds * 1e3:.3g} ms"
    return (
        f"{before.launches} → {after.launches} launches, {megabytes(before.bytes)} → {megabytes(after.bytes)} moved, "
        f"{floors}"
    )


def program_text(
    program: Program, device: str, *, by: By = "line", sort: str = "bytes", width: int | None = None
) -> list[str | Table]:
    """Everything that ``inspect --program`` prints, in order; tables as wide as ``width`` has room."""
    floor = floor_of(program, device)
    memory = (
        f"memory: {megabytes(program.memory)} of activations, {megabytes(program.constant_bytes)} of constants; "
        f"at these sizes {megabytes(program.live_memory)} live at once"
    )
    if program.copied_bytes:
        memory += f"; {megabytes(program.copied_bytes)} of intermediates are copies"
    found: list[str | Table] = [
        program.label,
        program_table(program, floor, by=by, sort=sort, width=width),
        memory,
        f"floor on {floor.device.name}: {floor.seconds * 1e3:.3f} ms, {LEFT_OUT}",
    ]
    found += [f"note: {note}" for note in program.notes]
    hazards = find_hazards(program)
    if hazards:
        found += ["hazards:", *(f"  {hazard}" for hazard in hazards)]
    else:
        found.append("hazards: none found")
    return found


def comparison_tables(comparison: Comparison, lines: int = 10) -> list[Table]:
    """The figures of two programs side by side, and the lines whose bytes differ most."""
    rows = [
        [row.name, _figure(row.name, row.before), _figure(row.name, row.after), _ratio(row)]
        for row in comparison.rows
        if (row.before, row.after) != (None, None)
    ]
    head = ["A", "B", "B / A"]
    tables = [make_table(["", *head], rows, numbers=head)]
    if comparison.lines:
        rows = [
            [row.name or "–", _figure("bytes", row.before), _figure("bytes", row.after), _ratio(row)]
            for row in comparison.lines[:lines]
        ]
        tables.append(make_table(["bytes by line", *head], rows, numbers=head))
    return tables


def _figure(name: str, value: float | None) -> str:
    if value is None:
        return ""
    ways = {"floor": f"{value * 1e3:.3f} ms", "build seconds": f"{value:.2f} s", "launches": f"{value:,.0f}"}
    return ways.get(name) or (number(int(value)) if name == "FLOPs" else megabytes(int(value)))


def _ratio(row: Row) -> str:
    return "" if row.ratio is None else f"{row.ratio:.3f}"
