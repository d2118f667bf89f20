"""Tables as rich lays them out, for the command line and for ``str()``; rich is imported when one is made."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..core.errors import shown

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

BETWEEN = 3  # characters between two columns
READABLE, LEAST = 16, 10  # characters of a column that is cut: so many before others are dropped, and at the least


def make_table(
    head: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    numbers: Iterable[str] = (),
    totals: Sequence[str] | None = None,
    width: int | None = None,
    drop: Sequence[str] = (),
    cut: Sequence[str] = (),
    note: str = "",
) -> Table:
    """A table of one line a row where there is room; columns of ``numbers`` are flush right and never broken.

    Where it is wider than ``width``, the columns that ``cut`` names are shortened, and keep their ends (``code`` its
    beginning), and those that
    ``drop`` names are left out, in that order, as far as needed. The caption has the ``note``, and what was left out.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    cells = [[shown(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    kept = list(range(len(head)))
    if width is not None:
        kept = _fitted(head, cells, list(totals or [""] * len(head)), width, drop, cut)
    left_out = [name for index, name in enumerate(head) if index not in kept]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, show_footer=totals is not None)
    names = ", ".join(f"'{name}'" for name in left_out)
    more = f"a terminal wider than these {width} characters shows {names}, too" if left_out else ""
    if said := "\n".join(filter(None, [note, more])):
        table.caption, table.caption_justify = Text(said, "dim"), "left"
    right = set(numbers)
    for index in kept:
        name, total = head[index], "" if totals is None else totals[index]
        if name in right:
            table.add_column(name, Text(total), justify="right", no_wrap=True)
        else:
            table.add_column(name, Text(total), overflow="fold")
    for row in cells:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in (row[index] for index in kept)))
    return table


def _fitted(
    head: Sequence[str],
    rows: list[list[str | Text]],
    totals: list[str],
    width: int,
    drop: Sequence[str],
    cut: Sequence[str],
) -> list[int]:
    """The columns that are kept; the cells of those that are cut are shortened where they stand."""
    sizes = [max(len(head[k]), len(totals[k]), *(len(row[k]) for row in rows), 0) for k in range(len(head))]
    kept = list(range(len(head)))

    shortened = [head.index(name) for name in cut]

    def excess(least: int | None = None) -> int:
        found = [sizes[k] if least is None or k not in shortened else min(sizes[k], least) for k in kept]
        return sum(found) + BETWEEN * (len(kept) - 1) - width

    for name in drop:
        if excess(READABLE) > 0:
            kept.remove(head.index(name))
    for least in (READABLE, LEAST):
        for k in shortened:
            if excess() > 0:
                sizes[k] = max(sizes[k] - excess(), min(sizes[k], least))
    for row in rows:
        for k in shortened:
            cell = row[k]
            if isinstance(cell, str) and len(cell) > sizes[k]:
                rest = sizes[k] - 1
                row[k] = f"{cell[:rest]}…" if head[k] == "code" else f"…{cell[len(cell) - rest :]}"
    return kept


def as_text(table: Table) -> str:
    """The table as plain text, as wide as it needs to be.

    >>> print(as_text(make_table(["size", "bytes"], [["N", "4"], ["T", "16"]], numbers=["bytes"])))
    size   bytes
    ────────────
    N          4
    T         16
    """
    from rich.console import Console

    console = Console(file=io.StringIO(), width=10_000, color_system=None)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
