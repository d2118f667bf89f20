"""Statements that repeat as rounds of a loop: those of the first round, beside those of the later ones."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

from ..calls import Value, Weight, alike
from ..statements import Literal, Loop, Scope, Statement, pattern

COUNTED = 4  # rounds that differ in a number are a loop from so many on
Places = Mapping[Value, list[int]]
"""The numbers of the statements that use each value."""


def used(places: Places, value: Value, begin: int, end: int | None = None) -> bool:
    """Whether a statement from ``begin`` on uses the value, before ``end`` where that is given."""
    at = places.get(value, [])
    found = bisect_left(at, begin)
    return found < len(at) and (end is None or at[found] < end)


def carrying(body: list[Statement], period: int, places: Places) -> bool:
    """Whether what ends the first round goes into the second, whose last statement is of the same kind."""
    first, second = body[period - 1], body[2 * period - 1]
    one = (first.expression.form, first.expression.name) == (second.expression.form, second.expression.name)
    return one and any(used(places, value, period, 2 * period) for value in first.results)


def _ranks(statement: Statement) -> list[int]:
    return [len(value.shape) for value in statement.results]


class Rounds:
    """The first ``period`` statements beside later rounds of them."""

    def __init__(self, body: list[Statement], period: int, places: Places):
        self.body, self.period, self.places = body, period, places
        self.first = body[:period]
        self.defined = {value for statement in self.first for value in statement.results}
        self.maps: list[dict[Value, Value]] = [{value: value for value in self.defined}]
        self.carried: dict[Value, Value] = {}
        self.fixed: set[Value] = set()
        self.containers: dict[str, int] = {}
        self.constant: set[str] = set()
        self.step = 1
        self.over: dict[Value | Literal, tuple[Any, ...]] = {}
        """What goes into each round, by what goes into the first."""
        self.collected: dict[Value, list[Value]] = {}
        """The values of all rounds that are needed afterwards, by those of the first."""

    def round(self, index: int) -> bool:
        """Whether the statements of this round are the first ones, one part further each time."""
        current: dict[Value, Value] = {}
        state = self._state()
        place = index * self.period
        for mine, other in zip(self.first, self.body[place : place + self.period]):
            if mine.note or pattern(mine) != pattern(other) or _ranks(mine) != _ranks(other):
                break
            if not alike(mine.expression, other.expression, lambda a, b: self._leaf(a, b, index, current)):
                break
            current.update(zip(mine.results, other.results))
        else:
            if not (set(self.carried) & self.fixed):
                self.maps.append(current)
                return True
        self.__dict__.update(state)
        return False

    def _state(self) -> dict[str, Any]:
        """State that a round which does not match must leave unchanged."""
        names = ("carried", "fixed", "containers", "constant")
        return {name: getattr(self, name).copy() for name in names}

    def _leaf(self, a: Any, b: Any, index: int, current: dict[Value, Value]) -> bool:
        if type(a) is not type(b):
            return False
        if isinstance(a, Literal):
            return self._literal(a, b, index)
        if isinstance(a, (Weight, Scope)):
            return self._path(a.path, b.path, index)
        return self._value(a, b, index, current) if isinstance(a, Value) else a == b

    def _literal(self, a: Literal, b: Literal, index: int) -> bool:
        return repr(a.value) == repr(b.value) and a.parameter == b.parameter

    def _value(self, a: Value, b: Value, index: int, current: dict[Value, Value]) -> bool:
        if a in self.defined:
            return current.get(a) is b
        if a is b:
            self.fixed.add(a)
            return True
        former = self.maps[index - 1]
        source = next((first for first, later in former.items() if later is b), None)
        if source is None:
            return self._element(a, b, index)
        if self.carried.get(a, source) is not source or (source in self.carried.values() and a not in self.carried):
            return False
        self.carried[a] = source
        return True

    def _element(self, a: Value, b: Value, index: int) -> bool:
        """Whether two values from outside of the rounds may stand in the same place."""
        return False

    def _path(self, a: str, b: str, index: int) -> bool:
        if a == b:
            self.constant.add(a)
            return True
        mine, other = a.split("."), b.split(".")
        different = [place for place, (x, y) in enumerate(zip(mine, other)) if x != y]
        if len(mine) != len(other) or len(different) != 1:
            return False
        (place,) = different
        if not (mine[place].isdigit() and other[place].isdigit()):
            return False
        if not self._follows(int(mine[place]), int(other[place]), index):
            return False
        container = ".".join(mine[:place])
        start = int(mine[place])
        return self.containers.setdefault(container, start) == start

    def _follows(self, mine: int, other: int, index: int) -> bool:
        return other == mine + index

    def loop(self, count: int) -> Loop | None:
        """The loop of the first ``count`` rounds, where no value of an earlier round is needed outside of it."""
        if any(path.startswith(f"{container}.") for path in self.constant for container in self.containers):
            return None
        if not self._goes_through():
            return None
        length = count * self.period
        for index, round_ in enumerate(self.maps[: count - 1]):  # what is needed after the next round
            if any(used(self.places, value, (index + 2) * self.period, length) for value in round_.values()):
                return None
        if not self._collects(count):
            return None
        last = dict(self.maps[count - 1])
        starts = set(self.containers.values())
        if len(starts) > 1:
            return None
        carried = list(self.carried.items())
        return Loop(
            self.first, starts.pop() if starts else 0, count, list(self.containers), carried, last, step=self.step
        )

    def _goes_through(self) -> bool:
        return bool(self.containers or self.carried)

    def _collects(self, count: int) -> bool:
        """Whether nothing but the last round's values is needed after the loop."""
        return not any(self._after(value, count) for round_ in self.maps[: count - 1] for value in round_.values())

    def _after(self, value: Value, count: int) -> bool:
        return used(self.places, value, count * self.period)


class ListRounds(Rounds):
    """Rounds over lists: of values and numbers that go in, and of values that the author keeps in a list.

    The parts of the weights may go down as well as up.
    """

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "over": self.over.copy(), "step": self.step}

    def round(self, index: int) -> bool:
        state = self._state()
        if not super().round(index):
            return False
        rounds = {value for values in self.maps for value in values.values()}
        inside = any(value in rounds for values in self.over.values() for value in values if isinstance(value, Value))
        if inside or set(self.over) & (self.fixed | set(self.carried)):
            self.maps.pop()
            self.__dict__.update(state)
            return False
        return True

    def _literal(self, a: Literal, b: Literal, index: int) -> bool:
        if a.parameter != b.parameter or type(a.value) is not type(b.value):
            return False
        if a not in self.over and repr(a.value) == repr(b.value):
            return True
        numbers = isinstance(a.value, (int, float)) and not isinstance(a.value, bool) and a.parameter is None
        return numbers and self._goes_on(a, b, index)

    def _element(self, a: Value, b: Value, index: int) -> bool:
        return type(a) is type(b) and len(a.shape) == len(b.shape) and self._goes_on(a, b, index)

    def _goes_on(self, a: Any, b: Any, index: int) -> bool:
        known = self.over.get(a, (a,) * index)
        if len(known) > index:
            return known[index] is b
        self.over[a] = (*known, b)
        return True

    def _follows(self, mine: int, other: int, index: int) -> bool:
        if index == 1 and not self.containers:
            self.step = -1 if other < mine else 1
        return other == mine + self.step * index

    def _collects(self, count: int) -> bool:
        """Whether what is needed afterwards stands in lists of the author's, and the loop has fewer lines."""
        self.collected = {}
        for first in self.maps[0]:
            values = [round_[first] for round_ in self.maps[:count]]
            if any(self._after(value, count) for value in values[:-1]):
                hints = {first.hint, *(value.hint for value in values[:-1]), values[-1].hint or first.hint}
                if hints != {first.hint} or first.hint is None:  # nobody looks for the last one's after the last call
                    return False
                self.collected[first] = values
        numbers = sum(isinstance(item, Literal) for item in self.over)
        lines = self.period + 1 + 2 * len(self.collected)
        counted = bool(self.carried) and 0 < numbers == len(self.over) and count >= COUNTED
        listed = bool(self.collected) and any(value.hint for value in self.first[-1].results)
        return (
            (listed or (counted and not self.collected))
            and numbers <= 2
            and len(self.over) <= 5
            and lines < count * self.period
        )

    def _goes_through(self) -> bool:
        return bool(self.containers or self.over)
