"""Lists that a loop goes over, and lists that it fills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from ...core.lazy import torch
from ..calls import Value, ValueList, values_in
from ..statements import (
    Argument,
    Copy,
    Expression,
    Literal,
    Loop,
    Statement,
    expressions,
    flat,
    made,
    parts,
    substitute,
    uses_of,
)
from .rounds import column


def collect(
    loop: Loop, collected: Mapping[Value, list[Value]], after: list[Statement], results: list[Value]
) -> tuple[list[Statement], list[Statement], list[Value]]:
    """Lets the loop fill a list with each of the ``collected``; the statements before and after it, and the results.

    Where a whole list is needed afterwards it stands there itself; what is needed by itself is taken out of it. It
    begins with what such a list has before the values of the rounds.
    """
    before: list[Statement] = []
    behind: list[Statement] = []
    for first, values in collected.items():
        filled = ValueList((), first.dtype, name=first.hint)
        begun = _begun(after, values)
        before.append(Statement([filled], made("sequence", "", begun)))
        once = uses_of(loop.body, [])[first] == 0 and all(first is not again for _, again in loop.carried)
        if once and first.name is None:
            first.hint = None  # it needs no name besides that of the list
        loop.body.append(Statement([], made("method", "append", filled, first)))
        loop.last.pop(first)
        taken = Value(first.shape, first.dtype, name=first.name, hint=filled.name)
        values = [taken, *values[1:]]
        substitute(after, {first: taken})
        results = [taken if value is first else value for value in results]
        _whole(after, [*begun, *values], filled)
        uses = uses_of(after, results)
        if any(uses[value] for value in values):
            behind.append(Statement(values, made("sequence", "", filled), [*[None] * len(begun), *values]))
    return before, behind, results


def _begun(after: list[Statement], values: list[Value]) -> list[Value]:
    """What stands before the values in the list of the author's that has them last, where it is there before them."""
    later = {value for statement in after for value in statement.results}
    for inner in (each for statement in after for each in expressions(statement.expression)):
        for items in (argument.tree for argument in inner.arguments):
            if isinstance(items, (list, tuple)) and len(items) > len(values):
                first, last = list(items[: -len(values)]), items[-len(values) :]
                there = all(type(item) is Value and item.hint == values[0].hint and item not in later for item in first)
                if there and all(a is b for a, b in zip(last, values)):
                    return first
    return []


def _whole(after: list[Statement], values: list[Value], filled: ValueList) -> None:
    """Writes the list in the place of a list of all its values."""

    def change(tree: Any) -> Any:
        if isinstance(tree, Expression):
            for argument in tree.arguments:
                argument.tree = change(argument.tree)
            return tree
        if isinstance(tree, (list, tuple)):
            if len(tree) == len(values) and all(item is value for item, value in zip(tree, values)):
                return filled
            return type(tree)(map(change, tree)) if type(tree) in (list, tuple) else tree
        return tree

    for statement in after:
        change(statement.expression)


FEWEST = 3
"""Lengths that a list has, one after the other, where the author's code lets it grow."""


def grown(body: list[Any]) -> list[Any]:
    """The statements, where lists that go on from one another are one list of the author's that grows."""
    there = {value: place for place, statement in enumerate(body) for value in statement.results}
    growing: list[list[tuple[int, Argument]]] = []
    """The arguments that are the same list at some length, each with its statement's number."""
    for place, statement in enumerate(body):
        calls = (each for each in expressions(statement.expression) if each.form in ("function", "module"))
        for argument in (each for call in calls for each in call.arguments):
            items = argument.tree
            if isinstance(items, (list, tuple)) and items and all(type(item) is Value for item in items):
                former = next((uses for uses in growing if _goes_on(uses[-1], place, items, there)), None)
                if former is None:
                    growing.append(former := [])
                former.append((place, argument))
    before: dict[int, list[Statement]] = {}
    behind: dict[int, list[Statement]] = {}
    for uses in growing:
        longest: list[Value] = list(uses[-1][1].tree)
        names = [value.hint for value in longest]  # nobody looks for those of long lists, and after the last call
        grows = len({len(argument.tree) for _, argument in uses}) >= FEWEST
        if not grows or None in names[: FEWEST - 1] or len({*names} - {None}) > 1:
            continue
        filled = ValueList((), longest[0].dtype, name=longest[0].hint)
        first, start = uses[0]
        before.setdefault(first, []).append(Statement([filled], made("sequence", "", list(start.tree))))
        for (place, short), (_, long) in pairwise(uses):
            for value in long.tree[len(short.tree) :]:
                append = Statement([], made("method", "append", filled, value))
                behind.setdefault(max(place, there.get(value, -1)), []).append(append)
        for _, argument in uses:
            argument.tree = filled
        for value in longest:
            value.hint = None
    return [
        each
        for place, statement in enumerate(body)
        for each in (*before.get(place, ()), statement, *behind.get(place, ()))
    ]


def _goes_on(former: tuple[int, Argument], place: int, items: Sequence[Value], there: Mapping[Value, int]) -> bool:
    """Whether the items are those of a former list, perhaps with others that are there in time."""
    begun = former[1].tree
    same = len(items) >= len(begun) and all(a is b for a, b in zip(begun, items))
    return same and former[0] < place and all(there.get(value, -1) < place for value in items[len(begun) :])


def go_over(loop: Loop, over: Mapping[Any, Sequence[Any]]) -> None:
    """Makes the loop iterate over the values that its rounds take; its body has one name for them."""
    named: dict[Any, Value] = {}
    numbers: dict[tuple[str, ...], Value] = {}
    for first, values in over.items():
        given = list(values[: loop.count])
        if all(value is first for value in given):  # it would differ in later rounds only
            continue
        if isinstance(first, Literal):
            users = [each for each in flat(loop.body) if any(part is first for part in parts(each.expression))]
            hint = next((value.hint for each in users for value in each.results), None)
            element = numbers.setdefault(column(given), Value((), torch.float32, hint=hint))
            element.name = first.name or element.name or "number"  # of a padding and a dilation, the latter's
        else:
            names = {value.name for value in given}
            stem = (first.name or "").rstrip("0123456789_")
            name = names.pop() if len(names) == 1 else stem or None
            element = Value(first.shape, first.dtype, name=name, hint=first.hint)
        named[first] = element
        if all(element is not known for known, _ in loop.over):
            loop.over.append((element, given))
    substitute(loop.body, named)


def joined(items: list[Any], results: list[Value]) -> list[Any]:
    """The items, where a loop over all values of a list goes over the list, and nothing is taken out in vain."""
    taken = [
        item for item in items if isinstance(item, Statement) and item.expression.form == "sequence" and item.several
    ]
    lists = {tuple(map(id, item.several or ())): item.expression.arguments[0].tree for item in taken}
    loops = [item for item in items if isinstance(item, Loop)]
    for loop in loops:
        loop.over = [(each, lists.get(tuple(map(id, given)), given)) for each, given in loop.over]
    for item in taken:
        item.several = [
            value if value in results or any(_needs(other, [value]) for other in items) else None
            for value in item.several or ()
        ]
        item.results = [value for value in item.several if value is not None]
    written: list[Any] = [item for item in items if item not in taken]
    for item in taken:  # as late as it can be
        if item.results:
            users = (place for place, other in enumerate(written) if _needs(other, item.results))
            written.insert(next(users, len(written)), item)
    return written


def _needs(item: Any, values: list[Value]) -> bool:
    """Whether the statement, loop or copy needs one of the values."""
    uses = uses_of(flat([item]), [])
    if isinstance(item, Loop):
        uses.update(values_in([given for _, given in item.over]))
        uses.update(first for first, _ in item.carried)
    elif isinstance(item, Copy):
        uses[item.source] += 1
    return any(uses[value] for value in values)
