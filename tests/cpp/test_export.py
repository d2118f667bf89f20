"""`trtdsl export cpp`: the project compiles as it stands, and a manifest of others puts no code into it."""

import json
import subprocess

import numpy as np
import pytest
from typer.testing import CliRunner

import trtdsl as td
from trtdsl.cli.app import app
from trtdsl.engine import cpp
from trtdsl.engine.cpp import literal
from trtdsl.engine.loading.manifest import manifest_path

from .conftest import ADDRESS, UNITY, compiled, fast_compiler
from .test_running import GENERATING, GENERATING_FACTS, STATES, STATES_FACTS, write

pytestmark = pytest.mark.long


def run(folder, library):
    """The project's program with the library that the tests compiled on the doubles."""
    main = compiled(folder / "main.cpp", folder / "main", library, ADDRESS)
    done = subprocess.run([main], cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_the_project_runs_its_engine(sanitized, tmp_path):
    folder = td.export_cpp(write(tmp_path / "a.engine"), tmp_path / "project")
    code, said = run(folder, sanitized)
    assert (code, said) == (0, "y: float32 4 2, 32 bytes\ns: int64 2, 16 bytes\np: float32 0, 0 bytes\n")
    assert (folder / "double.engine.cache").read_bytes().startswith(b'{"bytes"')
    (folder / "double.engine").write_bytes(b"")
    done = subprocess.run([folder / "main"], cwd=folder, capture_output=True, text=True)
    assert (done.returncode, "[engine-too-short]" in done.stderr) == (7, True)


def test_an_engine_that_is_built_again_meanwhile_is_exported_with_its_own_manifest(tmp_path, monkeypatch):
    engine, read = write(tmp_path / "a.engine"), cpp.read_described

    def then_built(path):
        found = read(path)
        write(path, STATES, **STATES_FACTS)
        return found

    monkeypatch.setattr(cpp, "read_described", then_built)
    folder = td.export_cpp(engine, tmp_path / "project", name="mine")
    assert not read(folder / "mine.engine")[-1].states


def test_an_engine_with_states_runs_in_a_session(sanitized, tmp_path):
    folder = td.export_cpp(write(tmp_path / "a.engine", STATES, **STATES_FACTS), tmp_path / "project")
    assert run(folder, sanitized) == (0, "y: float32 2 2, 16 bytes\n" * 3)
    text = (folder / "main.cpp").read_text()
    assert 'feeds["x"]' in text and 'feeds["cache"]' not in text and "next_cache" not in text


def test_a_decoder_generates(sanitized, tmp_path):
    folder = td.export_cpp(write(tmp_path / "a.engine", GENERATING, **GENERATING_FACTS), tmp_path / "project")
    assert run(folder, sanitized) == (0, "0 0 0 0 \n")
    assert "zeros" not in (folder / "main.cpp").read_text()


def test_cmake_builds_the_project_as_it_stands(tmp_path):
    """With the library's sources that it brings, without TensorRT: the engine is judged, and not run."""
    folder = td.export_cpp(write(tmp_path / "a.engine"), tmp_path / "project", name="mine")
    assert sorted(path.name for path in folder.iterdir()) == [
        "CMakeLists.txt", "README.md", "main.cpp", "mine.engine", "mine.engine.json", "trtdsl",
    ]  # fmt: skip
    configure = [
        "cmake",
        "-S",
        folder,
        "-B",
        folder / "build",
        "-DTRTDSL_BACKEND=none",
        *UNITY,
        f"-DCMAKE_CXX_COMPILER={fast_compiler()}",
    ]
    subprocess.run(configure, check=True, capture_output=True)
    subprocess.run(["cmake", "--build", folder / "build", "--target", "main"], check=True, capture_output=True)
    done = subprocess.run([folder / "build/main"], cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "not run: compiled without TensorRT\n", "")
    readme = (folder / "README.md").read_text()
    assert "-DTRTRTX_INSTALL_DIR=" in readme and "| input | `x` | float32 | `(N, 2)` |" in readme


HOSTILE = 'x"); system("touch evil"); //\\ #error */ ??/ `id` ${CMAKE} | é'


def test_texts_of_a_manifest_never_become_code(sanitized, tmp_path):
    path = write(tmp_path / "a.engine")
    facts = json.loads(manifest_path(path).read_text())
    facts["inputs"] = {HOSTILE: {"dtype": "float32", "shape": [f"N{HOSTILE}", 2]}}
    facts["outputs"] = {HOSTILE: {"dtype": "float32", "shape": [HOSTILE]}}
    for profile in facts["profiles"]:
        profile["inputs"] = {HOSTILE: profile["inputs"]["x"]}
    manifest_path(path).write_text(json.dumps(facts))
    folder = td.export_cpp(path, tmp_path / "project")
    code, said = run(folder, sanitized)
    assert (code, "input 'x' is missing" in said) == (2, True)  # the engine's own name
    text = (folder / "main.cpp").read_text()
    assert not list(tmp_path.rglob("evil")) and "system(\\042" in text and "\n#error" not in text
    readme = (folder / "README.md").read_text()
    assert readme.isascii() and "${" not in readme
    assert [line.count("|") for line in readme.splitlines() if line.startswith("| ")] == [5, 5, 5]


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil", "..", "", "a\nb", "x" * 300])
def test_a_project_stays_in_its_folder(tmp_path, name):
    path = write(tmp_path / "a.engine", network=name)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(td.UsageError, match="a file would be called after it"):
        td.export_cpp(path, tmp_path / "project")
    with pytest.raises(td.UsageError, match="a file would be called after it"):
        td.export_cpp(write(path), tmp_path / "project", name=name)
    assert sorted(tmp_path.rglob("*")) == before


def test_export_cpp_on_the_command_line(tmp_path):
    engine, folder = write(tmp_path / "a.engine"), tmp_path / "deep" / "project"
    arguments = ["export", "cpp", str(engine), str(folder)]
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert (done.exit_code, json.loads(done.stdout)["folder"]) == (0, str(folder))
    (folder / "main.cpp").write_text("mine")
    done = CliRunner().invoke(app, arguments)
    assert (done.exit_code, (folder / "main.cpp").read_text()) == (2, "mine")
    assert CliRunner().invoke(app, [*arguments, "--force"]).exit_code == 0
    assert (folder / "main.cpp").read_text() != "mine"
    engine.write_bytes(engine.read_bytes()[:-1])
    assert CliRunner().invoke(app, [*arguments, "--force"]).exit_code == 7


def test_literals():
    """Every byte of a text is in its literal, as C++ reads octal escapes."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        text = "".join(map(chr, rng.integers(1, 0x3000, 20))) + '"\\0'
        read = literal(text).encode("ascii").decode("unicode_escape").encode("latin-1")
        assert read == text.encode()
