"""The C++ library installed, and found by CMake and by pkg-config."""

import os
import shutil
import subprocess

import pytest

from trtdsl.core.version import __version__

PROGRAM = """#include <trtdsl/engine.hpp>
#include <iostream>
static_assert(TRTDSL_VERSION >= TRTDSL_MAKE_VERSION(0, 1, 0) && TRTDSL_VERSION < TRTDSL_MAKE_VERSION(99, 0, 0));
int main() {
    std::cout << trtdsl::version() << " " << TRTDSL_VERSION_STRING << " ";
    std::cout << TRTDSL_VERSION_MAJOR << "." << TRTDSL_VERSION_MINOR << "." << TRTDSL_VERSION_PATCH << " ";
    try {
        trtdsl::read_npy("none");
    } catch (trtdsl::Error const& error) {
        std::cout << error.code() << " " << trtdsl::sha256("abc") << std::endl;
    }
}
"""
LISTS = """cmake_minimum_required(VERSION 3.18)
project(user LANGUAGES CXX)
find_package(trtdsl REQUIRED)
add_executable(user main.cpp)
target_link_libraries(user PRIVATE trtdsl::trtdsl_engine)
"""
SAID = f"{__version__} {__version__} {__version__} feed-name "
ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, appendix B.1


@pytest.fixture
def user(tmp_path):
    (tmp_path / "main.cpp").write_text(PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text(LISTS)
    return tmp_path


def found_by_cmake(user, prefix):
    """What the user's program says, with the library that find_package() finds."""
    configure = ["cmake", "-S", user, "-B", user / "build", f"-DCMAKE_PREFIX_PATH={prefix}"]
    subprocess.run(configure, check=True, capture_output=True)
    subprocess.run(["cmake", "--build", user / "build"], check=True, capture_output=True)
    return subprocess.run([user / "build/user"], check=True, capture_output=True, text=True).stdout


def test_find_package(binaries, user):
    assert found_by_cmake(user, binaries / "static") == f"{SAID}{ABC}\n"


@pytest.mark.skipif(not shutil.which("pkg-config"), reason="needs pkg-config")
def test_pkg_config(binaries, user):
    (described,) = (binaries / "static").glob("lib*/**/pkgconfig/trtdsl.pc")
    command = ["pkg-config", "--cflags", "--libs", "trtdsl"]
    environment = {**os.environ, "PKG_CONFIG_PATH": str(described.parent)}
    flags = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.split()
    subprocess.run(["g++", "-std=c++17", user / "main.cpp", *flags, "-o", user / "user"], check=True)
    assert subprocess.run([user / "user"], check=True, capture_output=True, text=True).stdout == f"{SAID}{ABC}\n"


@pytest.mark.skipif(not (shutil.which("readelf") and shutil.which("nm")), reason="needs binutils")
def test_a_shared_library_says_which_versions_replace_it(binaries, user):
    """And exports what its header declares."""
    prefix = binaries / "shared"
    (library,) = prefix.glob("lib*/**/libtrtdsl_engine.so")
    dynamic = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True).stdout
    assert f"[libtrtdsl_engine.so.{__version__.rpartition('.')[0]}]" in dynamic
    assert os.path.realpath(library).endswith(f".so.{__version__}")
    exported = subprocess.run(
        ["nm", "-DC", "--defined-only", library], check=True, capture_output=True, text=True
    ).stdout
    assert "trtdsl::open_engine(" in exported and "typeinfo for trtdsl::Error" in exported
    assert not [name for name in ("parse_json", "Sha256", "write_file", "Reader") if f"trtdsl::{name}" in exported]
    assert found_by_cmake(user, prefix) == f"{SAID}{ABC}\n"


@pytest.mark.parametrize("kind", ["static", "shared"])
def test_an_installed_program_finds_its_library_where_both_were_moved_to(binaries, tmp_path, kind):
    shutil.copytree(binaries / kind, tmp_path / "moved", symlinks=True)
    done = subprocess.run([tmp_path / "moved/bin/run_engine"], capture_output=True, text=True)
    assert (done.returncode, done.stderr.startswith("usage: run_engine ENGINE")) == (2, True)
