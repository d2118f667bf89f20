"""Weights by state_dict name from safetensors: memory-mapped, read one tensor at a time, strict."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Union

from msgspec import Struct

from ..core.caller import option
from ..core.dtypes import dtype_name
from ..core.errors import Location, UsageError, WeightsDamagedError, WeightsError, nearest
from ..core.files import (
    UNPRINTED,
    WEIGHTS,
    Snapshot,
    check_characters,
    check_writable,
    file_name,
    is_file,
    write_atomically,
)
from ..core.lazy import torch
from ..core.reading import (
    LARGEST,
    TOO_MUCH,
    Count,
    Text,
    as_struct,
    open_regular,
    parse_json,
    read_file,
    unpacked_limit,
)
from ..sizes.shape import shape_text
from .operation import author_location
from .tensor import Tensor

if TYPE_CHECKING:
    from .network import Network

Source = Union[str, "os.PathLike[str]", Mapping[str, "torch.Tensor"], "Weights"]
"""A safetensors file, a folder or an index of several, tensors by name, or what was opened already: the same content,
whatever became of the files."""

IGNORED = "num_batches_tracked"  # batch norm's counter of training steps

# safetensors' names of dtypes that torch calls otherwise
SAFETENSORS_DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}


class Weights:
    """The tensors of a safetensors file, of the files that a folder or an index names, or of a mapping from names to
    torch tensors; and which of them were used.

    A folder is that of a published checkpoint: it holds ``model.safetensors``, or ``model.safetensors.index.json`` and
    the files that it names, or one safetensors file of another name. What a file holds is that of the moment when it
    was opened; Weights of Weights share it, and no memory that one of them writes to. Of two names that are ``tied``,
    the source may hold one alone. Raises WeightsError when there is no such file, where an index names files or tensors
    that are not there, and for tied tensors that differ; WeightsDamagedError for what is not safetensors or truncated.
    """

    def __init__(self, source: Source, *, tied: Mapping[str, str] | None = None):
        self.used: set[str] = set()
        self.shapes: dict[str, tuple[int, ...]]
        self.dtypes: dict[str, str]
        self._tensors: dict[str, torch.Tensor] = {}
        self._files: list[_File] = []
        self._same: dict[str, str] = {}
        if isinstance(source, Weights):
            tied = source._tied if tied is None else tied
            source = source if source._files else source._given
        if isinstance(source, Mapping):
            self.path = None
            self._given = {name: _plain(name, tensor) for name, tensor in source.items()}
            self.shapes = {name: tuple(tensor.shape) for name, tensor in source.items()}
            self.dtypes = {name: dtype_name(tensor.dtype) for name, tensor in source.items()}
        else:
            if isinstance(source, Weights):
                self.path, self._files = source.path, [file.again() for file in source._files]
            elif not isinstance(source, (str, os.PathLike)):
                kind = type(source).__name__
                raise UsageError(f"weights are a safetensors file, tensors by name or td.Weights, not {kind}")
            else:
                if not os.fspath(source):
                    raise WeightsError("the weights file '' cannot be read: it has no name")
                self.path = Path(source)
                self._files = _opened_files(self.path)
            self._holders = {name: file for file in self._files for name in file.names}
            self.shapes = {name: self._holders[name].header.shapes[name] for name in sorted(self._holders)}
            self.dtypes = {name: self._holders[name].header.dtypes[name] for name in self.shapes}
        self._tied = dict(tied or {})
        for name, other in self._tied.items():
            self._tie(name, other)

    def _tie(self, name: str, other: str) -> None:
        """Gives two names one tensor, that of the one which is there."""
        if name in self.shapes and other in self.shapes:
            alike = self.shapes[name] == self.shapes[other] and self.dtypes[name] == self.dtypes[other]
            if not alike or not torch.equal(self._value(name), self._value(other)):
                raise WeightsError(f"{self.label}: {name} and {other} are tied, and their values differ")
            return
        if name not in self.shapes and other not in self.shapes:
            return
        made, there = (name, other) if other in self.shapes else (other, name)
        self._same[made] = there
        self.shapes[made], self.dtypes[made] = self.shapes[there], self.dtypes[there]

    @cached_property
    def children(self) -> Mapping[str, Sequence[str]]:
        """For every module ("" is the network itself) the names of its parts, in order."""
        return _parts(tuple(self.shapes))

    def __repr__(self) -> str:
        return f"Weights({self.label}: {len(self.shapes)} tensors)"

    @property
    def label(self) -> str:
        """The file's name for messages."""
        return str(self.path) if self.path else "the weights given"

    def get(self, name: str) -> torch.Tensor:
        """The tensor of that name: a view of the mapped file where it is one."""
        self.used.add(name)
        return self._value(name)

    def _value(self, name: str) -> torch.Tensor:
        name = self._same.get(name, name)
        tensor = self._tensors.get(name)
        if tensor is None:  # the caller may change his own, and so may a reference
            made = self._given[name].clone() if self.path is None else self._holders[name].mapped(name)
            tensor = self._tensors[name] = made
        return tensor

    def check_unchanged(self) -> None:
        """WeightsError, which says what became of it, where a file is another one than when it was opened."""
        for file in self._files:
            file.check_unchanged()

    @staticmethod
    def is_counter(name: str) -> bool:
        """Whether it is batch norm's counter of training steps, which no network uses."""
        return name.endswith(IGNORED)

    def metadata(self) -> Mapping[str, str] | None:
        """The metadata in the safetensors file; None for a mapping and for a file without metadata."""
        return self._files[0].header.metadata if self._files else None

    def check(
        self,
        expected: Mapping[str, tuple[tuple[int, ...], str]] | None,
        constants: Sequence[str] = (),
        *,
        allow_nonfinite: bool = False,
    ) -> None:
        """Compares all names, shapes and dtypes with ``expected``, and reports all problems at once.

        ``constants`` are there besides. With a problem it looks for NaN and Inf, too, unless they are allowed. Raises
        WeightsError listing all, sorted by name.
        """
        problems: dict[str, str] = {}
        found = dict(zip(self.shapes, zip(self.shapes.values(), self.dtypes.values(), strict=True), strict=True))
        wanted = (
            found if expected is None else {**{name: found[name] for name in constants if name in found}, **expected}
        )
        problems.update((name, "missing: a constant of the network") for name in constants if name not in found)
        for name, (shape, dtype) in wanted.items() if wanted != found else ():
            if name.endswith(IGNORED):
                continue
            if name not in found:
                problems[name] = f"missing: {shape_text(shape)} {dtype}{nearest(name, found)}"
            elif self.shapes[name] != shape:
                problems[name] = f"has shape {shape_text(self.shapes[name])}, not {shape_text(shape)}"
            elif self.dtypes[name] != dtype:
                problems[name] = f"is {self.dtypes[name]}, not {dtype}"
        for name in found.keys() - wanted.keys():
            if not name.endswith(IGNORED):
                problems[name] = f"unused: {shape_text(self.shapes[name])}{nearest(name, wanted)}"
        if problems and not allow_nonfinite:
            problems = {**self.nonfinite(), **problems}
        self._raise(problems, wanted)

    def check_finite(self, places: Mapping[str, Location] | None = None) -> None:
        """WeightsError naming every tensor with a NaN or an Inf, at the place of the first of them."""
        self._raise(self.nonfinite(), places=places or {})

    def add_buffers(self, buffers: Mapping[str, torch.Tensor]) -> None:
        """Further tensors, which are not the file's: those that a module makes for itself."""
        for name, tensor in buffers.items():
            self._tensors[name] = _plain(name, tensor).clone()  # it may be the reference's own, which forward changes
            self.shapes[name], self.dtypes[name] = tuple(tensor.shape), dtype_name(tensor.dtype)
            self.used.add(name)

    def check_all_used(self, unused: Sequence[str] = ()) -> None:
        """Raises WeightsError naming every tensor that the network did not use, but for those in ``unused`` modules."""
        known = tuple(f"{part}." for part in unused)
        tied = {*self._tied, *self._tied.values()} if self.used & {*self._tied, *self._tied.values()} else set()
        left = [
            name
            for name in self.shapes.keys() - self.used - tied
            if not name.endswith(IGNORED) and not f"{name}.".startswith(known)
        ]
        self._raise({name: f"unused: {shape_text(self.shapes[name])}" for name in left})

    def sha256(self) -> str:
        """The file's hash; that of the hashes of several files; for a mapping, that of names and values."""
        import hashlib

        if len(self._files) == 1:
            return self._files[0].snapshot.sha256()
        digest = hashlib.sha256()
        if self._files:
            for file in self._files:
                digest.update(f"{file.snapshot.path.name} {file.snapshot.sha256()}\n".encode())
            return digest.hexdigest()
        for name in sorted(self.shapes):
            digest.update(f"{name} {self.dtypes[name]} {self.shapes[name]}".encode())
            digest.update(self._value(name).contiguous().flatten().view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()

    def nonfinite(self) -> dict[str, str]:
        """What is to be said of each tensor that has a NaN or an Inf, by its name."""
        found: dict[str, str] = {}
        for name in self._given if self.path is None else self._holders:  # a module's own buffers may hold Inf
            tensor = self._value(name)
            if name.endswith(IGNORED) or not _may_be_nonfinite(tensor):
                continue
            total = int((~torch.isfinite(tensor)).sum())
            if total:
                nans = int(torch.isnan(tensor).sum())
                how = option("allow_nonfinite")
                found[name] = f"has {nans} NaN and {total - nans} Inf ({how} builds it all the same)"
        return found

    def _raise(
        self, problems: dict[str, str], wanted: Collection[str] = (), places: Mapping[str, Location] | None = None
    ) -> None:
        if problems:
            first = sorted(problems.items(), key=_natural)
            location = next((places[name] for name, _ in first if name in places), None) if places else None
            strange = (
                bool(wanted)
                and len(problems) > SHOWN
                and not any(name in self.shapes for name in wanted if not self.is_counter(name))
            )
            lines = "\n".join(f"  {name}: {problem}" for name, problem in (first[:SHOWN] if strange else first))
            if strange:
                raise WeightsError(
                    f"no name in {self.label} is one of the network's weights: is it another network's file?\n"
                    f"{lines}\n  … ({len(problems)} in all)"
                )
            count = f"{len(problems)} weight{'s' if len(problems) > 1 else ''}"
            text = f"{count} in {self.label} do{'' if len(problems) > 1 else 'es'} not fit the network:\n{lines}"
            raise WeightsError(text, location=location)


def check_weights(network: Network) -> None:
    """Looks for NaN and Inf in a network's weights, once, where they are read: before a build and an evaluation.

    Raises WeightsError naming every such weight, at the author's first line that uses the first of them.
    """
    if network.unsearched is not None:
        places: dict[str, Location] = {}
        for layer, names in network.weight_names.items():
            for name in names if layer in network.locations else ():
                places.setdefault(name, network.locations[layer])
        network.unsearched.check_finite(places)
        network.unsearched = None


SEARCHED = 1 << 18
"""Numbers that are looked at twice while they are in the processor's cache."""


def _may_be_nonfinite(tensor: torch.Tensor) -> bool:
    """Whether a floating-point tensor has a NaN or an Inf, by its bits: exact from 16 bits on, False below.

    A number whose exponent is all ones is greater, as an integer with a sign (positive) or without (negative), than
    any finite one of its sign. Nothing is copied, whatever the dtype.
    """
    size = tensor.dtype.itemsize
    if not tensor.dtype.is_floating_point or size < 2 or not tensor.numel():
        return False
    signed = {2: torch.int16, 4: torch.int32, 8: torch.int64}[size]
    bits = tensor.flatten().view(signed).numpy()
    infinity = int(torch.tensor(math.inf, dtype=tensor.dtype).view(signed))
    negative = infinity + (1 << (8 * size - 1))
    parts = (bits[start : start + SEARCHED] for start in range(0, len(bits), SEARCHED))
    return any(part.max() >= infinity or part.view(f"u{size}").max() >= negative for part in parts)


def _plain(name: Any, tensor: Any) -> torch.Tensor:
    """A tensor of a state_dict, detached; UsageError for what is none, and for one that is not on the CPU."""
    if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
        raise UsageError(f"weights are tensors by name, not {type(tensor).__name__} by {type(name).__name__}")
    check_characters(name, "a weight's name")
    if not tensor.is_cpu:
        raise UsageError(f"weights are CPU tensors: {name} is on {tensor.device}")
    return tensor.detach()


def _is_number(text: str) -> bool:
    """Whether a part of a weight's name counts: the name comes from a file."""
    return text.isdecimal() and text.isascii() and len(text) < 19


def _natural(item: tuple[str, str]) -> list[tuple[int, int, str]]:
    return [(0, int(part), "") if _is_number(part) else (1, 0, part) for part in item[0].split(".")]


class Header(NamedTuple):
    """What the header of a safetensors file says: where its tensors begin, and of each by name, in order."""

    start: int
    shapes: dict[str, tuple[int, ...]]
    dtypes: dict[str, str]
    places: dict[str, tuple[int, int]]
    metadata: Mapping[str, str] | None


class TensorEntry(Struct):
    """What a header says of a tensor."""

    dtype: Text
    shape: tuple[Count, ...]
    data_offsets: tuple[Count, Count]


class _File:
    """One safetensors file, and the names of its tensors that count."""

    def __init__(self, snapshot: Snapshot, header: Header, names: Collection[str]):
        self.snapshot, self.header, self.names = snapshot, header, names
        try:
            self._bytes = snapshot.map()
        except OSError as error:  # where the system promises no more memory than it has
            raise WeightsError(f"the weights file {snapshot.path} cannot be mapped: {error.strerror}") from None

    def again(self) -> _File:
        """The same content in memory of its own."""
        return _File(self.snapshot, self.header, self.names)

    def mapped(self, name: str) -> torch.Tensor:
        """The tensor in the mapped file, whose pages are read when they are needed; a copy where torch cannot do so."""
        kind, shape = self.header.dtypes[name], self.header.shapes[name]
        dtype, (begin, end) = getattr(torch, kind, None), self.header.places[name]
        place = self.header.start + begin
        if not isinstance(dtype, torch.dtype) or (end - begin) != dtype.itemsize * math.prod(shape):
            raise WeightsError(f"{self.snapshot.path}: {name} is {kind}, which torch does not read")
        if begin == end:
            return torch.empty(shape, dtype=dtype)
        if self._bytes.size() < place + end - begin:  # reading it would end the process
            self.check_unchanged()
        whole = place % dtype.itemsize == 0
        source = self._bytes if whole else bytearray(self._bytes[place : place + end - begin])
        count = (end - begin) // dtype.itemsize
        flat = torch.frombuffer(source, dtype=dtype, offset=place if whole else 0, count=count)
        return flat if len(shape) == 1 else flat.view(shape)

    def check_unchanged(self) -> None:
        """WeightsError where the file is another one than when it was opened."""
        change = self.snapshot.change()
        if change is not None:
            path = self.snapshot.path
            raise WeightsError(f"the weights file {path} changed while it was in use: {change}. Start again")


SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"


class _Index(Struct):
    """What an index of several files says: the file of each tensor."""

    weight_map: dict[Text, Text]


def weights_files(path: str | os.PathLike[str]) -> list[Path]:
    """The files that hold the weights which ``path`` names, an index first: itself, where it is a safetensors file.

    Raises WeightsError for a folder without weights and for an index that cannot be read or names other folders' files.
    """
    path = Path(path)
    if _is_folder(path):
        path = _in_folder(path)
    if path.suffix != ".json":
        return [path]
    return [path, *(path.parent / name for name in dict.fromkeys(_weight_map(path).values()))]


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name that no file can have
        return False


def _in_folder(folder: Path) -> Path:
    """The file or the index of a checkpoint's folder."""
    found = sorted(each.name for each in folder.glob("*.safetensors"))
    name = next((each for each in (SINGLE, INDEX) if is_file(folder / each)), found[0] if len(found) == 1 else None)
    if name is not None:
        return folder / name
    others = sorted(each.name for pattern in ("*.bin", "*.pt", "*.pth") for each in folder.glob(pattern))
    if found:
        raise WeightsError(f"{folder} has {', '.join(found[:SHOWN])} and no {INDEX}: name one of them, or an index")
    how = f": make one with `trtdsl weights convert {folder / others[0]} {folder / SINGLE}`" if others else ""
    raise WeightsError(f"the folder {folder} has no weights: no {SINGLE} and no {INDEX}{how}")


def _weight_map(path: Path) -> dict[str, str]:
    """The file of each tensor, by an index."""
    try:
        facts = parse_json(read_file(path, LARGEST), str(path), "weights index", WeightsDamagedError)
    except FileNotFoundError:
        beside = [each.name for each in path.parent.glob("*.json")] if path.parent.is_dir() else []
        raise WeightsError(f"no weights file {path}{nearest(path.name, beside)}") from None
    except OSError as error:
        raise WeightsError(f"the index {path} cannot be read: {error.strerror}") from None
    found = as_struct(facts, _Index, str(path), WeightsDamagedError).weight_map
    try:
        for name in set(found.values()):
            file_name(name, what=f"{path}: the file")
    except UsageError as error:
        raise WeightsDamagedError(error.message) from None
    if not found:
        raise WeightsDamagedError(f"{path} names no tensor")
    return found


def _opened_files(path: Path) -> list[_File]:
    """The files that a path names, each with those of its tensors that are taken from it."""
    if _is_folder(path):
        path = _in_folder(path)
    if path.suffix != ".json":
        snapshot = _opened(path)
        header = _header(snapshot)
        return [_File(snapshot, header, header.shapes)]
    tensors: dict[str, list[str]] = {}
    for name, file in _weight_map(path).items():
        tensors.setdefault(file, []).append(name)
    absent = sorted(file for file in tensors if not is_file(path.parent / file))
    if absent:
        lacking = ", ".join(absent[:SHOWN])
        raise WeightsError(
            f"{path} names {len(tensors)} files, and {len(absent)} of them are not there: {lacking}. Is the "
            "download complete?"
        )
    files, missing, there = [], {}, {}
    for file, names in sorted(tensors.items()):
        snapshot = _opened(path.parent / file)
        header = _header(snapshot)
        missing |= {name: file for name in names if name not in header.shapes}
        there |= dict.fromkeys(header.shapes, file)
        files.append(_File(snapshot, header, names))
    if missing:
        lines = "\n".join(
            f"  {name[:80]}: not in {file}{f', but in {there[name]}' if name in there else nearest(name, there)}"
            for name, file in sorted(missing.items(), key=_natural)[:SHOWN]
        )
        more = f"\n  … ({len(missing)} in all)" if len(missing) > SHOWN else ""
        raise WeightsDamagedError(f"files that {path} names lack tensors:\n{lines}{more}")
    return files


def _opened(path: Path) -> Snapshot:
    """The file as it is now, when safetensors takes it."""
    from safetensors import SafetensorError, safe_open

    head = b""
    try:
        snapshot = Snapshot(path)
        head = snapshot.read(8, 0)
        if LARGEST < int.from_bytes(head, "little") < snapshot.version.size:
            raise WeightsDamagedError(f"the header of {path} is larger than the {LARGEST >> 20} MiB that are read")
        with safe_open(path, "np"):  # as torch's it would touch every page
            change = snapshot.change()
        if change is not None:  # it is another file that was taken
            raise WeightsError(f"the weights file {path} changed while it was opened: {change}. Start again")
        return snapshot
    except FileNotFoundError:
        beside = [each.name for each in path.parent.glob("*.safetensors")] if path.parent.is_dir() else []
        hint = nearest(path.name, beside) or f": make it with `trtdsl weights convert CHECKPOINT {path}`"
        raise WeightsError(f"no weights file {path}{hint}") from None
    except (OSError, ValueError, MemoryError) as error:  # ValueError: a name that no file can have
        raise WeightsError(f"the weights file {path} cannot be read: {getattr(error, 'strerror', error)}") from None
    except SafetensorError as error:
        if head.startswith((b"PK", b"\x80")):
            command = f"trtdsl weights convert {path} {path.with_suffix('.safetensors')}"
            raise WeightsDamagedError(
                f"{path} is a torch checkpoint: make it one of safetensors with `{command}`"
            ) from None
        raise WeightsDamagedError(f"{path} is truncated or not a safetensors file: {str(error)[:300]}") from None


def _header(snapshot: Snapshot) -> Header:
    """The header of a file that safetensors has taken: its length in 8 bytes, then JSON."""
    label = f"the header of {snapshot.path}"
    length = int.from_bytes(snapshot.read(8, 0), "little")
    facts = parse_json(snapshot.read(length, 8), label, "safetensors file's", WeightsDamagedError)
    metadata = facts.pop("__metadata__", None)
    if metadata is not None:
        as_struct(metadata, dict[str, str], f"{label}: its metadata", WeightsDamagedError)
    header = Header(8 + length, {}, {}, {}, metadata)
    for name, entry in sorted(as_struct(facts, dict[Text, TensorEntry], label, WeightsDamagedError).items()):
        header.shapes[name] = entry.shape
        header.dtypes[name] = SAFETENSORS_DTYPES.get(entry.dtype, entry.dtype)
        header.places[name] = entry.data_offsets
    return header


@lru_cache(maxsize=8)
def _parts(names: tuple[str, ...]) -> Mapping[str, Sequence[str]]:
    """For every module of such names the names of its parts, in order."""
    found: dict[str, list[str]] = {"": []}
    for name in names:
        module, _, part = name.rpartition(".")
        while module not in found:
            found[module] = [part]
            module, _, part = module.rpartition(".")
        found[module].append(part)
    return found


SHOWN = 8
"""Names that a message lists."""


class Scope:
    """Weights by name, as the attributes of a module: ``w.conv1.weight``, ``w["a.b"]``, ``w.blocks[3]``.

    The last argument of a function under ``@td.network(weights=…)``, or what ``net.weights(…)`` gives. A leaf is a
    constant :class:`Tensor` of the network; anything else is a Scope. Numbered children can be iterated
    (``for block in w.blocks``), taken in part (``w.blocks[1:]``), counted (``len(w.blocks)``) and asked for
    (``"residual" in w``).
    """

    __slots__ = ("_network", "_prefix", "_scopes", "_tensors", "_weights")

    def __init__(self, network: Network, weights: Weights, prefix: str = "", outer: Scope | None = None):
        self._network, self._weights, self._prefix = network, weights, prefix
        self._tensors: dict[str, Tensor] = network.cache.setdefault("weights", {}) if outer is None else outer._tensors
        self._scopes: dict[str, Scope] = {} if outer is None else outer._scopes  # of all modules that were asked for

    def __getattr__(self, name: str) -> Any:
        if name[:2] == "__":
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, key: str | int | slice) -> Any:
        name = f"{self._prefix}{key}"
        if name in self._tensors:
            return self._tensors[name]
        if name in self._scopes:
            return self._scopes[name]
        weights = self._weights
        if name in weights.children:
            scope = self._scopes[name] = Scope(self._network, weights, f"{name}.", self)
            return scope
        if name in weights.shapes:
            tensor = self._tensors[name] = self._network.plain_constant(weights.get(name), (name,))
            return tensor
        if isinstance(key, slice):
            numbers = self._numbers()
            return [self[number] for number in range(max(numbers, default=-1) + 1)[key] if number in numbers]
        if isinstance(key, int) and self._prefix and key >= len(self):
            raise IndexError(f"{self._prefix[:-1]} has no [{key}]: it has {_counted(self._numbers())}")
        if self._prefix and isinstance(key, str) and hasattr(Tensor, key):
            parts = ", ".join(self._children())
            raise WeightsError(
                f"{self._prefix[:-1]!r} is not one weight but several: {parts}", location=author_location()
            )
        module = re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", f"w.{self._prefix}"[:-1])  # as an author writes it
        optional = f'; where it is optional, ask `"{key}" in {module}`' if isinstance(key, str) else ""
        raise WeightsError(
            f"no weight {name!r} in {weights.label}{self._instead(str(key))}{optional}", location=author_location()
        )

    def _instead(self, key: str) -> str:
        """The names most like one that is not there, otherwise what is there."""
        names = self._weights.shapes
        here = self._children() if self._prefix else list(dict.fromkeys(name.split(".")[0] for name in names))
        hint = "" if "." in key else nearest(key, here)
        hint = hint.replace("nearest: ", f"nearest: {self._prefix}").replace(", ", f", {self._prefix}")
        if not hint and (not here or not self._prefix):
            hint = nearest(f"{self._prefix}{key}", names)
        if hint or not here:
            return hint
        # Not other modules' weights of that name: a linear layer without bias has none.
        more = f", … ({len(here)} in all)" if len(here) > SHOWN else ""
        return f": {self._prefix[:-1] or 'it'} has {', '.join(here[:SHOWN])}{more}"

    def __contains__(self, key: object) -> bool:
        name = f"{self._prefix}{key}"
        return name in self._weights.shapes or name in self._weights.children

    def _children(self) -> Sequence[str]:
        return self._weights.children.get(self._prefix[:-1], [])

    def _numbers(self) -> list[int]:
        return sorted(int(child) for child in self._children() if _is_number(child))

    def __len__(self) -> int:
        return len(self._numbers())

    def __iter__(self) -> Iterator[Any]:
        return iter([self[number] for number in self._numbers()])

    def __repr__(self) -> str:
        return f"Scope({self._prefix[:-1] or '.'}: {', '.join(self._children())})"

    def __bool__(self) -> bool:
        return True


def _counted(numbers: Sequence[int]) -> str:
    """The numbers of a module's parts, for a message.

    >>> _counted([0, 1]), _counted([0, 1, 2, 3]), _counted([2, 5]), _counted([])
    ('[0] and [1]', '[0] to [3]', '[2] and [5]', 'no numbered parts')
    """
    if len(numbers) > 2:
        return f"[{numbers[0]}] to [{numbers[-1]}]"
    return " and ".join(f"[{number}]" for number in numbers) or "no numbered parts"


def convert_weights(source: str | os.PathLike[str], output: str | os.PathLike[str]) -> list[str]:
    """Writes a torch checkpoint's state_dict as safetensors and gives the names written.

    Loads with ``weights_only=True``: a pickle that would run code is refused. A checkpoint that holds the state_dict
    under ``state_dict``, ``model``, ``model_state`` or ``model_state_dict`` is unwrapped; a common ``module.`` prefix
    is dropped. Raises UsageError when there is no such file or ``output`` cannot be written, CorruptFileError for
    anything that is not a checkpoint of tensors by name, WeightsError naming those that safetensors does not hold.
    """
    target = check_writable(output, WEIGHTS, [("checkpoint", source)])
    try:
        with open_regular(source) as file:
            limit = unpacked_limit(file)
            state = torch.load(file, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise UsageError(f"no such file: {source}") from None
    except Exception as error:
        reason = str(error).split("\n")[0].split(". ")[0]
        raise WeightsDamagedError(
            f"{source} is not a torch checkpoint that loads without running code: {reason}"
        ) from error
    for key in ("state_dict", "model_state_dict", "model_state", "model"):
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    named = isinstance(state, dict) and all(isinstance(name, str) for name in state)
    if not named or not state or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise WeightsDamagedError(f"{source} holds no state_dict: expected a mapping from names to tensors")
    if all(name.startswith("module.") for name in state):
        state = {name.removeprefix("module."): tensor for name, tensor in state.items()}
    for name in state:
        if name == "__metadata__" or re.search(f"[{UNPRINTED}]", name):
            raise WeightsDamagedError(f"{source} has a tensor {name[:60]!a}, a name that no safetensors file can have")
    if sum(tensor.nbytes for tensor in state.values() if tensor.layout == torch.strided) > limit:
        raise WeightsDamagedError(f"{source} repeats elements: written out, {TOO_MUCH}")
    write_atomically(target, as_safetensors(state))
    return list(state)


def as_safetensors(state: Mapping[str, torch.Tensor]) -> bytes:
    """A state_dict as a file's bytes: tensors that share memory apart, and views as what they show.

    Raises WeightsError naming the tensors that a file cannot hold: sparse, quantized and meta ones, among others.
    """
    from safetensors.torch import save

    refusals = (KeyError, RuntimeError, ValueError)  # of torch and of safetensors

    def saved(tensors: Mapping[str, torch.Tensor]) -> bytes:
        return save({name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()})

    try:
        return saved(state)
    except refusals:  # which do not say what tensor they are about
        problems = []
        for name, tensor in state.items():
            try:
                saved({name: tensor})
            except refusals:
                problems.append(f"  {name}: {dtype_name(tensor.dtype)}, {tensor.layout} on {tensor.device}")
        if not problems:
            raise
        raise WeightsError("a safetensors file does not hold these tensors:\n" + "\n".join(problems)) from None
