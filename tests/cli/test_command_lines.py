"""Command lines that nobody would write on purpose: one message, a code that means something, no traceback."""

import pytest
from cli.command_lines import Runner, command_lines, is_fine, make_folder

pytestmark = pytest.mark.long

EVERY_RUN, HEAVY = 40, 1000


@pytest.fixture(scope="module")
def runner(tmp_path_factory, small_folder):
    folder = tmp_path_factory.mktemp("fuzz") / "template"
    make_folder(folder, small_folder)
    with Runner(folder) as made:
        yield made


def run_all(runner, count, seed):
    outcomes = [runner.run(line) for line in command_lines(count, seed)]
    wrong = [outcome for outcome in outcomes if not is_fine(outcome)]
    assert not wrong, wrong
    assert {0, 2} <= {outcome.code for outcome in outcomes}  # some of them make sense, and some do not


def test_random_command_lines(runner):
    run_all(runner, EVERY_RUN, 0)


@pytest.mark.heavy
def test_a_thousand_random_command_lines(runner):
    run_all(runner, HEAVY, 1)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["explain", "einsum", "ij->ji", "\u00b2,3"], 2, "identifier"),
        (["check", "a" * 300 + ".py"], 2, "no file has a name that long"),
        (["build", "a" * 300], 2, "no file has a name that long"),
        (["build", "small.py", "--output", "a" * 300], 2, "File name too long"),
        (["check", "small.py", "--weights", "a" * 300], 2, "File name too long"),
        (["run", "a" * 300], 2, "File name too long"),
        (["inspect", "small.engine", "--program", "--profile", "7"], 2, "no profile 7"),
        (["inspect", "small.py", "--program", "--profile", "7"], 2, "no profile 7"),
        (["run", "other.engine"], 7, "backend.version: must be a version"),
        (["run", "small.engine", "--input", "x=deep.npy"], 7, "is not an array that can be fed"),
        (["run", "small.engine", "--input", "x=pickle.npy"], 7, "is not an array that can be fed"),
        (["run", "small.engine", "--input", "x=pipe"], 2, "cannot be read"),
        (["check", "small.py", "--weights", "odd.safetensors"], 3, "conv.weight"),
        (["check", "exits.py"], 3, "SystemExit"),
        (["check", "small.py", "--seed", "9" * 40], 2, "expected int <= 9223372036854775807"),
        (["check", "caf\udce9.py"], 2, "PYTHONUTF8=1"),
        (["compare", "", "small.engine"], 2, "before is empty, and names nothing"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else None,
)
def test_errors_of_other_libraries_get_an_exit_code_and_a_sentence(runner, arguments, code, words):
    outcome = runner.run(arguments)
    assert outcome.code == code, outcome
    assert words in outcome.stderr
    assert outcome.stderr.count("error: ") == 1
    assert "Traceback" not in outcome.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["inspect", "small.py"], 0),
        (["inspect", "small.py", "--json"], 0),
        (["check", "nothing.py", "--json"], 2),
        (["explain", "einsum", "ij,jk->ik", "2,3", "3,4"], 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_reader_that_is_gone(runner, arguments, code):
    outcome = runner.run(arguments, closed=True)
    assert outcome.code == code, outcome
    assert "Traceback" not in outcome.stderr
    assert "BrokenPipe" not in outcome.stderr
