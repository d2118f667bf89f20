"""td.view and `trtdsl view`: what goes in, what comes out, and what is refused."""

import importlib
import json
import re
import shutil
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import onnx
import pytest
import torch
from google.protobuf import json_format
from typer.testing import CliRunner

import trtdsl as td
import trtdsl.functional as F
from trtdsl.cli.app import app
from trtdsl.display.view.layers import Facts
from trtdsl.display.view.page import as_data

ODD = "</script><!-- \"quoted' & \\ 层 \U0001f600"


def run(*arguments):
    return CliRunner().invoke(app, ["view", *map(str, arguments)])


def data_of(html):
    """The model that a page holds, read as a browser does."""
    return json.loads(re.search(r'<script type="application/json" id="model">(.*?)</script>', html, re.DOTALL)[1])


@pytest.fixture
def odd():
    net = td.Network(ODD)
    with net.scope(ODD):
        net.output(F.relu(net.input("输入", ("N", 3))), ODD)
    return net


def test_names_of_any_kind_stay_names(odd):
    html = td.view(odd).html
    assert html.count("</script>") == 2 and "<!--" not in html  # of the data and of the program
    assert data_of(html)["name"] == ODD
    labels = [item["label"] for item in data_of(html)["network"]["items"]]
    assert "输入" in labels and ODD in labels
    assert "\u2028" not in as_data({"name": ODD})


def test_formats_hold_odd_names_too(odd):
    made = td.view(odd)
    model = json_format.Parse(made.text("onnx-json"), onnx.ModelProto())
    assert model.graph.name == ODD and model.graph.input[0].name == "输入"
    assert made.text("dot").count("digraph") == 1
    pytest.importorskip("py_mini_racer")
    texts = "".join(ElementTree.fromstring(made.text("svg")).itertext())
    assert "输入" in texts and "</script>" in texts


def test_one_network_gives_the_same_bytes(small):
    file = small / "small.py"
    assert td.view(file, build=True).html == td.view(file, build=True).html


def test_both_tabs_and_a_check(small):
    model = td.view(small / "small.py", build=True, check=True).model
    assert model["check"]["passed"] and model["check"]["first"] is None
    assert {each["state"] for each in model["check"]["tensors"].values()} == {"agrees", "within"}
    lines = {item["line"] for item in model["network"]["items"] if "line" in item}
    launched = {line for launch in model["program"]["launches"] for line in launch["lines"]}
    assert launched and launched <= lines


def test_tensors_that_differ_are_marked_and_others_agree(small):
    file = small / "small.py"
    text = file.read_text()
    file.write_text(text.replace("F.relu(", "F.tanh("))
    model = td.view(file, check=True).model
    items, check = model["network"]["items"], model["check"]
    assert not check["passed"] and items[check["first"]]["label"] == "tanh"
    assert any(each["state"] == "behind" for each in check["tensors"].values())
    assert any(each["state"] == "agrees" for each in check["tensors"].values())


def test_a_saved_report_gives_the_colours(small, tmp_path):
    file, saved = small / "small.py", tmp_path / "report.json"
    report = td.check(file, sizes="quick")
    saved.write_text(json.dumps(report.to_json()))
    fresh, read = td.view(file, check=report).model, td.view(file, check=saved).model
    assert fresh["check"] == read["check"] and fresh["check"]["passed"]
    assert run(file, "--report", saved, "-o", tmp_path / "v.html").exit_code == 0


def test_a_report_counts_for_the_budget_and_for_the_files_of_a_reference_that_a_lambda_makes(small, monkeypatch):
    monkeypatch.chdir(small)
    text = Path("small.py").read_text().replace("N = ", "from given_by_a_lambda import Model\nN = ", 1)
    Path("small.py").write_text(text.replace('reference="reference.py:Model"', "reference=lambda: Model()"))
    Path("reference.py").rename("given_by_a_lambda.py")
    td.find_precision("small.py", budget=td.SQNR(20), allow="fp16", output="small.precision.json")
    options = ["--precision", "small.precision.json", "--report", "r.json", "-o", "v.html"]
    report = td.check("small.py", precision="small.precision.json", sizes="quick")
    Path("r.json").write_text(json.dumps(report.to_json()))
    assert run("small.py", *options).exit_code == 0
    for file, before, after in (
        ("small.precision.json", "20.0", "30.0"),
        ("given_by_a_lambda.py", "torch.relu(", "torch.tanh("),
    ):
        kept = Path(file).read_text()
        assert before in kept
        Path(file).write_text(kept.replace(before, after))
        done = run("small.py", *options)
        assert (done.exit_code, "of another state of small" in done.stderr) == (2, True), (file, done.stderr)
        Path(file).write_text(kept)


def test_a_report_is_not_of_a_reference_that_was_edited_while_it_was_compared(small, monkeypatch):
    """What the file held when the check ended is not what it compared."""
    monkeypatch.chdir(small)
    text = Path("small.py").read_text().replace("N = ", "from edited_meanwhile import Model\nN = ", 1)
    Path("small.py").write_text(text.replace('reference="reference.py:Model"', "reference=lambda: Model()"))
    Path("edited_meanwhile.py").write_text(Path("reference.py").read_text())
    module = importlib.import_module("trtdsl.checking.check")
    sizes_to_try, edited = module.sizes_to_try, Path("reference.py").read_text().replace("torch.relu(", "torch.tanh(")

    def editing(*given):
        Path("edited_meanwhile.py").write_text(edited)
        return sizes_to_try(*given)

    monkeypatch.setattr(module, "sizes_to_try", editing)
    report = td.check("small.py", sizes="quick")
    Path("r.json").write_text(json.dumps(report.to_json()))
    monkeypatch.delitem(sys.modules, "edited_meanwhile")  # as in another process
    done = run("small.py", "--report", "r.json", "-o", "v.html")
    assert report.passed and not td.check("small.py", sizes="quick").passed
    assert (done.exit_code, "of another state of small" in done.stderr) == (2, True), done.stderr


def test_a_report_counts_for_what_was_checked_alone(small, tmp_path, monkeypatch):
    """Another's "equals its torch reference" on a page would be a false proof."""
    monkeypatch.chdir(small)
    Path("r.json").write_text(json.dumps(td.check("small.py", sizes="quick").to_json()))
    state = {file: Path(file).read_bytes() for file in ("small.py", "reference.py", "small.safetensors")}
    for file, before, after in (
        ("small.py", b"F.relu(", b"F.tanh("),
        ("reference.py", b"torch.relu(", b"torch.tanh("),
        ("small.safetensors", state["small.safetensors"][-4:], b"\0\0\0\0"),
    ):
        Path(file).write_bytes(state[file].replace(before, after))
        done = run("small.py", "--report", "r.json", "-o", "v.html")
        assert (done.exit_code, "of another state of small" in done.stderr) == (2, True), (file, done.stderr)
        Path(file).write_bytes(state[file])
    for option in (["--precision", "bf16"], ["--dim", "N=1:2:3"]):
        assert run("small.py", "--report", "r.json", "-o", "v.html", *option).exit_code == 2
    assert not Path("v.html").exists()
    assert run("small.py", "--report", "r.json", "-o", "v.html").exit_code == 0


def test_the_engine_beside_is_used_where_it_is_of_this_network(small, monkeypatch):
    monkeypatch.chdir(small)
    assert td.view("small.py").model["program"] is None
    td.build("small.py", check=False)
    assert td.view("small.py").model["program"]["launches"]
    Path("small.py").write_text(Path("small.py").read_text().replace("F.relu(", "F.tanh("))
    assert td.view("small.py").model["program"] is None
    stale = td.view("small.py", engine="small.engine")
    assert "another state" in stale.model["program"]["notes"][-1] and "another state" in stale.note


@pytest.mark.parametrize("engine", ["small.engine", None], ids=["given", "beside"])
def test_an_engine_that_is_exchanged_while_it_is_viewed(small, monkeypatch, engine):
    """What is shown and what was compared are two engines."""
    monkeypatch.chdir(small)
    td.build("small.py", check=False)
    shutil.copy("small.engine", "other.engine")
    step = "program_of_engine" if engine is None else "is_up_to_date"
    module = importlib.import_module("trtdsl.display.view.view")  # whose name in its package is the function's
    function = getattr(module, step)

    def after_the_exchange(*given):
        Path("other.engine").replace("small.engine")
        return function(*given)

    monkeypatch.setattr(module, step, after_the_exchange)
    with pytest.raises(td.UsageError, match=r"small\.engine changed while it was in use"):
        td.view("small.py", engine=engine)


def test_another_networks_engine_is_refused(small, monkeypatch):
    monkeypatch.chdir(small)
    td.build("small.py", check=False)
    text = Path("small.py").read_text()
    Path("other.py").write_text(text.replace("def small(", "def other("))
    done = run("other.py", "--engine", "small.engine")
    assert done.exit_code == 5 and not Path("other.html").exists()
    assert (
        done.stderr.splitlines()[-1]
        == "error: small.engine is of the network small, not of other: give that one's engine"
    )
    Path("renamed.py").write_text(text.replace('{"x": td', '{"y": td'))
    with pytest.raises(td.EngineError, match="takes x, and small takes y"):
        td.view("renamed.py", engine="small.engine")
    for file in Path().glob("small.engine.json"):
        file.unlink()
    shapes = {"x": (2, 3, 5, 5)}
    assert "no manifest" in td.view("small.py", engine="small.engine", shapes=shapes).note


def test_an_engine_has_its_network_in_its_precision_and_says_what_differs(small, monkeypatch):
    monkeypatch.chdir(small)
    td.build("small.py", "half.engine", precision="fp16", check=False)
    view = td.view("small.py", engine="half.engine")
    assert view.note == "" and view.model["network"]["precision"] == "float16"
    done = run("small.py", "--engine", "half.engine", "--dim", "N=2:3:4", "--precision", "bf16")
    assert done.exit_code == 0 and "half.engine was built from another state of this network" in done.stderr
    assert "precision float16 instead of bfloat16" in done.stderr
    assert "sizes " in done.stderr and "lines" not in done.stderr and "version" not in done.stderr
    Path("small.py").write_text(Path("small.py").read_text().replace("return", "return ", 1) + "\n# a remark\n")
    note = td.view("small.py", engine="half.engine", dims={"N": (1, 2, 3)}).note
    assert "lines of the network's file" in note and "precision" not in note


def test_integers_of_an_input_are_drawn_and_sizes_are_not():
    net = td.Network("counting")
    x, lengths = net.input("x", ("N", 40)), net.input("lengths", ("N",), "int64")
    net.output((lengths + 3) // 4, "frames")
    with net.current():
        net.output(F.arange(x.shape[0] * 2) * x.sum(), "z")
    model = td.view(net).model["network"]
    names = [item["label"] for item in model["items"]]
    kinds = {names[target]: kind for source, target, _, kind in model["edges"] if names[source] == "lengths"}
    assert set(kinds.values()) == {"value"}
    assert any(layer.is_size for layer in Facts(net).layers)  # what N gives
    computed = [item for item in model["items"] if item["label"] in ("+", "//", "add", "floor_divide")]
    assert len(computed) == 2 and not any(item.get("aside") for item in computed)


def test_a_view_without_a_reference_says_what_works(odd):
    with pytest.raises(td.UsageError, match=r"check=td\.check\(net, reference=…\)"):
        td.view(odd, check=True)


def test_an_engine_is_viewed_without_its_network(small, monkeypatch):
    monkeypatch.chdir(small)
    td.build("small.py", check=False)
    with_manifest = run("small.engine")
    assert with_manifest.exit_code == 0 and Path("small.html").exists()
    model = data_of(Path("small.html").read_text())
    assert model["network"] is None and model["engine"]["inputs"]["x"]["shape"] == ["N", 3, 5, 5]
    Path("small.engine.json").unlink()
    model = td.view("small.engine", shapes={"x": (2, 3, 5, 5)}).model
    assert model["engine"]["manifest"] is False and model["program"]["launches"]


def test_engines_that_cannot_be_read(small, tmp_path):
    engine = tmp_path / "small.engine"
    td.build(small / "small.py", engine, check=False)
    data = engine.read_bytes()
    cut, other, text = (tmp_path / name for name in ("cut.engine", "other.engine", "text.engine"))
    cut.write_bytes(data[: len(data) // 2])
    shutil.copy(engine.with_name("small.engine.json"), tmp_path / "cut.engine.json")
    other.write_bytes(data[:24] + bytes([9, 9, 9, 9]) + data[28:])
    text.write_text("hello")
    for file in (cut, text):
        done = run(file, "-o", tmp_path / "v.html")
        assert done.exit_code == 7, done.stderr
    done = run(other, "-o", tmp_path / "v.html")
    assert done.exit_code == 5 and "9.9.9.9" in done.stderr
    assert not (tmp_path / "v.html").exists()


def test_the_folder_is_made_and_the_suffix_is_the_format(small, tmp_path):
    file = small / "small.py"
    for name in ("deep/er/a.html", "deep/a.dot", "deep/a.json", "deep/a.onnx.json"):
        assert run(file, "-o", tmp_path / name).exit_code == 0
    assert (tmp_path / "deep/a.dot").read_text().startswith('digraph "small"')
    assert json.loads((tmp_path / "deep/a.json").read_text())["kind"] == "view"
    json_format.Parse((tmp_path / "deep/a.onnx.json").read_text(), onnx.ModelProto())
    told = run(file, "-o", tmp_path / "b.html", "--json")
    assert json.loads(told.stdout)["file"] == str(tmp_path / "b.html")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nothing.py"], 2, "no network file"),
        (["nothing.engine"], 2, "nothing.engine"),
        (["small.safetensors"], 2, "weights, not a network"),
        (["reference.py"], 2, "defines no network"),
        (["broken.py"], 3, "broken.py:5"),
        (["small.py", "-o", "."], 2, "is a directory"),
        (["small.py", "-o", "small.py/v.html"], 2, "cannot make the folder"),
        (["small.py", "--format", "pdf"], 2, "--format is one of"),
        (["small.py", "--report", "nothing.json"], 2, "cannot read the report"),
        (["small.py", "--report", "small.safetensors"], 7, "not a report"),
        (["small.py", "--report", "other.json"], 7, "no report"),
        (["small.py", "--device", "abacus"], 2, "no device"),
        (["small.py", "--check", "--report", "other.json"], 2, "give one of them"),
        (["small.py", "--engine", "nothing.engine"], 2, "nothing.engine"),
        (["small.py", "--engine", "small.py"], 7, "is not an engine"),
    ],
)
def test_bad_input_is_one_message(small, monkeypatch, arguments, code, words):
    monkeypatch.chdir(small)
    (small / "broken.py").write_text(
        "import trtdsl as td\n\n@td.network(inputs={'x': td.Input((3,))})\ndef broken(x):\n    return x + missing\n"
    )
    (small / "other.json").write_text('{"schema": 1, "kind": "summary"}')
    done = run(*arguments)
    assert done.exit_code == code, done.stderr
    assert words in done.stderr and "Traceback" not in done.stderr
    assert not list(small.glob("*.html"))


def test_a_page_in_a_notebook_is_a_frame_of_its_own(odd):
    shown = td.view(odd)._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and shown.count("<") == 2
    assert repr(td.view(odd)).startswith("View(")


def test_a_network_of_five_thousand_calls():
    net = td.Network("long")
    x = net.input("x", (2,))
    for _ in range(5000):
        x = F.exp(x)
    net.output(x, "y")
    model = td.view(net).model["network"]
    children = {}
    for item in model["items"]:
        children[item["parent"]] = children.get(item["parent"], 0) + 1
    assert max(children.values()) <= 150 and model["items"][0]["count"] == 5000


NOT_FINITE = """
import torch

import trtdsl as td


class Log(torch.nn.Module):
    def forward(self, x):
        return torch.log(x)


@td.network(inputs={"x": td.Input((3,), sample=(0.5, 1.0))}, reference=Log)
def net(x):
    return {"y": (x - 2).log()}
"""


def test_reports_survive_json(small):
    report = td.check(small / "small.py", sizes="quick")
    again = td.CheckReport.from_json(json.loads(json.dumps(report.to_json())))
    assert repr(again) == repr(report) and again.worst().keys() == report.worst().keys()
    assert torch.equal(torch.tensor(again.seed), torch.tensor(report.seed))


def test_a_report_of_what_is_not_finite_is_read_as_it_is_printed(tmp_path, command_line):
    """JSON has neither NaN nor Inf: the command writes words for them."""
    (tmp_path / "net.py").write_text(NOT_FINITE)
    run = command_line(tmp_path)
    (tmp_path / "report.json").write_text(run("check", "net.py", "--json", code=1).stdout)
    facts = json.loads((tmp_path / "report.json").read_text())
    assert any(
        value in ("nan", "inf") for case in facts["cases"] for each in case["outputs"] for value in each.values()
    )
    report = td.CheckReport.from_json(facts)
    assert not report.passed
    assert "DIFFERS" in repr(report)
    run("view", "net.py", "--report", "report.json", "-o", "page.html")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f.update(on="paper"), "on: invalid enum value 'paper'"),
        (lambda f: f["cases"][0]["outputs"][0].update(ratio="much"), r"cases\[0\].outputs\[0\].ratio: expected float"),
        (lambda f: f["cases"][0].update(dims=[1]), r"cases\[0\].dims: expected object"),
        (lambda f: f.update(findings="none"), "findings: expected array"),
        (lambda f: f.update(schema=True), "has schema True, and this trtdsl reads 3"),
        (lambda f: f["cases"][0].pop("outputs"), r"cases\[0\]: object missing required field outputs"),
    ],
)
def test_a_report_with_a_wrong_entry(small, change, words):
    facts = json.loads(json.dumps(td.check(small / "small.py", sizes="quick").to_json()))
    change(facts)
    with pytest.raises(td.CorruptFileError, match=words):
        td.CheckReport.from_json(facts)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f.update(network="x" * 300), "is of the network 'x{60}', and this one is 'small'"),
        (lambda f: f["cases"][0]["dims"].update(N=10**9), "has a case or a seed that no check of small has"),
        (lambda f: f.update(seed=-1), "has a case or a seed that no check of small has"),
        (lambda f: f.update(cases=[]), "has no case for the dimensions of small"),
    ],
)
def test_a_report_that_is_of_no_check_of_the_network(small, tmp_path, change, words):
    facts = json.loads(json.dumps(td.check(small / "small.py", sizes="quick").to_json()))
    change(facts)
    (tmp_path / "odd.json").write_text(json.dumps(facts))
    with pytest.raises(td.UsageError, match=rf"odd\.json {words}"):
        td.view(small / "small.py", check=tmp_path / "odd.json")
