"""The script that holds the doubles of TensorRT and CUDA against real headers, on doubles that were changed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2] / "cpp/tests"
DOUBLES = TESTS / "double"

CHANGES = [  # header, text, other text, what the script names
    ("NvInfer.h", "kHALF = 1,", "kHALF = 12,", "nvinfer1::DataType::kHALF"),
    ("NvInfer.h", "kVERBOSE = 4", "kVERBOSE = 5", "nvinfer1::ILogger::Severity::kVERBOSE"),
    ("NvInfer.h", "kMALFORMED_ENGINE = 32", "kMALFORMED_ENGINE = 128",
     "nvinfer1::EngineInvalidityDiagnostics::kMALFORMED_ENGINE"),
    ("NvInfer.h", "MAX_DIMS{8}", "MAX_DIMS{9}", "nvinfer1::Dims::MAX_DIMS"),
    ("NvInfer.h", "std::int32_t nbDims;", "std::int64_t nbDims;", "nvinfer1::Dims::nbDims"),
    ("NvInfer.h", "bool enqueueV3(cudaStream_t stream) noexcept", "bool enqueueV3(cudaStream_t stream)",
     "nvinfer1::IExecutionContext::enqueueV3"),
    ("NvInfer.h", "virtual bool setInputShape(char const* name, Dims const& dims)",
     "virtual bool setInputShape(char const* name, Dims dims)", "nvinfer1::IExecutionContext::setInputShape"),
    ("NvInfer.h", "virtual bool refitCudaEngine() noexcept = 0;", "", "nvinfer1::IRefitter::refitCudaEngine"),
    ("NvInfer.h", "bool setCudaGraphStrategy(", "void setCudaGraphStrategy(",
     "nvinfer1::IRuntimeConfig::setCudaGraphStrategy"),
    ("cuda_runtime_api.h", "cudaErrorNotReady = 600", "cudaErrorNotReady = 601", "cudaErrorNotReady"),
    ("cuda_runtime_api.h", "cudaMalloc(void** pointer, std::size_t size)", "cudaMalloc(void** pointer, int size)",
     "cudaMalloc"),
    ("cuda_runtime_api.h", "    int device;", "    long device;", "cudaPointerAttributes::device"),
    ("cuda_runtime_api.h", "define cudaEventDisableTiming 2u", "define cudaEventDisableTiming 4u",
     "cudaEventDisableTiming"),
]  # fmt: skip


def compare(*options):
    """The script's exit code and what it says."""
    done = subprocess.run([sys.executable, TESTS / "compare.py", *options], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def declared(text):
    """Names of functions, found otherwise than the script finds them."""
    return set(re.findall(r"(?<![~\w])(\w+)\([^()]*\)[^()\n]*;", text))


@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
def test_each_difference_is_named(tmp_path):
    code, said = compare("--tensorrt", DOUBLES, "--cuda", DOUBLES)
    count = int(said.split(" of ")[1].split()[0])
    assert (code, said.startswith(f"{count} of {count} declarations")) == (0, True)
    assert count > 100
    shutil.copytree(DOUBLES, tmp_path / "real")
    for header, text, other, _ in CHANGES:
        path = tmp_path / "real" / header
        assert path.read_text().count(text) == 1
        path.write_text(path.read_text().replace(text, other))
    code, said = compare("--tensorrt", tmp_path / "real", "--cuda", tmp_path / "real")
    assert code == 1
    assert set(re.findall(r"differs: (.*)", said)) == {name for *_, name in CHANGES}
    code, said = compare("--tensorrt", tmp_path, "--cuda", DOUBLES)
    assert (code, "there is no NvInfer.h in" in said) == (2, True)


def test_every_function_of_the_doubles_is_compared():
    namespace = {"__name__": "compare", "__file__": str(TESTS / "compare.py")}
    exec(compile((TESTS / "compare.py").read_text(), "compare.py", "exec"), namespace)
    for defined in ({"TRT_MAJOR_RTX"}, {"DOUBLE_STANDARD"}):
        found = set()
        for header in namespace["HEADERS"]:
            text = (DOUBLES / header).read_text()
            found |= {name.rpartition("::")[2] for name in namespace["checks"](text, defined)}
            lines = "\n".join(namespace["statements"](text, defined))
            assert declared(lines) <= found


REAL = any(name in os.environ for name in ("TensorRT_ROOT", "TRTRTX_INSTALL_DIR"))


@pytest.mark.skipif(not REAL, reason="needs TensorRT_ROOT or TRTRTX_INSTALL_DIR")
def test_the_doubles_are_declared_as_tensorrt_is():
    assert compare()[0] == 0
