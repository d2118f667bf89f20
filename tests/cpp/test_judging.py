"""The C++ loader, as far as it needs no TensorRT: compiled here, and held against the Python one case by case."""

import hashlib
import json
import random
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import trtdsl as td
import trtdsl.functional as F
from trtdsl.building.batch import engines_output, write_engines
from trtdsl.core import errors
from trtdsl.core.backend import get_backend
from trtdsl.engine.loading.loader import open_engine
from trtdsl.engine.loading.manifest import manifest_path

from ..engine.loading.test_loader import mutate
from .conftest import CPP, compiled
from .test_running import write

BACKEND = get_backend("tensorrt-rtx")
HAVE = f"--have=tensorrt-rtx={BACKEND.version}"


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("engine")

    @td.network(inputs={"x": td.Input((td.Dim("N", min=1, opt=2, max=4), 3)), "k": td.Input((3,))})
    def tiny(x, k):
        return {"y": F.relu(x * k)}

    return td.build(tiny, folder / "tiny.engine", backend=BACKEND).engine


def have(version=None):
    return ("--have", f"tensorrt-rtx={version or BACKEND.version}")


def test_the_manifest_of_a_link_stands_where_it_leads(run_engine, engine, tmp_path):
    (tmp_path / "link").symlink_to(engine)
    assert f"tensorrt-rtx {BACKEND.version}" in run_engine(tmp_path / "link", "--check", *have())


def test_the_manifest_of_several_engines_is_refused_with_what_takes_it(run_engine, engine):
    write_engines(engines_output(engine.parent, "whole"), "whole", [engine])
    said = run_engine(engine.parent / "whole.engines.json", "--check", *have(), code=7)
    assert "is not an engine but the manifest of several, each for some of the sizes" in said
    assert "Python's load_engine takes: name one of its engines [not-an-engine]" in said


def test_error_codes_are_python_s(probe):
    ours = {
        kind.code: kind.exit_code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.TrtdslError) and kind.code
    }
    theirs = dict(line.split() for line in probe("codes").splitlines())
    assert {code: int(number) for code, number in theirs.items()} == ours


def test_numbers_of_float16(probe):
    wanted = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32)
    assert np.array_equal(np.float32([float.fromhex(line) for line in probe("halves").split()]), wanted, equal_nan=True)


def test_sha256(probe):
    rng = random.Random(1)
    for size in (0, 1, 55, 56, 63, 64, 65, 119, 120, 1000, 100_003):
        data = rng.randbytes(size)
        assert probe("sha256", data=data).strip() == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int64", "int8", "uint8", "bool", "float64"])
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (2, 3, 4)])
def test_npy(probe, tmp_path, dtype, shape):
    array = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    np.save(tmp_path / "a.npy", array)
    probe("npy", tmp_path / "a.npy", tmp_path / "b.npy")
    back = np.load(tmp_path / "b.npy")
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert np.array_equal(back, array)


def test_npy_that_cannot_be_fed(probe, tmp_path):
    np.save(tmp_path / "a.npy", np.ones(3, np.complex64))
    assert "its type is <c8" in probe("npy", tmp_path / "a.npy", tmp_path / "b.npy", code=7)
    np.save(tmp_path / "a.npy", np.ones(3))
    (tmp_path / "a.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-1])
    assert "23 bytes of data, not 24" in probe("npy", tmp_path / "a.npy", tmp_path / "b.npy", code=7)


def test_an_undamaged_engine_passes_in_cpp(run_engine, engine, tmp_path):
    assert f"tensorrt-rtx {BACKEND.version}" in run_engine(engine, "--check", *have())
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    np.save(tmp_path / "k.npy", np.ones(3, np.float32))
    feeds = ("--input", f"x={tmp_path / 'x.npy'}", "--input", f"k={tmp_path / 'k.npy'}")
    run_engine(engine, "--check", *have(), *feeds)
    assert "not run [no-driver]" in run_engine(engine, *have(), *feeds, code=6)
    assert "usage" in run_engine(code=2)


@pytest.mark.parametrize(
    ("name", "array", "code"),
    [
        ("z", np.ones((2, 3), np.float32), "feed-name"),
        ("x", np.ones((2, 3), np.int32), "feed-dtype"),
        ("x", np.ones(3, np.float32), "feed-rank"),
        ("x", np.ones((2, 4), np.float32), "feed-shape"),
        ("x", np.ones((5, 3), np.float32), "feed-profile"),
    ],
)
def test_feeds_that_do_not_fit(run_engine, engine, tmp_path, name, array, code):
    np.save(tmp_path / "k.npy", np.ones(3, np.float32))
    np.save(tmp_path / "x.npy", array)
    feeds = ("--input", f"{name}={tmp_path / 'x.npy'}", "--input", f"k={tmp_path / 'k.npy'}")
    assert f"[{code}]" in run_engine(engine, "--check", *have(), *feeds, code=2)


def test_versions_libraries_capabilities(run_engine, probe, engine):
    assert "and here is 1.6.1.120" in run_engine(engine, "--check", *have("1.6.1.120"), code=5)
    assert "[wrong-product]" in run_engine(engine, "--check", "--have", "tensorrt=10.3.0.26", code=5)
    probe("library", "11.1.0", "11.1.0")
    assert "library-mismatch" in probe("library", "11.1.0", "1.7.1", code=5)
    probe("version", "10.3.0.26", "11.4.0.106", 1)
    assert "version-mismatch" in probe("version", "10.3.0.26", "11.4.0.106", 0, code=5)
    probe("capability", "8.9")
    assert "compute-capability" in probe("capability", "12.0", code=5)


TWO = {name: {"dtype": "float32", "shape": ["N", 3]} for name in ("x", "k")}  # as y
ROOM = [{"dims": {}, "inputs": {name: {"min": [1, 3], "opt": [2, 3], "max": [4, 3]} for name in TWO}}]
CALL = ["net.py", "block", "linear", "linear", 1, "int8", [0.5, 2]]


def test_the_precision_and_the_scales_are_shown(run_engine, tmp_path):
    hashes = {"structure_sha256": "5" * 64, "values_sha256": "0" * 64}
    precisions = {"calls": {"int8": 1, "float16": 20}, "file": "net.precision.json", "sha256": "ab" * 32}
    precisions |= {"sqnr": {"y": 40.5, "z": None}, "data": "images"}
    refit = {**hashes, "weights": [], "values": {}, "precisions": [CALL, ["\x1b[2J", *CALL[1:]]]}
    engine = write(tmp_path / "a.engine", precision="float16", precisions=precisions, refit=refit)
    said = run_engine(engine, "--check", *have("1.7.1.116")).splitlines()[1:]
    assert said == [
        "precision float16",
        f"precision of each call by net.precision.json, sha256 {'ab' * 32}",
        "calls in float16: 20",
        "calls in int8: 1",
        "40.5 dB y",
        "exact z",
        "measured on images",
        "net.py block: linear 1 in int8 0.5 2",
        "?[2J block: linear 1 in int8 0.5 2",
    ]


def test_the_same_verdict_as_python_on_spoiled_files(probe, engine, tmp_path):
    rng = random.Random(2)
    data, manifest = engine.read_bytes(), manifest_path(engine).read_bytes()
    facts = json.loads(manifest)
    hashes = {"structure_sha256": "5" * 64, "values_sha256": "0" * 64}
    refit = {**hashes, "weights": ["a"], "values": {}, "expected": {}, "dims": {}}
    changed = [
        {"config": {**facts["config"], "strip_weights": True}, "refit": refit},
        {"config": {**facts["config"], "version_compatible": True}},
        {"config": 3},
        {"inputs": {}},
        {"schema": 9},
        {"profiles": []},
        {"profiles": [{"dims": {}}]},
        {"engine": {**facts["engine"], "bytes": 10**12}},
        {"engine": {**facts["engine"], "sha256": "0" * 64}},
        {"network": 'quoted "name" \\ \u00e9 \U0001f600'},
        {"backend": {"name": "tensorrt", "version": "10.3.0.26"}},
        {"states": {}}, {"states": {"x": "y"}}, {"states": {"k": "y"}}, {"states": {"z": "y"}}, {"states": {"x": 3}},
        {"inputs": TWO, "profiles": ROOM, "states": {"x": "y", "k": "y"}},
        {"precision": "float16"}, {"precision": 16}, {"precisions": None}, {"precisions": {}},
        {"precisions": {"calls": {"int8": -1}}}, {"precisions": {"calls": {"int8": 1}, "sqnr": {"y": "good"}}},
        {"refit": {**refit, "precisions": [CALL]}}, {"refit": {**refit, "precisions": [CALL[:-1]]}},
        {"refit": {**refit, "precisions": [[*CALL[:-1], ["0.5"]]]}},
    ]  # fmt: skip
    cases = [(data, json.dumps({**facts, **change}).encode()) for change in changed]
    cases += [(mutate(data, manifest, rng), manifest) for _ in range(150)]
    cases += [(data, mutate(manifest, data, rng)) for _ in range(150)]
    paths, expected = [], []
    for index, (content, description) in enumerate(cases):
        path = tmp_path / f"{index}.engine"
        path.write_bytes(content)
        manifest_path(path).write_bytes(description)
        paths.append(path)
        try:
            found = open_engine(path, backend=BACKEND)
            expected.append("engine-stripped" if found.manifest.config.strip_weights else "fine")
        except td.TrtdslError as error:
            expected.append(error.code)
    lines = "\n".join(map(str, paths)).encode() + b"\n"
    got = probe("judge", "tensorrt-rtx", BACKEND.version, data=lines).split()
    differing = {
        path.name: (ours, theirs)
        for path, ours, theirs in zip(paths, expected, got, strict=True)
        if ours != theirs and "manifest-damaged" not in (ours, theirs)
    }
    assert not differing
    assert got[: len(changed)] == expected[: len(changed)]
    # Two JSON readers may differ on what is no JSON at all, not on whose it is.
    agreeing = sum(ours == theirs for ours, theirs in zip(expected, got, strict=True))
    assert agreeing >= 0.99 * len(cases)
    assert {"engine-stripped", "host-code", "engine-damaged", "engine-truncated", "fine"} <= set(expected)


def test_cmake_says_what_it_looked_for(tmp_path):
    if any(Path(folder, "NvInfer.h").exists() for folder in ("/usr/include", "/usr/local/include")):
        pytest.skip("TensorRT's headers are installed here")
    command = ["cmake", "-S", CPP, "-B", tmp_path, f"-DTensorRT_ROOT={tmp_path / 'nowhere'}"]
    done = subprocess.run(command, capture_output=True, text=True)
    text = " ".join(done.stderr.split())
    assert done.returncode != 0
    assert "No TensorRT was found. Looked for" in text
    for word in ("NvInfer.h", "tensorrt_rtx", "nvinfer", "nowhere", "-DTRTRTX_INSTALL_DIR", "-DTensorRT_ROOT"):
        assert word in text
    command = ["cmake", "-S", CPP, "-B", tmp_path / "other", "-DTRTDSL_BACKEND=onnx"]
    assert "must be auto" in " ".join(subprocess.run(command, capture_output=True, text=True).stderr.split())


def test_the_guide_s_program_compiles_and_runs(binaries, engine, tmp_path):
    """The C++ of docs/engines.md, as it stands there."""
    text = (CPP.parent / "docs/engines.md").read_text()
    program = text.split("```cpp\n")[1].split("```")[0].replace("1.7.1.116", BACKEND.version)
    (tmp_path / "main.cpp").write_text(program)
    compiled(tmp_path / "main.cpp", tmp_path / "main", binaries)
    done = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr.split(":")[0]) == (2, "engine-missing")
    shutil.copy(engine, tmp_path / "double.engine")
    shutil.copy(manifest_path(engine), tmp_path / "double.engine.json")
    done = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == f"{BACKEND.version} tiny\n"
