"""A range of sizes that a port serves, written as its author may give it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.caller import to_write
from ..core.lazy import np
from ..sizes.dim import Dim
from .given import Given, text_of


def served_range(given: Given, columns: Mapping[str, Any], covered: Any) -> str:
    """The inputs and ranges to give, where the module has another path at some of the sizes; "" where none is found.

    ``columns`` have all combinations of the dimensions in question; ``covered`` says which the port serves.
    All of these dimensions are narrowed together: to a run of sizes or to multiples that hold the size to tune for.
    """
    usual = {name: given.usual[name] for name in columns}
    chosen: dict[str, tuple[int, list[int]]] = {}
    for name, column in columns.items():
        others = [columns[other] == size for other, size in usual.items() if other != name]
        here = np.logical_and.reduce([covered, *others])
        chosen[name] = _widest(set(column[here].tolist()), usual[name], column)
    for name in [None, *columns]:  # one dimension after the other is fixed, until all that is left is served
        if name is not None:
            chosen[name] = (1, [usual[name]])
        inside = np.logical_and.reduce([np.isin(columns[each], sizes) for each, (_, sizes) in chosen.items()])
        if inside.any() and bool(covered[inside].all()):
            return _written(given, chosen)
    return ""


def _widest(served: set[int], usual: int, column: Any) -> tuple[int, list[int]]:
    """The step and the sizes of the longest range of multiples around the usual size."""
    low, high = int(column.min()), int(column.max())
    best = (1, [usual])
    for step in range(1, usual + 1):
        if usual % step:
            continue
        first, last = usual, usual
        while first - step >= max(low, step) and first - step in served:
            first -= step
        while last + step <= high and last + step in served:
            last += step
        sizes = list(range(first, last + 1, step))
        if len(sizes) > len(best[1]):
            best = (step, sizes)
    return best


def _written(given: Given, chosen: Mapping[str, tuple[int, list[int]]]) -> str:
    """The inputs and the ranges of all dimensions, for the command line or for Python."""
    sizes: dict[str, Any] = {}
    ranges: dict[str, tuple[int, int, int]] = {}
    for name, (low, opt, high) in given.ranges.items():
        step, served = chosen.get(name, (1, None))
        low, high = (low, high) if served is None else (served[0], served[-1])
        fixed = low == high
        sizes[name] = low if fixed else step * Dim(name)
        if not fixed:
            ranges[name] = (low // step, opt // step, high // step)
    inputs = {n: text_of(spec.with_dims(sizes)) for n, spec in given.inputs.items() if n not in given.draws}
    shell = [f"--input {name}={text}" for name, text in inputs.items()]
    shell += [f"--dim {name}={low}:{opt}:{high}" for name, (low, opt, high) in ranges.items()]
    return to_write(f"inputs={inputs}, dims={ranges}", " ".join(shell))
