"""Runs a part of the suite on other versions of Python, torch and numpy: python tools/versions.py [FOLDER [NAME …]]

Each row has a virtual environment of its own in FOLDER (versions/ beside the repository), which stays there: 5 GB, as
torch of PyPI brings CUDA's libraries. A row whose Python is not there (on the PATH, or pyenv's) is skipped. Needs uv.
Exit code 1 where a test failed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import tomllib

HERE = Path(__file__).parents[1]
TESTS = ("pytest", "hypothesis", "expecttest", "onnx")
PART = (  # defines, checks, builds, loads manifests, ports
    "tests/definition/test_network.py", "tests/sizes", "tests/building/test_build.py",
    "tests/engine/loading/test_loader.py", "tests/porting/test_module.py",
)  # fmt: skip


def requirements() -> list[str]:
    """What `pip install trtdsl[rtx]` takes, and the tests need."""
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    named = [*project["dependencies"], *extras["rtx"], *extras["runtime"]]
    return [each for each in named if not each.startswith("trtdsl[")] + list(TESTS)


def oldest(names: Iterable[str]) -> list[str]:
    """The lower bounds (their latest patches), but of TensorRT and CUDA, whose own versions have their own tests."""
    newest = ("tensorrt", "cuda-python")
    return [each if each.startswith(newest) else re.sub(r">=([\w.]+).*", r"==\1.*", each) for each in names]


ROWS = {  # version of Python, what is installed
    "oldest": ("3.10", oldest(requirements())),
    "3.10": ("3.10", requirements()),
    "3.12": ("3.12", requirements()),
    "3.13": ("3.13", requirements()),
}


def python(version: str) -> str | None:
    there = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    return str(there[-1]) if there else shutil.which(f"python{version}")  # pyenv's own name for it needs a setting


def run(name: str, folder: Path) -> bool:
    """Whether the tests pass, or there is no such Python."""
    version, wanted = ROWS[name]
    if (found := python(version)) is None:
        print(f"{name}: there is no Python {version}, skipped")
        return True
    inside = folder / name / "bin" / "python"
    if not inside.exists():
        subprocess.run(["uv", "venv", "-q", "--python", found, folder / name], check=True)
    subprocess.run(["uv", "pip", "install", "-q", "--python", inside, *wanted], check=True)
    listed = subprocess.run(["uv", "pip", "freeze", "--python", inside], check=True, capture_output=True, text=True)
    shown = [each for each in listed.stdout.split() if re.match(r"(torch|numpy|tensorrt-rtx-cu13)==", each)]
    print(f"{name}: Python {version}, {', '.join(shown)}", flush=True)
    # A warning of a version that is not the project's own is no failure.
    command = [inside, "-m", "pytest", "-q", "-W", "default", "-p", "no:cacheprovider", *PART]
    environment = {**os.environ, "PYTHONPATH": str(HERE), "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=HERE, env=environment).returncode == 0


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent / "versions"
    passed = [run(name, folder.resolve()) for name in sys.argv[2:] or ROWS]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
