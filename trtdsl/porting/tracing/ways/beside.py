"""One program of several traces, which go different ways where a comparison of sizes or a truth is another.

The traces are laid beside each other, call by call. Where they differ, the program gets a :class:`Branch` on the last
comparison that both made with different results; what follows is common again, with the values of the side that runs.
The program is right where, for each size, it makes the calls of the trace that the module makes there.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...calls import (
    TRUTH,
    Branch,
    Call,
    Op,
    Scan,
    Value,
    Weight,
    alike,
    imaged,
    leaves,
    operations,
    operations_in,
    values_in,
)
from ..guards import Guard
from ..trace import Trace, live_operations
from .way import Apart, Way, alike_guards, check_scopes, chosen_of, guard_of, one_way, paired, same_weight

NEAR = 8  # calls that one way makes besides


def united(ways: Sequence[Way], *, whole: bool = False) -> Iterator[tuple[Trace, Way]]:
    """Makes the first trace the program of all. Yields what it does on each way, as a trace without branches.

    ``whole`` makes one branch of all in a part of the module that differs. Raises Apart where there is no such program.
    """
    if any(isinstance(op, (Branch, Scan)) for way in ways for op in operations(way.trace.root)):
        raise Apart("a branch by values or a loop stands in it")
    program = _Program(ways[0], whole)
    for way in ways[1:]:
        program.join(way)
    trace = ways[0].trace
    check_scopes(trace)
    for way in ways:
        yield one_way(trace, way.guards), way


class _Program:
    """The first trace, to which others are joined one by one."""

    def __init__(self, first: Way, whole: bool):
        self.trace, self.first, self.whole = first.trace, first, whole
        self.through: dict[Call, list[Way]] = {}
        """The ways through a side of a branch."""
        self.joined = [first]
        self.given: dict[Value, list[Value]] = {}
        """What branches give, by what their sides give."""
        self.home: dict[Value, tuple[Call, ...]] = {}
        """The sides of branches that a value is in."""
        self._keep(first, lambda leaf: leaf)
        _drop(first)

    def _keep(self, way: Way, image: Callable[[Value], Value]) -> None:
        """The way's comparisons, of the program's values."""
        asked = (guard for guard, asked in way.asked.items() if asked is None or asked.condition is not None)
        way.guards = [guard_of(guard, image) for guard in asked]

    def join(self, way: Way) -> None:
        order = {op: place for place, op in enumerate(operations(way.trace.root))}
        _drop(way)
        joining = _Joining(self, way, order)
        joining.all()
        self.joined.append(way)
        self._keep(way, lambda value: joining.images.get(value, value))
        self.home = _homes(self.trace.root)


class _Joining:
    """Lays one more trace beside the program."""

    def __init__(self, program: _Program, way: Way, order: Mapping[Op, int]):
        self.program, self.way, self.order = program, way, order
        self.mine, self.its = program.trace, way.trace
        self.images = {self.its.inputs[name]: value for name, value in self.mine.inputs.items()}
        """The program's values, by the trace's."""
        self.taken: dict[Branch, bool] = {}
        self.inside: dict[Value, Branch] = {}
        """The new branches, by what their sides make."""
        self.out: list[Any] = []
        self.open: list[Call] = []
        """The sides of branches that are looked at."""
        self.around: dict[Branch, list[Call]] = {}
        """Those that were open, by the new branches."""
        self.call, self.beside, self.before = self.mine.root, program.joined, 0
        self.uses = Counter(value for op in operations(self.mine.root) for value in op.taken)
        self.uses.update(values_in(self.mine.results))

    def all(self) -> None:
        """Adds the trace to the program."""
        for weight in self.its.weights.values():
            self.images[weight] = same_weight(weight, self.its, self.mine)
        self.mine.root.body = self._walk(self.mine.root, self.mine.root.body, self.its.root.body)
        self.out, self.before = self.mine.root.body, len(self.order)
        self.mine.results = paired(self.mine.results, self.its.results, self._value)

    # -- beside each other ---------------------------------------------------------------------------------------------

    def _walk(self, call: Call, mine: list[Any], its: list[Any]) -> list[Any]:
        """One list of both, which follow the same and come before the same."""
        outer, out = (self.out, self.call), []
        i = j = 0
        while i < len(mine) or j < len(its):
            self.out, self.call = out, call
            self.before = self._before(its, j)
            item = mine[i] if i < len(mine) else None
            if isinstance(item, Branch) and (outcome := self._outcome(item)) is not None:
                a, b = 1, self._passed(item, outcome, mine[i + 1 :], its[j:])
            elif item is not None and j < len(its) and _fits(item, its[j]):
                a = b = 1
                self._same(item, its[j])
            else:
                a, b = self._differing(mine[i:], its[j:])
                item = self._branch(mine[i : i + a], its[j : j + b])
            out.append(item)
            i, j = i + a, j + b
        self.out, self.call = outer
        return out

    def _before(self, its: list[Any], place: int) -> int:
        """How many calls the trace had made before one of these, those included on which nothing depends."""
        following = next(operations_in(its[place:]), None)
        if following is not None:
            return self.order[following]
        last = max((self.order[op] for op in operations_in(its)), default=self.before - 1)
        return next((self.order[op] for op in operations(self.its.root) if self.order[op] > last), len(self.order))

    def _same(self, item: Op | Call, other: Any) -> None:
        if isinstance(item, Call):
            item.body = self._walk(item, item.body, other.body)
            return
        item.args, item.kwargs = paired((item.args, item.kwargs), (other.args, other.kwargs), self._value)
        pairs = zip(leaves(item.results), leaves(other.results))
        self.images.update((its, own) for own, its in pairs if isinstance(own, Value))

    def _outcome(self, branch: Branch) -> bool | None:
        """Which side of a branch the trace takes; None where it does not ask."""
        asked = (guard for guard in reversed(list(self.way.asked)) if self._alike(branch.guard, guard))
        return next((guard.outcome for guard in asked), None)

    def _passed(self, branch: Branch, outcome: bool, after: list[Any], its: list[Any]) -> int:
        """Lays the side of a branch that the trace takes beside its calls; gives how many these are."""
        self.taken[branch] = outcome
        side, beside = branch.sides[not outcome], self.beside
        self.open.append(side)
        counts, usual = range(len(its) + 1), len(side.body)
        rests = {count: _run(after, its[count:]) for count in counts}
        count = max(counts, key=lambda n: (rests[n], rests[n] == len(after) == len(its) - n, -abs(n - usual)))
        self.beside = self.program.through[side]
        side.body = self._walk(side, side.body, its[:count])
        self.beside = beside
        self.program.through[side].append(self.way)
        self.open.pop()
        return count

    def _differing(self, mine: list[Any], its: list[Any]) -> tuple[int, int]:
        """How many of both differ: until they are alike again, or both use a part of the module, or the end."""
        if not self.program.whole:
            for a, b in [pair for count in range(1, NEAR) for pair in ((0, count), (count, 0))]:
                common = _run(mine[a:], its[b:])
                if common and self._given_by(mine, its, a + common, b + common, common) <= 1:
                    return a, b
        places = {part: place for place, part in reversed(list(enumerate(map(_part, its)))) if part is not None}
        found = [
            (place + places[part], place)
            for place, part in enumerate(map(_part, mine))
            if part in places and _fits(mine[place], its[places[part]])
        ]
        a, b = len(mine), len(its)
        if found and not self.program.whole:
            a, b = min(found)[1], min(found)[0] - min(found)[1]
        most = _run(reversed(mine[:a]), reversed(its[:b]))
        common = range(min(most, max(a, b) - 1) + 1)
        count = min(common, key=lambda count: (self._given_by(mine, its, a, b, count), -count))
        return a - count, b - count

    def _given_by(self, mine: list[Any], its: list[Any], a: int, b: int, common: int) -> int:
        """How many values a branch gives that ends so many calls before the ``a`` of one and the ``b`` of the other."""
        given: set[Any] = set()
        images: dict[Value, Value] = {}
        region, counted = list(operations_in(mine[: a - common])), Counter[Value]()
        for own, other in zip(operations_in(mine[a - common : a]), operations_in(its[b - common : b])):
            pairs = list(zip(own.taken, other.taken))
            given |= {(x, y) for x, y in pairs if images.get(y) is not x and not self._is(x, y)}
            counted.update(x for x, _ in pairs)
            images.update(zip(other.made, own.made))
        counted.update(value for op in region for value in op.taken)
        made = [value for op in region for value in op.made]
        later = {value for value in made if self.uses[value] > counted[value]}
        return len(given) + len(later - {own for own, _ in given})

    # -- branches ------------------------------------------------------------------------------------------------------

    def _branch(self, mine: list[Any], its: list[Any]) -> Branch:
        """A branch between the two, on the last comparison that tells the trace from every way that comes here."""
        for guard in reversed(list(self.way.asked)):
            if guard.at <= self.before and getattr(guard.left, "symbol", "") != TRUTH:
                others = [self._asked(way, guard) for way in self.beside]
                if all(each is not None and each.outcome != guard.outcome for each in others):
                    own = others[0]
                    break
        else:
            raise Apart
        assert own is not None
        own = guard_of(own, self._visible)
        self._show([*mine, *its])
        branch = Branch.between(own, (mine, []), (its, []), self.call.title, self.call.path)
        self.taken[branch] = not own.outcome
        self.around[branch] = list(self.open)
        self.program.through[branch.sides[own.outcome]] = [self.way]
        self.program.through[branch.sides[not own.outcome]] = [*self.beside]
        for op in operations_in([*mine, *its]):
            self.inside.update(dict.fromkeys(op.made, branch))
        return branch

    def _show(self, items: Iterable[Any]) -> None:
        """Has calls that go into a side of a branch, and those in the branches among them, use the program's values."""

        def shown(tree: Any) -> Any:
            return imaged(tree, lambda value: self._visible(self.images.get(value, value)))

        for item in items:
            if isinstance(item, Call):
                self._show(item.body)
            elif isinstance(item, Branch):
                item.guard = guard_of(item.guard, lambda value: self._visible(self.images.get(value, value)))
                for side in item.sides:
                    self.open.append(side)
                    self._show(side.body)
                    side.results = shown(side.results)
                    self.open.pop()
            else:
                item.args, item.kwargs = shown((item.args, item.kwargs))

    def _value(self, own: Value, other: Value) -> Value:
        """The program's value, or what a branch gives where the trace has another one."""
        if self._is(own, other):
            return own
        branch, its = own.producer, self.images.get(other, other)
        if isinstance(branch, Branch) and branch in self.taken:
            side = branch.sides[not self.taken[branch]]
            around = self.around[self.inside[its]] if its in self.inside else self.program.home.get(its, ())
            if side in around:  # the side gives another value
                outer, place = self.out, branch.results.index(own)
                self.out = side.body
                side.results[place] = self._value(side.results[place], other)
                self.out = outer
                return own
        return self._joint(own, other)

    def _joint(self, own: Value, other: Value) -> Value:
        """What a branch gives that is one value of the program's and another of the trace's."""
        its = self.images.get(other, other)
        if its not in self.inside:  # what a branch has inside becomes a result of that branch itself
            its = self._visible(its)
        branches = {self.inside[value] for value in (own, its) if value in self.inside}
        if own.dtype != its.dtype or len(own.shape) != len(its.shape):
            raise Apart("its sides give tensors of other ranks or dtypes")
        if len(branches) > 1:
            raise Apart
        branch = branches.pop() if branches else self._here()
        if isinstance(branch.guard.left, Value) and own.shape != its.shape:
            raise Apart("its sides give tensors of other sizes")
        mine, theirs = (
            branch.sides[not outcome].results for outcome in (branch.guard.outcome, not branch.guard.outcome)
        )
        for place, pair in enumerate(zip(mine, theirs)):
            if pair == (own, its):
                return branch.results[place]
        given = Value(own.shape, own.dtype, own.known and its.known, own.name or its.name, branch, own.hint or its.hint)
        mine.append(own)
        theirs.append(its)
        branch.results.append(given)
        for value in (own, its):
            self.program.given.setdefault(value, []).append(given)
        return given

    def _here(self) -> Branch:
        """A branch between two values, before the call that takes them."""
        branch = self._branch([], [])
        self.out.append(branch)
        return branch

    # -- what is the same ----------------------------------------------------------------------------------------------

    def _is(self, own: Value, other: Value) -> bool:
        """Whether a value of the program is the trace's, on its way."""
        return chosen_of(own, self.taken) is chosen_of(self.images.get(other, other), self.taken)

    def _visible(self, value: Value) -> Value:
        """The value, or what gives it outside of the side of a branch that has it."""
        if self._closed(value):
            for given in self.program.given.get(value, ()):
                found = self._visible(given)
                if not self._closed(found):
                    return found
        return value

    def _closed(self, value: Value) -> bool:
        """Whether the value is in the side of a branch that is not looked at."""
        return value in self.inside or any(side not in self.open for side in self.program.home.get(value, ()))

    def _asked(self, way: Way, guard: Guard) -> Guard | None:
        """The last comparison of a way of the program's that is the trace's."""
        return next((each for each in reversed(way.guards) if self._alike(each, guard)), None)

    def _alike(self, own: Guard, other: Guard) -> bool:
        return alike_guards(own, other, self._is)


def _drop(way: Way) -> None:
    """Leaves out of the trace what neither its results nor the truths that it asks for depend on."""
    truths = [guard.left for guard in way.asked if isinstance(guard.left, Value)]
    live = live_operations(dataclasses.replace(way.trace, results=[way.trace.results, truths]))

    def kept(call: Call) -> bool:
        call.body = [item for item in call.body if (item in live if isinstance(item, Op) else kept(item))]
        return bool(call.body)

    kept(way.trace.root)


def _run(a: Iterable[Any], b: Iterable[Any]) -> int:
    """How many fit, from the first on."""
    count = 0
    for x, y in zip(a, b):
        if not _fits(x, y):
            break
        count += 1
    return count


def _fits(own: Any, other: Any) -> bool:
    """Whether calls may stand for each other, with arguments whose values are of one kind."""
    if isinstance(own, Branch) or isinstance(other, Branch):
        return False
    if isinstance(own, Call) and isinstance(other, Call):
        return (own.path, own.kind) == (other.path, other.kind)
    if isinstance(own, Op) and isinstance(other, Op):
        same = (own.qualified, own.path) == (other.qualified, other.path)
        return same and alike((own.args, own.kwargs), (other.args, other.kwargs), _fit)
    return False


def _fit(own: Any, other: Any) -> bool:
    """Whether two leaves may stand for each other."""
    if isinstance(own, Weight) and isinstance(other, Weight):
        return own.path == other.path
    if isinstance(own, Value) and isinstance(other, Value):
        return own.dtype == other.dtype and len(own.shape) == len(other.shape)
    return type(own) is type(other) and repr(own) == repr(other)


def _part(item: Any) -> Any:
    """The part of the module that a call is, or the weights that it uses; None for other calls."""
    if isinstance(item, Call):
        return item.path, item.kind
    if isinstance(item, Op) and not isinstance(item, Branch):
        paths = tuple(value.path for value in item.taken if isinstance(value, Weight))
        return (item.qualified, item.path, paths) if paths else None
    return None


def _homes(call: Call, sides: tuple[Call, ...] = ()) -> dict[Value, tuple[Call, ...]]:
    """The sides of branches that each value is in."""
    found: dict[Value, tuple[Call, ...]] = {}
    for item in call.body:
        if isinstance(item, Branch):
            for side in item.sides:
                found.update(_homes(side, (*sides, side)))
        if isinstance(item, Op):
            found.update(dict.fromkeys(item.made, sides))
        else:
            found.update(_homes(item, sides))
    return found
