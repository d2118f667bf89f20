"""What someone meets in the first hour: values that are shown, notes, settings of every command."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import pkgutil
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import trtdsl as td
from trtdsl.cli.app import app
from trtdsl.display import terminal

NETWORK = """
import torch, trtdsl as td

class Double(torch.nn.Module):
    def forward(self, x):
        return x * 2

N = td.Dim("N", min=1, opt=2, max=4)

@td.network(inputs={"x": td.Input((N, 3))}, reference=Double)
def net(x):
    return x * 2

def scaled(*, by: float, deep: bool = False) -> td.NetworkSpec:
    @td.network(inputs={"x": td.Input((N, 3))}, name="scaled")
    def made(x):
        return (x * by).exp() if deep else x * by
    return made
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    Path("net.py").write_text(NETWORK)
    return tmp_path


def trtdsl(*arguments, code=0):
    done = CliRunner().invoke(app, [str(each) for each in arguments])
    assert done.exit_code == code, done.output
    return done.output


def test_no_value_shows_raw_bytes_and_bytes_have_units(file):
    names = (module.name for module in pkgutil.walk_packages(td.__path__, "trtdsl."))
    for module in (name for name in names if not name.endswith("__main__")):
        for name, each in vars(importlib.import_module(module)).items():
            for field in dataclasses.fields(each) if isinstance(each, type) and dataclasses.is_dataclass(each) else ():
                assert field.type not in ("bytes", bytes) or not field.repr, f"{name}.{field.name}"
    program = td.program("net.py:net")
    assert re.fullmatch(r"Program\(net: 1 launch, \d+ bytes moved\)", repr(program))
    assert "0 edits, " in repr(td.advise("net.py:net")) and "Figures" not in repr(td.advise("net.py:net"))


def test_a_build_is_one_line(file):
    built = td.build("net.py:net", "net.engine")
    size = (file / "net.engine").stat().st_size
    layers = built.manifest["layers"]
    assert repr(built).startswith(f"Build(net.engine: {size:,} bytes, {layers} layers, built, equals its ")
    assert "\n" not in repr(built)
    assert "<td>x</td><td>float32</td><td>(N, 3)</td>" in built._repr_html_()
    assert "up to date" in repr(td.build("net.py:net", "net.engine"))
    assert "not written" in repr(td.build("net.py:net", "other.engine", dry_run=True, check=False))


def test_a_view_says_which_engine_it_leaves_out(file):
    trtdsl("build", "net.py:net", "--no-check", "--dim", "N=3")
    out = trtdsl("view", "net.py:net")
    assert "net.engine is of other sizes or another state of the network, and its program is not shown" in out
    assert "--build builds this one, --engine net.engine shows that one" in out
    assert "engine='net.engine' shows that one" in repr(td.view("net.py:net"))
    assert ", 1 launch, " in trtdsl("view", "net.py:net", "--dim", "N=3")  # that is the engine's


def test_compare_and_bench_take_settings(file):
    out = trtdsl("compare", "net.py:scaled", "net.py:net", "--set", "by=3", code=2)
    assert "net takes no settings" in out
    out = trtdsl("compare", "net.py:scaled", "net.py:scaled", "--set", "by=3", "--set", "deep=true")
    assert "launches" in out
    trtdsl("build", "net.py:net", "--no-check")
    assert "launches" in trtdsl("compare", "net.engine", "net.py:scaled", "--set", "by=3")
    assert "--set is for networks" in trtdsl("compare", "net.engine", "net.engine", "--set", "by=3", code=2)
    assert "the setting by is a float, not 'x'" in trtdsl("bench", "net.py:scaled", "--set", "by=x", code=2)
    assert "must be given, as --set by=…" in trtdsl("inspect", "net.py:scaled", code=2)


def test_importing_torch_is_progress(monkeypatch, capsys):
    """The first thing that takes seconds is named, in a log and on a terminal."""
    without = {name: module for name, module in terminal.sys.modules.items() if name != "torch"}
    monkeypatch.setattr(terminal.sys, "modules", without)
    with terminal.Progress(silent=False):
        assert capsys.readouterr().err == "importing torch and TensorRT\n"
    monkeypatch.setattr(terminal.sys.stderr, "isatty", lambda: True, raising=False)
    with terminal.Progress(silent=False) as progress:
        assert [(task.description, task.total) for task in progress._bar.tasks] == [("importing torch and TensorRT", 1)]
        progress.step("defining the network", 0, 1)
        assert [task.description for task in progress._bar.tasks] == ["defining the network"]


@pytest.mark.parametrize(
    ("begun", "completed"),
    [("--precision b", ["bf16"]), ("--device rtx-4", ["rtx-4090"]), ("--backend t", ["tensorrt", "tensorrt-rtx"])],
)
def test_a_shell_completes_values(monkeypatch, begun, completed):
    words = f"trtdsl inspect net.py {begun}"
    for name, value in {"_TRTDSL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "4"}.items():
        monkeypatch.setenv(name, value)
    assert CliRunner().invoke(app, [], prog_name="trtdsl").stdout.split() == completed


@pytest.mark.parametrize("width", ["60", "80", "120"])
def test_a_narrow_terminal_cuts_names_and_not_counts(monkeypatch, capsys, width):
    monkeypatch.setenv("COLUMNS", width)
    monkeypatch.setattr(terminal.sys.stderr, "isatty", lambda: True, raising=False)
    with terminal.Progress(silent=False) as progress:
        progress.step("checking against torch (N = 2, T = 8, H = 12, offset values)", 3, 12)
    seen = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().err)
    assert " 3/12 0:00:00 -:--:--" in seen


def test_what_is_piped_is_short(file, monkeypatch):
    monkeypatch.delenv("COLUMNS")
    out = trtdsl("check", "net.py:net")
    assert out.count("checking against torch") == 1
    out = trtdsl("build", "net.py:net").splitlines()
    assert out[:4] == ["defining the network", "checking against torch", "Building engine", *out[3:4]]
    assert out[3].startswith("net.engine: ")  # TensorRT's phases within that one say nothing unless they last
    lines = trtdsl("inspect", "net.py:net", "--depth", "all").splitlines()
    assert max(map(len, lines)) <= 160
    monkeypatch.setenv("COLUMNS", "60")
    assert max(map(len, trtdsl("inspect", "net.py:net", "--depth", "all").splitlines())) <= 60


def test_pyproject_has_defaults_of_options(file):
    trtdsl("build", "net.py:net", "--no-check")
    project = Path("pyproject.toml")
    project.write_text('[tool.trtdsl]\ndevice = "h100"\n[tool.trtdsl.inspect]\nby = "kind"\n')
    said = trtdsl("inspect", "net.engine", "--program")
    assert "floor on h100" in said and said.splitlines()[1].startswith("kind")
    assert "floor on orin" in trtdsl("inspect", "net.engine", "--program", "--device", "orin")
    inner = file / "inner"
    inner.mkdir()
    for text, message in (
        ('[tool.trtdsl]\ndevic = "h100"', "[tool.trtdsl]: there is no option 'devic' (nearest: device)"),
        ("[tool.trtdsl.inspect]\ndept = 2", "[tool.trtdsl.inspect]: there is no option 'dept' (nearest: depth)"),
        ("[tool.trtdsl.inspekt]\n", "there is no command 'inspekt' (nearest: inspect)"),
        ("[tool.trtdsl.weights.convrt]\n", "[tool.trtdsl.weights]: there is no command 'convrt' (nearest: convert)"),
        ('[tool.trtdsl]\nexport = "x"', "[tool.trtdsl]: there is no option 'export'"),
        ("[tool]\ntrtdsl = 5", "[tool.trtdsl] is not a table of options, but 5"),
        ("[[tool.trtdsl]]\na = 1", "[tool.trtdsl] is not a table of options, but [{'a': 1}]"),
        ("[tool.trtdsl.weights]\nconvert = 5", "[tool.trtdsl.weights.convert] is not a table of options, but 5"),
    ):
        project.write_text(text)
        done = CliRunner().invoke(app, ["doctor"])
        assert done.exception is not None and message in str(done.exception)
    for text in ("", "[tool.other]\nx = 1", "tool = 5", "tool = [1]", "[tool.trtdsl]"):
        project.write_text(text)
        trtdsl("inspect", "net.engine")
    project.write_text('[tool.trtdsl]\nprecision = "fp16"\nweights = "none.safetensors"')  # options, and commands
    assert json.loads(trtdsl("doctor", "--json"))
    trtdsl("inspect", "net.engine")


def refused(*arguments):
    """What a command line that is wrong is told, before a command runs or in one."""
    done = CliRunner().invoke(app, arguments)
    early = isinstance(done.exception, td.TrtdslError)
    assert (done.exception.exit_code if early else done.exit_code) == 2, done.output
    return str(done.exception) if early else done.output


UNREAD = {
    "it is not TOML: Invalid value": b'[tool.trtdsl.check]\nsizes = "N=4"\nseed = ',
    "it is not UTF-8": b'[tool.trtdsl.check]\nsizes = "\xff"',
    "it is nested too deeply": b"a = " + b"[" * 100_000,
    "it is nested too deep": b"[tool.trtdsl]\n" + b"a." * 10_000 + b"a = 1",  # of which tomllib takes 600 MB
    "it is nested too": b"['a' . " + b'"b".' * 10_000 + b"c]",
    "it is not TOML: Exceeds the limit": b"a = " + b"9" * 20_000,
    "it is larger than the 1 MiB": b"#" + bytes(1 << 20),
}


@pytest.mark.parametrize("reason", [*UNREAD, "it is not a regular file", "No such file"])
def test_a_project_that_cannot_be_read_is_refused(monkeypatch, tmp_path, reason):
    project = tmp_path / "pyproject.toml"
    if reason == "No such file":
        project.symlink_to("elsewhere")
    elif reason in UNREAD:
        project.write_bytes(UNREAD[reason])
    else:
        os.mkfifo(project)
    (tmp_path / "inner").mkdir()
    for folder in (tmp_path, tmp_path / "inner"):
        monkeypatch.chdir(folder)
        said = refused("doctor")
        assert said.startswith(f"{project} cannot be read: {reason}") and len(said) < 500
    if reason == "it is not a regular file":
        project.unlink()
        project.mkdir()
        assert refused("doctor").startswith(f"{project} cannot be read: {reason}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tolerance = nan", "[tool.trtdsl.check]: tolerance is a text or a finite number, not nan"),
        ("tolerance = 'nan'", "says tolerance = ['nan']"),
        ("seed = -1", "says seed = -1"),
        ("seed = 'x'", "says seed = 'x'"),
        ("limit = 0", "says limit = 0"),
        ("sizes = {a=1}", "[tool.trtdsl.check]: sizes is a text or a finite number, not {'a': 1}"),
        ("sizes = 2020-01-01", "[tool.trtdsl.check]: sizes is a text or a finite number, not datetime"),
        ("sizes = 'Q=4'", "says sizes = ['Q=4']"),
        ("quiet = 'yes'", "[tool.trtdsl.check]: quiet is true or false, not 'yes'"),
        (
            "[tool.trtdsl.run]\nallow-host-code = true",
            "allow-host-code is said by --allow-host-code on",
        ),
        ("[tool.trtdsl.run]\ntrust-network-file = true", "trust-network-file on the command line alone"),
        ("[tool.trtdsl.export.cpp]\nforce = true", "force is said by --force on the command line alone"),
        ("seed = true", "[tool.trtdsl.check]: seed is a text or a finite number, not True"),
    ],
)
def test_a_bad_default_names_its_file(file, text, message):
    project = file / "pyproject.toml"
    project.write_text(f"[tool.trtdsl.check]\n{text}\n")
    said = refused("check", "net.py:net")
    assert str(project) in said and message in said


def test_what_the_command_line_says_is_no_fault_of_the_project(file):
    (file / "pyproject.toml").write_text("[tool.trtdsl.check]\nseed = -1\nsizes = 'quick'\n")
    assert "pyproject.toml" not in refused("check", "net.py:net", "--seed", "x")
    assert refused("check", "net.py:net").splitlines()[-1].endswith("says sizes = ['quick'], seed = -1")
    trtdsl("check", "net.py:net", "--seed", "1")


def test_the_code_of_a_line_stands_beside_it(file, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    line = next(line for line in trtdsl("inspect", "net.py:net", "--program").splitlines() if "net.py:12" in line)
    assert "x * 2" in line
    trtdsl("build", "net.py:net", "--no-check")
    Path("net.py").write_text("# another state\n" * 20)
    assert "another state" not in trtdsl("inspect", "net.engine", "--program")


def test_a_build_says_what_its_check_did_not_prove(file):
    Path("net.py").write_text(
        NETWORK.replace("return x * 2\n\nN", "return (x * 2).clamp(max=1e9)\n\nN").replace(
            "    return x * 2\n\ndef", "    return (x * 2).clamp(max=1e9)\n\ndef"
        )
    )
    out = trtdsl("build", "net.py:net")
    assert "\nnot proven: net.py:6: the reference's clamp: a value above 1e+09 never occurred\n" in out
