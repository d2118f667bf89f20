"""Pads, repeats and slices that do nothing at some sizes, so that paths without them are the same program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ....core.errors import Location
from ....core.lazy import np
from ....sizes.condition import OPPOSITE
from ....sizes.proof import Env
from ...calls import Op, SizeOf, SizeOp, Value, change_trees, number_of, operations, pads_of, sizes_of, with_sizes
from ...given import Given
from ..guards import Guard
from ..scans.taking import axis_of, index_of
from ..trace import Trace, live_operations
from ..ways.way import Way
from .asked import Asking
from .symbols import Symbols, Unknown

REPEATS = {"expand", "expand_as", "broadcast_to", "repeat", "tile"}


def repeats(trace: Trace, given: Given) -> dict[Op, list[Asking]]:
    """Calls that may give their operand, with the conditions under which they do.

    They repeat it once, pad it by nothing, or take all of it.
    """
    sizes: dict[Op, list[Guard]] = {}
    for op in live_operations(trace):
        operand, result = (op.args or (None,))[0], op.results
        if not isinstance(operand, Value) or not isinstance(result, Value) or op.location is None:
            continue
        zeros = _zeros(op)
        if zeros is not None:
            sizes[op] = [Guard("==", number, 0, True, op.location) for number in zeros]
        elif len(operand.shape) == len(result.shape) and (op.name in REPEATS or _of_slices(op)):
            sizes[op] = [
                Guard("==", SizeOf(operand, axis, own), SizeOf(result, axis, other), True, op.location)
                for axis, (own, other) in enumerate(zip(operand.shape, result.shape))
            ]
    symbols = Symbols(trace, given, [guard for guards in sizes.values() for guard in guards])
    found: dict[Op, list[Asking]] = {}
    for op, guards in sizes.items():
        with suppress(Unknown):
            found[op] = [Asking(guard, symbols, given) for guard in guards]
    return found


def kept(found: Mapping[Op, list[Asking]], env: Env) -> tuple[dict[Any, Any], list[Asking]]:
    """What of these calls gives their operand at these sizes, with the operand, and when it does.

    Of a pad that adds something, what it adds nothing by is 0.
    """
    once: dict[Any, Any] = {}
    conditions: list[Asking] = []
    for op, asked in found.items():
        taken: Any = op.args[0]
        so = [each.outcomes({name: np.array([env[name]]) for name in each.names}).all() for each in asked]
        if so and all(so):
            once[op.results] = once.get(taken, taken)
            conditions += asked
        elif _zeros(op) is not None:
            nothing = [each for each, holds in zip(asked, so) if holds and isinstance(each.guard.left, SizeOp)]
            once.update((each.guard.left, 0) for each in nothing)
            conditions += nothing
    return once, conditions


def clamped(way: Way, beside: Way, given: Given, columns: Mapping[str, Any]) -> bool:
    """Pads by nothing at sizes that are not the way's own, where its pads would be by something; whether there are any.

    What a short input is padded by, ``7 - t``, is ``max(7 - t, 0)`` from then on, wherever it is used, and what it is
    padded by to a multiple under ``if h % 4``, ``4 - h % 4``, is ``-h % 4``. A number that the way ``beside`` does not
    pad by, 1 under ``if up != h``, is ``h - up``. What a slice leaves out at the end, ``[:-more]``, may be nothing.
    """
    padded = _clamped_pads(way, beside, given, columns)
    return _clamped_ends(way, given, columns) or padded


def _clamped_pads(way: Way, beside: Way, given: Given, columns: Mapping[str, Any]) -> bool:
    order = {op: place for place, op in enumerate(operations(way.trace.root))}
    its = {place: numbers for _, place, numbers in _pads(beside.trace)}
    guards: dict[tuple[Op, int], Guard] = {}
    others: dict[tuple[Op, int], Any] = {}
    for op, where, numbers in _pads(way.trace):
        for place, (number, other) in enumerate(zip(numbers, its.get(where, [0] * len(numbers)))):
            if _may_be_none(number, other):
                guards[op, place], others[op, place] = Guard(">=", number, 0, True, where[0]), other
    symbols = Symbols(way.trace, given, [*guards.values(), *way.asked])
    changed: dict[SizeOp, SizeOp] = {}
    counted: dict[Op, dict[int, SizeOp]] = {}
    for (op, place), guard in guards.items():
        number = guard.left
        before = [each for each, asked in way.asked.items() if not asked.everywhere and each.at <= order[op]]
        before.sort(key=lambda each: (_asks_axis(each, place), each.at))
        with suppress(Unknown):
            less = isinstance(number, SizeOp) and not Asking(guard, symbols, given).everywhere
            forms = [("max", (number, 0))] if less else _nothing_where_not(before[-1], number) if before else []
            for symbol, operands in forms:
                if isinstance(number, SizeOp) and (number.symbol, number.operands) == (symbol, operands):
                    break  # it is so already
                new = SizeOp(symbol, operands, number_of(number), varies=True)
                if symbol == "*" and number_of(others[op, place]):
                    continue  # the way beside pads there, too
                if _holds(Asking(replace(guard, symbol="==", left=new, right=number), symbols, given), way, columns):
                    if isinstance(number, SizeOp):
                        changed[number] = new
                    else:
                        counted.setdefault(op, {})[place] = new
                    break
    for op, numbers in counted.items():
        _pad_by(op, numbers)
    if changed:
        change_trees(way.trace.root, lambda tree: with_sizes(tree, changed))
    return bool(changed or counted)


def _clamped_ends(way: Way, given: Given, columns: Mapping[str, Any]) -> bool:
    guards = {
        (op, item): Guard(">", more, 0, True, op.location)
        for op in operations(way.trace.root)
        for item, each in enumerate(index_of(op))
        if op.location is not None and (more := _left_out(each)) is not None
    }
    symbols, found = Symbols(way.trace, given, guards.values()), False
    for (op, item), guard in guards.items():
        index, axis = index_of(op), axis_of(op.args[0], index_of(op), item)
        with suppress(Unknown):
            asking = Asking(guard, symbols, given)
            if axis is not None and not asking.everywhere and _holds(asking, way, columns):
                size = SizeOf(op.args[0], axis, op.args[0].shape[axis])
                end = SizeOp("-", (size, guard.left), size.number - guard.left.number, varies=True)
                index[item] = slice(index[item].start, end, index[item].step)
                op.args, found = (op.args[0], tuple(index), *op.args[2:]), True
    return found


def _holds(asking: Asking, way: Way, columns: Mapping[str, Any]) -> bool:
    """Whether it does at all sizes at which the module goes this way."""
    return columns.keys() >= {*asking.names} and all(
        each.where.any() and asking.outcomes(columns)[each.where].all() for each in (way, *way.others)
    )


def _zeros(op: Op) -> list[Any] | None:
    """The numbers of a pad, which does nothing where they are 0; None for another call."""
    pads = pads_of(op)
    return list(pads) if isinstance(pads, (tuple, list)) else None


def _pad_by(op: Op, numbers: Mapping[int, SizeOp]) -> None:
    """Has a pad take other numbers at these places."""
    pads = tuple(numbers.get(place, number) for place, number in enumerate(_zeros(op) or ()))
    if "pad" in op.kwargs:
        op.kwargs["pad"] = pads
    else:
        op.args = (op.args[0], pads, *op.args[2:])


def _pads(trace: Trace) -> Iterator[tuple[Op, Any, list[Any]]]:
    """The pads of a trace, where they are, each time that a line pads by itself, and their numbers."""
    times: Counter[Location] = Counter()
    for op in live_operations(trace):
        numbers = _zeros(op)
        if numbers is not None and op.location is not None:
            times[op.location] += 1
            yield op, (op.location, times[op.location], len(numbers)), numbers


def _may_be_none(number: Any, other: Any) -> bool:
    """Whether what a pad adds, and another does not, may be written so that it is 0 at other sizes."""
    if isinstance(number, SizeOp):
        return number.symbol not in ("max", "*", "%")
    return type(number) is int and number > 0 and number != other


def _asks_axis(guard: Guard, place: int) -> bool:
    """Whether a comparison is of sizes of the axis that is padded at this place."""
    return any(size.axis == len(size.value.shape) - 1 - place // 2 for size in sizes_of((guard.left, guard.right)))


def _of_slices(op: Op) -> bool:
    """Whether the call takes elements one after the other: of as many as there are, all of them."""
    return op.name == "getitem" and all(
        item is Ellipsis or (isinstance(item, slice) and item.step in (None, 1)) for item in index_of(op)
    )


def _left_out(item: Any) -> SizeOp | None:
    """The size that a slice leaves out at the end, as ``[:-more]`` says it; None for another item of an index."""
    end = item.stop if isinstance(item, slice) else None
    more = end.operands[0] if isinstance(end, SizeOp) and (end.symbol, len(end.operands)) == ("-", 1) else None
    return more if isinstance(more, SizeOp) else None


def _nothing_where_not(guard: Guard, number: SizeOp) -> list[tuple[str, tuple[Any, ...]]]:
    """What may be the number where the comparison has its outcome, and is 0 elsewhere: symbols with their operands."""
    symbol = guard.symbol if guard.outcome else OPPOSITE[guard.symbol]
    left, right = (guard.left, guard.right) if symbol in (">", ">=", "!=") else (guard.right, guard.left)
    if symbol == "==" or not all(isinstance(getattr(each, "number", each), int) for each in (left, right)):
        return []
    if symbol in (">", "!=") and right == 0 and isinstance(left, SizeOp) and left.symbol == "%":
        size, multiple = left.operands
        up = "%", (SizeOp("-", (size,), 0), multiple)
        return [up, ("*", (SizeOp("min", (left, 1), 1, varies=True), number))]
    if symbol == "!=":
        return [("-", (left, right)), ("-", (right, left))]
    more = SizeOp("-", (left, right), 0)
    more = more if symbol in ("<", ">") else SizeOp("+", (more, 1), 0)
    return [("*", (SizeOp("min", (SizeOp("max", (more, 0), 0), 1), 1, varies=True), number))]
