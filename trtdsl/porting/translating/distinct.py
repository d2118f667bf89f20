"""What values a tensor has, and elements as often as others say: by sorting, and by masks of what is chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...core.lazy import torch

PARAMETERS = {
    "unique": ("input", "sorted", "return_inverse", "return_counts", "dim"),
    "unique_consecutive": ("input", "return_inverse", "return_counts", "dim"),
    "repeat_interleave": ("input", "repeats", "dim"),
}
MOST_COLUMNS = 16  # that rows are sorted by, one after the other


def distinct(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Callable[[], Any] | None:
    """What gives the result of a call whose size values say, by calls that choose; None for other calls."""
    given = {**dict(zip(PARAMETERS.get(name, ()), args)), **kwargs}
    input, dim = given.get("input"), given.get("dim")
    if not isinstance(input, torch.Tensor):
        return None
    if name == "repeat_interleave":
        rows, repeats = (None, input) if given.get("repeats") is None else (input, given["repeats"])
        if not isinstance(repeats, torch.Tensor) or not repeats.dim() or repeats.shape[0] == 1:
            return None
        return lambda: _repeated(rows, repeats, dim)
    if (
        name not in PARAMETERS
        or not input.numel()
        or (dim is not None and input.numel() > MOST_COLUMNS * input.shape[dim])
    ):
        return None
    wanted = True, bool(given.get("return_inverse")), bool(given.get("return_counts"))

    def chosen() -> Any:
        found = _distinct(input, dim, ordered=name == "unique")
        return found[0] if sum(wanted) == 1 else tuple(each for each, kept in zip(found, wanted) if kept)

    return chosen


def _distinct(
    input: torch.Tensor, dim: int | None, *, ordered: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The elements, or the slices along ``dim``, that differ; which of them each is; and how often each is there."""
    front = input.reshape(-1) if dim is None else input.movedim(dim, 0)
    rows = front.reshape(front.shape[0], -1)
    places = torch.arange(rows.shape[0])
    for column in reversed(range(rows.shape[1])) if ordered else ():
        places = places[rows[places, column].sort(stable=True)[1]]
    rows = rows[places] if ordered else rows
    first = torch.cat([torch.ones(1, dtype=torch.bool), (rows[1:] != rows[:-1]).any(1)])
    which = first.long().cumsum(0) - 1
    begins = first.nonzero()[:, 0]
    values = (front[places] if ordered else front)[begins]
    inverse = torch.zeros_like(which).scatter(0, places, which) if ordered else which
    counts = torch.cat([begins[1:], torch.full((1,), 1) * rows.shape[0]]) - begins
    return (values, inverse.view(input.shape), counts) if dim is None else (values.movedim(0, dim), inverse, counts)


def _repeated(rows: torch.Tensor | None, repeats: torch.Tensor, dim: int | None) -> torch.Tensor:
    """Rows as often as values say, whose greatest is a size; their places where there are none."""
    chosen = (torch.arange(repeats.max().item()) < repeats.unsqueeze(1)).nonzero()[:, 0]
    if rows is None:
        return chosen
    return rows.reshape(-1)[chosen] if dim is None else rows.index_select(dim, chosen)
