"""Standard streams that are closed, full, or of few characters: the work is done all the same."""

import json
import os
import subprocess
import sys

import pytest

import trtdsl as td

pytestmark = pytest.mark.long


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
    closed = shell(small, "stubs small.safetensors -o weights.pyi -q", "<&- >&- 2>&-")
    assert (closed.returncode, closed.stdout, closed.stderr) == (0, "", "")
    assert (small / "weights.pyi").read_text() == td.stubs(td.Weights(small / "small.safetensors"))


@pytest.mark.skipif(os.name == "nt", reason="a shell of POSIX closes streams")
def test_a_result_that_nobody_gets_is_an_error(tmp_path):
    for command in ("--version", "explain einsum ij,jk-\\>ik 2,3 3,4", "explain einsum ij,jk-\\>ik 2,3 3,4 --json"):
        done = shell(tmp_path, command, ">&-")
        assert (done.returncode, done.stderr) == (2, "error: cannot write the output: Bad file descriptor\n")
    assert shell(tmp_path, "explain einsum ij,jk-\\>ik 2,3 3,4 -q", ">&-").returncode == 0


def test_a_system_whose_texts_are_not_utf_8(tmp_path):
    latin = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = shell(tmp_path, "explain einsum i,j-\\>ij 2 3 -q", "", **latin)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_working_directory_that_is_gone(tmp_path):
    (tmp_path / "gone").mkdir()
    line = f"rmdir ../gone && {sys.executable} -c 'from trtdsl.cli.main import main; main()' doctor"
    given = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, cwd=tmp_path / "gone", env=given)
    said = "error: the working directory cannot be used (No such file or directory): go to another\n"
    assert (done.returncode, done.stderr) == (2, said)


def test_characters_that_a_stream_does_not_have(tmp_path):
    done = shell(tmp_path, "inspect n\u00e4he.engine -q", "", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (2, "error: there is no file n\\xe4he.engine\n")


@pytest.mark.skipif(os.name == "nt", reason="a shell of POSIX")
def test_a_reader_that_goes_away_changes_no_exit_code(small):
    """``set -o pipefail; trtdsl check NETWORK | head -1`` in a script must not pass where the network differs."""
    text = (small / "small.py").read_text()
    (small / "wrong.py").write_text(text.replace("F.relu(", "F.tanh("))
    for command, code in (("--help", 0), ("check small.py", 0), ("check wrong.py", 1), ("check wrong.py --json", 1)):
        with subprocess.Popen(
            [sys.executable, "-m", "trtdsl", *command.split()],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=small,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        ) as running:
            running.stdout.close()
            said = running.stderr.read()
        assert (running.returncode, b"error" in said) == (code, False), (command, said)


def test_a_terminal_of_no_columns(tmp_path):
    """As a container's may say; rich prints nothing into it."""
    line = "explain einsum ij,jk-\\>ik 2,3 3,4"
    assert "40 FLOPs" in shell(tmp_path, line, "", COLUMNS="0").stdout


@pytest.mark.parametrize("taken", ["sys.path[:] = []", "sys.path = None", "sys.stdout = sys.stderr = None"])
def test_what_the_authors_code_takes_away_ends_in_one_line(small, taken):
    file = small / "small.py"
    file.write_text(f"import sys\n{taken}\n{file.read_text()}")
    done = shell(small, "inspect small.py", "")
    assert (done.returncode, done.stdout, done.stderr.count("error: ")) == (8, "", 1)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["check small.py", "build small.py other.py -o e/ -j 2", "port reference.py:Model"])
def test_what_the_authors_code_prints_is_not_in_the_json(small, command):
    (small / "other.py").write_text((small / "small.py").read_text().replace("def small(", "def other("))
    for file in ("small.py", "other.py", "reference.py"):
        (small / file).write_text("print('said by the author')\n" + (small / file).read_text())
    command += " --input x=2,3,5,5" * command.startswith("port")
    done = shell(small, command, "--json")
    assert (done.returncode, "said by the author" in done.stderr) == (0, True), done.stderr
    assert json.loads(done.stdout)["schema"]
    if command.startswith("port"):
        assert "said" not in shell(small, command, "").stdout
