"""Standard streams that are closed, full, or of few characters: the work is done all the same."""

import os
import subprocess
import sys

import pytest

import trtdsl as td


def shell(folder, command, redirected, **environment):
    line = f"{sys.executable} -m trtdsl {command} {redirected}"
    given = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, cwd=folder, env=given)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_output_that_cannot_be_written(tmp_path):
    for command in ("--version", "explain einsum ij,jk-\\>ik 2,3 3,4 --json"):
        done = shell(tmp_path, command, ">/dev/full")
        assert (done.returncode, done.stderr) == (2, "error: cannot write the output: No space left on device\n")
    assert shell(tmp_path, "--help", ">/dev/full 2>&1").returncode == 2
    told = shell(tmp_path, "--version", "2>/dev/full")
    assert (told.returncode, told.stdout[:6]) == (0, "trtdsl")


@pytest.mark.skipif(os.name == "nt", reason="a shell of POSIX closes streams")
def test_a_file_does_not_get_the_number_of_a_stream_that_is_closed(small, tmp_path):
    """Otherwise TensorRT's notes, or ours, stand in the engine that is written meanwhile."""
    closed = shell(small, "stubs small.safetensors -o weights.pyi", "<&- >&- 2>&-")
    assert (closed.returncode, closed.stdout, closed.stderr) == (0, "", "")
    assert (small / "weights.pyi").read_text() == td.stubs(td.Weights(small / "small.safetensors"))


def test_characters_that_a_stream_does_not_have(tmp_path):
    done = shell(tmp_path, "inspect n\u00e4he.engine -q", "", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (2, "error: there is no file n\\xe4he.engine\n")
