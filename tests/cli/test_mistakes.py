"""Mistakes, as the command line answers them: one message, the author's line, the right exit code, nothing written."""

import json

import pytest
import torch

import trtdsl as td

HEAD = """\
import sys
import torch
import trtdsl as td
import trtdsl.functional as F

N = td.Dim("N", min=1, opt=2, max=3)
"""


def network(*, inputs="{'x': td.Input((N, 3))}", reference="torch.nn.ReLU", body="return F.relu(x)", mark=""):
    """A network's file; the message names the line that says ``# here``, which is its first with that for ``mark``."""
    return f"""
@td.network({mark}
    inputs={inputs},
    reference={reference},
)
def net(x):
    {body}
"""


HERE = "  # here"


def with_reference(body, mark=""):
    """A network whose reference has these lines."""
    return f"class Reference(torch.nn.Module):\n    {body}\n{network(reference='Reference', mark=mark)}"


def with_input(text):
    return network(inputs=f"{{'x': {text}}},  # here")


@pytest.fixture
def mistake(command_line, tmp_path):
    """Judges a file and a command line: the error's object on stdout, the message on stderr, no further file."""

    def judge(text, code, words, *arguments):
        file = tmp_path / "net.py"
        file.write_text(HEAD + text)
        lines = [number for number, line in enumerate(file.read_text().split("\n"), 1) if "# here" in line]
        done = command_line(tmp_path)(*(arguments or ("build",)), file, "--json", code=code)
        error = json.loads(done.stdout)["error"]
        assert error["exit_code"] == code
        assert words in error["message"]
        assert done.stderr.count("error: ") == 1
        place = error["location"] and (error["location"]["file"], error["location"]["line"])
        assert place == ((str(file), lines[0]) if lines else None)
        assert [path.name for path in tmp_path.iterdir() if path.name != "__pycache__"] == ["net.py"]

    return judge


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (with_reference("def __init__(self):\n        raise ValueError('no')  # here"), 3, "made: ValueError: no"),
        (with_reference("def __init__(self, size):\n        pass", HERE), 2, "and needs size: give a module"),
        ("class Odd: pass\n" + network(reference="Odd", mark=HERE), 2, "makes a Odd, not a torch.nn.Module"),
        (network(reference="lambda: None", mark=HERE), 2, "makes a NoneType, not a torch.nn.Module"),
        (network(reference="5", mark=HERE), 2, "reference is 'FILE.py:CLASS', a class or a torch.nn.Module, not 5"),
        (
            with_reference("def forward(self, x):  # here\n        return None"),
            3,
            "the reference gives a NoneType, not",
        ),
        (
            with_reference("def forward(self, x):  # here\n        return 5"),
            3,
            "the reference gives a int, not a tensor",
        ),
        (
            with_reference("def forward(self, x):\n        return [1] / 2  # here"),
            3,
            "the reference fails at N = 1: Ty",
        ),
    ],
)
def test_of_the_reference(mistake, text, code, words):
    mistake(text, code, words)


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (network(inputs="{'x': (2, 3)}", mark=HERE), 2, "input 'x' is a td.Input(…), not (2, 3)"),
        (network(inputs="[td.Input((2,))]", mark=HERE), 2, "inputs is a dict of td.Input(…) by name, not [Input("),
        (with_input("td.Input((N, 3), sample=lambda shape, generator: 1 / 0)"), 3, "of input 'x' fails: ZeroDivision"),
        (with_input("td.Input((2,), sample=lambda *given: None)"), 2, "the sample of input 'x' is a NoneType, not a t"),
        (network(inputs="{'x': td.Input((2,), 'int32', sample=(3, 3))}"), 2, "no int32 in a sample of (3, 3)"),
        *[
            (with_input(f"td.Input((2,), sample={sample})"), 2, "sample is (low, high), a function of shape and")
            for sample in ("5", "(1,)", "('a', 'b')", "[0, 1]")
        ],
        (with_input("td.Input(2, 3)"), 2, "an input's shape is a tuple, such as ('N', 3), not 2"),
        (with_input("td.Input((2, -3))"), 2, "an input's dimension must not be negative: -3"),
        (with_input("td.Input((2**31,))"), 2, "an input's dimension is at most 2147483647, not 2147483648"),
        (network(inputs="{'x': td.Input((1,) * 9)}", mark=HERE), 3, "input 'x' has 9 dimensions; TensorRT has at most"),
        (with_input("td.Input((1,), 'float46')"), 2, "unknown dtype 'float46'"),
        (
            network(inputs="{3: td.Input((1,))}", mark=HERE),
            2,
            "the name of an input is a text that is not empty, not 3",
        ),
        (network(inputs="{'': td.Input((1,))}", mark=HERE), 2, "the name of an input is a text that is not empty"),
    ],
)
def test_of_the_inputs(mistake, text, code, words):
    mistake(text, code, words)


@pytest.mark.parametrize("name", ["3", "None", "''"])
def test_of_the_outputs(mistake, name):
    mistake(
        network(body=f"return {{{name}: F.relu(x)}}", mark=HERE),
        2,
        f"an output is a text that is not empty, not {name}",
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"x = '\0'\n", "null bytes"),
        (b"# coding: nonsense\n", "SyntaxError: unknown encoding: nonsense"),
        (b"eval('1 +')\n", "SyntaxError: "),
    ],
)
def test_of_files_that_are_no_python(command_line, tmp_path, text, words):
    (tmp_path / "net.py").write_bytes(text)
    error = json.loads(command_line(tmp_path)("build", "net.py", "--json", code=3).stdout)["error"]
    assert words in error["message"]
    assert error["location"] == {"file": str(tmp_path / "net.py"), "line": 1}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--compute-capability", "8.9", "--compute-capability", "8.9"), "compute capability 8.9 is given twice"),
        (("-j", "0"), "-j must be at least 1, not 0"),
        (("-j", "-1"), "-j must be at least 1, not -1"),
    ],
)
def test_of_options(mistake, options, words):
    mistake(network(), 2, words, "build", *options)


@pytest.mark.parametrize("budget", ["nandB", "x=-5dB", "infdB"])
def test_of_a_budget(mistake, budget):
    undefined = network(body="return y")  # judged later
    mistake(undefined, 2, "an SQNR is a number of decibels between 0 and 300", "precision", f"--budget={budget}")


def test_of_budgets_by_output(mistake):
    body = "return {'y': x * 1.5, 'z': x + 1}"
    mistake(network(body=body), 2, "there is no output 'zz' with floating", "precision", "--budget=y=20dB,zz=3")
    mistake(network(body=body), 2, "--budget : expected decibels such as 45dB", "precision", "--budget=y=20dB,")
    mistake(
        network(body=body),
        2,
        "--budget y=3: expected decibels such as 45dB, or OUTPUT=45dB, once for each",
        "precision",
        "--budget=y=20dB,y=3",
    )


def test_of_weights_for_a_network_without_any():
    spec = td.network(inputs={"x": td.Input((2,))}, name="bare")(lambda x: x)
    with pytest.raises(td.UsageError, match=r"test_mistakes.py:\d+: bare takes no weights, and was given some"):
        spec.define(weights={"a": torch.ones(2)})
    assert spec.define().outputs


@pytest.mark.parametrize(
    ("dim", "command", "code", "words"),
    [
        # Without these refusals TensorRT takes 2**32 for 0, and 2**63 fails in its Python bindings and in `check`.
        ("N=1:1:4294967296", "build", 2, "input 'x' would be (4294967296, 3): TensorRT's sizes are at most 2147483647"),
        ("N=1:1:9223372036854775808", "build", 2, "TensorRT's sizes are at most 2147483647"),
        ("N=4294967296", "build", 2, "an input's dimension is at most 2147483647, not 4294967296"),
        ("N=1:1:99999999999999", "check", 2, "input 'x' would be (99999999999999, 3): TensorRT's sizes are at most"),
        ("N=1:2:99999999999999999999", "check", 2, "input 'x' would be (99999999999999999999, 3): TensorRT's sizes"),
    ],
)
def test_sizes_above_tensorrts_limits(mistake, dim, command, code, words):
    more = ("--no-check",) if command == "build" else ()
    mistake(network(), code, words, command, *more, "--dim", dim)


ODD = """\
class Odd(BaseException): pass
class Mute(Exception):
    def __str__(self): raise ValueError
class Number(Exception):
    def __str__(self): return 5

"""


@pytest.mark.parametrize(
    ("leaving", "words"),
    [
        ("exit(0)", "SystemExit: 0"),
        ("sys.exit()", "SystemExit"),
        ("raise SystemExit(5)", "SystemExit: 5"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("raise Odd('on purpose')", "Odd: on purpose"),
        ("raise Mute", "Mute"),
        ("raise Number", "Number"),
    ],
)
@pytest.mark.parametrize(
    "text",
    ["{}  # here\n", network(body="{}  # here"), with_reference("def forward(self, x):\n        {}  # here")],
    ids=["file", "network", "reference"],
)
def test_of_leaving_the_program(mistake, text, leaving, words):
    """Exit code 0 would say that an engine was built, 8 that it is no fault of the file's."""
    mistake(ODD + text.replace("{}", leaving), 3, words)


def test_of_nothing_but_ctrl_c(mistake):
    mistake("raise KeyboardInterrupt", 130, "cancelled")


@pytest.mark.parametrize(
    ("leaving", "words"),
    [("exit(0)", "SystemExit: 0"), ("raise GeneratorExit", "GeneratorExit"), ("raise Mute", "Mute")],
)
def test_of_leaving_the_program_while_a_module_is_ported(command_line, tmp_path, leaving, words):
    text = f"import torch\n\n{ODD}\nclass Part(torch.nn.Module):\n    def forward(self, x): {leaving}\n"
    (tmp_path / "part.py").write_text(text)
    done = command_line(tmp_path)("port", "part.py:Part", "--input", "x=2", "-o", "net.py", code=3)
    assert f"part.py:{text.count(chr(10))}: forward fails: {words}\n" in done.stderr
    assert not (tmp_path / "net.py").exists()
