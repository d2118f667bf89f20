"""The C++ library that runs engines, on doubles of TensorRT and CUDA that behave like the simulated device."""

import hashlib
import json
import os
import subprocess
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from trtdsl.engine.loading.runtime_cache import read_runtime_cache, write_runtime_cache

from .conftest import ADDRESS, CPP, compiled

pytestmark = pytest.mark.long

PROGRAM = """in x -1 2
profile 0 x 2 1 2 4 2 8 2
profile 1 x 2 8 2 12 2 16 2
out y twice x -1 2
out s shape x 2
out p positive x -1
"""


# Without outputs whose shapes are on the CPU or depend on data: nothing of it waits.
LATE = "".join(line for line in PROGRAM.splitlines(keepends=True) if not line.startswith(("out s", "out p")))

# The sizes of z are the values of k.
SHAPES = "host k 2\nvalues 0 k 2 1 1 3 4 8 8\nprofile 0 k 1 2 2 2\nout z fill k -1 -1\n"
SHAPES_FACTS = {
    "inputs": {"k": {"dtype": "int64", "shape": [2]}},
    "outputs": {"z": {"dtype": "float32", "shape": ["K", "L"]}},
    "profiles": [{"inputs": {"k": {"min": [2], "opt": [2], "max": [2]}}}],
}

# x and z lie channels last, y does not; formats by TensorRT's numbers.
LAST = "".join(
    f"{line}\n"
    for line in (
        "in x -1 2 1 3", "format x 8", "profile 0 x 4 0 2 1 3 1 2 1 3 2 2 1 3",
        "out y twice x -1 2 1 3", "out z twice x -1 2 1 3", "format z 8",
    )
)  # fmt: skip
PLACED = {"dtype": "float32", "shape": ["N", 2, 1, 3]}
LAST_FACTS = {
    "inputs": {"x": {**PLACED, "format": "channels_last"}},
    "outputs": {"y": PLACED, "z": {**PLACED, "format": "channels_last"}},
    "profiles": [{"inputs": {"x": {"min": [0, 2, 1, 3], "opt": [1, 2, 1, 3], "max": [2, 2, 1, 3]}}}],
}

# Two states that grow by x: TensorRT-RTX writes `next_cache` where `cache` lies.
STATES = """in x -1 2
in cache -1 2
in total -1 2
profile 0 x 2 1 2 2 2 16 2
profile 0 cache 2 1 2 2 2 16 2
profile 0 total 2 1 2 2 2 16 2
out next_cache sum cache,x -1 2
alias next_cache cache
out next_total sum total,x -1 2
out y twice x -1 2
"""
ROWS, RANGE = {"dtype": "float32", "shape": ["N", 2]}, {"min": [1, 2], "opt": [2, 2], "max": [16, 2]}
STATES_FACTS = {
    "inputs": dict.fromkeys(("x", "cache", "total"), ROWS),
    "outputs": dict.fromkeys(("next_cache", "next_total", "y"), ROWS),
    "profiles": [{"inputs": dict.fromkeys(("x", "cache", "total"), RANGE)}],
    "states": {"cache": "next_cache", "total": "next_total"},
}

# A cache of seven slots with the tokens themselves; their sum is the token that follows.
GENERATING = """in tokens -1 -1
type tokens 8
in starts -1
type starts 3
in lengths -1
type lengths 3
in cache -1 1 7 1
profile 0 tokens 2 1 1 2 1 3 1
profile 0 starts 1 1 2 3
profile 0 lengths 1 1 2 3
profile 0 cache 4 1 1 7 1 2 1 7 1 3 1 7 1
profile 1 tokens 2 1 1 2 2 3 3
profile 1 starts 1 1 2 3
profile 1 lengths 1 1 2 3
profile 1 cache 4 1 1 7 1 2 1 7 1 3 1 7 1
out next_cache write cache,tokens,starts -1 1 7 1
alias next_cache cache
out logits follow next_cache,starts,lengths -1 11
"""
SLOTS = {"dtype": "float32", "shape": ["N", 1, 7, 1]}
COUNTS, COUNTED = {"dtype": "int32", "shape": ["N"]}, {"min": [1], "opt": [2], "max": [3]}
GENERATING_FACTS = {
    "inputs": {
        "tokens": {"dtype": "int64", "shape": ["N", "S"]},
        **dict.fromkeys(("starts", "lengths"), COUNTS),
        "cache": SLOTS,
    },
    "outputs": {"next_cache": SLOTS, "logits": {"dtype": "float32", "shape": ["N", 11]}},
    "profiles": [
        {
            "inputs": {
                "tokens": {"min": [1, least], "opt": [2, least], "max": [3, most]},
                **dict.fromkeys(("starts", "lengths"), COUNTED),
                "cache": {"min": [1, 1, 7, 1], "opt": [2, 1, 7, 1], "max": [3, 1, 7, 1]},
            }
        }
        for least, most in ((1, 1), (2, 3))
    ],
    "states": {"cache": "next_cache"},
}

REFITTED = PROGRAM + "weight other 4 0\nweight scale 0 2\n"
REFIT = {
    "structure_sha256": "5" * 64,
    "values_sha256": "0" * 64,
    "weights": ["scale.weight"],
    "values": {"scale:KERNEL": [1, "float32"], "other:CONSTANT": [1, "float32"]},
}


def write(path, program=PROGRAM, product="tensorrt-rtx", **changes):
    """An engine of the double, with the header of one of TensorRT-RTX 1.7.1 or TensorRT 11.1.0 and a manifest."""
    header = bytearray(64)
    version = (1, 7, 1, 116) if product == "tensorrt-rtx" else (11, 1, 0, 116)
    header[:4], header[24:28] = b"vtrt" if product == "tensorrt-rtx" else b"ftrt", bytes(version)
    header[16:24] = (64 + len(program)).to_bytes(8, "little")
    data = bytes(header) + program.encode()
    path.write_bytes(data)
    ranges = [[[1, 2], [4, 2], [8, 2]], [[8, 2], [12, 2], [16, 2]]]
    facts = {
        "schema": 3,
        "network": "double",
        "backend": {"name": product, "version": ".".join(map(str, version))},
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


@pytest.mark.parametrize(
    "case", ["run", "threads", "pool", "async", "views", "unaligned", "profiles", "lifetimes", "graphs"]
)
def test_cases_of_a_service(running, engine, case):
    running(engine, case)


@pytest.mark.parametrize("case", ["threads", "pool", "async", "views", "unaligned", "profiles", "lifetimes"])
def test_cases_of_a_service_with_standard_tensorrt(running, tmp_path, case):
    running(write(tmp_path / "a.engine", product="tensorrt"), case, program="running_standard")


@pytest.mark.parametrize("case", ["late", "steady", "default"])
def test_results_are_awaited_when_they_are_read(running, tmp_path, case):
    running(write(tmp_path / "late.engine", LATE), case)


@pytest.mark.parametrize(("product", "program"), [("tensorrt-rtx", "running"), ("tensorrt", "running_standard")])
def test_captured_runs(running, tmp_path, product, program):
    running(write(tmp_path / "late.engine", LATE, product=product), "captured", program=program)
    engine = write(tmp_path / "data.engine", product=product)
    assert "unsupported" in running(engine, "unsupported", code=3, program=program)


@pytest.mark.parametrize("call", ["cudaStreamBeginCapture:1", "cudaGraphInstantiateWithFlags:1", "cudaGraphLaunch:1"])
def test_failures_of_a_capture(running, tmp_path, call):
    engine = write(tmp_path / "late.engine", LATE, product="tensorrt")
    said = running(engine, "capture", code=8, program="running_standard", DOUBLE_FAIL=call)
    assert said.startswith("out-of-memory" if "Instantiate" in call else "execution-failed")


@pytest.mark.parametrize(("product", "program"), [("tensorrt-rtx", "running"), ("tensorrt", "running_standard")])
def test_channels_last(running, tmp_path, product, program):
    engine = write(tmp_path / "last.engine", LAST, product=product, **LAST_FACTS)
    running(engine, "channels_last", program=program)
    other = write(tmp_path / "other.engine", LAST.replace("format x 8", "format x 5"), product=product, **LAST_FACTS)
    assert "in a format of TensorRT which cannot be fed" in running(other, "run", code=5, program=program)


@pytest.mark.parametrize(("product", "program"), [("tensorrt-rtx", "running"), ("tensorrt", "running_standard")])
def test_inputs_that_are_shapes(running, tmp_path, product, program):
    running(write(tmp_path / "shapes.engine", SHAPES, product=product, **SHAPES_FACTS), "shapes", program=program)


@pytest.mark.parametrize(
    ("product", "program", "file"),
    [("tensorrt-rtx", "running", ["in place"]), ("tensorrt", "running_standard", [])],  # and headers that know no alias
)
def test_states_and_outputs_that_replace_inputs(running, tmp_path, product, program, file):
    engine = write(tmp_path / "states.engine", STATES, product=product, **STATES_FACTS)
    running(engine, "states", *file, program=program)
    one = "".join(line for line in STATES.replace("next_cache", "next").splitlines(True) if "total" not in line)
    assert running(write(tmp_path / "a.engine", one, product=product), "replaced", *file, program=program) == ""
    assert "no states" in running(tmp_path / "a.engine", "session", code=2, program=program)
    other = write(tmp_path / "a.engine", STATES.replace("total", "other"), product=product, **STATES_FACTS)
    assert "none that the engine has" in running(other, "session", code=7, program=program)


@pytest.mark.parametrize(("product", "program"), [("tensorrt-rtx", "running"), ("tensorrt", "running_standard")])
def test_tokens_that_an_engine_generates(running, tmp_path, product, program):
    facts = {"product": product, **GENERATING_FACTS}
    running(write(tmp_path / "a.engine", GENERATING, **facts), "generates", program=program)
    gap = json.loads(json.dumps(facts))  # steps of one token and of three alone
    gap["profiles"][1]["inputs"]["tokens"] = {"min": [1, 3], "opt": [2, 3], "max": [3, 3]}
    three = GENERATING.replace("1 tokens 2 1 1 2 2 3 3", "1 tokens 2 1 3 2 3 3 3")
    running(write(tmp_path / "d.engine", three, **gap), "generates", program=program)
    for number in (1, 7):  # logits in float16 and bfloat16
        narrow = write(tmp_path / "b.engine", f"{GENERATING}type logits {number}\n", **facts)
        assert running(narrow, "generator", program=program) == "3 6 1 "
    lost = write(tmp_path / "c.engine", GENERATING.replace("follow", "lost"), **facts)
    for drawn in ([], ["drawn"]):
        assert "are no finite numbers" in running(lost, "generator", *drawn, code=8, program=program)


@pytest.mark.parametrize(("product", "program"), [("tensorrt-rtx", "running"), ("tensorrt", "running_standard")])
def test_engines_of_several_ranks(running, tmp_path, product, program):
    """As tests/device/test_communicator.py: each in the process of its rank, with a communicator."""
    engine = write(tmp_path / "a.engine", product=product, settings={"rank": 1, "ranks": 2, "folder": {"file": "a"}})
    for started in ({}, {"RANK": "1", "WORLD_SIZE": "2"}, {"RANK": "0"}):
        running(engine, "communicates", program=program, **started)
    assert "give LoadOptions::communicator" in running(engine, "run", code=2, program=program)
    failing = {"DOUBLE_FAIL": "setCommunicator:2", "code": 8, "program": program}
    assert "does not take the communicator" in running(engine, "communicates", **failing)
    for names in (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE")):
        for world in (("0", "2"), ("1", "4")):
            started = dict(zip(names, world, strict=True))
            said = running(engine, "communicates", code=2, program=program, **started)
            assert f"rank 1 of 2, and this process is {world[0]} of {world[1]}, by {' and '.join(names)}" in said
    running(write(tmp_path / "b.engine", product=product, settings={"ranks": 2}), "run", program=program)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("lengths", "sizes", "'double' generates nothing: it lacks lengths. See networks/llama.py"),
        ("out logits", "out scores", "it lacks logits"),
        ("in cache", "in more 2\nin cache", "it has an input more that is no td.State"),
        ("type starts 3\n", "", "are no whole numbers"),
        ("out logits follow next_cache,starts,lengths -1 11", "out logits twice starts -1", "no floats"),
        ("in cache -1 1 7 1", "in cache -1 1 -1 1", "has dynamic sizes besides its batch, (?, 1, ?, 1): fix them"),
        ("in tokens -1 -1", "in tokens 2 -1", "takes 2 prompts at a time, not 1"),
    ],
)  # fmt: skip
def test_engines_that_generate_nothing(running, tmp_path, old, new, said):
    engine = write(tmp_path / "a.engine", GENERATING.replace(old, new), **GENERATING_FACTS)
    assert said in running(engine, "generator", code=2)
    other = write(tmp_path / "b.engine", GENERATING, **{**GENERATING_FACTS, "states": {}})
    assert "it lacks a td.State" in running(other, "generator", code=2)


@pytest.mark.parametrize(("slots", "capacity"), [({}, 2**63 - 1), ({"cache": 1}, 1), ({"cache": 2}, 7), (None, 7)])
def test_slots_of_a_state(running, tmp_path, slots, capacity):
    facts = GENERATING_FACTS if slots is None else {**GENERATING_FACTS, "slots": slots}
    assert running(write(tmp_path / "a.engine", GENERATING, **facts), "capacity") == f"{capacity}\n"
    for wrong in ({"cache": 0}, {"cache": 4}, {"tokens": 1}, {"cache": "1"}):
        engine = write(tmp_path / "b.engine", GENERATING, **{**GENERATING_FACTS, "slots": wrong})
        assert "slots" in running(engine, "capacity", code=7)


def test_an_engine_of_several_tokens_a_step_alone(running, tmp_path):
    program = GENERATING.replace("0 tokens 2 1 1 2 1 3 1", "0 tokens 2 1 2 2 2 3 2").replace(
        "2 1 1 2 2 3 3", "2 1 2 2 2 3 3"
    )
    engine = write(tmp_path / "a.engine", program, **GENERATING_FACTS)
    assert "takes 2 tokens a step or more, and what it generates is fed one by one" in running(
        engine, "generator", code=2
    )


@pytest.mark.parametrize(
    "call", ["cudaMalloc:1", "cudaMalloc:5", "cudaMemsetAsync:1", "cudaMemsetAsync:3", "cudaMemcpyAsync:1"]
)
def test_failures_of_a_session_leave_nothing(running, tmp_path, call):
    engine = write(tmp_path / "states.engine", STATES, **STATES_FACTS)
    said = running(engine, "session", code=8, DOUBLE_FAIL=call)
    assert said.startswith("out-of-memory" if "Malloc" in call else "execution-failed")


def test_the_runtime_cache_of_an_engine(running, engine, tmp_path):
    """Python reads what C++ wrote, and C++ what Python wrote; what is stale or damaged is discarded with a warning."""
    cache, made_for = tmp_path / "double.cache", {"backend": "1.7.1.116", "compute_capability": "8.9"}
    assert running(engine, "warm", cache) == "2 compiled\n"  # one shape in each profile
    data = read_runtime_cache(cache, made_for)
    assert data is not None and data.startswith(b"kernels\n") and data.count(b"\n") == 4
    assert running(engine, "warm", cache, code=99).startswith("0 compiled\n")  # the third shape is in it already
    lines = data.splitlines(keepends=True)
    write_runtime_cache(cache, b"".join(line for line in lines if b"x2 x2" not in line), made_for)
    assert running(engine, "warm", cache) == "0 compiled\n"
    for spoil, why in [
        (lambda: write_runtime_cache(cache, data, {**made_for, "backend": "1.6.1.120"}), "made by another version"),
        (lambda: write_runtime_cache(cache, data, {**made_for, "compute_capability": "9.0"}), "for another GPU"),
        (lambda: write_runtime_cache(cache, b"of another", made_for), "TensorRT-RTX does not take it"),
        (lambda: cache.write_bytes(cache.read_bytes()[:-1]), "it is damaged"),
        (lambda: cache.write_bytes(cache.read_bytes().replace(b'"sha256"', b'"sha512"')), "it is not a runtime cache"),
    ]:
        spoil()
        said = running(engine, "warm", cache)
        assert said.startswith("2 compiled\nruntime-cache: ") and why in said and said.count("runtime-cache") == 1
    assert sorted(os.listdir(tmp_path)) == ["double.cache", "double.engine", "double.engine.json"]
    (tmp_path / "folder").mkdir()
    assert "cannot write" in running(engine, "warm", tmp_path / "folder", code=2)
    before = engine.read_bytes()
    assert "is not a runtime cache" in running(engine, "warm", engine, code=2)
    assert engine.read_bytes() == before


def weights_file(path, structure: Any = "5" * 64, **values: Any):
    found = {"scale:KERNEL": 5.0, "other:CONSTANT": 7.0, **values}
    tensors = {name: torch.tensor([value]) for name, value in found.items() if value is not None}
    save_file(tensors, path, metadata={"trtdsl-derived": structure} if structure else None)
    return path


def test_new_weights(running, tmp_path):
    engine = write(tmp_path / "a.engine", REFITTED, refit=REFIT)
    weights = weights_file(tmp_path / "new.safetensors")
    assert running(engine, "weights", weights) == "5\n"
    without = write(tmp_path / "b.engine", REFITTED, refit=REFIT, config={"strip_weights": True})
    assert "engine-stripped" in running(without, "run", code=5)
    assert running(without, "weights", weights) == "5\n"
    late = write(tmp_path / "c.engine", LATE + "weight scale 0 2\n", refit=REFIT)
    running(late, "refit", weights)
    running(late, "overlapping", weights)
    running(late, "turns", weights)
    states = write(tmp_path / "d.engine", STATES + "weight scale 0 2\n", **STATES_FACTS, refit=REFIT)
    running(states, "made", weights)
    assert "execution-failed" in running(engine, "weights", weights, code=8, DOUBLE_FAIL="refitCudaEngine:1")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"structure": "6" * 64}, "not the one that the engine was built from"),
        ({"structure": None}, "trtdsl weights derive"),
        ({"scale:KERNEL": None}, "scale:KERNEL: missing"),
        ({"scale:KERNEL": [1.0, 2.0]}, "has 2 elements, not 1"),
        ({"scale:KERNEL": 1}, "is int64, not float32"),
    ],
)
def test_weights_that_do_not_fit(running, tmp_path, values, said):
    engine = write(tmp_path / "a.engine", REFITTED, refit=REFIT)
    assert said in running(engine, "weights", weights_file(tmp_path / "new.safetensors", **values), code=3)


def test_weights_that_an_engine_is_for_alone(running, tmp_path):
    from trtdsl.engine.refit import values_hash

    weights = weights_file(tmp_path / "new.safetensors")
    values = {"scale:KERNEL": torch.tensor([5.0]), "other:CONSTANT": torch.tensor([7.0])}
    refit = {**REFIT, "identical": True, "values_sha256": values_hash(values)}
    assert running(write(tmp_path / "a.engine", REFITTED, refit=refit), "weights", weights) == "5\n"
    weights_file(weights, **{"scale:KERNEL": 6.0})
    assert "for these alone" in running(tmp_path / "a.engine", "weights", weights, code=3)
    assert "takes no new weights" in running(write(tmp_path / "b.engine"), "weights", weights, code=2)
    assert "no weights file" in running(tmp_path / "a.engine", "weights", tmp_path / "none", code=2)


def test_the_guide_s_service_compiles_and_runs(sanitized, tmp_path):
    """The service in C++ of docs/engines.md, as it stands there, on the doubles."""
    program = (CPP.parent / "docs/engines.md").read_text().split("```cpp\n")[2].split("```")[0]
    (tmp_path / "service.cpp").write_text(program)
    service = compiled(tmp_path / "service.cpp", tmp_path / "service", sanitized, ADDRESS)
    ranges = {"min": [1, 3], "opt": [4, 3], "max": [16, 3]}
    write(
        tmp_path / "double.engine",
        "in x -1 3\nprofile 0 x 2 1 3 4 3 16 3\nout y twice x -1 3\n",
        inputs={"x": {"dtype": "float32", "shape": ["N", 3]}},
        outputs={"y": {"dtype": "float32", "shape": ["N", 3]}},
        profiles=[{"inputs": {"x": ranges}}],
    )
    done = subprocess.run([service, tmp_path], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == ["200: 4.000000"] * 3 + ["400: feed-profile"]
    assert (tmp_path / "double.cache").is_file()


def test_the_generator_of_the_page_on_language_models_compiles_and_runs(sanitized, tmp_path):
    """The C++ of docs/cookbook/language-model.md, as it stands there, on the doubles."""
    (program,) = (CPP.parent / "docs/cookbook/language-model.md").read_text().split("```cpp\n")[1:]
    (tmp_path / "main.cpp").write_text(program.split("```")[0])
    generator = compiled(tmp_path / "main.cpp", tmp_path / "main", sanitized, ADDRESS)
    done = subprocess.run([generator], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr.split(":")[0]) == (2, "engine-missing")
    write(tmp_path / "decoder.engine", GENERATING, **GENERATING_FACTS)
    done = subprocess.run([generator], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr, len(done.stdout.split())) == (0, "", 4)


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
    assert said in running(engine, "run", code=code, **environment)


def test_engines_that_tensorrt_refuses(running, tmp_path):
    assert "missing-plugin" in running(write(tmp_path / "a.engine", PROGRAM + "nonsense\n"), "run", code=5)
    assert "compute-capability" in running(write(tmp_path / "a.engine", compute_capabilities=["8.6"]), "run", code=5)


@pytest.mark.parametrize(
    ("bits", "code", "said"),
    [
        (1, 5, "version-mismatch"),
        (2, 5, "compute-capability"),
        (4, 6, "driver-too-old"),
        (8, 6, "driver-too-old"),
        (16, 8, "out-of-memory"),
        (32, 7, "engine-damaged"),
        (64, 6, "no-driver"),
        (1024, 5, "engine-refused"),
    ],
)
def test_diagnostics_of_tensorrt_rtx_become_errors(running, tmp_path, bits, code, said):
    assert said in running(write(tmp_path / "a.engine", PROGRAM + f"invalid {bits}\n"), "run", code=code)


def test_requirements_hold_when_running(running, tmp_path):
    dims = {"N": {"input": "x", "axis": 0, "factor": 1, "offset": 0}}
    requirements = [{"condition": "N == 3", "why": "threes", "expression": ["==", "N", 3], "dims": dims}]
    engine = write(tmp_path / "a.engine", requirements=requirements)
    assert "serves only sizes where N == 3: threes" in running(engine, "run", code=2)


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
    assert (device.returncode, "there is no GPU 7" in device.stderr) == (6, True)
    escaping = write(tmp_path / "a.engine", PROGRAM.replace("out y", "out ../y"))
    done = subprocess.run([command[0], escaping, *command[2:]], capture_output=True, text=True)
    assert (done.returncode, "would lead to another place" in done.stderr) == (2, True)
    assert not (tmp_path / "y.npy").exists()
