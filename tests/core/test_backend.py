"""Which TensorRT is taken, and what it says."""

import contextlib
import subprocess
import sys
import threading
from enum import IntEnum
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import trtdsl as td
from trtdsl.core import backend
from trtdsl.core.backend import Messages, get_backend
from trtdsl.engine.compiling.compiler import compile_engine


def test_auto_takes_rtx_where_there_is_no_device(monkeypatch):
    monkeypatch.delenv("TRTDSL_BACKEND", raising=False)
    monkeypatch.setattr(backend, "has_cuda_device", lambda: False)
    assert get_backend("auto").name == "tensorrt-rtx"
    assert get_backend() is get_backend("tensorrt-rtx")


def test_auto_takes_tensorrt_where_it_is_installed_and_a_device_is_there(monkeypatch):
    taken = []
    monkeypatch.setattr(backend, "has_cuda_device", lambda: True)
    monkeypatch.setattr(backend, "installed", lambda name: True)
    monkeypatch.setattr(backend, "_load", lambda name: taken.append(name) or name)
    assert get_backend("auto") == "tensorrt"
    monkeypatch.setattr(backend, "installed", lambda name: name != "tensorrt")
    assert get_backend("auto") == "tensorrt-rtx"


def test_auto_skips_a_tensorrt_that_does_not_import(monkeypatch):
    def load(name):
        if name == "tensorrt":
            raise td.BackendError("TensorRT is missing: libnvinfer.so.10: cannot open shared object file")
        return name

    monkeypatch.setattr(backend, "has_cuda_device", lambda: True)
    monkeypatch.setattr(backend, "installed", lambda name: True)
    monkeypatch.setattr(backend, "_load", load)
    assert get_backend("auto") == "tensorrt-rtx"
    monkeypatch.setattr(backend, "installed", lambda name: name == "tensorrt")
    with pytest.raises(td.BackendError, match="libnvinfer"):  # nothing else is there: its own reason is told
        get_backend("auto")


class CreationFlag(IntEnum):
    """NetworkDefinitionCreationFlag with the numbers of TensorRT 10's NvInfer.h."""

    EXPLICIT_BATCH = 0
    STRONGLY_TYPED = 1


@pytest.mark.parametrize(
    ("name", "version", "flags"),
    [("tensorrt", "10.3.0", 0b10), ("tensorrt", "11.4.0.106", 0), ("tensorrt-rtx", "1.7.1.116", 0)],
)
def test_networks_of_tensorrt_10_are_asked_to_be_strongly_typed(name, version, flags):
    """Later versions, and RTX, have no other networks."""
    here = vars(get_backend("tensorrt-rtx").trt)
    there = {**here, "__version__": version, "NetworkDefinitionCreationFlag": CreationFlag}
    other, asked = backend.Backend(name, SimpleNamespace(**there)), []
    other.builder = SimpleNamespace(create_network=asked.append)
    other.create_network()
    assert asked == [flags]


def test_environment_variable_names_the_backend(monkeypatch):
    monkeypatch.setenv("TRTDSL_BACKEND", "nonsense")
    with pytest.raises(td.UsageError, match="unknown backend 'nonsense'"):
        get_backend()
    assert get_backend("tensorrt-rtx").is_rtx  # the argument counts more


@pytest.mark.skipif(backend.installed("tensorrt"), reason="TensorRT is installed here")
def test_a_backend_that_is_not_installed_says_how_to_install_it():
    with pytest.raises(td.BackendError, match=r"tensorrt is not installed; pip install 'trtdsl\[tensorrt\]'"):
        get_backend("tensorrt")


def test_trtdsl_imports_and_says_what_is_missing_without_tensorrt():
    code = "import sys; sys.modules['tensorrt_rtx'] = None; import trtdsl as td; td.Network()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "BackendError: TensorRT is missing: the Python package tensorrt_rtx is not installed" in done.stderr


def test_compute_capabilities():
    rtx = get_backend("tensorrt-rtx")
    assert rtx.compute_capability("8.9") == rtx.trt.ComputeCapability.SM89
    assert rtx.compute_capability("12.0") == rtx.trt.ComputeCapability.SM120
    with pytest.raises(td.UsageError, match=r"'9\.0' is not one that .* knows: 7\.5, 8\.0, 8\.6, 8\.9, 12\.0"):
        rtx.compute_capability("9.0")


def test_dtypes_both_ways():
    rtx = get_backend("tensorrt-rtx")
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8, torch.bool):
        assert rtx.torch_dtype(rtx.data_type(dtype)) == dtype
    with pytest.raises(td.UnsupportedError, match="no data type for torch.float64; use float32"):
        rtx.data_type(torch.float64)


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ("Error Code 4: Shape Error (sizes must match In op at /_src/a/b.cpp:2699)", "sizes must match"),
        ("Error Code 4: API Usage Error ((x) [Cat]: [2,3] In mergeInputDims at /_src/a.cpp:75)", "(x) [Cat]: [2,3]"),
        ("Error Code 3: API Usage Error (condition: (all(p, 0)).  In set at /_src/c.h:42)", "condition: (all(p, 0))."),
        (
            "Error Code 1: Myelin ([pass.cpp:337: check] No kernel In Turing. In run at /_src/g.cpp:2)",
            "No kernel In Turing.",
        ),
    ],
)
def test_message_summary_is_the_sentence_alone(message, sentence):
    messages = Messages()
    messages.append((3, "hello"))
    messages.append((1, f"ITensor::getDimensions: {message}"))
    messages.append((1, "[checkMacros.cpp::catchCudaError::250] Error Code 1: Cuda Runtime (whatever)"))
    assert messages.summary() == sentence
    assert len(messages.errors()) == 1


def test_no_message_of_tensorrt_keeps_the_place_in_its_own_source():
    """One that is raised where a layer is added, and one of the builder."""
    net = td.Network(backend="tensorrt-rtx")
    with pytest.raises(td.DefinitionError, match="must have same input types") as refused:
        td.layers.elementwise(net.input("a", (2, 3)), net.input("b", (2, 3), "int32"), "SUM").trt
    net = td.Network(backend="tensorrt-rtx")
    net.output(td.functional.linear(net.input("x", (2, 3)), torch.ones(3, 3)), "y")
    with pytest.raises(td.BuildError, match="FP32 GEMM is not supported") as unbuilt:
        compile_engine(net, td.BuildConfig(compute_capabilities=("7.5",)))
    for caught in (refused, unbuilt):
        assert "_src" not in str(caught.value)
        assert ".cpp" not in str(caught.value)


def test_threads_listen_apart():
    rtx = get_backend("tensorrt-rtx")
    failures = []

    def define(wrong):
        try:
            for _ in range(30):
                net = td.Network()
                x = net.input("x", (2, 3))
                other = net.input("y", (2, 4 if wrong else 3))
                with rtx.listen() as messages:
                    layer = net.definition.add_elementwise(x.trt, other.trt, net.trt.ElementWiseOperation.SUM)
                    with contextlib.suppress(RuntimeError):
                        tuple(layer.get_output(0).shape)
                assert bool(messages.errors()) == wrong
        except AssertionError as error:
            failures.append(error)

    threads = [threading.Thread(target=define, args=(wrong,)) for wrong in (True, False, True, False)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_only_backend_py_reads_is_rtx():
    """Which of the two it is, backend.py alone asks: elsewhere, what it does."""
    package = Path(backend.__file__).parent
    asking = [path.name for path in package.rglob("*.py") if "is_rtx" in path.read_text()]
    assert asking == ["backend.py"]


def test_differences_between_tensorrt_and_tensorrt_rtx():
    rtx, standard = get_backend("tensorrt-rtx"), backend.Backend.__new__(backend.Backend)
    vars(standard).update(name="tensorrt", version="11.4.0.106", is_rtx=False)
    assert (rtx.builds_without_gpu, standard.builds_without_gpu) == (True, False)
    assert (rtx.compiles_where_it_runs, standard.compiles_where_it_runs) == (True, False)
    assert rtx.refusal("sparsity") == "it would be ignored"
    assert standard.refusal("sparsity") is rtx.refusal("refit") is standard.refusal("refit") is None
    assert "this machine alone" in standard.refusal("compute_capabilities")
    runtime = SimpleNamespace(get_engine_validity=lambda data: (rtx.trt.EngineValidity.INVALID, len(data)))
    name, diagnostics, bits = rtx.engine_validity(runtime, b"12")
    assert (name, diagnostics) == ("INVALID", 2)
    assert bits["MALFORMED_ENGINE"] > 0
    assert standard.engine_validity(runtime, b"12") is None


@pytest.mark.skipif(sys.platform != "linux", reason="Linux bounds a process's memory")
def test_little_memory_is_not_called_a_missing_package():
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (200 << 20, 200 << 20)); "
        "from trtdsl.core.backend import get_backend; get_backend('tensorrt-rtx')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    said = done.stderr.splitlines()[-1]
    assert "TensorRT does not start: the Python package tensorrt_rtx does not import (" in said
    assert said.endswith("this process may have 200 MiB alone (ulimit -v)")
