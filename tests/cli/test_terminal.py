"""The command line on a terminal: tables that fit, folded modules, Ctrl-C, and what is printed for people."""

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import trtdsl as td
from trtdsl.core.cancel import PRESSED
from trtdsl.display.folding import rows
from trtdsl.display.table import as_text, make_table
from trtdsl.display.terminal import Progress

ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
DEEP = """\
import torch
import trtdsl as td
import trtdsl.functional as F

N = td.Dim("N", min=1, opt=3, max=8)


class Reference(torch.nn.Module):
    def forward(self, x):
        for _ in range(25):
            x = torch.tanh(x.exp() * 0.1)
        return x


@td.network(inputs={"x": td.Input((N, 5))}, reference=Reference, profiles=[td.Profile(N=(1, 3, 8)), td.Profile(N=7)])
def deep(x):
    with x.network.scope("stem"):
        x = F.tanh(F.exp(x) * 0.1)
    for index in range(24):
        with x.network.scope(f"body.block_{index}"):
            x = F.tanh(F.exp(x) * 0.1)
    return {"y": x}
"""


@pytest.fixture
def deep(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("deep.py").write_text(DEEP)
    return tmp_path


def on_a_terminal(arguments, columns, folder, interrupt=None):
    """What a command prints on a pseudo-terminal, and its exit code; Ctrl-C once ``interrupt`` has been printed."""
    pty = pytest.importorskip("pty")
    import fcntl
    import struct
    import termios

    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"TERM": "xterm"}
    process = subprocess.Popen(
        [sys.executable, "-m", "trtdsl", *arguments],
        cwd=folder, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    os.close(slave)
    text, deadline = "", time.monotonic() + 120
    while time.monotonic() < deadline:
        if not select.select([master], [], [], 0.1)[0]:
            if process.poll() is not None:
                break
            continue
        try:
            data = os.read(master, 1 << 16)
        except OSError:  # the other end is closed
            break
        text += data.decode(errors="replace")
        if interrupt is not None and interrupt in text:
            process.send_signal(signal.SIGINT)
            interrupt = None
    os.close(master)
    return ESCAPES.sub("", text).replace("\r\n", "\n"), process.wait(60)


def test_tables_fit_a_narrow_terminal_and_say_what_they_leave_out(deep):
    text, code = on_a_terminal(["inspect", "deep.py"], 80, deep)
    assert code == 0
    table = text[text.index("deep (tensorrt") :]
    assert "deep (tensorrt" in table and "at N=3" in table
    assert all(len(line) <= 80 for line in table.splitlines()[:30])
    assert "a terminal wider than these 80 characters shows 'inputs'" in table
    assert re.search(r"FLOAT\(N, 5\)", table)  # the author's dimensions
    assert re.search(r"stem\.exp +UNARY", table) and re.search(r"body\.block_23\.\* +\d layers", table)
    assert "--depth all every layer" in table


def test_modules_fold_to_a_depth_and_rows_sort_by_a_column(deep, command_line):
    trtdsl = command_line(deep)
    folded = trtdsl("inspect", "deep.py", "--depth", "1").stdout
    assert re.search(r"^body\.\* +72 layers", folded, re.MULTILINE)
    every = trtdsl("inspect", "deep.py", "--depth", "all").stdout
    assert len(re.findall(r"^body\.block_\d+\.tanh +ACTIVATION", every, re.MULTILINE)) == 24
    flops = [row.flops for row in rows(td.inspect("deep.py").layers, 1, "flops")]
    assert flops == sorted(flops, reverse=True)
    for arguments in (("--depth", "0"), ("--depth", "x"), ("--sort", "name"), ("--profile", "2")):
        trtdsl("inspect", "deep.py", *arguments, code=2)
    at = json.loads(trtdsl("inspect", "deep.py", "--profile", "1", "--json").stdout)
    assert at["dims"] == {"N": 7}
    assert at["layers"][0]["outputs"][0] == {**at["layers"][0]["outputs"][0], "shape": [7, 5], "sizes": ["N", 5]}
    low = json.loads(trtdsl("inspect", "deep.py", "--precision", "fp16", "--json").stdout)
    assert low["network"] == "deep"


def test_a_table_drops_columns_before_it_cuts_names():
    head, row = ["name", "many", "few"], ["a.long.name.of.a.layer", "123456", "7"]
    wide = as_text(make_table(head, [row], width=80, drop=("few", "many"), cut=("name",)))
    assert wide.splitlines()[-1].split() == row
    narrow = as_text(make_table(head, [row], width=20, drop=("few", "many"), cut=("name",)))
    assert narrow.splitlines()[0].split() == ["name"]
    assert narrow.splitlines()[2] == "…ong.name.of.a.layer"
    assert "wider than these 20 characters shows 'many', 'few', too" in " ".join(narrow.split())


SLOW = """\
import time
import trtdsl as td


@td.network(inputs={"x": td.Input((2,))})
def slow(x):
    try:
        print("here")
        time.sleep(60)
    except KeyboardInterrupt:
        raise RuntimeError("a library made something else of it")
    return x * 2
"""


def test_no_phase_is_shown_after_ctrl_c(capsys):
    PRESSED.set()
    try:
        with Progress(False) as progress:
            progress.step("Timing tactics", 0, 3)
        assert capsys.readouterr().err == ""
    finally:
        PRESSED.clear()
    with Progress(False) as progress:
        progress.step("Timing tactics", 0, 3)
    assert capsys.readouterr().err == "Timing tactics\n"


def test_a_log_has_counts_and_the_time_left(capsys, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with Progress(False) as progress:
        for number in range(5):
            progress.step(f"checking ({number})", number, 5)
            now[0] += 6
        progress.step("checking", 5, 5)
        progress.step("quick", 0, 1)
        progress.step("quick", 1, 1)
    lines = [
        "checking",
        "checking (2): 2 of 5 in 12 s, about 18 s left",
        "checking (4): 4 of 5 in 24 s, about 6 s left",
    ]
    assert capsys.readouterr().err.splitlines() == [*lines, "checking: done in 30 s", "quick"]


def test_long_commands_say_how_far_they_are(deep, command_line):
    trtdsl = command_line(deep)
    Path("other.py").write_text(DEEP.replace("def deep", "def other"))
    said = trtdsl(
        "port", "torch.nn:Linear", "--arg", "in_features=3", "--arg", "out_features=2", "--input", "input=N,3"
    )
    phases = [line for line in said.stderr.splitlines() if "ing " in line and ": done in" not in line]
    assert phases[:2] == ["importing and making the module", "tracing forward"]
    assert phases[2:5] == ["writing what was traced", "defining what is written", "checking against torch"]
    assert (
        "building 2 networks" in trtdsl("build", "deep.py", "other.py", "--no-check", "--dry-run", "-o", "out/").stderr
    )


def test_every_step_of_a_check_is_counted():
    steps = []
    N = td.Dim("N", min=1, opt=2, max=4)

    class Double(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.full((3,), 2.0))  # all equal: tried with others, too

        def forward(self, x):
            return x * self.scale

    spec = td.network(inputs={"x": td.Input((N, 3))}, reference=Double)(lambda x, w: x * w.scale)
    report = td.check(spec, weights=Double().state_dict(), progress=lambda *step: steps.append(step))
    told = [step for step in steps if step[0].startswith("checking against torch (")]
    cases = [case for case in report.cases if case.draw != "other weights"]
    assert len(cases) == len(report.cases) - 1 and [done for _, done, _ in told] == list(range(len(cases)))
    assert {total for _, _, total in told} == {len(cases)} == {steps[-1][1]}
    assert [done for name, done, total in steps if name == "checking against torch" and done == total] == [len(told)]


def test_ctrl_c_is_answered_in_a_pipe_too(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW.replace('print("here")', 'print("here", flush=True)'))
    command = [sys.executable, "-m", "trtdsl", "build", "slow.py"]
    child = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "here\n"
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 130
    assert errors.splitlines()[-2:] == ["cancelling…", "error: cancelled; nothing was written"]


def test_ctrl_c_is_answered_at_once_whatever_a_library_makes_of_it(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    text, code = on_a_terminal(["build", "slow.py"], 80, tmp_path, interrupt="here")
    assert code == 130
    assert "cancelling…" in text and "error: cancelled; nothing was written" in text
    assert "RuntimeError" not in text and "Traceback" not in text
    assert [path.name for path in tmp_path.iterdir() if path.name != "__pycache__"] == ["slow.py"]


SWALLOWED = SLOW.replace('raise RuntimeError("a library made something else of it")', "time.sleep(60)")


def test_ctrl_c_that_a_library_loses_is_raised_again(tmp_path):
    (tmp_path / "slow.py").write_text(SWALLOWED)
    text, code = on_a_terminal(["build", "slow.py"], 80, tmp_path, interrupt="here")
    assert code == 130
    assert "cancelled; nothing was written" in text


def test_a_folder_is_made_for_engines_and_the_build_says_what_is_next(deep, command_line):
    trtdsl = command_line(deep)
    said = trtdsl("build", "deep.py", "--no-check", "-o", "engines/").stdout
    assert Path("engines/deep.engine").is_file()
    assert re.search(r"program at N=3: 1 launch,", said)
    assert (
        "next: `trtdsl inspect --program engines/deep.engine`" in said and "`trtdsl view engines/deep.engine`" in said
    )
    assert "launches" in trtdsl("inspect", "--program", "engines/deep.engine").stdout
    assert "next:" not in trtdsl("build", "deep.py", "--no-check", "-o", "engines/").stdout  # nothing was built
    assert "there is no directory" in trtdsl("build", "deep.py", "-o", "no/where.engine", code=2).stderr
    Path("file").write_text("")
    assert "cannot make the folder" in trtdsl("build", "deep.py", "-o", "file/", code=2).stderr


def test_colours_of_a_library_are_no_part_of_a_message():
    assert td.UsageError("\x1b[31mred\x1b[0m and \x1b[1;4mbold\x1b[m").message == "red and bold"


def test_layers_of_a_scan_stand_where_it_is_written():
    net = td.Network()
    with net.scope("encoder"):
        h = net.input("x", (5, 2, 3)).relu()
    start = net.constant(torch.zeros(2, 3))
    with net.scope("decoder"):
        _, inside = td.scan(lambda s, x: (s + x, s + x), start, h)
    _, outside = td.scan(lambda s, x: (s + x, s + x), start, h)
    net.output(inside, "inside")
    net.output(outside, "outside")
    names = [net.definition.get_layer(index).name for index in range(net.definition.num_layers)]
    scans = [name for name in names if "scan" in name]
    assert scans and all(name.startswith(("decoder.scan", "scan")) for name in scans)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("check", "deep.py", "--sizes", "big"), 2, "sizes are auto, quick, all, or such as H=65,N=3, not 'big'"),
        (("port", "torch.nn:Relu", "--input", "x=3"), 2, "torch.nn has no 'Relu' (nearest: ReLU"),
        (("build", "deep.py:dep"), 2, "deep.py has no network 'dep' (nearest: deep): it has deep"),
        (("build", "deep.py", "--set", "a=1"), 2, "deep.py:deep takes no settings, such as 'a': it is one network"),
        (("weights", "convert", "deep.py", "out.safetensors"), 7, "loads without running code: "),
        (("stubs", "deep.py"), 7, "is truncated or not a safetensors file"),
        (("inspect", "deep.py", "--depth", "-1"), 2, "--depth -1: expected a number from 1 on, or all"),
    ],
)
def test_usage_errors_are_one_sentence(deep, command_line, arguments, code, said):
    message = command_line(deep)(*arguments, code=code).stderr
    assert said in message and message.count("error: ") == 1 and len(message) < 250


def test_the_names_of_files_are_shown_without_what_a_terminal_obeys(command_line, small_folder, tmp_path):
    """In tables and in places, too, which have the author's file."""
    hostile = "\x1b]0;a\x07\x1b[2J\u202e\x9b31m"
    for name in ("small.safetensors", "reference.py"):
        shutil.copy(small_folder / name, tmp_path / name)
    file = f"n{hostile}.py"
    shutil.copy(small_folder / "small.py", tmp_path / file)
    run = command_line(tmp_path)
    (tmp_path / "broken\x1b[2J\n.py").write_text("import trtdsl as td\n1 / 0\n")
    for arguments in (["inspect", file], ["inspect", file, "--program"]):
        said = run(*arguments)
        assert "n?]0;a" in said.stdout and not re.search("[\x07\x1b\x9b\u202e]", said.stdout + said.stderr), arguments
    with pytest.raises(td.DefinitionError) as caught:
        td.load_spec("broken\x1b[2J\n.py")
    assert "broken?[2J?.py:2: ZeroDivisionError" in str(caught.value)
    assert str(make_table(["a"], [["\x1b[2J"]]).columns[0]._cells[0]) == "?[2J"
