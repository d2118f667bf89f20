"""Damages files in many ways, and reads them with every Python reader: typed errors, in little time and memory.

``python damage.py FOLDER SEED COUNT [READER…]`` prints what is wrong as JSON, one finding a line, and a line of counts.
"""

from __future__ import annotations

import copy
import ctypes
import faulthandler
import gc
import json
import os
import random
import re
import resource
import struct
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MALLOC = ctypes.CDLL(None)
LARGEST = 32 << 20  # bytes of a file
SECONDS, BYTES = 2.0, 1 << 30
"""What reading may take: of the processor's time, and of memory beyond the file's own size."""

NUMBERS = (0, 1, -1, 2, 7, 127, 255, 256, 65535, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**30)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0.5, -0.0, 1e308, float("nan"), float("inf"), "", "a", "0", "-1", "nan", "\0", "\x1b[2J"),
    *("\ud800", "\u202e", "\U0001f600", "../../x", "/etc/passwd", "<script>", "N", "x" * 5000, "9" * 4500, "N//0"),
    *([], {}, [[]], [{}], {"": None}, [1, 2, 3], ["a"], {"a": {"b": {}}}, *NUMBERS, *(-n for n in NUMBERS[2:])),
)
WORDS = (
    "N",
    "x",
    "max(",
    ")",
    "(",
    "*",
    "//",
    "%",
    "+",
    "-",
    ",",
    ":",
    "=",
    "1",
    "99999999999",
    " ",
    "\t",
    "\0",
    "é",
    "²",
)


# -- ways of damaging --------------------------------------------------------------------------------------------------


def bits(rng: random.Random, data: bytes) -> bytes:
    """A few bytes are others; often near the beginning, where lengths stand."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5, 40))):
        if made:
            reach = rng.choice((16, 200, len(made)))
            made[rng.randrange(min(reach, len(made)))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(made)


def cut(rng: random.Random, data: bytes) -> bytes:
    """It ends early, or begins late."""
    place = rng.randrange(len(data) + 1)
    return data[:place] if rng.random() < 0.7 else data[place:]


def moved(rng: random.Random, data: bytes) -> bytes:
    """A part is twice there, missing, in another place, or zeros."""
    a, b = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    b = min(b, a + rng.choice((1, 8, 100, 10_000)))
    part = data[a:b]
    at = rng.randrange(len(data) + 1)
    return rng.choice(
        (
            data[:a] + data[b:],
            data[:at] + part + data[at:],
            data[:a] + bytes(len(part)) + data[b:],
            data[:a] + part * rng.choice((2, 50)) + data[b:],
            data[:a] + part[::-1] + data[b:],
        )
    )


def lengths(rng: random.Random, data: bytes) -> bytes:
    """Four or eight bytes are another number, as lengths, counts and offsets are."""
    kind = rng.choice(("<I", ">I", "<Q", ">Q", "<H", ">H"))
    size = struct.calcsize(kind)
    if len(data) < size:
        return data
    at = rng.randrange(min(len(data) - size + 1, rng.choice((16, 300, 1 << 30))))
    if rng.random() < 0.5:
        number = rng.choice(NUMBERS)
    else:
        number = struct.unpack_from(kind, data, at)[0] + rng.choice((-1, 1, 8, -8, 1000))
    return data[:at] + struct.pack(kind, number % (1 << (8 * size))) + data[at + size :]


def digits(rng: random.Random, data: bytes) -> bytes:
    """A number in a text is another, longer or no number."""
    found = list(re.finditer(rb"-?\d+", data))
    if not found:
        return data
    match = rng.choice(found)
    number = rng.choice((*map(str, NUMBERS), "-1", "1e9", "0x7", "007", "1.5", "", "9" * 4500, "NaN", "true", '"1"'))
    return data[: match.start()] + number.encode() + data[match.end() :]


def structure(rng: random.Random, data: bytes) -> bytes:
    """An entry of JSON, wherever it stands in the file, is missing, doubled, renamed, swapped or another value."""
    begin = data.find(b"{")
    if begin < 0:
        return bits(rng, data)
    try:
        facts, end = json.JSONDecoder().raw_decode(data[begin:].decode("latin-1"))
    except (ValueError, RecursionError):
        return bits(rng, data)
    try:
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            _change(rng, facts)
        text = json.dumps(facts, indent=rng.choice((None, 2))).encode()
    except RecursionError:  # it was nested twice
        return nested(rng, data)
    if len(text) > LARGEST:
        return bits(rng, data)
    head = data[:begin]
    if begin == 8:  # of safetensors: the length of the header
        head = len(text).to_bytes(8, "little")
    return head + text + data[begin + end :]


def _change(rng: random.Random, facts: Any) -> None:
    found = list(places(facts))
    if not found:
        return
    holder, key = rng.choice(found)
    how = rng.randrange(7)
    if how == 0:
        del holder[key]
    elif how == 1:
        holder[key] = rng.choice(VALUES)
    elif how == 2:  # another's value
        other, name = rng.choice(found)
        holder[key] = copy.deepcopy(other[name])
    elif how == 3 and isinstance(holder, dict):
        holder[rng.choice(("", "a", "x", "kind", "\ud800", f"{key}x"))] = holder.pop(key)
    elif how == 4 and isinstance(holder[key], list):
        holder[key] = holder[key] * rng.choice((2, 9, 1000 if len(json.dumps(holder[key])) < 200 else 3))
    elif how == 5:
        for _ in range(rng.choice((1, 2, 70, 101, 900))):
            holder[key] = [holder[key]] if rng.random() < 0.5 else {"a": holder[key]}
    elif isinstance(holder[key], int):
        holder[key] = rng.choice(
            (holder[key] + 1, -holder[key], holder[key] * 10**12, str(holder[key]), float(holder[key] % 2**60))
        )
    elif isinstance(holder[key], str):
        holder[key] = texts(rng, holder[key].encode("utf-8", "surrogatepass")).decode("utf-8", "replace")
    else:
        holder[key] = rng.choice(VALUES)


def places(facts: Any) -> Iterator[tuple[Any, Any]]:
    """Every entry of JSON: what holds it, and its name or number there."""
    stack = [facts]
    while stack:
        holder = stack.pop()
        for key, value in holder.items() if isinstance(holder, dict) else enumerate(holder):
            yield holder, key
            if isinstance(value, (dict, list)):
                stack.append(value)


def nested(rng: random.Random, data: bytes) -> bytes:
    """Brackets within each other, alone or within the file."""
    one, other = rng.choice((("[", "]"), ("{", "}"), ("(", ")"), ('{"a":', "}"), ("[[", "]]"), ("max(1,", ")")))
    depth = rng.choice((2, 60, 99, 101, 1000, 100_000))
    text = (one * depth + rng.choice(("", "1")) + other * rng.choice((depth, 0))).encode()
    at = rng.randrange(len(data) + 1)
    return rng.choice((text, data[:at] + text + data[at:]))


def texts(rng: random.Random, data: bytes) -> bytes:
    """Words of the readers' languages, put in."""
    made = data
    for _ in range(rng.choice((1, 1, 3, 10))):
        at = rng.randrange(len(made) + 1)
        made = (
            made[:at]
            + (rng.choice(WORDS) * rng.choice((1, 1, 1, 2, 30, 3000))).encode()
            + made[at + rng.randrange(2) :]
        )
    return made


def other_file(rng: random.Random, data: bytes) -> bytes:
    """Another kind of file."""
    heads = (
        b"PK\x03\x04",
        b"\x80\x02",
        b"\x93NUMPY\x01\0",
        b"ftrt",
        b"prtrt",
        b"\x7fELF",
        b"\x08\x01onnx",
        b"",
        b"{}",
        b"null",
    )
    return rng.choice(heads) + rng.choice((b"", data[:100], bytes(64), rng.randbytes(200)))


BINARY = (bits, bits, cut, moved, lengths, lengths, digits, structure, nested, other_file)
JSON = (structure, structure, structure, structure, bits, cut, moved, digits, nested, texts, other_file)
TEXT = (texts, texts, digits, bits, cut, moved, nested)


# -- readers -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reader:
    """Reads a file; ``ways`` are those in which it is damaged."""

    name: str
    whole: tuple[bytes, ...]
    """Files that it takes."""
    read: Callable[[Path], Any]
    ways: tuple[Callable[[random.Random, bytes], bytes], ...]
    suffix: str = ""
    refuses: tuple[type[Exception], ...] = ()
    """Besides TrtdslError: what a reader within trtdsl says to its caller, which makes a warning or an error of it."""


def readers(folder: Path) -> list[Reader]:
    """All readers, with files made in a folder."""
    import numpy as np
    import torch
    from safetensors.torch import save

    import trtdsl as td
    import trtdsl.functional as F
    from support.kinds import KINDS
    from trtdsl.building.manifest import read_earlier_manifest
    from trtdsl.checking import saved
    from trtdsl.cli import options
    from trtdsl.core.backend import get_backend
    from trtdsl.core.files.writing import check_writable
    from trtdsl.definition.precision import as_precision
    from trtdsl.definition.tuning.file import find_variant, read_tuning
    from trtdsl.definition.tuning.precisions import open_precision
    from trtdsl.definition.weights.source import Weights
    from trtdsl.engine.inspector import program_of_report
    from trtdsl.engine.loading.loader import open_engine
    from trtdsl.engine.loading.manifest import parse_manifest, sealed
    from trtdsl.engine.loading.runtime_cache import read_runtime_cache, write_runtime_cache
    from trtdsl.engine.refit import derive_weights, new_values, recipe
    from trtdsl.engine.running.tokenizer import open_tokenizer
    from trtdsl.functional.einsum.equation import parse as parse_equation
    from trtdsl.interpreter.feeds import read_array
    from trtdsl.porting.checkpoint import convert_weights
    from trtdsl.porting.given import parsed
    from trtdsl.programs.evaluation.contents import Contents
    from trtdsl.programs.handed import parse_size
    from trtdsl.programs.plan import read_plan
    from trtdsl.sizes.profile import Profile

    N, T = td.Dim("N", min=2, opt=2, max=8), td.Dim("T", min=4, opt=6, max=12)

    class Model(torch.nn.Module):
        def forward(self, x, t):
            return torch.relu(x * 2), torch.cumsum(t, 1)

    def define(x, t, w):
        td.require(x.shape[0] % 2 == 0, "in pairs")
        y = F.prelu(F.linear(x, w.fc.weight, w.fc.bias), w.slope)
        return {"y": y, "u": F.interpolate(t[:, None], scale_factor=2.0)}

    made = td.network(inputs={"x": td.Input((N, 3)), "t": td.Input((N, T))}, name="made")(define)
    weights = {"fc.weight": torch.ones(3, 3), "fc.bias": torch.zeros(3), "slope": torch.ones(1)}
    engine = folder / "made.engine"
    profiles = [td.Profile(N=2), td.Profile(N=(2, 8), T=(4, 6, 12))]
    td.build(made, engine, weights=weights, profiles=profiles, check=False)
    entries = json.loads(Path(f"{engine}.json").read_bytes())
    entries["refit"] = recipe(made, made.define(weights=weights), engine, None, Weights(weights))
    (folder / "refit.json").write_text(json.dumps(entries["refit"]))
    manifest, plan = json.dumps(sealed(entries), indent=2).encode(), engine.read_bytes()
    derived = folder / "derived.safetensors"
    derive_weights(made, weights, output=derived)
    plain = td.network(inputs={"x": td.Input((N, 3)), "t": td.Input((N, T))}, reference=Model, name="plain")(
        lambda x, t: {"y": F.relu(x * 2), "z": F.cumsum(t, 1)}
    )
    defined = plain.define()
    report = td.check(plain, save=folder / "check.safetensors", sizes="quick").to_json()
    write_runtime_cache(folder / "cache", b"kernels" * 9, {"gpu": "a", "version": [1, 2]})
    tuning = json.loads(json.dumps(_tuning(made)))
    tensors = {
        "a": torch.arange(6.0).reshape(2, 3),
        "b.c": torch.ones(4, dtype=torch.float16),
        "d": torch.zeros(0, 2**40),
    }
    shards = {f"{name}.safetensors": save({name: tensors[name]}) for name in ("a", "b.c")}
    index = {"metadata": {"total_size": 32}, "weight_map": {"a": "a.safetensors", "b.c": "b.c.safetensors"}}
    torch.save({"state_dict": {"a": torch.ones(2, 3), "b": torch.zeros(4).half()}}, folder / "new.pt")
    torch.save({"a": torch.ones(2, 3)}, folder / "old.pt", _use_new_zipfile_serialization=False)
    arrays = []
    for array in (
        np.ones((2, 3), np.float32),
        np.zeros((0, 4), np.int64),
        np.array(3.0),
        np.asfortranarray(np.ones((3, 2))),
    ):
        np.save(folder / "a.npy", array)
        arrays.append((folder / "a.npy").read_bytes())
    onward = {"Name": "x", "Dimensions": [1, 3], "Format/Datatype": "Row major linear FP32", "Location": "Device"}
    layer = {"Name": "conv", "LayerType": "CaskConvolution", "Inputs": [onward], "Outputs": [{**onward, "Name": "y"}]}
    layer |= {"Weights": {"Type": "Half", "Count": 64}, "Metadata": "a.py:3 in encoder", "StreamId": 0}
    inspected = {"Layers": [layer], "Bindings": ["x", "y"], "I/O Tensors": [{"Name": "x", "IOMode": "Input"}]}
    dims = {"N": N, "T": T}
    backend = get_backend()
    facts = parse_manifest(manifest)

    def judged(path: Path) -> None:
        read = parse_manifest(path.read_bytes(), str(path))
        feeds = {"x": np.ones((2, 3), np.float32), "t": np.ones((2, 6), np.float32)}
        for each in read.signature.requirements:
            each.failure({name: feeds[name].shape if name in feeds else (1,) * 8 for name in read.inputs})

    def beside(path: Path) -> None:
        """The engine of this manifest, as it is loaded, and its program."""
        path.with_name("beside.engine").write_bytes(plan)
        path.with_name("beside.engine.json").write_bytes(path.read_bytes())
        open_engine(path.with_name("beside.engine"))
        td.program(path.with_name("beside.engine"), profile=1)

    def alone(path: Path) -> None:
        data = path.read_bytes()
        if len(data) > 60:  # let what is inside be reached
            data = data[:40] + plan[40:60] + data[60:]
        path.write_bytes(_of_size(data))
        open_engine(path, manifest=False)
        td.program(path, shapes={"x": (2, 3), "t": (2, 6), "y": (2, 3)})

    def contents(path: Path) -> None:
        data = path.read_bytes()
        found = Contents(data)
        _ = found.body_pools
        programs = read_plan(data, "tensorrt-rtx", backend.version).programs
        for text in programs:
            found.constants(text, programs), text.sources()

    def weights_of(path: Path) -> None:
        opened = Weights(path)
        for name in opened.shapes:
            opened.get(name)
        opened.metadata(), opened.nonfinite(), opened.children

    def index_of(path: Path) -> None:
        """Weights by an index, beside which its files are."""
        for name, shard in shards.items():
            if not path.with_name(name).exists():
                path.with_name(name).write_bytes(shard)
        weights_of(path)

    def tuned(path: Path) -> None:
        read_tuning(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            find_variant(path, "made", f"{backend.name} {backend.version}", made.case())

    def precise(path: Path) -> None:
        read = open_precision(path, "made")
        read.to_json(), read.decibels(("y",))

    def tokenized(path: Path) -> None:
        path.with_name("tokenizer.json").write_bytes(path.read_bytes())
        opened = open_tokenizer(path.parent)
        opened.decode(opened.encode("abc ab"))

    def ends(path: Path) -> None:
        path.with_name("tokenizer.json").write_bytes(bpe)
        path.with_name("generation_config.json").write_bytes(path.read_bytes())
        try:
            open_tokenizer(path.parent)
        finally:
            path.with_name("generation_config.json").unlink()

    def cached(path: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read_runtime_cache(path, {"gpu": "a", "version": [1, 2]})

    def reported(path: Path) -> None:
        from trtdsl.core.files.reading import parse_json

        read = td.CheckReport.from_json(parse_json(path.read_bytes(), "it", "report", td.CorruptFileError))
        repr(read), read._repr_html_(), read.statement, read.witnesses, read.sizes, list(read.problems())

    def refitted(path: Path) -> None:
        new_values(facts.refit, path, backend=backend, folder=folder)

    def refit(path: Path) -> None:
        """Of a manifest that was damaged, with derived weights."""
        read = parse_manifest(path.read_bytes())
        if read.refit is not None:
            new_values(read.refit, derived, backend=backend, folder=folder)

    def kinds(path: Path) -> None:
        for kind in KINDS:
            try:
                check_writable(path, kind, ())
            except td.UsageError:
                continue

    def text(function: Callable[[str], Any]) -> Callable[[Path], Any]:
        return lambda path: function(path.read_bytes().decode("utf-8", "surrogateescape"))

    def inspected_(path: Path) -> None:
        program_of_report(path.read_text("utf-8", "replace"))

    bpe = _tokenizer()
    dtypes = json.dumps({**tuning, "kind": "precision"}).replace('"lowering": "layer"', '"dtype": "float16"').encode()
    whole_check = (folder / "check.safetensors").read_bytes()
    as_json = lambda facts: json.dumps(facts).encode()  # noqa: E731
    sizes = (b"2*N + (T + 1)//2", b"max(N, T - 1)*3", b"N % 2 + min(T, 4)", b"-(-N//2)", b"7")
    return [
        Reader("manifest", (manifest,), judged, JSON, ".json"),
        Reader("engine and manifest", (manifest,), beside, JSON, ".json"),
        Reader("earlier manifest", (manifest,), read_earlier_manifest, JSON, ".json"),
        Reader("engine", (plan,), alone, BINARY, ".engine"),
        Reader("plan", (plan,), contents, BINARY, ".engine"),
        Reader("weights", (save(tensors), save(tensors, {"a": "b"})), weights_of, BINARY, ".safetensors"),
        Reader("weights' index", (as_json(index),), index_of, JSON, ".index.json"),
        Reader("array", tuple(arrays), lambda path: read_array("x", path), (*BINARY, texts), ".npy"),
        Reader("checkpoint", ((folder / "new.pt").read_bytes(), (folder / "old.pt").read_bytes()),
               lambda path: convert_weights(path, path.with_suffix(".safetensors")), BINARY, ".pt"),
        Reader("tuning", (as_json(tuning),), tuned, JSON, ".tuning.json", (ValueError,)),
        Reader("precision of calls", (dtypes,), precise, JSON, ".precision.json"),
        Reader("tokenizer", (bpe,), tokenized, JSON, ".json"),
        Reader("ends of a text", (b'{"eos_token_id": [2, 3]}', b'{"eos_token_id": 2}'), ends, JSON, ".json"),
        Reader("saved check", (whole_check,), lambda path: saved.load(path, plain, defined), BINARY, ".safetensors"),
        Reader("report", (as_json(report),), reported, JSON, ".json"),
        Reader("runtime cache", ((folder / "cache").read_bytes(),), cached, BINARY),
        Reader("derived weights", (derived.read_bytes(),), refitted, BINARY, ".safetensors"),
        Reader("manifest of a refit", (as_json({**entries, "program": {}}),), refit, JSON, ".json"),
        Reader("inspector", (as_json(inspected),), inspected_, JSON),
        Reader("kind", (manifest, whole_check, arrays[0], b"<html>", b"digraph {", plan), kinds, BINARY),
        Reader("size", sizes, text(lambda given: parse_size(given, dims)), TEXT),
        Reader("profile", (b"N=1:8,T=100:300:600", b"N=1"), text(Profile.parse), TEXT),
        Reader("shape", (b"N,3,18", b"2,3"), text(lambda given: options.shape_of(given, {"N": (1, 2)})), TEXT),
        Reader("shapes", (b"x=2,3", b"y=1"), text(lambda given: options.shapes_of([given])), TEXT),
        Reader("tolerance", (b"y=1e-3", b"0.5"), text(lambda given: options.tolerances_of([given])), TEXT),
        Reader("setting", (b"path=a.b", b"n=3"), text(lambda given: options.settings_of([given])), TEXT),
        Reader("input", (b"N,8*T:int64:0:1000", b"N,(T+1)//2,3"), text(lambda given: parsed("x", given)), TEXT),
        Reader("precision", (b"fp16", b"bfloat16", b"float32"), text(as_precision), TEXT),
        Reader("equation", (b"ij,jk->ik", b"...a,ab"),
               text(lambda given: parse_equation(given, (2,) * (given.count(",") + 1))), TEXT),
    ]  # fmt: skip


def refit_entry(folder: Path) -> dict[str, Any]:
    """The manifest's entry on new weights, where :func:`readers` made it."""
    return json.loads((folder / "refit.json").read_text())


def _tuning(spec: Any) -> dict[str, Any]:
    """A tuning of the network, of one call."""
    from trtdsl.core.backend import get_backend
    from trtdsl.core.version import __version__
    from trtdsl.definition.tuning.file import Tuned, Tuning, Variant, dump

    calls = tuple(Tuned("n.py", "define", "prelu", "prelu", i, 3, ("(N, 3) float32",), "layer") for i in range(3))
    backend = get_backend()
    head = (spec.name, f"{backend.name} {backend.version}", __version__)
    return json.loads(dump(Tuning(*head, variants=(Variant.made(spec.case(), calls, {"device": "h100"}),))))


def _tokenizer() -> bytes:
    import tokenizers

    made = tokenizers.Tokenizer(tokenizers.models.BPE({"a": 0, "b": 1, "ab": 2, "c": 3}, [("a", "b")]))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex("c|b+"), "isolated")
    made.normalizer, made.decoder = tokenizers.normalizers.NFC(), tokenizers.decoders.ByteLevel()
    return made.to_str().encode()


def _of_size(data: bytes) -> bytes:
    """An engine whose header says how long it is, so that reading goes on."""
    from trtdsl.engine.loading.loader import RTX_HEADER, RTX_SIZE_AT

    if len(data) < RTX_HEADER:
        return data
    return data[:RTX_SIZE_AT] + len(data).to_bytes(8, "little") + data[RTX_SIZE_AT + 8 :]


# -- running -----------------------------------------------------------------------------------------------------------


def attempts(found: list[Reader], folder: Path, seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Reads ``count`` damaged files; what is wrong with each reading that is not as it should be, and the counts."""
    from trtdsl.core.errors import TrtdslError

    outcomes: Counter[str] = Counter()
    spent: Counter[str] = Counter()
    place = folder / "damaged"
    place.mkdir(exist_ok=True)
    for number in range(seed, seed + count):
        rng = random.Random(number)
        reader = found[number % len(found)]
        data = rng.choice(reader.whole)
        ways = [rng.choice(reader.ways) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
        for way in ways:
            data = way(rng, data)
        path = place / f"f{reader.suffix}"
        path.write_bytes(data)
        wrong = {"seed": number, "reader": reader.name, "ways": [way.__name__ for way in ways], "bytes": len(data)}
        faulthandler.dump_traceback_later(60, exit=True)
        before, begun = _memory(again=True), time.process_time()
        try:
            reader.read(path)
            outcome = "accepted"
        except (TrtdslError, *reader.refuses) as error:
            outcome = "refused"
            if (
                isinstance(error, (RecursionError, UnicodeError))
                or ("\x1b" in str(error) and reader.ways is not TEXT)
                or len(str(error)) > 5_000 + 8 * len(data) * (reader.ways is TEXT)
            ):
                yield {**wrong, "why": f"message: {type(error).__name__}: {str(error)[:300]!a}"}
        except Exception as error:
            import traceback

            outcome = "untyped"
            where = traceback.extract_tb(error.__traceback__)
            last = next((f for f in reversed(where) if "/trtdsl/" in f.filename), where[-1])
            yield {
                **wrong,
                "why": f"{type(error).__name__}: {str(error)[:200]}",
                "at": f"{last.filename}:{last.lineno}",
            }
        taken = time.process_time() - begun
        grown = _memory() - before - len(data)
        faulthandler.cancel_dump_traceback_later()
        if taken > SECONDS:
            yield {**wrong, "why": f"{taken:.1f} s"}
        if grown > BYTES:
            yield {**wrong, "why": f"{grown >> 20} MiB"}
        outcomes[f"{reader.name}: {outcome}"] += 1
        spent[reader.name] += taken
        if number % 2000 == 0:
            gc.collect()
    yield {"counts": dict(sorted(outcomes.items())), "seconds": {name: round(each, 1) for name, each in spent.items()}}


def _memory(*, again: bool = False) -> int:
    """The greatest memory of this process in bytes since it was asked for ``again``, which is what it has then."""
    if again:
        MALLOC.malloc_trim(0)  # what is free within the heap would be taken again without growing
        Path("/proc/self/clear_refs").write_text("5")
    return int(re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[1]) << 10


def main(folder: Path, seed: int, count: int, names: list[str]) -> None:
    """Prints the findings."""
    resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
    made = [reader for reader in readers(folder) if not names or reader.name in names]
    for finding in attempts(made, folder, seed, count):
        print(json.dumps(finding), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
