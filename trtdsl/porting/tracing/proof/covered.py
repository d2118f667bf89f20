"""The ways that a module goes in the ranges of its sizes, and what a file of them requires."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....core.errors import TrtdslError, UnsupportedError
from ....core.lazy import np
from ....sizes.proof import Env
from ...calls import operations
from ...given import Given
from ...served_range import served_range
from ..guards import SCANS
from ..trace import Trace
from ..ways.way import Way
from .asked import Asked, Asking, all_of, are_all, columns_of, env_at, range_texts, short

PATHS = 16, 512  # the least and the most paths to one program that are traced
CALLS = 8_000  # that these traces may have together
Same = Callable[[Trace, Env, list["Way"], Mapping[str, Any]], "tuple[Way, list[Asking]] | None"]
"""The way to which a trace at these sizes comes, and under which conditions; None where it is another program."""


@dataclass(frozen=True)
class Requirement:
    """A condition of the inputs' dimensions, as the file has it, and where the module asks."""

    text: str
    place: str


class ElsewhereAt(Exception):
    """The cause of a refusal: the module does something else at these sizes.

    ``names`` are the dimensions that it asks there, and at ``apart`` the most sizes differ that it compares. ``runs``
    are ranges of one dimension in each of which it goes the same ways, with its name, where all ways are known.
    """

    def __init__(self, env: Env, names: Sequence[str], apart: Env):
        super().__init__(env)
        self.env, self.names, self.apart = env, names, apart
        self.runs: tuple[str, list[tuple[int, int]]] | None = None


class LoopOver(Exception):
    """Forward has a loop over a size that is not always the same."""


def proven(
    trace: Trace, given: Given, retraced: Callable[[Env], Trace], same: Same, most: int
) -> tuple[list[str], list[Way], dict[str, Any]]:
    """Remarks on open comparisons, at ``most`` so many ways that the module goes, and their sizes.

    Sizes for which the module takes another path are traced by ``retraced``, until there are none left. A path that
    comes to the ``same`` program as one before, under the conditions that it gives, is no way of its own. Raises
    UnsupportedError with the module's line, the first sizes that no way is known for, and the range without them.
    """
    if not given.dims:
        return [], [Way(trace, {}, np.True_)], {}
    asked = Asked(trace, given)
    broken = asked.broken()
    scans = SCANS.get()
    if scans is not None and not (scans.on or scans.refused) and any(each.guard.loop for each in broken):
        raise LoopOver
    ways, columns = [Way(trace, asked.by_guard, np.True_)], {}
    if broken:
        calls = max(sum(1 for _ in operations(trace.root)), 1)
        tried = min(max(PATHS[0], CALLS // calls), PATHS[1])
        names = {name for condition in broken for name in condition.names}
        while True:
            columns = columns_of(given, sorted(names))
            more = _explored(ways, broken, columns, given, retraced, same, (tried, most))
            if not more:
                break
            names |= more
            ways = [Way(trace, asked.by_guard, np.True_)]
    places = list(dict.fromkeys(map(short, asked.open)))
    remark = (
        f"what forward asks of sizes at {', '.join(places[:5])} is not proven for all of them: "
        "the sizes depend on data, or on calls without a counterpart"
    )
    return [remark] if places else [], ways, columns


def requirements_of(ways: Sequence[Way], given: Given) -> list[Requirement]:
    """What a file of these ways, of which it has the first, requires of its dimensions.

    Of dimensions that must stay within their ranges it requires nothing else, since all else holds there.
    """
    found: dict[str, tuple[Requirement, set[str]]] = {}
    ranged: set[str] = set()
    for way in ways:
        for guard, condition in way.asked.items():
            own, texts = way is ways[0] and condition.everywhere, condition.texts
            if not own or condition.condition is None:
                texts = range_texts(given, condition.names) if way is ways[0] or texts else []
                ranged.update(condition.names if texts else ())
            for text in texts:
                found.setdefault(text, (Requirement(text, short(guard.location)), {*condition.names}))
    kept = range_texts(given, ranged)
    return [each for text, (each, names) in found.items() if text in kept or not names <= ranged]


def _explored(
    ways: list[Way],
    broken: list[Asking],
    columns: dict[str, Any],
    given: Given,
    retraced: Callable[[Env], Trace],
    same: Same,
    most: tuple[int, int],
) -> set[str]:
    """Adds the ways that the module goes in the range; raises UnsupportedError where there are too many.

    At ``most`` so many paths are traced, of so many ways. Gives the names of dimensions that must be looked at too.
    """
    covered = all_of([condition.outcomes(columns) for condition in broken])
    ways[0].where = covered.copy()
    paths = [broken]
    for _ in range(most[0]):
        left = np.flatnonzero(~covered)
        if unknown := [each for each in paths[-1] if not each.is_known(columns, given)]:
            raise unknown[0].untried([*columns])
        if not len(left):
            return set()
        env = {**given.usual, **env_at(columns, left[0])}
        try:
            other = retraced(env)
            asked, known = Asked(other, given), same(other, env, ways, columns)
        except TrtdslError:
            break
        there = [*asked.broken(), *(each for each in (known[1] if known else ()) if not each.everywhere)]
        more = {name for each in there for name in each.names} - set(columns)
        if more:
            return more
        here = all_of([each.outcomes(columns) for each in there], len(covered))
        here[left[0]] = True
        if known is None:
            if len(ways) == most[1]:
                break
            ways.append(Way(other, asked.by_guard, here, alone=bool(asked.open)))
        else:
            known[0].where = known[0].where | here
            known[0].others.append(Way(other, asked.by_guard, here))
        paths.append(there)
        covered = covered | here
        if any(each.guard.how for each in there) and len(covered) > most[0] * here.sum():
            break  # it takes a size as a number, and there are more numbers than are tried
    raise refused(paths, covered, columns, given, tried=len(paths) > most[0])


def refused(
    paths: Sequence[list[Asking]], covered: Any, columns: Mapping[str, Any], given: Given, *, tried: bool = False
) -> UnsupportedError:
    """The error for the first sizes that are not covered by the conditions of ``paths``, with a range to give."""
    first = int(np.flatnonzero(~covered)[0])
    env = env_at(columns, first)
    point = {name: column[first : first + 1] for name, column in columns.items()}
    failed = [[each for each in path if not each.outcomes(point)[0]] for path in paths]
    nearest = min(filter(None, failed), key=len)  # of the paths to the program, that left at the fewest places
    instead = served_range(given, columns, covered) if are_all(columns, given) else ""
    error = nearest[0].refusal(env, given.ranges, instead, tried=tried)
    error.__cause__ = ElsewhereAt(
        {**given.usual, **env}, nearest[0].names, {**given.usual, **_most_apart(paths[0], columns)}
    )
    return error


def _most_apart(asked: Sequence[Asking], columns: Mapping[str, Any]) -> Env:
    """The sizes at which the most of these comparisons are of sizes that differ, the greatest of them, if there are."""
    count = np.zeros(max(map(len, columns.values())), dtype=int)
    for each in asked:
        if each.guard.symbol in ("==", "!=") and not (each.guard.how or each.guard.loop):
            count += each.outcomes(columns) == (each.guard.outcome == (each.guard.symbol == "!="))
    last = np.flatnonzero(count == count.max())[-1]
    return env_at(columns, last) if count.any() else {}


def runs_of(ways: Sequence[Way], columns: Mapping[str, Any], given: Given) -> tuple[str, list[tuple[int, int]]] | None:
    """The dimension that falls into the fewest ranges in which the module goes the same ways, and these.

    None where there is no such dimension, or not all of the sizes are looked at.
    """
    if not are_all(columns, given):
        return None
    found: dict[str, list[tuple[int, int]]] = {}
    where = np.stack([way.where for way in ways])
    for name, column in columns.items():
        sizes = np.unique(column).tolist()
        rows = [where[:, column == size].tobytes() for size in sizes]
        starts = [place for place in range(len(sizes)) if not place or rows[place] != rows[place - 1]]
        ends = [*(place - 1 for place in starts[1:]), len(sizes) - 1]
        found[name] = [(sizes[a], sizes[b]) for a, b in zip(starts, ends)]
    return min(
        ((name, runs) for name, runs in found.items() if len(runs) > 1), key=lambda each: len(each[1]), default=None
    )
