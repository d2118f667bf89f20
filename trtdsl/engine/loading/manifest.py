"""The manifest beside an engine, read strictly: its entries, or one error that says where it is wrong."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from ...core.backend import DTYPES as TENSORRT_DTYPES
from ...core.caller import to_write
from ...core.errors import ManifestDamagedError, ManifestMissingError
from ...core.files.names import is_file
from ...core.files.reading import LARGEST, Count, Int, Text, as_struct, check_schema, parse_json, read_file, written
from ...core.files.writing import as_json, json_kind
from .requirements import Requirement, checked_expression
from .signature import Shapes, Signature, TensorInfo

DTYPES = tuple(TENSORRT_DTYPES.values())
MANIFEST_SCHEMA = 3
READ_SCHEMAS = (2, 3)
"""3 adds what is required of sizes, and the figures of the engine's program."""

SizeText = Annotated[Text, Meta(max_length=4096)]
"""A dynamic size: an expression in the author's dimensions."""
Digest = Annotated[str, written(r"\A[0-9a-f]{64}\Z", "a SHA-256 hash")]
Version = Annotated[str, written(r"\A[0-9]{1,9}(\.[0-9]{1,9}){1,3}([.+-]?[0-9A-Za-z.]{1,40})?\Z", "a version")]


class Backend(Struct, frozen=True):
    """The product and the version that built the engine."""

    name: Annotated[str, written(r"\Atensorrt(-rtx)?\Z", "tensorrt or tensorrt-rtx")]
    version: Version


class EngineFile(Struct, frozen=True):
    """The engine's own file."""

    sha256: Digest
    bytes: Count


class Entry(Struct, frozen=True):
    """An input or an output."""

    dtype: str
    shape: Annotated[tuple[Count | SizeText, ...], Meta(max_length=8)]
    format: Literal["channels_last"] | None = None
    longest: SizeText | None = None
    """What the greatest of an input of lengths is, or how long the longest sequence of one that is padded."""
    padding: float | None = None
    """What stands behind the ends of sequences."""

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ValueError(f"the dtype must be one of {', '.join(DTYPES)}")
        if self.format is not None and len(self.shape) not in (4, 5):
            raise ValueError("channels last are 4 or 5 dimensions")


class InputRange(Struct, frozen=True):
    """The shapes of an input for which an engine is built."""

    min: tuple[Count, ...]
    opt: tuple[Count, ...]
    max: tuple[Count, ...]

    def __post_init__(self) -> None:
        if not len(self.min) == len(self.opt) == len(self.max):
            raise ValueError("min, opt and max must have as many sizes")
        if not all(low <= opt <= high for low, opt, high in zip(self.min, self.opt, self.max)):
            raise ValueError("it must have min <= opt <= max")

    @property
    def shapes(self) -> Shapes:
        """At min, opt and max."""
        return self.min, self.opt, self.max


class ProfileEntry(Struct, frozen=True):
    """One set of sizes that an engine is tuned for."""

    inputs: dict[str, InputRange]
    dims: dict[str, tuple[Count, Count, Count]] = {}

    def __post_init__(self) -> None:
        for name, (low, opt, high) in self.dims.items():
            if not low <= opt <= high:
                raise ValueError(f"dims: {name!r} must have min <= opt <= max")


class PlaceEntry(Struct, frozen=True):
    """Where a dimension is found: ``factor * dimension + offset`` is the size of an input's axis."""

    input: str
    axis: Count
    factor: Annotated[int, Meta(ge=1, le=2**63 - 1)]
    offset: Int


class RequirementEntry(Struct, frozen=True):
    """A condition of sizes."""

    condition: str
    expression: Any
    dims: dict[str, PlaceEntry]
    why: str = ""

    def __post_init__(self) -> None:
        if checked_expression(self.expression, self.dims) is None:
            raise ValueError("the expression must be a comparison of sizes")

    def requirement(self) -> Requirement:
        """As the signature judges feeds by it."""
        places = {name: (place.input, place.axis, place.factor, place.offset) for name, place in self.dims.items()}
        return Requirement(self.condition, self.why, checked_expression(self.expression, places) or (), places)


class Config(Struct, frozen=True):
    """The builder's options that loading needs."""

    version_compatible: bool = False
    strip_weights: bool = False


class Plugin(Struct, frozen=True):
    """A plugin that the engine needs."""

    name: str
    version: str
    namespace: str = ""


class Refit(Struct, frozen=True, kw_only=True):
    """How the values of an engine that takes new weights are made."""

    structure_sha256: str
    values_sha256: str
    weights: tuple[str, ...]
    """The state_dict names."""
    values: dict[str, tuple[Count, str]]
    """Number of elements and dtype of each layer's."""
    expected: dict[str, tuple[tuple[Count, ...], str]]
    """Shape and dtype of each weight."""
    dims: dict[str, Int | Annotated[tuple[Int, ...], Meta(min_length=2, max_length=3)]]
    network: str | None = None
    precision: str | None = None
    identical: bool = False
    lowerings: tuple[tuple[str, str, str, str, int, str], ...] = ()
    precisions: tuple[tuple[str, str, str, str, int, str, tuple[float, ...]], ...] = ()
    settings: dict[str, bool | int | float | str | dict[str, str] | None] | None = None

    def __post_init__(self) -> None:
        for name, value in (self.settings or {}).items():
            if isinstance(value, dict) and value.keys() != {"file"}:
                raise ValueError(f"settings: {name!r} must be a value or a file")


class Check(Struct, frozen=True):
    """What a check found, and what it did not prove."""

    passed: bool = False
    statement: str = ""
    cases: tuple[dict[str, int], ...] = ()
    max_relative_to_scale: float | str = 0.0
    quality: bool = True
    """Whether the error is of the precision that the engine has; otherwise exact arithmetic alone was compared."""
    relaxed: tuple[str, ...] = ()
    unproven: tuple[str, ...] = ()
    reason: str = ""
    """Why there was none."""


class Precisions(Struct, frozen=True):
    """The precision of each call: how many have which, its file, and what was measured on which data."""

    calls: dict[str, Count]
    file: str | None = None
    sha256: Digest | None = None
    data: str = ""
    sqnr: dict[str, float | None] = {}
    """Decibels by output; None for an exact one."""


class SourceFile(Struct, frozen=True):
    """A file that the engine was built from."""

    file: str | None
    sha256: Digest


class Figures(Struct, frozen=True):
    """Sizes that TensorRT computes outside of the program's text."""

    handed: dict[str, SizeText] = {}


class Manifest(Struct, frozen=True, kw_only=True, dict=True):
    """The entries of a manifest that are read; there are more."""

    schema: int
    network: str
    backend: Backend
    compute_capabilities: tuple[str, ...]
    inputs: dict[str, Entry]
    outputs: dict[str, Entry]
    profiles: Annotated[tuple[ProfileEntry, ...], Meta(min_length=1)]
    engine: EngineFile
    requirements: tuple[RequirementEntry, ...] = ()
    config: Config = Config()
    states: dict[str, str] = {}
    """Of each input that is a state, the output that the next run takes for it."""
    slots: dict[str, Count] | None = None
    """Of states that have a slot for each token, the dimension of them. Earlier manifests do not say it."""
    in_place: dict[str, str] | tuple[str, ...] | None = None
    """Of inputs that TensorRT writes where they lie, the outputs at their addresses. Earlier manifests name states."""
    settings: dict[str, Any] = {}
    """What the network was made for; ``rank`` and ``ranks`` of one of several GPUs."""
    plugins: tuple[Plugin, ...] = ()
    refit: Refit | None = None
    check: Check = Check()
    program: Figures = Figures()
    trtdsl: str = ""
    precision: str = ""
    precisions: Precisions | None = None
    source: SourceFile | None = None
    weights: SourceFile | None = None

    def __post_init__(self) -> None:
        for index, profile in enumerate(self.profiles):
            for name, info in self.inputs.items():
                if name not in profile.inputs or len(profile.inputs[name].min) != len(info.shape):
                    raise ValueError(f"profiles[{index}].inputs must have {len(info.shape)} sizes for {name!r}")
        for name, output in self.states.items():
            if name not in self.inputs or self.outputs.get(output) != self.inputs[name]:
                raise ValueError(f"states: {name!r} must be an input that is like the output {output!r}")
        for name, axis in (self.slots or {}).items():
            if name not in self.states or not 0 < axis < len(self.inputs[name].shape):
                raise ValueError(f"slots: {name!r} must be a state, and {axis} one of its dimensions after the first")
        if len(set(self.states.values())) < len(self.states):
            raise ValueError("states: each must have an output of its own")
        for index, each in enumerate(self.requirements):
            for name, place in each.dims.items():
                if place.input not in self.inputs or place.axis >= len(self.inputs[place.input].shape):
                    raise ValueError(f"requirements[{index}].dims: {name!r} must be a dimension of an input")

    @cached_property
    def edited(self) -> bool:
        """Whether entries were changed since a build wrote them."""
        facts = vars(self)["facts"]
        return DIGEST in facts and facts[DIGEST] != sealed(facts)[DIGEST]

    @cached_property
    def signature(self) -> Signature:
        """Names, dtypes, shapes and ranges, by which feeds are judged."""
        inputs, outputs = (
            {
                name: TensorInfo(
                    name,
                    each.dtype,
                    tuple(size if isinstance(size, int) else -1 for size in each.shape),
                    channels_last=each.format is not None,
                )
                for name, each in part.items()
            }
            for part in (self.inputs, self.outputs)
        )
        profiles = tuple({name: each.inputs[name].shapes for name in self.inputs} for each in self.profiles)
        requirements = tuple(each.requirement() for each in self.requirements)
        return Signature(inputs, outputs, profiles, requirements)


class PartEntry(Struct, frozen=True):
    """An engine of several, each for some of the sizes."""

    engine: Annotated[str, written(r"\A[^/\\\x00-\x1f]{1,255}\Z", "a file's name, in the folder of the manifest")]
    sha256: Digest
    profiles: tuple[ProfileEntry, ...]


class EnginesFile(Struct, frozen=True):
    """The manifest of several engines that are one network: ``NAME.engines.json``."""

    schema: int
    kind: str
    network: str
    engines: Annotated[tuple[PartEntry, ...], Meta(min_length=1)]


ENGINES = json_kind("the manifest of several engines", "engines")


def read_engines(path: Path) -> EnginesFile | None:
    """The manifest of several engines; None for a file that is none. Raises ManifestDamagedError."""
    try:
        data = read_file(path, LARGEST) if path.suffix == ".json" else b""
    except OSError:
        return None
    if re.match(ENGINES.head.encode(), data) is None:
        return None
    facts = parse_json(data, str(path), "manifest", ManifestDamagedError)
    check_schema(facts, (1,), str(path), ManifestDamagedError)
    return as_struct(facts, EnginesFile, str(path), ManifestDamagedError)


def manifest_path(engine: Path) -> Path:
    """The path of an engine's manifest: ``NAME.engine.json``; where there is none beside a link, beside its target."""
    path = Path(f"{engine}.json")  # with_name() raises for a path without a name
    return Path(f"{os.path.realpath(engine)}.json") if os.path.islink(engine) and not is_file(path) else path


def manifest_bytes(engine: Path) -> bytes:
    """The file beside ``engine``. Raises ManifestMissingError."""
    path = manifest_path(engine)
    try:
        return read_file(path, LARGEST)
    except OSError as error:
        raise ManifestMissingError(
            f"there is no manifest {path} to judge the engine by ({error.strerror}); "
            + to_write(
                "without one, load it with manifest=False",
                "`trtdsl run --no-manifest` and `trtdsl inspect --program` take an engine alone",
            )
        ) from None


def read_manifest(engine: Path) -> Manifest:
    """The manifest beside ``engine``. Raises ManifestMissingError, ManifestDamagedError."""
    return parse_manifest(manifest_bytes(engine), str(manifest_path(engine)))


def parse_manifest(data: bytes, label: str = "the manifest") -> Manifest:
    """A manifest from its bytes; ManifestDamagedError naming the entry that is not as trtdsl writes it."""
    return manifest_of(parse_json(data, label, "manifest", ManifestDamagedError), label)


def manifest_of(facts: dict[str, Any], label: str = "the manifest") -> Manifest:
    """A manifest from the values of its JSON; ManifestDamagedError."""
    check_schema(facts, READ_SCHEMAS, label, ManifestDamagedError)
    found = as_struct(facts, Manifest, label, ManifestDamagedError)
    vars(found)["facts"] = facts
    return found


DIGEST = "manifest_sha256"


def sealed(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest with the hash of all its other entries, by which a reader knows that nobody changed it."""
    facts = {key: value for key, value in manifest.items() if key != DIGEST}
    text = as_json(json.loads(as_json(facts)), sort_keys=True)  # as it is when it is read again
    return {**facts, DIGEST: hashlib.sha256(text.encode()).hexdigest()}
