"""What `make` says to a Python that the constraints do not serve."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize(("version", "taken"), [("3, 10, 14", False), ("3, 11, 0", True), ("3, 13, 1", True)])
def test_make_says_what_python_it_needs_before_it_installs_anything(tmp_path, version, taken):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    python = tmp_path / "python"  # runs -c as a Python of that version would; asked for a venv, it fails
    python.write_text(
        f'#!/bin/sh\nexec {sys.executable} -c "import sys; sys.version_info = ({version}); exec(sys.argv[2])" "$@"\n'
    )
    python.chmod(0o755)
    done = subprocess.run(
        ["make", "setup", f"PYTHON={python}"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert ("make needs Python 3.11 or newer" in done.stderr) != taken
    assert ("-m venv" in done.stdout) == taken
    assert not (tmp_path / ".venv").exists()
