"""Builds on the real TensorRT: engine, manifest, nothing half-written, nothing built twice."""

import errno
import hashlib
import inspect
import json
import os
import signal
import stat
import subprocess
import sys

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L
from trtdsl.building import buildable
from trtdsl.building.build import CheckFailedError
from trtdsl.core.backend import Messages, get_backend
from trtdsl.definition.spec.load import load_spec
from trtdsl.engine.compiling.compiler import Statistics, _statistics, compile_engine
from trtdsl.interpreter.fingerprint import fingerprint


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
    assert manifest["schema"] == 3
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
    assert manifest["check"]["cases"] == [{"N": 1}, {"N": 2}, {"N": 3}, {"N": 4}]
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
        "trtdsl.cli.main",
        "build",
        str(small / "small.py"),
        "-o",
        str(tmp_path / "b.engine"),
        "-q",
    ]
    subprocess.run(command, check=True, capture_output=True)
    assert (tmp_path / "a.engine").read_bytes() == (tmp_path / "b.engine").read_bytes()


def test_an_unchanged_network_is_not_built_again(spec, small, tmp_path):
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
    assert td.build(spec, engine, config=td.BuildConfig(compute_capabilities=("8.9",), tf32=False)).built
    weights = {name: spec.open_weights().get(name).clone() for name in spec.open_weights().shapes}
    weights["fc.bias"] += 1
    assert td.build(spec, engine, weights=weights).built
    engine.write_bytes(engine.read_bytes()[:-1])
    assert td.build(spec, engine, weights=weights).built
    manifest = tmp_path / "out.engine.json"
    manifest.write_text(manifest.read_text()[:500])
    assert td.build(spec, engine, weights=weights).built


def test_another_version_builds_again(spec, tmp_path, monkeypatch):
    """Of TensorRT, or of trtdsl: each may build something else of the same network."""

    def built():
        return td.build(spec, tmp_path / "out.engine", check=False).built

    assert built()
    assert not built()
    monkeypatch.setattr(get_backend(), "version", "1.7.1.117")
    assert built()
    assert not built()
    monkeypatch.setattr(sys.modules["trtdsl.building.up_to_date"], "__version__", "0.0")
    assert built()
    assert not built()


def test_a_check_that_is_new_runs_on_an_engine_that_is_not(spec, small, tmp_path):
    engine = tmp_path / "out.engine"
    unchecked = td.build(spec, engine, check=False)
    assert unchecked.manifest["check"] == {"done": False, "reason": "--no-check"}
    checked = td.build(spec, engine)
    assert not checked.built
    assert checked.report.passed
    assert json.loads((tmp_path / "out.engine.json").read_text())["check"]["passed"]
    reference = small / "reference.py"  # a changed reference is compared anew
    reference.write_text(reference.read_text().replace("torch.relu(", "torch.tanh("))
    with pytest.raises(CheckFailedError):
        td.build(load_spec(str(small / "small.py")), engine)


def test_a_disk_that_is_full_leaves_the_old_engine_and_its_manifest(spec, tmp_path, monkeypatch):
    td.build(spec, tmp_path / "out.engine")
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}

    def fail(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(td.UsageError, match=r"cannot write .*out\.engine.*: No space left on device"):
        td.build(spec, tmp_path / "out.engine", config=td.BuildConfig(compute_capabilities=("8.9",)))
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


LOG = """\
Total Host Persistent Memory: 80 bytes
Total Device Persistent Memory: 16 bytes
Max Scratch Memory: 8192512 bytes
Total Activation Memory: 8193024 bytes
Total Weights Memory: 8448 bytes
Engine Layer Information:
Layer(Myelin): {ForeignNode[linear]}, Tactic: 0x0000000000000000, x (Float[4,64]) -> h (Float[4,32])
Layer(Myelin): {ForeignNode[softmax]}, Tactic: 0x0000000000000000, h (Float[4,32]) -> y (Float[4,32])
[MemUsageStats] Peak memory usage of TRT CPU/GPU memory allocators: CPU 0 MiB, GPU 0 MiB"""


def test_statistics_are_what_tensorrt_logs():
    assert _statistics(Messages([(3, LOG)]), 0.5) == Statistics(
        activation_memory=8193024, weight_memory=8448, scratch_memory=8192512, engine_layers=2, seconds=0.5
    )
    assert _statistics(Messages(), 0.5) == Statistics(None, None, None, None, 0.5)


def test_a_network_that_differs_is_not_built(spec, small, tmp_path):
    text = (small / "small.py").read_text()
    (small / "small.py").write_text(text.replace("F.relu(", "F.sigmoid("))
    with pytest.raises(CheckFailedError, match=r"output 'scores' differs at N = \d: .*Nothing was built") as caught:
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


def test_an_engine_does_not_replace_what_it_is_made_from(spec, tmp_path):
    link = tmp_path / "link.py"
    link.symlink_to(spec.file)
    other = tmp_path / "other.safetensors"
    other.write_bytes(spec.weights.read_bytes())
    for output, what, weights in (
        (spec.file, "network", None),
        (link, "network", None),
        (spec.weights, "weights", None),
        (other, "weights", other),
    ):
        before = output.read_bytes()
        with pytest.raises(
            td.UsageError, match=f"cannot write .*{output.name}: it is the file of the {what}, which is read here"
        ):
            td.build(spec, output, weights=weights)
        assert output.read_bytes() == before


def test_nothing_takes_the_place_of_a_pipe(tmp_path):
    from support.kinds import ENGINE

    from trtdsl.core.files.writing import check_writable, write_all_atomically

    outputs = [check_writable(tmp_path / name, ENGINE, ()) for name in ("a", "pipe")]
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(td.UsageError, match="pipe: it is not a regular file"):
        write_all_atomically(dict.fromkeys(outputs, b"new"))
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


def test_a_failed_build_names_the_authors_line():
    """TensorRT-RTX has no float32 matrix product for compute capability 7.5."""
    net = td.Network()
    line = inspect.currentframe().f_lineno + 1
    y = F.linear(net.input("x", (4, 64)), torch.ones(32, 64))
    net.output(F.relu(y), "y")
    with pytest.raises(td.BuildError, match="TensorRT cannot build 'network': .*FP32 GEMM is not supported") as caught:
        compile_engine(net, td.BuildConfig(compute_capabilities=("7.5",)))
    assert caught.value.location == (__file__, line)
    assert "cudaError" not in str(caught.value)
    assert caught.value.exit_code == 4


@pytest.fixture
def listening():
    """SIGINT is heard: a shell's background jobs ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_network_that_cannot_be_built_here_is_refused_before_its_check(tmp_path, monkeypatch):
    """NON_ZERO and NMS have no kernel without a GPU: both are named, at their lines, and the reference never runs."""

    def reference():
        raise AssertionError("the check has begun")

    @td.network(inputs={"x": td.Input((2, 8)), "b": td.Input((1, 9, 4)), "s": td.Input((1, 9, 3))}, reference=reference)
    def chosen(x, b, s):
        return {"rows": L.non_zero(x), "boxes": L.nms(b, s, 2, 0.5)[0]}

    monkeypatch.setattr(buildable, "has_cuda_device", lambda: False)
    with pytest.raises(td.BuildError, match=r"'non_zero' cannot be built here: .*F.where") as caught:
        td.build(chosen, tmp_path / "chosen.engine")
    assert caught.value.location.file == __file__
    assert "layer 'nms' cannot be built here" in caught.value.message
    assert list(tmp_path.iterdir()) == []


def test_a_tolerance_of_the_build_is_the_checks_and_in_the_manifest(tmp_path):
    class Double(torch.nn.Module):
        def forward(self, x):
            return x * 2

    spec = td.network(inputs={"x": td.Input((4, 8))}, reference=Double)(lambda x: x * 2.001)
    with pytest.raises(td.MismatchError):
        td.build(spec, tmp_path / "double.engine")
    built = td.build(spec, tmp_path / "double.engine", tolerance=1e-2)
    check = built.manifest["check"]
    assert (check["passed"], check["tolerances"]["output"]["floor"]) == (True, 1e-2)
    assert len(check["relaxed"]) == 1
    with pytest.raises(td.MismatchError):  # the verdict with more room does not stand for one with less
        td.build(spec, tmp_path / "double.engine")


def test_ctrl_c_during_the_build_cancels_it(spec, tmp_path, listening):
    phases = []

    def interrupt(phase, done, total):
        if phase == "Building engine" and phase not in phases:
            signal.raise_signal(signal.SIGINT)
        phases.append(phase)

    with pytest.raises(td.CancelledError, match="cancelled; nothing was written"):
        td.build(spec, tmp_path / "a.engine", check=False, progress=interrupt)
    assert "Building engine" in phases
    assert "Optimizing graph" not in phases  # TensorRT stopped at its next step
    assert not list(tmp_path.glob("*.engine*"))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_manifests_place_and_the_folders_mode_are_looked_at_first(spec, tmp_path, monkeypatch):
    def refused(output, message):
        with pytest.raises(td.UsageError, match=message):
            td.build(spec, output, progress=lambda phase, done, total: pytest.fail(f"{phase} came first"))

    def deny(*arguments, **options):  # a mode would not keep root out
        raise PermissionError(errno.EACCES, "Permission denied")

    (tmp_path / "a.engine.json").mkdir()
    refused(tmp_path / "a.engine", r"a\.engine\.json: it is a directory")
    monkeypatch.setattr("trtdsl.core.files.writing._temporary", deny)
    refused(tmp_path / "b.engine", r"cannot write .*b\.engine: Permission denied")


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
    from support.kinds import ENGINE

    from trtdsl.core.files.writing import check_writable, write_atomically

    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_atomically(check_writable(tmp_path / "link", ENGINE, ()), b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


def test_writing_is_all_or_nothing(tmp_path, monkeypatch):
    from support.kinds import ENGINE

    from trtdsl.core.files import writing

    (tmp_path / "a.engine").write_bytes(b"vtrt, old")
    outputs = [writing.check_writable(tmp_path / name, ENGINE, ()) for name in ("a.engine", "b.engine")]

    def fail(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing.os, "fsync", fail)
    with pytest.raises(td.UsageError, match="No space left on device"):
        writing.write_all_atomically(dict.fromkeys(outputs, b"new"))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a.engine": b"vtrt, old"}


def test_the_manifest_has_the_figures_of_the_program(tmp_path):
    @td.network(inputs={"x": td.Input((td.Dim("N", min=1, opt=4, max=8), 256))})
    def doubled(x):
        return {"y": x * 2.0}

    built = td.build(doubled, tmp_path / "doubled.engine", device="h100")
    assert built.manifest["program"] == {
        "dims": {"N": 4},
        "launches": 1,
        "bytes": 2 * 4 * 256 * 4,
        "rearranged_bytes": 0,
        "copied_bytes": 0,
        "flops": 4 * 256,
        "memory": 0,
        "live_memory": 0,
        "constant_bytes": built.manifest["program"]["constant_bytes"],
        "floor": {"device": "h100", "seconds": 2e-6, "estimate": True},
        "notes": [],
    }
    with pytest.raises(td.UsageError, match="no device 'h1000' in the table"):
        td.build(doubled, tmp_path / "doubled.engine", device="h1000")


def test_a_program_that_cannot_be_read_does_not_stop_a_build(tmp_path, monkeypatch):
    @td.network(inputs={"x": td.Input((2, 256))})
    def doubled(x):
        return {"y": x * 2.0}

    monkeypatch.setattr("trtdsl.programs.plan.VERSIONS", ("9.9",))
    built = td.build(doubled, tmp_path / "doubled.engine")
    assert "holds no program that trtdsl can read: it is of TensorRT-RTX" in built.manifest["program"]["unreadable"]
    assert json.loads((tmp_path / "doubled.engine.json").read_text())["program"] == built.manifest["program"]
