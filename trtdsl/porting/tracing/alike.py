"""Whether traces are one program: the same calls, the same but for shortcuts by values, or with branches on values.

A shortcut, such as ``if mask.any(): x = x.masked_fill(mask, 0)``, leaves out what would do nothing. A module is traced
on the way that has none, and on all others. What the other way knows of the mask, that it has no element or every one,
makes calls of the first give their operand as it is: without these, both are one program. Where that is not so, the
program has a branch on the value, as it has on a size (ways/).
"""

from __future__ import annotations

import hashlib
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from ...core.errors import DefinitionError, Location, TrtdslError, UnsupportedError
from ...core.lazy import torch
from ...sizes.operators import COMPARISONS, SYMBOLS
from ..calls import Op, SizeOf, SizeOp, Value, Weight, apart, leaves, number_of, operations, tensors_in, values_in
from ..given import Fed
from .frames import is_raised
from .guards import DERIVATIVES, MOST, SIDES, Choices
from .names import CONVERSIONS, NEUTRAL, SPREAD, VIEWS
from .scalars import COMPUTED
from .trace import Trace, live_operations, refuse_random, taken_for_granted
from .trace import trace as trace_of
from .ways.beside import united
from .ways.both_sides import compute_both
from .ways.tree import chosen
from .ways.way import Apart, Way, snapshot


class Lines:
    """A trace's calls with values by number, so that two traces can be compared."""

    def __init__(self, found: Trace, operands: Mapping[Any, Any] | None = None):
        """``operands`` are those of calls whose result is their operand, by the result, and sizes that are 0."""
        self.operands = operands or {}
        self.numbers: dict[Value, int] = {}
        self.constants = {path: _digest(constant) for path, constant in found.constants.items()}
        for value in found.inputs.values():
            self._number(value)
        self.ops = list(live_operations(found, self.operands))
        self.lines = [self._line(op) for op in self.ops]
        self.results = self._tree(found.results)
        self.ranks = tuple(len(value.shape) for value in tensors_in(found.results))

    def compare(self, other: Lines, here: str, there: str) -> None:
        """Raises UnsupportedError with the first line that differs."""
        for index, (mine, its) in enumerate(zip(self.lines, other.lines)):
            if mine == its or (DERIVATIVES.get() and self._fits(other, index)):
                continue
            op, its_op = self.ops[index], other.ops[index]
            if (op.qualified, op.path) != (its_op.qualified, its_op.path):
                break
            for does, *trees in (("gets", op.args, its_op.args), ("gives", op.results, its_op.results)):
                count, number = (sum(isinstance(leaf, Value) for leaf in leaves(tree)) for tree in trees)
                if count != number:
                    raise UnsupportedError(
                        f"{op.qualified} {does} {count} tensors at {here} and {number} at {there}, and a network "
                        "has as many at all sizes. Fix that dimension, or compute of a whole tensor what is computed "
                        "of its parts",
                        location=op.location,
                    )
            a, b = next(((a, b) for a, b in zip(_flat(mine), _flat(its)) if a != b), ("?", "?"))
            gets = f"{a} at {here} and {b} at {there}"
            if a in self.constants.values():
                gets = f"a constant that has other numbers at {here} than at {there}"
            raise UnsupportedError(
                f"{op.qualified} gets {gets}: the size became a number on its way (by "
                "int(), a comparison, or outside of torch). Fix that dimension, narrow its range, or compute it from "
                "shapes with + - * // alone",
                location=op.location,
            )
        else:
            if len(self.lines) == len(other.lines) and (self.results, self.ranks) == (other.results, other.ranks):
                for op, its_op in zip(self.ops, other.ops):
                    _mark(op, its_op)
                return
        differs = (place for place, (mine, its) in enumerate(zip(self.lines, other.lines)) if mine != its)
        first = next(differs, min(len(self.lines), len(other.lines)))
        places = [lines.ops[first].location for lines in (self, other) if first < len(lines.ops)]
        raise UnsupportedError(
            f"the module does one thing at {here} and another at {there}: keep the range of that dimension to one of "
            "them, or fix it",
            location=places[0] if places else None,
        )

    def _fits(self, other: Lines, index: int) -> bool:
        """Whether a call of both traces has, by the expressions of this one's, the sizes that the other's has.

        torch's derivatives, written in C++, have sizes as numbers, of which one may be several sizes of a trace.
        """
        op, its_op = self.ops[index], other.ops[index]
        values = {number: value for value, number in other.numbers.items()}

        def number(size: Any) -> Any:
            if isinstance(size, SizeOf) and isinstance(size.value, Weight):
                return size.number
            if isinstance(size, SizeOf):
                return values[self.numbers[size.value]].shape[size.axis]
            return size.function(*map(number, size.operands)) if isinstance(size, SizeOp) else size

        def fits(a: Any, b: Any) -> bool:
            if self._tree(a) == other._tree(b):
                return True
            if isinstance(a, (int, SizeOf, SizeOp)) and isinstance(b, (int, SizeOf, SizeOp)):
                return number(a) == number_of(b)
            mine, its = apart(a), apart(b)
            return mine is not None and its is not None and mine[0] == its[0] and all(map(fits, mine[1], its[1]))

        def shaped(sizes: Any) -> bool:
            """Whether these sizes of an arrangement give the shape that the other's has."""
            sizes = list(sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)) else sizes)
            shape = its_op.results.shape
            return len(sizes) == len(shape) and all(own in (-1, size) for own, size in zip(map(number, sizes), shape))

        if self.lines[index][:2] != other.lines[index][:2] or self.lines[index][3:] != other.lines[index][3:]:
            return False
        if len(op.args) != len(its_op.args) or self._tree(op.args[:1]) != other._tree(its_op.args[:1]):
            return False
        arranged = op.name in ("view", "reshape", "expand") and not op.kwargs
        return fits(op.args[1:], its_op.args[1:]) or (arranged and shaped(op.args[1:]))

    def _number(self, value: Value) -> int:
        return self.numbers.setdefault(value, len(self.numbers))

    def _line(self, op: Op) -> Any:
        return (op.qualified, op.path, *map(self._tree, (op.args, op.kwargs, op.results)))

    def _tree(self, tree: Any) -> Any:
        while isinstance(tree, (Value, SizeOp)) and tree in self.operands:
            tree = self.operands[tree]
        node = apart(tree)
        if node is not None:
            return (node[0], *map(self._tree, node[1]))
        if isinstance(tree, Weight):
            return self.constants.get(tree.path) or f"weight {tree.path}"  # one that is no other's, whatever its name
        return ("tensor", self._number(tree)) if isinstance(tree, Value) else repr(tree)


def _digest(constant: torch.Tensor) -> str:
    """A text that differs where a constant's numbers, its shape or its dtype do."""
    numbers = hashlib.sha256(constant.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return f"{constant.dtype} {tuple(constant.shape)} {numbers.hexdigest()}"


def _mark(op: Op, other: Op) -> None:
    """Notes which sizes depend on those of the inputs."""
    for mine, its in zip(leaves((op.args, op.kwargs)), leaves((other.args, other.kwargs))):
        _varies(mine, its)


def _varies(mine: Any, its: Any) -> bool:
    """Notes, and gives, whether a size is another in the other trace, which may have a number in its place.

    It varies where a part of it does: ``-h % 32`` may have one number at all sizes that are traced.
    """
    if not isinstance(mine, SizeOp):
        return isinstance(mine, SizeOf) and mine.number != number_of(its)
    parts = [_varies(*each) for each in zip(mine.operands, its.operands)] if isinstance(its, SizeOp) else [True]
    mine.varies = mine.varies or mine.number != number_of(its) or any(parts)
    return mine.varies


def _flat(tree: Any) -> Any:
    if isinstance(tree, tuple):
        for item in tree:
            yield from _flat(item)
    else:
        yield tree


# -- shortcuts ---------------------------------------------------------------------------------------------------------

EITHER = {"add", "mul", "bitwise_and", "bitwise_or", "bitwise_xor"}  # whose operands may be swapped
EXACT = 256  # up to which integers are exact in every dtype


def trace(module: torch.nn.Module, inputs: Fed, count: int = 3) -> Trace:
    """The trace of a module, without shortcuts where a value decides whether forward takes one.

    Raises what :func:`trtdsl.porting.tracing.trace.trace` does, also where a way with shortcuts is another program.
    """
    from torch._subclasses.fake_tensor import DataDependentOutputException

    try:
        return trace_of(module, inputs, count)
    except UnsupportedError as error:
        if not isinstance(error.__cause__, DataDependentOutputException):
            raise
        run = partial(trace_of, module, inputs, count)
        try:
            return _of_all_ways(run)
        except Apart as apart:
            error.context += [f"no td.cond is written: {apart}"] if str(apart) else []
        except UnsupportedError as further:
            if further.location != error.location:
                further.context.append(f"{error.location} asks for values, too: both ways are followed")
                raise  # this stays refused on its way
        except TrtdslError as failure:
            error.context.append(f"on one of its ways: {failure}")
        raise


EXTREMA = {"max", "min", "amax", "amin", "aminmax"}


def _of_all_ways(run: Callable[[Choices], Trace]) -> Trace:
    """The program of the ways that forward goes by values, but for those on which it raises an error.

    Raises Apart where there is none.
    """
    ways: list[Trace] = []
    raised: list[DefinitionError] = []
    waiting: list[Sequence[bool]] = [()]
    equal: list[Location] = []  # where forward asks whether tensors are equal, and they are taken for different ones
    while waiting:
        choices = Choices(waiting.pop(0))
        try:
            ways.append(run(choices))
        except UnsupportedError as error:
            if len(choices.made) < MOST:
                raise
            raise Apart(
                f"forward asks more than {MOST} times. A loop that runs until values say so is td.while_loop, or "
                "as many rounds as it may have, with torch.where(goes_on, new, old)"
            ) from error
        except DefinitionError as error:
            if not is_raised(error.__cause__) or not choices.made:
                raise
            raised.append(error)
        waiting += choices.further(_says_equal if equal else lambda truth: False)
        if len(ways) + len(waiting) > MOST:
            places = {each.guard.location: None for each in choices.made if _says_equal(each.guard.left)}
            if equal or not places:
                raise Apart(f"values choose between more than {MOST} ways")
            equal, ways, raised, waiting = [*places], [], [], [()]
    if not ways:
        raise raised[0]
    found, *others = ways
    try:
        for other in others:
            _check_same(found, other)
        found.besides = others
    except UnsupportedError:
        found = _united(ways)
    found.remarks += [taken_for_granted(place) for place in dict.fromkeys(error.location for error in raised)]
    found.remarks += [
        f"{place} asks whether two tensors are equal, element by element: the network is for those that are not"
        for place in equal
    ]
    return found


def _says_equal(truth: Value) -> bool:
    """Whether a truth is that of ``torch.equal``, of two tensors that are computed."""
    every = truth.producer
    alike = every.args[0].producer if every is not None and every.name == "all" else None
    return alike is not None and alike.name == "eq" and len([*values_in(alike.args)]) > 1


def _united(ways: Sequence[Trace]) -> Trace:
    """The program of all ways, with branches. Raises Apart where there is none."""
    ways = _parting_last(ways)
    paths = [Way(each, dict.fromkeys((*each.guards, *(choice.guard for choice in each.choices)))) for each in ways]
    unite(paths, {way: Lines(way.trace) for way in paths})
    found, choices = ways[0], {choice.guard for each in ways for choice in each.choices}
    asked = (pair for way in paths for pair in zip(way.asked, way.guards, strict=True))
    found.guards = [guard for own, guard in asked if own not in choices]
    if (sides := SIDES.get()) is not None:
        sides.met = True
        if sides.both:
            compute_both(found, 0)
    refuse_random(found)
    places = (each.guard.location for way in ways for each in way.choices if _is_of_an_extremum(each.guard.left))
    found.remarks += [
        f"{place} asks for a greatest or least value, which TensorRT takes of the numbers beside NaN: "
        "where there is NaN, the network may go another way"
        for place in dict.fromkeys(places)
    ]
    return found


def _is_of_an_extremum(truth: Value) -> bool:
    """Whether a truth compares the greatest or least of fractions."""
    near = [truth, *values_in(truth.producer.args if truth.producer is not None else ())]
    extrema = (op for value in near if (op := value.producer) is not None and op.name in EXTREMA)
    return any(value.dtype.is_floating_point for op in extrema for value in values_in(op.args))


def _parting_last(ways: Sequence[Trace], place: int = 0) -> list[Trace]:
    """The ways so that each parts from all before it by one choice: those that choose most in the end are first."""
    if len(ways) < 2 or place == MOST:
        return list(ways)
    sides: tuple[list[Trace], list[Trace]] = [], []
    for each in ways:
        sides[place < len(each.choices) and each.choices[place].taken].append(each)
    return [each for side in sorted(sides, key=len, reverse=True) for each in _parting_last(side, place + 1)]


def unite(paths: Sequence[Way], lines: Mapping[Way, Lines]) -> None:
    """Makes the first trace the program of all, whose calls are these ``lines``. Raises Apart where there is none."""
    undo, why = snapshot(paths), ""
    for made in (united, partial(united, whole=True), chosen):
        try:
            for program, way in made(paths):
                Lines(program).compare(lines[way], "one way", "another")
            break
        except (Apart, UnsupportedError) as error:
            why = str(error) if isinstance(error, Apart) else why
            undo()
    else:
        raise Apart(why)
    first = paths[0].trace
    first.branches = True
    for way in paths[1:]:
        first.remarks += [each for each in way.trace.remarks if each not in first.remarks]


def _check_same(found: Trace, other: Trace) -> None:
    """Raises UnsupportedError where the traces are two programs, besides what shortcuts of the other leave out.

    The masks that it knows of must be the same, too.
    """
    pairs = ((a, b) for a, b in zip(found.choices, other.choices) if a.guard.location == b.guard.location)
    masks = [(a.mask, b.mask, b.number) for a, b in pairs if b.taken]
    mine = {own: number for own, _, number in masks if own is not None}
    known = {its: number for _, its, number in masks if its is not None}
    own, others = (
        Lines(replace(each, results=[each.results, *numbers]), idle(each, numbers))
        for each, numbers in ((found, mine), (other, known))
    )
    own.compare(others, "some values", "others")


MADE = {f"{prefix}{name}{suffix}": number for name, number in (("zeros", 0), ("ones", 1))
        for prefix, suffix in (("", ""), ("", "_like"), ("new_", ""))}  # fmt: skip
FUNCTIONS = COMPUTED | {name: COMPARISONS[symbol] for name, symbol in SYMBOLS.items() if symbol in COMPARISONS}
FUNCTIONS |= {"logical_not": operator.not_, "bitwise_not": operator.not_}


def idle(found: Trace, masks: Mapping[Value, int]) -> dict[Value, Value]:
    """The operand that is the result of a call, by the result, where all elements of these masks are these numbers."""
    numbers: dict[Value, Any] = dict(masks)
    instead: dict[Value, Value] = {}
    for op in operations(found.root):
        number = _number(op, numbers)
        if number is not None:
            numbers.update(dict.fromkeys(op.made, number))
        operand, result = _kept(op, numbers, instead), op.results
        if operand is not None and (operand.shape, operand.dtype) == (result.shape, result.dtype):
            instead[result] = instead.get(operand, operand)
            if operand in numbers:
                numbers[result] = numbers[operand]
    return instead


def _number(op: Op, numbers: Mapping[Value, Any]) -> Any:
    """What every element of a call's result is; None where that is not known, or is no small integer."""
    if op.name in MADE:
        return MADE[op.name]
    if not op.args or not isinstance(op.args[0], Value):
        return None
    first = numbers.get(op.args[0])
    if op.name in SPREAD or op.name in CONVERSIONS:
        return first if first is None or op.name in SPREAD or op.results.dtype != torch.bool else bool(first)
    operands: list[Any] = [numbers.get(each) if isinstance(each, Value) else each for each in op.args]
    if op.kwargs or op.name not in FUNCTIONS or (op.name == "bitwise_not" and op.results.dtype != torch.bool):
        return None
    if not all(isinstance(each, (bool, int, float)) and math.isfinite(each) for each in operands):
        return None
    with suppress(ArithmeticError, TypeError, ValueError):
        number, whole = FUNCTIONS[op.name](*operands), all(each == int(each) for each in operands)
        held = torch.tensor(number).to(op.results.dtype).item()  # another, as 2 in bool, or 200 in int8
        return number if number == int(held) and abs(number) <= EXACT and (whole or not number) else None
    return None


def _kept(op: Op, numbers: Mapping[Value, Any], instead: Mapping[Value, Value]) -> Value | None:
    """The operand that a call gives as it is; None for a call that computes something."""
    if not isinstance(op.results, Value) or op.kwargs or len(op.args) < 2:
        return None
    if op.name in VIEWS:  # back from another shape
        before = instead.get(op.args[0], op.args[0]).producer
        return before.args[0] if before is not None and before.name in VIEWS else None
    known = [numbers.get(each) if isinstance(each, Value) else None for each in op.args]
    place: int | None = None
    if op.name in ("masked_fill", "masked_where", "setitem"):
        place = 0 if known[1] == 0 and op.args[1].dtype == torch.bool else None
    elif op.name == "where" and len(op.args) == 3:
        place = None if known[0] is None else 1 if known[0] else 2
    elif op.name in NEUTRAL and (op.name != "bitwise_and" or op.results.dtype == torch.bool):
        places = (0, 1) if op.name in EITHER else (0,)
        place = next((place for place in places if known[1 - place] == NEUTRAL[op.name]), None)
    kept = None if place is None else op.args[place]
    return kept if isinstance(kept, Value) else None
