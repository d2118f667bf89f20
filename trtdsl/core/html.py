"""What a notebook shows of a value: one folded line, with tables and text under it. All text is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice
from typing import Any

MOST = 200
"""Rows that a table shows."""


def folded(title: Any, *parts: str) -> str:
    """One line that opens to ``parts``, which are HTML already.

    >>> folded("a < b", preformatted("x & y"))
    '<details><summary><code>a &lt; b</code></summary><pre>x &amp; y</pre></details>'
    """
    return f"<details><summary><code>{escape(str(title))}</code></summary>{''.join(parts)}</details>"


def preformatted(text: Any) -> str:
    """Text as it is, in lines."""
    return f"<pre>{escape(str(text))}</pre>"


def table(head: Sequence[Any], rows: Iterable[Sequence[Any]]) -> str:
    """A table of the first rows; how many more there are is said under it. Nothing for no rows."""
    rows = iter(rows)
    shown = list(islice(rows, MOST))
    more = sum(1 for _ in rows)
    if not shown:
        return ""
    body = "".join(f"<tr>{_cells('td', row)}</tr>" for row in shown)
    rest = f"<p>and {more} more</p>" if more else ""
    return f"<table><thead><tr>{_cells('th', head)}</tr></thead><tbody>{body}</tbody></table>{rest}"


def _cells(tag: str, row: Sequence[Any]) -> str:
    return "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in row)
