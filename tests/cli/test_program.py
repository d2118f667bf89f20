"""`trtdsl inspect --program` and `trtdsl compare` from a shell."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import trtdsl as td
from trtdsl.cli.app import app


@pytest.fixture
def trtdsl(command_line, small):
    return command_line(small)


def test_inspect_program(trtdsl):
    done = trtdsl("inspect", "small.py", "--program", "--device", "h100")
    assert done.stdout.startswith("small (tensorrt-rtx ")
    assert " at N=2\n" in done.stdout
    assert "floor on h100: " in done.stdout
    assert "an estimate" in done.stdout
    for by in ("module", "kind", "launch"):
        assert trtdsl("inspect", "small.py", "--program", "--by", by, "--sort", "floor").exit_code == 0
    assert trtdsl("inspect", "small.py", "--program", "-q").stdout == ""


def test_rows_of_no_launches_are_explained(trtdsl, small):
    (small / "fused.py").write_text(
        "import trtdsl as td\nimport trtdsl.functional as F\n\n"
        "@td.network(inputs={'x': td.Input((4, 64))})\ndef net(x):\n    y = x * 2\n    return {'y': F.exp(y)}\n"
    )
    note = "0 launches: a line whose work is in launches that count at another"
    assert note in trtdsl("inspect", "fused.py", "--program").stdout
    assert "0 launches" not in trtdsl("inspect", "fused.py", "--program", "--by", "kind").stdout


def test_inspect_program_json_has_everything(trtdsl):
    facts = json.loads(trtdsl("inspect", "small.py", "--program", "--json", "--dim", "N=3").stdout)
    assert (facts["schema"], facts["kind"], facts["dims"]) == (1, "program", {"N": 3})
    assert facts["totals"]["launches"] == sum(launch["times"] for launch in facts["launches"])
    assert facts["inputs"] == {"x": [3, 3, 5, 5]}
    assert len(facts["floor"]["launches"]) == len(facts["launches"])
    assert "an estimate" in facts["floor"]["note"]
    assert isinstance(facts["hazards"], list)


def test_an_engine_says_the_same_as_its_network(trtdsl, small):
    trtdsl("build", "small.py", "--no-check")
    engine = json.loads(trtdsl("inspect", "small.engine", "--program", "--json", "--dim", "N=4").stdout)
    network = json.loads(trtdsl("inspect", "small.py", "--program", "--json", "--dim", "N=4").stdout)
    assert engine["totals"] == network["totals"]
    (row,) = [line for line in (small / "small.py").read_text().splitlines() if "F.relu(" in line]
    assert row.strip().removeprefix("return ")[:40] in trtdsl("inspect", "small.engine", "--program").stdout
    text = (small / "small.py").read_text()
    (small / "small.py").write_text("# a line more\n" + text)  # the lines of the manifest are not these
    assert " code " not in trtdsl("inspect", "small.engine", "--program").stdout
    (small / "small.py").write_text(text)
    (small / "small.engine.json").unlink()
    alone = json.loads(trtdsl("inspect", "small.engine", "--program", "--json", "--shape", "x=4,3,5,5").stdout)
    assert alone["totals"] == network["totals"] | {"memory": alone["totals"]["memory"]}
    done = trtdsl("inspect", "small.engine", "--program", "--shape", "z=4,3,5,5", code=2)
    assert "small.engine has no input or output 'z': it has x, " in done.stderr
    for source in ("small.engine", "small.py"):
        assert "--shape belongs to --program" in trtdsl("inspect", source, "--shape", "x=4,3,5,5", code=2).stderr
    done = trtdsl("inspect", "small.engine", "--program", code=2)
    assert "the shapes of the inputs x are needed" in done.stderr
    done = trtdsl("inspect", "small.engine", "--program", "--dim", "N=4", code=2)
    assert "has no manifest to name its dimensions" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--by", "layer"), 2, "--by must be one of line, module, kind, launch, not 'layer'"),
        (("--sort", "name"), 2, "--sort must be one of"),
        (("--device", "rtx-4080"), 2, "no device 'rtx-4080' in the table: it has h200"),
        (("--dim", "M=3"), 2, "small has no dimension 'M': it has N"),
        (("--dim", "N=9"), 2, "N = 9 is not within 1 to 4, for which small is built"),
        (("--shape", "x=a,b"), 2, "--shape x=a,b: expected INPUT=SIZES"),
        (("--shape", "X=2,3,8,8"), 2, "small has no input or output 'X': it has x, scores (nearest: x)"),
    ],
)
def test_bad_input_is_one_sentence(trtdsl, arguments, code, message):
    assert message in trtdsl("inspect", "small.py", "--program", *arguments, code=code).stderr


DAMAGES = {
    "empty": (lambda data: b"", 7, "is empty: it was not written to its end"),
    "cut off": (lambda data: data[: len(data) // 2], 7, "ends after"),
    "without its end": (lambda data: data[:-100], 7, "ends after"),
    "another file": (lambda data: b"hello" * 100, 7, "is not an engine: it begins with 68 65 6c 6c"),
    "of TensorRT": (lambda data: b"ftrt" + data[4:], 5, "it is of TensorRT"),
    "of another version": (lambda data: data.replace(b"\1\7\1t", b"\1\x09\1t", 1), 5, "it is of TensorRT-RTX 1.9"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_engine_that_cannot_be_read_is_one_sentence(trtdsl, small, damage):
    change, code, message = DAMAGES[damage]
    trtdsl("build", "small.py", "--no-check")
    engine = small / "small.engine"
    (small / "other.engine").write_bytes(change(engine.read_bytes()))
    done = trtdsl("inspect", "other.engine", "--program", code=code)
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_damaged_program_of_an_engine_alone_names_its_file(trtdsl, small):
    trtdsl("build", "small.py", "--no-check")
    data = bytearray((small / "small.engine").read_bytes())
    place = data.index(b"descriptors {")
    data[place + 13 : place + 20] = b" ts ts "
    (small / "other.engine").write_bytes(data)
    said = trtdsl("inspect", "other.engine", "--program", "--shape", "x=2,3,5,5", code=7).stderr
    assert "where a statement begins\n  in other.engine\n" in said
    with pytest.raises(td.CorruptFileError, match=r"\n  in other\.engine$"):
        td.evaluate_engine("other.engine", {}, trust=True)


def test_feeds_of_files_that_do_not_fit_name_their_files(trtdsl, small):
    trtdsl("build", "small.py", "--no-check")
    shape = (2, 3, 5, 5)
    (small / "feeds").mkdir()
    np.save(small / "feeds" / "x.npy", np.ones(shape, np.float16))
    np.save(small / "none.npy", np.ones((0, *shape[1:]), np.float32))
    np.save(small / "flat.npy", np.ones(3, np.float32))
    for file in ("feeds/x.npy", "none.npy", "flat.npy"):
        for command in (["check", "small.py", "--feed"], ["run", "small.engine", "--input"]):
            assert f"\n  x is {file}\n" in trtdsl(*command, f"x={file}", code=2).stderr
    assert (
        "\n  x is none.npy" in trtdsl("compare", "small.py", "small.py", "--run", "--feed", "x=none.npy", code=2).stderr
    )
    said = trtdsl("check", "small.py", "--feed", "feeds", code=2).stderr
    assert "'x' is float16, not float32. Expected x: float32 (N, 3, 5, 5)\n  x is feeds/x.npy\n" in said


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ((b"(2, 3)", b"(2,-3)"), "its header is damaged: a size is negative"),
        ((b"'shape'", b"'shap '"), "its header is damaged"),
        ((b"{'descr'", b"[[[[[[[["), "its header is damaged"),
        ((b"<f4", b"<q4"), "its header is damaged"),
        ((b"NUMPY\1", b"NUMPY\4"), "it is of a version of the format that is not known"),
        ((b"NUMPY\1\0", b"NUMPY\1\1"), "it is of a version of the format that is not known"),
        ((b"'<f4'", b"'\\d'"), "its header is damaged"),  # Python warns of such a text
        ((b"(2, 3)", b"(%s)" % (b"1," * 65)), "it has more than 64 dimensions"),
    ],
)
def test_a_damaged_header_of_an_array_is_one_sentence(trtdsl, small, change, reason):
    np.save(small / "x.npy", np.ones((2, 3), np.float32))
    data = (small / "x.npy").read_bytes().replace(*change)
    begin = data.index(b"\n") + 1
    if begin != 128:  # the header became longer or shorter
        data = data[:8] + (begin - 10).to_bytes(2, "little") + data[10:]
    (small / "x.npy").write_bytes(data)
    said = trtdsl("check", "small.py", "--feed", "x=x.npy", code=7).stderr
    assert said == f"error: input x: x.npy is not an array that can be fed: {reason}\n"


LONG = "a" * 5_000
OPERANDS = ("ij,jk->ik", "2,3", "3,4")


@pytest.mark.parametrize(
    "arguments",
    [
        *[("check", "small.py", option, LONG) for option in ("--sizes", "--dim", "--set", "--on", "--feed")],
        *[("check", "small.py", "--sizes", text) for text in (f"{LONG}=1", f"N={'1' * 5_000}")],
        ("check", "small.py:" + LONG), ("inspect", "small.py", "--program", "--shape", LONG),
        ("inspect", "small.py", "--sort", LONG), ("explain", "einsum", LONG, "2,3"),
        ("explain", "einsum", *OPERANDS, "--order", LONG), ("explain", "einsum", *OPERANDS, "--order", f"0={LONG}"),
        ("view", "small.py", "-o", LONG), ("compare", LONG, LONG),
    ],
)  # fmt: skip
def test_a_long_argument_is_not_echoed_whole(small, monkeypatch, arguments):
    monkeypatch.chdir(small)
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code in (2, 3), done.output
    said = done.output.replace(" ", "")
    assert len(done.output) < 1_000 and ("aaaa" in said or "1111" in said)


def test_compare_run(trtdsl):
    done = trtdsl("compare", "small.py", "small.py", "--run", "--dim", "N=3")
    assert "both give the same, within 0.0001 of an output's greatest value" in done.stdout
    facts = json.loads(trtdsl("compare", "small.py", "small.py", "--run", "--json").stdout)
    assert (facts["schema"], facts["kind"], facts["equal"], facts["parting"]) == (1, "run comparison", True, None)
    assert "belong to --run" in trtdsl("compare", "small.py", "small.py", "--trust", code=2).stderr
    assert (
        "--run compares results"
        in trtdsl("compare", "small.py", "small.py", "--run", "--fail-above", "1", code=2).stderr
    )
    assert (
        "one size of a dimension" in trtdsl("compare", "small.py", "small.py", "--run", "--dim", "N=1:2", code=2).stderr
    )


def test_compare(trtdsl):
    done = trtdsl("compare", "small.py", "small.py", "--fail-above", "1.0")
    assert "B / A" in done.stdout and "A: small.py: small (tensorrt-rtx " in done.stdout
    assert "engine bytes" in done.stdout and "build seconds" in done.stdout
    facts = json.loads(trtdsl("compare", "small.py", "small.py", "--json", "--dim", "N=1").stdout)
    assert (facts["kind"], facts["worse"], facts["lines"]) == ("comparison", [], [])
    rows = {row["name"]: row["ratio"] for row in facts["rows"]}
    assert rows["bytes"] == rows["launches"] == 1.0
    done = trtdsl("compare", "small.py", "small.py", "--fail-above", "0.5", code=1)
    assert "bytes: 1.000 of A's, above 0.5" in done.stdout
    trtdsl("build", "small.py", "--no-check")
    done = trtdsl("compare", "small.engine", "small.engine")  # when they were built is not in them
    assert "B: small.engine: small (tensorrt-rtx " in done.stdout and "build seconds" not in done.stdout
    trtdsl("compare", "small.py", "small.py", "--fail-above", "-1", code=2)
    trtdsl("compare", "small.py", "none.py", code=2)


def test_build_says_what_its_program_costs(trtdsl):
    done = trtdsl("build", "small.py", "--no-check", "--device", "orin")
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("  program at N=2: ")]
    assert " launches, " in line
    assert "only rearranged; at least " in line
    assert line.endswith("ms on orin (estimate)")
    assert line in trtdsl("build", "small.py", "--no-check").stdout  # up to date: the manifest says it
    trtdsl("build", "small.py", "--device", "none", code=2)
