"""The C++ library installed, and found by CMake and by pkg-config."""

import os
import shutil
import subprocess

import pytest

PROGRAM = """#include <trtdsl/engine.hpp>
#include <iostream>
int main() { std::cout << trtdsl::sha256("abc") << std::endl; }
"""
LISTS = """cmake_minimum_required(VERSION 3.18)
project(user LANGUAGES CXX)
find_package(trtdsl REQUIRED)
add_executable(user main.cpp)
target_link_libraries(user PRIVATE trtdsl::trtdsl_engine)
"""
ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, appendix B.1


@pytest.fixture(scope="module")
def installed(binaries, tmp_path_factory):
    prefix = tmp_path_factory.mktemp("prefix")
    # The prefix of pkg-config's file is that of the configuration.
    subprocess.run(["cmake", binaries, f"-DCMAKE_INSTALL_PREFIX={prefix}"], check=True, capture_output=True)
    subprocess.run(["cmake", "--install", binaries], check=True, capture_output=True)
    return prefix


@pytest.fixture
def user(tmp_path):
    (tmp_path / "main.cpp").write_text(PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text(LISTS)
    return tmp_path


def test_find_package(installed, user):
    configure = ["cmake", "-S", user, "-B", user / "build", f"-DCMAKE_PREFIX_PATH={installed}"]
    subprocess.run(configure, check=True, capture_output=True)
    subprocess.run(["cmake", "--build", user / "build"], check=True, capture_output=True)
    assert subprocess.run([user / "build/user"], check=True, capture_output=True, text=True).stdout == f"{ABC}\n"


@pytest.mark.skipif(not shutil.which("pkg-config"), reason="needs pkg-config")
def test_pkg_config(installed, user):
    (described,) = installed.glob("lib*/**/pkgconfig/trtdsl.pc")
    command = ["pkg-config", "--cflags", "--libs", "trtdsl"]
    environment = {**os.environ, "PKG_CONFIG_PATH": str(described.parent)}
    flags = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.split()
    subprocess.run(["g++", "-std=c++17", user / "main.cpp", *flags, "-o", user / "user"], check=True)
    assert subprocess.run([user / "user"], check=True, capture_output=True, text=True).stdout == f"{ABC}\n"
