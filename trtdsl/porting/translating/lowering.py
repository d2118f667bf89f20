"""Calls of torch as statements: calls with and without a counterpart, and writes in place as new values."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...core.dtypes import dtype_name
from ...core.lazy import torch
from ..calls import Op, Scan, SizeOf, SizeOp, Value, Weight, function_of, made_by, number_of, tensors_in
from ..statements import Argument, Expression, Literal, Statement, made, plain
from .counterpart import counterpart


def statements(op: Op) -> list[Statement]:
    """The statements that a call becomes."""
    results = op.made
    several = None
    if not isinstance(op.results, Value):
        items = list(op.results.values()) if isinstance(op.results, dict) else list(op.results)
        several = [item if isinstance(item, Value) else None for item in items]
    if op.name == "_weight_norm":
        return _weight_norm(op, results)
    if isinstance(op, Scan):
        return [Statement(results, _first_round(op), list(results))]
    expression = written(op)
    if expression is None:
        return [Statement(results, _missing(op), several, _note(op, results))]
    return [Statement(results, expression, several)]


def written(op: Op) -> Expression | None:
    """A call as it is written; None of one that has no counterpart."""
    write = WRITES.get(op.name)
    return (write(op) if write is not None else counterpart(op)) or _of_constants(op)


STARTS = {"carried", "along"}
"""What the values of a round of a loop are in the first one."""


def _first_round(scan: Scan) -> Expression:
    """What the results of a loop have the sizes of: what is carried at first, and what one round gives, repeated."""
    length, carried, *_, given = scan.args
    rounds: list[Any] = []
    for value in given[len(carried) :]:
        one = made("method", "unsqueeze", value, 0)
        rounds.append(made("method", "expand", one, length, *[-1] * len(value.shape)))
    return made("sequence", "", (*carried, *rounds))


def _of_constants(op: Op) -> Expression | None:
    """A call without a counterpart, whose operands are made of weights and numbers alone; None of others."""
    made_of = [op, *(each for value in _operands(op) for each in made_by(value))]
    makers = {value for each in made_of for value in each.made}
    given = {value for each in made_of for value in _operands(each)} - makers
    fixed = all(isinstance(value, Weight) for value in given)
    if not fixed or any(each.name in STARTS or each.inner for each in made_of):
        return None
    if op.form == "attribute" or not callable(function_of(op.qualified)):
        return None
    return replace(_call_of(op, "constants"), name=op.qualified)


def _operands(op: Op) -> list[Value]:
    """The values that a call is given, and not their sizes alone."""
    return tensors_in((op.args, op.kwargs))


def _missing(op: Op) -> Expression:
    return _call_of(op, "missing", Literal(op.qualified))


def _call_of(op: Op, form: str, *first: Any) -> Expression:
    options = {key: item for key, item in op.kwargs.items() if key not in PLACES}
    return replace(made(form, "", *first, *op.args, **options), location=op.location)


def _note(op: Op, results: list[Value]) -> list[str]:
    operands = _operands(op)
    took = f"of {', '.join(map(describe, operands))} " if operands else ""
    gave = ", ".join(map(describe, results))
    return [f"{op.qualified} has no counterpart here: {took}it makes {gave}."]


PLACES = {"device", "layout", "pin_memory", "memory_format", "non_blocking"}
"""Where tensors lie, which a network decides."""


def describe(value: Value) -> str:
    """A value's shape and dtype."""
    return f"{tuple(value.shape)} {dtype_name(value.dtype)}"


def _written(op: Op) -> Expression:
    """``x[index] = y`` as a new x: by the function for that form, else by ``F.setitem``, which takes every index."""
    target, index, given = op.args
    items = list(index) if isinstance(index, tuple) else [index]
    expression = None
    if any(isinstance(item, Value) for item in items):
        expression = _written_at_tensors(target, items, given)
    elif not any(isinstance(item, (list, bool)) or item is None for item in items):
        expression = _written_along(target, items, given)
    return expression or made("function", "setitem", target, index, _number(given))


def _number(given: Any, name: str = "value") -> Any:
    """What is written: a value, a number that is computed from sizes, or a literal."""
    return given if isinstance(given, (Value, SizeOf, SizeOp)) else Literal(given, name)


def _written_along(target: Any, items: list[Any], given: Any) -> Expression | None:
    """``x[:, a:b] = y`` and ``x[:, a] = y``, of a y that has that shape; None for anything else."""
    if Ellipsis in [item for item in items if not isinstance(item, (SizeOf, SizeOp))]:
        at = next(place for place, item in enumerate(items) if item is Ellipsis)
        items[at : at + 1] = [slice(None)] * (len(target.shape) - len(items) + 1)
    axes = [axis for axis, item in enumerate(items) if item != slice(None)]
    if not axes:
        return _filled(target, given, target.dtype)
    item = items[axes[0]]
    stepped = isinstance(item, slice) and item.step not in (None, 1)
    if len(axes) > 1 or stepped or not _fits(given, target, axes[0], item):
        return None
    cut = isinstance(item, slice) and isinstance(item.stop, int) and item.stop > target.shape[axes[0]]
    if cut and given.shape[axes[0]] == 1:
        return None  # a longer tensor has a longer slice, of which it becomes every element
    if isinstance(item, slice):
        ends = [Argument(name, plain(end), None) for name, end in (("start", item.start), ("end", item.stop))]
        return made("function", "slice_scatter", target, given, Argument("dim", Literal(axes[0], "dim"), 0), *ends)
    return made("function", "select_scatter", target, given, dim=Literal(axes[0], "dim"), index=item)


def _fits(given: Any, target: Any, axis: int, item: Any) -> bool:
    """Whether y has the shape of ``x[item]``, so that nothing is broadcast."""
    if not isinstance(given, Value) or not isinstance(target, Value) or given.dtype != target.dtype:
        return False
    numbers = [*map(number_of, _ends(item))]
    size = target.shape[axis]
    chosen = [len(range(*slice(*numbers).indices(size)))] if isinstance(item, slice) else []
    return given.shape == (*target.shape[:axis], *chosen, *target.shape[axis + 1 :])


def _ends(item: Any) -> list[Any]:
    return [item.start, item.stop, item.step] if isinstance(item, slice) else []


def _filled(target: Any, given: Any, dtype: torch.dtype) -> Expression | None:
    """All of x becomes y."""
    if isinstance(given, Value):
        whole = made("function", "expand_as", given, target)
        return whole if given.dtype == dtype else made("method", "to", whole, dtype)
    return made("function", "full_like", target, _number(given, ""))


def _written_at_tensors(target: Value, items: list[Any], given: Any) -> Expression | None:
    """``x[mask] = number`` and ``x[i, j] = y``; None for anything else."""
    (item,) = items if len(items) == 1 else (None,)
    if isinstance(item, Value) and item.dtype == torch.bool:
        if isinstance(given, Value) and len(given.shape) > 0:
            return None
        return made("method", "masked_fill", target, _widened(item, target), _number(given))
    if all(isinstance(item, Value) and item.dtype != torch.bool for item in items):
        if isinstance(given, Value) and given.dtype != target.dtype:
            return None
        return made("function", "index_put", target, tuple(items), _number(given))
    return None


def _chosen(op: Op) -> Expression:
    """``y[mask] = x[mask]``: x or y."""
    target, mask, source = op.args
    return made("function", "where", _widened(mask, target), source, target)


def _widened(mask: Value, target: Value) -> Any:
    """A mask of the first dimensions with those that it lacks."""
    if len(mask.shape) == len(target.shape):
        return mask
    return made("index", "", mask, (Ellipsis, *[None] * (len(target.shape) - len(mask.shape))))


def _resized(op: Op) -> Expression | None:
    """``x.resize_(size)``: the first of x's numbers; further ones, which torch leaves as they are in memory, are 0."""
    target, sizes = op.args[0], op.args[1:]
    sizes = tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)) else sizes
    if 0 in target.shape:
        return made("function", "zeros", *sizes, dtype=target.dtype)
    if any(isinstance(size, (SizeOf, SizeOp)) for size in sizes):
        return None
    old, new = math.prod(target.shape), math.prod(sizes)
    numbers: Any = target
    if old != new:
        numbers = made("function", "pad", made("method", "reshape", target, -1), Literal((0, new - old)))
    return made("method", "reshape", numbers, *sizes)


WRITES: dict[str, Callable[[Op], Expression | None]] = {
    "setitem": _written,
    "masked_where": _chosen,
    "copy": lambda op: _filled(op.args[0], op.args[1], op.args[0].dtype),
    "zero": lambda op: _filled(op.args[0], 0, op.args[0].dtype),
    "resize": _resized,
    "carried": lambda op: made("sequence", "", op.args[0]),
    "along": lambda op: made("method", "select", *op.args, 0),
}


def _weight_norm(op: Op, results: list[Value]) -> list[Statement]:
    """``v / ||v|| * g``, the norm taken over all dimensions but one."""
    v, g = op.args[:2]
    kept = op.args[2] if len(op.args) > 2 else 0
    axes = [axis for axis in range(len(v.shape)) if axis != kept % len(v.shape)]
    norm = Value(g.shape, g.dtype, name="norm")
    length = replace(made("function", "vector_norm", v, dim=Literal(axes), keepdim=Literal(True)), location=op.location)
    direction = replace(made("operator", "/", v, norm), location=op.location)
    return [Statement([norm], length), Statement(results, made("operator", "*", direction, g))]
