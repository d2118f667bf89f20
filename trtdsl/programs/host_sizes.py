"""Dynamic sizes and loop counts: the scalars of a program, evaluated from the program's own text.

A program with dynamic sizes has a section ``shape_main``, and one for each branch, which compute every size from those
of the inputs with a dozen operations on single numbers; the loops and branches of ``main`` count in the same way, on
the host. This file evaluates both. A value that only the GPU computes (a branch decided by a sum of pixels) stays
unknown.
"""

from __future__ import annotations

import operator
import re
import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.errors import DefinitionError, ProgramDamagedError, UsageError
from ..sizes.size import SizeLike, floor_divide, size_max, size_min
from .grammar import Record, Statement
from .plan import Descriptor, Dimension, ProgramText, plain

Number = int | float | bool

STEPS = 400_000  # steps of the host's own program: a loop of 100,000 turns takes about a third

LITERAL = re.compile(r"(?P<value>\S+?)(?P<type>i64|i32|i16|i8|u64|u32|u8|b|f32|f16|f64)")
FLOATS = {"f16": "<e", "f32": "<f", "f64": "<d"}
BOUNDS = re.compile(r"shape input value at index \d+ is out of bounds \[(-?\d+), (-?\d+)\]")


def _divide(a: Number, b: Number) -> Number:
    """Integers towards zero, as C does."""
    if isinstance(a, float) or isinstance(b, float):
        return a / b
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


PYTHONS = ("add", "sub", "mul", "neg", "abs", "eq", "ne", "gt", "ge", "lt", "le", "xor")
"""Operations that Python's module has by the same name."""
OPERATIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, name) for name in PYTHONS},
    "div": _divide,
    "rem": lambda a, b: a - b * _divide(a, b),
    "max": max,
    "min": min,
    "neq": operator.ne,
    "geq": operator.ge,
    "leq": operator.le,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "not": lambda a: not a,
    "select": lambda condition, a, b: a if condition else b,
    "copy": lambda a: a,
    "move": lambda a: a,
    "cast": lambda a: a,
}
"""What the host computes, by the name of the statement."""


def literal(text: str) -> Number | None:
    """A number as ``memset`` has it, in decimal digits; of a float there are at most six.

    >>> literal("10i64"), literal("1b"), literal("-0.5f32"), literal("1e+10f32")
    (10, True, -0.5, 10000000000.0)
    """
    match = LITERAL.fullmatch(text)
    if match is None:
        return None
    value, kind = match["value"][:20], match["type"]
    if kind in FLOATS:
        try:
            return struct.unpack(FLOATS[kind], struct.pack(FLOATS[kind], float(value)))[0]
        except (ValueError, OverflowError):
            return None
    if not value.lstrip("-").isdigit():
        return None
    return bool(int(value)) if kind == "b" else int(value)


class Scalars:
    """The single numbers of a program by name; a missing name has a value that only the GPU computes."""

    def __init__(self, program: ProgramText, known: Mapping[str, Number]):
        self.values: dict[str, Number] = dict(known)
        self.program = program

    def size(self, dimension: Dimension) -> int | None:
        """The value of a size; None for one that is not known."""
        if isinstance(dimension, int):
            return dimension
        value = self.values.get(dimension)
        return None if value is None else int(value)

    def sizes(self, dimensions: Sequence[Dimension]) -> tuple[int, ...] | None:
        """The values of several sizes; None where one is not known."""
        found = [self.size(dimension) for dimension in dimensions]
        return None if None in found else tuple(size for size in found if size is not None)

    def on_host(self, name: str) -> bool:
        """Whether a tensor is in the host's memory."""
        tensor = self.program.tensors.get(name)
        return tensor is not None and self.program.place(tensor) != "accelerator"

    def evaluate(self, kind: str, record: Record) -> None:
        """Evaluates one statement of the host; its outputs are unknown where they cannot be computed."""
        result: Number | None = None
        if kind == "memset":
            result = literal(record.text("src"))
        elif kind in OPERATIONS:
            operands = [self.values.get(name) for name in record.texts("input")]
            if None not in operands:
                try:
                    result = OPERATIONS[kind](*operands)
                except (ArithmeticError, TypeError):
                    result = None
        for name in record.texts("output"):
            self.values.pop(name, None)
            if result is not None:
                self.values[name] = result


def bind(program: ProgramText, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The values of the names that stand in the shapes of a program's inputs and outputs.

    ``shapes`` are by the names of these. Raises UsageError where they do not fit.
    """
    known: dict[str, int] = {}
    for name, shape in shapes.items():
        tensor = program.tensors.get(name)
        if tensor is None:
            continue
        if not shape and tuple(tensor.dims) == (1,):  # a plan has no tensors without dimensions
            continue
        if len(shape) != len(tensor.dims):
            raise _misfit(tensor, shape)
        for size, own in zip(shape, tensor.dims, strict=True):
            if (known.setdefault(own, size) if isinstance(own, str) else own) != size:
                raise _misfit(tensor, shape)
    _know_sources(program, known)
    return known


def _know_sources(program: ProgramText, known: dict[str, Any]) -> None:
    """Goes back from what is known to the numbers that it is copied from."""
    for kind, record in reversed(program.sizing):
        if kind == "copy" and isinstance(record, Record):
            for target, source in zip(record.texts("output"), record.texts("input"), strict=False):
                if target in known:
                    known.setdefault(source, known[target])


def _misfit(tensor: Descriptor, shape: Sequence[int], values: Mapping[str, Number] | None = None) -> UsageError:
    """The error for a shape that is not the tensor's, whose sizes have these ``values`` where they are known."""
    sizes = ((values or {}).get(size, "?") if isinstance(size, str) else size for size in tensor.dims)
    return UsageError(
        f"the engine's {plain(tensor.name)} has the shape ({', '.join(map(str, sizes))}), not {tuple(shape)}"
    )


SYMBOLIC: dict[str, Callable[..., SizeLike]] = {
    **{name: OPERATIONS[name] for name in ("add", "sub", "mul", "neg", "copy")},
    "div": floor_divide,
    "max": size_max,
    "min": size_min,
}


def name_sizes(
    program: ProgramText, shapes: Mapping[str, Sequence[SizeLike]], handed: Mapping[str, SizeLike]
) -> dict[str, SizeLike]:
    """The sizes of a program in the author's dimensions, as far as they are sums, products and quotients of them."""
    named: dict[str, SizeLike] = dict(handed)
    for name, shape in shapes.items():
        tensor = program.tensors.get(name)
        for size, own in zip(shape, tensor.dims if tensor is not None else (), strict=False):
            if isinstance(own, str):
                named.setdefault(own, size)
    _know_sources(program, named)
    for kind, record in program.sizing:
        if not isinstance(record, Record):
            continue
        number = literal(record.text("src")) if kind == "memset" else None
        operands = [named.get(name) for name in record.texts("input")]
        if kind in SYMBOLIC and None not in operands:
            try:
                number = SYMBOLIC[kind](*operands)
            except (DefinitionError, ArithmeticError, TypeError):
                number = None
        if number is not None and not isinstance(number, (bool, float)):
            for name in record.texts("output"):
                named.setdefault(name, number)
    return named


def evaluate_sizes(program: ProgramText, shapes: Mapping[str, Sequence[int]], handed: Mapping[str, int]) -> Scalars:
    """All sizes of a program for these shapes of its inputs and outputs, and the numbers that it is handed.

    Raises UsageError for shapes that the engine does not take.
    """
    scalars = Scalars(program, bind(program, shapes) | dict(handed))
    for kind, record in program.sizing:
        if not isinstance(record, Record):
            continue
        if kind == "assert":
            condition = (record.texts("input") or [""])[0]
            if scalars.values.get(condition, True) == False:  # noqa: E712 (a number, too)
                match = BOUNDS.search(record.text("msg"))
                within = f": one of them is not within {match[1]} to {match[2]}" if match else ""
                given = [f"{plain(name)} {tuple(shape)}" for name, shape in shapes.items()]
                if match:
                    low, high = int(match[1]), int(match[2])
                    given += [f"{plain(name)} = {value}" for name, value in handed.items() if not low <= value <= high]
                raise UsageError(f"the engine does not take inputs of these shapes, {', '.join(given)}{within}")
        elif kind == "copy":  # into the device's memory and back: the same number
            value = [scalars.values.get(name) for name in record.texts("input")]
            for name, known in zip(record.texts("output"), value, strict=False):
                if known is not None:
                    scalars.values[name] = known
        else:
            scalars.evaluate(kind, record)
    for name, shape in shapes.items():  # an output's shape may contradict what the text computes
        tensor = program.tensors.get(name)
        if tensor is not None and len(shape) == len(tensor.dims):
            found = [scalars.size(size) for size in tensor.dims]
            if any(size not in (None, given) for size, given in zip(found, shape, strict=True)):
                raise _misfit(tensor, shape, scalars.values)
    return scalars


# -- how often each statement runs -------------------------------------------------------------------------------------

COMPARISONS = {name: OPERATIONS[name] for name in ("eq", "ne", "neq", "gt", "ge", "geq", "lt", "le", "leq")}


class Walk:
    """How often each statement of ``main`` runs, by its index: follows the jumps.

    ``weight`` are a statement's bytes, by which an undecided branch is chosen.
    """

    def __init__(self, statements: Sequence[Statement], scalars: Scalars, weight: Callable[[int], int]):
        self.statements, self.scalars, self.weight = statements, scalars, weight
        self.times: Counter[int] = Counter()
        self.uncounted: set[int] = set()
        """In a loop whose number of steps only the GPU knows: counted once."""
        self.chosen: set[int] = set()
        """Branches that only the GPU decides: the one that moves more is counted."""
        self.looped: dict[int, int] = {}
        """The innermost loop that a statement is in, by the index where that loop begins."""
        self.labels, blocks = label_places(statements), blocks_of(statements, scalars)
        position = steps = 0
        runs: Counter[int] = Counter()
        while position < len(statements):
            block = blocks[position]
            steps += 1 + len(block.computed)
            if steps > STEPS:
                raise ProgramDamagedError(f"the plan's program runs for more than {STEPS:,} steps")
            runs[position] += 1
            for kind, record in block.computed:
                scalars.evaluate(kind, record)
            position = block.end if block.jump is None else self._jump(block.end, *block.jump)
        for begin, times in runs.items():
            for index in range(begin, blocks[begin].end + (blocks[begin].jump is not None)):
                self.times[index] += times

    def _jump(self, position: int, kind: str, record: Record) -> int:
        """Where a jump leads."""
        targets = targets_of(kind, record, self.labels)
        back = [target for target in targets if target <= position]
        for target in back:
            for index in range(target, position):
                if target > self.looped.get(index, -1):
                    self.looped[index] = target
        if kind == "jmp":
            return targets[0]
        decided = self._compare(record)
        if decided is not None:
            return targets[0] if decided else targets[1]
        if back:
            self.uncounted.update(range(min(back), position))
            return max(targets)
        self.chosen.add(position)
        return self._heavier(*sorted(targets))

    def _compare(self, record: Record) -> bool | None:
        compare = COMPARISONS.get(record.text("op"))
        operands = [self.scalars.values.get(name) for name in record.texts("input")]
        if compare is None or len(operands) != 2 or None in operands:
            return None
        return bool(compare(*operands))

    def _heavier(self, first: int, second: int) -> int:
        """The branch ahead that moves more bytes: the first ends where the second begins, with a jump past it."""
        end = second
        kind, record = self.statements[second - 1]
        if kind == "jmp" and isinstance(record, Record):
            end = max(second, max((self.labels.get(name, 0) for name in record.texts("target")), default=0))
        moved = [sum(map(self.weight, range(*span))) for span in ((first, second), (second, end))]
        return first if moved[0] >= moved[1] else second


def targets_of(kind: str, record: Record, labels: Mapping[str, int]) -> list[int]:
    """Where a jump may lead."""
    names = record.texts("target")
    if len(names) != (1 if kind == "jmp" else 2) or not labels.keys() >= set(names):
        raise ProgramDamagedError(f"the plan's program has a {kind} that leads nowhere")
    return [labels[name] for name in names]


def label_places(statements: Sequence[Statement]) -> dict[str, int]:
    """Where each label stands; one that jumps alone name stands under another name, where the builder split its block.

    The block after a loop or a branch follows the last jump to it, so it is the block there unless others name that.
    """
    labels = {str(name): index for index, (kind, name) in enumerate(statements) if kind == "label"}
    last: dict[str, int] = {}  # the last jump to a label
    for index, (kind, record) in enumerate(statements):
        if kind in ("jmp", "cjmp") and isinstance(record, Record):
            last.update(dict.fromkeys(record.texts("target"), index))
    for name in last.keys() - labels.keys():
        kind, following = statements[last[name] + 1] if last[name] + 1 < len(statements) else ("", "")
        if kind == "label" and following not in last:
            labels[name] = last[name] + 1
    return labels


@dataclass
class Block:
    """Statements from one up to the next jump or label."""

    end: int
    computed: list[tuple[str, Record]]
    """What the host computes in it."""
    jump: tuple[str, Record] | None


def blocks_of(statements: Sequence[Statement], scalars: Scalars) -> dict[int, Block]:
    """The blocks by where they begin: at the start, at a label, after a jump."""
    blocks: dict[int, Block] = {}
    begin, computed = 0, list[tuple[str, Record]]()
    for index, (kind, record) in enumerate(statements):
        if kind == "label" or not isinstance(record, Record):
            if index > begin:
                blocks[begin] = Block(index, computed, None)
                begin, computed = index, []
        elif kind in ("jmp", "cjmp"):
            blocks[begin] = Block(index, computed, (kind, record))
            begin, computed = index + 1, []
        elif all(scalars.on_host(name) for name in record.texts("output")):
            computed.append((kind, record))
    blocks[begin] = Block(len(statements), computed, None)
    return blocks
