"""The texts of the programs in a plan, and the contents of their descriptors: tensors, regions, statements."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial

from ..core.backend import EXAMINED as VERSIONS
from ..core.errors import ProgramDamagedError, UnreadableProgramError
from .grammar import Quoted, Record, Statement, Value, as_number, read_sections

MARK = b"NLYM"
START = b"header {\n  version = "
PROGRAM, BODY = "5", "4"  # the versions of a text: a program, and the body of what is compiled where it runs
SHAPE_INPUT = re.compile(r"(?P<layer>.+?)( \[profile \d+\])?_shapeInput(_U\d+)?", re.DOTALL)
"""A size of a layer's result that TensorRT computes and hands the program."""
PROFILE = re.compile(r" \[profile (\d+)\]")

BITS = {
    "float": 32, "half": 16, "bf16": 16, "double": 64, "bool": 8, "int8": 8, "uint8": 8, "int16": 16, "uint16": 16,
    "int32": 32, "uint32": 32, "int64": 64, "uint64": 64, "int4": 4, "fp8": 8, "fp8_e4m3": 8, "fp8_e5m2": 8,
    "fp8_e8m0": 8, "fp4": 4, "fp4_e2m1": 4,
}  # fmt: skip
DTYPES = {
    "float": "float32", "half": "float16", "bf16": "bfloat16", "double": "float64",
    "fp8": "float8_e4m3fn", "fp8_e4m3": "float8_e4m3fn", "fp8_e5m2": "float8_e5m2", "fp8_e8m0": "float8_e8m0fnu",
    "fp4": "float4_e2m1fn_x2", "fp4_e2m1": "float4_e2m1fn_x2",
}  # fmt: skip
"""torch's name where the plan has another."""

SOURCE = re.compile(rb"\0\0\0\0(?P<length>[\s\S]{4})(?=#(?:undef|ifdef) __HAS_)")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
KERNEL = re.compile(r'extern "C" __global__ void\s+(?:__launch_bounds__\([^)]*\)\s+)?(\w+)\s*\(')
"""How a kernel begins, in its source."""

PRODUCTS = {"tensorrt": "TensorRT", "tensorrt-rtx": "TensorRT-RTX"}

Dimension = int | str
"""A size, or the name of one that the program computes."""


@dataclass(frozen=True)
class Descriptor:
    """A tensor as the plan describes it."""

    name: str
    dims: tuple[Dimension, ...]
    strides: tuple[Dimension, ...]
    dtype: str
    """The plan's own word, such as ``half``."""
    region: str
    """Empty for the caller's own memory: the network's inputs and outputs."""
    offset: int
    """In bytes within its region, or within its base; of a constant, its number."""
    base: str | None
    """Of what tensor it is a view."""
    constant: bool
    scratch: bool
    moving: str | None = None
    """The number of the host, in bytes, by which a view moves through its base: in a loop."""


@dataclass(frozen=True)
class Region:
    """A piece of memory that the engine asks for."""

    name: str
    bytes: int
    place: str
    """``accelerator``, ``host`` or ``hostpinned``."""
    constant: bool
    activation: bool
    """Whether the context gives it; the rest the engine holds itself."""


@dataclass
class ProgramText:
    """One text: a program, or the body of a fusion."""

    sections: dict[str, list[Statement]]
    bodies: list[ProgramText] = field(default_factory=list)
    """Of the launches that are compiled where they run, in the order of their numbers."""
    sources: Callable[[], Mapping[str, str]] = dict
    """The C++ that each generated kernel stands in, by the kernel's name; two variants share one source."""

    @cached_property
    def header(self) -> dict[str, Value]:
        return dict(reversed(self.sections.get("header", [])))

    @cached_property
    def regions(self) -> dict[str, Region]:
        found = {}
        for name, record in self.sections.get("header", []):
            if name == "region" and isinstance(record, Record):
                region = Region(
                    record.text("name"),
                    record.number("size"),
                    record.text("place"),
                    record.text("constant") == "true",
                    record.text("type") == "user",
                )
                if region.place not in ("accelerator", "host", "hostpinned") or region.bytes < 0:
                    raise ProgramDamagedError(f"the plan's program has a region in {region.place[:40]!r}")
                found[region.name] = region
        return found

    @cached_property
    def tensors(self) -> dict[str, Descriptor]:
        found = {}
        for kind, record in self.sections.get("descriptors", []):
            if kind not in ("tensor", "sub_tensor") or not isinstance(record, Record):
                raise ProgramDamagedError(f"the plan's program has {kind[:40]!r} among its tensors")
            tensor = _descriptor(record, view=kind == "sub_tensor")
            if not tensor.base and tensor.region and tensor.region not in self.regions:
                raise ProgramDamagedError(f"the plan's program has no region {tensor.region[:40]!r}")
            found[tensor.name] = tensor
        for tensor in found.values():
            named = [tensor.base, *(size for size in (*tensor.dims, *tensor.strides) if isinstance(size, str))]
            for name in named:
                if name is not None and name not in found:
                    raise ProgramDamagedError(f"the plan's program names a tensor {name[:40]!r}, which is not there")
        return found

    @cached_property
    def statements(self) -> list[Statement]:
        return self.sections.get("main", [])

    @cached_property
    def sizing(self) -> list[Statement]:
        """What the host computes of dynamic sizes: before all else, and where a branch begins."""
        names = [name for name in self.sections if name == "shape_main" or name.startswith("shape_subg ")]
        return [statement for name in names for statement in self.sections[name]]

    def place(self, tensor: Descriptor) -> str:
        """Where it lies: ``accelerator``, ``host`` or ``hostpinned``; the caller's own memory is on the accelerator."""
        whole = self.root(tensor.name)
        return self.regions[whole.region].place if whole.region else "accelerator"

    def tensor(self, name: str) -> Descriptor:
        """A tensor; ProgramDamagedError for one that is not there."""
        if name not in self.tensors:
            raise ProgramDamagedError(f"the plan's program has no tensor {name[:40]!r}")
        return self.tensors[name]

    def root(self, name: str) -> Descriptor:
        """The tensor that a view, or a view of a view, is of."""
        tensor = self.tensor(name)
        for _ in self.tensors:
            if tensor.base is None:
                return tensor
            tensor = self.tensor(tensor.base)
        raise ProgramDamagedError("the plan's program has a view of itself")

    def names(self, key: str) -> list[str]:
        """A list of the header, such as ``inputs``."""
        value = self.header.get(key)
        return [item for item in value.items if isinstance(item, str)] if isinstance(value, Record) else []

    @cached_property
    def profile(self) -> int:
        """The profile that the program serves: one of several is named in every tensor of its own."""
        found = [PROFILE.search(name) for name in (*self.names("outputs"), *self.names("inputs"))]
        return max((int(match[1]) for match in found if match), default=0)


@dataclass(frozen=True)
class PlanTexts:
    """The texts in a plan."""

    version: str
    programs: tuple[ProgramText, ...]

    def of_profile(self, profile: int) -> tuple[ProgramText, ...]:
        """The programs of one profile, in order: most engines have one."""
        return tuple(program for program in self.programs if program.profile == profile)

    def of_others(self, profile: int) -> tuple[ProgramText, ...]:
        """Those of all other profiles."""
        return tuple(program for program in self.programs if program.profile != profile)


def read_plan(data: bytes, product: str, version: str, label: str = "this plan") -> PlanTexts:
    """The programs in a plan of ``product``, ``tensorrt`` or ``tensorrt-rtx``, of that version.

    Raises UnreadableProgramError for another product, another version or a plan without program text, and
    ProgramDamagedError for one that does not follow the grammar.
    """
    if product != "tensorrt-rtx" or ".".join(version.split(".")[:2]) not in VERSIONS:
        raise UnreadableProgramError(
            f"{label} holds no program that trtdsl can read: it is of {PRODUCTS.get(product, product)} {version}, "
            f"and the text of TensorRT-RTX {VERSIONS[0]} to {VERSIONS[-1]} is known"
        )
    return PlanTexts(version, read_texts(_texts(data), label, cache(partial(_sources, data))))


def read_texts(
    texts: Sequence[str], label: str = "this plan", sources: Callable[[], Mapping[str, str]] = dict
) -> tuple[ProgramText, ...]:
    """The programs, each with the bodies that follow it, from a plan's texts."""
    programs: list[ProgramText] = []
    for text in texts:
        program = ProgramText(read_sections(text), sources=sources)
        kind = program.header.get("version")
        if "main" not in program.sections or "descriptors" not in program.sections or kind not in (PROGRAM, BODY):
            raise UnreadableProgramError(
                f"{label} holds no program that trtdsl can read: its text is of a form ({str(kind)[:40]}) not known"
            )
        if kind == PROGRAM:
            programs.append(program)
        elif programs:
            programs[-1].bodies.append(program)
    if not programs:
        raise UnreadableProgramError(f"{label} holds no program that trtdsl can read: there is no text in it")
    return tuple(programs)


def _texts(data: bytes) -> list[str]:
    """The texts by their marks: four letters, the number of a version, the text's length, the text."""
    texts, start = [], data.find(MARK)
    while start >= 0:
        begin = start + len(MARK) + 12
        length = int.from_bytes(data[begin - 8 : begin], "little")
        if data.startswith(START, begin):
            if begin + length > len(data):
                raise ProgramDamagedError("the plan ends in the middle of its program")
            texts.append(data[begin : begin + length].decode("utf-8", "replace"))
            start = begin + length
        start = data.find(MARK, max(start, begin))
    return texts


def _sources(data: bytes) -> dict[str, str]:
    """The sources by their kernels' names: four zeros, the text's length, the text.

    A kernel that several launches have stands in the plan as often: ProgramDamagedError where two copies differ.
    """
    found: dict[str, str] = {}
    for match in SOURCE.finditer(data):
        begin = match.end()
        length = int.from_bytes(match["length"], "little")
        if length <= len(data) - begin:
            text = data[begin : begin + length].decode("utf-8", "replace").rstrip("\0")
            for name in KERNEL.findall(text):
                known = found.setdefault(name, text)
                if known != text and COMMENT.sub(" ", known) != COMMENT.sub(" ", text):
                    raise ProgramDamagedError(f"two copies of the kernel {name} differ")
    return found


def plain(name: str) -> str:
    """A network tensor's own name: a program adds ``.1``, and ``[profile 1]`` where there are several.

    >>> plain("x [profile 1].1")
    'x'
    """
    head, dot, tail = name.rpartition(".")
    name = head if dot and tail.isdigit() else name
    head, bracket, tail = name.rpartition(" [profile ")
    return head if bracket and tail.endswith("]") else name


def _descriptor(record: Record, *, view: bool) -> Descriptor:
    name, dtype = record.text("name"), record.text("type")
    dims, strides = _dimensions(record, "dims"), _dimensions(record, "strides")
    if not name or len(dims) != len(strides) or any(isinstance(size, int) and size < 0 for size in dims):
        raise ProgramDamagedError(
            f"the plan's program has a tensor {name[:40]!r} of {len(dims)} sizes and other strides"
        )
    if dtype not in BITS:
        raise ProgramDamagedError(f"the plan's program has a tensor of the type {dtype[:40]!r}, which is not known")
    payload = record.number("const_payload_size", -1)
    static = [size for size in dims if isinstance(size, int)]
    if payload >= 0 and len(static) == len(dims) and (math.prod(static) * BITS[dtype] + 7) // 8 != payload:
        raise ProgramDamagedError(f"the plan's program has a constant {name[:40]!r} of another size than its shape")
    if not view and payload < 0 and record.number("offset", 0) % max(record.number("alignment", 1), 1):
        raise ProgramDamagedError(f"the plan's program has a tensor {name[:40]!r} that is not aligned as it says")
    return Descriptor(
        name,
        dims,
        strides,
        dtype,
        record.text("region"),
        record.number("const_offset" if view else "offset"),
        record.text("base") if view else None,
        payload >= 0,
        record.text("is_scratchspace") == "1" or name.startswith("__scratch_space"),
        record.text("var_offset") or None,
    )


def _dimensions(record: Record, key: str) -> tuple[Dimension, ...]:
    return tuple(
        text if isinstance(text, Quoted) or not text.lstrip("-").isdigit() else as_number(text, key)
        for text in record.texts(key)
    )
