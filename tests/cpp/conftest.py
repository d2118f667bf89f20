"""The C++ library, compiled once for the tests that hold it against the Python one, by the process that is first."""

import fcntl
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from support.kinds import ARRAY

from trtdsl.core.files.writing import check_writable, write_atomically

CPP = Path(__file__).parents[2] / "cpp"
UNITY = ("-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=30")  # a third of the time
STRICT = ("-std=c++17", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Wsign-conversion", "-Werror")
SUPPRESSED = Path(__file__).parents[2] / "cpp" / "tests" / "thread_sanitizer.supp"
ADDRESS, THREAD = "-fsanitize=address,undefined", "-fsanitize=thread"


def write_array(path, data):
    write_atomically(check_writable(path, ARRAY, (), force=True), data)


def cmake(folder, backend, *options, targets=("all",)):
    """Configures and builds the library, which compiles without a warning."""
    if not (shutil.which("cmake") and shutil.which("g++")):
        pytest.skip("needs cmake and g++ to compile cpp/")
    command = ["cmake", "-S", CPP, "-B", folder, f"-DTRTDSL_BACKEND={backend}", *UNITY, *options]
    subprocess.run(command, check=True, capture_output=True)
    built = subprocess.run(["cmake", "--build", folder, "-j2", "--target", *targets], capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    assert "warning" not in built.stdout + built.stderr
    return folder


@functools.cache
def fast_compiler():
    """clang++, which takes half of g++'s time, where it is there with its sanitizers; else g++."""
    with tempfile.TemporaryDirectory() as folder:
        (source := Path(folder, "main.cpp")).write_text("int main() {}\n")
        for sanitizers in (ADDRESS, THREAD):
            command = ["clang++", sanitizers, source, "-o", Path(folder, "main")]
            if not shutil.which("clang++") or subprocess.run(command, capture_output=True).returncode:
                return "g++"
    return "clang++"


def compiled(main, program, library, sanitizers=""):
    """Compiles a program of one file with the library in a folder, where it is there for the doubles with these."""
    doubles = [sanitizers, "-DTRTDSL_WITH_TENSORRT", f"-I{CPP / 'tests/double'}"] if sanitizers else []
    command = [fast_compiler() if sanitizers else "g++", *STRICT, *doubles, f"-I{CPP / 'include'}"]
    subprocess.run([*command, main, library / "libtrtdsl_engine.a", "-o", program], check=True)
    return program


@pytest.fixture(scope="session")
def once(tmp_path_factory):
    """Makes a folder, unless another process of this run has made it, and gives it."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def made(name, make):
        folder = base / f"cpp-{name}"
        with open(f"{folder}.lock", "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "made").exists():
                make(folder)
                (folder / "made").touch()
        return folder

    return made


@pytest.fixture(scope="session")
def binaries(once):
    """run_engine and the probe, compiled without TensorRT; the library is installed in ``static`` and ``shared``."""

    def make(folder):
        for kind, shared in (("static", "OFF"), ("shared", "ON")):  # of the same objects
            prefix = f"-DCMAKE_INSTALL_PREFIX={folder / kind}"
            cmake(folder, "none", prefix, f"-DBUILD_SHARED_LIBS={shared}", "-DTRTDSL_EXAMPLES=ON")
            subprocess.run(["cmake", "--install", folder], check=True, capture_output=True)
        compiled(CPP / "tests/probe.cpp", folder / "probe", folder)

    return once("none", make)


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


def on_doubles(folder, sanitizers, *targets):
    """The library on the doubles of TensorRT and CUDA, with sanitizers that end the program at what they find."""
    flags = f"-DCMAKE_CXX_FLAGS=-g1 -O0 {sanitizers} -fno-sanitize-recover=all"
    return cmake(folder, "double", flags, f"-DCMAKE_CXX_COMPILER={fast_compiler()}", targets=targets)


@pytest.fixture(scope="session")
def sanitized(once):
    """With the sanitizers of addresses and behaviour."""
    return once("sanitized", lambda folder: on_doubles(folder, ADDRESS, "all"))


@pytest.fixture(scope="session")
def threaded(once):
    """With the sanitizer of threads."""
    return once("threaded", lambda folder: on_doubles(folder, THREAD, "running", "running_standard"))


@pytest.fixture(params=["sanitized", "threaded"])
def running(request):
    """Runs a case of cpp/tests/running.cpp, under the sanitizers of addresses, behaviour and threads."""
    folder = request.getfixturevalue(request.param)

    def run(engine, case, *file, code=0, program="running", **environment):
        command = [folder / program, engine, case, *file]
        environment = {**os.environ, "TSAN_OPTIONS": f"exitcode=66 suppressions={SUPPRESSED}", **environment}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr[-3000:])
        return done.stdout + done.stderr

    return run
