"""One trace for all sizes: a module is traced at several sizes, and must make the same calls at each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from ...core.cancel import Progress, untold
from ...core.errors import TrtdslError, UnsupportedError
from ...core.lazy import np, torch
from ...sizes.proof import Env
from ..given import Given
from .alike import Lines, trace
from .branches import Apart, Way, state_of, united
from .guards import SCANS, Scans
from .prove_guards import Asked, Asking, ElsewhereAt, LoopOver, clamped, kept, proven, refused
from .trace import Trace, sample_of

Made = TypeVar("Made")
MOST_WAYS = 12  # programs that are written as one
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
    refusals: list[UnsupportedError] = []
    unlike: dict[Any, str] = {}
    for scans in (Scans(on=False), Scans(on=True), Scans(on=False, refused=True)):
        token = SCANS.set(scans)
        try:
            found = _attempted(module, given, tell)
            break
        except LoopOver:
            continue
        except UnsupportedError as error:
            unlike |= scans.unlike
            with suppress(TrtdslError):
                if isinstance(error.__cause__, ElsewhereAt):
                    return _of_several(error, module, given, made, tell)
            refusals.append(error)
            if scans.forms or scans.refused or len(refusals) > 1:
                chosen = error if scans.forms or scans.refused else refusals[0]
                _say_why(chosen, unlike)
                raise chosen from chosen.__cause__
        finally:
            SCANS.reset(token)
    else:
        raise refusals[0]  # of the first trace
    return made(found)


def _of_several(
    refusal: UnsupportedError, module: torch.nn.Module, given: Given, made: Callable[[Trace], Made], tell: Progress
) -> Made:
    """What is ``made`` of one way that serves for all, or of a program with branches; TrtdslError for neither."""
    with suppress(TrtdslError):
        return made(_traced_at(given.points(), module, given, tell, MOST_WAYS, usual=refusal))
    return made(_traced_at(given.points(), module, given, tell, MOST_WAYS))


def _say_why(refusal: UnsupportedError, unlike: Mapping[Any, str]) -> None:
    """Adds why the loop at the line of the error is no scan."""
    if refusal.location in unlike:
        refusal.context.append(f"the loop here becomes no td.scan: {unlike[refusal.location]}")


def _attempted(module: torch.nn.Module, given: Given, tell: Progress) -> Trace:
    points = given.points()
    try:
        return _traced_at(points, module, given, tell)
    except UnsupportedError as error:  # once more: what the module's functions cache of one run is there from then on
        refusal = error
        if isinstance(refusal.__cause__, NoLoop):
            raise
        with suppress(UnsupportedError):
            return _traced_at(points, module, given, tell)
    cause = refusal.__cause__
    if isinstance(cause, ElsewhereAt):  # what it does there may do nothing at other sizes, as a pad to a multiple
        with suppress(TrtdslError):
            return _traced_at([cause.env, *points], module, given, tell)
    if points[0].values() and min(points[0].values()) == 1:  # forward leaves out what it does for more than one
        with suppress(TrtdslError):
            return _traced_at(sorted(points, key=lambda env: -sum(env.values())), module, given, tell)
    raise refusal


class NoLoop(Exception):
    """The cause of a refusal: forward has no loop that is a scan."""


def _traced_at(
    points: list[Env],
    module: torch.nn.Module,
    given: Given,
    tell: Progress,
    most: int = 1,
    usual: UnsupportedError | None = None,
) -> Trace:
    """The trace at the first of the points, which is one with branches where the module goes up to ``most`` ways.

    With ``usual``, the error that says where it goes another way, it is the trace of the way that most sizes go.
    """
    first, *others = points
    tell(TRACING, 0, 1)
    result = _traced(module, given, first)
    for name, spec in given.inputs.items():
        sample_of(result, name, spec)  # what it raises needs no further trace
    scans = SCANS.get()
    if scans is not None and scans.on and not scans.forms:
        raise UnsupportedError("forward has no loop over a size that is a scan") from NoLoop()
    mine = Lines(result)
    if result.tried:  # a size that depends on values must not become a number either
        mine.compare(Lines(_traced(module, given, first, count=5)), "one number of chosen elements", "another")
    lines = {result: (mine, first)}

    def same(other: Trace, env: Env, ways: list[Way], columns: Mapping[str, Any]) -> tuple[Way, list[Asking]] | None:
        its = lines.setdefault(other, (Lines(other), env))[0]
        for way in ways:
            with suppress(UnsupportedError):
                lines[way.trace][0].compare(its, _text(lines[way.trace][1]), _text(env))
                return way, []
        for way in ways:
            with suppress(UnsupportedError):
                return way, without_repeats(way.trace, other, env)
        for way in ways:
            asked = Asked(other, given)
            there = Way(other, asked.by_guard, asked.where(columns))
            restore = state_of((way, there))
            changed = [each.trace for each in (way, there) if clamped(each, given, columns)]
            with suppress(UnsupportedError):
                if changed:
                    conditions = without_repeats(way.trace, other, env)
                    lines.update((trace, (Lines(trace), lines[trace][1])) for trace in changed)
                    return way, conditions
            restore()
        return None

    def without_repeats(mine: Trace, other: Trace, env: Env) -> list[Asking]:
        """The conditions under which they make the same calls but for those that change nothing."""
        (own, here), (there, more) = (kept(each, given, env) for each in (mine, other))
        Lines(mine, own).compare(Lines(other, there), _text(lines[mine][1]), _text(env))
        return here + more

    if not others:
        _check_steady(module, given, first, mine)
    found = proven(result, given, lambda env: trace(module, given.at(env)), same, most)
    result.requirements, remarks, ways, columns = found
    result.remarks += remarks
    ways = ways or [Way(result, {}, True)]
    main = max(ways, key=lambda way: way.where.sum()) if usual is not None and len(ways) > 1 else ways[0]
    if main is not ways[0]:
        place = int(main.where.argmax())
        there = {**first, **{name: int(column[place]) for name, column in columns.items()}}
        return _traced_at([there, *points], module, given, tell, most, usual)
    further = given.further(min(max(FURTHER_CALLS // max(len(mine.ops), 1), 1), MOST_FURTHER))
    ends = [] if len(ways) == 1 else _some_of(ways, columns, first)
    rest = [*others, *ends, *given.between(), *(env for env in further if env not in points)]
    for number, env in enumerate(rest, start=1):
        tell(f"{TRACING} ({_text(env)})", number, len(rest) + 1)
        try:
            other = _traced(module, given, env)
        except TrtdslError:
            if env in others:
                raise
            continue  # the module may need multiples, which the ends of the ranges are
        if same(other, env, ways, columns) is None:
            _check_steady(module, given, first, Lines(_traced(module, given, first)))
            lines[result][0].compare(Lines(other), _text(first), _text(env))
    if usual is not None:
        _serve_all(result, ways, columns, given, usual)
    elif len(ways) > 1:
        _unite(ways, columns, given, {trace: own for trace, (own, _) in lines.items()})
    tell(TRACING, 1, 1)
    return result


def _some_of(ways: list[Way], columns: Mapping[str, Any], usual: Env) -> list[Env]:
    """The first, the middle and the last sizes at which the module goes each way."""
    served = [np.flatnonzero(way.where) for way in ways]
    places = dict.fromkeys(int(there[place]) for there in served for place in (0, len(there) // 2, -1))
    return [{**usual, **{name: int(column[place]) for name, column in columns.items()}} for place in places]


def _serve_all(trace: Trace, ways: list[Way], columns: dict[str, Any], given: Given, refusal: UnsupportedError) -> None:
    """Notes at which sizes the trace of the first way serves in the place of another."""
    trace.elsewhere = _some_of(ways[1:], columns, {name: dim.opt or 1 for name, dim in given.dims.items()})
    sizes = "; ".join(map(_text, trace.elsewhere))
    trace.remarks.append(
        f"{refusal.location}: forward takes another path at some sizes, and what is written is the usual one, which "
        f"gives the same there: checked at {sizes}"
    )


def _unite(ways: list[Way], columns: dict[str, Any], given: Given, lines: Mapping[Trace, Lines]) -> None:
    """Makes the first way's trace the program of all; raises UnsupportedError where there is none."""
    paths = [*ways, *(other for way in ways for other in way.others)]
    first, restore = ways[0], state_of(paths)
    for whole in (False, True):
        try:
            for program, way in united(paths, whole=whole):
                Lines(program).compare(lines[way.trace], "one size", "another")
            break
        except (Apart, UnsupportedError):
            restore()
    else:
        broken = [each for each in first.asked.values() if not each.everywhere]
        raise refused([broken], first.where, columns, given)
    first.trace.branches = True
    for way in ways[1:]:
        first.trace.remarks += [each for each in way.trace.remarks if each not in first.trace.remarks]


def _check_steady(module: torch.nn.Module, given: Given, env: Mapping[str, int], mine: Lines) -> None:
    """Raises UnsupportedError with the module's line where two runs at the same sizes differ."""
    try:
        mine.compare(Lines(_traced(module, given, env)), "one run", "another")
    except UnsupportedError as error:
        raise UnsupportedError(
            "forward does not do the same in each run: it draws random numbers, reads the time, or keeps state outside "
            "of the module. Make it the same each time, or an input",
            location=error.location,
        ) from error


def _traced(module: torch.nn.Module, given: Given, env: Mapping[str, int], count: int = 3) -> Trace:
    try:
        return trace(module, given.at(env), count)
    except TrtdslError as error:
        if env:
            error.context.append(f"at {_text(env)}")
        raise


def _text(env: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {size}" for name, size in env.items())
