"""Ports modules into a folder, with their weights, and reads the files back."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import trtdsl as td
from trtdsl.porting import ported, write_files

collect_ignore = ["third_party.py"]  # it imports what need not be installed
MODULES = Path(__file__).parent / "modules.py"
RUFF = shutil.which("ruff", path=str(Path(sys.executable).parent))


class Port:
    """A ported module as a user has it: a file and its weights."""

    def __init__(self, folder, target, inputs, **options):
        self.result = ported(target, inputs, file=folder / "x.py", **options)
        self.text = self.result.text
        self.file = folder / f"{self.result.name}.py"
        write_files(self.result, self.file, folder / f"{self.result.name}.safetensors")
        self.spec = td.load_spec(self.file)

    def check(self):
        """Unedited, the file is as ruff formats it, and its network equals the module at every corner."""
        assert not self.result.missing
        self.lint()
        report = td.check(self.spec)
        report.raise_for_mismatch()
        assert report.passed
        return self

    def lint(self):
        if RUFF is not None:
            config = ["--config", str(Path(__file__).parents[2] / "pyproject.toml"), str(self.file)]
            for command in (["format", "--diff", "-q"], ["check", "-q", "--output-format", "concise"]):
                done = subprocess.run([RUFF, *command, *config], capture_output=True, text=True, check=False)
                assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def port(tmp_path):
    def make(target, inputs, **options):
        place = target if ":" in target else f"{MODULES}:{target}"
        return Port(tmp_path, place, inputs, **options)

    return make
