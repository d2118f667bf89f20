"""No command destroys a file that it reads, or a file of another kind than the one that it writes.

Every output of every command is tried with every file that the command reads, in all spellings, and with files of all
other kinds. Which parameters are outputs is written down here for each: a new one without an entry fails.
"""

import ast
import hashlib
import inspect
import json
import os
import re
import shutil
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
import typer.main
from support.kinds import KINDS, RUNTIME_CACHE, TIMING_CACHE

import trtdsl as td
from trtdsl.cli.app import app
from trtdsl.core.files import writing

pytestmark = pytest.mark.long

PACKAGE = Path(td.__file__).parent

# By command: its arguments, with OUT in the place of the output, and the files that it reads.
OUTPUTS = {
    ("build", "output"): (["build", "net.py", "--no-check", "-o", "OUT"], ("net.py", "w.safetensors", "reference.py")),
    ("build", "tuning"): (
        ["build", "net.py", "--no-check", "--tune", "--tuning", "OUT"], ("net.py", "w.safetensors", "reference.py"),
    ),
    ("build", "timing_cache"): None,  # of TensorRT, which is not there: test_core below
    ("precision", "output"): (
        ["precision", "net.py", "--seconds", "5", "-o", "OUT"], ("net.py", "w.safetensors", "reference.py"),
    ),
    ("check", "save"): (["check", "net.py", "--save", "OUT"], ("net.py", "w.safetensors", "reference.py")),
    ("view", "output"): (["view", "net.py", "-o", "OUT"], ("net.py", "w.safetensors", "reference.py")),
    ("port", "output"): (
        ["port", "reference.py:Model", "--input", "x=N,3,5,5", "--force", "--no-check", "-o", "OUT"],
        ("reference.py",),
    ),
    ("port", "weights"): (
        ["port", "reference.py:Model", "--input", "x=N,3,5,5", "--force", "--no-check", "--weights", "OUT"],
        ("reference.py",),
    ),
    ("run", "output"): None,  # a folder; needs a GPU: tests/device/test_run_files.py
    ("export triton", "repository"): None,  # a folder: below
    ("export cpp", "folder"): None,  # a folder, which must be new without --force: below
    ("stubs", "output"): None,  # NAME.pyi alone is taken: below
    ("weights convert", "output"): (["weights", "convert", "a.pt", "OUT"], ("a.pt",)),
    ("weights derive", "output"): (
        ["weights", "derive", "net.py", "OUT", "--weights", "w.safetensors"],
        ("net.py", "w.safetensors", "reference.py"),
    ),
}  # fmt: skip
INPUTS = {  # parameters that name files which are read
    *("network", "weights", "engine", "module", "target", "before", "after", "source", "against", "feed", "report"),
    *("input", "tuning", "set_", "data", "tokenizer"),
}
READ = {("check", "against"), ("weights convert", "source")}
TRIED = [key for key, given in OUTPUTS.items() if given]
FORCED = {"port"}  # writes over any other file with --force, and over none without


def kind_of(parameter):
    """As typer has it, or as click does."""
    return getattr(parameter, "type_descriptor", None) or parameter.type


def is_path(command, parameter):
    """Whether a command declares a Path, which its line takes as text."""
    declared = inspect.signature(command.callback).parameters.get(parameter.name)
    return declared is not None and Path in get_args(declared.annotation)


def parameters():
    """Every parameter of every command that may name a file."""

    def walk(command, path):
        for name, inner in getattr(command, "commands", {}).items():
            yield from walk(inner, (*path, name))
        for each in command.params:
            if is_path(command, each) or any(w in (each.metavar or "") for w in ("FILE", "FOLDER")):
                yield " ".join(path), each.name

    return sorted(set(walk(typer.main.get_command(app), ())))


def test_every_parameter_that_names_a_file_is_known():
    unknown = [(c, name) for c, name in parameters() if (c, name) not in OUTPUTS and name not in INPUTS]
    assert not unknown, "is it an output? Then it belongs to OUTPUTS, otherwise to INPUTS"
    assert {key for key in OUTPUTS if key[1] not in INPUTS} <= set(parameters()) | {("build", "tuning")}


def every_text():
    """Every command with each argument that is a text or a file's name, and the others as they must be there."""

    def walk(command, path):
        for name, inner in getattr(command, "commands", {}).items():
            yield from walk(inner, (*path, name))
        kinds = re.compile(r"'str'|list\[str\]|Path'|ParamType\((STRING|Path)", re.IGNORECASE)
        texts = [each for each in command.params if kinds.search(repr(kind_of(each)))]
        for given in texts if path and not hasattr(command, "commands") else ():
            line = list(path)
            for each in command.params:
                text = "a\nerror: b" if each is given else "x"
                if each.param_type_name == "argument" and (each.required or each is given):
                    line.append(text)
                elif each is given or each.required:
                    line += [each.opts[0], text]
            yield pytest.param(given.name, line, id=f"{' '.join(path)}-{given.name}")

    return [*walk(typer.main.get_command(app), ())]


@pytest.mark.parametrize(("name", "line"), every_text())
def test_no_argument_writes_a_line_of_its_own(tmp_path, command_line, name, line):
    done = command_line(tmp_path)(*line, code=2)
    refused = "has characters that end a line" in done.stderr
    assert refused is (name != "prompt")
    assert len(done.stderr.splitlines()) == 1


def test_no_folder_writes_a_line_of_its_own(small, command_line):
    folder = small / "a\nerror: b"
    folder.mkdir()
    done = command_line(folder)("doctor", code=2)
    assert len(done.stderr.splitlines()) == 1
    assert "working directory" in done.stderr
    (small / "link").symlink_to(folder)
    (folder / "net.py").write_text((small / "small.py").read_text())
    (folder / "small.safetensors").symlink_to(small / "small.safetensors")
    (folder / "reference.py").symlink_to(small / "reference.py")
    run = command_line(small)
    for line in (
        "check link/net.py --sizes quick",
        "build link/net.py -o link/x.engine",
        "precision link/net.py --seconds 1",
    ):
        done = run(*line.split())
        assert not [each for each in (done.stdout + done.stderr).splitlines() if each.startswith("error: b")], line


def test_one_file_alone_writes():
    """Nothing else in the package opens a file for writing, renames, removes or makes one."""
    calls = {
        "write_text",
        "write_bytes",
        "save_file",
        "unlink",
        "rename",
        "replace_file",
        "copyfile",
        "copytree",
        "rmtree",
    }
    found = []
    for path in PACKAGE.rglob("*.py"):
        own = path.parent == PACKAGE / "core" / "files"  # a snapshot is written into memory
        if own or path.parent == PACKAGE / "programs" / "evaluation":
            continue  # an evaluation writes its own cache alone, whose files are named by hashes
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            owner = getattr(getattr(node.func, "value", None), "id", "")
            modes = [a.value for a in [*node.args, *(k.value for k in node.keywords)] if isinstance(a, ast.Constant)]
            writes = name == "open" and any(isinstance(m, str) and set(m) & set("wax+") and len(m) < 4 for m in modes)
            writes |= owner == "os" and name in ("replace", "rename", "remove", "truncate", "link", "symlink")
            writes |= "O_CREAT" in ast.unparse(node)
            if name in calls or writes or (name == "mkdir"):
                found.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert not found, "core/files/writing.py writes, what check_writable has judged"


def test_one_file_alone_makes_json():
    """It has no number for NaN and infinities, which ``json.dumps`` writes all the same."""
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("json.dumps", "json.dump")
    ]
    texts = {"core/files/writing.py", "core/files/reading.py", "engine/triton.py", "porting/writing/write.py"}
    assert {each.partition(":")[0] for each in found} == texts, "as_json of core/files/writing.py makes it"


@pytest.fixture(scope="module")
def folder(small_folder, tmp_path_factory):
    """A network with its weights, and a file of every kind."""
    folder = tmp_path_factory.mktemp("outputs")
    shutil.copytree(small_folder, folder, dirs_exist_ok=True)
    td.build(td.load_spec(str(folder / "small.py")), folder / "small.engine", check=False)
    np.save(folder / "x.npy", np.ones((2, 3, 5, 5), np.float32))
    text = (folder / "small.py").read_text().replace("small.safetensors", "w.safetensors")
    (folder / "net.py").write_text(text)
    shutil.copy(folder / "small.safetensors", folder / "w.safetensors")
    torch.save({"a": torch.ones(2)}, folder / "a.pt")
    kinds = folder / "kinds"
    kinds.mkdir()
    spec = td.load_spec(str(folder / "small.py"))
    td.check(spec, save=kinds / "check.safetensors", sizes="quick")
    td.derive_weights(spec, None, output=kinds / "derived.safetensors")
    view = td.view(spec)
    for name in ("view.html", "view.dot", "view.json", "view.onnx.json"):
        view.save(kinds / name)
    td.convert_weights(folder / "a.pt", kinds / "weights.safetensors")
    td.stubs(folder / "small.safetensors", kinds / "stub.pyi")
    for name in ("small.engine", "small.engine.json", "x.npy", "small.py", "a.pt"):
        shutil.copy(folder / name, kinds / name)
    for name, text in (
        ("notes.txt", "my notes"),
        ("data.json", '{"mine": 1}'),
        ("main.c", "int x;"),
        ("image", "\x89PNG"),
    ):
        (kinds / name).write_text(text)
    (kinds / "picture.svg").write_text("<svg></svg>")
    return folder


def state(folder):
    return {p: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.rglob("*") if p.is_file()}


def spellings(folder, name):
    """A file by other names."""
    (folder / "sub").mkdir(exist_ok=True)
    links = folder / f"soft-{name}", folder / f"hard-{name}", folder / f"far-{name}"
    if not links[0].exists():
        links[0].symlink_to(name)
        os.link(folder / name, links[1])
        links[2].symlink_to(f"sub/../soft-{name}")
    return [name, folder / name, f"./sub/../{name}", *links]


@pytest.mark.parametrize("key", TRIED, ids="-".join)
def test_an_input_is_never_written_over(folder, command_line, key):
    arguments, reads = OUTPUTS[key]
    run = command_line(folder)
    for name in reads:
        for spelling in spellings(folder, name):
            before = state(folder)
            done = run(*[spelling if word == "OUT" else word for word in arguments], code=2)
            assert "cannot write" in done.stderr
            assert "which is read here" in done.stderr
            assert state(folder) == before, (name, spelling)


@pytest.mark.parametrize("key", [key for key in TRIED if key[0] not in FORCED], ids="-".join)
def test_a_file_of_another_kind_is_not_replaced(folder, command_line, key):
    own = {
        ("build", "output"): {"small.engine"}, ("check", "save"): {"check.safetensors"},
        ("view", "output"): {"view.html", "view.json", "view.onnx.json", "view.dot", "picture.svg"},
        ("inspect", "svg"): {"picture.svg"}, ("weights convert", "output"): {"weights.safetensors"},
        ("weights derive", "output"): {"derived.safetensors"},
    }.get(key, set())  # fmt: skip
    run = command_line(folder)
    for path in sorted((folder / "kinds").iterdir()):
        if path.name not in own:
            before = state(folder)
            done = run(*[path if word == "OUT" else word for word in OUTPUTS[key][0]], code=2)
            assert "and would be replaced by" in done.stderr, path
            assert state(folder) == before


# By what an output is called where the command names it itself, or as its kind is usually called: the command.
NAMED = {
    "x.engine": "build net.py --no-check -o x.engine",
    "y.engine.json": "build net.py --no-check -o y.engine",
    "small.tuning.json": "build net.py --no-check --tune-seconds 1 -o z.engine",
    "small.precision.json": "precision net.py --seconds 1 --budget 10dB",
    "x.safetensors": "weights convert a.pt x.safetensors",
    "d.safetensors": "weights derive net.py d.safetensors",
    "c.safetensors": "check net.py --save c.safetensors",
    "small.html": "view net.py",
    "x.svg": "view net.py -o x.svg",
    "x.dot": "view net.py -o x.dot",
    "x.json": "view net.py -o x.json",
    "x.onnx.json": "view net.py -o x.onnx.json",
    "x.pyi": "stubs w.safetensors -o x.pyi",
    "repo/small/config.pbtxt": "export triton small.engine repo --allow-rtx",
    "repo/small/1/model.plan": "export triton small.engine repo --allow-rtx",
}
FOREIGN = {
    "text": b"Dear diary,\n",
    "image": b"\x89PNG\r\n\x1a\n" + bytes(50),
    "JSON": b'{"name": "a package"}',
    "zeros": bytes(64),
    "page": b'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>mine</title>\n',
    "drawing": b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"></svg>',
    "graph": b'digraph "mine" {\n  a -> b;\n}\n',
    "stub": b'"""The weights of a.pt."""\n\nclass Weights: ...\n',
    "configuration": b'name: "small"\nplatform: "tensorrt_plan"\nmax_batch_size: 4\n',
}


@pytest.mark.parametrize("name", NAMED)
def test_a_name_makes_no_kind(folder, command_line, tmp_path, name):
    """What is there is known by its content, whatever it is called."""
    shutil.copytree(folder, tmp_path / "copy", ignore=shutil.ignore_patterns("kinds"))
    run, path = command_line(tmp_path / "copy"), tmp_path / "copy" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    for data in FOREIGN.values():
        path.write_bytes(data)
        before = state(tmp_path)
        assert "or remove it" in run(*NAMED[name].split(), code=2).stderr, data
        assert state(tmp_path) == before, data


@pytest.mark.parametrize("name", [name for name in NAMED if name not in ("small.tuning.json", "small.precision.json")])
def test_what_a_command_wrote_it_replaces(folder, command_line, tmp_path, name):
    """Whole, and cut off where its beginning still says what it is."""
    shutil.copytree(folder, tmp_path / "copy", ignore=shutil.ignore_patterns("kinds"))
    run, path = command_line(tmp_path / "copy"), tmp_path / "copy" / name
    run(*NAMED[name].split())
    written = path.read_bytes()
    lengths = [len(written)] if name.endswith("pbtxt") else [len(written), len(written) * 9 // 10]
    for length in lengths:
        path.write_bytes(written[:length])
        run(*NAMED[name].split(), *["--force"][: name.startswith(("x.engine", "y.engine"))])
        assert name.endswith(".json") or path.read_bytes() == written


def test_a_configuration_that_was_edited_is_not_replaced(folder, command_line, tmp_path):
    run = command_line(tmp_path)
    for name in ("small.engine", "small.engine.json"):
        shutil.copy(folder / name, tmp_path / name)
    export = ["export", "triton", "small.engine", "repo", "--allow-rtx"]
    run(*export)
    config = tmp_path / "repo" / "small" / "config.pbtxt"
    config.write_text(config.read_text() + "model_warmup { }\n")
    before = state(tmp_path)
    assert "was edited" in run(*export, code=2).stderr
    assert state(tmp_path) == before


@pytest.mark.parametrize("name", ["../evil", "deep/evil", "TMP/evil", "..", "a\\b"])
def test_a_name_from_outside_leads_nowhere(folder, command_line, tmp_path, name):
    """A manifest's, and that of a network: neither chooses the folder."""
    name, place = name.replace("TMP", str(tmp_path)), tmp_path / "here"
    place.mkdir()
    facts = json.loads((folder / "small.engine.json").read_text())
    shutil.copy(folder / "small.engine", place / "mine.engine")
    (place / "mine.engine.json").write_text(json.dumps({**facts, "network": name}))
    (place / "odd.py").write_text(
        f"import trtdsl as td\n\n@td.network(inputs={{'x': td.Input((2,))}}, name={name!r})\n"
        "def odd(x):\n    return x * 2\n"
    )
    shutil.copy(place / "odd.py", place / "other.py")
    (tmp_path / "evil.html").write_text("precious")
    before = state(tmp_path)
    run = command_line(place)
    for command in ("build odd.py", "build odd.py -o out/", "build odd.py other.py -o out", "view odd.py"):
        done = run(*command.split(), code=2)
        assert "would be called after it" in done.stderr + done.stdout, command
        assert state(tmp_path) == before, command
    run("view", "mine.engine")
    assert {path.relative_to(tmp_path) for path in state(tmp_path).keys() - before.keys()} == {Path("here/mine.html")}
    assert (tmp_path / "evil.html").read_text() == "precious"


def test_a_file_of_the_same_kind_is_replaced(folder, command_line, tmp_path):
    shutil.copytree(folder, tmp_path / "copy", symlinks=True)
    copy = tmp_path / "copy"
    run = command_line(copy)
    run("check", "net.py", "--sizes", "quick", "--save", copy / "kinds" / "check.safetensors")
    run("view", "net.py", "-o", copy / "kinds" / "view.html")
    run("weights", "convert", "a.pt", copy / "kinds" / "weights.safetensors")
    run("weights", "derive", "net.py", copy / "kinds" / "derived.safetensors")
    run("build", "net.py", "--no-check", "-o", copy / "kinds" / "small.engine")
    run("stubs", "w.safetensors", "-o", copy / "kinds" / "stub.pyi")
    (copy / "empty.html").write_bytes(b"")
    run("view", "net.py", "-o", "empty.html")


def test_nothing_is_done_before_an_output_is_judged(folder, command_line, monkeypatch):
    """Not even the first step of long work."""

    def fail(*arguments, **options):
        pytest.fail("work began")

    run = command_line(folder)
    for name in ("trtdsl.checking.check.sizes_to_try", "trtdsl.engine.refit.layer_values", "torch.load"):
        monkeypatch.setattr(name, fail)
    for command in ("check net.py --save", "weights derive net.py", "weights convert a.pt"):
        run(*command.split(), "kinds/notes.txt", code=2)


def test_folders_of_files(folder, command_line, tmp_path):
    """An engine where the exported one goes is an input, and so is its manifest."""
    run = command_line(tmp_path)
    for name in ("small.engine", "small.engine.json"):
        shutil.copy(folder / name, tmp_path / name)
    model = tmp_path / "repo" / "small" / "1"
    model.mkdir(parents=True)
    os.link(tmp_path / "small.engine", model / "model.plan")
    done = run("export", "triton", "small.engine", "repo", "--allow-rtx", code=2)
    assert "it is the file of the engine, which is read here" in done.stderr
    (model / "model.plan").unlink()
    (model / "model.plan").write_text("mine")
    assert "is not an engine" in run("export", "triton", "small.engine", "repo", "--allow-rtx", code=2).stderr
    (model / "model.plan").write_bytes((folder / "small.engine").read_bytes()[:99])
    run("export", "triton", "small.engine", "repo", "--allow-rtx")  # a damaged plan, by its beginning
    (model / "model.plan").write_bytes((folder / "w.safetensors").read_bytes())
    assert "is not an engine" in run("export", "triton", "small.engine", "repo", "--allow-rtx", code=2).stderr
    done = run("export", "cpp", "small.engine", ".", "--force", code=2)
    assert "it is the file of the engine, which is read here" in done.stderr
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "README.md").write_text("my own")
    assert "README.md already" in run("export", "cpp", "small.engine", "mine", code=2).stderr
    assert (tmp_path / "mine" / "README.md").read_text() == "my own"
    os.link(folder / "w.safetensors", tmp_path / "w.pyi")
    assert "it is the file of the weights" in run("stubs", folder / "w.safetensors", "-o", "w.pyi", code=2).stderr


def test_two_outputs_of_one_name(folder, command_line, tmp_path):
    run = command_line(folder)
    arguments = ["port", "reference.py:Model", "--input", "x=N,3,5,5", "--no-check"]
    done = run(*arguments, "-o", tmp_path / "a.py", "--weights", tmp_path / "a.py", code=2)
    assert "another file that is written here would have that name" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_manifest_is_an_output_too(folder, tmp_path):
    (tmp_path / "settings.json").write_text('{"mine": 1}')
    spec = td.load_spec(str(folder / "net.py"))
    with pytest.raises(td.UsageError, match=r"settings.json: the file that is there is not a manifest"):
        td.build(spec, tmp_path / "settings", check=False)
    assert json.loads((tmp_path / "settings.json").read_text()) == {"mine": 1}


@pytest.mark.parametrize("name", ["net.py", "w.safetensors", "kinds/notes.txt", "a.pt"])
def test_caches_replace_no_other_file(folder, name):
    path = folder / name
    for kind in (TIMING_CACHE, RUNTIME_CACHE):
        with pytest.raises(td.UsageError, match="would be replaced"):
            writing.check_kind(path, kind)


def test_samples_and_settings_are_inputs(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    (tmp_path / "n.py").write_text(
        "from pathlib import Path\nimport trtdsl as td\n\n"
        "def n(path: Path = Path('data.html')) -> td.NetworkSpec:\n"
        "    @td.network(inputs={'x': td.Input((2, 3), sample=Path(__file__).parent / 'x.npy')})\n"
        "    def n(x):\n        return x * 2\n    return n\n"
    )
    (tmp_path / "data.html").write_text("<html>")
    spec = td.load_spec(str(tmp_path / "n.py"), {"path": str(tmp_path / "data.html")})
    for name in ("x.npy", "data.html", "n.py"):
        with pytest.raises(td.UsageError, match="which is read here"):
            td.build(spec, tmp_path / name)
        with pytest.raises(td.UsageError, match="which is read here"):
            td.view(spec).save(tmp_path / name)


@pytest.mark.parametrize("name", ["", ".", "a\0b", "\ud800", "x" * 300, "nowhere/x", "/"])
def test_names_that_no_file_can_have(folder, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    for kind in KINDS:
        with pytest.raises(td.UsageError, match="cannot write"):
            writing.check_writable(name, kind, ())


@pytest.mark.parametrize("key", TRIED, ids=" ".join)
def test_a_name_that_is_empty_or_ends_as_a_folder_s_is_no_file(folder, command_line, key):
    """Path takes the one for the working directory, and drops the end of the other."""
    line, before = OUTPUTS[key][0], sorted(os.listdir(folder))
    run = command_line(folder)
    for name, said in (("", "is empty, and names nothing"), ("new.json/", "new.json/ ends as a folder's name")):
        if key != ("build", "output") or not name:  # FOLDER/ is one of its own
            assert said in run(*[name if each == "OUT" else each for each in line], code=2).stderr
    assert sorted(os.listdir(folder)) == before


def test_no_empty_name_is_that_of_the_working_directory(folder, command_line):
    run = command_line(folder)
    for line in (
        *(
            "check @",
            "check small.py --weights @",
            "check small.py --against @",
            "check small.py --feed @",
            "inspect @",
        ),
        *("view @", "stubs @", "run @", "bench @", "precision small.py --data @", "compare small.engine @"),
        *("export cpp small.engine @", "export triton small.engine @ --allow-rtx"),
    ):
        done = run(*["" if each == "@" else each for each in line.split()], code=2)
        assert " is empty, and names nothing" in done.stderr, line


def test_a_folder_that_was_made_for_nothing_does_not_stay(folder, command_line):
    run, before = command_line(folder), sorted(os.listdir(folder))
    for line, code in (
        ("build small.py -o new/inner/ --dim N=9:1:1", 2),
        ("build small.py -o new/inner/ --no-check --dry-run", 0),
        ("build small.py none.py -o new/inner/ --no-check --dry-run", 2),
        ("view small.py -o new/inner/v.html --device none", 2),
        ("view small.py -o new/inner/v.html --report x.npy", 7),
    ):
        run(*line.split(), code=code)
        assert sorted(os.listdir(folder)) == before, line
    (folder / "new").mkdir()
    run("build", "small.py", "-o", "new/", "--dim", "N=9:1:1", code=2)
    assert not os.listdir(folder / "new")  # which stays: it was there
    (folder / "new").rmdir()


def test_what_stands_where_a_folder_is_needed_is_named(folder, command_line):
    for name in ("x.npy/", "x.npy/inner/"):
        said = command_line(folder)("build", "small.py", "-o", name, code=2).stderr
        assert f"cannot make the folder {name}: x.npy is there, and is no folder" in said


@pytest.mark.parametrize("linked", ["file", "folder", "missing folder"])
@pytest.mark.parametrize(
    ("command", "inner"),
    [
        ("export cpp small.engine out --force", "trtdsl/src/json.cpp"),
        ("export cpp small.engine out --force", "main.cpp"),
        ("export triton small.engine out --allow-rtx", "small/1/model.plan"),
        ("export triton small.engine out --allow-rtx", "small/config.pbtxt"),
    ],
)
def test_no_link_leads_out_of_a_folder_of_files(folder, command_line, tmp_path, command, inner, linked):
    run, elsewhere = command_line(tmp_path), tmp_path / "elsewhere"
    for name in ("small.engine", "small.engine.json"):
        shutil.copy(folder / name, tmp_path / name)
    elsewhere.mkdir()
    path = tmp_path / "out" / inner
    link = path if linked == "file" or path.parent.name == "out" else path.parent
    link.parent.mkdir(parents=True)
    link.symlink_to(
        elsewhere / "inner" if linked == "missing folder" else elsewhere / inner if link == path else elsewhere
    )
    done = run(*command.split(), code=2)
    assert "a link leads out of out" in done.stderr and str(elsewhere) in done.stderr
    assert not list(elsewhere.iterdir()) and not state(tmp_path / "out")
    link.unlink()
    link.symlink_to(link.with_name("other").name)  # a link within the folder, and one that leads to it, stay links
    (tmp_path / "out").rename(tmp_path / "real")
    (tmp_path / "out").symlink_to("real")
    if link == path:
        run(*command.split())
        assert path.is_symlink() and path.with_name("other").is_file()
