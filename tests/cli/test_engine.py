"""The commands around engines as far as they go without a GPU, and several builds at once."""

import hashlib
import json

import numpy as np
import pytest

import trtdsl as td
from trtdsl.core.backend import cuda_status
from trtdsl.engine.bench import chosen, summarize

no_gpu = pytest.mark.skipif(cuda_status() is None, reason="there is a GPU here")


@pytest.fixture
def trtdsl(command_line, small):
    return command_line(small)


@pytest.fixture
def engine(trtdsl, small):
    trtdsl("build", "small.py", "--no-check", "-q")
    return small / "small.engine"


@no_gpu
def test_run_judges_engine_and_inputs_before_it_asks_for_a_gpu(trtdsl, engine, small):
    np.save(small / "x.npy", np.zeros((2, 3, 5, 5), np.float32))
    error = json.loads(trtdsl("run", engine, "--input", "x=x.npy", "--json", code=6).stdout)["error"]
    assert (error["code"], error["type"]) == ("no-driver", "NoDriverError")
    np.save(small / "x.npy", np.zeros((9, 3, 5, 5), np.float32))
    error = json.loads(trtdsl("run", engine, "--input", "x=x.npy", "--json", code=2).stdout)["error"]
    assert error["code"] == "feed-profile"
    assert "there is no input 'z'" in trtdsl("run", engine, "--input", "z=x.npy", code=2).stderr
    engine.write_bytes(engine.read_bytes()[:-1])
    assert "ends after" in trtdsl("run", engine, "--input", "x=x.npy", code=7).stderr


def test_invalid_input_arguments(trtdsl, engine, small):
    assert "expected NAME=FILE.npy" in trtdsl("run", engine, "--input", "x", code=2).stderr
    assert "cannot be read" in trtdsl("run", engine, "--input", "x=none.npy", code=2).stderr
    (small / "text.npy").write_text("no array")
    assert "is no .npy file" in trtdsl("run", engine, "--input", "x=text.npy", code=7).stderr
    assert f"there is no engine none.engine (./ has {engine.name})" in trtdsl("run", "none.engine", code=2).stderr
    assert f"(./ has {engine.name})" in trtdsl("inspect", "none.engine", code=2).stderr


@no_gpu
def test_a_profile_by_its_index():
    assert [chosen(("a", "b"), index) for index in (0, 1)] == ["a", "b"]
    for index in (-1, 2):
        with pytest.raises(td.UsageError, match=f"there is no profile {index}: there are 2, counted from 0"):
            chosen(("a", "b"), index)


def test_bench_without_a_gpu(trtdsl, engine):
    assert "needs a network" in trtdsl("bench", engine, "--against", "torch", code=2).stderr
    assert "known are torch, compile, onnx" in trtdsl("bench", "small.py", "--against", "jax", code=2).stderr
    assert "NVIDIA GPU" in trtdsl("bench", engine, code=6).stderr
    assert "NVIDIA GPU" in trtdsl("bench", "small.py", code=6).stderr


def test_summary_of_times():
    times = summarize("engine", 50.0, [float(number) for number in range(100, 0, -1)])
    assert (times.first, times.minimum, times.median, times.p90, times.p99) == (50.0, 1.0, 50.5, 90.0, 99.0)
    assert times.mean == 50.5
    assert times.variation == pytest.approx(np.std(np.arange(1, 101)) / 50.5)
    assert summarize("one", 1.0, [2.0]).p99 == 2.0
    with pytest.raises(td.UsageError):
        summarize("none", 1.0, [])


def test_export_and_derive(trtdsl, engine, small):
    assert "does not load engines of TensorRT-RTX" in trtdsl("export", "triton", engine, "models", code=5).stderr
    trtdsl("export", "triton", engine, "models", "--allow-rtx", "--instances", "2")
    assert "count: 2" in (small / "models/small/config.pbtxt").read_text()
    names = json.loads(trtdsl("weights", "derive", "small.py", "d.safetensors", "--json").stdout)["names"]
    assert (small / "d.safetensors").exists()
    assert all(":" in name for name in names)


def test_several_builds_and_one_that_fails(trtdsl, small):
    (small / "other.py").write_text((small / "small.py").read_text().replace("def small(", "def other("))
    (small / "broken.py").write_text("import trtdsl as td\nraise ValueError('on purpose')\n")
    done = trtdsl("build", "small.py", "broken.py", "other.py", "-j", "2", "--profile", "N=1:3:4", code=3)
    assert "on purpose" in done.stderr
    assert "1 of 3 networks were not built" in done.stderr
    assert "small.engine" in done.stdout
    assert "other.engine" in done.stdout
    assert json.loads((small / "other.engine.json").read_text())["profiles"][0]["dims"] == {"N": [1, 3, 4]}
    assert (small / "small.engine").exists()
    assert (small / "other.engine").exists()
    builds = json.loads(trtdsl("build", "small.py", "other.py", "--profile", "N=1:3:4", "--json").stdout)["builds"]
    assert [(each["network"], each["built"], each["exit_code"]) for each in builds] == [
        ("small.py", False, 0),
        ("other.py", False, 0),
    ]
    assert "is none" in trtdsl("build", "small.py", "other.py", "-o", "small.engine", code=2).stderr
    assert "cannot make the folder" in trtdsl("build", "small.py", "other.py", "-o", "a" * 300, code=2).stderr
    assert "build them apart" in trtdsl("build", "small.py", "./small.py", code=2).stderr
    (small / "copied.py").write_text((small / "small.py").read_text())  # whose network is called small, too
    assert "would be written as small.engine" in trtdsl("build", "small.py", "copied.py", code=2).stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--optimization-level", "5"], "tensorrt-rtx has no optimization level"),
        (["--tiling", "fast"], "no tiling"),
        (["--sparsity"], "no sparsity"),
        (["--aux-streams", "2"], "no aux streams"),
        (["--timing-cache", "c"], "no timing cache"),
        (["--hardware-compatibility", "ampere+"], "no hardware compatibility"),
        (["--version-compatible"], "no version compatible"),
        (["--optimization-level", "6"], "--optimization-level 6: expected int <= 5"),
        (["--profiling-verbosity", "loud"], "one of none, names, detailed"),
        (["--workspace", "0"], "--workspace 0: expected int >= 1"),
        (["--workspace", str(2**70)], f"--workspace {2**70}: expected int <= {2**43 - 1}"),
        (["--compute-capability", "1.0"], "not one that"),
        (["--profile", "M=1"], "no dimension 'M'"),
        (["--profile", "N=1:2:99"], "not within"),
    ],
)
def test_options_that_would_be_ignored_are_refused(trtdsl, small, options, words):
    assert words in trtdsl("build", "small.py", *options, "--backend", "tensorrt-rtx", code=2).stderr
    assert not list(small.glob("*.engine*"))


def test_profiles_are_printed_as_they_are_given(trtdsl, small):
    (small / "small.py").write_text((small / "small.py").read_text().replace("max=4", "max=200"))
    done = trtdsl("build", "small.py", "--no-check", "--profile", "N=1", "--profile", "N=1:100:200")
    assert "profile 0: N=1\n" in done.stdout
    assert "profile 1: N=1:100:200\n" in done.stdout
    said = trtdsl("check", "small.py", "--profile", "N=1:2:3:4", code=2).stderr
    assert "--profile N=1:2:3:4: expected NAME=MIN:OPT:MAX or NAME=SIZE" in said


def test_options_that_are_taken(trtdsl, small):
    trtdsl("build", "small.py", "--no-check", "--workspace", "512", "--profiling-verbosity", "detailed",
           "--weight-streaming", "--profile", "N=1", "--profile", "N=2:3:4", "--compute-capability", "8.9")  # fmt: skip
    manifest = json.loads((small / "small.engine.json").read_text())
    assert manifest["config"]["workspace"] == 512 << 20
    assert manifest["config"]["profiling_verbosity"] == "detailed"
    assert manifest["config"]["weight_streaming"]
    assert [profile["dims"] for profile in manifest["profiles"]] == [{"N": [1, 1, 1]}, {"N": [2, 3, 4]}]
    assert manifest["compute_capabilities"] == ["8.9"]


def test_inspect_says_what_an_engine_is(small, command_line):
    run = command_line(small)
    run("build", "small.py", "--precision", "fp16")
    shown = run("inspect", "small.engine").stdout
    digest = hashlib.sha256((small / "small.py").read_bytes()).hexdigest()
    assert "small.engine: small, float16" in shown
    assert f"network file: small.py, sha256 {digest[:16]}" in shown
    assert "checked against torch at" in shown
    value = json.loads(run("inspect", "small.engine", "--json").stdout)
    assert (value["kind"], value["precision"], value["source"]["sha256"]) == ("engine", "float16", digest)
    (small / "small.engine.json").unlink()
    assert "there is no manifest" in run("inspect", "small.engine", code=2).stderr


def test_inspect_says_nothing_of_an_engine_that_is_not_the_one_of_its_manifest(trtdsl, engine):
    whole = engine.read_bytes()
    for data, said in ((whole[:-1], "ends after"), (b"", "is empty"), (whole + b"\0", "after the engine's end")):
        engine.write_bytes(data)
        done = trtdsl("inspect", engine, code=7)
        assert (done.stdout, said in done.stderr) == ("", True), done.stderr
