"""What a build checks, compiles and hashes is one state of its files; a file that changes meanwhile is an error."""

import hashlib
import importlib
import json
import mmap
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import trtdsl as td
import trtdsl.functional as F
from trtdsl.core.files import snapshot
from trtdsl.definition.weights.source import Weights
from trtdsl.interpreter import feeds

STEPS = [
    "trtdsl.building.build.content_hash",
    "trtdsl.building.build.content_hash",
    "trtdsl.building.build.refuse_obstacles",
    "trtdsl.building.build.check",
    "trtdsl.building.build.check_entry",
    "trtdsl.building.build.compile_engine",
    "trtdsl.building.build.make_manifest",
    "trtdsl.building.build.sealed",
]


OFTEN = {"check", "compile_engine", "sealed"}  # the others with the heavy tests
STEPS = [step if step.rpartition(".")[2] in OFTEN else pytest.param(step, marks=pytest.mark.heavy) for step in STEPS]


def replaced(path):
    """Another file takes its place, as most programs write."""
    other = {name: tensor + 1 for name, tensor in load_file(path).items()}
    save_file(other, f"{path}.new")
    os.replace(f"{path}.new", path)


def written(path):
    """It is written to in its place."""
    with open(path, "r+b") as file:
        file.seek(-8, os.SEEK_END)
        file.write(b"\0\0\0\x40" * 2)


def hidden(path):
    """As written, and the times are set back."""
    before = os.stat(path)
    written(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def shared(path):
    """As written, through memory that was written to before: the system notes no time then."""
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[-1:] = memory[-1:]
        yield
        before = os.stat(path)
        memory[-8:] = b"\0\0\0\x40" * 2
        assert os.stat(path).st_mtime_ns == before.st_mtime_ns
        yield


def truncated(path):
    os.truncate(path, os.path.getsize(path) // 2)


def gone(path):
    os.unlink(path)


def at(monkeypatch, step, act):
    """Acts once, before a step of a build."""
    place, _, name = step.rpartition(".")
    module = importlib.import_module(place)
    function = getattr(module, name)
    done = []

    def acting(*arguments, **options):
        if not done:
            done.append(act())
        return function(*arguments, **options)

    monkeypatch.setattr(module, name, acting)
    return done


@pytest.mark.parametrize("copied", [True, False], ids=["copied", "mapped"])
@pytest.mark.parametrize("act", [replaced, written, hidden, gone])
@pytest.mark.parametrize("step", STEPS)
def test_weights_that_change_at_any_step(small, tmp_path, monkeypatch, step, act, copied):
    monkeypatch.setattr(snapshot, "PRIVATE", snapshot.PRIVATE if copied else 0)
    path = small / "small.safetensors"
    done = at(monkeypatch, step, lambda: act(path))
    with pytest.raises((td.WeightsError, td.MismatchError)) as caught:  # a map that is written to differs, too
        td.build(str(small / "small.py"), tmp_path / "a.engine")
    assert done
    if copied or act not in (written, hidden):
        assert f"the weights file {path} changed while it was in use" in str(caught.value)
    assert not (tmp_path / "a.engine").exists()
    assert not (tmp_path / "a.engine.json").exists()


@pytest.mark.parametrize("copied", [True, False], ids=["copied", "mapped"])
def test_weights_that_change_in_memory_that_is_shared(small, tmp_path, monkeypatch, copied):
    monkeypatch.setattr(snapshot, "PRIVATE", snapshot.PRIVATE if copied else 0)
    act = shared(small / "small.safetensors")
    next(act)
    at(monkeypatch, "trtdsl.building.build.compile_engine", lambda: next(act))
    with pytest.raises(td.WeightsError, match="changed while it was in use: it was written to"):
        td.build(str(small / "small.py"), tmp_path / "a.engine")
    assert not list(tmp_path.glob("*.engine*"))


@pytest.mark.parametrize("step", STEPS)
def test_weights_that_are_truncated_at_any_step(small, tmp_path, monkeypatch, step):
    path = small / "small.safetensors"
    at(monkeypatch, step, lambda: truncated(path))
    with pytest.raises(td.WeightsError, match="changed while it was in use: it was truncated. Start again"):
        td.build(str(small / "small.py"), tmp_path / "a.engine")
    assert not list(tmp_path.glob("*.engine*"))


@pytest.mark.parametrize("step", STEPS)
def test_a_reference_that_changes_at_any_step(small, tmp_path, monkeypatch, step):
    reference = small / "reference.py"
    at(monkeypatch, step, lambda: reference.write_text(reference.read_text() + "\n# another\n"))
    with pytest.raises(td.UsageError, match=r"reference.py changed while it was in use: what was defined and checked"):
        td.build(str(small / "small.py"), tmp_path / "a.engine")
    assert not list(tmp_path.glob("*.engine*"))


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("name", ["small.py", "small_padding.py"])
@pytest.mark.parametrize("step", STEPS)
def test_a_network_that_changes_at_any_step(small, tmp_path, monkeypatch, step, name, check):
    """Its own file, or one that it imports."""
    monkeypatch.delitem(sys.modules, "small_padding", raising=False)
    (small / "small_padding.py").write_text("PADDING = 1\n")
    network = small / "small.py"
    network.write_text(f"from small_padding import PADDING\n{network.read_text().replace('=1)', '=PADDING)')}")
    done = at(monkeypatch, step, lambda: (small / name).write_text((small / name).read_text() + "\n# another\n"))
    if not check and step.rpartition(".")[2] in ("check", "check_entry"):
        pytest.skip("without a check there is no such step")
    with pytest.raises(td.UsageError, match=f"{name} changed while it was in use: what was defined and checked"):
        td.build(str(network), tmp_path / "a.engine", check=check)
    assert done
    assert not list(tmp_path.glob("*.engine*"))


def test_the_manifest_has_the_hash_of_the_file_that_was_loaded(small, tmp_path):
    network = small / "small.py"
    before, spec = hashlib.sha256(network.read_bytes()).hexdigest(), td.load_spec(str(network))
    network.write_text(network.read_text() + "\n# another\n")
    assert td.build(spec, tmp_path / "a.engine").manifest["source"] == {"file": "small.py", "sha256": before}


def test_a_reference_that_changed_since_it_was_imported_proves_nothing_later(small, tmp_path):
    spec = td.load_spec(str(small / "small.py"))
    spec.define()
    reference = small / "reference.py"
    reference.write_text(reference.read_text().replace("torch.relu(", "torch.tanh("))
    assert td.build(spec, tmp_path / "a.engine").manifest["check"]["proof_sha256"] is None
    with pytest.raises(td.MismatchError):
        td.build(str(small / "small.py"), tmp_path / "a.engine")


def test_a_file_that_is_touched_or_copied_anew_is_the_same(small, tmp_path, monkeypatch):
    path = small / "small.safetensors"

    def again():
        shutil.copy(path, tmp_path / "copy")
        os.replace(tmp_path / "copy", path)
        os.utime(path, ns=(1, 1))

    done = at(monkeypatch, "trtdsl.building.build.compile_engine", again)
    built = td.build(str(small / "small.py"), tmp_path / "a.engine")
    assert done
    assert built.manifest["weights"]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_large_file_that_gets_another_name_is_the_same(small, tmp_path, monkeypatch):
    """The time of its last change is another one then."""
    monkeypatch.setattr(snapshot, "PRIVATE", 0)
    path = small / "small.safetensors"
    done = at(monkeypatch, "trtdsl.building.build.compile_engine", lambda: os.link(path, tmp_path / "link"))
    assert td.build(str(small / "small.py"), tmp_path / "a.engine").built
    assert done


def test_the_manifest_has_the_hash_of_what_was_compiled(small, tmp_path):
    path = small / "small.safetensors"
    opened = Weights(path)
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    values = {name: opened.get(name).clone() for name in opened.shapes}
    replaced(path)
    again = Weights(opened)
    assert again.sha256() == before != hashlib.sha256(path.read_bytes()).hexdigest()
    assert all(torch.equal(again.get(name), value) for name, value in values.items())
    with pytest.raises(td.WeightsError, match="another file has taken its place"):
        td.build(str(small / "small.py"), tmp_path / "a.engine", weights=again)


def test_weights_of_weights_share_no_memory_that_is_written_to(small):
    first = Weights(small / "small.safetensors")
    second = Weights(first)
    before = first.get("fc.bias").clone()
    second.get("fc.bias").zero_()
    assert torch.equal(first.get("fc.bias"), before)
    assert torch.equal(Weights(first).get("fc.bias"), before)


READ = """
import sys, os
import trtdsl as td
from trtdsl.core.files import snapshot
snapshot.PRIVATE = int(sys.argv[2])
weights = td.Weights(sys.argv[1])
os.truncate(sys.argv[1], 4000)
try:
    print(sum(float(weights.get(name).double().sum()) for name in weights.shapes) == 0)
except td.WeightsError as error:
    print(error)
"""


@pytest.mark.parametrize("limit", [1 << 20, 0])
def test_a_truncated_file_is_an_error_and_not_the_end_of_the_process(tmp_path, limit):
    """A copy is read on; of a map, what is not there any more is refused before it is read."""
    path = tmp_path / "w.safetensors"
    save_file({"a": torch.zeros(3000), "b": torch.zeros(50_000)}, path)
    done = subprocess.run([sys.executable, "-c", READ, path, str(limit)], capture_output=True, text=True, check=True)
    assert "it was truncated" in done.stdout if limit == 0 else done.stdout == "True\n"


LIMITED = """
import resource, signal, sys
import trtdsl as td
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
weights = td.Weights(sys.argv[1])
weights.check_unchanged()
print(float(weights.get("a").sum()), len(weights.sha256()))
"""


@pytest.mark.skipif(os.name == "nt", reason="there are no such limits")
def test_a_limit_on_what_is_written_is_none_on_what_is_read(tmp_path):
    """A copy in memory counts as a file that is written."""
    save_file({"a": torch.ones(3000)}, tmp_path / "w.safetensors")
    command = [sys.executable, "-c", LIMITED, tmp_path / "w.safetensors"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "3000.0 64\n"


def test_a_pipe_is_no_file_of_weights(tmp_path):
    os.mkfifo(tmp_path / "w.safetensors")
    with pytest.raises(td.WeightsError, match="cannot be read: it is not a regular file"):
        Weights(tmp_path / "w.safetensors")


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 300, ""])
def test_a_name_that_no_file_can_have(name):
    with pytest.raises(td.WeightsError, match="cannot be read"):
        Weights(name)


def test_a_check_alone_is_of_one_state_too(small, monkeypatch):
    path = small / "small.safetensors"
    at(monkeypatch, "trtdsl.checking.check.sizes_to_try", lambda: replaced(path))
    with pytest.raises(td.WeightsError, match="another file has taken its place"):
        td.check(str(small / "small.py"))


def test_an_engine_that_is_swapped_at_any_step_is_built_again(small, tmp_path, monkeypatch):
    """The engine counts as it is when it is compared; what replaces it later is found by the next build and a load."""
    engine = tmp_path / "a.engine"
    td.build(str(small / "small.py"), engine)
    whole = engine.read_bytes()
    for step in ("content_hash", "read_earlier_manifest", "_Judge", "sealed"):
        with monkeypatch.context() as patched:
            at(patched, f"trtdsl.building.build.{step}", lambda: engine.write_bytes(engine.read_bytes()[:-1] + b"x"))
            td.build(str(small / "small.py"), engine)
        if engine.read_bytes() != whole:
            with pytest.raises(td.CorruptFileError):
                td.load_engine(engine)
            assert td.build(str(small / "small.py"), engine).built
        manifest = json.loads(engine.with_name("a.engine.json").read_text())
        assert manifest["engine"]["sha256"] == hashlib.sha256(engine.read_bytes()).hexdigest()
        whole = engine.read_bytes()


def test_a_module_that_was_another_while_it_was_loaded(small, tmp_path, monkeypatch):
    """The file has its first content again where the build ends: what was compared is not what it holds."""
    monkeypatch.delitem(sys.modules, "small_relu", raising=False)
    lazy, reference = small / "small_relu.py", small / "reference.py"
    wrong = "import torch\n\nrelu = torch.tanh\n"
    lazy.write_text(wrong)
    text = reference.read_text().replace("torch.relu(", "relu(")
    reference.write_text(text.replace("(self, x):", "(self, x):\n        from small_relu import relu\n"))
    at(monkeypatch, "trtdsl.building.build.check", lambda: lazy.write_text(wrong.replace("tanh", "relu")))
    at(monkeypatch, "trtdsl.building.build.check_entry", lambda: lazy.write_text(wrong))
    with pytest.raises(td.UsageError, match=r"small_relu.py changed while it was in use"):
        td.build(str(small / "small.py"), tmp_path / "a.engine")
    assert not list(tmp_path.glob("*.engine*"))


@pytest.mark.parametrize("step", ["precision", "tune", "derive"])
def test_weights_that_change_while_something_else_is_made_of_them(small, tmp_path, monkeypatch, step):
    """The first definition has the old ones, and all others have the new ones: neither is what the result is of."""
    made, spec = tmp_path / "small.json", td.load_spec(str(small / "small.py"))
    weights = tmp_path / "small.safetensors"
    shutil.copy(small / "small.safetensors", weights)
    how = {"weights": weights, "output": made, "seconds": 1}
    places = {
        "precision": ("trtdsl.building.find_precision.Search", lambda: td.find_precision(spec, **how)),
        "tune": ("trtdsl.building.tune.Search", lambda: td.tune(spec, **how)),
        "derive": ("trtdsl.engine.refit.layer_values", lambda: td.derive_weights(spec, weights, output=made)),
    }
    place, make = places[step]
    at(monkeypatch, place, lambda: replaced(weights))
    with pytest.raises(td.WeightsError, match="another file has taken its place. Start again"):
        make()
    assert not made.exists()


@pytest.mark.parametrize("command", ["build", "check"])
def test_a_sample_that_is_another_meanwhile(small, tmp_path, monkeypatch, command):
    """The file has its first content again where the command ends: what was compared is not what it holds."""
    sample, other = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(sample, np.ones((2, 4), np.float32))
    np.save(other, np.zeros((2, 4), np.float32))
    inputs = {"x": td.Input((2, 4), sample=sample)}
    spec = td.network(inputs=inputs, reference=torch.nn.Tanh)(lambda x: {"output": F.tanh(x)})
    assert td.check(spec).passed

    def exchange():
        for one, two in ((sample, "z"), (other, sample), ("z", other)):
            os.replace(one if one != "z" else tmp_path / "z", two if two != "z" else tmp_path / "z")

    reads = iter(range(100))
    read_array = feeds.read_array

    def reading(*given):
        exchanged = next(reads) == 1
        if exchanged:
            exchange()
        try:
            return read_array(*given)
        finally:
            if exchanged:
                exchange()

    monkeypatch.setattr(feeds, "read_array", reading)
    with pytest.raises(td.UsageError, match=r"x\.npy changed while it was in use"):
        td.check(spec) if command == "check" else td.build(spec, tmp_path / "a.engine")
    assert not list(tmp_path.glob("*.engine*"))


def test_a_checkpoint_that_is_written_to_while_it_is_converted(tmp_path, monkeypatch):
    """As a training job does in place: tensors would be of two states."""
    first, second = ({f"l{i}": torch.full((1000,), float(value)) for i in range(20)} for value in (1, 2))
    torch.save(second, tmp_path / "second.pt")
    torch.save(first, tmp_path / "a.pt")
    os.utime(tmp_path / "a.pt", (1, 1))  # a clock that counts in steps may not have gone on when it is written to
    load = torch.load

    def loading(file, **options):
        (tmp_path / "a.pt").open("r+b").write((tmp_path / "second.pt").read_bytes())
        return load(file, **options)

    monkeypatch.setattr(torch, "load", loading)
    with pytest.raises(td.UsageError, match="a.pt changed while it was in use"):
        td.convert_weights(tmp_path / "a.pt", tmp_path / "a.safetensors")
    assert not (tmp_path / "a.safetensors").exists()


def test_a_check_on_the_command_line_sees_one_file_of_weights(small, command_line, monkeypatch):
    """Network and reference had weights of two states, and an equal network was said to differ."""
    at(monkeypatch, "trtdsl.check", lambda: replaced(small / "small.safetensors"))
    done = command_line(small)("check", "small.py", "--sizes", "quick", code=3)
    assert "small.safetensors changed while it was in use: another file has taken its place" in done.stderr
