"""The C++ library that runs engines, on doubles of TensorRT and CUDA that behave like the simulated device."""

import hashlib
import json
import os
import subprocess

import numpy as np
import pytest

PROGRAM = """in x -1 2
profile 0 x 2 1 2 4 2 8 2
profile 1 x 2 8 2 12 2 16 2
out y twice x -1 2
out s shape x 2
out p positive x -1
"""


def write(path, program=PROGRAM, **changes):
    """An engine of the double, with the header of one of TensorRT-RTX 1.7.1 and a manifest."""
    header = bytearray(64)
    header[:4], header[24:28] = b"vtrt", bytes([1, 7, 1, 116])
    header[16:24] = (64 + len(program)).to_bytes(8, "little")
    data = bytes(header) + program.encode()
    path.write_bytes(data)
    ranges = [[[1, 2], [4, 2], [8, 2]], [[8, 2], [12, 2], [16, 2]]]
    facts = {
        "schema": 3,
        "network": "double",
        "backend": {"name": "tensorrt-rtx", "version": "1.7.1.116"},
        "engine": {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)},
        "compute_capabilities": ["8.9"],
        "inputs": {"x": {"dtype": "float32", "shape": ["N", 2]}},
        "outputs": {
            "y": {"dtype": "float32", "shape": ["N", 2]},
            "s": {"dtype": "int64", "shape": [2]},
            "p": {"dtype": "float32", "shape": ["P"]},
        },
        "profiles": [{"inputs": {"x": dict(zip(("min", "opt", "max"), each, strict=True))}} for each in ranges],
        **changes,
    }
    path.with_name(path.name + ".json").write_text(json.dumps(facts))
    return path


@pytest.fixture
def engine(tmp_path):
    return write(tmp_path / "double.engine")


@pytest.fixture
def running(sanitized):
    def run(engine, case, code=0, **environment):
        command = [sanitized / "running", engine, case]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr[-3000:])
        return done.stdout + done.stderr

    return run


@pytest.mark.parametrize("case", ["run", "threads", "views", "profiles", "lifetimes"])
def test_what_a_service_does(running, engine, case):
    running(engine, case)


def test_nothing_waits_before_somebody_asks(running, tmp_path):
    late = "".join(line for line in PROGRAM.splitlines(keepends=True) if not line.startswith(("out s", "out p")))
    running(write(tmp_path / "late.engine", late), "late")


@pytest.mark.parametrize("nth", range(1, 5))
def test_too_little_memory_leaves_the_engine_usable(running, engine, nth):
    said = running(engine, "again", DOUBLE_FAIL=f"cudaMalloc:{nth}")
    assert said == ("out-of-memory\n" if nth <= 3 else "")  # x, y and what depends on data


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("enqueueV3:1", "execution-failed\n"),
        ("cudaMemcpyAsync:1", "execution-failed\n"),
        ("cudaMemcpyAsync:2", "execution-failed\n"),
        ("cudaEventSynchronize:1", "execution-failed\n"),
    ],
)
def test_failures_of_a_run(running, engine, call, said):
    assert running(engine, "again", DOUBLE_FAIL=call) == said


@pytest.mark.parametrize(
    ("environment", "code", "said"),
    [
        ({"DOUBLE_FAIL": "createExecutionContext:1"}, 8, "out-of-memory"),
        ({"DOUBLE_FAIL": "cudaStreamCreateWithFlags:1"}, 8, "execution-failed"),
        ({"DOUBLE_FAIL": "cudaGetDeviceCount:1"}, 6, "no-driver"),
        ({"DOUBLE_DRIVER": "12090"}, 6, "driver-too-old"),
        ({"DOUBLE_DRIVER": "0"}, 6, "no-driver"),
    ],
)
def test_failures_of_loading(running, engine, environment, code, said):
    assert said in running(engine, "run", code, **environment)


def test_what_tensorrt_refuses(running, tmp_path):
    assert "missing-plugin" in running(write(tmp_path / "a.engine", PROGRAM + "nonsense\n"), "run", 5)
    assert "compute-capability" in running(write(tmp_path / "a.engine", compute_capabilities=["8.6"]), "run", 5)


def test_requirements_hold_when_running(running, tmp_path):
    dims = {"N": {"input": "x", "axis": 0, "factor": 1, "offset": 0}}
    requirements = [{"condition": "N == 3", "why": "threes", "expression": ["==", "N", 3], "dims": dims}]
    engine = write(tmp_path / "a.engine", requirements=requirements)
    assert "serves only sizes where N == 3: threes" in running(engine, "run", 2)


def test_run_engine_writes_what_the_engine_gives(sanitized, engine, tmp_path):
    x = np.array([[1, -2], [3, -4], [5, 6]], np.float32)
    np.save(tmp_path / "x.npy", x)
    command = [sanitized / "run_engine", engine, "--input", f"x={tmp_path / 'x.npy'}", "--output", tmp_path / "out"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(tmp_path / "out/y.npy"), 2 * x)
    assert np.array_equal(np.load(tmp_path / "out/s.npy"), [3, 2])
    assert np.array_equal(np.load(tmp_path / "out/p.npy"), [1, 3, 5, 6])
    device = subprocess.run([*command, "--device", "7"], capture_output=True, text=True)
    assert (device.returncode, "there is no GPU 7" in device.stderr) == (2, True)
    escaping = write(tmp_path / "a.engine", PROGRAM.replace("out y", "out ../y"))
    done = subprocess.run([command[0], escaping, *command[2:]], capture_output=True, text=True)
    assert (done.returncode, "would lead to another place" in done.stderr) == (2, True)
    assert not (tmp_path / "y.npy").exists()
