"""Files from outside: what is no regular file, limits, and JSON whose entries are of other types."""

from __future__ import annotations

import os
import sys
import time
import types
import zipfile
from typing import Annotated

import numpy as np
import pytest
import torch
from msgspec import Meta, Struct
from safetensors.torch import save_file
from support.kinds import ARRAY

import trtdsl as td
from trtdsl.building.manifest import read_earlier_manifest
from trtdsl.checking import saved
from trtdsl.core.backend import Backend, get_backend
from trtdsl.core.errors import CorruptFileError, EngineMissingError, RuntimeCacheWarning, UnexaminedVersionWarning
from trtdsl.core.files.reading import DEEPEST, as_struct, open_regular, parse_json, read_file
from trtdsl.core.files.writing import check_kind
from trtdsl.definition.tuning.file import chosen_file, read_tuning
from trtdsl.definition.tuning.precisions import open_precision
from trtdsl.definition.weights.source import Weights
from trtdsl.engine.loading.manifest import read_manifest
from trtdsl.engine.loading.runtime_cache import read_runtime_cache
from trtdsl.engine.running.tokenizer import open_tokenizer
from trtdsl.interpreter.feeds import read_array
from trtdsl.porting.checkpoint import convert_weights
from trtdsl.porting.origin import Origin
from trtdsl.programs.handed import parse_size


class Part(Struct):
    sizes: tuple[Annotated[int, Meta(ge=0)], ...] = ()
    parts: dict[str, Part] = {}

    def __post_init__(self):
        if len(self.sizes) > 3:
            raise ValueError("it has more than 3 sizes")


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ([], "expected object, got array"),
        ({"sizes": 3}, "sizes: expected array, got int"),
        ({"sizes": [1, True]}, "sizes[1]: expected int, got bool"),
        ({"sizes": [10**30, -1]}, "sizes[1]: expected int >= 0"),
        ({"parts": {"a": {}, "b": {"sizes": [1.0]}, "c": {"sizes": [1.0]}}}, "parts.b.sizes[0]: expected int"),
        ({"parts": {"a": {"parts": {"x": {}, "y z": {"parts": {"w": 3}}}}}}, "parts.a.parts['y z'].parts.w: expected"),
        ({"parts": {"a": {}, "b": {"parts": {"c": {"sizes": [1] * 4}}}}}, "parts.b.parts.c: it has more than 3 sizes"),
    ],
)
def test_the_entry_that_is_wrong_is_named(facts, words):
    with pytest.raises(CorruptFileError) as caught:
        as_struct(facts, Part, "f.json", CorruptFileError)
    assert caught.value.message.startswith(f"f.json: {words}")


def test_an_entry_is_found_quickly_among_many():
    facts = {"parts": {f"p{i}": {} for i in range(30_000)} | {"last": {"sizes": [None]}}}
    begun = time.process_time()
    with pytest.raises(CorruptFileError, match=r"parts\.last\.sizes\[0\]: expected int"):
        as_struct(facts, Part, "f", CorruptFileError)
    assert time.process_time() - begun < 2


@pytest.mark.parametrize(
    "data", [b"", b"{", b"\xff", b"[]", b"3", b"[" * 10**6, b'{"a":' * 10**6, b'{"a": 1' + b"0" * 5000]
)
def test_what_is_no_object(data):
    with pytest.raises(CorruptFileError, match="^f is not"):
        parse_json(data, "f", "report", CorruptFileError)


def test_depth():
    def nested(depth):
        return b'{"a": ' * depth + b"1" + b"}" * depth

    assert parse_json(nested(DEEPEST - 1), "f", "report", CorruptFileError)
    with pytest.raises(CorruptFileError, match="nested more than"):
        parse_json(nested(DEEPEST + 1), "f", "report", CorruptFileError)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, "/dev/zero"):
        with pytest.raises(OSError, match="not a regular file|[Dd]irectory"):
            open_regular(path)


def test_names_and_sizes(tmp_path):
    (tmp_path / "f").write_bytes(bytes(1 << 20) + b"x")
    assert len(read_file(tmp_path / "f")) == (1 << 20) + 1
    with pytest.raises(OSError, match="larger than the 1 MiB"):
        read_file(tmp_path / "f", 1 << 20)
    for name in ("a\0b", "", "\ud800"):
        with pytest.raises(OSError):
            read_file(name)


def test_half_of_a_surrogate_pair_is_no_text():
    assert parse_json(rb'{"a": "\ud83d\ude00"}', "f", "report", CorruptFileError) == {"a": "\U0001f600"}
    for data in (rb'{"a": "\ud83d"}', rb'{"\uDC00": 1}'):
        with pytest.raises(CorruptFileError, match="^f is not JSON"):
            parse_json(data, "f", "report", CorruptFileError)


@pytest.mark.parametrize(
    "text",
    [
        "*".join(["(A + B + C + A*B*C + A*A*B)"] * 12), "-" * 200_000 + "A", "(" * 4000, "A//(B - B)",
        "max(A, " * 300 + "B" + ")" * 300, "*".join(["(A + 1)"] * 300), "//".join("A" * 300), "D", "A if B else C",
        "+".join(["max(A, " * 9 + f"{i}" + ")" * 9 for i in range(60)]),
    ],
)  # fmt: skip
def test_sizes_that_would_take_long_are_refused(text):
    begun = time.process_time()
    with pytest.raises(CorruptFileError, match="is not made of its dimensions"):
        parse_size(text, {name: td.Dim(name, min=1, max=9) for name in "ABC"})
    assert time.process_time() - begun < 2


def test_checkpoints_that_are_much_more_than_their_file(tmp_path):
    """Compressed parts, and a tensor whose elements are one in the file: nothing of this is unpacked."""
    source, output = tmp_path / "w.pt", tmp_path / "w.safetensors"
    torch.save({"w": torch.zeros(1).expand(300_000_000)}, source)
    with pytest.raises(CorruptFileError, match="written out, it is more than 1 GiB beyond the file"):
        convert_weights(source, output)
    with (
        zipfile.ZipFile(source, "w", zipfile.ZIP_DEFLATED) as parts,
        parts.open("w/data/0", "w", force_zip64=True) as part,
    ):
        for _ in range(1100):
            part.write(bytes(1 << 20))
    with pytest.raises(CorruptFileError, match="unpacked, it is more than 1 GiB beyond the file"):
        convert_weights(source, output)
    torch.save({"w": torch.ones(2, 3).expand(4, 2, 3)}, source)
    assert convert_weights(source, output) == ["w"]


KMSG = "/proc/kmsg"  # a regular file, by its mode, whose reader waits for the kernel's next message


@pytest.fixture
def forgotten():
    """Modules that a test loaded are gone after it: hypothesis reads the files of all that are there."""
    before = {*sys.modules}
    yield
    for name in {*sys.modules} - before:
        if name.startswith("trtdsl_file_"):
            del sys.modules[name]


@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize(
    "make",
    [
        pytest.param("mkfifo", marks=pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")),
        pytest.param(KMSG, marks=pytest.mark.skipif(not os.access(KMSG, os.R_OK), reason="it cannot be read")),
    ],
)
def test_no_reader_waits(tmp_path, make):
    pipe = tmp_path / "p"
    for name in ("p", "p.json", "p.onnx", "p.py", "tokenizer.json", "generation_config.json"):
        if make == "mkfifo":
            os.mkfifo(tmp_path / name)
        else:
            os.symlink(make, tmp_path / name)
    net = td.Network()
    net.output(net.input("x", (2,)) * 2, "y")
    readers = [
        lambda: td.load_engine(pipe), lambda: td.program(pipe), lambda: td.program(tmp_path / "p.onnx"),
        lambda: td.load_spec(f"{pipe}.py"), lambda: convert_weights(pipe, tmp_path / "w.safetensors"),
        lambda: Weights(pipe), lambda: td.view(net, check=pipe), lambda: read_tuning(pipe),
        lambda: read_manifest(pipe), lambda: read_array("x", pipe), lambda: open_tokenizer(tmp_path),
        lambda: open_precision(tmp_path / "p.json", "net"), lambda: check_kind(pipe, ARRAY) or refuse(),
        lambda: read_tuning(chosen_file(pipe, "net")), lambda: saved._read(pipe),
        lambda: Origin.find(f"{pipe}.py:Net", {}), lambda: Weights(tmp_path / "index.json"),
    ]  # fmt: skip
    (tmp_path / "index.json").write_text('{"weight_map": {"a": "p"}}')

    def refuse():  # an empty file is of any kind
        raise td.UsageError("empty")

    for reader in readers:
        with pytest.raises(
            (td.TrtdslError, ValueError), match="not a regular file|^empty" if make == "mkfifo" else None
        ):
            reader()
    with pytest.warns(RuntimeCacheWarning, match="not a regular file|not a runtime cache"):
        assert read_runtime_cache(pipe, {}) is None
    assert read_earlier_manifest(pipe) == {}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.ones(2, ">f4"), "its type is >f4"),
        (np.array(["a", "b"]), "its type is <U1"),
        (np.array([1, 2], "M8[s]"), r"its type is <M8\[s\]"),
        (np.ones(2, np.longdouble), "its type is <f16"),
        (np.ones(2, np.complex64), "its type is <c8"),
        (np.zeros(2, [("a", "f4"), ("b", "i4")]), r"it has fields: save it with one of <f4, .*, \|b1, <f8$"),
    ],
)
def test_a_sample_of_another_kind_is_refused(tmp_path, values, words):
    np.save(tmp_path / "x.npy", values)

    @td.network(inputs={"x": td.Input((2,), sample=tmp_path / "x.npy")}, reference=lambda: torch.nn.Identity())
    def net(x):
        return {"y": x * 1}

    with pytest.raises(td.FeedError, match=rf"x\.npy is not an array that can be fed: {words}"):
        td.check(net)


def test_an_array_is_all_that_its_file_holds(tmp_path):
    """As in C++: several arrays saved one after the other are not the first of them."""
    np.save(tmp_path / "x.npy", np.ones(2, np.float32))
    with open(tmp_path / "x.npy", "ab") as file:
        file.write(b"..")
    with pytest.raises(td.FeedError, match=r"x\.npy is not an array .*: it has 10 bytes of data, not the 8 of"):
        read_array("x", tmp_path / "x.npy")
    np.savez(tmp_path / "x.npz", x=np.ones(2))
    with pytest.raises(td.FeedError, match=r"x\.npz is not an array that can be fed: it is an archive of several"):
        read_array("x", tmp_path / "x.npz")


@pytest.mark.parametrize("name", ["a\0b", "a\nb", "\x1b[31m", "a\x85", "\ud800"])
def test_names_that_tensorrt_or_a_terminal_does_not_keep(name):
    net = td.Network()
    x = net.input("x", (2,))
    given = (
        *(lambda: net.input(name, (2,)), lambda: net.output(x * 2, name), lambda: td.Network(name)),
        *(lambda: net.weights({name: torch.ones(2)}), lambda: net.scope(name).__enter__()),
    )
    for define in given:
        with pytest.raises(td.UsageError, match="has control characters"):
            define()


def test_a_header_with_a_name_that_a_terminal_does_not_keep(tmp_path):
    save_file({"a\x1b[2J": torch.ones(2)}, tmp_path / "w.safetensors")
    with pytest.raises(CorruptFileError, match=r"the header of .*w\.safetensors: must be printable text") as caught:
        Weights(tmp_path / "w.safetensors")
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("given", [7, None, b"w", [1], {"a": 3}, {3: torch.ones(1)}])
def test_what_is_no_source_of_weights(given):
    with pytest.raises(td.UsageError, match="^weights are .*tensors by name.* not "):
        Weights(given)


def test_headers_that_are_too_large(tmp_path):
    """One byte of a hole in a file costs nothing, and reading it would."""
    header = (20 << 20).to_bytes(8, "little")
    for name, head in (("w.safetensors", header), ("x.npy", b"\x93NUMPY\x02\0" + header[:4])):
        with open(tmp_path / name, "wb") as file:
            file.write(head)
            file.truncate(1 << 30)
    with pytest.raises(CorruptFileError, match="larger than the 16 MiB"):
        Weights(tmp_path / "w.safetensors")
    with pytest.raises(td.FeedError, match="its header has 20,971,520 bytes"):
        read_array("x", tmp_path / "x.npy")


@pytest.mark.skipif(sys.platform != "linux", reason="files with holes, and maps of more than the memory")
def test_files_that_are_larger_than_the_memory(tmp_path):
    size = 1 << 39
    header = f'{{"a": {{"dtype": "F32", "shape": [{size // 4}], "data_offsets": [0, {size}]}}}}'.encode()
    with open(tmp_path / "w.safetensors", "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + size)
    assert Weights(tmp_path / "w.safetensors").shapes["a"] == (size // 4,)
    with pytest.raises(
        EngineMissingError, match=r"the engine .*w.safetensors cannot be read: it is larger than the mem"
    ):
        td.load_engine(tmp_path / "w.safetensors", manifest=False)


@pytest.mark.parametrize("shape", ["(-1,)", "(2, -3)", "(10**30,)", "(999999999999,)", "(7, 0, 9)", "(True,)", "3"])
def test_an_array_whose_header_says_more_than_the_file_has(tmp_path, shape):
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\0" + len(text).to_bytes(2, "little") + text)
    if shape == "(7, 0, 9)":
        assert read_array("x", tmp_path / "x.npy").shape == (7, 0, 9)
        return
    with pytest.raises(td.FeedError, match="is not an array that can be fed"):
        read_array("x", tmp_path / "x.npy")


def test_a_timing_cache_that_cannot_be_read(tmp_path):
    net = td.Network()
    net.output(net.input("x", (2,)) * 2, "y")
    os.mkfifo(tmp_path / "cache")
    for path in (tmp_path / "cache", tmp_path, "/dev/stdin"):
        with pytest.raises(td.UsageError, match="cannot write .*: it is"):
            td.build(net, tmp_path / "a.engine", check=False, config=td.BuildConfig(timing_cache=path))


def test_a_newer_tensorrt_rtx_is_announced():
    module = types.SimpleNamespace(**vars(get_backend("tensorrt-rtx").trt))
    module.__version__ = "1.99.0.1"
    with pytest.warns(UnexaminedVersionWarning, match=r"1\.99\.0\.1 is newer than"):
        Backend("tensorrt-rtx", module)


@pytest.mark.parametrize("new", [True, False])
def test_a_name_in_a_checkpoint_that_torch_would_look_at_for_minutes(tmp_path, new):
    """Its message is searched by a pattern whose time grows with the square of a name's length."""
    source = tmp_path / "w.pt"
    torch.save({"w": torch.ones(2)}, source, _use_new_zipfile_serialization=new)
    wrong = b"ctorch._utils\n_rebuild_" + b"[" * 300_000
    if new:
        with zipfile.ZipFile(source) as parts:
            kept = {name: parts.read(name) for name in parts.namelist()}
        with zipfile.ZipFile(source, "w") as parts:
            for name, data in kept.items():
                parts.writestr(name, data.replace(b"ctorch._utils\n_rebuild_", wrong))
    else:
        source.write_bytes(source.read_bytes().replace(b"ctorch._utils\n_rebuild_", wrong))
    begun = time.process_time()
    with pytest.raises(CorruptFileError, match="it names what has a name of 300,0"):
        convert_weights(source, tmp_path / "w.safetensors")
    assert time.process_time() - begun < 2


def test_names_of_weights_whose_beginnings_would_take_the_memory(tmp_path):
    """Each beginning of a name is a module's: one of 200,000 parts has 20 GB of them."""
    for parts, shape, words in ((65, (2,), "text of at most 64 parts"), (64, (1,) * 65, "array of length <= 64")):
        save_file({".".join("a" * parts): torch.ones(shape)}, tmp_path / "w.safetensors")
        with pytest.raises(CorruptFileError, match=words):
            Weights(tmp_path / "w.safetensors")
    save_file({".".join("a" * 64): torch.ones(2)}, tmp_path / "w.safetensors")
    assert len(Weights(tmp_path / "w.safetensors").children) == 64
