"""Files of safetensors, which are memory-mapped; folders and indexes of several."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from ...core.errors import UNPRINTED, NoWeightsError, WeightsDamagedError, printed
from ...core.files.reading import LARGEST, Count, Text, as_struct, parse_json, read_file, written
from ...core.files.snapshot import Snapshot
from ..common import UsageError, WeightsError, file_name, is_file, is_folder, nearest, nearest_beside, torch

# safetensors' names of dtypes that torch calls otherwise
SAFETENSORS_DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "I64": "int64", "I32": "int32", "I16": "int16",
    "I8": "int8", "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip

SHOWN = 8
"""Names that a message lists."""


def is_number(text: str) -> bool:
    """Whether a part of a weight's name counts: the name comes from a file."""
    return text.isdecimal() and text.isascii() and len(text) < 19


def natural(item: tuple[str, str]) -> list[tuple[int, int, str]]:
    return [(0, int(part), "") if is_number(part) else (1, 0, part) for part in item[0].split(".")]


class Header(NamedTuple):
    """What the header of a safetensors file says: where its tensors begin, and of each by name, in order."""

    start: int
    shapes: dict[str, tuple[int, ...]]
    dtypes: dict[str, str]
    places: dict[str, tuple[int, int]]
    metadata: Mapping[str, str] | None


Name = Annotated[
    str, written(rf"\A[^.{UNPRINTED}]*(\.[^.{UNPRINTED}]*){{0,63}}\Z", "printable text of at most 64 parts")
]
"""A tensor's: each of its beginnings is the name of a module."""


class TensorEntry(Struct):
    """What a header says of a tensor."""

    dtype: Text
    shape: Annotated[tuple[Count, ...], Meta(max_length=64)]
    data_offsets: tuple[Count, Count]


class WeightsFile:
    """One safetensors file, and the names of its tensors that count."""

    def __init__(self, snapshot: Snapshot, header: Header, names: Collection[str]):
        self.snapshot, self.header, self.names = snapshot, header, names
        try:
            self._bytes = snapshot.map()
        except OSError as error:  # where the system promises no more memory than it has
            raise WeightsError(f"the weights file {snapshot.path} cannot be mapped: {error.strerror}") from None

    def again(self) -> WeightsFile:
        """The same content in memory of its own."""
        return WeightsFile(self.snapshot, self.header, self.names)

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

    Raises WeightsError for a folder without weights and for an index that cannot be read or names files of other
    folders or none.
    """
    path = _file_or_index(Path(path))
    if path.suffix != ".json":
        return [path]
    return [path, *(path.parent / name for name in _by_file(path))]


def _file_or_index(folder: Path) -> Path:
    """The file or the index that a path names: of a checkpoint's folder what is in it."""
    if not is_folder(folder):
        return folder
    try:
        found = sorted(name for name in os.listdir(folder) if name.endswith(".safetensors"))
    except OSError as error:
        raise NoWeightsError(f"the folder {folder} cannot be read: {error.strerror}") from None
    name = next((each for each in (SINGLE, INDEX) if is_file(folder / each)), found[0] if len(found) == 1 else None)
    if name is not None:
        return folder / name
    others = sorted(each.name for pattern in ("*.bin", "*.pt", "*.pth") for each in folder.glob(pattern))
    if found:
        raise WeightsError(
            f"{folder} has {', '.join(map(printed, found[:SHOWN]))} and no {INDEX}: name one of them, or an index"
        )
    how = f": make one with `trtdsl weights convert {folder / others[0]} {folder / SINGLE}`" if others else ""
    raise NoWeightsError(f"the folder {folder} has no weights: no {SINGLE} and no {INDEX}{how}")


def _by_file(path: Path) -> dict[str, list[str]]:
    """The tensors of each file, by an index."""
    try:
        facts = parse_json(read_file(path, LARGEST), str(path), "weights index", WeightsDamagedError, strict=True)
        there = {os.path.normcase(name) for name in os.listdir(path.parent)}
    except FileNotFoundError:
        raise NoWeightsError(f"no weights file {path}{nearest_beside(path, '.json')}") from None
    except OSError as error:
        raise NoWeightsError(f"the index {path} cannot be read: {error.strerror}") from None
    found = as_struct(facts, _Index, str(path), WeightsDamagedError).weight_map
    try:
        for name in set(found.values()):
            file_name(name, what=f"{path}: the file")
    except UsageError as error:
        raise WeightsDamagedError(error.message) from None
    if not found:
        raise WeightsDamagedError(f"{path} names no tensor")
    tensors: dict[str, list[str]] = {}
    for name, file in found.items():
        tensors.setdefault(file, []).append(name)
    absent = sorted(f for f in tensors if os.path.normcase(f) not in there or not os.path.exists(path.parent / f))
    if absent:
        lacking = ", ".join(absent[:SHOWN])
        raise NoWeightsError(
            f"{path} names {len(tensors)} files, and {len(absent)} of them are not there: {lacking}. Is the "
            "download complete?"
        )
    return tensors


def open_files(path: Path) -> list[WeightsFile]:
    """The files that a path names, each with those of its tensors that are taken from it."""
    path = _file_or_index(path)
    if path.suffix != ".json":
        snapshot = _opened(path)
        header = _header(snapshot)
        return [WeightsFile(snapshot, header, header.shapes)]
    files, missing, there = [], {}, {}
    for file, names in sorted(_by_file(path).items()):
        snapshot = _opened(path.parent / file)
        header = _header(snapshot)
        missing |= {name: file for name in names if name not in header.shapes}
        there |= dict.fromkeys(header.shapes, file)
        files.append(WeightsFile(snapshot, header, names))
    if missing:
        lines = "\n".join(
            f"  {name[:80]}: not in {file}{f', but in {there[name]}' if name in there else nearest(name, there)}"
            for name, file in sorted(missing.items(), key=natural)[:SHOWN]
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
        with safe_open(snapshot.name, "np"):  # as torch's it would touch every page
            return snapshot
    except FileNotFoundError:
        path = path.parent.resolve() / path.name if ".." in path.parts else path
        hint = nearest_beside(path, ".safetensors") or (
            f": make it with `trtdsl weights convert CHECKPOINT {path}`, or in Python with "
            f"safetensors.torch.save_file(module.state_dict(), {path.name!r})"
        )
        raise NoWeightsError(f"no weights file {path}{hint}") from None
    except (OSError, ValueError, MemoryError) as error:  # ValueError: a name that no file can have
        reason = getattr(error, "strerror", None) or error
        raise NoWeightsError(f"the weights file {path} cannot be read: {reason}") from None
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
    facts = parse_json(snapshot.read(length, 8), label, "safetensors file's", WeightsDamagedError, strict=True)
    metadata = facts.pop("__metadata__", None)
    if metadata is not None:
        as_struct(metadata, dict[str, str], f"{label}: its metadata", WeightsDamagedError)
    header = Header(8 + length, {}, {}, {}, metadata)
    for name, entry in sorted(as_struct(facts, dict[Name, TensorEntry], label, WeightsDamagedError).items()):
        header.shapes[name] = entry.shape
        header.dtypes[name] = SAFETENSORS_DTYPES.get(entry.dtype, entry.dtype)
        header.places[name] = entry.data_offsets
    return header
