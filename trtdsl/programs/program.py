"""What an engine runs on the GPU: its launches in order, the tensors that they read and write, the memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ..core.errors import UsageError
from .grammar import Record
from .launches import PICKING, QUIET, TRUNCATED, Kind, epilogue_of, flops_of, kind_of, parts, places_of, shape_of
from .plan import BITS, DTYPES, Descriptor, ProgramText
from .sizes import Scalars, evaluate_sizes, walk

By = Literal["line", "module", "kind", "launch"]
SCHEMA = 1


@dataclass(frozen=True)
class ProgramTensor:
    """A tensor of a program."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    order: tuple[int, ...]
    """The axes from the slowest to the fastest in memory: ``(0, 2, 3, 1)`` is channels last."""
    bytes: int
    place: str
    """``device``, ``host``, or ``caller`` for the network's inputs and outputs."""
    region: str
    offset: int
    view_of: str | None
    constant: bool
    scratch: bool
    live: tuple[int, int] | None = None
    """The first and the last launch that use it, by their indexes; None where none does."""


@dataclass(frozen=True)
class Operand:
    """A tensor that a launch reads or writes, and how many bytes of it."""

    tensor: str
    bytes: int


@dataclass(frozen=True)
class Launch:
    """One thing that the GPU is told to do."""

    index: int
    kind: Kind
    name: str
    """A generated kernel's name says what it fuses (``MulAddRelu``); another's is its layer's."""
    reads: tuple[Operand, ...]
    writes: tuple[Operand, ...]
    times: int
    """How often it runs: more than once in a loop."""
    flops: int | None
    """Of one run; None where the program does not tell."""
    dtype: str
    """Of what it computes with: that of its first operand."""
    grid: tuple[int, ...]
    block: tuple[int, ...]
    stream: int
    lines: tuple[str, ...]
    """The author's lines, ``folder/file.py:12``."""
    scopes: tuple[str, ...]
    """The scopes of the layers that it is made of."""
    epilogue: tuple[str, ...] = ()
    """What a product or a convolution does to its result before it writes it."""
    body: tuple[str, ...] = ()
    """The steps of a fusion that is compiled where it runs."""
    loop: int | None = None
    """The index of the first launch of the loop that it is in."""

    @property
    def bytes(self) -> int:
        """Read and written by one run."""
        return sum(operand.bytes for operand in (*self.reads, *self.writes))

    @property
    def rearranges(self) -> bool:
        """Whether it only moves values: a transpose, a copy, a concatenation."""
        return self.kind in ("rearranging", "transfer")


@dataclass(frozen=True)
class Region:
    """A piece of memory that the engine asks for."""

    name: str
    bytes: int
    place: str
    constant: bool
    activation: bool


@dataclass(frozen=True)
class Share:
    """What belongs to one line, one module or one kind."""

    name: str
    launches: int
    bytes: int
    rearranged_bytes: int
    flops: int


@dataclass(frozen=True)
class Program:
    """What an engine runs, at given sizes of its dimensions. Made by :func:`trtdsl.program`."""

    network: str
    backend: str
    source: str
    """``plan`` for the text of a plan, ``engine inspector`` for TensorRT's own report."""
    dims: dict[str, int]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    launches: tuple[Launch, ...]
    tensors: dict[str, ProgramTensor]
    regions: tuple[Region, ...]
    engine_bytes: int | None
    notes: tuple[str, ...] = field(default=())
    """What could not be told, in words."""

    @property
    def launch_count(self) -> int:
        """Launches of one run, loops counted."""
        return sum(launch.times for launch in self.launches)

    @property
    def bytes(self) -> int:
        """Bytes that one run reads and writes."""
        return sum(launch.bytes * launch.times for launch in self.launches)

    @property
    def rearranged_bytes(self) -> int:
        """Those of launches that only move values."""
        return sum(launch.bytes * launch.times for launch in self.launches if launch.rearranges)

    @property
    def flops(self) -> int:
        """Floating-point operations of one run, as far as they are known."""
        return sum((launch.flops or 0) * launch.times for launch in self.launches)

    @property
    def memory(self) -> int:
        """Activation memory that the engine asks for, at the greatest sizes that it serves."""
        return sum(region.bytes for region in self.regions if region.activation and region.place == "accelerator")

    @property
    def constant_bytes(self) -> int:
        """Weights and folded constants that launches read; what several share counts once."""
        held = {(tensor.region, tensor.offset): tensor.bytes for tensor in self.tensors.values() if tensor.constant}
        return sum(held.values())

    @property
    def live_memory(self) -> int:
        """The most that intermediate tensors take at one time at these sizes, without the kernels' scratch space."""
        change = [0] * (len(self.launches) + 1)
        for tensor in self.tensors.values():
            if tensor.live is not None and tensor.place == "device" and not tensor.constant and tensor.view_of is None:
                change[tensor.live[0]] += tensor.bytes
                change[tensor.live[1] + 1] -= tensor.bytes
        most = now = 0
        for step in change:
            now += step
            most = max(most, now)
        return most

    def by(self, what: By) -> list[Share]:
        """The launches and bytes of each line, module or kind, most bytes first.

        A launch of several lines is shared out to them in equal parts of its bytes; it counts as a launch of its first.
        """
        table: dict[str, list[float]] = {}
        for launch in self.launches:
            names = {
                "line": launch.lines,
                "module": launch.scopes,
                "kind": (launch.kind,),
                "launch": (f"{launch.index} {launch.name}",),
            }[what] or ("",)
            for position, name in enumerate(names):
                row = table.setdefault(name, [0, 0, 0, 0])
                row[0] += launch.times if position == 0 else 0
                row[1] += launch.bytes * launch.times / len(names)
                row[2] += launch.bytes * launch.times / len(names) if launch.rearranges else 0
                row[3] += (launch.flops or 0) * launch.times / len(names)
        shares = [Share(name, int(row[0]), *(round(value) for value in row[1:])) for name, row in table.items()]
        return sorted(shares, key=lambda share: (-share.bytes, share.name))

    def to_json(self) -> dict[str, Any]:
        """Everything as one JSON object."""
        totals = {
            "launches": self.launch_count,
            "bytes": self.bytes,
            "rearranged_bytes": self.rearranged_bytes,
            "flops": self.flops,
            "memory": self.memory,
            "live_memory": self.live_memory,
            "constant_bytes": self.constant_bytes,
        }
        return {"schema": SCHEMA, "kind": "program", "totals": totals, **asdict(self)}


def make_program(
    texts: Sequence[ProgramText],
    shapes: Mapping[str, Sequence[int]],
    *,
    network: str = "",
    backend: str = "",
    dims: Mapping[str, int] | None = None,
    engine_bytes: int | None = None,
    values: Mapping[str, int] | None = None,
) -> Program:
    """The program of one profile's texts at these shapes of the network's inputs.

    ``values`` are those of integer inputs of one element, which loops may count by. Raises UsageError for shapes that
    the engine does not take, or that are missing.
    """
    made = [_Reader(text, shapes, values or {}) for text in texts]
    launches: list[Launch] = []
    tensors: dict[str, ProgramTensor] = {}
    notes: list[str] = []
    for reader in made:
        launches += reader.launches(len(launches))
        notes += reader.notes
    for reader in made:
        tensors |= reader.tensors
    live: dict[str, tuple[int, int]] = {}
    for launch in launches:
        for operand in (*launch.reads, *launch.writes):
            name: str | None = operand.tensor
            while name is not None:
                live[name] = (min(live.get(name, (launch.index, 0))[0], launch.index), launch.index)
                name = tensors[name].view_of if name in tensors else None
    _stretch_over_loops(live, launches)
    tensors = {name: _with_live(tensor, live.get(name)) for name, tensor in tensors.items()}
    regions = {
        region.name: Region(region.name, region.size, region.place, region.constant, region.user)
        for text in texts
        for region in text.regions.values()
    }
    return Program(
        network,
        backend,
        "plan",
        dict(dims or {}),
        tuple(name for text in texts for name in map(plain, text.names("inputs")) if name in shapes),
        tuple(name for text in texts for name in map(plain, text.names("outputs"))),
        tuple(launches),
        tensors,
        tuple(regions.values()),
        engine_bytes,
        tuple(dict.fromkeys(notes)),
    )


def plain(name: str) -> str:
    """A network tensor's own name: a program adds ``.1``, and ``[profile 1]`` where there are several.

    >>> plain("x [profile 1].1")
    'x'
    """
    head, dot, tail = name.rpartition(".")
    name = head if dot and tail.isdigit() else name
    head, bracket, tail = name.rpartition(" [profile ")
    return head if bracket and tail.endswith("]") else name


def _with_live(tensor: ProgramTensor, live: tuple[int, int] | None) -> ProgramTensor:
    return ProgramTensor(**{**vars(tensor), "live": live})


def _stretch_over_loops(live: dict[str, tuple[int, int]], launches: Sequence[Launch]) -> None:
    """A tensor that a loop uses and that is there before or after it is kept for all steps."""
    spans: dict[int, list[int]] = {}
    for launch in launches:
        if launch.loop is not None:
            spans.setdefault(launch.loop, []).append(launch.index)
    for span in spans.values():
        low, high = span[0], span[-1]
        for name, (first, last) in live.items():
            if first <= high and last >= low and (first < low or last > high):
                live[name] = (min(first, low), max(last, high))


class _Reader:
    """Makes the launches of one text at given shapes."""

    def __init__(self, text: ProgramText, shapes: Mapping[str, Sequence[int]], values: Mapping[str, int]):
        self.text = text
        given = {name: shapes[plain(name)] for name in text.names("inputs") if plain(name) in shapes}
        self.scalars = evaluate_sizes(text, given)
        for name in text.names("inputs"):
            if plain(name) in values:
                self.scalars.values[name] = values[plain(name)]
        self.tensors: dict[str, ProgramTensor] = {}
        self.notes: list[str] = []
        self._host_copies()

    def _host_copies(self) -> None:
        """A number that is given may be copied to the host before it is compared."""
        for kind, record in self.text.statements:
            if kind in ("copy", "function") and isinstance(record, Record):
                sources = record.texts("input") or record.texts("input_args")
                targets = record.texts("output") or record.texts("output_args")
                casts = kind == "copy" or record.text("name") in ("__myl_Cast", "__myl_Move")
                if casts and len(sources) == len(targets) == 1 and sources[0] in self.scalars.values:
                    self.scalars.values[targets[0]] = self.scalars.values[sources[0]]

    def launches(self, start: int) -> list[Launch]:
        """The launches that run, numbered from ``start``."""
        statements = self.text.statements
        self._operands = [self._operands_of(kind, record) for kind, record in statements]
        walked = walk(statements, self.scalars, self._weight)
        indexes = [index for index in sorted(walked.times) if self._launches(*statements[index])]
        first_of: dict[int, int] = {}
        launches: list[Launch] = []
        for index in indexes:
            kind, record = statements[index]
            assert isinstance(record, Record)
            loop = walked.looped.get(index)
            number = start + len(launches)
            launches.append(
                self._launch(
                    number,
                    kind,
                    record,
                    index,
                    walked.times[index],
                    first_of.setdefault(loop, number) if loop is not None else None,
                )
            )
            if index in walked.uncounted:
                where = ", ".join(launches[-1].lines) or launches[-1].name
                self.notes.append(
                    f"a loop runs as often as values on the GPU decide: one step of it is counted ({where})"
                )
        for index in sorted(walked.chosen & set(walked.times)):
            record = statements[index][1]
            assert isinstance(record, Record)
            where = ", ".join(places_of(record.text("layers"))[0])
            self.notes.append(
                "which of two branches runs is decided by values on the GPU: the one that moves more is counted"
                + (f" ({where})" if where else "")
            )
        return launches

    def _launches(self, kind: str, record: Record | str) -> bool:
        """Whether a statement is a launch: it writes the device's memory, or copies from it."""
        if kind in QUIET or not isinstance(record, Record):
            return False
        names = [*record.texts("output"), *record.texts("output_args")]
        if kind == "copy":
            names += record.texts("input")
        return any(name in self.text.tensors and not self.scalars.on_host(name) for name in names)

    def _weight(self, index: int) -> int:
        reads, writes = self._operands[index]
        return sum(operand.bytes for operand in (*reads, *writes))

    def _launch(self, number: int, kind: str, record: Record, index: int, times: int, loop: int | None) -> Launch:
        reads, writes = self._operands[index]
        name = record.text("name")
        names = [*record.texts("input_args"), *record.texts("input")]
        outputs = [*record.texts("output_args"), *record.texts("output")]
        if kind == "runtime_fusion":
            body = self._body(record)
        else:
            body = ()
        shapes = [
            [
                shape
                for each in group
                if (shape := shape_of(each, self.text, self.scalars)) is not None and not self.scalars.on_host(each)
            ]
            for group in (names, outputs)
        ]
        lines, scopes = places_of(record.text("layers"))
        first = next((self.tensors[operand.tensor] for operand in (*reads, *writes)), None)
        return Launch(
            number,
            kind_of(kind, record),
            name.removeprefix("__myl_"),
            reads,
            writes,
            times,
            flops_of(kind, record, self.text, self.scalars, *shapes),
            first.dtype if first is not None else "",
            _numbers(record, "grid"),
            _numbers(record, "block"),
            record.number("stream"),
            lines,
            scopes,
            epilogue_of(kind, record) if kind_of(kind, record) in ("product", "convolution") else (),
            body,
            loop,
        )

    def _body(self, record: Record) -> tuple[str, ...]:
        number = record.number("binary", -1)
        if not 0 <= number < len(self.text.bodies):
            return ()
        return tuple(kind for kind, inside in self.text.bodies[number].statements if isinstance(inside, Record))

    def _operands_of(self, kind: str, record: Record | str) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
        """What a statement reads and writes on the device, each tensor once."""
        if not isinstance(record, Record) or not self._launches(kind, record):
            return (), ()
        written = self._tensors([*record.texts("output_args"), *record.texts("output")])
        read = self._tensors([*record.texts("input_args"), *record.texts("input")])
        most = self._most_read(kind, record, written)
        reads = []
        for tensor in read:
            if tensor.constant and math.prod(tensor.shape) == 1:
                continue  # a number such as a product's alpha
            bits = (
                tensor.bytes
                if most is None
                else min(tensor.bytes, most * tensor.bytes // max(math.prod(tensor.shape), 1))
            )
            reads.append(Operand(tensor.name, bits))
        return tuple(reads), tuple(Operand(tensor.name, tensor.bytes) for tensor in written)

    def _most_read(self, kind: str, record: Record, written: Sequence[ProgramTensor]) -> int | None:
        """The most elements that a pointwise kernel reads of one operand: what it slices or gathers is as large as
        what it writes. None where an operand may be read as a whole."""
        made_of = parts(record.text("name"))
        if kind not in ("function", "runtime_function") or record.text("kernel_kind") not in ("1", "8"):
            return None
        picks = sum(part in PICKING for part in made_of)
        if not picks or TRUNCATED in made_of:
            return None
        return picks * max((math.prod(tensor.shape) for tensor in written), default=0)

    def _tensors(self, names: Iterable[str]) -> list[ProgramTensor]:
        """The device's tensors of these names, each once; views of the same bytes of one tensor are the same."""
        found: dict[tuple[Any, ...], ProgramTensor] = {}
        for name in names:
            if name in self.text.tensors and not self.scalars.on_host(name):
                tensor = self._tensor(name)
                key = (
                    (tensor.view_of or name, tensor.offset, tensor.bytes) if tensor.view_of else (name, 0, tensor.bytes)
                )
                found.setdefault(key, tensor)
        return list(found.values())

    def _tensor(self, name: str) -> ProgramTensor:
        if name in self.tensors:
            return self.tensors[name]
        descriptor = self.text.tensors[name]
        sizes = [self.scalars.size(dimension) for dimension in descriptor.dims]
        if None in sizes:
            raise UsageError(_missing(self.text, self.scalars, descriptor))
        shape = tuple(size for size in sizes if size is not None)
        strides = [self.scalars.size(stride) for stride in descriptor.strides]
        distinct = math.prod(size for size, stride in zip(shape, strides, strict=True) if stride != 0)
        place = {"accelerator": "device", "host": "host", "hostpinned": "host"}[self.text.place(descriptor)]
        if not descriptor.region and descriptor.base is None:
            place = "caller"
        made = ProgramTensor(
            name,
            shape,
            DTYPES.get(descriptor.dtype, descriptor.dtype),
            _order(shape, strides),
            (distinct * BITS[descriptor.dtype] + 7) // 8,
            place,
            descriptor.region,
            descriptor.offset,
            descriptor.base,
            descriptor.constant,
            descriptor.scratch,
        )
        self.tensors[name] = made
        if descriptor.base is not None:
            self._tensor(descriptor.base)
        return made


def _numbers(record: Record, key: str) -> tuple[int, ...]:
    return tuple(int(text) for text in record.texts(key) if text.isdigit() and len(text) < 20)


def _order(shape: Sequence[int], strides: Sequence[int | None]) -> tuple[int, ...]:
    """The axes from the greatest stride to the smallest; axes of one element keep their place."""
    known = [0 if stride is None else abs(stride) for stride in strides]
    return tuple(sorted(range(len(shape)), key=lambda axis: (-known[axis], axis)))


def _missing(text: ProgramText, scalars: Scalars, tensor: Descriptor) -> str:
    unknown = [
        plain(name)
        for name in text.names("inputs")
        if name in text.tensors and any(scalars.size(size) is None for size in text.tensors[name].dims)
    ]
    if unknown:
        return f"the shapes of the inputs {', '.join(dict.fromkeys(unknown))} are needed: they have dynamic dimensions"
    return f"the size of {tensor.name!r} depends on values that only the GPU knows"
