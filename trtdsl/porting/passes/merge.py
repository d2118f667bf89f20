"""One value for calls that an author's code makes twice in a row, such as the same transpose of query and key."""

from __future__ import annotations

from typing import Any

from ..calls import Value, alike
from ..statements import Literal, Scope, Statement, expressions, same, substitute

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
    return next((each for each in near if _is_plain(each) and alike(each.expression, item.expression, _same)), None)


def _is_plain(item: Any) -> bool:
    whole = isinstance(item, Statement) and item.several is None and not item.note and len(item.results) == 1
    return whole and item.results[0].name is None and all(each.form in FORMS for each in expressions(item.expression))


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Literal) and isinstance(b, Literal):
        return same(a.value, b.value)
    return a is b if isinstance(a, (Value, Scope)) else type(a) is type(b) and a == b
