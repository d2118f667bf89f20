"""Runs a program's statements in order, in the memory that the plan lays out."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from ...core.errors import ProgramDamagedError, ProgramFaultError, UnevaluatedProgramError
from ..grammar import Record
from ..host_sizes import COMPARISONS, OPERATIONS, Scalars, label_places, targets_of
from ..launches import QUIET, each_once, places_of
from ..plan import BITS, ProgramText, plain
from . import library
from .contents import Contents
from .kernels import Server, compile_kernels
from .memory import PAGE, POISON, Memory, Place, dtype_of
from .sources import Kernel, kernel_of
from .streams import Order

Feeds = Mapping[str, torch.Tensor]
Observer = Callable[["Step", Mapping[str, torch.Tensor]], None]
"""Is told of each launch when it is done, with its results by name."""

Run = Generator[tuple[str, torch.Tensor], list[torch.Tensor], None]
"""Gives the operand of each operation of several ranks, and takes those of all of them."""
COLLECTIVE, SCATTERING = "comm_", "comm_reduce_scatter"
STEPS = 1_000_000
KERNELS = ("function", "runtime_function")
FUSION = "runtime_fusion"
SCATTER = "21"
"""Its ``kernel_kind``."""


@dataclass(frozen=True)
class Step:
    """A launch that is run."""

    index: int
    name: str
    lines: tuple[str, ...]
    touched: tuple[int, int] = (0, 0)
    """The bytes that it read and wrote, each once, where these are counted."""

    def __str__(self) -> str:
        where = f" ({', '.join(self.lines)})" if self.lines else ""
        return f"launch {self.index}, {self.name}{where},"


def evaluate_programs(ranks: Sequence[tuple[Evaluation, Feeds]]) -> list[dict[str, torch.Tensor]]:
    """The outputs of the programs of all ranks, mostly of one, by the network's names, from their inputs' values.

    Each runs up to where it needs the others' operands. Raises UnevaluatedProgramError for what is not known, and
    ProgramFaultError for a launch that reads what nothing wrote or what was overwritten, writes outside of its tensors,
    or races with another, and where the ranks do not meet.
    """
    try:
        for evaluation, feeds in ranks:
            evaluation.give(feeds)
        runs = [evaluation.run(len(ranks), rank) for rank, (evaluation, _) in enumerate(ranks)]
        met = [next(run, None) for run in runs]
        while any(met):
            if len({each and each[0] for each in met}) > 1:
                raise ProgramFaultError("the ranks' programs do not meet at the same operations")
            operands = [each[1] for each in met if each]
            met = [_resumed(run, operands) for run in runs]
        return [evaluation.outputs() for evaluation, _ in ranks]
    finally:
        for evaluation, _ in ranks:
            evaluation.close()


def _resumed(run: Run, operands: list[torch.Tensor]) -> tuple[str, torch.Tensor] | None:
    try:
        return run.send(operands)
    except StopIteration:
        return None


class Evaluation:
    """One run of a program; ``count`` counts the bytes that each launch touches."""

    def __init__(
        self,
        text: ProgramText,
        contents: Contents,
        constants: Mapping[str, bytes],
        scalars: Scalars,
        observe: Observer | None = None,
        count: bool = False,
    ):
        self.text, self.contents, self.scalars, self.observe, self.count = text, contents, scalars, observe, count
        self.memory = Memory(text, scalars, constants, count)
        self.servers: dict[Path, Server] = {}
        self.kernels: dict[str, Kernel] = {}
        self.compiled: dict[str, tuple[Path, int]] = {}
        self.order = Order(int(str(text.header.get("n_streams", "1"))))
        self.written: set[str] = set()
        self.absent: dict[str, str] = {}
        """Why the program has no value for a tensor, of those that it was not given."""
        self.step = Step(0, "", ())
        self.reversed: set[tuple[str, tuple[int, ...]]] = set()
        """The kernels, with their launches, that were run in both orders."""

    def close(self) -> None:
        for server in self.servers.values():
            server.close()
        self.memory.close()

    def give(self, feeds: Feeds) -> None:
        """Puts the inputs, and the sizes that the host computed, where the program expects them."""
        for name in self.text.names("inputs"):
            value = feeds.get(plain(name))
            if value is not None:
                view = self.memory.view(name)
                view.copy_(value.reshape(view.shape))
                self._note(name, "the caller")
            elif name not in self.scalars.values:
                self.absent[name] = f"needs {plain(name)}, which TensorRT computes before the program runs"
        for kind, record in self.text.sizing:
            if isinstance(record, Record):
                reasons = [self.absent[name] for name in record.texts("input") if name in self.absent]
                if kind not in OPERATIONS and kind != "memset":
                    reasons.append(f"needs {kind} of sizes, which is not known")
                self.absent |= {name: reasons[0] for name in record.texts("output") if reasons}
        for name in list(self.scalars.values):
            self._put_scalar(name)

    def _put_scalar(self, name: str) -> None:
        tensor = self.text.tensors.get(name)
        if tensor is not None and not tensor.constant and all(size == 1 for size in tensor.dims):
            self.memory.view(name).fill_(self.scalars.values[name])
            self._note(name, "the host")

    def _note(self, name: str, what: str) -> None:
        self.memory.note_write(name, what)
        self.written.add(self.text.root(name).name)

    # -- statements ----------------------------------------------------------------------------------------------------

    def run(self, ranks: int = 1, rank: int = 0) -> Run:
        """Runs ``main``."""
        size = int(str(self.text.header.get("world_size", "1")))
        if size not in (1, ranks):  # 1 where it needs nothing of the others
            raise UnevaluatedProgramError(
                f"the program is one of {size} ranks, which are evaluated together: "
                "give their network, defined for them, instead of an engine"
            )
        statements = self.text.statements
        labels = label_places(statements)
        self._compile_ahead()
        position = steps = launches = 0
        while position < len(statements):
            steps += 1
            if steps > STEPS:
                raise ProgramFaultError(f"the program runs for more than {STEPS:,} statements")
            kind, record = statements[position]
            position += 1
            if isinstance(record, str):
                continue
            if kind in ("jmp", "cjmp"):
                target = self._jump(kind, record, labels)
                self._pass_over(statements[position:target])
                position = target
            elif kind in ("signal", "wait"):
                self.order.note(kind, record)
            elif kind == "shape_call":
                self._compute_sizes(record)
            elif kind in QUIET:
                continue
            elif self._on_host(kind, record):
                self._compute_on_host(kind, record)
            else:
                lines = each_once(places_of(record.text("layers")), "line")
                self.step = Step(launches, record.text("name") or kind, lines)
                launches += 1
                operands = None
                if kind.startswith(COLLECTIVE):
                    operands = yield kind, self.memory.view(record.texts("input")[0]).clone()
                    operands = [each.chunk(ranks)[rank] for each in operands] if kind == SCATTERING else operands
                self._launch(kind, record, operands)

    def _jump(self, kind: str, record: Record, labels: Mapping[str, int]) -> int:
        targets = targets_of(kind, record, labels)
        if kind == "jmp":
            return targets[0]
        compare = COMPARISONS.get(record.text("op"))
        operands = [self._number(name) for name in record.texts("input")]
        if compare is None or len(operands) != 2:
            raise UnevaluatedProgramError(f"the jump {record.text('op')[:20]} is not known")
        return targets[0 if compare(*operands) else 1]

    def _pass_over(self, statements: Sequence[tuple[str, Record | str]]) -> None:
        for _, record in statements:
            if isinstance(record, Record):
                for name in record.texts("output_args") + record.texts("output"):
                    self.memory.note_passed(name)

    def _check_read(self, name: str) -> None:
        reason = self.absent.get(self.text.root(name).name)
        if reason is not None:
            raise UnevaluatedProgramError(reason)
        self.memory.check_read(name, str(self.step))

    def _number(self, name: str) -> int | float | bool:
        self._check_read(name)
        return self.memory.view(name).reshape(()).item()

    def _compute_sizes(self, record: Record) -> None:
        """The sizes that a branch computes; those of the whole program are known from the beginning."""
        number = record.text("subg_id", "0")
        for kind, inner in self.text.sections.get(f"shape_subg subg{number}", ()) if number != "0" else ():
            if isinstance(inner, Record) and kind != "assert":
                self._compute_on_host(kind, inner)

    def _on_host(self, kind: str, record: Record) -> bool:
        outputs = record.texts("output")
        return (kind in OPERATIONS or kind == "memset") and bool(outputs) and all(map(self.scalars.on_host, outputs))

    def _compute_on_host(self, kind: str, record: Record) -> None:
        for name in record.texts("input"):
            self.scalars.values[name] = self._number(name)
        self.scalars.evaluate("copy" if kind == "cast" else kind, record)
        for name in record.texts("output"):
            if name not in self.scalars.values:
                raise UnevaluatedProgramError(f"{kind}, on the host, is not known")
            self._put_scalar(name)

    # -- launches ------------------------------------------------------------------------------------------------------

    def _launch(self, kind: str, record: Record, given: Sequence[torch.Tensor] | None = None) -> None:
        """Runs one launch; ``given`` are operands of all ranks, where they meet."""
        reads = record.texts("input_args") + record.texts("input")
        writes = record.texts("output_args") + record.texts("output")
        what = str(self.step)
        try:
            for name in reads:
                self._check_read(name)
            self.order.launch(record, what, *(self._followed(names) for names in (reads, writes)))
            if kind in KERNELS:
                self._run_kernel(record, writes)
            elif kind == FUSION:
                self._run_body(record, reads, writes)
            else:
                self._check_apart(record, reads, writes)
                views = [[self.memory.view(name) for name in names] for names in (reads, writes)]
                library.evaluate(kind, record, given or views[0], views[1])
            if self.count and kind not in KERNELS:
                self.step = replace(self.step, touched=(self._whole(reads), self._whole(writes)))
        except UnevaluatedProgramError as error:
            raise UnevaluatedProgramError(
                error.message if error.message.startswith("launch") else f"{what} {error.message}"
            ) from None
        for name in record.texts("scratchspace"):
            self._note(name, what.removesuffix(","))
        for name in writes:
            self._note(name, what.removesuffix(","))
            if kind in KERNELS:
                self.memory.note_missing(name)
            if kind not in (*KERNELS, FUSION) and self.memory.view(name).numel() == 1:
                self.scalars.values[name] = self.memory.view(name).reshape(()).item()
        if self.observe is not None:
            self.observe(self.step, {name: self.memory.view(name) for name in writes})

    def _check_apart(self, record: Record, reads: Sequence[str], writes: Sequence[str]) -> None:
        """ProgramFaultError where a library's operation writes, or computes in, the memory of another operand."""
        places = {name: self.memory.place(name) for name in (*reads, *writes, *record.texts("scratchspace"))}
        for name in (*writes, *record.texts("scratchspace")):
            for other, place in places.items():
                if self.text.root(other) != self.text.root(name) and places[name].meets(place):
                    raise ProgramFaultError(f"{self.step} writes to {plain(name)}, where {plain(other)} lies")

    def _whole(self, names: Iterable[str]) -> int:
        """The bytes of operands that a library's operation reads or writes."""
        places = {self.memory.place(name) for name in names}
        return sum(
            math.prod(size for size, stride in zip(p.shape, p.strides, strict=True) if stride) * p.itemsize
            for p in places
        )

    def _followed(self, names: Sequence[str]) -> list[Place]:
        """Where operands lie that a launch can change."""
        return [self.memory.place(name) for name in names if not self.text.root(name).constant]

    # -- fusions -------------------------------------------------------------------------------------------------------

    def _run_body(self, record: Record, reads: Sequence[str], writes: Sequence[str]) -> None:
        number = record.number("binary", -1)
        if not 0 <= number < len(self.text.bodies):
            raise ProgramDamagedError(f"the plan's program has no fusion {number}")
        body = self.text.bodies[number]
        inputs, outputs = body.names("inputs"), body.names("outputs")
        if len(inputs) != len(reads) or len(outputs) != len(writes):
            raise UnevaluatedProgramError("the fusion has other operands than its body")
        scalars = Scalars(body, self.scalars.values)
        values = {own: self.memory.view(name) for own, name in zip(inputs, reads, strict=True)}
        for own, value in values.items():
            if value.numel() == 1 and not value.is_floating_point():
                scalars.values[own] = value.reshape(()).item()
        for name, payload in self.contents.constants_of_body(body).items():
            values[name] = torch.frombuffer(bytearray(payload), dtype=dtype_of(body.tensors[name]))
            values[name] = values[name].as_strided(*_layout(body, scalars, name))
        results = dict(zip(outputs, (self.memory.view(name) for name in writes), strict=True))
        for kind, inner in body.statements:
            if isinstance(inner, str) or kind in QUIET:
                continue
            for name in inner.texts("output"):
                values[name] = _made(body, scalars, name, results.get(name))
            operands = [
                [_value(body, scalars, values, name) for name in inner.texts(key)] for key in ("input", "output")
            ]
            library.evaluate(kind, inner, *operands)
        for name, result in results.items():
            if name not in values:
                raise ProgramDamagedError(f"the plan's program has a fusion that does not write {name[:40]!r}")
            if values[name] is not result:
                result.copy_(values[name].reshape(result.shape))

    # -- generated kernels ---------------------------------------------------------------------------------------------

    def _compile_ahead(self) -> None:
        """Compiles all kernels that the sizes choose, together; a kernel that is not known is refused where it runs."""
        kernels = {}
        for kind, record in self.text.statements:
            if kind in KERNELS and isinstance(record, Record):
                name, _ = self._variant(record)
                with suppress(UnevaluatedProgramError):
                    kernels[name] = self._kernel(name)
        if kernels:
            self.compiled = compile_kernels(kernels.values())

    def _kernel(self, name: str) -> Kernel:
        if name not in self.text.sources():
            raise UnevaluatedProgramError(f"the plan has no source of the kernel {name}")
        if name not in self.kernels:
            self.kernels[name] = replace(kernel_of(name, self.text.sources()[name]), marks=self.count)
        return self.kernels[name]

    def _variant(self, record: Record) -> tuple[str, Record]:
        """The name of the kernel to run, of those for some sizes or for all, and the record of its grid."""
        for variant in record.records("cond_fqn"):
            if self.scalars.values.get(variant.text("exec_cond")):
                return variant.text("function"), variant
        return record.text("fqn"), record

    def _run_kernel(self, record: Record, writes: Sequence[str]) -> None:
        name, variant = self._variant(record)
        if name not in self.compiled:
            self.compiled |= compile_kernels([self._kernel(name)])
        path, number = self.compiled[name]
        if path not in self.servers:
            self.servers[path] = Server(path, self.memory.file, self.memory.size)
        grid, block = ([_size(word) for word in variant.texts(key)] for key in ("grid", "block"))
        if variant is record or variant.texts("grid") == record.texts("grid"):
            grid = [self._blocks(record, axis, written) for axis, written in enumerate(grid, 1)]
        if variant.text("is_tiled") == "true":  # the grid that is written is that of the sizes it was tuned for
            grid = [self._tiles(variant), 1, 1]
        if len(grid) != 3 or len(block) != 3:
            raise UnevaluatedProgramError(f"the kernel {name} has a grid that is not known")
        most = self.kernels[name].most_threads
        if most is not None and math.prod(block) > most:
            raise ProgramFaultError(
                f"{self.step} has blocks of {math.prod(block)} threads, and its kernel takes {most}"
            )
        staged = _Stage(self.memory, record.texts("args"), writes, record.texts("input_args"))
        launch = (number, *grid, *block, variant.number("shmem"))
        # A scatter to one place twice is in the network, and whose value stays there is not said.
        again = staged.overlaps or self.kernels[name].barrier
        again = again and (name, launch) not in self.reversed and record.text("kernel_kind") != SCATTER
        before = staged.copies() if again else []
        try:
            self.servers[path].run((*launch, 0), staged.addresses, str(self.step))
            if again:
                self.reversed.add((name, launch))
                results = staged.exchange(before)
                self.servers[path].run((*launch, 1), staged.addresses, str(self.step))
                if not all(map(torch.equal, results, staged.copies())):
                    raise ProgramFaultError(
                        f"{self.step} races with itself: another order of its threads changes the result"
                    )
        except (ProgramFaultError, UnevaluatedProgramError):  # the process has ended
            self.servers.pop(path).close()
            raise
        staged.take_back(str(self.step))
        self.step = replace(self.step, touched=staged.touched())

    def _blocks(self, record: Record, axis: int, written: int) -> int:
        """The blocks along an axis: at most those that are written, of the greatest sizes; none are left to the sizes.

        The variable counts rows, of which a block has one or more, or elements.
        """
        name = record.text(f"lb_var{axis}")
        return min(int(self._number(name)), written or sys.maxsize) if name else written

    def _tiles(self, variant: Record) -> int:
        """How many tiles the space of a tiled kernel has: one for each block."""
        spaces = [self.scalars.size(int(word) if word.isdigit() else word) for word in variant.texts("iteration_space")]
        tiles = [_size(word) for word in variant.texts("tile_dims")]
        if None in spaces or len(spaces) != len(tiles):
            raise UnevaluatedProgramError("the tiles of a kernel are not known")
        return math.prod(-(-(space or 0) // tile) for space, tile in zip(spaces, tiles, strict=True))

    # -- the end -------------------------------------------------------------------------------------------------------

    def outputs(self) -> dict[str, torch.Tensor]:
        """The network's outputs."""
        found = {}
        for name in self.text.names("outputs"):
            poison = self.memory.poisoned(name)
            is_bool = self.memory.view(name).dtype == torch.bool  # one value of poison tells, as it is none of bool's
            unwritten = poison.numel() and bool(poison.any() if is_bool else poison.all())
            if self.text.root(name).name not in self.written or unwritten:
                raise ProgramFaultError(f"no launch writes the output {plain(name)}")
            found[plain(name)] = self.memory.view(name).clone(memory_format=torch.contiguous_format)
        return found


class _Stage:
    """The operands of a kernel behind the engine's memory, with guards around each: a write outside shows.

    Operands that share memory stay together.
    """

    def __init__(self, memory: Memory, arguments: Sequence[str], writes: Sequence[str], reads: Sequence[str]):
        self.memory = memory
        places = {name: memory.place(name) for name in arguments}
        self.parts = _together(list(places.values()))
        self.shifts: list[int] = []
        position = memory.stage
        for start, end in self.parts:
            position += PAGE + (start - position) % 128
            self.shifts.append(position - start)
            self._fill(position - PAGE, position)
            memory.bytes[position : position + end - start] = memory.bytes[start:end]
            position += end - start
            self._fill(position, position + PAGE)
            position += PAGE
        given = [place for name, place in places.items() if name not in writes]
        self.overlaps = any(places[n].meets(place) for n in writes if n in places for place in given)
        self.overlaps |= not places.keys().isdisjoint(set(writes) & set(reads))
        for name in dict.fromkeys(writes):
            # What an earlier step of a loop wrote stays, and what a scatter updates in place.
            kept = name in places and (name in reads or memory.holds(name))
            if name in places and not kept and not any(places[name].meets(place) for place in given):
                places[name].within(memory.bytes, -self._shift(places[name])).fill_(POISON)
        self.addresses = [places[name].start + self._shift(places[name]) for name in arguments]
        self.written = [
            (start, end)
            for start, end in self.parts
            if any(start <= places[n].start < max(end, start + 1) for n in writes if n in places)
        ]

    def copies(self) -> list[torch.Tensor]:
        """What lies in the stage now."""
        return [self.memory.bytes[start + shift : end + shift].clone() for (start, end), shift in self._moved()]

    def exchange(self, values: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Puts other values there, and gives back those that were."""
        before = self.copies()
        for ((start, end), shift), value in zip(self._moved(), values, strict=True):
            self.memory.bytes[start + shift : end + shift] = value
        return before

    def _moved(self) -> Iterable[tuple[tuple[int, int], int]]:
        return zip(self.parts, self.shifts, strict=True)

    def take_back(self, what: str) -> None:
        """Copies the results back; raises ProgramFaultError where a guard or an operand was written."""
        memory = self.memory
        for (start, end), shift in self._moved():
            first, last = start + shift, end + shift
            for low, high in ((first - PAGE, first), (last, last + PAGE)):
                if not bool((memory.bytes[low:high] == POISON).all()):
                    raise ProgramFaultError(f"{what} writes outside of its tensors")
            if (start, end) in self.written:
                memory.bytes[start:end] = memory.bytes[first:last]
            elif not torch.equal(memory.bytes[start:end], memory.bytes[first:last]):
                raise ProgramFaultError(f"{what} writes to an operand that it only reads")

    def touched(self) -> tuple[int, int]:
        """The bytes of the operands that the kernel read and wrote, where they are marked."""
        if not self.memory.marked:
            return 0, 0
        marks = [
            self.memory.bytes[self.memory.marked + start + shift : self.memory.marked + end + shift]
            for (start, end), shift in self._moved()
        ]
        read, written = (sum(int((part & bit != 0).sum()) for part in marks) for bit in (1, 2))
        for part in marks:
            part.zero_()
        return read, written

    def _fill(self, start: int, end: int) -> None:
        self.memory.bytes[start:end] = POISON

    def _shift(self, place: Place) -> int:
        for (start, end), shift in self._moved():
            if start <= place.start and place.end <= end:
                return shift
        raise AssertionError("every operand is staged")


def _together(places: Sequence[Place]) -> list[tuple[int, int]]:
    """The stretches of memory that places cover, those that touch each other as one."""
    found: list[tuple[int, int]] = []
    for start, end in sorted({(place.start, place.end) for place in places}):
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def _size(word: str) -> int:
    if not word.isdigit():
        raise UnevaluatedProgramError(f"a grid of {word[:40]!r} is not known")
    return int(word)


def _layout(body: ProgramText, scalars: Scalars, name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape and the strides of a tensor of a fusion's body."""
    tensor = body.tensor(name)
    shape, strides = scalars.sizes(tensor.dims), scalars.sizes(tensor.strides)
    if shape is None or strides is None:
        raise UnevaluatedProgramError(f"{plain(name)} has a size that is not known")
    return shape, strides


def _made(body: ProgramText, scalars: Scalars, name: str, result: torch.Tensor | None) -> torch.Tensor:
    """Where a statement of a body writes: the fusion's own result, or memory that only the body sees."""
    shape, strides = _layout(body, scalars, name)
    if result is not None and tuple(result.shape) == shape:
        return result
    return torch.empty_strided(shape, strides, dtype=dtype_of(body.tensors[name]))


def _value(body: ProgramText, scalars: Scalars, values: dict[str, torch.Tensor], name: str) -> torch.Tensor:
    """A value in a body: made before, or a view of one."""
    if name in values:
        return values[name]
    tensor = body.tensors.get(name)
    if tensor is None or tensor.base is None:
        raise ProgramFaultError(f"a fusion reads {plain(name)}, which nothing wrote")
    base = _value(body, scalars, values, tensor.base)
    offset = base.storage_offset() + tensor.offset * 8 // BITS[tensor.dtype]
    return base.as_strided(*_layout(body, scalars, name), offset)
