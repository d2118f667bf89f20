"""Sizes that are computed more than once in a function, which get a name there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from ..calls import SizeOf, SizeOp, operators, sizes_of
from ..statements import Literal, Loop, SizeName, Statement, flat, parts, size_key

SIMPLE = {"+", "-", "*", "//", "%", "**", "math.isqrt"}


def with_size_names(items: list[Any], given: Collection[Any], inputs: Collection[Any]) -> list[Any]:
    """The statements, each size that they compute more than once before the first of them that uses it.

    The author's own name suffices; a size without one must be long or frequent. ``given`` has the keys of sizes that
    the function takes, ``inputs`` the values.
    """
    changing = {first for item in items if isinstance(item, Loop) for first, _ in item.carried}
    outside = {value for item in items if isinstance(item, Statement) for value in item.results} | set(inputs)
    sizes = [leaf for statement in flat(items) for leaf in parts(statement.expression) if isinstance(leaf, SizeOp)]
    found: dict[Any, SizeOp] = {}
    for size in sizes:
        for inner in _inner(size):
            known = found.setdefault(size_key(inner), inner)
            known.name = known.name or inner.name
    chosen: dict[Any, SizeOp] = {}
    for key, size in sorted(found.items(), key=lambda item: -operators(item[1])):
        uses = _uses(sizes, {**dict.fromkeys(given), **chosen})[key]
        half = usual_name(size) == "half" and isinstance(size.operands[0], SizeOf)
        enough = 2 if size.name is not None or half or operators(size, named=False) > 1 else 4
        known = all(of.value in outside and of.value not in changing for of in sizes_of(size))
        if key not in given and uses >= enough and known and size.symbol in SIMPLE and _whole(size):
            chosen[key] = size
    result: list[Any] = []
    waiting = dict(chosen)
    for item in items:
        used = {key for each in flat([item]) for leaf in parts(each.expression) for key in _keys(leaf)}
        for key in sorted((key for key in waiting if key in used), key=lambda key: operators(chosen[key])):
            result.append(SizeName(waiting.pop(key)))
        result.append(item)
    return result


def usual_name(size: SizeOp) -> str:
    """What a size is called to which its author gave no name."""
    left, right = (*size.operands, None)[:2]
    by = right.value if isinstance(right, Literal) else right
    if size.symbol == "//" and by == 2:
        return "half"
    if size.symbol == "*" and isinstance(left, (SizeOf, SizeOp)) and isinstance(right, (SizeOf, SizeOp)):
        return "area"
    return "rest" if size.symbol == "%" else "size"


def _inner(size: Any) -> Iterator[SizeOp]:
    if isinstance(size, SizeOp):
        yield size
        for operand in size.operands:
            yield from _inner(operand)


def _keys(leaf: Any) -> Iterator[Any]:
    return (size_key(size) for size in _inner(leaf))


def _uses(sizes: Iterable[SizeOp], named: Mapping[Any, Any]) -> Counter[Any]:
    """How often each size is written, where the definition of each that is named stands once."""
    counts: Counter[Any] = Counter()

    def enter(size: Any) -> None:
        if isinstance(size, SizeOp):
            counts[size_key(size)] += 1
            if size_key(size) not in named:
                for operand in size.operands:
                    enter(operand)

    for size in [*sizes, *(operand for each in named.values() if each is not None for operand in each.operands)]:
        enter(size)
    return counts


def _whole(size: Any) -> bool:
    """Whether it is computed from whole numbers alone."""
    if isinstance(size, SizeOp):
        return isinstance(size.number, int) and all(map(_whole, size.operands))
    number = size.value if isinstance(size, Literal) else size
    return isinstance(size, SizeOf) or isinstance(number, int)
