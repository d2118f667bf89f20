"""Both sides of branches on values, of which ``torch.where`` takes one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from ....core.errors import Location
from ....core.lazy import torch
from ...calls import Branch, Call, Op, Value, operations, values_in
from ..trace import Trace


def compute_both(trace: Trace, depth: int) -> bool:
    """Has both sides of branches on values computed that stand inside of so many others, and chooses by ``where``.

    Gives whether there are such branches.
    """
    places: dict[Location | None, None] = {}

    def enter(call: Call, above: int) -> None:
        body: list[Any] = []
        for item in call.body:
            if isinstance(item, Branch):
                for side in item.sides:
                    enter(side, above + 1)
                if above >= depth and isinstance(item.guard.left, Value):
                    places[item.location] = None
                    body += [*item.sides[0].body, *item.sides[1].body, *_choices(item)]
                    continue
            elif isinstance(item, Call):
                enter(item, above)
            body.append(item)
        call.body = body

    enter(trace.root, 0)
    made = {value: place for place, op in enumerate(operations(trace.root), 1) for value in op.made}
    asked = ((guard, [made.get(value, 0) for value in values_in((guard.left, guard.right))]) for guard in trace.guards)
    trace.guards = [dataclasses.replace(guard, at=max(found, default=0)) for guard, found in asked]
    trace.branches = any(isinstance(op, Branch) for op in operations(trace.root))
    trace.remarks += [
        f"both sides of what values choose at {place} are computed, and torch.where takes one" for place in places
    ]
    return bool(places)


def _choices(branch: Branch) -> Iterator[Op]:
    """The calls that choose what a branch gives, of what both of its sides give."""
    truth: Value = branch.guard.left
    at = (branch.location, branch.path)
    for name, more in (("reshape", ((),)), ("ne", (0,))):
        if truth.shape if name == "reshape" else truth.dtype != torch.bool:
            dtype = torch.bool if name == "ne" else truth.dtype
            op = Op(name, f"torch.Tensor.{name}", "method", (truth, *more), {}, Value((), dtype), *at)
            op.results.producer, truth = op, op.results
            yield op
    for result, *sides in zip(branch.results, *(side.results for side in branch.sides)):
        result.producer = Op("where", "torch.where", "function", (truth, *sides), {}, result, *at)
        yield result.producer
