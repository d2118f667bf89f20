"""Loops in place of repeated statements: over numbered parts of the weights, and over the author's lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..calls import Value
from ..statements import Copy, Loop, Statement, places_of, substitute, uses_of
from .lists import collect, go_over, joined
from .rounds import ListRounds, Rounds, carrying

LONGEST = 64  # statements in a loop's body


def rolled(body: list[Any], results: list[Value], counts: Mapping[str, int]) -> tuple[list[Any], list[Value]]:
    """The statements with loops, and the results as the loops give them; ``counts`` has the numbered parts of each
    path.
    """
    written: list[Any] = []
    rest = list(body)
    while rest:
        found = _repeated(rest, results, counts)
        if found is None:
            written.append(rest.pop(0))
            continue
        loop, length, rounds = found
        after = rest[length:]
        go_over(loop, rounds.over)
        before, behind, results = collect(loop, rounds.collected, after, results)
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
    body: list[Statement], results: list[Value], counts: Mapping[str, int]
) -> tuple[Loop, int, Rounds] | None:
    """The longest run of repeated statements that begins here, the number of statements in it, and its rounds."""
    best: tuple[Loop, int, Rounds] | None = None
    places = places_of(body, results)
    for kind in (Rounds, ListRounds):
        for period in range(1, min(LONGEST, len(body) // 2) + 1):
            if kind is ListRounds and not (
                carrying(body, period, places) or any(v.hint for v in body[period - 1].results)
            ):
                continue  # its rounds end with what goes into a list, or into the next
            rounds = kind(body, period, places)
            count = 1
            while (count + 1) * period <= len(body) and rounds.round(count):
                count += 1
            while count > 1:
                loop = rounds.loop(count)
                if loop is not None:
                    loop.whole = loop.start == 0 and all(counts.get(path) == count for path in loop.containers)
                    loop.whole = loop.whole and bool(loop.containers)
                if loop is not None and (count > 2 or period > 1 or loop.whole):
                    if best is None or count * period > best[1]:
                        best = loop, count * period, rounds
                    break
                count -= 1
    return best
