"""One value for calls that an author's code makes twice in a row, such as the same transpose of query and key."""

from __future__ import annotations

from typing import Any

from ..calls import SizeOf, SizeOp, Value
from ..statements import Expression, Literal, Scope, Statement, same, size_key, substitute

NEAR = 3  # statements apart: those further away may belong to different rounds of a loop
FORMS = {"method", "index", "attribute", "operator"}


def merged(body: list[Any], results: list[Value]) -> list[Any]:
    """The statements without those that compute what a statement just before computes; named values stay."""
    written: list[Any] = []
    for place, item in enumerate(body):
        twin = _twin(item, written[-NEAR:], results)
        if twin is None:
            written.append(item)
        else:
            substitute(body[place + 1 :], {item.results[0]: twin.results[0]})
    return written


def _twin(item: Any, near: list[Any], results: list[Value]) -> Statement | None:
    if not _is_plain(item) or item.results[0] in results:
        return None
    return next((each for each in near if _is_plain(each) and _alike(each.expression, item.expression)), None)


def _is_plain(item: Any) -> bool:
    whole = isinstance(item, Statement) and item.several is None and not item.note and len(item.results) == 1
    return whole and item.results[0].name is None and item.expression.form in FORMS


def _alike(a: Any, b: Any) -> bool:
    if isinstance(a, Expression) and isinstance(b, Expression):
        if (a.form, a.name, len(a.arguments)) != (b.form, b.name, len(b.arguments)) or a.form not in FORMS:
            return False
        return all(x.keyword == y.keyword and _alike(x.tree, y.tree) for x, y in zip(a.arguments, b.arguments))
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_alike, a, b))
    if isinstance(a, slice):
        return all(map(_alike, (a.start, a.stop, a.step), (b.start, b.stop, b.step)))
    if isinstance(a, (SizeOf, SizeOp)):
        return size_key(a) == size_key(b)
    if isinstance(a, Literal):
        return same(a.value, b.value)
    return a is b if isinstance(a, (Value, Scope)) else a == b
