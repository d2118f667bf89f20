"""What a trace asks of sizes, as conditions of the inputs' dimensions."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ....core.errors import Location, UnsupportedError
from ....core.lazy import np
from ....sizes.condition import OPPOSITE, Condition, verdict
from ....sizes.constraints import outcomes_of, where_it_holds
from ....sizes.dim import Dim, TensorDim
from ....sizes.operators import BITWISE, COMPARISONS, MATH, ROUNDING
from ....sizes.proof import Env, grid, samples
from ....sizes.shape import substitute
from ....sizes.size import Size
from ...calls import SizeOp, Tried, sizes_of
from ...given import Given
from ...statements import size_key
from ..guards import Guard
from ..trace import Trace
from .symbols import Symbols, Unknown, asks_a_tensor

TRIED = 20_000  # the most combinations of sizes


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
            self.texts = range_texts(given, self.names)
        decided = verdict(self.condition, required=False) if self.condition is not None else None
        columns = columns_of(given, self.names)
        self.everywhere = decided is True or (self.is_known(columns, given) and bool(self.outcomes(columns).all()))

    def is_known(self, columns: Mapping[str, Any], given: Given) -> bool:
        """Whether it is known at all sizes what it is at these: of a function that is tried, where these are all."""
        return not isinstance(self.guard.left, Tried) or not self.names or are_all(columns, given)

    def untried(self, names: Iterable[str]) -> UnsupportedError:
        """The error where these dimensions have more sizes together than are tried."""
        return UnsupportedError(
            f"what {self.guard.left.symbol} gives of a size is known by trying each, and {' and '.join(names)} "
            f"{'has' if len([*names]) == 1 else 'have together'} more than {TRIED:,}: give a smaller range, or compute "
            "it from shapes with + - * // % alone",
            location=self.guard.location,
        )

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
            if asks_a_tensor(guard.left):
                text = f"the truth of the tensor that is asked to be {right}, and it is {left}"
            elif (
                isinstance(guard.left, SizeOp)
                and (isinstance(guard.left, Tried) or guard.left.symbol in {**MATH, **ROUNDING, **BITWISE})
                and guard.symbol == "=="
            ):
                call = "" if isinstance(guard.left, Tried) or guard.left.symbol in BITWISE else "()"
                text = f"what {guard.left.symbol}{call} gives to be {right}, and it is {left}"
            elif _is_square(guard.left):
                text = f"{right} to be the square of a whole number"
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
        symbols = Symbols(trace, given, guards.values())
        for guard in guards.values():
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
        return all_of([each.outcomes(columns) for each in broken], count) if known else np.zeros(count, dtype=bool)


def env_at(columns: Mapping[str, Any], place: int) -> Env:
    """The sizes in one row of the columns."""
    return {name: int(column[place]) for name, column in columns.items()}


def columns_of(given: Given, names: list[str]) -> dict[str, Any]:
    ranges = {name: given.dims[name].bounds() for name in names}
    few = math.prod(high - low + 1 for low, high in ranges.values()) <= TRIED
    return grid(ranges) if few else {name: column[:TRIED] for name, column in samples(ranges).items()}


def are_all(columns: Mapping[str, Any], given: Given) -> bool:
    """Whether the columns have all sizes of their dimensions."""
    ranges = (given.dims[name].bounds() for name in columns)
    return max(map(len, columns.values()), default=0) == math.prod(high - low + 1 for low, high in ranges)


def all_of(masks: list[Any], count: int = 0) -> Any:
    return np.logical_and.reduce(masks) if masks else np.ones(count, dtype=bool)


def range_texts(given: Given, names: Iterable[str]) -> list[str]:
    """Requirements that keep the dimensions within the ported ranges."""
    bounds = {name: given.dims[name].bounds() for name in names}
    return [text for name, (low, high) in bounds.items() for text in (f"{name} >= {low}", f"{name} <= {high}")]


def short(location: Location) -> str:
    return f"{location.file.replace(chr(92), '/').rpartition('/')[2]}:{location.line}"


def _is_square(size: Any) -> bool:
    return isinstance(size, SizeOp) and getattr(size.operands[0], "symbol", "") == "math.isqrt"


def _as_text(condition: Condition) -> str:
    return re.sub(r"//|\*", r" \g<0> ", re.sub(r"\b(max|min)\(", r"td.size_\1(", str(condition)))
