"""Constraints on dynamic sizes, collected while a network is defined: what its layers need, and what is required."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.errors import FeedError, Location, ShapeError
from ..core.lazy import np
from .condition import SIGNS, Condition, verdict
from .dim import Dim, TensorDim
from .proof import POINTS, evaluated, grid, is_few, ranges_of, samples, within
from .size import INFINITY, Size, SizeLike, bounds, size_max, size_min, value

Ranges = Mapping[str, Sequence[int]]
"""``(min, opt, max)`` by the dimension's name."""


@dataclass(frozen=True)
class Constraint:
    """A condition of sizes that ``operation`` needs; ``what`` says what a failure is."""

    condition: Condition
    what: str
    operation: str
    location: Location | None

    call: Any = None
    """The author's call, which knows its operands' shapes; None where it has none."""

    def failure(self, env: Mapping[str, int], ranges: Ranges) -> ShapeError:
        """The error for the values of the dimensions in ``env``, where it does not hold, and what to write."""
        left, right = self.condition.left, self.condition.right
        values = ", ".join(f"{name} = {env[name]}" for name in sorted(self.condition.names))
        sizes = left, right
        if not self.operation:  # required by the author
            problem = f"{self.condition} does not hold{f': {self.what}' if self.what else ''}"
        elif self.condition.sign == ">=":
            problem, sizes = f"{self.what} {left} would be {_value(left, env)}", ()
        elif isinstance(right, int) and right == 0:
            problem, sizes = f"{self.what}: {_value(left, env)} are left over", ()
        elif isinstance(right, int) or isinstance(left, int):
            size, number = (left, right) if isinstance(right, int) else (right, left)
            problem = f"{self.what} do not match: {size} is {_value(size, env)}, not {number}"
        else:
            problem = f"{self.what} do not match: {left} is {_value(left, env)}, {right} is {_value(right, env)}"
        error = ShapeError(f"where {values}, {problem}", location=self.location)
        if self.operation:
            operands = [] if self.call is None else self.call.lines(*sizes)
            error.context += [f"in {self.operation}(…)", *operands, *self._instead(ranges)]
        return error

    def _instead(self, ranges: Ranges) -> list[str]:
        """What to write so that it holds."""
        left, right = self.condition.left, self.condition.right
        if self.condition.sign == "==":
            dims = [size for size in (left, right) if isinstance(size, Dim)]
            if len(dims) == 2:
                return [
                    f"give both dimensions one name, or serve only the sizes that match: td.require({left} == {right})"
                ]
            if dims and isinstance(number := right if dims[0] is left else left, int):
                return [f"where {dims[0]} is always {number}, write {number} in its place in the inputs' shapes"]
        where = where_it_holds(self.condition, ranges)
        if where.startswith("for no"):
            return [f"it holds {where}: choose another range, or other sizes in the network"]
        if where:
            (name,) = self.condition.names
            meant = "is another dimension meant? Otherwise " if self.condition.sign == "==" and right != 0 else ""
            return [f"it holds {where}: {meant}give {name} such a range, or write td.require({self.condition})"]
        return [f"td.require({self.condition}) serves only the sizes where it holds"]


class Constraints:
    """The constraints of one network.

    >>> T = td.Dim("T", min=2, max=9)
    >>> constraints = Constraints()
    >>> constraints.not_negative(T - 4, None)
    >>> constraints.check({"T": (2, 9, 9)})
    Traceback (most recent call last):
    trtdsl.core.errors.ShapeError: where T = 2, the size T - 4 would be -2
      in an operation(…)
      it holds where T is 4 to 9: give T such a range, or write td.require(T - 4 >= 0)
    """

    def __init__(self) -> None:
        self.needed: dict[Any, Constraint] = {}
        """What the calls need, in their order."""
        self.required: list[Constraint] = []
        """What the author requires with :func:`trtdsl.require`."""

    def refuse(self, env: Mapping[str, int]) -> None:
        """FeedError for sizes that the author's requirements exclude."""
        for each in self.required:
            if each.condition.names <= set(env) and not each.condition.holds(env):
                raise FeedError(each.failure(env, {}).message, location=each.location)

    def not_negative(self, size: SizeLike, operation: Any) -> None:
        """``operation`` makes a dimension of this size."""
        if isinstance(size, Size) and not isinstance(size, Dim):
            self._need(size, ">=", 0, "the size", operation)

    def positive(self, size: SizeLike, operation: Any) -> None:
        """``operation`` has this many parts, of which it needs one."""
        self._need(size, ">=", 1, "the size", operation)

    def inside(self, start: SizeLike, count: SizeLike, length: SizeLike, operation: Any) -> None:
        """``operation`` takes ``count`` elements from ``start`` on of a dimension of ``length`` elements."""
        self._need(start, ">=", 0, "an index", operation)
        self._need(
            length - start - count,
            ">=",
            0,
            f"what is left of {length} elements after index {start + count - 1},",
            operation,
        )

    def equal(self, left: SizeLike, right: SizeLike, what: str, operation: Any) -> None:
        """``operation`` needs the two to be the same."""
        if left != right:
            self._need(left, "==", right, what, operation)

    def _need(self, left: SizeLike, sign: str, right: SizeLike, what: str, operation: Any) -> None:
        if isinstance(left, int) and isinstance(right, int):
            if not SIGNS[sign](left, right):
                match = f"{what}: {left} are left over" if right == 0 else f"{what} do not match: {left} and {right}"
                raise ShapeError(match if sign == "==" else f"{what} would be {left}")
            return
        key = left, sign, right
        if key in self.needed:
            return
        condition = Condition(left, sign, right)
        if any(isinstance(atom, TensorDim) for atom in condition.atoms()):
            return  # known only when the network runs
        if operation is None:
            self.needed[key] = Constraint(condition, what, "an operation", None)
        else:
            self.needed[key] = Constraint(condition, what, operation.name, operation.location, operation.call())

    def take_back(self, count: int) -> None:
        """Drops what was noted after the first ``count``, by a call that failed."""
        for key in list(self.needed)[count:]:
            del self.needed[key]

    def require(self, condition: Condition, why: str, location: Location | None) -> None:
        """The network serves only sizes where the condition holds."""
        self.required.append(Constraint(condition, why, "", location))

    def nearest(self, env: Mapping[str, int], ranges: Ranges) -> dict[str, int]:
        """The values of the dimensions nearest to ``env`` that are in the ranges and that the network serves.

        Raises ShapeError where there are none.
        """
        if self.allow(env):
            return dict(env)
        about = {name for each in self.required for name in each.condition.names}
        served = self._chosen(about, ranges)
        columns = np.stack([served[name] for name in sorted(about)], axis=1)
        if not len(columns):
            texts = " and ".join(str(each.condition) for each in self.required)
            raise ShapeError(f"no sizes in the ranges fulfil {texts}", location=self.required[0].location)
        distance = np.abs(columns - np.array([env[name] for name in sorted(about)])).sum(axis=1)
        return {**env, **dict(zip(sorted(about), columns[int(distance.argmin())].tolist(), strict=True))}

    def allow(self, env: Mapping[str, int]) -> bool:
        """Whether the network serves these values of the dimensions."""
        return all(each.condition.holds(env) for each in self.required)

    def decide(self, condition: Condition) -> bool | None:
        """Whether what is required makes the condition true everywhere, or nowhere; None where it does neither."""
        if not self.required:
            return None
        ranges = {str(atom): atom.bounds() for atom in condition.atoms()}
        for each in self.required:
            if each.condition.names & set(ranges):
                ranges.update((str(atom), atom.bounds()) for atom in each.condition.atoms())
        if not is_few(ranges):
            return None
        env = self._allowed(grid(ranges), ranges)
        outcomes = set(outcomes_of(condition, env).tolist()) if env else set()
        return bool(outcomes.pop()) if len(outcomes) == 1 else None

    def check(self, ranges: Ranges) -> None:
        """Proves every constraint over the dimensions' ranges ``(min, opt, max)``.

        By the sizes' own arithmetic, else by every value where there are at most about a hundred thousand combinations,
        else by a choice of them. A dimension without a range is left out, with all constraints about it. Raises
        ShapeError with the author's line and the first sizes for which one does not hold.
        """
        for each in self.required:
            self._check_required(each, ranges)
        for each, own in self._open(ranges):
            env = first_failure(own, self._chosen(each.condition.names, ranges))
            if env is not None:
                raise each.failure(env, ranges)

    def _open(self, ranges: Ranges) -> Iterator[tuple[Constraint, Condition]]:
        """The constraints that the sizes' own arithmetic does not prove in these ranges, and what they are there."""
        for each in self.needed.values():
            condition = each.condition
            if condition.names <= set(ranges):
                own = Condition(within(condition.left, ranges), condition.sign, within(condition.right, ranges))
                if verdict(own, required=False) is not True:
                    yield each, own

    def served(self, ranges: Ranges) -> tuple[dict[str, Any], Any] | None:
        """All values of the dimensions that narrower ranges would help, and at which of them every constraint holds.

        None where there are more than about a hundred thousand.
        """
        names = {name for each, _ in self._open(ranges) for name in each.condition.names}
        ends = {name: (ranges[name][0], ranges[name][-1]) for name in sorted(names)}
        if not ends or not is_few(ends):
            return None
        columns = grid(ends)
        mine = [each.condition for each in self.needed.values() if each.condition.names <= names]
        return columns, np.logical_and.reduce([outcomes_of(each, columns) for each in mine])

    def _check_required(self, each: Constraint, ranges: Ranges) -> None:
        """It holds somewhere in the ranges, and for the sizes to tune for."""
        names = sorted(each.condition.names)
        if not set(names) <= set(ranges):
            return
        best = {name: ranges[name][1] for name in names if len(ranges[name]) == 3}
        if len(best) == len(names) and not each.condition.holds(best):
            error = each.failure(best, ranges)
            where = where_it_holds(each.condition, ranges)
            error.context.append(f"these are the sizes to tune for{f'; it holds {where}' if where else ''}")
            raise error

    def _chosen(self, names: Iterable[str], ranges: Ranges) -> dict[str, Any]:
        """The values to try: all of them, where they are few, that what is required allows."""
        mine = set(names)
        for each in self.required:
            others = each.condition.names
            mine |= others if others & mine and others <= set(ranges) else set()
        ends = {name: (ranges[name][0], ranges[name][-1]) for name in sorted(mine)}
        return self._allowed(grid(ends) if is_few(ends) else samples(ends), mine)

    def _allowed(self, env: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
        for each in self.required:
            if each.condition.names <= set(names):
                kept = outcomes_of(each.condition, env)
                env = {name: column[kept] for name, column in env.items()}
        return env


def joined(condition: Condition, then: SizeLike, otherwise: SizeLike) -> SizeLike | None:
    """The size that is ``then`` where the condition holds and ``otherwise`` elsewhere; None where nothing says so.

    >>> T = td.Dim("T", min=1, max=9)
    >>> joined(T < 7, 7, T)
    max(7, T)
    """
    ranges = ranges_of(then, otherwise, condition.left, condition.right)
    if ranges is None or not is_few(ranges):
        return then if then == otherwise else None
    env = grid(ranges)
    holds = outcomes_of(condition, env)
    left, right = condition.left, condition.right
    steps = (left - right, right - left, size_max(left - right, right - left))
    ones = [
        size_min(size_max(step + more, 0), 1) for step in steps for more in (0, 1)
    ]  # one of them is 1 where it holds
    mixed = [b + one * (a - b) for one in ones for a, b in ((then, otherwise), (otherwise, then))]
    for size in (then, otherwise, size_max(then, otherwise), size_min(then, otherwise), *mixed):
        if all(
            outcomes_of(Condition(size, "==", one), env)[where].all()
            for one, where in ((then, holds), (otherwise, ~holds))
        ):
            return size
    return None


def first_failure(condition: Condition, env: Mapping[str, Any]) -> dict[str, int] | None:
    """The first of these values of the dimensions for which the condition does not hold."""
    if any(abs(end) >= INFINITY for size in (condition.left, condition.right) for end in bounds(size)):
        env = {name: column.astype(object) for name, column in env.items()}  # Python's integers have no end
    failed = np.flatnonzero(~outcomes_of(condition, env))
    return {name: int(column[failed[0]]) for name, column in env.items()} if len(failed) else None


def outcomes_of(condition: Condition, env: Mapping[str, Any]) -> Any:
    """Whether the condition holds, at many values of the dimensions at once."""
    left, right = evaluated(condition.left, env), evaluated(condition.right, env)
    if left is not None and right is not None:
        return np.asarray(SIGNS[condition.sign](left, right), dtype=bool)
    points = [dict(zip(env, map(int, values), strict=True)) for values in zip(*env.values(), strict=True)]
    return np.array([_holds(condition, point) for point in points], dtype=bool)


def _holds(condition: Condition, env: Mapping[str, int]) -> bool:
    try:
        return condition.holds(env)
    except ZeroDivisionError:
        return False


def where_it_holds(condition: Condition, ranges: Ranges) -> str:
    """The values of a condition's one dimension for which it holds, as a text; empty for several dimensions.

    >>> where_it_holds(td.Dim("H", min=1, max=256) % 32 == 0, {"H": (60, 64, 256)})
    'where H is a multiple of 32, from 64 to 256: as an input, 32*H with H = 2:2:8'
    """
    names = sorted(condition.names)
    if len(names) != 1:
        return ""
    (name,) = names
    low, high = ranges[name][0], ranges[name][-1]
    if high - low >= POINTS:
        return ""
    env = grid({name: (low, high)})
    found = env[name][outcomes_of(condition, env)]
    if not len(found):
        return f"for no {name} from {low} to {high}"
    steps = set(np.diff(found).tolist())
    if len(found) == 1:
        return f"where {name} is {found[0]}"
    if len(steps) == 1 and (step := steps.pop()) > 1:
        best = min(found.tolist(), key=lambda size: abs(size - ranges[name][1]))
        if found[0] % step == 0:
            k = f"{name} = {found[0] // step}:{best // step}:{found[-1] // step}"
            return (
                f"where {name} is a multiple of {step}, from {found[0]} to {found[-1]}: as an input, {step}*{name} "
                f"with {k}"
            )
        return f"where {name} is {found[0]}, {found[1]}, … {found[-1]}"
    runs = np.split(found, np.flatnonzero(np.diff(found) != 1) + 1)
    texts = [f"{run[0]} to {run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs[:4]]
    return f"where {name} is {', '.join(texts)}{', …' if len(runs) > 4 else ''}"


def _value(size: SizeLike, env: Mapping[str, int]) -> int | str:
    try:
        return value(size, env)
    except ZeroDivisionError:
        return "a division by zero"
