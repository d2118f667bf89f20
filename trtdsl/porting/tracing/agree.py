"""One trace for all sizes: a module is traced at several sizes, and must make the same calls at each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from ...core.cancel import Progress, untold
from ...core.errors import BuildError, Location, TrtdslError, UnsupportedError
from ...core.lazy import np, torch
from ...sizes.profile import sizes_text
from ...sizes.proof import Env
from ..calls import Op, number_of
from ..given import Given
from .alike import Lines, trace, unite
from .guards import SCANS, SIDES, Scans, Sides
from .proof.asked import Asked, Asking
from .proof.covered import ElsewhereAt, LoopOver, proven, refused, requirements_of, runs_of
from .proof.pads import clamped, kept, repeats
from .scalars import NeedsDeclared
from .trace import DrawsNumbers, Trace, sample_of
from .ways.both_sides import compute_both
from .ways.way import Apart, Way, snapshot

Made = TypeVar("Made")
MOST_WAYS = 16  # programs that are written as one, or each as one of a file's networks
TRACING = "tracing forward"
FURTHER_CALLS, MOST_FURTHER = 2_000, 24
"""The calls that traces at further sizes have together, and the most of these sizes: what no record of a size says,
since Python indexes a list without asking the number, is seen by trying."""


def traced_at_all_sizes(
    module: torch.nn.Module, given: Given, made: Callable[[Trace], Made], tell: Progress = untold
) -> Made:
    """What is ``made`` of the trace at the sizes to tune for, where those at the ends of all ranges agree with it.

    Where the module goes several ways, ``made`` gets what may serve for all of them, and raises a TrtdslError for what
    does not: first the trace of the usual way, then one with branches. ``tell`` hears of each further size.

    Raises UnsupportedError with the author's line where the module takes another path at some size, or where a size
    becomes a number on its way.
    """
    refusal: UnsupportedError | None = None
    for both in (False, True):
        sides = Sides(both)
        token = SIDES.set(sides)
        try:
            return _traced(module, given, partial(_as_built, made), tell)
        except UnsupportedError as error:
            refusal = refusal or error
            if not sides.met:
                break
        finally:
            SIDES.reset(token)
    assert refusal is not None
    raise refusal


def _as_built(made: Callable[[Trace], Made], found: Trace) -> Made:
    """What is ``made`` of the trace, with both sides computed of branches on values that TensorRT does not build."""
    undo = snapshot([Way(found, {})])
    try:
        return made(found)
    except UnsupportedError as error:
        for depth in (1, 0) if isinstance(error.__cause__, BuildError) else ():
            undo()
            if compute_both(found, depth):
                with suppress(UnsupportedError):
                    return made(found)
        raise


def _traced(module: torch.nn.Module, given: Given, made: Callable[[Trace], Made], tell: Progress) -> Made:
    """What :func:`traced_at_all_sizes` gives, with branches on values as ``SIDES`` says."""
    refusals: list[UnsupportedError] = []
    scanned: UnsupportedError | None = None  # with loops that are scans
    unlike: dict[Any, str] = {}
    for scans in (Scans(on=False), Scans(on=True), Scans(on=False, refused=True)):
        token = SCANS.set(scans)
        try:
            found = _attempted(module, given, scans, tell)
            break
        except LoopOver:
            continue
        except UnsupportedError as error:
            if isinstance(error.__cause__, (DrawsNumbers, NeedsDeclared)):
                raise
            unlike |= scans.unlike
            with suppress(TrtdslError):
                if isinstance(error.__cause__, ElsewhereAt):
                    return _of_several(error, module, given, made, tell)
            refusals.append(error)
            scanned = error if scans.forms else scanned
            # With loops all ways are known, each for a range of sizes: rounds that are written out are more ways.
            known = bool(scans.forms) and isinstance(error.__cause__, ElsewhereAt) and error.__cause__.runs
            if scans.refused or len(refusals) > 1 or known:
                chosen = scanned or (error if scans.refused else refusals[0])
                if chosen.location in unlike:
                    chosen.context.append(f"the loop here becomes no td.scan: {unlike[chosen.location]}")
                causes = (each.__cause__ for each in refusals)
                with_runs = (cause for cause in causes if isinstance(cause, ElsewhereAt) and cause.runs)
                raise chosen from next(with_runs, chosen.__cause__)
        finally:
            SCANS.reset(token)
    else:
        raise refusals[0]  # of the first trace
    return made(found)


def _of_several(
    refusal: UnsupportedError, module: torch.nn.Module, given: Given, made: Callable[[Trace], Made], tell: Progress
) -> Made:
    """What is ``made`` of one way that serves for all, or of a program with branches; TrtdslError for neither."""
    found = _Traces(given.points(), module, given, tell, MOST_WAYS)
    if len(found.ways) == 1:
        return made(found.proven())
    if isinstance(refusal.__cause__, ElsewhereAt):
        refusal.__cause__.runs = runs_of(found.ways, found.columns, given)
    if any(way.alone for way in found.ways):
        raise refusal
    undo = snapshot([*found.ways, *(other for way in found.ways for other in way.others)])
    with suppress(TrtdslError):
        return made(found.usual(refusal))
    undo()
    return made(found.united())


def _attempted(module: torch.nn.Module, given: Given, scans: Scans, tell: Progress) -> Trace:
    points = given.points()

    def attempt(points: list[Env]) -> Trace:
        return _Traces(points, module, given, tell).proven()

    try:
        return attempt(points)
    except UnsupportedError as error:  # once more: what the module's functions cache of one run is there from then on
        refusal = error
        if isinstance(refusal.__cause__, (NoLoop, DrawsNumbers, NeedsDeclared)):
            raise
        scans.again = True
        try:
            return attempt(points)
        except UnsupportedError as error:
            if isinstance(error.__cause__, NeedsDeclared):
                raise
            if not isinstance(refusal.__cause__, ElsewhereAt) and isinstance(error.__cause__, ElsewhereAt):
                refusal = error  # what it does there may be a branch
        except TrtdslError:
            pass
    for order in _orders(points, refusal.__cause__):
        with suppress(TrtdslError):
            return attempt(order)
    raise refusal


def _orders(points: list[Env], cause: BaseException | None) -> Iterator[list[Env]]:
    """The points in other orders, of which the first is traced at the sizes that are written."""
    if isinstance(cause, ElsewhereAt):  # what it does there may do nothing at other sizes, as a pad to a multiple
        both = {**points[0], **{name: cause.env[name] for name in cause.names}}
        tried = [points[0]]
        points = [*points, cause.env]  # which no other way may leave out
        for env in (both, cause.env, cause.apart):
            if env not in tried:
                tried.append(env)
                yield [env, *points]
    if min(points[0].values(), default=0) == 1:  # forward leaves out what it does for more than one
        yield sorted(points, key=lambda env: -sum(env.values()))


class NoLoop(Exception):
    """The cause of a refusal: forward has no loop that is a scan."""


class _Traces:
    """The traces of a module, the first of which is compared with the others, and the ways that it goes by them.

    It may go up to ``most`` ways. Raises UnsupportedError where it goes more, or does not agree at the further sizes.
    """

    def __init__(self, points: list[Env], module: torch.nn.Module, given: Given, tell: Progress, most: int = 1):
        self.module, self.given = module, given
        self.point, *others = points
        tell(TRACING, 0, 1)
        self.first = self._at(self.point)
        for name, spec in given.inputs.items():
            sample_of(self.first, name, spec)  # what it raises needs no further trace
        scans = SCANS.get()
        if scans is not None and scans.on and not scans.forms:
            raise UnsupportedError("forward has no loop over a size that is a scan") from NoLoop()
        mine = Lines(self.first)
        if self.first.tried:  # a size that depends on values must not become a number either
            more = self._at(self.point, count=5)
            mine.compare(Lines(more), "one number of chosen elements", "another")
            self.first.unasked = [*self._where_others_are_chosen(mine, more)]
            self.first.remarks += self.first.unasked
        self.lines = {self.first: (mine, self.point)}
        self.repeats: dict[Trace, dict[Op, list[Asking]]] = {}
        if not others:
            self._check_steady(mine)
        found = proven(self.first, given, lambda env: trace(module, given.at(env)), self._same, most)
        self.remarks, self.ways, self.columns = found
        self._compare_others(others, tell)

    def _where_others_are_chosen(self, mine: Lines, more: Trace) -> Iterator[str]:
        """A remark for each place where forward asks how many elements values choose, and does something else then.

        Between 3 and 5 of them (``more``) the sides of what is asked move: where they meet, the answer is another.
        """
        places: dict[Location, set[int]] = {}
        for asked, its in zip(self.first.guards, more.guards):
            before, after = (number_of(each.left) - number_of(each.right) for each in (asked, its))
            if before != after:
                edge = int(3 - 2 * before / (after - before))
                places.setdefault(asked.location, set()).update(
                    count for count in range(edge - 1, edge + 2) if count >= 0
                )
        for place, counts in places.items():
            for count in sorted(counts):
                try:
                    its = Lines(self._at(self.point, count=count))
                except TrtdslError:  # as torch fails there
                    continue
                try:
                    mine.compare(its, "some chosen elements", "others")
                except UnsupportedError:
                    chosen = "no element" if count == 0 else f"{count} element{'s' * (count > 1)}"
                    yield (
                        f"forward asks at {place} how many elements values choose, and does something else where they "
                        f"choose {chosen}: the network does not ask"
                    )
                    break

    def _compare_others(self, points: list[Env], tell: Progress) -> None:
        """Compares the traces at further sizes, of which those at ``points`` must be possible."""
        further = self.given.further(min(max(FURTHER_CALLS // max(len(self._lines().ops), 1), 1), MOST_FURTHER))
        ends = [] if len(self.ways) == 1 else self._some_of(self.ways)
        drawn = (env for env in further if env not in (self.point, *points))
        rest = [*points, *ends, *self.given.between(), *drawn]
        for number, env in enumerate(rest, start=1):
            tell(f"{TRACING} ({sizes_text(env)})", number, len(rest) + 1)
            try:
                other = self._at(env)
            except TrtdslError:
                if env in points:
                    raise
                continue  # the module may need multiples, which the ends of the ranges are
            if self._same(other, env, self.ways, self.columns) is None:
                self._check_steady(Lines(self._at(self.point)))
                self._lines().compare(Lines(other), sizes_text(self.point), sizes_text(env))
        tell(TRACING, 1, 1)

    # -- what is the same ----------------------------------------------------------------------------------------------

    def _lines(self) -> Lines:
        return self.lines[self.first][0]

    def _same(
        self, other: Trace, env: Env, ways: list[Way], columns: Mapping[str, Any]
    ) -> tuple[Way, list[Asking]] | None:
        its = self.lines.setdefault(other, (Lines(other), env))[0]
        for way in ways:
            with suppress(UnsupportedError):
                mine, here = self.lines[way.trace]
                mine.compare(its, sizes_text(here), sizes_text(env))
                return way, []
        for way in ways:
            with suppress(UnsupportedError):
                return way, self._without_repeats(way.trace, other, env)
        asked = Asked(other, self.given)
        there = Way(other, asked.by_guard, asked.where(columns))
        for way in ways:
            undo = snapshot((way, there))
            both = ((way, there), (there, way))
            changed = [each.trace for each, other_way in both if clamped(each, other_way, self.given, columns)]
            for each in changed:
                self.repeats.pop(each, None)
            with suppress(UnsupportedError):
                if changed:
                    conditions = self._without_repeats(way.trace, other, env)
                    self.lines.update((each, (Lines(each), self.lines[each][1])) for each in changed)
                    return way, conditions
            undo()
            for each in changed:
                self.repeats.pop(each, None)
        return None

    def _without_repeats(self, mine: Trace, other: Trace, env: Env) -> list[Asking]:
        """The conditions under which they make the same calls but for those that change nothing."""
        for each in (mine, other):
            self.repeats[each] = self.repeats.get(each) or repeats(each, self.given)
        (own, here), (there, more) = (kept(self.repeats[each], env) for each in (mine, other))
        Lines(mine, own).compare(Lines(other, there), sizes_text(self.lines[mine][1]), sizes_text(env))
        return here + more

    def _check_steady(self, mine: Lines) -> None:
        """Raises UnsupportedError with the module's line where two runs at the same sizes differ."""
        try:
            mine.compare(Lines(self._at(self.point)), "one run", "another")
        except UnsupportedError as error:
            raise UnsupportedError(
                "forward does not do the same in each run: it draws random numbers, reads the time, or keeps state "
                "outside of the module. Make it the same each time, or an input",
                location=error.location,
            ) from error

    def _at(self, env: Env, count: int = 3) -> Trace:
        try:
            return trace(self.module, self.given.at(env), count)
        except TrtdslError as error:
            if env:
                error.context.append(f"at {sizes_text(env)}")
            raise

    # -- what is written -----------------------------------------------------------------------------------------------

    def proven(self, main: Way | None = None) -> Trace:
        """The trace of the first or another way, with what the file requires of sizes."""
        ways = self.ways if main is None else [main, *(way for way in self.ways if way is not main)]
        chosen = ways[0].trace
        chosen.requirements = requirements_of(ways, self.given)
        chosen.remarks += self.remarks
        return chosen

    def usual(self, refusal: UnsupportedError) -> Trace:
        """The trace of the way that most sizes go, where it is to serve in the place of the others."""
        main = max(self.ways, key=lambda way: way.where.sum())
        if len({self.lines[way.trace][0].ranks for way in self.ways}) > 1:
            raise refusal  # as where a squeeze leaves out a size that may be 1
        chosen = self.proven(main)
        chosen.elsewhere = self._some_of([way for way in self.ways if way is not main])
        sizes = "; ".join(map(sizes_text, chosen.elsewhere))
        chosen.remarks.append(
            f"{refusal.location}: forward takes another path at some sizes, and what is written is the usual one, "
            f"which gives the same there: checked at {sizes}"
        )
        return chosen

    def united(self) -> Trace:
        """The first trace, made the program of all ways; raises UnsupportedError where there is none."""
        paths, first = [*self.ways, *(other for way in self.ways for other in way.others)], self.ways[0]
        with suppress(Apart):
            unite(paths, {way: self.lines[way.trace][0] for way in paths})
            return self.proven()
        broken = [each for each in first.asked.values() if not each.everywhere]
        raise refused([broken], first.where, self.columns, self.given)

    def _some_of(self, ways: list[Way]) -> list[Env]:
        """The first, the middle and the last sizes at which the module goes each way."""
        served = [np.flatnonzero(way.where) for way in ways]
        places = dict.fromkeys(int(there[place]) for there in served for place in (0, len(there) // 2, -1))
        return [
            {**self.given.usual, **{name: int(column[place]) for name, column in self.columns.items()}}
            for place in places
        ]
