"""Random numbers that forward draws, as inputs of the network: it computes the same each time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...core.errors import UnsupportedError
from ...definition.input import Input
from ...definition.spec.reference import DRAWS, Draw, parameters_of
from ...sizes.dim import TensorDim
from ...sizes.shape import shape_text
from ...sizes.size import INFINITY, Size, SizeLike, of_atom, value
from ..calls import Op, SizeOf, Value, operations, sizes_of
from ..given import Given
from ..tracing.modes import free
from ..tracing.names import RANDOM
from ..tracing.proof.symbols import Symbols, Unknown
from ..tracing.trace import DrawsNumbers, Trace, live_operations
from .attempt import Again, Attempt, Made


def remedy(attempt: Attempt, refusal: UnsupportedError, again: Again[Made]) -> tuple[Made, Attempt]:
    """The attempt that takes what forward draws for itself as inputs.

    Where values say how many it draws, an input has as many as these may be, of which forward takes the first ones.
    Raises the ``refusal`` where what forward draws is no input: a permutation, or of an unknown size.
    """
    assert isinstance(refusal.__cause__, DrawsNumbers)
    given, taken = attempt.given, parameters_of(attempt.module)
    found = None if given.draws else _drawn(refusal.__cause__.trace, given, taken)
    if found is None:
        raise refusal
    draws, inputs, remarks = found
    more = replace(given, inputs={**given.inputs, **inputs}, draws=draws)
    return again(attempt.changed(remarks, given=more))


def _drawn(
    trace: Trace, given: Given, taken: Collection[str]
) -> tuple[tuple[str | None, ...], dict[str, Input], list[str]] | None:
    """The names of what is drawn, in order, the inputs that are that, and remarks; None where one can be none.

    The names are none of the parameters that forward has ``taken``, which it may leave to be drawn.
    """
    live = live_operations(trace)
    draws = [op for op in operations(trace.root) if op.name in RANDOM]
    names: list[str | None] = []
    inputs: dict[str, Input] = {}
    known: dict[Value, Input] = {}
    remarks: list[str] = []
    for op in draws:
        if op not in live:
            names.append(None)
            continue
        drawn = _input(op, trace, given, known)
        if drawn is None:
            return None
        name = free(op.results.name or "noise", {*taken, *given.inputs, *inputs})  # the author's variable
        names.append(name)
        inputs[name] = known[op.results] = drawn
        kind = "normal numbers" if drawn.sample is None else f"uniform numbers of {drawn.sample}"
        remarks.append(f"what forward draws at {op.location} is the input {name} {shape_text(drawn.shape)}, {kind}")
    return tuple(names), inputs, remarks


def _input(op: Op, trace: Trace, given: Given, known: Mapping[Value, Input]) -> Input | None:
    """The input in the place of a draw; None where there is no such draw, or its size is not known."""
    call = DRAWS.get(op.qualified.rpartition(".")[2])
    if call is None or op.results.dtype.is_complex:
        return None
    draw: Draw = call(*op.args, **op.kwargs)
    if isinstance(draw.of, Value):
        sizes: Sequence[Any] = [SizeOf(draw.of, axis, number) for axis, number in enumerate(draw.of.shape)]
    else:
        sizes = draw.of or ()
    numbers = draw.sample is None or all(isinstance(end, (int, float)) for end in draw.sample)
    try:
        symbols = Symbols(trace, given, (), {each.value for each in sizes_of(sizes)}, known)
        shape = tuple(_greatest(symbols.whole(size)) for size in sizes)
    except Unknown:
        return None
    if not numbers or None in shape:
        return None
    return Input(shape, "int64" if draw.whole else "float32", draw.sample)


def _greatest(size: SizeLike | None) -> SizeLike | None:
    """The size where what values say of it is as great as it may be; None where nothing says how great that is."""
    atoms = {str(atom): atom for atom in size.atoms()} if isinstance(size, Size) else {}
    by_values = {name: atom.upper for name, atom in atoms.items() if isinstance(atom, TensorDim)}
    if size is None or INFINITY in by_values.values():
        return None
    return value(size, {**{name: of_atom(atom) for name, atom in atoms.items()}, **by_values}) if by_values else size
