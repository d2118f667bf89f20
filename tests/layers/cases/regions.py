"""TRIP_LIMIT, ITERATOR, RECURRENCE, LOOP_OUTPUT, CONDITION, CONDITIONAL_INPUT, CONDITIONAL_OUTPUT."""

from __future__ import annotations

import numpy as np

from . import case, trt

SUM, PROD, LESS = (getattr(trt.ElementWiseOperation, name) for name in ("SUM", "PROD", "LESS"))
ROWS = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
LOOP = ("TRIP_LIMIT", "ITERATOR", "RECURRENCE", "LOOP_OUTPUT")


def out(layer):
    return layer.get_output(0)


def counted(n, limit):
    loop = n.add_loop()
    loop.add_trip_limit(n.constant(np.int32(limit)), trt.TripLimit.COUNT)
    return loop


def running_sums(n, x):
    """The sum of the rows, and the sums after each row."""
    loop = counted(n, 3)
    row = out(loop.add_iterator(x))
    total = loop.add_recurrence(n.constant(np.float32([0.0, 0.0])))
    after = out(n.add_elementwise(out(total), row, SUM))
    total.set_input(1, after)
    every = loop.add_loop_output(after, trt.LoopOutput.CONCATENATE, 1)
    every.set_input(1, n.constant(np.int32(3)))
    return [loop.add_loop_output(out(total), trt.LoopOutput.LAST_VALUE), every]


def backwards(n, x):
    """Rows from the last one on, and the results in reverse order."""
    loop = counted(n, 3)
    row = out(loop.add_iterator(x, 0, True))
    double = out(n.add_elementwise(row, row, SUM))
    results = []
    for kind in (trt.LoopOutput.CONCATENATE, trt.LoopOutput.REVERSE):
        result = loop.add_loop_output(double, kind, 0)
        result.set_input(1, n.constant(np.int32(3)))
        results.append(result)
    return results


def columns(n, x):
    loop = counted(n, 2)
    column = out(loop.add_iterator(x, 1))
    result = loop.add_loop_output(out(n.add_identity(column)), trt.LoopOutput.CONCATENATE, 0)
    result.set_input(1, n.constant(np.int32(2)))
    return result


def doubled_while_small(n, x):
    """x doubled until it is 100 or more, looked at before each iteration."""
    loop = n.add_loop()
    value = loop.add_recurrence(x)
    loop.add_trip_limit(out(n.add_elementwise(out(value), n.constant(np.float32(100.0)), LESS)), trt.TripLimit.WHILE)
    value.set_input(1, out(n.add_elementwise(out(value), n.constant(np.float32(2.0)), PROD)))
    return loop.add_loop_output(out(value), trt.LoopOutput.LAST_VALUE)


def fibonacci(n, x):
    """Two recurrences that read each other's old value."""
    loop = counted(n, 6)
    a, b = loop.add_recurrence(x), loop.add_recurrence(n.constant(np.int64(1)))
    a.set_input(1, out(b))
    b.set_input(1, out(n.add_elementwise(out(a), out(b), SUM)))
    return loop.add_loop_output(out(a), trt.LoopOutput.LAST_VALUE)


def nested(n, x):
    """sum over i of (i + 1) * row i, the product made by a loop of i + 1 additions inside."""
    loop = counted(n, 3)
    row = out(loop.add_iterator(x))
    step = loop.add_recurrence(n.constant(np.int32(1)))
    step.set_input(1, out(n.add_elementwise(out(step), n.constant(np.int32(1)), SUM)))
    inner = n.add_loop()
    inner.add_trip_limit(out(step), trt.TripLimit.COUNT)
    part = inner.add_recurrence(n.constant(np.float32([0.0, 0.0])))
    part.set_input(1, out(n.add_elementwise(out(part), row, SUM)))
    product = out(inner.add_loop_output(out(part), trt.LoopOutput.LAST_VALUE))
    total = loop.add_recurrence(n.constant(np.float32([0.0, 0.0])))
    total.set_input(1, out(n.add_elementwise(out(total), product, SUM)))
    return loop.add_loop_output(out(total), trt.LoopOutput.LAST_VALUE)


def both_limits(n, x):
    loop = counted(n, 3)
    value = loop.add_recurrence(x)
    loop.add_trip_limit(out(n.add_elementwise(out(value), n.constant(np.float32(5.0)), LESS)), trt.TripLimit.WHILE)
    value.set_input(1, out(n.add_elementwise(out(value), n.constant(np.float32(1.0)), SUM)))
    return loop.add_loop_output(out(value), trt.LoopOutput.LAST_VALUE)


for kind in LOOP:
    case(kind, "running-sums", [ROWS], [[9.0, 12.0], [[1.0, 4.0, 9.0], [2.0, 6.0, 12.0]]], running_sums)
case(
    "ITERATOR",
    "backwards",
    [ROWS],
    [[[10.0, 12.0], [6.0, 8.0], [2.0, 4.0]], [[2.0, 4.0], [6.0, 8.0], [10.0, 12.0]]],
    backwards,
)
case("ITERATOR", "columns", [ROWS], [[[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]]], columns)
case("TRIP_LIMIT", "while", [3.0], [192.0], doubled_while_small)
case("TRIP_LIMIT", "while-false-at-once", [300.0], [300.0], doubled_while_small)
case("TRIP_LIMIT", "count-ends-first", [0.0], [3.0], both_limits)
case("TRIP_LIMIT", "condition-ends-first", [4.0], [5.0], both_limits)
case("RECURRENCE", "fibonacci", [np.int64(0)], [np.int64(8)], fibonacci)
case("RECURRENCE", "nested", [ROWS], [[22.0, 28.0]], nested)


def branches(n, condition, x):
    """x + 1 where the condition holds, else 2 x."""
    conditional = n.add_if_conditional()
    conditional.set_condition(condition)
    inside = out(conditional.add_input(x))
    more = out(n.add_elementwise(inside, n.constant(np.float32([1.0])), SUM))
    twice = out(n.add_elementwise(inside, n.constant(np.float32([2.0])), PROD))
    return conditional.add_output(more, twice)


def nested_branches(n, first, second, x):
    """-x, or what a conditional inside chooses: x + 1 or 2 x."""
    conditional = n.add_if_conditional()
    conditional.set_condition(first)
    inside = out(conditional.add_input(x))
    negative = out(n.add_unary(inside, trt.UnaryOperation.NEG))
    inner = out(branches(n, second, inside))
    return conditional.add_output(negative, inner)


def branch_in_a_loop(n, x):
    """The sum of the positive rows: each iteration chooses."""
    loop = counted(n, 3)
    row = out(loop.add_iterator(x))
    total = loop.add_recurrence(n.constant(np.float32(0.0)))
    positive = out(n.add_elementwise(n.constant(np.float32(0.0)), row, LESS))
    conditional = n.add_if_conditional()
    conditional.set_condition(positive)
    old, new = out(conditional.add_input(out(total))), out(conditional.add_input(row))
    total.set_input(1, out(conditional.add_output(out(n.add_elementwise(old, new, SUM)), out(n.add_identity(old)))))
    return loop.add_loop_output(out(total), trt.LoopOutput.LAST_VALUE)


def loop_in_a_branch(n, condition, x):
    conditional = n.add_if_conditional()
    conditional.set_condition(condition)
    inside = out(conditional.add_input(x))
    grown = out(doubled_while_small(n, inside))
    return conditional.add_output(grown, out(n.add_identity(inside)))


for kind in ("CONDITION", "CONDITIONAL_INPUT", "CONDITIONAL_OUTPUT"):
    case(kind, "then", [np.bool_(True), [3.0, 4.0]], [[4.0, 5.0]], branches)
    case(kind, "else", [np.bool_(False), [3.0, 4.0]], [[6.0, 8.0]], branches)
case("CONDITIONAL_OUTPUT", "nested-then", [np.bool_(True), np.bool_(True), [3.0]], [[-3.0]], nested_branches)
case("CONDITIONAL_OUTPUT", "nested-else-then", [np.bool_(False), np.bool_(True), [3.0]], [[4.0]], nested_branches)
case("CONDITIONAL_OUTPUT", "nested-else-else", [np.bool_(False), np.bool_(False), [3.0]], [[6.0]], nested_branches)
case("CONDITIONAL_OUTPUT", "in-a-loop", [[1.0, -5.0, 2.0]], [3.0], branch_in_a_loop)
case("LOOP_OUTPUT", "in-a-branch", [np.bool_(True), 3.0], [192.0], loop_in_a_branch)
case("LOOP_OUTPUT", "in-a-branch-not-taken", [np.bool_(False), 3.0], [3.0], loop_in_a_branch)
