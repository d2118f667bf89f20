"""Calls inside calls, as the author nested them: a value without a name is written where it is used."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from ..calls import Value, rebuilt, sizes_of, values_in
from ..render import Renderer
from ..statements import Copy, Expression, Loop, Statement, expressions, fills_a_list, flat, parts, size_key, uses_of
from .lines import WIDTH

WIDEST = 100  # of an expression with calls inside
DEEPEST = 3


def nested(items: list[Any], results: list[Value], prefix: str) -> list[Any]:
    """The statements, with those values that have no name and one use written where they are used."""
    uses = uses_of(flat(items), results)
    kept = set(results)
    for item in items:
        if isinstance(item, Loop):
            kept.update(value for pair in item.carried for value in pair)
            kept.update(values_in([given for _, given in item.over]))
        elif isinstance(item, Copy):
            kept.update((item.source, item.target))
    leaves_of = (leaf for statement in flat(items) for leaf in parts(statement.expression))
    sizes = {size_key(size): size.name or "n" for leaf in leaves_of for size in sizes_of(leaf)}
    return _nested(items, uses, kept, Renderer(prefix, lambda value: value.name or "x", sizes))


def _nested(items: list[Any], uses: Counter[Value], kept: set[Value], renderer: Renderer) -> list[Any]:
    waiting: dict[Value, Statement] = {}
    written: list[Any] = []
    for item in items:
        if not isinstance(item, Statement):
            written += waiting.values()
            waiting.clear()
            if isinstance(item, Loop):
                item.body = _nested(item.body, uses, kept, renderer)
            written.append(item)
            continue
        _take_in(item, waiting, written, renderer)
        if fills_a_list(item):  # what takes the list as it is now stands before it
            filled = item.expression.arguments[0].tree
            takes = [value for value, each in waiting.items() if any(part is filled for part in parts(each.expression))]
            written += map(waiting.pop, takes)
        if _may_wait(item, uses, kept):
            waiting[item.results[0]] = item
        else:
            written.append(item)
    written += waiting.values()
    return written


def _may_wait(statement: Statement, uses: Counter[Value], kept: set[Value]) -> bool:
    if statement.several or statement.note or len(statement.results) != 1:
        return False
    (value,) = statement.results
    return uses[value] == 1 and value.name is None and value.hint is None and value not in kept


def _take_in(
    statement: Statement, waiting: dict[Value, Statement], written: list[Statement], renderer: Renderer
) -> None:
    """Puts what waits into the statement, the last first, as far as the line stays short and shallow."""
    leaves_of = [*parts(statement.expression)]
    direct = [leaf for leaf in leaves_of if isinstance(leaf, Value) and leaf in waiting]
    sized = (value for leaf in leaves_of if not isinstance(leaf, Value) for value in values_in(leaf))
    out = [*dict.fromkeys(value for value in sized if value in waiting)]
    for value in reversed(list(dict.fromkeys(direct))):
        if value in out:
            continue
        before = [replace(argument) for argument in statement.expression.arguments]
        inner = waiting[value].expression
        _replace(statement.expression, value, inner)
        repeats = inner.form == statement.expression.form == "module"  # as in a chain of blocks
        if repeats or not _short(statement, renderer):
            statement.expression.arguments = before
            out.append(value)
    for value in [value for value in waiting if value in out or value in direct]:
        earlier = waiting.pop(value)
        if value in out:
            written.append(earlier)


def _replace(expression: Expression, value: Value, inner: Expression) -> None:
    """Writes ``inner`` in the place of the value, in expressions inside of this one too, which are copied."""

    def change(leaf: Any) -> Any:
        if isinstance(leaf, Expression) and any(part is value for part in parts(leaf)):
            leaf = replace(leaf, arguments=[replace(argument) for argument in leaf.arguments])
            _replace(leaf, value, inner)
        return inner if leaf is value else leaf

    for argument in expression.arguments:
        argument.tree = rebuilt(argument.tree, change)


def _short(statement: Statement, renderer: Renderer) -> bool:
    calls = sum(
        inner.form not in ("operator", "swapped", "unary", "index", "attribute", "sequence")
        for inner in expressions(statement.expression)
    )
    if calls > DEEPEST + sum(inner.form == "method" for inner in expressions(statement.expression)):
        return False
    targets = ", ".join(value.name or "x" for value in statement.results)
    text = renderer.expression(statement.expression)[0]
    return len(text) <= WIDEST and len(f"        {targets} = {text}") <= WIDTH
