"""Loops in place of repeated statements: over numbered parts of the weights, and over the author's lists."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..calls import SizeOf, Value
from ..statements import Copy, Statement, places_of, substitute, uses_of
from .lists import collect, go_over, joined
from .rounds import Rolled, Rounds

LONGEST = 64  # statements in a loop's body


def rolled(
    body: list[Any], results: list[Value], counts: Mapping[str, int], inputs: Collection[Any] = ()
) -> tuple[list[Any], list[Value]]:
    """The statements with loops, and the results as the loops give them.

    ``counts`` has the numbered parts of each path; no loop goes over tensors of which ``inputs`` has sizes alone.
    """
    sized = {item.value for item in inputs if isinstance(item, SizeOf)}.difference(inputs)
    written: list[Any] = []
    rest = list(body)
    while rest:
        found = _repeated(rest, results, counts, sized)
        if found is None:
            written.append(rest.pop(0))
            continue
        loop, after = found.loop, rest[found.length :]
        go_over(loop, found.over)
        before, behind, results = collect(loop, found.collected, after, results)
        written += before
        uses = uses_of(after, results)
        for index, (first, again) in enumerate(loop.carried):
            if uses[first]:  # the input is needed later, so the loop changes a copy
                copy = Value(first.shape, first.dtype, name=again.name)
                written.append(Copy(copy, first))
                substitute(loop.body, {first: copy})
                loop.carried[index] = (copy, again)
        back = {last: first for first, last in loop.last.items()}
        substitute(after, back)
        results = [back.get(value, value) for value in results]
        written += [loop, *behind]
        rest = after
    return joined(written, results), results


def _repeated(
    body: list[Statement], results: list[Value], counts: Mapping[str, int], sized: set[Value]
) -> Rolled | None:
    """The longest run of repeated statements that begins here; of two, one without lists."""
    best: Rolled | None = None
    places = places_of(body, results)
    for period in range(1, min(LONGEST, len(body) // 2) + 1):
        rounds = Rounds(body, period, places)
        for count in range(len(rounds.maps), 1, -1):
            found = rounds.loop(count)
            if found is None or not sized.isdisjoint(found.over):
                continue
            loop = found.loop
            loop.whole = bool(loop.containers) and loop.start == 0
            loop.whole = loop.whole and all(counts.get(path[:-1]) == count for path in loop.containers)
            if count > 2 or period > 1 or loop.whole:
                best = found if best is None else max(best, found, key=lambda each: (each.length, each.is_plain))
                break
    return best
