"""What every command has: groups of options, --json, -q, -v, and errors that become exit codes."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
import torch
import typer
from safetensors.torch import save_file
from support.checkpoints import save_checkpoint, save_tokenizer
from typer.testing import CliRunner

import trtdsl as td
from trtdsl.cli.app import app as commands
from trtdsl.cli.command import Output, command


def sizes(low: Annotated[int, typer.Option("--low")] = 1, high: Annotated[int, typer.Option("--high")] = 8):
    if high < low:
        raise td.UsageError(f"--high {high} is less than --low {low}")
    return range(low, high + 1)


def runner(function):
    app = typer.Typer()
    app.command()(command(function))
    return lambda *arguments: CliRunner().invoke(app, [*arguments])


def count(
    out: Output,
    name: Annotated[str, typer.Argument()],
    between: Annotated[range, sizes],
    fail: Annotated[bool, typer.Option("--fail")] = False,
) -> None:
    """Counts."""
    if fail:
        raise ValueError("something unforeseen")
    out.result({"name": name, "count": len(between), "bound": float("inf")}, lambda: print(f"{name}: {len(between)}"))


def test_a_group_of_options_is_what_its_function_makes_of_them():
    run = runner(count)
    assert run("sizes").output == "sizes: 8\n"
    assert run("sizes", "--low", "3", "--high", "5").output == "sizes: 3\n"


def test_json_text_and_quiet_output():
    run = runner(count)
    assert json.loads(run("sizes", "--json").stdout) == {"name": "sizes", "count": 8, "bound": "inf"}
    assert run("sizes", "-q").output == ""
    assert run("sizes", "--json", "-q").stdout.startswith("{")


def test_errors_of_a_group_and_of_the_command_become_exit_codes():
    run = runner(count)
    refused = run("sizes", "--low", "9")
    assert refused.exit_code == 2
    assert "--high 8 is less than --low 9" in refused.stderr
    told = run("sizes", "--low", "9", "--json")
    assert json.loads(told.stdout)["error"]["exit_code"] == 2
    unforeseen = run("sizes", "--fail")
    assert unforeseen.exit_code == 8
    assert "ValueError: something unforeseen" in unforeseen.stderr


def leaves(command, name=""):
    """Each command of a group with its whole name."""
    if not hasattr(command, "commands"):
        yield name, command
    for key, each in getattr(command, "commands", {}).items():
        yield from leaves(each, f"{name} {key}".strip())


def test_every_command_has_the_common_options_and_a_sentence():
    found = dict(leaves(typer.main.get_command(commands)))
    known = {"build", "check", "inspect", "compare", "run", "bench", "port", "doctor"}
    assert known | {"weights convert", "weights derive", "explain einsum", "export triton"} <= set(found)
    for name, each in found.items():
        options = {option for parameter in each.params for option in parameter.opts}
        assert {"--json", "-q", "--quiet", "-v", "--verbose"} <= options, name
        assert each.help, name


def test_help_imports_none_of_the_rooms_that_do_the_work():
    shown = "try:\n    app(['--help'])\nexcept SystemExit:\n    print(*sys.modules)"
    code = f"import sys\nfrom trtdsl.cli.app import app\n{shown}"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "trtdsl.cli.commands.inspect" in loaded
    rooms = ("layers", "functional", "interpreter", "engine", "checking", "building", "porting")
    options = {"trtdsl.engine", "trtdsl.engine.compiling", "trtdsl.engine.compiling.config"}
    assert not {name for name in loaded if name.startswith(tuple(f"trtdsl.{room}" for room in rooms))} - options


def test_commands_stand_in_the_order_of_an_authors_work_and_options_in_panels(command_line, tmp_path):
    trtdsl = command_line(tmp_path)
    shown = trtdsl("--help").stdout
    order = [
        shown.index(f"│ {name} ") for name in ("port", "check", "build", "inspect", "view", "compare", "run", "bench")
    ]
    assert order == sorted(order)
    panels = [
        line.split("─ ")[1].split(" ─")[0] for line in trtdsl("build", "--help").stdout.splitlines() if "╭─" in line
    ]
    assert panels == ["Arguments", "Options", "Network", "Check", "Build", "TensorRT"]


MODULE = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(16, 8)

    def forward(self, x):
        return torch.relu(self.fc(x))
"""
EXAMPLES = [
    (name, line.strip())
    for name, each in leaves(typer.main.get_command(commands))
    for line in re.findall(r"^ *trtdsl .*", each.help.partition("Examples:")[2], re.MULTILINE)
]
NEEDS = {"run": 6, "bench": 6, "export triton": 5}
"""Exit codes of those that take a GPU, or an engine of standard TensorRT."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with the files that the examples name."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "models.py").write_text(MODULE)
    torch.save({"fc.weight": torch.ones(8, 16), "fc.bias": torch.zeros(8)}, folder / "model.pt")
    save_file({"fc.weight": torch.ones(8, 16), "fc.bias": torch.zeros(8)}, folder / "new.safetensors")
    np.save(folder / "x.npy", np.ones((2, 16), np.float32))
    shutil.copytree(Path(__file__).parents[2] / "networks", folder / "networks")
    (folder / "Llama-3.2-1B").mkdir()
    save_checkpoint("llama", folder / "Llama-3.2-1B")
    save_tokenizer(folder / "Llama-3.2-1B")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for words in (shlex.split(EXAMPLES[0][1])[1:], ["build", "net.py", "--no-check"]):
            done = CliRunner().invoke(commands, words)
            assert done.exit_code == 0, done.output
    (folder / "other.py").write_text((folder / "net.py").read_text().replace("def net(", "def other("))
    return folder


def test_every_command_has_an_example():
    named = {name for name, _ in EXAMPLES}
    assert named == {name for name, _ in leaves(typer.main.get_command(commands))}
    assert EXAMPLES[0][0] == "port"


@pytest.mark.parametrize(("name", "line"), EXAMPLES, ids=[line for _, line in EXAMPLES])
def test_the_examples_of_a_commands_help_run_as_they_stand(prepared, command_line, name, line):
    words = shlex.split(line)[1:]
    assert " ".join(words).startswith(name)
    command_line(prepared)(*words, *(["--force"] if name == "port" and "-o" in words else []), code=NEEDS.get(name, 0))


WITHOUT_TORCH = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name="torch")

sys.meta_path.insert(0, Hidden())
from trtdsl.cli.main import main
main()
"""


@pytest.mark.parametrize("line", ["build net.py", "check net.py", "inspect net.engine --program", "port torch.nn:ReLU"])
def test_a_command_says_how_to_install_torch(tmp_path, line):
    (tmp_path / "net.py").write_text("import torch\n")
    (tmp_path / "net.engine").write_bytes(bytes(64))
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *line.split()], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode in (3, 6), done.stderr
    assert "torch is not installed, which defining, checking and building networks needs: pip install" in done.stderr


@pytest.mark.parametrize("arguments", [[], ["build"], ["weights"], ["weights", "convert"], ["export", "cpp"]])
def test_help_names_no_value_of_a_flag(arguments):
    """Typer calls a flag's value <bool>, and an option that takes none is then given one."""
    said = CliRunner().invoke(commands, [*arguments, "--help"])
    assert said.exit_code == 0 and "--help" in said.stdout
    assert "<bool>" not in said.stdout
