"""`trtdsl build --tune` as a user meets it: what it prints, its JSON, and later commands with and without it."""

import json
import os
import signal
import subprocess
import sys

import pytest
from support.naive import FILE_END

TEXT = """
import torch
import trtdsl as td
import trtdsl.functional as F

w = torch.randn(32, 32, generator=torch.Generator().manual_seed(0)) / 6

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.silu(x @ w.T) @ w.T

@td.network(inputs={"x": td.Input((4, 16, 32))}, reference=Model)
def gated(x):
    y = F.silu(F.linear(x, w))
    return F.einsum("nti,oi->nto", y, w)
"""


@pytest.fixture(autouse=True)
def silu_by_sigmoid(monkeypatch):
    """Where F takes "exp"."""
    monkeypatch.setattr("trtdsl.functional.pointwise.activation.silu_of", lambda x: "sigmoid")


@pytest.fixture
def trtdsl(command_line, tmp_path):
    (tmp_path / "gated.py").write_text(TEXT)
    return command_line(tmp_path)


def test_tune_prints_its_gain_and_later_commands_use_the_tuning(trtdsl, tmp_path):
    done = trtdsl("build", "gated.py", "--tune-seconds", "100")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("gated: 1 call can be lowered in several ways; ")
    assert "gated.py:14: silu: sigmoid → exp: 3 → 2 launches, " in lines[1]
    assert "in all: 3 → 2 launches" in done.stdout and "written to gated.tuning.json" in done.stdout
    assert "lowerings of 1 of 1 call by gated.tuning.json" in done.stdout
    assert "checked against torch" in done.stdout
    assert "is up to date" in trtdsl("build", "gated.py").stdout
    assert "is up to date" not in trtdsl("build", "gated.py", "--no-tuning").stdout
    launches = {
        flags: json.loads(trtdsl("inspect", "gated.py", "--program", "--json", *flags).stdout)["totals"]["launches"]
        for flags in ((), ("--no-tuning",), ("--tuning", "gated.tuning.json"))
    }
    assert launches == {(): 2, ("--no-tuning",): 3, ("--tuning", "gated.tuning.json"): 2}
    assert (
        "equal" in trtdsl("check", "gated.py").stdout and "equal" in trtdsl("check", "gated.py", "--no-tuning").stdout
    )


def test_json_has_the_tuning_and_the_build(trtdsl):
    value = json.loads(trtdsl("build", "gated.py", "--tune", "--json").stdout)
    tuning = value["tuning"]
    assert (tuning["schema"], tuning["kind"]) == (1, "tuning") and tuning["file"].endswith("gated.tuning.json")
    assert tuning["after"]["bytes"] < tuning["before"]["bytes"]
    (change,) = tuning["changes"]
    assert (change["function"], change["after"], change["calls"]) == ("silu", "exp", 1)
    assert value["manifest"]["tuning"]["changed"][0]["lowering"] == "exp"
    assert json.loads(trtdsl("build", "gated.py", "--json").stdout)["tuning"] is None


def test_another_file_can_hold_it(trtdsl, tmp_path):
    trtdsl("build", "gated.py", "--tune", "--tuning", "mine.json")
    assert (tmp_path / "mine.json").exists() and not (tmp_path / "gated.tuning.json").exists()
    assert "is up to date" in trtdsl("build", "gated.py", "--tuning", "mine.json").stdout
    assert "is up to date" not in trtdsl("build", "gated.py").stdout


def test_a_damaged_tuning_is_a_warning_in_one_line(trtdsl, tmp_path):
    (tmp_path / "gated.tuning.json").write_text('{"schema": 1, "kind": "tun')
    done = trtdsl("build", "gated.py", "--no-check")
    (warning,) = [line for line in done.stderr.splitlines() if line.startswith("warning:")]
    assert "gated.tuning.json is not used: it is not JSON: it is damaged" in warning
    assert "; remove it, and `trtdsl build --tune` tunes anew" in warning
    (tmp_path / "gated.tuning.json").write_text('{"schema":99,"kind":"tuning"}')
    refused = trtdsl("build", "gated.py", "--no-check", "--tune-seconds", "2", code=2).stderr
    assert "gated.tuning.json: the file that is there is a tuning that cannot be read (it has schema 99" in refused
    assert (tmp_path / "gated.tuning.json").read_text() == '{"schema":99,"kind":"tuning"}'


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--tune", "--no-tuning"), "--tune writes a tuning, and --no-tuning is against it"),
        (("--tune", "--dry-run"), "--tune writes a tuning, and --dry-run is against it"),
        (("--no-tuning", "--tuning", "x.json"), "--no-tuning leaves out every tuning"),
        (("--tuning", "x.json"), "there is no tuning x.json"),
        (("--tune-seconds", "0"), "more than 0 seconds"),
        (("--tune-seconds", "nan"), "more than 0 seconds"),
        (("gated.py:gated", "--tuning", "x.json"), "names the file of one network"),
    ],
)
def test_mistakes(trtdsl, arguments, message):
    assert message in trtdsl("build", "gated.py", *arguments, code=2).stderr


SLOW = TEXT.replace("@td.network", "COUNT = []\n\n@td.network").replace(
    '    return F.einsum("nti,oi->nto", y, w)',
    """\
    COUNT.append(1)
    if len(COUNT) == 5:
        import time

        print("the fifth time", flush=True)
        time.sleep(60)
    return F.silu(F.linear(y, w))""",
)


def cancelled_build(folder, awaited, *arguments):
    """Exit code, output and errors of a tuned build that is cancelled once a line has what is awaited."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "trtdsl", "build", "gated.py", *arguments],
        cwd=folder, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a test runner's workers may ignore it
    )  # fmt: skip
    seen = []
    for line in process.stdout:
        seen.append(line)
        if awaited in line:
            break
    os.kill(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    return process.returncode, "".join(seen) + output


def test_ctrl_c_keeps_what_was_found(tmp_path):
    (tmp_path / "gated.py").write_text(SLOW + FILE_END)
    # Both calls as exp were kept, and the first alone is being defined again.
    code, output = cancelled_build(tmp_path, "the fifth time", "--tune")
    assert code == 130, output
    assert "silu ×2: sigmoid → exp" in output
    assert "what was found until then is in gated.tuning.json, and no engine was built" in output
    assert sorted(path.name for path in tmp_path.glob("gated.*")) == ["gated.py", "gated.tuning.json"]


def test_ctrl_c_after_the_tuning_says_that_it_is_there(tmp_path):
    text = TEXT.replace("        return torch", "        import time\n\n        time.sleep(60)\n        return torch")
    (tmp_path / "gated.py").write_text(text + FILE_END)
    code, output = cancelled_build(tmp_path, "checking against torch", "--tune")
    assert code == 130, output
    assert "error: cancelled; the tuning is in gated.tuning.json, and no engine was built\n" in output
    assert sorted(path.name for path in tmp_path.glob("gated.*")) == ["gated.py", "gated.tuning.json"]
