"""What the calls of a round are, and which parts of tensors they take."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ...calls import Call, Op, SizeOf, SizeOp, Value, argument, keyed, operations_in
from ...statements import size_key
from ..traced_sizes import combined


class Unlike(Exception):
    """The rounds are no scan."""


GETITEM = {"name": "getitem", "form": "method", "qualified": "torch.Tensor.__getitem__"}


def rewrite(op: Op, **fields: Any) -> None:
    """Makes another call of one."""
    for name, given in fields.items():
        setattr(op, name, given)


def kind_of(item: Any) -> Any:
    """What calls have in common that may be one in all rounds."""
    if isinstance(item, Call):
        return item.path, item.kind, [kind_of(each) for each in item.body]
    args, index = item.args, index_of(item)
    if index:
        args = (args[0], *args[2:])
    inner = [kind_of(each) for call in item.inner for each in call.body]
    return (
        item.qualified,
        item.name,
        item.form,
        item.path,
        keyed((args, item.kwargs), leaf_of),
        list(map(place_of, index)),
        inner,
    )


def leaf_of(leaf: Any) -> Any:
    return "value" if isinstance(leaf, Value) else repr(leaf)


def check_numbers(item: Any, kind: Any) -> None:
    """Raises Unlike where a call of one round and that of another differ in a number alone."""

    def without(kind: Any) -> Any:
        if isinstance(kind, (tuple, list)):
            return tuple(map(without, kind))
        return "number" if isinstance(kind, str) and re.fullmatch(r"-?\d+(\.\d*)?(e-?\d+)?", kind) else kind

    if item is not None and kind_of(item) != kind and without(kind_of(item)) == without(kind):
        raise Unlike(
            f"each round computes with another number{line_of(item)}: take it from a tensor before the loop, as "
            "steps = torch.arange(n) and steps[t]"
        )


def place_of(item: Any) -> Any:
    """The kind of an item of an index."""
    if isinstance(item, slice):
        return "slice", *(None if end is None else "number" for end in (item.start, item.stop, item.step))
    if isinstance(item, (int, SizeOf, SizeOp)) and not isinstance(item, bool):
        return "number"
    return leaf_of(item)


def index_of(op: Op) -> list[Any]:
    """The items of a call's index; none for a call without one."""
    if op.name == "select" and len(op.args) == 3 and isinstance(op.args[1], int):
        return [*[slice(None)] * (op.args[1] % max(len(op.args[0].shape), 1)), op.args[2]]
    if op.name not in ("getitem", "setitem") or not isinstance(op.args[0], Value):
        return []
    return list(op.args[1]) if isinstance(op.args[1], tuple) else [op.args[1]]


def ends_of(item: Any) -> tuple[Any, ...]:
    """The numbers of an item of an index."""
    return (item.start, item.stop, item.step) if isinstance(item, slice) else (item,)


def first_number(item: Any) -> Any:
    """The number at which an item of an index begins; None for one that is no single place."""
    ends = [getattr(end, "number", end) for end in ends_of(item)]
    if isinstance(item, slice):
        whole = isinstance(ends[0], int) and isinstance(ends[1], int) and ends[2] in (None, 1)
        return ends[0] if whole and ends[0] >= 0 and ends[1] - ends[0] == 1 else None
    return ends[0] if isinstance(ends[0], int) and ends[0] >= 0 else None


def axis_of(base: Any, index: list[Any], item: int) -> int | None:
    """The dimension of the tensor that an item of its index is of; None where tensors are among the items."""
    if not isinstance(base, Value) or any(isinstance(each, (Value, list, bool)) for each in index):
        return None
    before = [each for each in index[:item] if each is not None]
    after = [each for each in index[item + 1 :] if each is not None]
    return len(base.shape) - 1 - len(after) if Ellipsis in [x for x in before if x is Ellipsis] else len(before)


def rest_of(op: Op, item: int) -> tuple[Any, ...]:
    """The index that is left of one part of a tensor; empty where all of it is taken."""
    index = index_of(op)
    one = index[item]
    rest = [*index[:item], *([None] if isinstance(one, slice) else []), *index[item + 1 :]]
    whole = all((isinstance(each, slice) and ends_of(each) == (None, None, None)) or each is Ellipsis for each in rest)
    return () if whole else tuple(rest)


def without(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])


def part_of(value: Value) -> tuple[Value, int] | None:
    """The tensor that ``unbind`` took apart, and which of its parts the value is."""
    op = value.producer
    if op is None or op.name != "unbind" or not isinstance(op.results, (tuple, list)):
        return None
    return op.args[0], next(place for place, part in enumerate(op.results) if part is value)


def taken_apart(op: Any) -> int:
    """The dimension that ``unbind`` takes apart."""
    return argument(op, 1, "dim", 0) % len(op.args[0].shape)


def more(a: Any, b: Any) -> Any:
    """The sum of two sizes."""
    taken_off = isinstance(a, int) and isinstance(b, SizeOp) and (b.symbol, *b.operands[1:]) == ("-", a)
    return b.operands[0] if taken_off else combined("+", *((b, a) if isinstance(a, int) else (a, b)))


def less(a: Any, b: Any) -> Any:
    return combined("-", a, b)


def made_like(target: Value, axis: int, length: Any) -> bool:
    """Whether a tensor was made with this length, so that the rounds write all of it."""
    op = target.producer
    if op is None:
        return False
    if op.name in ("zeros_like", "ones_like", "full_like") and isinstance(op.args[0], Value):
        return size_key(SizeOf(op.args[0], axis, 0)) == size_key(length)
    if op.name in ("zeros", "ones", "new_zeros", "new_ones"):
        sizes = op.args[1:] if op.name.startswith("new") else op.args
        sizes = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)) else sizes
        return len(sizes) == len(target.shape) and size_key(sizes[axis]) == size_key(length)
    return False


def by_name(values: list[Value]) -> dict[str, Value]:
    """The values by the names of a round's parameters."""
    found: dict[str, Value] = {}
    for value in values:
        name = value.name or "x"
        while name in found:
            name = f"{name}_"
        found[name] = value
    return found


def line_of(item: Any) -> str:
    op = next(operations_in([item]), None) if item is not None else None
    return f" ({op.qualified}, line {op.location.line})" if op is not None and op.location is not None else ""
