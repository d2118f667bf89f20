"""The C++ library, compiled once for the tests that hold it against the Python one."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNITY = ("-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=30")  # a third of the time


@pytest.fixture(scope="session")
def binaries(tmp_path_factory):
    """run_engine and the probe, compiled without TensorRT."""
    if not (shutil.which("cmake") and shutil.which("g++")):
        pytest.skip("needs cmake and g++ to compile tools/cpp")
    folder = tmp_path_factory.mktemp("cpp")
    configure = ["cmake", "-S", ROOT / "tools/cpp", "-B", folder, "-DTRTDSL_BACKEND=none", *UNITY]
    subprocess.run(configure, check=True, capture_output=True)
    built = subprocess.run(["cmake", "--build", folder], capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    assert "warning" not in built.stdout + built.stderr
    compiler = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'tools/cpp'}"]
    sources = [ROOT / "tests/cpp/probe.cpp", folder / "libtrtdsl_engine.a"]
    subprocess.run([*compiler, *sources, "-o", folder / "probe"], check=True)
    return folder


@pytest.fixture
def probe(binaries):
    def run(*arguments, code=0, data=b""):
        done = subprocess.run([binaries / "probe", *map(str, arguments)], input=data, capture_output=True)
        assert done.returncode == code, done.stderr.decode()
        return (done.stdout or done.stderr).decode()

    return run


@pytest.fixture
def run_engine(binaries):
    def run(*arguments, code=0):
        done = subprocess.run([binaries / "run_engine", *map(str, arguments)], capture_output=True, text=True)
        assert done.returncode == code, (done.returncode, done.stderr)
        return done.stdout + done.stderr

    return run


@pytest.fixture(scope="session")
def sanitized(tmp_path_factory):
    """The whole library on the doubles of TensorRT and CUDA, with the sanitizers of addresses and behaviour."""
    if not (shutil.which("cmake") and shutil.which("g++")):
        pytest.skip("needs cmake and g++ to compile tools/cpp")
    folder = tmp_path_factory.mktemp("sanitized")
    flags = "-g1 -O0 -Werror -fsanitize=address,undefined -fno-sanitize-recover=all"
    configure = [
        "cmake",
        "-S",
        ROOT / "tools/cpp",
        "-B",
        folder,
        "-DTRTDSL_BACKEND=double",
        *UNITY,
        f"-DCMAKE_CXX_FLAGS={flags}",
    ]
    subprocess.run(configure, check=True, capture_output=True)
    built = subprocess.run(["cmake", "--build", folder, "-j2"], capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder
