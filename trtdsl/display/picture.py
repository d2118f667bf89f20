"""A program as a picture: a row for each launch, its box as wide as the bytes that it moves, in its stream's column."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..core.files import SVG, Reads, check_writable, write_atomically
from ..programs.devices import DEFAULT, floor_of
from ..programs.graph import Graph
from ..programs.hazards import megabytes
from ..programs.program import Program

COLOURS = {
    "product": "#3b6fb6",
    "convolution": "#2f8f6b",
    "attention": "#7a4fb0",
    "pooling": "#6b9a3c",
    "resize": "#6b9a3c",
    "reduction": "#b98a1f",
    "pointwise": "#8a8f98",
    "cast": "#c06fa4",
    "rearranging": "#c8503c",
    "transfer": "#c8503c",
    "other": "#555555",
}
ROW, BAR, LEFT, WIDEST, NARROWEST = 20, 14, 16, 320, 2
FOLDED = 100
"""Rows from which on launches are folded by module, or by line where nothing has a module."""
UNSEEN = re.compile("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f]")


def _places(lines: Sequence[str]) -> str:
    """Lines with each file named once.

    >>> _places(["networks/a.py:3", "networks/a.py:7", "b.py:1"])
    'networks/a.py:3, 7, b.py:1'
    """
    parts: list[str] = []
    before = ""
    for line in lines:
        file, _, number = line.rpartition(":")
        parts.append(number if file and file == before else line)
        before = file
    return ", ".join(parts)


@dataclass
class Row:
    """One box: a launch, or several that follow each other in one stream and one module."""

    kind: str
    label: str
    bytes: int
    launches: int
    stream: int
    seconds: float
    group: str
    lines: str


def write_svg(program: Program, path: str | Path, *, device: str = DEFAULT, reads: Reads = ()) -> None:
    """Writes the picture. Raises UsageError for a file that cannot be written, or that is one of ``reads``."""
    write_atomically(check_writable(path, SVG, reads), draw(program, device=device).encode())


def draw(program: Program, *, device: str = DEFAULT) -> str:
    """The picture as SVG text."""
    rows = _rows(program, device)
    if len(rows) > FOLDED:
        rows = _folded(rows)
    streams = sorted({row.stream for row in rows})
    most = max((row.bytes for row in rows), default=1) or 1
    column = {stream: LEFT + index * 24 for index, stream in enumerate(streams)}
    label = LEFT + 24 * len(streams) + WIDEST + 12
    height = 64 + ROW * len(rows) + 40
    root = ElementTree.Element(
        "svg", xmlns="http://www.w3.org/2000/svg", width=str(label + 640), height=str(height),
        viewBox=f"0 0 {label + 640} {height}",
    )  # fmt: skip
    root.set("font-family", "ui-monospace, monospace")
    root.set("font-size", "11")
    ElementTree.SubElement(root, "rect", width="100%", height="100%", fill="#ffffff")
    floor = floor_of(program, device)
    _text(root, LEFT, 20, f"{program.network} ({program.backend})", weight="bold")
    _text(
        root, LEFT, 36,
        f"{program.launch_count} launches, {megabytes(program.bytes)} moved, {megabytes(program.rearranged_bytes)} "
        f"only rearranged, floor {floor.seconds * 1e3:.3f} ms on {floor.device.name} (estimate)",
    )  # fmt: skip
    _legend(root, sorted({row.kind for row in rows}))
    for index, row in enumerate(rows):
        y = 64 + ROW * index
        width = max(NARROWEST, WIDEST * row.bytes / most)
        box = ElementTree.SubElement(
            root, "rect", x=str(column[row.stream]), y=str(y), width=f"{width:.1f}", height=str(BAR), rx="2",
            fill=COLOURS.get(row.kind, COLOURS["other"]),
        )  # fmt: skip
        ElementTree.SubElement(box, "title").text = _seen(
            f"{row.label}, stream {row.stream}, {row.seconds * 1e6:.1f} µs"
        )
        count = f"{row.launches} × " if row.launches > 1 else ""
        _text(root, label, y + BAR - 3, f"{count}{row.kind} {row.label}  {megabytes(row.bytes)}  {row.lines}")
    return ElementTree.tostring(root, encoding="unicode")


def _rows(program: Program, device: str) -> list[Row]:
    graph, floor = Graph(program), floor_of(program, device)
    rows = []
    for launch in program.launches:
        name = launch.name if len(launch.name) <= 40 else launch.name[:39] + "…"
        lines, scopes = graph.lines(launch), graph.scopes(launch)
        group = _module(scopes[-1]) if scopes else ", ".join(lines[-1:])
        rows.append(
            Row(
                launch.kind, name, launch.bytes * launch.times, launch.times, launch.stream,
                floor.launches[launch.index], group, _places(lines),
            )
        )  # fmt: skip
    return rows


def _module(scope: str) -> str:
    """The first parts of a scope, through its first number: ``layers.3`` of ``layers.3.attention``."""
    parts = scope.split(".")
    numbered = next((index for index, part in enumerate(parts) if part.isdigit()), 0)
    return ".".join(parts[: numbered + 1])


def _folded(rows: Sequence[Row]) -> list[Row]:
    """Launches that follow each other in one stream and module as one row, of the kind that moves most in it."""
    folded: list[Row] = []
    inside: list[dict[str, int]] = []
    for row in rows:
        last = folded[-1] if folded else None
        if last is not None and (last.stream, last.group) == (row.stream, row.group):
            last.bytes += row.bytes
            last.launches += row.launches
            last.seconds += row.seconds
        else:
            last = Row(row.kind, row.group, row.bytes, row.launches, row.stream, row.seconds, row.group, "")
            folded.append(last)
            inside.append({})
        inside[-1][row.kind] = inside[-1].get(row.kind, 0) + row.bytes
        last.kind = max(inside[-1], key=lambda kind: inside[-1][kind])
    return folded


def _legend(root: ElementTree.Element, kinds: Sequence[str]) -> None:
    x = LEFT
    for kind in kinds:
        ElementTree.SubElement(
            root, "rect", x=str(x), y="45", width="10", height="10", fill=COLOURS.get(kind, COLOURS["other"])
        )
        _text(root, x + 14, 54, kind)
        x += 14 + 8 * len(kind) + 16


def _text(root: ElementTree.Element, x: int, y: int, text: str, *, weight: str = "normal") -> None:
    element = ElementTree.SubElement(root, "text", x=str(x), y=str(y), fill="#222222")
    element.set("font-weight", weight)
    element.text = _seen(text)


def _seen(text: str) -> str:
    """Without what XML cannot hold."""
    return UNSEEN.sub("?", text)
