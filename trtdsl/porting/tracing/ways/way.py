"""A way that a module goes, and what is made of several."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ....core.lazy import torch
from ...calls import Branch, Call, Op, Value, Weight, alike, apart, calls, imaged, joined, values_in
from ..guards import Guard
from ..modes import free
from ..trace import Trace


class Apart(Exception):
    """The traces are no program with branches; the text may say why."""


@dataclass(eq=False)
class Way:
    """One way that a module goes."""

    trace: Trace
    asked: Mapping[Guard, Any]
    """What it asks of sizes, as conditions of the inputs' dimensions; None for what it asks of values."""
    where: Any = True
    """At which sizes the module goes this way."""
    guards: list[Guard] = field(default_factory=list)
    """What it asks and a file can write, of the program's values."""
    others: list[Way] = field(default_factory=list)
    """Paths to the same calls, on which the module asks something else."""
    alone: bool = False
    """Whether it asks what no condition of the inputs says, so that it is in no program with others."""


def snapshot(ways: Sequence[Way]) -> Callable[[], None]:
    """A function that makes the traces what they are now, after what was made of them."""
    found = [way.trace for way in ways]
    every = [call for trace in found for call in calls(trace.root, inner=True)]
    ops = [op for call in every for op in call.body if isinstance(op, Op)]
    kept = [
        *((call, "body", "arguments", "results") for call in every),
        *((op, "args", "kwargs") for op in ops),
        *(
            (trace, "results", "weights", "constants", "remarks", "requirements", "elsewhere", "branches")
            for trace in found
        ),
        *((weight, "path") for trace in found for weight in trace.weights.values()),
    ]
    before = [(each, name, _own(getattr(each, name))) for each, *names in kept for name in names]

    def undo() -> None:
        for each, name, held in before:
            setattr(each, name, _own(held))

    return undo


def _own(held: Any) -> Any:
    """A list or a dict of its own, with the same items; anything else as it is."""
    return copy.copy(held) if isinstance(held, (list, dict)) else held


def same_weight(weight: Weight, its: Trace, mine: Trace) -> Weight:
    """A trace's weight as another has it from now on; a constant that has other numbers there gets another path."""
    number = its.constants.get(weight.path)
    if number is not None:
        held = ((path, own) for path, own in mine.constants.items() if own.dtype == number.dtype)
        same = (path for path, own in held if torch.equal(own, number))
        weight.path = next(same, free(weight.path, {*mine.constants, *mine.weights}))
        mine.constants.setdefault(weight.path, number)
    return mine.weights.setdefault(weight.path, weight)


def paired(own: Any, other: Any, value: Callable[[Value, Value], Value]) -> Any:
    """The program's tree of arguments, in which ``value`` gives its value for one of each of two ways.

    Raises Apart where the trees are others.
    """
    if isinstance(own, Value) and isinstance(other, Value):
        return value(own, other)
    mine, its = apart(own), apart(other)
    if mine is None or its is None:
        if type(own) is not type(other) or repr(own) != repr(other):
            raise Apart
        return own
    if mine[0] != its[0] or len(mine[1]) != len(its[1]):
        raise Apart
    parts = [paired(*each, value) for each in zip(mine[1], its[1])]
    return own if all(a is b for a, b in zip(parts, mine[1])) else joined(own, parts)


def guard_of(guard: Guard, image: Callable[[Value], Value]) -> Guard:
    """The comparison of other values."""
    return dataclasses.replace(guard, left=imaged(guard.left, image), right=imaged(guard.right, image))


def one_way(trace: Trace, guards: Sequence[Guard]) -> Trace:
    """What the program does where its branches have the outcomes of these comparisons."""
    body: list[Any] = []
    taken: dict[Branch, bool] = {}

    def image(value: Value) -> Value:
        return chosen_of(value, taken)

    def enter(call: Call) -> None:
        for item in call.body:
            if isinstance(item, Branch):
                same = (each for each in guards if alike_guards(item.guard, each, lambda a, b: image(a) is image(b)))
                asked = next(same, None)
                if asked is None:  # the module does not ask, but the program does
                    raise Apart
                taken[item] = asked.outcome
                enter(item.sides[not asked.outcome])
            elif isinstance(item, Op):
                args, kwargs = imaged((item.args, item.kwargs), image)
                body.append(dataclasses.replace(item, args=args, kwargs=kwargs))
            else:
                enter(item)

    enter(trace.root)
    root = Call("", trace.root.module, {}, body)
    return dataclasses.replace(trace, root=root, results=imaged(trace.results, image))


def chosen_of(value: Value, taken: Mapping[Branch, bool]) -> Value:
    """The value that branches give where they are taken so."""
    while isinstance(value.producer, Branch) and value.producer in taken:
        branch = value.producer
        value = branch.sides[not taken[branch]].results[branch.results.index(value)]
    return value


def alike_guards(own: Guard, other: Guard, same: Callable[[Value, Value], bool]) -> bool:
    """Whether two comparisons are of the ``same`` values, and made at the same place."""

    def leaf(a: Any, b: Any) -> bool:
        return same(a, b) if isinstance(a, Value) and isinstance(b, Value) else type(a) is type(b) and a == b

    place = (own.location, own.symbol) == (other.location, other.symbol)
    return place and alike((own.left, own.right), (other.left, other.right), leaf)


def check_scopes(trace: Trace) -> None:
    """Raises Apart where something uses what one side of a branch alone has."""
    known = set[Value](trace.inputs.values())

    def check(tree: Any) -> None:
        if any(value not in known and not isinstance(value, Weight) for value in values_in(tree)):
            raise Apart

    def enter(call: Call) -> None:
        nonlocal known
        for item in call.body:
            if isinstance(item, Branch):
                check((item.guard.left, item.guard.right))
                outside = known
                for side in item.sides:
                    known = set(outside)
                    enter(side)
                    check(side.results)
                known = outside
                known.update(item.results)
            elif isinstance(item, Op):
                check((item.args, item.kwargs))
                known.update(item.made)
            else:
                enter(item)

    enter(trace.root)
    check(trace.results)
