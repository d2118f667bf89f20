"""Recipes: loops and conditionals."""

from __future__ import annotations

from typing import Any

import torch
from cases import trt

from . import DTYPES, Trial, recipe


@recipe("CONDITION", "CONDITIONAL_INPUT", "CONDITIONAL_OUTPUT")
def conditional(t: Trial) -> Any:
    shape, dtype = t.shape(), t.pick(DTYPES)
    region = t.add_if_conditional()
    region.set_condition(t.operand(torch.tensor(t.maybe()), static=True))
    x = region.add_input(t.input(shape, dtype)).get_output(0)
    y = region.add_input(t.input(shape, dtype)).get_output(0)
    return region.add_output(t.add_identity(x).get_output(0), t.add_identity(y).get_output(0))


@recipe("TRIP_LIMIT", "ITERATOR", "RECURRENCE", "LOOP_OUTPUT")
def loop(t: Trial) -> Any:
    shape, dtype = t.shape(1, 6), t.pick(DTYPES)
    axis = t.axis(shape)
    count = shape[axis]
    t.may_fail = count == 0  # then the body says nothing of the shape of what is concatenated
    loop = t.add_loop()
    loop.add_trip_limit(t.constant(torch.tensor(count, dtype=t.pick((torch.int32, torch.int64)))), trt.TripLimit.COUNT)
    item = loop.add_iterator(t.input(shape, dtype), axis, t.maybe(0.3)).get_output(0)
    start = t.operand(t.values((*shape[:axis], *shape[axis + 1 :]), dtype))
    carried = loop.add_recurrence(start)
    result = t.add_elementwise(carried.get_output(0), item, trt.ElementWiseOperation.MAX).get_output(0)
    carried.set_input(1, result)
    last = loop.add_loop_output(carried.get_output(0), trt.LoopOutput.LAST_VALUE)
    kind = t.pick((trt.LoopOutput.CONCATENATE, trt.LoopOutput.REVERSE))
    every = loop.add_loop_output(result, kind, t.number(0, len(shape) - 1))
    every.set_input(1, t.constant(torch.tensor(count, dtype=torch.int64)))
    return last, every
