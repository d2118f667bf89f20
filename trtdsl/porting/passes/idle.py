"""What does nothing, which only all traces show: a pad by sizes that are always 0, and what a loop takes in vain."""

from __future__ import annotations

from typing import Any

from ..calls import Op, Scan, SizeOp, Value, change_trees, imaged, leaves, operations, pads_of
from ..tracing.trace import Trace, live_operations
from ..translating.lowering import STARTS


def without_idle_pads(trace: Trace) -> None:
    """Uses the operand of a pad by nothing in the place of its result."""
    same: dict[Value, Value] = {}
    for op in filter(_is_idle, operations(trace.root)):
        operand: Any = same.get(op.args[0], op.args[0])
        operand.name = operand.name or op.results.name
        same[op.results] = operand

    def changed(tree: Any) -> Any:
        return imaged(tree, lambda value: same.get(value, value))

    if same:
        change_trees(trace.root, changed)
        trace.results = changed(trace.results)


def without_idle_parts(trace: Trace) -> None:
    """Takes from loops what they go along and do not need, but for one tensor, which has their length."""
    live = live_operations(trace)
    for scan in [op for op in live if isinstance(op, Scan)]:
        length, carried, along, taken, gives = scan.args
        inside = (op for op in operations(scan.round) if op in live and op.name not in STARTS)
        needed = {value for op in inside for value in op.taken} | {*gives}
        pairs = list(zip(along, taken[len(carried) :]))
        kept = [pair for pair in pairs if pair[1] in needed] or pairs[:1]
        taken = [*taken[: len(carried)], *(value for _, value in kept)]
        scan.args = (length, carried, [tensor for tensor, _ in kept], taken, gives)


def _is_idle(op: Op) -> bool:
    """Whether a pad adds nothing at any size."""
    pads = pads_of(op)
    whole = pads is not None and bool(op.args) and isinstance(op.args[0], Value) and isinstance(op.results, Value)
    return whole and all(_is_zero(size) for size in leaves(pads))


def _is_zero(size: Any) -> bool:
    return not size.varies and size.number == 0 if isinstance(size, SizeOp) else size == 0
