"""Makes a Program of the text of a plan, at given shapes of the network's inputs."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from ..core.caller import to_write
from ..core.errors import ProgramDamagedError, ProgramFaultError, UsageError
from ..sizes.dim import Dim
from ..sizes.shape import linear
from ..sizes.size import SizeLike
from .grammar import Record
from .graph import Launch, Operand, ProgramTensor
from .host_sizes import Scalars, Walk, blocks_of, evaluate_sizes, label_places, name_sizes
from .launches import (
    PRODUCTS,
    QUIET,
    Shape,
    each_once,
    epilogue_of,
    flops_of,
    kind_of,
    places_of,
    shape_of,
)
from .plan import BITS, DTYPES, SHAPE_INPUT, Descriptor, ProgramText, plain
from .program import ALIGNMENT, Program
from .touching import most_touched, variant_of

T = TypeVar("T")
WRITES = 1  # which of the two that a launch touches
UNCONVERTED = re.compile(r"__myln_vtype_packed<[^;>]*> __v\d+ = __v\d+\[")
PLACES = {"accelerator": "device", "host": "host", "hostpinned": "host"}


@dataclasses.dataclass(frozen=True)
class Given:
    """The shapes and sizes at which a program is read."""

    shapes: Mapping[str, Sequence[int]]
    """Of the network's inputs."""
    dims: Mapping[str, int] = dataclasses.field(default_factory=dict)
    named: Mapping[str, Sequence[SizeLike]] = dataclasses.field(default_factory=dict)
    """The inputs' shapes in the author's dimensions."""
    handed: Mapping[str, SizeLike] = dataclasses.field(default_factory=dict)
    """The numbers that TensorRT hands the program beside its inputs: sizes, and what loops count by."""

    @functools.cached_property
    def env(self) -> dict[str, int]:
        """The sizes of the dimensions, as the inputs' shapes have them."""
        sizes = dict(self.dims)
        for name, shape in self.named.items():
            for size, length in zip(shape, self.shapes.get(name, ()), strict=False):
                for dim in () if isinstance(size, int) else size.atoms():
                    solution = linear(size, dim)
                    if isinstance(dim, Dim) and solution is not None:
                        sizes[dim.name] = (length - solution[1]) // solution[0]
        return sizes


def make_program(
    texts: Sequence[ProgramText],
    given: Given,
    *,
    network: str = "",
    backend: str = "",
    others: Sequence[ProgramText] = (),
) -> Program:
    """The program of one profile's texts; ``others`` are those of the engine's other profiles.

    Raises UsageError for shapes that the engine does not take, or that are missing.
    """
    readers = [_Reader(text, given) for text in texts]
    launches: list[Launch] = []
    for reader in readers:
        launches += reader.launches(len(launches))
    tensors = {name: tensor for reader in readers for name, tensor in reader.tensors.items()}
    live = _live_ranges(launches, tensors)
    shared = {each.offset for text in others for each in text.tensors.values() if each.constant}
    return Program(
        network,
        backend,
        "plan",
        given.env,
        {name: shape for reader in readers for name, shape in reader.inputs(given.shapes).items()},
        tuple(name for text in texts for name in map(plain, text.names("outputs"))),
        tuple(launches),
        {name: dataclasses.replace(tensor, live=live.get(name)) for name, tensor in tensors.items()},
        tuple(region for text in texts for region in text.regions.values()),
        _memory(texts, given),
        any(text.header.get("tf32") == "1" for text in texts),
        notes=tuple(dict.fromkeys(note for reader in readers for note in reader.notes)),
        unshared=tuple(n for n, each in tensors.items() if others and each.constant and each.offset not in shared),
    )


def sizes_at(text: ProgramText, given: Given) -> Scalars:
    """All sizes of a text at what is given; raises UsageError for shapes that the engine does not take."""
    inputs = {name: plain(name) for name in text.names("inputs")}
    outputs = {name: plain(name) for name in text.names("outputs")}
    handed = _of(inputs, given.handed)
    known = {name: size if isinstance(size, int) else size.value(given.env) for name, size in handed.items()}
    return evaluate_sizes(text, _of(inputs | outputs, given.shapes), known)


def _memory(texts: Sequence[ProgramText], given: Given) -> int:
    """The activation memory that the builder logs.

    The regions together, rounded up, and as much again for each number that TensorRT hands the program on the device.
    """
    total = 0
    for text in texts:
        size = sum(each.bytes for each in text.regions.values() if each.activation and each.place == "accelerator")
        inputs = [name for name in text.names("inputs") if name in text.tensors and plain(name) not in given.shapes]
        handed = [name for name in inputs if text.place(text.tensors[name]) == "accelerator"] if given.shapes else []
        total += -(-size // ALIGNMENT) * ALIGNMENT + ALIGNMENT * len(handed)
    return total


def _live_ranges(launches: Sequence[Launch], tensors: Mapping[str, ProgramTensor]) -> dict[str, tuple[int, int]]:
    """The first and the last launch that use each tensor; a use of a view is a use of its base."""
    live: dict[str, tuple[int, int]] = {}
    loops: dict[int, tuple[int, int]] = {}
    for launch in launches:
        for operand in (*launch.reads, *launch.writes):
            name: str | None = operand.tensor
            while name is not None:
                live[name] = (live.get(name, (launch.index,))[0], launch.index)
                name = tensors[name].view_of if name in tensors else None
        if launch.loop is not None:
            loops[launch.loop] = (launch.loop, launch.index)
    for low, high in loops.values():  # a tensor that also exists outside of a loop is kept for all steps
        for name, (first, last) in live.items():
            if first <= high and last >= low and (first < low or last > high):
                live[name] = (min(first, low), max(last, high))
    return live


class _Reader:
    """Makes the launches of one text."""

    def __init__(self, text: ProgramText, given: Given):
        self.text = text
        inputs = {name: plain(name) for name in text.names("inputs")}
        self.scalars = sizes_at(text, given)
        self.named = name_sizes(text, _of(inputs, given.named), _of(inputs, given.handed))
        self.tensors: dict[str, ProgramTensor] = {}
        self.notes: list[str] = []
        self._copy_values()

    def inputs(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, tuple[int, ...]]:
        """The shapes of the network's inputs; without ``shapes``, of all inputs of the program on the device."""
        found = {}
        for name in filter(self._on_device, self.text.names("inputs")):
            sizes = self.scalars.sizes(self.text.tensors[name].dims)
            if sizes is not None and (not shapes or plain(name) in shapes):
                found[plain(name)] = sizes
        return found

    def _copy_values(self) -> None:
        """A given number is copied to the host before it is compared, and may be cast in between."""
        for kind, record in self.text.statements:
            if not isinstance(record, Record):
                continue
            if kind == "copy" or record.text("name") in ("__myl_Cast", "__myl_Move"):
                sources, targets = _inputs(record), _outputs(record)
                if len(sources) == len(targets) == 1 and sources[0] in self.scalars.values:
                    self.scalars.values[targets[0]] = self.scalars.values[sources[0]]

    def launches(self, start: int) -> list[Launch]:
        """The launches that run, numbered from ``start``."""
        statements = self.text.statements
        self.operands = [self._operands_of(kind, record) for kind, record in statements]
        walked = Walk(statements, self.scalars, self._weight)
        made: list[Launch] = []
        loops: dict[int, int] = {}
        for index in sorted(walked.times):
            kind, record = statements[index]
            if not isinstance(record, Record) or not self._is_launch(kind, record):
                continue
            number = start + len(made)
            loop = walked.looped.get(index)
            first = None if loop is None else loops.setdefault(loop, number)
            made.append(self._launch(number, kind, record, self.operands[index], walked.times[index], first))
        self._tell(walked)
        self._check_order()
        self._check_kernels()
        return made

    def _check_kernels(self) -> None:
        """Raises ProgramFaultError for a kernel that takes bytes of weights in 4 bits for what unpacks them: no
        compiler does.
        """
        wrong = {
            name
            for name, source in self.text.sources().items()
            if UNCONVERTED.search(source) and UNCONVERTED.search(variant_of(source, name) or "")
        }
        for index, (_, record) in enumerate(self.text.statements):
            if isinstance(record, Record) and wrong.intersection(
                (record.text("fqn"), *(each.text("function") for each in record.records("cond_fqn")))
            ):
                raise ProgramFaultError(
                    f"{self._told(index)} reads a weight in 4 bits by a kernel that no compiler takes: TensorRT "
                    "writes such where each row has one scale. Give a row two (docs/traps/builder-int4.md)"
                )

    def _check_order(self) -> None:
        """Raises ProgramDamagedError where a launch reads memory that is never written, or an output is not written;
        ProgramFaultError where a launch is to write it, and its kernel's source does not, or another branch alone does.
        """
        statements, labels = self.text.statements, label_places(self.text.statements)
        blocks = blocks_of(statements, self.scalars)
        given = {name for name, tensor in self.tensors.items() if tensor.constant or tensor.view_of is not None}
        there = {0: given | set(self.text.names("inputs"))}  # what was written on some way to a block
        writes: list[set[str]] = []
        lost: dict[str, int] = {}
        for index, (_, operands) in enumerate(self.operands):
            whole = {each for each in operands if each.bytes or not self.tensors[each.tensor].bytes}
            writes.append({self.text.root(each.tensor).name for each in whole})
            lost.update((self.text.root(each.tensor).name, index) for each in operands if each not in whole)
        waiting = [0]
        while waiting:
            begin = waiting.pop()
            block = blocks[begin]
            made = there[begin].union(*writes[begin : block.end])
            follow = [block.end] if block.jump is None else [labels.get(to, -1) for to in block.jump[1].texts("target")]
            for place in follow:
                if place in blocks and not made <= there.get(place, set()):
                    there[place] = there.get(place, set()) | made
                    waiting.append(place)
        for begin, made in there.items():
            for index in range(begin, blocks[begin].end):
                for root in (self.text.root(each.tensor).name for each in self.operands[index][0]):
                    if root not in made:
                        self._refuse(root, index, lost, writes)
                made = made | writes[index]
        written = set[str]().union(*writes)
        for name in self.text.names("outputs"):
            if name in lost and name not in written:
                raise ProgramFaultError(f"the output {plain(name)} is not written: it is what {self._lost(lost[name])}")
            if name not in given and name not in written and self._on_device(name):
                raise ProgramDamagedError(f"the plan's program never writes its output {name[:40]!r}")

    def _refuse(self, root: str, index: int, lost: Mapping[str, int], writes: Sequence[set[str]]) -> NoReturn:
        """The error for a statement that reads what no way to it has written."""
        elsewhere = next((place for place, names in enumerate(writes) if root in names), None)
        if root in lost:
            raise ProgramFaultError(f"{self._told(index)} reads {plain(root)}, {self._lost(lost[root])}")
        if elsewhere is not None:
            raise ProgramFaultError(
                f"{self._told(index)} reads what {self._told(elsewhere)} writes in another branch alone: TensorRT "
                "shares a step of the branches and makes it in one. Use F.maximum(x, x) of the value x that both use: "
                "before the branch where x is an input, in the function that makes the step where it is none "
                "(docs/traps/builder-conditionals.md)"
            )
        raise ProgramDamagedError(f"the plan's program reads {root[:40]!r}, which nothing has written")

    def _told(self, index: int) -> str:
        record = self.text.statements[index][1]
        name = record.text("name").removeprefix("__myl_") if isinstance(record, Record) else ""
        return f"{plain(name)} ({', '.join(self._lines(index)) or 'no line'})"

    def _lost(self, index: int) -> str:
        """Why nothing wrote what a launch is to write, and what helps."""
        return (
            f"which {self._told(index)} computes and never writes: TensorRT loses one of the results of its kernel. "
            "Where a value y of these lines is used by a product or a convolution, give it F.maximum(y, y) "
            "(docs/traps/builder-outputs.md)"
        )

    def _tell(self, walked: Walk) -> None:
        """Notes the loops and branches that only the GPU decides, each once."""
        loops: dict[int, dict[str, None]] = {}
        for index in sorted(walked.uncounted):
            loops.setdefault(walked.looped.get(index, index), {}).update(dict.fromkeys(self._lines(index)))
        for lines in loops.values():
            where = f" ({', '.join(lines)})" if lines else ""
            self.notes.append(f"a loop runs as often as values on the GPU decide: one step of it is counted{where}")
        for index in sorted(walked.chosen):
            where = f" ({', '.join(self._lines(index))})" if self._lines(index) else ""
            self.notes.append(
                f"values on the GPU decide which of two branches runs: the one that moves more is counted{where}"
            )

    def _lines(self, index: int) -> tuple[str, ...]:
        record = self.text.statements[index][1]
        return each_once(places_of(record.text("layers")), "line") if isinstance(record, Record) else ()

    def _is_launch(self, kind: str, record: Record) -> bool:
        """Whether a statement launches work on the GPU: it writes the device's memory, or copies from it."""
        if kind in QUIET:
            return False
        names = _outputs(record) + (_inputs(record) if kind == "copy" else [])
        return any(self._on_device(name) for name in names)

    def _on_device(self, name: str) -> bool:
        if name not in self.text.tensors:
            raise ProgramDamagedError(f"the plan's program names a tensor {name[:40]!r}, which is not there")
        return not self.scalars.on_host(name)

    def _weight(self, index: int) -> int:
        return sum(operand.bytes for group in self.operands[index] for operand in group)

    def _launch(
        self,
        number: int,
        kind: str,
        record: Record,
        operands: tuple[tuple[Operand, ...], tuple[Operand, ...]],
        times: int,
        loop: int | None,
    ) -> Launch:
        reads, writes = operands
        shapes: list[list[Shape]] = [[], []]
        for found, names in zip(shapes, (_inputs(record), _outputs(record)), strict=True):
            known = (shape_of(name, self.text, self.scalars) for name in names if self._on_device(name))
            found += [shape for shape in known if shape is not None]
        places = places_of(record.text("layers"))
        first = next((self.tensors[operand.tensor].dtype for operand in (*reads, *writes)), "")
        what, body = kind_of(kind, record), self._body(kind, record)
        steps = [(step, inside) for step, inside in body.statements if isinstance(inside, Record)]
        inner = (body.tensors.get(name) for step, inside in steps if step in PRODUCTS for name in _inputs(inside))
        computed = next((DTYPES.get(each.dtype, each.dtype) for each in inner if each is not None), first)
        return Launch(
            number,
            what,
            record.text("name").removeprefix("__myl_"),
            reads,
            writes,
            times,
            flops_of(kind, record, self.text, self.scalars, *shapes),
            computed,
            _numbers(record, "grid"),
            _numbers(record, "block"),
            record.number("stream"),
            each_once(places, "line"),
            each_once(places, "scope"),
            epilogue_of(kind, record) if what in ("product", "convolution") else (),
            tuple(step for step, _ in steps),
            loop,
            places,
        )

    def _body(self, kind: str, record: Record) -> ProgramText:
        number = record.number("binary", -1) if kind == "runtime_fusion" else -1
        return self.text.bodies[number] if 0 <= number < len(self.text.bodies) else ProgramText({})

    def _operands_of(self, kind: str, record: Record | str) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
        """The tensors that a statement reads and writes on the device, each once.

        Constants of one element, such as a product's alpha, travel with the launch and are not counted.
        """
        if not isinstance(record, Record) or not self._is_launch(kind, record):
            return (), ()
        touched = self._touched(kind, record)
        reads, writes = (
            [
                Operand(tensor.name, int(min(tensor.bytes, most * BITS[self.text.tensors[tensor.name].dtype] / 8)))
                for tensor, names in self._tensors(names)
                if (most := sum(touched.get(name, (math.inf, math.inf))[which] for name in names))
                or which == WRITES
                or not tensor.bytes
            ]
            for which, names in enumerate((_inputs(record), _outputs(record)))
        )
        factors = {each.name for each in self.tensors.values() if each.constant and math.prod(each.shape) == 1}
        return tuple(each for each in reads if each.tensor not in factors), tuple(writes)

    def _touched(self, kind: str, record: Record) -> dict[str, tuple[float, float]]:
        """The most elements that a generated kernel reads and writes of each operand."""
        name = record.text("fqn")
        source = self.text.sources().get(name, "") if kind in ("function", "runtime_function") else ""
        return most_touched(source, name, record.texts("args"), self.scalars.values) if source else {}

    def _tensors(self, names: Iterable[str]) -> list[tuple[ProgramTensor, list[str]]]:
        """The device's tensors of these names, each once with its names; equal views of one tensor count as one."""
        found: dict[tuple[Any, ...], tuple[ProgramTensor, list[str]]] = {}
        for name in dict.fromkeys(names):
            if self._on_device(name):
                tensor = self._tensor(name)
                place = (tensor.view_of, tensor.offset, tensor.shape, tensor.order) if tensor.view_of else (name,)
                found.setdefault(place, (tensor, []))[1].append(name)
        return list(found.values())

    def _tensor(self, name: str) -> ProgramTensor:
        if name in self.tensors:
            return self.tensors[name]
        descriptor = self.text.tensors[name]
        shape = self.scalars.sizes(descriptor.dims)
        if shape is None:
            raise UsageError(_missing(self.text, self.scalars, descriptor))
        strides = [self.scalars.size(stride) for stride in descriptor.strides]
        self._check_place(descriptor, shape, strides)
        distinct = math.prod(size for size, stride in zip(shape, strides, strict=True) if stride != 0)
        made = ProgramTensor(
            name,
            shape,
            tuple(str(self.named.get(str(own), size)) for own, size in zip(descriptor.dims, shape, strict=True)),
            DTYPES.get(descriptor.dtype, descriptor.dtype),
            _order(strides),
            (distinct * BITS[descriptor.dtype] + 7) // 8,
            PLACES[self.text.place(descriptor)] if descriptor.region or descriptor.base else "caller",
            descriptor.region,
            descriptor.offset,
            descriptor.base,
            descriptor.constant,
            descriptor.scratch,
        )
        self.tensors[name] = made
        if descriptor.base is not None and self._tensor(descriptor.base).bytes < made.bytes:
            raise ProgramDamagedError(f"the plan's program has a view {name[:40]!r} larger than what it is of")
        return made

    def _check_place(self, descriptor: Descriptor, shape: Sequence[int], strides: Sequence[int | None]) -> None:
        """Raises ProgramDamagedError for a tensor with gaps, or one that its region does not hold."""
        extent = _extent(shape, strides)
        if descriptor.base is not None or extent is None:
            return
        region = self.text.regions.get(descriptor.region)
        size = (extent * BITS[descriptor.dtype] + 7) // 8
        within = region is None or region.constant or not region.activation or descriptor.offset + size <= region.bytes
        if extent != math.prod(shape) or not within:
            raise ProgramDamagedError(f"the plan's program has a tensor {descriptor.name[:40]!r} that is not laid out")


def _extent(shape: Sequence[int], strides: Sequence[int | None]) -> int | None:
    """Elements from the first to the last in memory; None where a stride is not known."""
    if 0 in shape:
        return 0
    if None in strides:
        return None
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True) if stride is not None)


def _of(inputs: Mapping[str, str], given: Mapping[str, T]) -> dict[str, T]:
    """The given values of the network's inputs, by the names that the program has for them."""
    return {name: given[own] for name, own in inputs.items() if own in given}


def _inputs(record: Record) -> list[str]:
    return record.texts("input_args") + record.texts("input")


def _outputs(record: Record) -> list[str]:
    return record.texts("output_args") + record.texts("output")


def _numbers(record: Record, key: str) -> tuple[int, ...]:
    return tuple(int(text) for text in record.texts(key) if text.isdigit() and len(text) < 20)


def _order(strides: Sequence[int | None]) -> tuple[int, ...]:
    """The axes from the greatest stride to the smallest; axes of one stride keep their place."""
    known = [0 if stride is None else abs(stride) for stride in strides]
    return tuple(sorted(range(len(known)), key=lambda axis: (-known[axis], axis)))


def _missing(text: ProgramText, scalars: Scalars, tensor: Descriptor) -> str:
    unknown = [
        plain(name)
        for name in text.names("inputs")
        if name in text.tensors and scalars.sizes(text.tensors[name].dims) is None
    ]
    if unknown:
        return f"the shapes of the inputs {', '.join(dict.fromkeys(unknown))} are needed: they have dynamic dimensions"
    return _not_handed(text, scalars, tensor) or (
        f"the size of {plain(tensor.name)!r} depends on values that only the GPU knows"
    )


def _not_handed(text: ProgramText, scalars: Scalars, tensor: Descriptor) -> str:
    """What a text lacks for a tensor's sizes that TensorRT hands it; empty where it lacks nothing."""
    needed = {size for size in tensor.dims if isinstance(size, str) and size not in scalars.values}
    for _, record in reversed(text.sizing):
        if isinstance(record, Record) and not needed.isdisjoint(_outputs(record)):
            needed |= {name for name in _inputs(record) if name not in scalars.values}
    names = [plain(name) for name in text.names("inputs") if name in needed]
    if not names:
        return ""
    layers = dict.fromkeys(match["layer"] for name in names if (match := SHAPE_INPUT.fullmatch(name)))
    written = [
        place.line
        for _, record in text.statements
        if isinstance(record, Record) and tensor.name in _outputs(record)
        for place in places_of(record.text("layers"))
    ]
    output = next(map(plain, text.names("outputs")), "y")
    of = f" for {'the layer' if len(layers) == 1 else 'the layers'} {', '.join(map(repr, layers))}" if layers else ""
    where = f" (of {', '.join(dict.fromkeys(written))})" if written else ""
    return (
        f"the size of {plain(tensor.name)!r}{where} needs numbers that TensorRT computes{of} outside of the program's "
        f"text: {', '.join(names)}. Give the shape of an output that has them"
        + to_write(f", as shapes={{{output!r}: (…)}}, or their values, as values={{{names[0]!r}: …}}", " with --shape")
    )
