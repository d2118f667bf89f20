"""Files of safetensors, which are memory-mapped; folders and indexes of several; what a torch checkpoint becomes."""

from __future__ import annotations

import math
import os
import re
import warnings
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import IO, Annotated, BinaryIO, NamedTuple

from msgspec import Meta, Struct

from ...core.errors import UNPRINTED, NoWeightsError, TrtdslError, WeightsDamagedError, printed
from ...core.files.held import hold, one_state
from ...core.files.reading import LARGEST, Count, Text, as_struct, open_input, parse_json, read_file, written
from ...core.files.snapshot import Snapshot
from ...core.files.writing import Kind, check_writable, write_atomically
from ..common import UsageError, WeightsError, dtype_name, file_name, is_file, is_folder, nearest, nearest_beside, torch

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
        with safe_open(path, "np"):  # as torch's it would touch every page
            change = snapshot.change()
        if change is not None:  # it is another file that was taken
            raise WeightsError(f"the weights file {path} changed while it was opened: {change}. Start again")
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


BEYOND = 1 << 30
TOO_MUCH = f"it is more than {BEYOND >> 30} GiB beyond the file"
LONGEST_NAME = 1024
MOST_STEPS = 3_000_000  # of pickles: torch writes 30 for a tensor and 40 for a parameter, and takes 1 µs for each
PICKLES = 5  # of torch's first format: a mark, its version, the machine's sizes, the state, its storages' keys

# Saved checks and derived values are safetensors, too, of other kinds.
WEIGHTS = Kind("a file of weights", r'.{4}\0{4}\s*\{(?!"__metadata__":\{"trtdsl)')


@one_state
def convert_weights(source: str | os.PathLike[str], output: str | os.PathLike[str]) -> list[str]:
    """Writes a torch checkpoint's state_dict as safetensors and gives the names written.

    Loads with ``weights_only=True``: a pickle that would run code is refused. A checkpoint that holds the state_dict
    under ``state_dict``, ``model``, ``model_state`` or ``model_state_dict`` is unwrapped; a common ``module.`` prefix
    is dropped. Raises UsageError when there is no such file, where it is written to while it is read, or ``output``
    cannot be written, CorruptFileError for anything that is not a checkpoint of tensors by name, WeightsError naming
    those that safetensors does not hold.
    """
    target = check_writable(output, WEIGHTS, [("checkpoint", source)])
    try:
        with open_input(source) as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's, of what it makes itself
            try:
                limit = _unpacked_limit(file)
                state = torch.load(file, map_location="cpu", weights_only=True)
            finally:
                hold(source, os.fstat(file.fileno()))  # written to meanwhile, some tensors would be new and some old
    except FileNotFoundError:
        raise UsageError(f"no such file: {source}") from None
    except TrtdslError:
        raise
    except Exception as error:
        reason = str(getattr(error, "strerror", None) or error).split("\n")[0].split(". ")[0]
        if isinstance(error, AttributeError):  # of torch's first format, by dtypes that are newer
            reason = (
                "torch cannot read a tensor of it in its first format: save it again, in the one that has been usual"
            )
        raise WeightsDamagedError(
            f"{source} is not a torch checkpoint that loads without running code: {reason}"
            + ": save the weights alone, as torch.save(module.state_dict(), FILE)" * ("only load" in reason)
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
    write_atomically(target, as_safetensors(state, f"{source} cannot be converted: "))
    return list(state)


def _unpacked_limit(file: BinaryIO) -> int:
    """Bytes that what a torch checkpoint holds may take. ValueError where the parts of an archive are more: torch packs
    none; and for pickles that torch takes minutes to read or to refuse.
    """
    limit, left = os.fstat(file.fileno()).st_size + BEYOND, MOST_STEPS
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as parts:
            if sum(part.file_size for part in parts.infolist()) > limit:
                raise ValueError(f"unpacked, {TOO_MUCH}")
            for name in parts.namelist():
                if name.endswith("data.pkl"):
                    with parts.open(name) as pickled:
                        left -= _checked_steps(pickled, left)
    else:
        file.seek(0, os.SEEK_SET)
        for _ in range(PICKLES):
            left -= _checked_steps(file, left)
    file.seek(0, os.SEEK_SET)
    return limit


def _checked_steps(pickled: IO[bytes], most: int) -> int:
    """How many steps a pickle has. ValueError for what is no pickle, for more steps than ``most``, and for one with a
    name that is too long, or that makes bytes of any number.
    """
    from pickletools import genops

    steps = 0
    for steps, (opcode, argument, _) in enumerate(genops(pickled), 1):
        if steps > most:
            raise ValueError(f"its pickle has more than {MOST_STEPS:,} steps, of which a tensor takes some 30")
        if opcode.name == "GLOBAL" and str(argument).endswith(" bytearray"):
            raise ValueError("it makes bytes, of which a checkpoint has none")
        if opcode.name == "GLOBAL" and len(str(argument)) > LONGEST_NAME:
            raise ValueError(f"it names what has a name of {len(str(argument)):,} characters")
    return steps


def as_safetensors(state: Mapping[str, torch.Tensor], label: str = "") -> bytes:
    """A state_dict as a file's bytes: tensors that share memory apart, and views as what they show.

    Raises WeightsError, which begins with ``label``, naming the tensors that a file cannot hold: sparse, quantized and
    meta ones, among others.
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
        raise WeightsError(f"{label}a safetensors file does not hold these tensors:\n" + "\n".join(problems)) from None
