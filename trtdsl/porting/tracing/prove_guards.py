"""Proofs that comparisons of sizes, such as ``h % 32 == 0``, have the same result at all sizes as in the trace.

The trace is executed once more with symbolic sizes: its statements, by trtdsl's own functions, so that each size that
the module compared is an expression of the inputs' dimensions. Comparisons of whole numbers are then decided by the
algebra of sizes, those of fractions by trying every value. Where a comparison has another result, the module is traced
there too: another path gives the same program, or is another way that the module goes (branches.py).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, TypeGuard

from ...core.errors import Location, TrtdslError, UnsupportedError
from ...core.lazy import F, np, torch
from ...definition.input import Input
from ...definition.network import Network
from ...functional.constants import of_constants
from ...interpreter.interpret import Interpreter
from ...sizes.condition import OPPOSITE, Condition, verdict
from ...sizes.constraints import outcomes_of, where_it_holds
from ...sizes.dim import Dim, TensorDim
from ...sizes.operators import BITWISE, COMPARISONS, MATH, ROUNDING
from ...sizes.proof import Env, evaluated, grid, samples
from ...sizes.shape import substitute
from ...sizes.size import Size, SizeLike, size_max, size_min
from ..calls import (
    TRUTH,
    Branch,
    Op,
    SizeOf,
    SizeOp,
    Value,
    Weight,
    apart,
    change_trees,
    computed,
    number_of,
    operations,
    sizes_of,
    values_in,
    with_sizes,
)
from ..given import Given
from ..render import Renderer
from ..served_range import served_range
from ..statements import Statement, size_key
from ..translating.lowering import statements
from .branches import Way
from .guards import SCANS, Guard
from .scans.taking import axis_of, index_of
from .trace import Trace, live_operations

TRIED = 20_000  # the most combinations of sizes
TRUTHS = 2_048  # those at which a tensor is computed
PATHS = 16, 512  # the least and the most paths to one program that are traced
CALLS = 8_000  # that these traces may have together


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


Same = Callable[[Trace, Env, list["Way"], Mapping[str, Any]], "tuple[Way, list[Asking]] | None"]
"""The way to which a trace at these sizes comes, and under which conditions; None where it is another program."""


class Unknown(Exception):
    """An unknown size: one that depends on data, or follows a call that has no counterpart."""


def proven(
    trace: Trace,
    given: Given,
    retraced: Callable[[Env], Trace],
    same: Same,
    most: int,
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
            columns = _columns(given, sorted(names))
            more = _explored(ways, broken, columns, given, retraced, same, (tried, most))
            if not more:
                break
            names |= more
            ways = [Way(trace, asked.by_guard, np.True_)]
    places = list(dict.fromkeys(map(_short, asked.open)))
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
                texts = _range_texts(given, condition.names) if way is ways[0] or texts else []
                ranged.update(condition.names if texts else ())
            for text in texts:
                found.setdefault(text, (Requirement(text, _short(guard.location)), {*condition.names}))
    kept = _range_texts(given, ranged)
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
    usual = {name: bounds[1] for name, bounds in _bounds(given).items()}
    covered = _all([condition.outcomes(columns) for condition in broken])
    ways[0].where = covered.copy()
    paths = [broken]
    for _ in range(most[0]):
        left = np.flatnonzero(~covered)
        if not len(left):
            return set()
        env = {**usual, **{name: int(column[left[0]]) for name, column in columns.items()}}
        try:
            other = retraced(env)
            asked, known = Asked(other, given), same(other, env, ways, columns)
        except TrtdslError:
            break
        there = [*asked.broken(), *(each for each in (known[1] if known else ()) if not each.everywhere)]
        more = {name for each in there for name in each.names} - set(columns)
        if more:
            return more
        here = _all([each.outcomes(columns) for each in there], len(covered))
        here[left[0]] = True
        if known is None:
            if len(ways) == most[1] or asked.open:
                break
            ways.append(Way(other, asked.by_guard, here))
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
    usual = {name: bounds[1] for name, bounds in _bounds(given).items()}
    first = int(np.flatnonzero(~covered)[0])
    env = {name: int(column[first]) for name, column in columns.items()}
    point = {name: column[first : first + 1] for name, column in columns.items()}
    failed = [[each for each in path if not each.outcomes(point)[0]] for path in paths]
    nearest = min(filter(None, failed), key=len)  # of the paths to the program, that left at the fewest places
    instead = served_range(given, columns, covered) if _are_all(columns, given) else ""
    error = nearest[0].refusal(env, _bounds(given), instead, tried=tried)
    error.__cause__ = ElsewhereAt({**usual, **env}, nearest[0].names, {**usual, **_most_apart(paths[0], columns)})
    return error


def _most_apart(asked: Sequence[Asking], columns: Mapping[str, Any]) -> Env:
    """The sizes at which the most of these comparisons are of sizes that differ, the greatest of them, if there are."""
    count = np.zeros(max(map(len, columns.values())), dtype=int)
    for each in asked:
        if each.guard.symbol in ("==", "!=") and not (each.guard.how or each.guard.loop):
            count += each.outcomes(columns) == (each.guard.outcome == (each.guard.symbol == "!="))
    last = np.flatnonzero(count == count.max())[-1]
    return {name: int(column[last]) for name, column in columns.items()} if count.any() else {}


def runs_of(ways: Sequence[Way], columns: Mapping[str, Any], given: Given) -> tuple[str, list[tuple[int, int]]] | None:
    """The dimension that falls into the fewest ranges in which the module goes the same ways, and these.

    None where there is no such dimension, or not all of the sizes are looked at.
    """
    if not _are_all(columns, given):
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


REPEATS = {"expand", "expand_as", "broadcast_to", "repeat", "tile"}


def _zeros(op: Op) -> list[Any] | None:
    """The numbers of a pad, which does nothing where they are 0; None for another call."""
    pads = op.kwargs.get("pad", op.args[1] if len(op.args) > 1 else None) if op.name == "pad" else None
    return list(pads) if isinstance(pads, (tuple, list)) else None


def _pad_by(op: Op, numbers: Mapping[int, SizeOp]) -> None:
    """Has a pad take other numbers at these places."""
    pads = tuple(numbers.get(place, number) for place, number in enumerate(_zeros(op) or ()))
    if "pad" in op.kwargs:
        op.kwargs["pad"] = pads
    else:
        op.args = (op.args[0], pads, *op.args[2:])


def _pads(trace: Trace) -> Iterator[tuple[Op, Any, list[Any]]]:
    """The pads of a trace, where they are, each time that a line pads by itself, and their numbers."""
    times: Counter[Location] = Counter()
    for op in live_operations(trace):
        numbers = _zeros(op)
        if numbers is not None and op.location is not None:
            times[op.location] += 1
            yield op, (op.location, times[op.location], len(numbers)), numbers


def _may_be_none(number: Any, other: Any) -> bool:
    """Whether what a pad adds, and another does not, may be written so that it is 0 at other sizes."""
    if isinstance(number, SizeOp):
        return number.symbol not in ("max", "*", "%")
    return type(number) is int and number > 0 and number != other


def _asks_axis(guard: Guard, place: int) -> bool:
    """Whether a comparison is of sizes of the axis that is padded at this place."""
    return any(size.axis == len(size.value.shape) - 1 - place // 2 for size in sizes_of((guard.left, guard.right)))


def _of_slices(op: Op) -> bool:
    """Whether the call takes elements one after the other: of as many as there are, all of them."""
    return op.name == "getitem" and all(
        item is Ellipsis or (isinstance(item, slice) and item.step in (None, 1)) for item in index_of(op)
    )


def repeats(trace: Trace, given: Given) -> dict[Op, list[Asking]]:
    """Calls that may give their operand, with the conditions under which they do.

    They repeat it once, pad it by nothing, or take all of it.
    """
    sizes: dict[Op, list[Guard]] = {}
    for op in live_operations(trace):
        operand, result = (op.args or (None,))[0], op.results
        if not isinstance(operand, Value) or not isinstance(result, Value) or op.location is None:
            continue
        zeros = _zeros(op)
        if zeros is not None:
            sizes[op] = [Guard("==", number, 0, True, op.location) for number in zeros]
        elif len(operand.shape) == len(result.shape) and (op.name in REPEATS or _of_slices(op)):
            sizes[op] = [
                Guard("==", SizeOf(operand, axis, own), SizeOf(result, axis, other), True, op.location)
                for axis, (own, other) in enumerate(zip(operand.shape, result.shape))
            ]
    symbols = Symbols(trace, given, [guard for guards in sizes.values() for guard in guards])
    found: dict[Op, list[Asking]] = {}
    for op, guards in sizes.items():
        with suppress(Unknown):
            found[op] = [Asking(guard, symbols, given) for guard in guards]
    return found


def kept(found: Mapping[Op, list[Asking]], env: Env) -> tuple[dict[Any, Any], list[Asking]]:
    """What of these calls gives their operand at these sizes, with the operand, and when it does.

    Of a pad that adds something, what it adds nothing by is 0.
    """
    once: dict[Any, Any] = {}
    conditions: list[Asking] = []
    for op, asked in found.items():
        taken: Any = op.args[0]
        so = [each.outcomes({name: np.array([env[name]]) for name in each.names}).all() for each in asked]
        if so and all(so):
            once[op.results] = once.get(taken, taken)
            conditions += asked
        elif _zeros(op) is not None:
            nothing = [each for each, holds in zip(asked, so) if holds and isinstance(each.guard.left, SizeOp)]
            once.update((each.guard.left, 0) for each in nothing)
            conditions += nothing
    return once, conditions


def clamped(way: Way, beside: Way, given: Given, columns: Mapping[str, Any]) -> bool:
    """Pads by nothing at sizes that are not the way's own, where its pads would be by something; whether there are any.

    What a short input is padded by, ``7 - t``, is ``max(7 - t, 0)`` from then on, wherever it is used, and what it is
    padded by to a multiple under ``if h % 4``, ``4 - h % 4``, is ``-h % 4``. A number that the way ``beside`` does not
    pad by, 1 under ``if up != h``, is ``h - up``.
    """
    order = {op: place for place, op in enumerate(operations(way.trace.root))}
    its = {place: numbers for _, place, numbers in _pads(beside.trace)}
    pads = {
        (op, place): number
        for op, where, numbers in _pads(way.trace)
        for place, number in enumerate(numbers)
        if _may_be_none(number, its.get(where, [0] * len(numbers))[place])
    }
    guards = {key: Guard(">=", number, 0, True, key[0].location) for key, number in pads.items() if key[0].location}
    symbols = Symbols(way.trace, given, [*guards.values(), *way.asked]) if guards else None
    changed: dict[SizeOp, SizeOp] = {}
    counted: dict[Op, dict[int, SizeOp]] = {}

    def holds(guard: Guard, symbols: Symbols) -> bool:
        """Whether it does at all sizes at which the module goes this way."""
        asking = Asking(guard, symbols, given)
        return columns.keys() >= {*asking.names} and all(
            each.where.any() and asking.outcomes(columns)[each.where].all() for each in (way, *way.others)
        )

    for (op, place), guard in guards.items():
        number = guard.left
        before = [each for each, asked in way.asked.items() if not asked.everywhere and each.at <= order[op]]
        before.sort(key=lambda each: (_asks_axis(each, place), each.at))
        with suppress(Unknown):
            assert symbols is not None
            less = isinstance(number, SizeOp) and not Asking(guard, symbols, given).everywhere
            forms = [("max", (number, 0))] if less else _nothing_where_not(before[-1], number) if before else []
            for symbol, operands in forms:
                if isinstance(number, SizeOp) and (number.symbol, number.operands) == (symbol, operands):
                    break  # it is so already
                new = SizeOp(symbol, operands, number_of(number), varies=True)
                if holds(replace(guard, symbol="==", left=new, right=number), symbols):
                    if isinstance(number, SizeOp):
                        changed[number] = new
                    else:
                        counted.setdefault(op, {})[place] = new
                    break
    for op, numbers in counted.items():
        _pad_by(op, numbers)
    if changed:
        change_trees(way.trace.root, lambda tree: with_sizes(tree, changed))
    ends = {(op, item): more for op in order for item, each in enumerate(index_of(op)) if (more := _left_out(each))}
    asked = {key: Guard(">", more, 0, True, key[0].location) for key, more in ends.items() if key[0].location}
    symbols = Symbols(way.trace, given, asked.values()) if asked else None
    for (op, item), guard in asked.items():
        index, axis = index_of(op), axis_of(op.args[0], index_of(op), item)
        with suppress(Unknown):
            assert symbols is not None
            if axis is not None and not Asking(guard, symbols, given).everywhere and holds(guard, symbols):
                size = SizeOf(op.args[0], axis, op.args[0].shape[axis])
                end = SizeOp("-", (size, guard.left), size.number - guard.left.number, varies=True)
                index[item] = slice(index[item].start, end, index[item].step)
                op.args, changed[guard.left] = (op.args[0], tuple(index), *op.args[2:]), end
    return bool(changed or counted)


def _left_out(item: Any) -> SizeOp | None:
    """The size that a slice leaves out at the end, as ``[:-more]`` says it; None for another item of an index."""
    end = item.stop if isinstance(item, slice) else None
    more = end.operands[0] if isinstance(end, SizeOp) and (end.symbol, len(end.operands)) == ("-", 1) else None
    return more if isinstance(more, SizeOp) else None


def _nothing_where_not(guard: Guard, number: SizeOp) -> list[tuple[str, tuple[Any, ...]]]:
    """What may be the number where the comparison has its outcome, and is 0 elsewhere: symbols with their operands."""
    symbol = guard.symbol if guard.outcome else OPPOSITE[guard.symbol]
    left, right = (guard.left, guard.right) if symbol in (">", ">=", "!=") else (guard.right, guard.left)
    if symbol == "==" or not all(isinstance(getattr(each, "number", each), int) for each in (left, right)):
        return []
    if symbol in (">", "!=") and right == 0 and isinstance(left, SizeOp) and left.symbol == "%":
        size, multiple = left.operands
        up = "%", (SizeOp("-", (size,), 0), multiple)
        return [up, ("*", (SizeOp("min", (left, 1), 1, varies=True), number))]
    if symbol == "!=":
        return [("-", (left, right)), ("-", (right, left))]
    more = SizeOp("-", (left, right), 0)
    more = more if symbol in ("<", ">") else SizeOp("+", (more, 1), 0)
    return [("*", (SizeOp("min", (SizeOp("max", (more, 0), 0), 1), 1, varies=True), number))]


def _all(masks: list[Any], count: int = 0) -> Any:
    return np.logical_and.reduce(masks) if masks else np.ones(count, dtype=bool)


def _columns(given: Given, names: list[str]) -> dict[str, Any]:
    ranges = {name: given.dims[name].bounds() for name in names}
    few = math.prod(high - low + 1 for low, high in ranges.values()) <= TRIED
    return grid(ranges) if few else {name: column[:TRIED] for name, column in samples(ranges).items()}


def _are_all(columns: Mapping[str, Any], given: Given) -> bool:
    """Whether the columns have all sizes of their dimensions."""
    ranges = (given.dims[name].bounds() for name in columns)
    return max(map(len, columns.values()), default=0) == math.prod(high - low + 1 for low, high in ranges)


def _range_texts(given: Given, names: Iterable[str]) -> list[str]:
    """Requirements that keep the dimensions within the ported ranges."""
    bounds = {name: given.dims[name].bounds() for name in names}
    return [text for name, (low, high) in bounds.items() for text in (f"{name} >= {low}", f"{name} <= {high}")]


def _short(location: Location) -> str:
    return f"{location.file.replace(chr(92), '/').rpartition('/')[2]}:{location.line}"


class Asked:
    """The conditions of one trace on its inputs' dimensions."""

    def __init__(self, trace: Trace, given: Given):
        self.by_guard: dict[Guard, Asking] = {}
        self.open: list[Location] = []
        for each in (trace, *trace.besides):
            self._ask(each, given, always=each is trace)

    def _ask(self, trace: Trace, given: Given, always: bool) -> None:
        """Adds what the trace asks; without ``always`` what is not so at all sizes."""
        guards = {
            (guard.symbol, size_key(guard.left), size_key(guard.right), guard.location): guard for guard in trace.guards
        }
        symbols = Symbols(trace, given, guards.values()) if guards else None
        for guard in guards.values():
            assert symbols is not None
            try:
                condition = Asking(guard, symbols, given)
            except Unknown:
                self.open.append(guard.location)
                continue
            if condition.names and (always or not condition.everywhere):
                self.by_guard[guard] = condition

    def broken(self) -> list[Asking]:
        """Those that do not hold at all sizes."""
        return [condition for condition in self.by_guard.values() if not condition.everywhere]

    def where(self, columns: Mapping[str, Any]) -> Any:
        """At which sizes all hold; at none where these columns do not say so."""
        broken, count = self.broken(), max(map(len, columns.values()), default=0)
        known = columns.keys() >= {name for each in broken for name in each.names}
        return _all([each.outcomes(columns) for each in broken], count) if known else np.zeros(count, dtype=bool)


class Asking:
    """A guard in terms of the inputs' dimensions."""

    def __init__(self, guard: Guard, symbols: Symbols, given: Given):
        self.guard, self.symbols = guard, symbols
        sizes = [symbols.size_of(leaf) for leaf in sizes_of((guard.left, guard.right))]
        atoms = {atom for size in sizes if isinstance(size, Size) for atom in size.atoms()}
        if any(isinstance(atom, TensorDim) for atom in atoms):
            raise Unknown
        self.names = [name for name in given.dims if name in map(str, atoms)]
        left, right = symbols.whole(guard.left), symbols.whole(guard.right)
        self.condition: Condition | None = None
        self.texts: list[str] = []
        """What the file requires for it."""
        if left is not None and right is not None:
            self.condition = Condition(left, guard.symbol if guard.outcome else OPPOSITE[guard.symbol], right)
            unbounded = {name: Dim(name) for name in self.names}
            anywhere = Condition(substitute(left, unbounded), self.condition.sign, substitute(right, unbounded))
            if verdict(anywhere, required=False) is not True:
                self.texts = [_as_text(self.condition)]
        elif self.names:
            self.texts = _range_texts(given, self.names)
        decided = verdict(self.condition, required=False) if self.condition is not None else None
        self.everywhere = decided is True or bool(self.outcomes(_columns(given, self.names)).all())

    def outcomes(self, columns: Mapping[str, Any]) -> Any:
        """Whether it holds, for many values of the dimensions."""
        if self.condition is not None:
            found = outcomes_of(self.condition, columns)
            return np.broadcast_to(found, next(iter(columns.values())).shape) if columns else found
        left, right = (self.symbols.numbers(side, columns) for side in (self.guard.left, self.guard.right))
        compare, outcome = COMPARISONS[self.guard.symbol], self.guard.outcome
        return np.array([compare(a, b) == outcome and a == a and b == b for a, b in zip(left, right)], dtype=bool)

    def refusal(
        self, env: Env, ranges: Mapping[str, tuple[int, int, int]], instead: str = "", *, tried: bool = False
    ) -> UnsupportedError:
        """The error where it does not hold at ``env``; ``instead`` is what the author may write.

        ``tried`` says that the module may do the same there, and that as many sizes were traced as are.
        """
        guard, where = self.guard, ""
        if self.condition is not None:
            text, where = str(self.condition), where_it_holds(self.condition, ranges)
        else:
            point = {name: np.array([env[name]]) for name in self.names}
            left, right = (self.symbols.numbers(side, point)[0] for side in (guard.left, guard.right))
            text = f"{left} {guard.symbol if guard.outcome else OPPOSITE[guard.symbol]} {right}"
            if _asks_a_tensor(guard.left):
                text = f"the truth of the tensor that is asked to be {right}, and it is {left}"
            elif (
                isinstance(guard.left, SizeOp)
                and guard.left.symbol in {**MATH, **ROUNDING, **BITWISE}
                and guard.symbol == "=="
            ):
                call = "" if guard.left.symbol in BITWISE else "()"
                text = f"what {guard.left.symbol}{call} gives to be {right}, and it is {left}"
        values = ", ".join(f"{name} = {env[name]}" for name in self.names)
        range_to_give = f"Give the dimension such a range, or a fixed size{f': {instead}' if instead else ''}"
        if guard.how:
            does = "is not known to do the same" if tried else "does something else"
            return UnsupportedError(
                f"a size becomes a plain number here ({guard.how.rstrip(',')}), and the module {does} where {values}: "
                f"the program is the one {where or f'for {text}'}. Compute it from shapes with + - * // % alone. "
                f"{range_to_give}",
                location=guard.location,
            )
        return UnsupportedError(
            f"the module takes another path where {values}: the one that is ported needs {text}"
            f"{f', which holds {where}' if where else ''}. {range_to_give}",
            location=guard.location,
        )


def _bounds(given: Given) -> dict[str, tuple[int, int, int]]:
    return {name: dim.range for name, dim in given.dims.items() if dim.range is not None}


def _as_text(condition: Condition) -> str:
    return re.sub(r"//|\*", r" \g<0> ", re.sub(r"\b(max|min)\(", r"td.size_\1(", str(condition)))


class Symbols:
    """The sizes of a trace's values as expressions of the inputs' dimensions.

    What the values are computed by is executed as the file will have it, line by line, of symbolic sizes.
    """

    def __init__(
        self,
        trace: Trace,
        given: Given,
        guards: Iterable[Guard],
        values: Iterable[Value] = (),
        drawn: Mapping[Value, Input] | None = None,
    ):
        """Of what ``guards`` ask, and of these ``values``; what is ``drawn`` has the shapes of such inputs."""
        self.trace, self.given = trace, given
        self.weights = {**trace.held, **trace.constants}
        self.network = Network("sizes")
        self.names: dict[Value, str] = {}
        self.asked: dict[Value, Interpreter] = {}
        self.space: dict[str, Any] = {
            "F": F,
            "td": SimpleNamespace(size_max=size_max, size_min=size_min, of_constants=of_constants),
            "torch": torch,
            "math": math,
        }
        with self.network.current():
            for name, spec in given.inputs.items():
                self.space[self._name(trace.inputs[name])] = self.network.add_input(name, spec)
            for number, (value, spec) in enumerate((drawn or {}).items()):
                self.space[self._name(value)] = self.network.add_input(f"drawn_{number}", spec)
            wanted = {*values, *(value for guard in guards for value in values_in((guard.left, guard.right)))}
            for op in _made_of(trace, wanted):
                if isinstance(op, Branch):  # whose sides give tensors of one shape, unless a size chooses
                    inside = (self.space.get(self._name(value)) for value in op.sides[0].results)
                    self.space.update(zip(map(self._name, op.results), inside))
                    continue
                self._mark((op.args, op.kwargs))
                for statement in statements(op):
                    self._run(statement, self.space)

    def _run(self, statement: Statement, space: dict[str, Any]) -> None:
        """Executes one line; one that fails leaves its values unknown, and those of every line that needs them."""
        names = ["_" if value is None else self._name(value) for value in statement.several or statement.results]
        text = Renderer("\0", self._name).expression(statement.expression)[0]
        with suppress(NameError, TrtdslError, TypeError, AttributeError, KeyError, ValueError, ZeroDivisionError):
            exec(f"{', '.join(names)}{',' if statement.several else ''} = {text}", space)

    def _mark(self, tree: Any) -> None:
        """Notes which sizes are no one number everywhere: these stand in the text as they are computed."""
        node = apart(tree)
        if isinstance(tree, SizeOp) and not tree.varies:
            tree.varies = any(map(self._is_dynamic, sizes_of(tree)))
        for each in node[1] if node is not None else ():
            self._mark(each)

    def _is_dynamic(self, size: SizeOf) -> bool:
        with suppress(Unknown):
            return isinstance(self.size_of(size), Size)
        return True

    def _name(self, value: Value) -> str:
        if value not in self.names:
            name = self.names[value] = f"value_{len(self.names)}"
            if isinstance(value, Weight) and value.path in self.weights:
                data = self.weights[value.path].detach()
                self.space[name] = self.network.constant(data if data.is_cpu else torch.empty_like(data, device="cpu"))
        return self.names[value]

    def size_of(self, size: SizeOf) -> SizeLike:
        """A dimension of a value; Unknown where that is not known."""
        tensor = self.space.get(self._name(size.value))
        if tensor is None:
            raise Unknown
        return tensor.shape[size.axis]

    def whole(self, expression: Any) -> SizeLike | None:
        """An expression of sizes as a size; None where it has fractions, Unknown where nothing is known of it."""
        if _asks_a_tensor(expression):
            return None
        with suppress(AttributeError, TrtdslError, TypeError, ValueError, ZeroDivisionError), self.network.current():
            found = computed(expression, self.size_of)
            return found if isinstance(found, (int, Size)) else None
        return None

    def numbers(self, expression: Any, columns: Mapping[str, Any]) -> list[Any]:
        """An expression's numbers at many values of the dimensions, calculated as Python does; NaN where it fails."""
        count = max(map(len, columns.values()), default=1)
        if _asks_a_tensor(expression):
            points = [dict(zip(columns, point)) for point in zip(*(column.tolist() for column in columns.values()))]
            truths = [self._truth(expression.operands[0], point) for point in points[:TRUTHS]]
            return truths + [math.nan] * (count - len(truths))

        def of(size: SizeOf) -> list[Any]:
            found = evaluated(self.size_of(size), columns)
            return [math.nan] * count if found is None else np.broadcast_to(found, count).tolist()

        def apply(function: Callable[..., Any], *operands: Any) -> list[Any]:
            given = [each if isinstance(each, list) else [each] * count for each in operands]
            return [_or_nan(function, *each) for each in zip(*given)]

        found = computed(expression, of, apply)
        return found if isinstance(found, list) else [found] * count

    def _truth(self, value: Value, env: Env) -> bool:
        """The truth of a tensor of whole numbers that is made of sizes alone, as the file would compute it."""
        if value not in self.asked:
            network, space = Network("truth"), dict(self.space)
            with network.current():
                for name, spec in self.given.inputs.items():
                    network.add_input(name, replace(spec, longest=None))  # it is fed zeros
                for op in _made_of(self.trace, {value}, known=True):
                    for statement in statements(op):
                        self._run(statement, space)
            if space.get(self._name(value)) is None:
                raise Unknown
            network.output(space[self._name(value)], "truth")
            self.asked[value] = Interpreter(network)
        usual = {each: dim.opt or 1 for each, dim in self.given.dims.items()}
        feeds = {each: torch.zeros(fed[0], dtype=fed[1]) for each, fed in self.given.at({**usual, **env}).items()}
        return bool(self.asked[value](feeds)["truth"])


def _asks_a_tensor(expression: Any) -> TypeGuard[SizeOp]:
    return isinstance(expression, SizeOp) and expression.symbol == TRUTH


def _or_nan(function: Callable[..., Any], *operands: Any) -> Any:
    try:
        return function(*operands)
    except (ArithmeticError, ValueError):  # as forward does there: no size at which it does the same
        return math.nan


def _made_of(trace: Trace, wanted: set[Value], *, known: bool = False) -> list[Op]:
    """The calls that the values are made by, in order; those of ``known`` values, whose operands are known."""
    needed, chosen = set(wanted), list[Op]()
    for op in reversed(list(operations(trace.root))):
        if not needed.isdisjoint(op.made):
            chosen.append(op)
            needed.update(each for each in op.taken if each.known or not known)
    return chosen[::-1]
