"""Builds on the real TensorRT: engine, manifest, nothing half-written, nothing built twice."""

import hashlib
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.build import CheckFailedError
from trtdsl.compiler import compile_engine
from trtdsl.fingerprint import fingerprint
from trtdsl.spec import load_spec


@pytest.fixture
def spec(small):
    return load_spec(str(small / "small.py"))


def test_engine_and_manifest(spec, tmp_path):
    phases = []
    result = td.build(spec, tmp_path / "out.engine", progress=lambda phase, done, total: phases.append(phase))
    data = (tmp_path / "out.engine").read_bytes()
    assert data[:4] in (b"vtrt", b"ptrt", b"ftrt")
    manifest = json.loads((tmp_path / "out.engine.json").read_text())
    assert result.built
    assert result.manifest == manifest
    assert manifest["schema"] == 2
    assert manifest["engine"] == {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    backend = td.Network().backend
    assert manifest["backend"] == {"name": backend.name, "version": backend.version}
    assert manifest["compute_capabilities"] == ["8.0", "8.6", "8.9", "12.0", "12.1"]
    profile = {"min": [1, 3, 5, 5], "opt": [2, 3, 5, 5], "max": [4, 3, 5, 5]}
    assert manifest["inputs"] == {"x": {"dtype": "float32", "shape": ["N", 3, 5, 5]}}
    assert manifest["profiles"] == [{"dims": {"N": [1, 2, 4]}, "inputs": {"x": profile}}]
    assert manifest["outputs"] == {"scores": {"dtype": "float32", "shape": ["N", 6]}}
    weights = (spec.weights).read_bytes()
    assert manifest["weights"] == {"file": "small.safetensors", "sha256": hashlib.sha256(weights).hexdigest()}
    assert manifest["check"]["passed"]
    assert manifest["check"]["cases"] == [{"N": 1}, {"N": 2}, {"N": 4}, {"N": 3}]
    assert 0 < manifest["check"]["max_relative_to_scale"] < 1e-5
    assert manifest["layers"] == spec.define().definition.num_layers
    assert manifest["statistics"]["activation_memory"] > 0
    assert manifest["statistics"]["weight_memory"] > 0
    assert manifest["build_seconds"] > 0
    assert "Optimizing graph" in phases
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["out.engine", "out.engine.json"]


def test_two_builds_are_byte_identical_also_in_another_process(spec, small, tmp_path):
    td.build(spec, tmp_path / "a.engine")
    command = [
        sys.executable,
        "-m",
        "trtdsl.cli",
        "build",
        str(small / "small.py"),
        "-o",
        str(tmp_path / "b.engine"),
        "-q",
    ]
    subprocess.run(command, check=True, capture_output=True)
    assert (tmp_path / "a.engine").read_bytes() == (tmp_path / "b.engine").read_bytes()


def test_what_has_not_changed_is_not_built_again(spec, small, tmp_path):
    engine = tmp_path / "out.engine"
    assert td.build(spec, engine).built
    before = engine.stat().st_mtime_ns
    again = td.build(load_spec(str(small / "small.py")), engine)
    assert not again.built
    assert again.report is None
    assert again.manifest["check"]["done"]
    assert engine.stat().st_mtime_ns == before
    assert td.build(spec, engine, force=True).built
    assert td.build(spec, engine, dims={"N": (1, 2, 8)}).built
    assert td.build(spec, engine, config=td.BuildConfig(compute_capabilities=("8.9",))).built
    weights = {name: spec.open_weights().get(name).clone() for name in spec.open_weights().shapes}
    weights["fc.bias"] += 1
    assert td.build(spec, engine, weights=weights).built
    engine.write_bytes(engine.read_bytes()[:-1])
    assert td.build(spec, engine, weights=weights).built
    (tmp_path / "out.engine.json").write_text("{")
    assert td.build(spec, engine, weights=weights).built


def test_a_check_that_is_new_runs_on_an_engine_that_is_not(spec, small, tmp_path):
    engine = tmp_path / "out.engine"
    unchecked = td.build(spec, engine, run_check=False)
    assert unchecked.manifest["check"] == {"done": False, "reason": "--no-check"}
    checked = td.build(spec, engine)
    assert not checked.built
    assert checked.report.passed
    assert json.loads((tmp_path / "out.engine.json").read_text())["check"]["passed"]
    reference = small / "reference.py"  # a changed reference is compared anew
    reference.write_text(reference.read_text().replace("torch.relu(", "torch.tanh("))
    with pytest.raises(CheckFailedError):
        td.build(load_spec(str(small / "small.py")), engine)


def test_a_network_that_differs_is_not_built(spec, small, tmp_path):
    text = (small / "small.py").read_text()
    (small / "small.py").write_text(text.replace("F.relu(", "F.sigmoid("))
    with pytest.raises(CheckFailedError, match=r"output 'scores' differs at N = 1: .*Nothing was built") as caught:
        td.build(load_spec(str(small / "small.py")), tmp_path / "out.engine")
    assert not caught.value.report.passed
    assert caught.value.exit_code == 1
    assert not (tmp_path / "out.engine").exists()


def test_dry_run_writes_nothing(spec, tmp_path):
    result = td.build(spec, tmp_path / "out.engine", dry_run=True)
    assert not result.built
    assert result.report.passed
    assert "engine" not in result.manifest
    assert not (tmp_path / "out.engine").exists()


def unwritable(folder):
    """Outputs that cannot be written, with why."""
    os.mkfifo(folder / "pipe")
    (folder / "dangling").symlink_to(folder / "no" / "a.engine")
    (folder / "circle").symlink_to(folder / "circle")
    return (
        (folder / "no" / "a.engine", "there is no directory"),
        (folder, "it is a directory"),
        (folder / "pipe", "it is not a regular file"),
        (folder / ("a" * 300), "File name too long"),
        (folder / "dangling", "there is no directory .*no$"),
        (folder / "circle", "[Ss]ymlink|levels of symbolic links"),
    )


def test_unwritable_outputs_are_refused_before_any_work(spec, tmp_path):
    gone = tmp_path / "gone"  # what comes first would find that it is not there
    for output, message in unwritable(tmp_path):
        for write in (
            lambda output=output: td.build(spec, output, weights=gone),
            lambda output=output: td.derive_weights(spec, gone, output=output),
            lambda output=output: td.convert_weights(gone, output),
        ):
            with pytest.raises(td.UsageError, match=message):
                write()
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    if os.geteuid() != 0:  # root may write anywhere
        tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
        with pytest.raises(td.UsageError, match="Permission denied"):
            td.build(spec, tmp_path / "a.engine")


def test_nothing_takes_the_place_of_a_pipe(tmp_path):
    from trtdsl.files import write_all_atomically

    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(td.UsageError, match="pipe: it is not a regular file"):
        write_all_atomically({tmp_path / "a": b"new", tmp_path / "pipe": b"new"})
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_options_that_the_backend_cannot_honour_are_refused(spec, tmp_path):
    with pytest.raises(td.UsageError, match=r"'9\.9' is not one that tensorrt-rtx"):
        td.build(spec, tmp_path / "a.engine", config=td.BuildConfig(compute_capabilities=("9.9",)))


def test_compute_capabilities_narrow_the_engine(spec, tmp_path):
    everything = td.build(spec, tmp_path / "a.engine").manifest
    one = td.build(spec, tmp_path / "b.engine", config=td.BuildConfig(compute_capabilities=("8.9",))).manifest
    assert one["compute_capabilities"] == ["8.9"]
    assert one["engine"]["sha256"] != everything["engine"]["sha256"]


def test_a_dimension_without_a_range_is_asked_for():
    net = td.Network()
    net.output(F.relu(net.input("x", ("N", 3))), "y")
    with pytest.raises(td.UsageError, match="dimension N has no range"):
        compile_engine(net)
    with pytest.raises(td.UsageError, match="has no output"):
        compile_engine(td.Network())


def test_what_tensorrt_cannot_build_names_the_authors_line():
    net = td.Network()
    x = net.input("x", (4,))
    layer = net.definition.add_non_zero(x.trt)  # no kernel for it without a GPU
    layer.get_output(0).name = "indices"
    net.definition.mark_output(layer.get_output(0))
    net.outputs["indices"] = x
    with pytest.raises(td.BuildError, match="TensorRT cannot build 'network': ") as caught:
        compile_engine(net)
    assert "cudaError" not in str(caught.value)
    assert caught.value.exit_code == 4


def large():
    net = td.Network()
    x = net.input("x", (1, 64, 64, 64))
    for _ in range(60):
        x = F.relu(F.conv2d(x, net.constant(torch.randn(64, 64, 3, 3) / 24), padding=1))
        x = x + F.exp(F.mean(x, (2, 3), keepdim=True))
    net.output(x, "y")
    return net


@pytest.fixture
def listening():
    """SIGINT is heard: a shell's background jobs ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_during_the_build_cancels_it(listening):
    net = large()
    seen = []

    def interrupt(phase, done, total):
        if not seen:
            seen.append(phase)
            threading.Timer(0.01, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        time.sleep(0.002)

    with pytest.raises(td.CancelledError, match="cancelled; nothing was written"):
        compile_engine(net, progress=interrupt)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_fingerprint_sees_every_change():
    def network(value=1.0, name="relu", shape=(2, 3), slope=0.1):
        net = td.Network()
        x = net.input("x", shape)
        y = F.leaky_relu(x * torch.full((3,), value), slope)
        with net.scope(name):
            net.output(F.relu(y), "y")
        return fingerprint(net.definition, net.backend)

    assert network() == network()
    different = [network(value=2.0), network(name="other"), network(shape=(4, 3)), network(slope=0.2)]
    assert len({network(), *different}) == 5


def test_a_link_stays_one(tmp_path):
    from trtdsl.files import write_atomically

    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


def test_writing_is_all_or_nothing(tmp_path, monkeypatch):
    from trtdsl import files

    (tmp_path / "a").write_bytes(b"old")

    def fail(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", fail)
    with pytest.raises(td.UsageError, match="No space left on device"):
        files.write_all_atomically({tmp_path / "a": b"new", tmp_path / "b": b"new"})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"old"}
