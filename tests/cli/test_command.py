"""What every command has: groups of options, --json, -q, -v, and errors that become exit codes."""

import json
import subprocess
import sys
from typing import Annotated

import typer
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


def test_every_command_has_the_common_options_and_a_sentence():
    def leaves(command, name=""):
        if not hasattr(command, "commands"):
            yield name, command
        for key, each in getattr(command, "commands", {}).items():
            yield from leaves(each, f"{name} {key}".strip())

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
