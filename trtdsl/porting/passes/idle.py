"""Calls that leave a tensor as it is, which only traces at several sizes show: a pad by sizes that are always 0."""

from __future__ import annotations

from typing import Any

from ..calls import Branch, Call, Op, SizeOp, Value, leaves, with_values
from ..tracing.trace import Trace


def without_idle_pads(trace: Trace) -> None:
    """Uses the operand of a pad by nothing in the place of its result."""
    same: dict[Value, Value] = {}
    _enter(trace.root, same)
    if same:
        trace.results = _changed(trace.results, same)


def _enter(call: Call, same: dict[Value, Value]) -> None:
    def changed(tree: Any) -> Any:
        return _changed(tree, same) if same else tree

    call.arguments = changed(call.arguments)
    for item in call.body:
        if isinstance(item, Call):
            _enter(item, same)
            continue
        for side in item.sides if isinstance(item, Branch) else ():
            _enter(side, same)
        item.args, item.kwargs = changed(item.args), changed(item.kwargs)
        if isinstance(item, Branch):
            for side, results in zip(item.sides, item.args[2:]):
                side.results = results
        if _is_idle(item):
            operand = item.args[0]
            operand.name = operand.name or item.results.name
            same[item.results] = operand
    call.results = changed(call.results)


def _is_idle(op: Op) -> bool:
    """Whether a pad adds nothing at any size."""
    pads = op.kwargs.get("pad", op.args[1] if len(op.args) > 1 else None) if op.name == "pad" else None
    whole = pads is not None and bool(op.args) and isinstance(op.args[0], Value) and isinstance(op.results, Value)
    return whole and all(_is_zero(size) for size in leaves(pads))


def _is_zero(size: Any) -> bool:
    if isinstance(size, SizeOp):
        return size.number == 0 and not size.varies
    return isinstance(size, int) and size == 0


def _changed(tree: Any, same: dict[Value, Value]) -> Any:
    return with_values(tree, lambda leaf: same.get(leaf, leaf) if isinstance(leaf, Value) else leaf)
