"""What the C++ library makes of files and names that others wrote: its own errors, and nothing written elsewhere."""

import hashlib
import json
import os
import random
import resource
import signal
import subprocess
import time
from contextlib import nullcontext, suppress
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from support.kinds import ARRAY, RUNTIME_CACHE

import trtdsl as td
from trtdsl.core.backend import get_backend
from trtdsl.core.errors import shown
from trtdsl.core.files import writing
from trtdsl.definition.weights.source import Weights
from trtdsl.engine.loading.manifest import manifest_path, parse_manifest
from trtdsl.engine.loading.runtime_cache import write_runtime_cache
from trtdsl.interpreter.feeds import read_array

from ..engine.loading.test_loader import mutate
from .conftest import write_array
from .test_judging import CALL
from .test_running import REFIT, STATES, STATES_FACTS, write

pytestmark = pytest.mark.long

BACKEND = get_backend("tensorrt-rtx")

HEADERS = [  # of .npy files, each after the six bytes of the magic
    b"\x01\x00\x10\x00{'descr':       ",
    b"\x01\x00\x0b\x00{'shape': ()",
    b"\x01\x00\x40\x00{'descr': '<f4', 'fortran_order':                               ",
    b"\x01\x00\x40\x00{'descr': '<f4', 'fortran_order': False, 'shape': (            ",
    b"\x01\x00\x40\x00{'descr': '<f4', 'fortran_order': False, 'shape': ((((((((((   ",
    b"\x01\x00\x50\x00{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }   ",
    b"\x01\x00\x50\x00{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999,), } ",
    b"\x01\x00\x40\x00{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }     ",
    b"\x02\x00\xff\xff\xff\xff{}",
    b"\x09\x00\x02\x00{}",
    b"",
]


@pytest.mark.parametrize("header", HEADERS)
def test_headers_of_npy_files_that_are_damaged(probe, tmp_path, header):
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY" + header)
    said = probe("npy", tmp_path / "a.npy", tmp_path / "b.npy", code=7)
    assert said.startswith("input-damaged: ") and "not an array that can be fed" in said
    with pytest.raises(td.CorruptFileError, match="not an array that can be fed") as caught:
        read_array("x", tmp_path / "a.npy")
    assert (caught.value.code, caught.value.exit_code) == ("input-damaged", 7)


PLAIN = "f4 f2 f8 i4 i8 i1 u1 b1 i2 u8 c8 f16 ? f e d i q b B F S1 bool int8 uint8 int32 int64 float16 float32 float64"
DESCRIPTIONS = {f"{order}{name}" for order in ("", "<", "=", "|", ">") for name in PLAIN.split(" ")}


def test_types_of_npy_files_are_those_that_numpy_knows(probe, tmp_path):
    """Where C++ does not know a type that numpy does, it says what to save the array with."""
    unknown = []
    for name in sorted(DESCRIPTIONS):
        header = b"{'descr': '%s', 'fortran_order': False, 'shape': (3,), }" % name.encode()
        (tmp_path / "a.npy").write_bytes(npy(header) + bytes(3 * int(np.dtype(name).itemsize if known(name) else 4)))
        said = probe("npys", data=f"{tmp_path / 'a.npy'}\n".encode()).strip()
        try:
            wanted = f"{read_array('x', tmp_path / 'a.npy').dtype},3"
        except td.CorruptFileError as error:
            wanted = error.code
        if said != wanted:
            unknown.append(name)
            said = probe("npy", tmp_path / "a.npy", tmp_path / "b.npy", code=7)
            assert f"its type is {name}: save it with one of <f4, <f2, <i4, <i8, |i1, |u1, |b1, <f8" in said
    assert all(name[0] == ">" for name in unknown) and len(unknown) < 9


def known(name):
    with suppress(TypeError):
        return np.dtype(name)


@pytest.mark.parametrize("shape", [(2, 3), (4, 1, 3, 2), (0, 3), (3, 0, 2), (1, 1), (5, 7, 3)])
@pytest.mark.parametrize("dtype", ["float32", "bool", "int64", "float16"])
def test_arrays_in_the_order_of_fortran(probe, tmp_path, shape, dtype):
    array = np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)
    np.save(tmp_path / "a.npy", np.asfortranarray(array))
    probe("npy", tmp_path / "a.npy", tmp_path / "b.npy")
    for found in (np.load(tmp_path / "b.npy"), read_array("x", tmp_path / "a.npy")):
        assert found.dtype == array.dtype and np.array_equal(found, array)
    assert b"'fortran_order': False" in (tmp_path / "b.npy").read_bytes()


def test_damaged_npy_files_are_read_as_numpy_reads_them(probe, tmp_path):
    rng = random.Random(5)
    np.save(tmp_path / "sound.npy", np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    data = (tmp_path / "sound.npy").read_bytes()
    paths = [tmp_path / f"{index}.npy" for index in range(400)]
    for path in paths:
        path.write_bytes(mutate(data, b"'shape': (3, 8), }", rng))
    lines = probe("npys", data="\n".join(map(str, paths)).encode() + b"\n").splitlines()
    read = 0
    for path, line in zip(paths, lines, strict=True):
        if line != "input-damaged":
            read += 1
            array = np.load(path, allow_pickle=False)
            assert line == ",".join([str(array.dtype), *map(str, array.shape)])
    assert 20 <= read < 400


def test_a_dtype_that_there_is_not(probe):
    assert probe("dtype", "bfloat16") == "2\n"
    assert "feed-dtype: there is no dtype complex64" in probe("dtype", "complex64", code=2)


@pytest.mark.parametrize(("built", "have"), [("", "10.3.0"), ("10.3.0", ""), ("none", "11.0"), ("9" * 40, "10.3")])
def test_malformed_versions_are_refused(probe, built, have):
    assert "version-mismatch" in probe("version", built, have, 1, code=5)


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "/etc/x", "a\\b", "a\nb", "x" * 252])
def test_names_that_would_lead_elsewhere(probe, name):
    assert probe("name", "scores") == "scores.npy\n"
    assert "a file would be called after it" in probe("name", name, code=2)


def test_writing_follows_no_link_that_waits_and_keeps_the_mode(probe, tmp_path):
    np.save(tmp_path / "a.npy", np.ones(3))
    (tmp_path / "secret").write_text("untouched")
    (tmp_path / "b.npy.part").symlink_to(tmp_path / "secret")
    np.save(tmp_path / "b.npy", np.zeros(2))
    (tmp_path / "b.npy").chmod(0o640)
    probe("npy", tmp_path / "a.npy", tmp_path / "b.npy")
    assert (tmp_path / "secret").read_text() == "untouched"
    assert os.stat(tmp_path / "b.npy").st_mode & 0o777 == 0o640
    assert sorted(os.listdir(tmp_path)) == ["a.npy", "b.npy", "b.npy.part", "secret"]
    (tmp_path / "folder").mkdir()
    assert "not a regular file" in probe("npy", tmp_path / "a.npy", tmp_path / "folder", code=2)
    assert "cannot write" in probe("npy", tmp_path / "a.npy", tmp_path / "none" / "b.npy", code=2)
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_a_link_to_no_file_stays_and_the_file_is_made(probe, tmp_path):
    np.save(tmp_path / "a.npy", np.ones(3))
    (tmp_path / "there").mkdir()
    (tmp_path / "b.npy").symlink_to("there/again")
    (tmp_path / "there/again").symlink_to("c.npy")
    probe("npy", tmp_path / "a.npy", tmp_path / "b.npy")
    assert np.array_equal(np.load(tmp_path / "there/c.npy"), np.ones(3))
    assert sorted(os.listdir(tmp_path / "there")) == ["again", "c.npy"]
    (tmp_path / "circle").symlink_to("circle")
    assert "symbolic links" in probe("npy", tmp_path / "a.npy", tmp_path / "circle", code=2)
    assert all((tmp_path / name).is_symlink() for name in ("b.npy", "there/again", "circle"))


def test_a_name_with_nul_is_no_other_files(probe, tmp_path):
    path = tmp_path / "a"
    for make in (lambda: np.save(tmp_path / "a.npy", np.ones(3)), (tmp_path / "a.npy").unlink):
        make()
        before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}
        codes = ["usage NUL", "usage NUL", "feed-name NUL", "usage NUL", "engine-missing NUL"]
        said = probe("nul", tmp_path / "a.npy").splitlines()
        assert [line for line in said if line not in ("runtime-cache", "fine")] == codes
        assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == before
    assert not path.exists()


def test_why_writing_failed(binaries, tmp_path):
    np.save(tmp_path / "a.npy", np.ones(10_000))
    done = subprocess.run(
        [binaries / "probe", "npy", tmp_path / "a.npy", tmp_path / "b.npy"],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
        restore_signals=False,  # SIGXFSZ is ignored, as Python has it
    )
    assert (done.returncode, done.stderr) == (2, f"usage: cannot write {tmp_path / 'b.npy'}: File too large\n")
    assert os.listdir(tmp_path) == ["a.npy"]


def npy(header, version=b"\x01\x00"):
    return b"\x93NUMPY" + version + len(header).to_bytes(2, "little") + header


@pytest.mark.parametrize(
    ("content", "sound"),
    [
        (npy(b"{'descr': '|i1', 'fortran_order': False, 'shape': (), }".ljust(10_000)) + b"x", True),
        (npy(b"{'descr': '|i1', 'fortran_order': False, 'shape': (), }".ljust(10_001)) + b"x", False),
        (npy(b"{'descr': '|i1', 'fortran_order': False, 'shape': (%s), }" % (b"1," * 64)) + b"x", True),
        (npy(b"{'descr': '|i1', 'fortran_order': False, 'shape': (%s), }" % (b"1," * 65)) + b"x", False),
        (npy(b"{'descr': '|i1', 'fortran_order': False, 'shape': (), }", b"\x01\x01") + b"x", False),
    ],
    ids=["10,000 bytes", "10,001 bytes", "64 dimensions", "65 dimensions", "version 1.1"],
)
def test_limits_of_npy_files_are_those_of_python(probe, tmp_path, content, sound):
    (tmp_path / "a.npy").write_bytes(content)
    with nullcontext() if sound else pytest.raises(td.TrtdslError):
        assert read_array("x", tmp_path / "a.npy") == ord("x")
    assert (probe("npys", data=f"{tmp_path / 'a.npy'}\n".encode()) != "input-damaged\n") == sound


def test_arrays_of_more_dimensions_than_are_read_are_not_written(probe, tmp_path):
    probe("rank", tmp_path / "a.npy", 64)
    assert read_array("x", tmp_path / "a.npy").ndim == 64
    assert probe("rank", tmp_path / "b.npy", 65, code=2) == "feed-dtype: numpy has no arrays of 65 dimensions\n"
    assert not (tmp_path / "b.npy").exists()


@pytest.mark.parametrize(
    ("name", "content", "kinds"),  # what may replace it
    [
        ("a.engine", b"ptrt" + bytes(60), ()),
        ("a.engine.json", b'{"schema": 3, "network": "a"}', ()),
        ("a.safetensors", (8).to_bytes(8, "little") + b'{"a":{}}', ()),
        ("a.cache", b"ftrt" + bytes(60), ()),
        ("a.npy", b'{"schema": 3, "network": "a"}', ()),
        ("notes", b"of somebody", ()),
        ("a.npy", b"of somebody", ()),
        ("a.cache", b"of somebody", ()),
        ("a.cache", bytes(5000), ("cache",)),  # where power failed
        ("a.cache", bytes(4000) + b"x" * 1000, ()),
        ("a.cache", b'{"bytes": 3, "for": "another"}', ()),
        ("notes", b"", ("npy", "cache")),
        ("notes", b"\x93NUMPY\x01\x00", ("npy",)),
        ("notes", b'{"bytes": 3, "for": {}, "kind": "trtdsl-runtime-cache"}', ("cache",)),
    ],
)
def test_no_file_of_another_kind_is_replaced(probe, tmp_path, name, content, kinds):
    """As in Python."""
    np.save(tmp_path / "source.npy", np.ones(3))
    made_for = {"backend": "1", "compute_capability": "8.9"}
    write_runtime_cache(tmp_path / "source.cache", b"kernels", made_for)
    writers = {
        "npy": (
            lambda path, code: probe("npy", tmp_path / "source.npy", path, code=code),
            lambda path: writing.check_writable(path, ARRAY, ()),
        ),
        "cache": (
            lambda path, code: probe("cache", tmp_path / "source.cache", path, "1", "8.9", code=code),
            lambda path: writing.check_writable(path, RUNTIME_CACHE, ()),
        ),
    }
    for kind, (written, judge) in writers.items():
        path = tmp_path / name
        path.write_bytes(content)
        with nullcontext() if kind in kinds else pytest.raises(td.UsageError):
            judge(path)
        said = written(path, 0 if kind in kinds else 2)
        assert (path.read_bytes() == content, "the file that is there" in said) == (kind not in kinds,) * 2


def killed_in_cpp(binaries, source, target):
    """Ends a C++ writer in the middle of a file: the system's limit of a file's size is less than the file's."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    done = subprocess.run([binaries / "probe", "npy", source, target], capture_output=True, preexec_fn=limit)
    assert done.returncode == -signal.SIGXFSZ


def killed_in_python(target):
    """Leaves the temporary file that a writer in Python has."""
    with suppress(KeyboardInterrupt), writing._temporary(target) as (descriptor, left):
        os.link(left, target.parent / "kept")
        raise KeyboardInterrupt
    os.close(descriptor)
    os.rename(target.parent / "kept", left)


def test_what_a_killed_writer_leaves_is_removed_from_python_and_from_cpp(binaries, probe, tmp_path):
    folder = tmp_path / "results"
    folder.mkdir()
    np.save(tmp_path / "a.npy", np.ones(10_000))
    target = folder / "caf\u00e9.npy"
    killed_in_cpp(binaries, tmp_path / "a.npy", folder / "other")
    (other,) = os.listdir(folder)
    killed_in_cpp(binaries, tmp_path / "a.npy", target)
    assert len(os.listdir(folder)) == 2
    write_array(target, b"\x93NUMPY of Python")
    assert sorted(os.listdir(folder)) == [other, target.name]
    killed_in_python(target)
    assert len(os.listdir(folder)) == 3
    probe("npy", tmp_path / "a.npy", target)
    assert sorted(os.listdir(folder)) == [other, target.name]
    assert np.array_equal(np.load(target), np.ones(10_000))


def test_a_file_that_python_is_writing_is_left_alone_by_cpp(probe, tmp_path):
    np.save(tmp_path / "a.npy", np.ones(3))
    with writing._temporary(tmp_path / "b.npy") as (descriptor, name):
        probe("npy", tmp_path / "a.npy", tmp_path / "b.npy")
        assert name.exists()
        os.close(descriptor)
        os.unlink(name)
    assert sorted(os.listdir(tmp_path)) == ["a.npy", "b.npy"]


def test_processes_that_write_one_file_leave_one_whole(binaries, tmp_path):
    for index in range(3):
        np.save(tmp_path / f"{index}.npy", np.full(50_000, index))
    lines = [f"{tmp_path / f'{index}.npy'}\n" * 40 for index in range(3)]
    command = [binaries / "probe", "copies", tmp_path / "one.npy"]
    writers = [subprocess.Popen(command, stdin=subprocess.PIPE, text=True) for _ in lines]
    for writer, text in zip(writers, lines, strict=True):
        writer.stdin.write(text)
        writer.stdin.close()
    while any(writer.poll() is None for writer in writers):
        write_array(tmp_path / "one.npy", (tmp_path / "0.npy").read_bytes())
        assert len(set(np.load(tmp_path / "one.npy").tolist())) == 1
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert sorted(os.listdir(tmp_path)) == ["0.npy", "1.npy", "2.npy", "one.npy"]


@pytest.mark.parametrize("kind", ["engine", "engine.json", "npy", "safetensors", "cache"])
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("/dev/zero", path)], ids=["pipe", "device"])
def test_pipes_and_devices_end_no_reader(binaries, engine, tmp_path, kind, make):
    path = tmp_path / "a.engine" if kind == "engine.json" else tmp_path / f"a.{kind}"
    if kind == "engine.json":
        path.write_bytes(engine.read_bytes())
    make(tmp_path / f"a.{kind}")
    done = subprocess.run([binaries / "probe", "read", path], capture_output=True, text=True, timeout=10)
    codes = {"engine": "engine-missing", "engine.json": "manifest-missing", "npy": "feed-name", "cache": "fine"}
    assert (done.returncode, done.stdout.strip()) == (0, codes.get(kind, "usage"))


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """An engine with requirements of its sizes."""

    @td.network(inputs={"x": td.Input((td.Dim("N", min=1, opt=4, max=64), td.Dim("T", min=2, opt=8, max=64)))})
    def paired(x):
        n, t = x.shape
        td.require(n % 2 == 0, "rows are pairs")
        td.require(t <= 2 * n)
        return {"y": x * 2}

    return td.build(paired, tmp_path_factory.mktemp("paired") / "paired.engine", backend=BACKEND).engine


def verdicts(manifest, shapes):
    """What Python says of feeds of these shapes."""
    for shape in shapes:
        view = SimpleNamespace(dtype="float32", shape=shape, device=None)
        try:
            yield str(manifest.signature.check({"x": view}))
        except td.TrtdslError as error:
            yield f"{error.code}: {error}"


@pytest.mark.parametrize("profiles", [1, 2])
def test_requirements_are_those_of_python(probe, engine, tmp_path, profiles):
    facts = json.loads(manifest_path(engine).read_text())
    facts["profiles"] *= profiles
    facts["profiles"][-1] = {"inputs": {"x": {"min": [2, 3], "opt": [4, 8], "max": [10, 20]}}}
    (path := tmp_path / "m.json").write_text(json.dumps(facts))
    manifest = parse_manifest(path.read_bytes())
    assert len(manifest.signature.requirements) == 2
    shapes = [(n, t) for n in range(12) for t in range(26)]
    lines = "".join(f"x={n},{t}\n" for n, t in shapes).encode()
    expected = list(verdicts(manifest, shapes))
    assert probe("fits", path, data=lines).splitlines() == expected
    assert sum("serves only sizes where" in line for line in expected) > 50
    assert sum("and the engine serves" in line for line in expected) > 20


def expression(rng, depth):
    if depth == 0 or rng.random() < 0.3:
        return rng.choice(["N", "T", rng.randint(-5, 9), rng.choice([2**40, -(2**40), 0])])
    word = rng.choice(["+", "*", "//", "max", "min"])
    count = rng.randint(2, 4) if word in "+*" else 2
    return [word, *(expression(rng, depth - 1) for _ in range(count))]


def test_random_requirements_are_judged_as_python_judges_them(probe, engine, tmp_path):
    rng = random.Random(3)
    facts = json.loads(manifest_path(engine).read_text())
    dims = {
        "N": {"input": "x", "axis": 0, "factor": 2, "offset": -1},
        "T": {"input": "x", "axis": 1, "factor": 3, "offset": 4},
    }
    shapes = [(rng.randint(1, 64), rng.randint(2, 64)) for _ in range(40)]
    lines = "".join(f"x={n},{t}\n" for n, t in shapes).encode()
    seen = set()
    for _ in range(60):
        sign = rng.choice(["==", "!=", "<", "<=", ">", ">="])
        comparison = [sign, expression(rng, 2), expression(rng, 1)]
        facts["requirements"] = [{"condition": "it holds", "expression": comparison, "dims": dims}]
        path = tmp_path / "manifest.json"
        path.write_text(json.dumps(facts))
        expected = list(verdicts(parse_manifest(path.read_bytes()), shapes))
        got = probe("fits", path, data=lines).splitlines()
        overflow = abs(rng_size(comparison)) >= 2**62
        if not overflow:
            assert [line.split(":")[0] for line in got] == [line.split(":")[0] for line in expected], comparison
            seen |= {line.split(":")[0] for line in got}
    assert seen == {"0", "feed-profile"}


def rng_size(part):
    """A bound of the largest number in an expression's evaluation."""
    if isinstance(part, int):
        return max(abs(part), 1)
    if isinstance(part, str):
        return 64
    bounds = [rng_size(each) for each in part[1:]]
    return (
        sum(bounds) if part[0] == "+" else int(np.prod([float(b) for b in bounds])) if part[0] == "*" else max(bounds)
    )


@pytest.mark.parametrize(
    "change",
    [
        {"expression": ["~", "N", 2]},
        {"expression": ["==", "Z", 2]},
        {"expression": ["==", ["//", "N", 2, 3], 2]},
        {"expression": ["==", True, 2]},
        {"expression": ["==", ["+", "N"], 2]},
        {"expression": 3},
        {"condition": None},
        {"dims": {"N": {"input": "z", "axis": 0, "factor": 1, "offset": 0}}},
        {"dims": {"N": {"input": "x", "axis": 9, "factor": 1, "offset": 0}}},
        {"dims": {"N": {"input": "x", "axis": 0, "factor": 0, "offset": 0}}},
        {"dims": {"N": {"input": "x", "axis": 0, "factor": 1}}},
    ],
)
def test_requirements_that_are_damaged(probe, engine, tmp_path, change):
    facts = json.loads(manifest_path(engine).read_text())
    facts["requirements"] = [{**facts["requirements"][0], **change}]
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(facts))
    with pytest.raises(td.TrtdslError) as caught:
        parse_manifest(path.read_bytes())
    assert caught.value.code == "manifest-damaged"
    assert "manifest-damaged" in probe("fits", path, code=7)


def test_overflow_in_a_requirement_is_a_refusal(probe, engine, tmp_path):
    facts = json.loads(manifest_path(engine).read_text())
    begun = time.process_time()
    for huge in (["*", 2**62, 2**62], ["*"] + [2**62] * 100_000, ["+", 2**63 - 1, 1], ["//", -(2**63), -1]):
        facts["requirements"][:] = [{**facts["requirements"][0], "expression": [">=", huge, 0]}]
        (tmp_path / "m.json").write_text(json.dumps(facts))
        assert probe("fits", tmp_path / "m.json", data=b"x=4,4\n").startswith("feed-profile: ")
        (verdict,) = verdicts(parse_manifest((tmp_path / "m.json").read_bytes()), [(4, 4)])
        assert verdict.startswith("feed-profile: ")
    assert time.process_time() - begun < 5
    facts["requirements"][:] = [{**facts["requirements"][0], "expression": [">=", 2**63, 0]}]
    (tmp_path / "m.json").write_text(json.dumps(facts))
    assert "manifest-damaged" in probe("fits", tmp_path / "m.json", code=7)
    with pytest.raises(td.CorruptFileError, match="the expression must be a comparison"):
        parse_manifest((tmp_path / "m.json").read_bytes())


DTYPES = {
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
}  # fmt: skip


def described(path):
    """What the library of safetensors reads, in the words of the probe."""
    lines = ""
    with safe_open(path, "pt") as file:
        for name in sorted(file.keys(), key=str.encode):
            tensor = file.get_tensor(name)
            shape = "".join(f",{size}" for size in tensor.shape)
            data = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
            lines += f"{name} {str(tensor.dtype)[6:]}{shape} {hashlib.sha256(data).hexdigest()};"
    return lines


def test_safetensors(probe, tmp_path):
    path = tmp_path / "all.safetensors"
    tensors = {f"{dtype}": torch.arange(6).reshape(2, 3).to(dtype) for dtype in DTYPES}
    save_file({**tensors, "scalar": torch.tensor(7.0), "empty": torch.empty(0, 3), "\u00e9:": torch.ones(1)}, path)
    expected = described(path)
    assert expected.count(";") == len(DTYPES) + 3
    assert probe("weights", data=f"{path}\n".encode()).removesuffix("\n") == expected
    assert probe("weights", data=f"{tmp_path / 'none'}\n".encode()).startswith("usage: no weights file")
    (tmp_path / "small").write_bytes(b"1234567")
    assert probe("weights", data=f"{tmp_path / 'small'}\n".encode()).startswith("weights-damaged: ")


def test_damaged_safetensors_files_are_read_as_their_library_reads_them(probe, tmp_path):
    rng = random.Random(6)
    save_file({"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(4, dtype=torch.int8)}, tmp_path / "small")
    save_file({"c": torch.arange(99.0)}, tmp_path / "sound")
    data = (tmp_path / "small").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    spoiled = [
        mutate(each, b'"shape":[3,2]', rng) for each in (data, (tmp_path / "sound").read_bytes()) for _ in range(150)
    ]
    for entry, key, value in [
        ("a", "shape", [3, 2]), ("a", "shape", [2, 2]), ("a", "shape", [-2, -3]), ("a", "shape", [2**62, 2**62]),
        ("a", "dtype", "F64"), ("a", "dtype", "I32"), ("a", "dtype", "F99"), ("a", "dtype", 3),
        ("a", "data_offsets", [0, 28]), ("a", "data_offsets", [4, 28]), ("a", "data_offsets", [24, 0]),
        ("b", "data_offsets", [0, 4]), ("b", "data_offsets", [24, 29]), ("b", "data_offsets", [24]), ("b", "shape", []),
        ("b", "data_offsets", [24.0, 28.0]), ("b", "data_offsets", [-4, 0]), ("b", "shape", None),
        ("b", "shape", [4, 0]),
    ]:  # fmt: skip
        changed = json.dumps({**header, entry: {**header[entry], key: value}}).encode()
        spoiled.append(len(changed).to_bytes(8, "little") + changed + body)
    paths = [tmp_path / f"{index}.safetensors" for index in range(len(spoiled))]
    for path, content in zip(paths, spoiled, strict=True):
        path.write_bytes(content)
    lines = probe("weights", data="\n".join(map(str, paths)).encode() + b"\n").splitlines()
    read = 0
    for path, line in zip(paths, lines, strict=True):
        try:
            expected = described(path)
        except (SafetensorError, AttributeError, OverflowError, RuntimeError):
            expected = None
        if not line.startswith("weights-"):
            read += 1
            assert line == expected, path.read_bytes()
        elif expected is not None:  # what is laxer there: names that repeat, and the like
            assert line.startswith("weights-damaged"), line
    assert 10 <= read < len(paths)


EMPTY = '{"dtype":"I8","shape":[0],"data_offsets":[0,0]}'


@pytest.mark.parametrize(
    ("header", "why"),
    [
        (f'{{"a":{EMPTY}}}', None),
        (f'{{"a":{EMPTY},"__metadata__":{{"a":"b"}}}}', None),
        (f'{{"a":{EMPTY[:-1]},"dtype":"I8"}}}}', "dtype repeats"),
        (f'{{"a":{EMPTY[:-1]},"shape":[0]}}}}', "shape repeats"),
        (f'{{"a":{EMPTY},"__metadata__":{{}},"__metadata__":{{}}}}', "__metadata__ repeats"),
        (f'{{"a":{EMPTY.replace("[0]", "[-0]")}}}', "a.shape must be"),
        (f'{{"a":{EMPTY.replace("[0,0]", "[-0,0]")}}}', "a.data_offsets must be"),
        (f'{{"a\\u0000b":{EMPTY}}}', "the name a?b must be printable text"),
        (f'{{"a\\n\\u001b[31m":{EMPTY}}}', "the name a??[31m must be printable text"),
        (f'{{"a\u202eb":{EMPTY}}}', "the name a?b must be printable text"),
        (f'{{"a":{EMPTY},"\\nb":{{}}}}', "must be printable text"),
        (f'{{"a\\udc00":{EMPTY}}}', "is not JSON"),  # the second half of a pair without its first
        (f'{{"a\\udc00\\udc00":{EMPTY}}}', "is not JSON"),
        (f'{{"a{".a" * 64}":{EMPTY}}}', "must be printable text of at most 64 parts"),
        ('{"a":' + "[" * 98 + "0" + "]" * 98 + "}", "a must be an object"),
        ('{"a":' + "[" * 99 + "0" + "]" * 99 + "}", "is not a safetensors file's header: it is nested more than 100"),
        ('{"a":', "is not JSON: it is damaged, or not a safetensors file's header"),
        (f'{{"a":{EMPTY}}}'.ljust(16 << 20), None),
        (f'{{"a":{EMPTY}}}'.ljust((16 << 20) + 1), "its header is larger than the 16 MiB that are read"),
    ],
    ids=lambda value: value[:60] if isinstance(value, str) else "sound",
)
def test_headers_of_safetensors_files_are_judged_as_python_judges_them(probe, tmp_path, header, why):
    path = tmp_path / "a.safetensors"
    path.write_bytes(safetensors_of(header.encode()))
    with nullcontext() if why is None else pytest.raises(td.TrtdslError):
        Weights(path)
    said = probe("weights", data=f"{path}\n".encode())
    assert said.startswith("weights-damaged: " if why else "a int8,0 ")
    assert (why or "") in said


def test_limits_of_manifests_are_those_of_python(probe, engine, tmp_path):
    facts = json.loads(manifest_path(engine).read_text())
    for depth, code in ((98, 0), (99, 7)):
        facts["other"] = []
        (tmp_path / "m.json").write_text(json.dumps(facts).replace("[]", "[" * depth + "0" + "]" * depth, 1))
        with pytest.raises(td.TrtdslError) if code else nullcontext():
            parse_manifest((tmp_path / "m.json").read_bytes())
        assert (
            "is not a manifest: it is nested more than 100 times" in probe("fits", tmp_path / "m.json", code=code)
        ) == bool(code)
    text = json.dumps(facts | {"other": []})
    for given, why in (
        (text.replace('"network": "', '"network": "\\udc00'), "is not JSON"),
        (text.replace("[]", "[" + "0," * 5_000_000 + "0]", 1), "is not a manifest: it has more than 5000000 values"),
    ):
        (tmp_path / "m.json").write_text(given)
        assert why in probe("fits", tmp_path / "m.json", code=7)
    large = tmp_path / engine.name
    large.write_bytes(engine.read_bytes())
    for size, code in ((16 << 20, "fine"), ((16 << 20) + 1, "manifest-missing")):
        manifest_path(large).write_bytes(manifest_path(engine).read_bytes().ljust(size))
        assert probe("judge", BACKEND.name, BACKEND.version, data=f"{large}\n".encode()) == f"{code}\n"


def test_what_files_say_is_shown_without_characters_that_a_terminal_obeys(probe, engine, tmp_path):
    facts = json.loads(manifest_path(engine).read_text())
    facts["inputs"] = {"x\x1b[2J\n\u202ey\u009b" + "\u00e9" * 5000: 3}
    (tmp_path / "m.json").write_text(json.dumps(facts))
    said = probe("fits", tmp_path / "m.json", code=7)
    assert "inputs.x?[2J??y?\u00e9\u00e9" in said and said.endswith("\u00e9 must be an object\n")
    assert len(said) < 700 and "\u00e9\u2026\u00e9" in said
    (tmp_path / "a.npy").write_bytes(npy(b"{'\x1b[31m\n': 3}"))
    assert "its header has a ?[31m?\n" in probe("npy", tmp_path / "a.npy", tmp_path / "b.npy", code=7)
    # An escape of one byte in Latin-1, parts of characters, halves of a pair, more bytes than are needed, past the end.
    for text in (
        b"\x9b2J",
        b"\xc3(",
        b"\xe2\x82",
        b"\xed\xa0\x80",
        b"\xc0\x8a",
        b"\xf4\x90\x80\x80",
        b"\xff",
        b"\xe2\x81\xaf",
    ):
        (tmp_path / "a.npy").write_bytes(npy(b"{'<%s>': 3}" % text))
        wanted = shown(text.decode("utf-8", "surrogateescape"))
        assert f"its header has a <{wanted}>\n" in probe("npy", tmp_path / "a.npy", tmp_path / "b.npy", code=7)
    folder = tmp_path / os.fsdecode(b"\x9b31m")
    said = probe("npy", folder, tmp_path / "b.npy", code=2)
    assert said == f"feed-name: there is no array {tmp_path}/?31m\n"


def test_a_cache_that_python_wrote_is_read_and_written_alike(probe, tmp_path):
    made_for = {"backend": BACKEND.version, "compute_capability": "8.9"}
    write_runtime_cache(tmp_path / "a", bytes(range(256)), made_for)
    assert probe("cache", tmp_path / "a", tmp_path / "b", BACKEND.version, "8.9") == "256\n"
    assert (tmp_path / "b").read_bytes() == (tmp_path / "a").read_bytes()
    assert probe("cache", tmp_path / "none", tmp_path / "b", BACKEND.version, "8.9") == "none\n"


ONE_TENSOR = b'{"a":{"dtype":"I8","shape":[%d],"data_offsets":[0,%d]}}'
LARGEST_NPY = (
    b"\x93NUMPY\x01\x00\x56\x00{'descr': '|i1', 'fortran_order': False, 'shape': (%d,), }" % (2**63 - 1) + b" " * 22
)


def safetensors_of(header, length=None):
    return (len(header) if length is None else length).to_bytes(8, "little") + header


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("a.npy", LARGEST_NPY, "input-damaged"),
        ("a.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\xff{'descr': '<f4'", "input-damaged"),
        ("a.safetensors", safetensors_of(b'{"a":{}}', 10**18), "weights-damaged"),
        ("a.safetensors", safetensors_of(b'{"a":{}}', 2**64 - 1), "weights-damaged"),
        ("a.safetensors", safetensors_of(ONE_TENSOR % ((2**63 - 1,) * 2)), "weights-damaged"),
        ("a.safetensors", safetensors_of(b'{"a":[' + b"[]," * 1_200_000 + b"0]}"), "out-of-memory"),
        ("a.cache", b'{"bytes": %d}\n' % 2**62, "fine"),
    ],
    ids=lambda value: f"{len(value)} bytes" if isinstance(value, bytes) else value,
)  # fmt: skip
def test_files_that_claim_more_than_the_memory_there_is(binaries, tmp_path, name, content, code):
    """Whatever sizes a file says, and however much there is to keep of it: an error of the library ends the reading."""
    (tmp_path / name).write_bytes(content)
    limit = 60 << 20
    done = subprocess.run(
        [binaries / "probe", "read", tmp_path / name],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{code}\n", "")


@pytest.mark.parametrize("kind", ["npy", "safetensors", "cache"])
def test_a_file_is_held_once(binaries, tmp_path, kind):
    """A file of 16 MiB is read, and written where the probe does that, with 30 MiB for the whole program."""
    path, size, limit = tmp_path / f"a.{kind}", 16 << 20, 30 << 20
    if kind == "npy":
        np.save(path, np.zeros(size, np.int8))
    elif kind == "safetensors":
        save_file({"a": torch.ones(1), "b": torch.zeros(size, dtype=torch.int8)}, path, {"trtdsl-derived": "none"})
    else:
        write_runtime_cache(path, bytes(size), {"backend": "1", "compute_capability": "8.9"})
    done = subprocess.run(
        [binaries / "probe", "read", path],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert (done.stdout, done.stderr) == ("fine\n", "")


@pytest.mark.parametrize("kind", ["engine", "npy", "safetensors", "cache"])
def test_every_allocation_of_reading_a_file_may_find_no_memory(probe, engine, tmp_path, kind):
    """One run for each allocation that fails; an exception of the standard library would end the probe."""
    path = engine if kind == "engine" else tmp_path / f"a.{kind}"
    if kind == "npy":
        np.save(path, np.arange(24.0).reshape(2, 3, 4))
    elif kind == "safetensors":
        save_file({"a": torch.ones(1), "b": torch.ones(2, 3)}, path, metadata={"trtdsl-derived": "none"})
    elif kind == "cache":
        write_runtime_cache(path, b"kernels" * 9, {"backend": "1", "compute_capability": "8.9"})
    sound, *failed = probe("starve", path).split()
    assert sound == "fine"
    counts = {code: int(count) for code, _, count in (each.partition("=") for each in failed)}
    assert counts["out-of-memory"] > 10
    # A stream of the standard library says that it cannot read where it finds no memory for its buffer.
    assert set(counts) <= {
        "out-of-memory",
        "fine",
        "engine-missing",
        "manifest-missing",
        "feed-name",
        "usage",
        "weights-mismatch",
    }


@pytest.mark.parametrize("count", [2000, pytest.param(100_000, marks=pytest.mark.heavy)])
def test_spoiled_files_end_in_errors_of_the_library(sanitized, engine, tmp_path, count):
    facts = {**STATES_FACTS, "precision": "float16", "precisions": {"calls": {"int8": 1}, "sqnr": {"y": None}}}
    other = write(tmp_path / "b.engine", STATES, **facts, refit={**REFIT, "precisions": [CALL]})
    files = [engine, other, *(tmp_path / name for name in ("a.npy", "b.npy", "a.safetensors", "a.cache"))]
    np.save(tmp_path / "a.npy", np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    np.save(tmp_path / "b.npy", np.array(1, np.int64))
    weights = {"conv:KERNEL": torch.arange(24.0).reshape(2, 3, 4), "conv:BIAS": torch.ones(4, dtype=torch.float16)}
    save_file(weights, tmp_path / "a.safetensors", metadata={"trtdsl-derived": "5" * 64})
    made_for = {"backend": "1.7.1.116", "compute_capability": "8.9"}
    write_runtime_cache(tmp_path / "a.cache", b"kernels" * 9, made_for)
    command = [sanitized / "mutations", "1", str(count), tmp_path, *files]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    fine, refused = (int(part.split()[0]) for part in done.stdout.split(","))
    assert fine + refused == count and fine > count / 200 and refused > count / 2
