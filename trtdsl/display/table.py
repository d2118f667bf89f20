"""Tables as rich lays them out, for the command line and for ``str()``; rich is imported when one is made."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


def make_table(
    head: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    numbers: Iterable[str] = (),
    totals: Sequence[str] | None = None,
) -> Table:
    """A table of one line a row where there is room; columns of ``numbers`` are flush right and never broken."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, show_footer=totals is not None)
    right = set(numbers)
    for name, total in zip(head, totals or [""] * len(head), strict=True):
        if name in right:
            table.add_column(name, Text(total), justify="right", no_wrap=True)
        else:
            table.add_column(name, Text(total), overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return table


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
