"""The manifest beside an engine, read strictly: its entries, or one error that says where it is wrong."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core.backend import DTYPES as TENSORRT_DTYPES
from ...core.caller import to_write
from ...core.errors import ManifestDamagedError, ManifestMissingError
from .requirements import Place, Requirement, checked_expression
from .signature import Shapes, Signature, TensorInfo

DTYPES = tuple(TENSORRT_DTYPES.values())
MANIFEST_SCHEMA = 3
READ_SCHEMAS = (2, 3)
"""3 adds what is required of sizes, and the figures of the engine's program."""
VERSION = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){1,3}([.+-]?[0-9A-Za-z.]{1,40})?")
SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Manifest:
    """The entries of a manifest that loading and running an engine need; ``facts`` has all entries."""

    network: str
    product: str
    """``tensorrt`` or ``tensorrt-rtx``."""
    version: str
    compute_capabilities: tuple[str, ...]
    signature: Signature
    sha256: str
    size: int
    version_compatible: bool
    stripped: bool
    plugins: tuple[tuple[str, str, str], ...]
    """Name, version and namespace of each that the engine needs."""
    weights: tuple[str, ...]
    """The state_dict names that a refittable engine takes new values of."""
    facts: dict[str, Any]


def manifest_path(engine: Path) -> Path:
    """The path of an engine's manifest: ``NAME.engine.json``."""
    return Path(f"{engine}.json")  # with_name() raises for a path without a name


def read_manifest(engine: Path) -> Manifest:
    """The manifest beside ``engine``. Raises ManifestMissingError, ManifestDamagedError."""
    path = manifest_path(engine)
    try:
        data = path.read_bytes()
    except OSError:
        raise ManifestMissingError(
            f"there is no manifest {path} to judge the engine by; without one, load it with "
            f"{to_write('manifest=False', '--no-manifest')}"
        ) from None
    return parse_manifest(data, str(path))


def parse_manifest(data: bytes, label: str = "the manifest") -> Manifest:
    """A manifest from its bytes; ManifestDamagedError naming the entry that is not as trtdsl writes it."""
    try:
        facts = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        raise ManifestDamagedError(f"{label} is not JSON: it is damaged, or not a manifest") from None
    reader = Reader(facts, label)
    if reader.get("schema", int) not in READ_SCHEMAS:
        raise ManifestDamagedError(
            f"{label} has schema {facts['schema']}, and this trtdsl reads {' and '.join(map(str, READ_SCHEMAS))}: use "
            "the one that built it"
        )
    backend, engine = reader.at("backend"), reader.at("engine")
    product, version = backend.get("name", str), backend.get("version", str)
    if product not in ("tensorrt", "tensorrt-rtx"):
        raise backend.wrong("name", "tensorrt or tensorrt-rtx")
    if not VERSION.fullmatch(version):
        raise backend.wrong("version", "a version, such as 1.7.1.116")
    sha256, size = engine.get("sha256", str), engine.get("bytes", int)
    if not SHA256.fullmatch(sha256):
        raise engine.wrong("sha256", "64 hexadecimal digits")
    config = reader.at("config", optional=True)
    refit = reader.at("refit", optional=True)
    _check_refit(refit)
    return Manifest(
        network=reader.get("network", str),
        product=product,
        version=version,
        compute_capabilities=tuple(reader.strings("compute_capabilities")),
        signature=_signature(reader),
        sha256=sha256,
        size=size,
        version_compatible=config.get("version_compatible", bool, False),
        stripped=config.get("strip_weights", bool, False),
        plugins=tuple(_plugins(reader)),
        weights=tuple(refit.strings("weights", optional=True)),
        facts=facts,
    )


class Reader:
    """An object of the manifest and the path to it, for messages."""

    def __init__(self, facts: Any, label: str, path: str = ""):
        self.facts, self.label, self.path = facts, label, path
        if not isinstance(facts, dict):
            raise ManifestDamagedError(f"{label}: {path.rstrip('.') or 'the whole'} must be an object")

    def wrong(self, key: str, expected: str) -> ManifestDamagedError:
        return ManifestDamagedError(f"{self.label}: {self.path}{key} must be {expected}")

    def get(self, key: str, kind: type, default: Any = None) -> Any:
        """A str, a bool, or a non-negative int."""
        value = self.facts.get(key, default)
        right = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        if not right or (kind is int and value < 0):
            raise self.wrong(key, {str: "a string", int: "a number of 0 or more", bool: "true or false"}[kind])
        return value

    def at(self, key: str, *, optional: bool = False) -> Reader:
        return Reader(self.facts.get(key, {} if optional else None), self.label, f"{self.path}{key}.")

    def list(self, key: str, *, optional: bool = False) -> list[Any]:
        value = self.facts.get(key, [] if optional else None)
        if not isinstance(value, list):
            raise self.wrong(key, "a list")
        return value

    def strings(self, key: str, *, optional: bool = False) -> list[str]:
        value = self.list(key, optional=optional)
        if not all(isinstance(item, str) for item in value):
            raise self.wrong(key, "a list of strings")
        return value

    def sizes(self, key: str, rank: int | None = None) -> tuple[int, ...]:
        """A concrete shape."""
        value = self.list(key)
        sizes = tuple(size for size in value if isinstance(size, int) and not isinstance(size, bool) and size >= 0)
        if len(sizes) != len(value) or (rank is not None and len(sizes) != rank):
            raise self.wrong(key, f"{'' if rank is None else f'{rank} '}sizes of 0 or more")
        return sizes


def _signature(reader: Reader) -> Signature:
    inputs, outputs = {}, {}
    for tensors, part in ((inputs, reader.at("inputs")), (outputs, reader.at("outputs"))):
        for name in part.facts:
            tensors[name] = _tensor(name, part.at(name))
    profiles = []
    for index, item in enumerate(reader.list("profiles")):
        shapes = Reader(item, reader.label, f"profiles[{index}].").at("inputs")
        profiles.append({name: _range(shapes.at(name), len(info.shape)) for name, info in inputs.items()})
    if not profiles:
        raise reader.wrong("profiles", "a list of at least one")
    return Signature(inputs, outputs, tuple(profiles), tuple(_requirements(reader, inputs)))


def _requirements(reader: Reader, inputs: dict[str, TensorInfo]) -> list[Requirement]:
    requirements = []
    for index, item in enumerate(reader.list("requirements", optional=True)):
        each = Reader(item, reader.label, f"requirements[{index}].")
        places: dict[str, Place] = {}
        dims = each.at("dims")
        for name in dims.facts:
            place = dims.at(name)
            tensor, axis = place.get("input", str), place.get("axis", int)
            if tensor not in inputs or axis >= len(inputs[tensor].shape):
                raise place.wrong("axis", "a dimension of an input")
            factor, offset = place.get("factor", int), place.facts.get("offset")
            if factor == 0 or isinstance(offset, bool) or not isinstance(offset, int):
                raise place.wrong("factor", "1 or more, with a number as offset")
            places[name] = (tensor, axis, factor, offset)
        expression = checked_expression(each.facts.get("expression"), places)
        if expression is None:
            raise each.wrong("expression", "a comparison of sizes")
        requirements.append(Requirement(each.get("condition", str), each.get("why", str, ""), expression, places))
    return requirements


def _tensor(name: str, reader: Reader) -> TensorInfo:
    dtype = reader.get("dtype", str)
    if dtype not in DTYPES:
        raise reader.wrong("dtype", f"one of {', '.join(DTYPES)}")
    shape = reader.list("shape")
    if len(shape) > 8:
        raise reader.wrong("shape", "a list of at most 8 sizes")
    for size in shape:  # a dynamic size is text: the expression in the author's dimensions
        if isinstance(size, bool) or not isinstance(size, (int, str)) or (isinstance(size, int) and size < 0):
            raise reader.wrong("shape", "sizes of 0 or more, and text for dynamic ones")
    return TensorInfo(name, dtype, tuple(size if isinstance(size, int) else -1 for size in shape))


def _range(reader: Reader, rank: int) -> Shapes:
    low, opt, high = (reader.sizes(key, rank) for key in ("min", "opt", "max"))
    if not all(a <= b <= c for a, b, c in zip(low, opt, high, strict=True)):
        raise ManifestDamagedError(f"{reader.label}: {reader.path.rstrip('.')} must have min <= opt <= max")
    return low, opt, high


def _check_refit(reader: Reader) -> None:
    """What refitting needs, where the engine takes new weights."""
    if "values" not in reader.facts:
        return
    for key in ("structure_sha256", "values_sha256"):
        reader.get(key, str)
    for key in ("network", "precision"):
        if reader.facts.get(key) is not None:
            reader.get(key, str)
    reader.get("identical", bool, False)
    reader.strings("weights")
    for item in reader.list("lowerings", optional=True):
        kinds = [type(part) for part in item] if isinstance(item, list) else []
        if kinds != [str, str, str, str, int, str]:
            raise reader.wrong("lowerings", "lists of a call's five names and its lowering")
    values, expected, dims = reader.at("values"), reader.at("expected"), reader.at("dims")
    for name in values.facts:
        pair = values.list(name)
        if len(pair) != 2 or type(pair[0]) is not int or pair[0] < 0 or not isinstance(pair[1], str):
            raise values.wrong(name, "a number of elements and a dtype")
    for name in expected.facts:
        pair = expected.list(name)
        sizes = pair[0] if len(pair) == 2 and isinstance(pair[0], list) else [None]
        if not all(type(size) is int and size >= 0 for size in sizes) or not isinstance(pair[-1], str):
            raise expected.wrong(name, "a shape and a dtype")
    for name, given in dims.facts.items():
        sizes = given if isinstance(given, list) else [given]
        if not sizes or not all(type(size) is int for size in sizes):
            raise dims.wrong(name, "a size, or the sizes of a range")


def _plugins(reader: Reader) -> list[tuple[str, str, str]]:
    plugins = []
    for index, item in enumerate(reader.list("plugins", optional=True)):
        each = Reader(item, reader.label, f"plugins[{index}].")
        plugins.append((each.get("name", str), each.get("version", str), each.get("namespace", str, "")))
    return plugins
