"""Checks the C++ of cpp/ with clang, clang-tidy and cppcheck, whichever of them there are: python tools/lint_cpp.py

Exit code 1 where one of them finds something. cpp/.clang-tidy has the checks of clang-tidy.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CPP = Path(__file__).parents[1] / "cpp"
FOLDERS = ("-Iinclude", "-Itests/double")
PRODUCTS = {
    "tensorrt-rtx": ("-DTRTDSL_WITH_TENSORRT", '-DTRTDSL_PRODUCT="tensorrt-rtx"'),
    "tensorrt": ("-DTRTDSL_WITH_TENSORRT", "-DDOUBLE_STANDARD", '-DTRTDSL_PRODUCT="tensorrt"'),
}
WARNINGS = (
    "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wsign-conversion", "-Wimplicit-fallthrough",
    "-Wnon-virtual-dtor", "-Wthread-safety", "-Werror",
)  # fmt: skip


def sources(*folders: str) -> list[str]:
    return sorted(path.relative_to(CPP).as_posix() for folder in folders for path in (CPP / folder).rglob("*.cpp"))


def commands() -> Iterator[list[str]]:
    """One command for each file and tool."""
    shipped, tests = sources("src", "examples"), sources("tests")
    if shutil.which("clang++"):
        for product in PRODUCTS.values():
            for source in (*shipped, *tests):
                yield ["clang++", "-std=c++17", "-fsyntax-only", *WARNINGS, *FOLDERS, *product, source]
    if shutil.which("clang-tidy"):
        for source in shipped:
            yield ["clang-tidy", "--quiet", source, "--", "-std=c++17", *FOLDERS, *PRODUCTS["tensorrt-rtx"]]
    if shutil.which("cppcheck"):
        options = ("--std=c++17", "--enable=warning,performance,portability", "--quiet", "--error-exitcode=1")
        for product in PRODUCTS.values():
            yield ["cppcheck", *options, *FOLDERS, *product, "src", "examples", "tests"]


def run(command: list[str]) -> tuple[int, str]:
    done = subprocess.run(command, cwd=CPP, capture_output=True, text=True)
    return done.returncode, done.stdout + (done.stderr if command[0] != "clang-tidy" else "")


def main() -> int:
    for tool in ("clang++", "clang-tidy", "cppcheck"):
        if not shutil.which(tool):
            print(f"there is no {tool}: skipped", file=sys.stderr)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [said for code, said in pool.map(run, commands()) if code]
    print("\n".join(found) or "nothing was found in cpp/")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
