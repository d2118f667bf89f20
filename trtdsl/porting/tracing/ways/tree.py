"""One program of the ways that a module goes by values, by the tree of its choices.

Two ways do the same up to the choice in which they part. There the program gets a branch, with what each does until
both do the same to the end; the ways that part last become one first. Modules and functions of the author's in which
forward chooses are written out in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...calls import Branch, Call, Op, Value, Weight, change_trees, imaged, operations
from ..guards import Guard
from ..trace import Trace
from .way import Apart, Way, check_scopes, guard_of, one_way, paired, same_weight

Paired = Callable[[Value, Value], Value]
"""The program's value, for one of each of two programs."""


@dataclass(eq=False)
class _Program:
    """What some of the ways do, and what each of them asks of the program's values."""

    body: list[Any]
    results: Any
    guards: dict[Way, list[Guard]]

    def use(self, images: Mapping[Value, Value]) -> None:
        """Has it use other values."""

        def image(value: Value) -> Value:
            return images.get(value, value)

        whole = Call("", None, {}, self.body, self.results)
        change_trees(whole, lambda tree: imaged(tree, image))
        self.results = whole.results
        for way, asked in self.guards.items():
            self.guards[way] = [guard_of(each, image) for each in asked]


def chosen(ways: Sequence[Way]) -> Iterator[tuple[Trace, Way]]:
    """Makes the first trace the program of all. Yields what it does on each way, as a trace without branches.

    Raises Apart where there is no such program.
    """
    first = ways[0].trace
    found = _of(ways, 0, first)
    first.root.body, first.results = found.body, found.results
    check_scopes(first)
    for way in ways:
        way.guards = found.guards[way]
        yield one_way(first, way.guards), way


def _of(ways: Sequence[Way], place: int, into: Trace) -> _Program:
    """The program of ways that choose alike before their choice of this number."""
    if len(ways) == 1:
        return _alone(ways[0], into)
    sides: dict[bool, list[Way]] = {}
    for way in ways:
        if len(way.trace.choices) <= place:
            raise Apart
        sides.setdefault(way.trace.choices[place].guard.outcome, []).append(way)
    mine, *others = (_of(side, place + 1, into) for side in sides.values())
    if not others:  # the other side raises an error
        return mine
    way = next(iter(mine.guards))
    guard = mine.guards[way][[*way.asked].index(way.trace.choices[place].guard)]
    return _Parting(mine, others[0], guard, into.root.title).one()


def _alone(way: Way, into: Trace) -> _Program:
    """The program of one way, of the inputs and weights of the first trace."""
    trace = way.trace
    images: dict[Value, Value] = {value: into.inputs[name] for name, value in trace.inputs.items()}
    images.update((weight, same_weight(weight, trace, into)) for weight in [*trace.weights.values()])
    body = _written_out(trace.root, [choice.guard.at for choice in trace.choices], 0)
    found = _Program(body, trace.results, {way: [*way.asked]})
    found.use(images)
    return found


def _written_out(call: Call, places: Sequence[int], before: int) -> list[Any]:
    """The items of a call, and in the place of calls in which forward chooses, theirs; ``before`` it are so many."""
    body: list[Any] = []
    for item in call.body:
        first = before
        before += sum(1 for _ in operations(item)) if isinstance(item, Call) else 1
        if isinstance(item, Call) and any(first <= place <= before for place in places):
            body += _written_out(item, places, first)
        else:
            body.append(item)
    return body


class _Parting:
    """Two programs that are one up to a choice, and again in the end."""

    def __init__(self, mine: _Program, its: _Program, guard: Guard, title: str):
        self.mine, self.its, self.guard, self.title = mine, its, guard, title
        self.images: dict[Value, Value] = {}
        """The first program's values, by the other's, of the calls that are laid beside each other."""
        self.given: dict[tuple[Value, Value], Value] = {}
        """What the branch gives, by what its sides have."""
        self.made: set[Value] = set()
        """The values of ``images``."""
        self.changes: list[Callable[[], None]] = []

    def one(self) -> _Program:
        mine, its = self.mine.body, self.its.body
        first = self._first(mine, its)
        self.its.use(self.images)
        for count in range(min(len(mine), len(its)) - first, -1, -1):
            self.images, self.made, self.given, self.changes = {}, set(), {}, []
            a, b = len(mine) - count, len(its) - count
            try:
                for pair in zip(mine[a:], its[b:]):
                    self._item(*pair, self._given)
                results = paired(self.mine.results, self.its.results, self._given)
                break
            except Apart:
                if not count:
                    raise
        else:
            raise Apart
        for change in self.changes:
            change()
        body = [*mine[:first], *self._branch(mine[first:a], its[first:b]), *mine[a:]]
        whole = _Program([], results, self.its.guards)
        whole.use(self.images)
        return _Program(body, results, {**self.mine.guards, **whole.guards})

    def _first(self, mine: list[Any], its: list[Any]) -> int:
        """How many calls are the same from the first on."""
        count = 0
        for pair in zip(mine, its):
            known = dict(self.images)
            try:
                self._item(*pair, self._same)
            except Apart:
                self.images = known
                break
            count += 1
        self.changes.clear()
        return count

    def _branch(self, mine: list[Any], its: list[Any]) -> list[Branch]:
        """The branch between the two; none where both do nothing and give the same."""
        if not (mine or its or self.given):
            return []
        own, other = ((body, [pair[place] for pair in self.given]) for place, body in enumerate((mine, its)))
        branch = Branch.between(self.guard, own, other, self.title, "")
        branch.results = [*self.given.values()]
        for result in branch.results:
            result.producer = branch
        return [branch]

    # -- beside each other ---------------------------------------------------------------------------------------------

    def _item(self, own: Any, other: Any, value: Paired) -> None:
        """Lays two calls beside each other. Raises Apart where they are others."""
        kinds = [(type(each), each.path, *_kind(each)) for each in (own, other)]
        inner = [[each.body] if isinstance(each, Call) else [call.body for call in each.inner] for each in (own, other)]
        if kinds[0] != kinds[1] or [*map(len, inner[0])] != [*map(len, inner[1])]:
            raise Apart
        names = ("arguments", "results") if isinstance(own, Call) else ("args", "kwargs")
        for bodies in zip(*inner):
            for a, b in zip(*bodies):
                self._item(a, b, value)
        trees = [paired(getattr(own, name), getattr(other, name), value) for name in names]
        self.changes += [partial(setattr, own, name, tree) for name, tree in zip(names, trees)]
        if isinstance(own, Op):
            self.images.update(zip(other.made, own.made))
            self.made.update(own.made)

    def _same(self, own: Value, other: Value) -> Value:
        if self.images.get(other, other) is not own:
            raise Apart
        return own

    def _given(self, own: Value, other: Value) -> Value:
        """A value of both, or what the branch gives that is one or the other."""
        if self.images.get(other, other) is own:
            return own
        if other in self.images or own in self.made or isinstance(own, Weight) or isinstance(other, Weight):
            raise Apart
        if own.dtype != other.dtype or len(own.shape) != len(other.shape):
            raise Apart("its sides give tensors of other ranks or dtypes")
        if own.shape != other.shape:
            raise Apart("its sides give tensors of other sizes")
        known, name, hint = own.known and other.known, own.name or other.name, own.hint or other.hint
        return self.given.setdefault((own, other), Value(own.shape, own.dtype, known, name, None, hint))


def _kind(item: Any) -> tuple[Any, ...]:
    if isinstance(item, Call):
        return (item.kind,)
    return item.qualified, item.form, *((item.guard.location, item.guard.symbol) if isinstance(item, Branch) else ())
