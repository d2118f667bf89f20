"""Statements that repeat as rounds of a loop: those of the first round, beside those of the later ones."""

from __future__ import annotations

import copy
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..calls import Value, Weight, alike
from ..statements import Literal, Loop, Scope, Statement, fills_a_list, is_of_names, pattern

COUNTED = 4  # rounds that differ in a number are a loop from so many on
MOST_OVER, MOST_NUMBERS = 5, 2  # values and numbers that a loop goes over; how many of them are numbers
MANY = 3  # numbers that two arguments do not have both by chance
Places = Mapping[Value, list[int]]
"""The numbers of the statements that use each value."""


def used(places: Places, value: Value, begin: int, end: int | None = None) -> bool:
    """Whether a statement from ``begin`` on uses the value, before ``end`` where that is given."""
    at = places.get(value, [])
    found = bisect_left(at, begin)
    return found < len(at) and (end is None or at[found] < end)


def _carrying(body: list[Statement], period: int, places: Places) -> bool:
    """Whether what ends the first round goes into the second, whose last statement is of the same kind."""
    first, second = body[period - 1], body[2 * period - 1]
    one = (first.expression.form, first.expression.name) == (second.expression.form, second.expression.name)
    return one and any(used(places, value, period, 2 * period) for value in first.results)


def column(rounds: Sequence[Literal]) -> tuple[str, ...]:
    """The numbers that literals are in all rounds, by which those are one that are the same: paddings and dilations.

    Of few different numbers, which are the same by chance, with what the argument is called.
    """
    numbers = tuple(repr(each.value) for each in rounds)
    return numbers if len({*numbers}) >= MANY else (*numbers, rounds[0].name)


def _number(text: str) -> int | None:
    """The number in a part's name, written as Python writes it."""
    return int(text) if text.isdecimal() and str(int(text)) == text else None


def _values(over: Mapping[Value | Literal, Any]) -> int:
    return sum(not isinstance(item, Literal) for item in over)


def _numbers(over: Mapping[Value | Literal, Sequence[Any]], key: Callable[[Sequence[Any]], Any]) -> int:
    """How many numbers there are with different keys."""
    return len({key(given) for item, given in over.items() if isinstance(item, Literal)})


@dataclass(frozen=True)
class Rolled:
    """A loop in the place of repeated statements."""

    loop: Loop
    length: int
    """The number of these statements."""
    over: Mapping[Value | Literal, tuple[Any, ...]]
    """What goes into each round, by what goes into the first."""
    collected: Mapping[Value, list[Value]]
    """The values of all rounds that are needed afterwards, by those of the first."""

    @property
    def is_plain(self) -> bool:
        """Whether it needs no list."""
        return not (self.over or self.collected) and self.loop.step == 1


@dataclass
class _Alike:
    """What the rounds so far have in common, and in what they go on."""

    carried: dict[Value, Value] = field(default_factory=dict)
    fixed: set[Value] = field(default_factory=set)
    containers: dict[str, int] = field(default_factory=dict)
    constant: set[str] = field(default_factory=set)
    over: dict[Value | Literal, tuple[Any, ...]] = field(default_factory=dict)
    step: int = 1


class Rounds:
    """The first ``period`` statements beside later rounds of them.

    Where what ends a round goes into the next or into a list of the author's, rounds may also differ in values and
    numbers of lists, and the parts of the weights may go down as well as up.
    """

    def __init__(self, body: list[Statement], period: int, places: Places):
        self.body, self.period, self.places = body, period, places
        self.first = body[:period]
        self.maps = [{value: value for statement in self.first for value in statement.results}]
        """The values of each round, by those of the first."""
        self.lists = _carrying(body, period, places) or any(value.hint for value in self.first[-1].results)
        self.grows = fills_a_list(self.first[-1])
        """Whether each round puts what it computes into a list that the next one takes."""
        self.now = _Alike()
        self.after = [self.now]
        """What is alike after each round."""
        while (len(self.maps) + 1) * period <= len(body) and (current := self._round(len(self.maps))) is not None:
            self.maps.append(current)
            self.after.append(self.now)

    # -- the next round ------------------------------------------------------------------------------------------------

    def _round(self, index: int) -> dict[Value, Value] | None:
        """Its values, by those of the first round, where its statements are these, one part further each time."""
        current: dict[Value, Value] = {}
        self.now = _Alike(**{name: copy.copy(held) for name, held in vars(self.after[-1]).items()})
        place = index * self.period
        for mine, other in zip(self.first, self.body[place : place + self.period]):
            ranks = [[len(value.shape) for value in each.results] for each in (mine, other)]
            if mine.note or pattern(mine) != pattern(other) or ranks[0] != ranks[1]:
                return None
            if not alike(mine.expression, other.expression, lambda a, b: self._leaf(a, b, index, current)):
                return None
            current.update(zip(mine.results, other.results))
        carried, fixed, over = self.now.carried, self.now.fixed, self.now.over
        goes_on = {value for values in over.values() for value in values if isinstance(value, Value)}
        if goes_on and any(not goes_on.isdisjoint(values.values()) for values in (*self.maps, current)):
            return None
        return current if carried.keys().isdisjoint(fixed) and over.keys().isdisjoint({*fixed, *carried}) else None

    def _leaf(self, a: Any, b: Any, index: int, current: dict[Value, Value]) -> bool:
        if type(a) is not type(b):
            return False
        if isinstance(a, Literal):
            return self._literal(a, b, index)
        if isinstance(a, (Weight, Scope)):
            return self._path(a.path, b.path, index)
        return self._value(a, b, index, current) if isinstance(a, Value) else a == b

    def _literal(self, a: Literal, b: Literal, index: int) -> bool:
        if a not in self.now.over and repr(a.value) == repr(b.value):
            return a.parameter == b.parameter
        number = isinstance(a.value, (int, float)) and not isinstance(a.value, bool)
        return (
            number
            and type(a.value) is type(b.value)
            and a.parameter is b.parameter is None
            and self._goes_on(a, b, index)
        )

    def _value(self, a: Value, b: Value, index: int, current: dict[Value, Value]) -> bool:
        if a in self.maps[0]:
            return current.get(a) is b
        if a is b:
            self.now.fixed.add(a)
            return True
        former, carried = self.maps[index - 1], self.now.carried
        source = next((first for first, later in former.items() if later is b), None)
        if source is None:  # both are from outside of the rounds
            return len(a.shape) == len(b.shape) and self._goes_on(a, b, index)
        if carried.get(a, source) is not source or (source in carried.values() and a not in carried):
            return False
        carried[a] = source
        return True

    def _goes_on(self, a: Any, b: Any, index: int) -> bool:
        over = self.now.over
        known = over.get(a, (a,) * index)
        if len(known) > index:
            return known[index] is b
        over[a] = (*known, b)
        others = _values(over)
        if not self.lists or others > MOST_OVER or len(over) - others <= MOST_NUMBERS:
            return self.lists and others <= MOST_OVER
        return _numbers(over, lambda given: tuple(repr(each.value) for each in given[:index])) <= MOST_NUMBERS

    def _path(self, a: str, b: str, index: int) -> bool:
        if a == b:
            self.now.constant.add(a)
            return True
        mine, other = a.split("."), b.split(".")
        different = [place for place, (x, y) in enumerate(zip(mine, other)) if x != y]
        if len(mine) != len(other) or len(different) != 1:
            return False
        (place,) = different
        stem = mine[place].rstrip("0123456789")
        if stem and not self.grows:  # w.conv1, w.conv2: an author who has no list writes each of them
            return False
        start, number = (_number(each[place].removeprefix(stem)) for each in (mine, other))
        if start is None or number is None:
            return False
        if self.lists and index == 1 and not self.now.containers:
            self.now.step = -1 if number < start else 1
        if number != start + self.now.step * index:
            return False
        return self.now.containers.setdefault(".".join([*mine[:place], stem]), start) == start

    # -- the loop ------------------------------------------------------------------------------------------------------

    def loop(self, count: int) -> Rolled | None:
        """The loop of the first ``count`` rounds, where no value of an earlier round is needed outside of it."""
        found, length = self.after[count - 1], count * self.period
        beside = ((path, container) for path in found.constant for container in found.containers)
        if any(path.startswith(own) and path[len(own) :][:1].isdigit() for path, own in beside):
            return None
        for index, round_ in enumerate(self.maps[: count - 1]):  # what is needed after the next round
            if any(used(self.places, value, (index + 2) * self.period, length) for value in round_.values()):
                return None
        if len({*found.containers.values()}) > 1:
            return None
        values = {first: [round_[first] for round_ in self.maps[:count]] for first in self.maps[0]}
        collected = {
            first: all_of_it
            for first, all_of_it in values.items()
            if any(used(self.places, value, length) for value in all_of_it[:-1])
        }
        plain = not (collected or found.over) and found.step == 1 and bool(found.containers or found.carried)
        if not plain and not self._is_of_lists(found, collected, count):
            return None
        start, carried = next(iter(found.containers.values()), 0), list(found.carried.items())
        last = dict(self.maps[count - 1])
        loop = Loop(self.first, start, count, list(found.containers), carried, last, step=found.step)
        if found.containers and all(map(is_of_names, found.containers)) and not found.over and found.step == 1:
            loop.rounds = Literal(count, "count")
        return Rolled(loop, length, found.over, collected)

    def _is_of_lists(self, found: _Alike, collected: Mapping[Value, list[Value]], count: int) -> bool:
        """Whether what is needed afterwards stands in lists of the author's, and the loop has fewer lines."""
        for first, values in collected.items():
            hints = {first.hint, *(value.hint for value in values[:-1]), values[-1].hint or first.hint}
            if hints != {first.hint} or first.hint is None:  # nobody looks for the last one's after the last call
                return False
        numbers = _numbers(found.over, column)
        others = _values(found.over)
        counted = bool(found.carried) and numbers > 0 == others and count >= COUNTED and not collected
        listed = bool(collected) and any(value.hint for value in self.first[-1].results)
        fewer = self.period + 1 + 2 * len(collected) < count * self.period
        goes = self.lists and bool(found.containers or found.over)
        return goes and (listed or counted) and numbers <= MOST_NUMBERS and numbers + others <= MOST_OVER and fewer
