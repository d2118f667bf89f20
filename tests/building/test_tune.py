"""Tuning: what it finds from naive lowerings, what it writes, and what later builds and checks make of that."""

import json
import pickle

import msgspec
import pytest
import torch
from safetensors.torch import save_file

import trtdsl as td
from trtdsl.building import buildable
from trtdsl.building.tune import tune
from trtdsl.core.errors import TuningWarning
from trtdsl.definition.tuning.choices import Choices
from trtdsl.definition.tuning.file import dump
from trtdsl.engine.loading.manifest import Refit
from trtdsl.engine.refit import new_values, recipe, structure, values_hash


@pytest.fixture(autouse=True)
def silu_by_sigmoid(monkeypatch):
    """Where F takes "exp"."""
    monkeypatch.setattr("trtdsl.functional.pointwise.activation.silu_of", lambda x: "sigmoid")


MODEL = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        g = torch.Generator().manual_seed(0)
        self.a, self.b = (torch.randn(32, 32, generator=g) / 6 for _ in range(2))

    def forward(self, x):
        return torch.nn.functional.silu(x @ self.a.T) @ self.b.T
"""
NETWORK = """
import torch
import trtdsl as td
import trtdsl.functional as F
from model import Model

@td.network(inputs={"x": td.Input((td.Dim("N", min=1, opt=4, max=8), 16, 32))}, reference="model.py:Model")
def gated(x):
    model = Model()
    y = F.silu(F.linear(x, model.a))
    return F.linear(y, model.b)
"""
CONVOLUTIONS = """
import torch
import trtdsl as td
import trtdsl.functional as F

G = torch.Generator().manual_seed(0)
KERNELS = [torch.randn(16, 16, 3, 3, generator=G) / 12 for _ in range(4)]

def step(x, kernel):
    return F.prelu(F.conv2d(x, kernel, padding=1), torch.full((16,), 0.25))

@td.network(inputs={"x": td.Input((td.Dim("N", min=1, opt=4, max=4), 16, 24, 20))})
def stack(x):
    for kernel in KERNELS:
        x = step(x, kernel)
    return x
"""


def written(folder, text, name):
    (folder / "model.py").write_text(MODEL)
    file = folder / f"{name}.py"
    file.write_text(text)
    return td.load_spec(str(file))


@pytest.fixture
def gated(tmp_path):
    return written(tmp_path, NETWORK, "gated")


def ways(spec, **options):
    return [site.lowering for site in spec.define(**options).choices.sites]


def test_prelu_is_found_from_its_naive_lowering(tmp_path):
    spec = written(tmp_path, CONVOLUTIONS, "stack")
    report = tune(spec, start={"prelu": "layer"}, seconds=120)
    (change,) = [change for change in report.changes if change.calls == 4]
    assert (change.function, change.before, change.after) == ("prelu", "layer", "fused")
    assert report.after.bytes < 0.7 * report.before.bytes and report.after.launches <= report.before.launches - 3
    program = td.program(spec)
    assert (report.after.bytes, report.after.launches) == (program.bytes, program.launch_count)
    assert report.file is None and not (tmp_path / "stack.tuning.json").exists()  # the default is what was found


def test_a_tuning_is_written_and_used_by_later_builds_and_checks(gated, tmp_path):
    engine = tmp_path / "gated.engine"
    plain = td.build(gated, engine)
    report = tune(gated, seconds=120)
    assert report.after.bytes < report.before.bytes and report.after.launches < report.before.launches
    assert report.file == tmp_path / "gated.tuning.json"
    assert ways(gated) == ["exp"] and ways(gated.tuned(False)) == ["sigmoid"]
    tuned = td.build(gated, engine)
    assert tuned.built and tuned.report.passed
    assert tuned.manifest["program"]["bytes"] == report.after.bytes < plain.manifest["program"]["bytes"]
    assert tuned.manifest["tuning"]["file"] == "gated.tuning.json"
    assert [each["lowering"] for each in tuned.manifest["tuning"]["changed"]] == ["exp"]
    assert not td.build(gated, engine).built
    assert td.check(gated).passed
    untuned = td.build(gated.tuned(False), engine)
    assert untuned.built and untuned.manifest["tuning"] is None


def test_a_check_proves_the_tuned_definition(gated, tmp_path, monkeypatch):
    tune(gated, seconds=120)
    monkeypatch.setattr("trtdsl.functional.pointwise.activation.L.unary", lambda x, op: x)  # exp(-x) becomes x
    assert not td.check(gated).passed
    assert td.check(gated.tuned(False)).passed


def test_a_lowering_with_other_values_is_not_taken(gated, monkeypatch):
    monkeypatch.setattr("trtdsl.functional.pointwise.activation.L.unary", lambda x, op: x)
    report = tune(gated, seconds=120)
    assert not report.changes and report.file is None
    assert any("has other values" in text for text in report.skipped)


def test_the_file_is_readable_and_names_calls_without_lines(gated, tmp_path):
    tune(gated, seconds=120)
    facts = json.loads((tmp_path / "gated.tuning.json").read_text())
    (variant,) = facts["variants"]
    (call,) = variant["calls"]
    assert call == {
        "file": "gated.py",
        "within": "gated",
        "operation": "silu",
        "function": "silu",
        "ordinal": 0,
        "line": 10,
        "operands": ["(N, 16, 32) float32"],
        "lowering": "exp",
    }
    file = tmp_path / "gated.py"
    file.write_text(NETWORK.replace("    y =", "    # a comment\n\n    y ="))
    assert ways(td.load_spec(str(file))) == ["exp"]


def test_each_case_has_choices_of_its_own(gated, tmp_path):
    tune(gated, seconds=120)
    assert ways(gated, precision="fp16") == ["sigmoid"] == ways(gated, dims={"N": 3})
    network = gated.define(precision="fp16")
    assert "has nothing for float16 N=1:4:8" in network.choices.unused
    tune(gated, seconds=120, precision="fp16")
    assert ways(gated, precision="fp16") == ["exp"] == ways(gated)


def test_a_tuning_without_time_names_the_calls_that_it_did_not_try(gated):
    report = tune(gated, seconds=1e-9)
    assert report.builds == 1 and not report.changes
    assert report.untried[0].startswith("silu at ") and report.untried[0].endswith("as 'exp'")


def test_a_shorter_tuning_keeps_what_an_earlier_one_won(gated, tmp_path):
    won = tune(gated, seconds=120)
    assert ways(gated) == ["exp"]
    again = tune(gated, seconds=1e-9)
    assert again.after == won.after and again.before == won.before and again.file == won.file
    assert [(change.before, change.after) for change in again.changes] == [("sigmoid", "exp")]
    assert ways(gated) == ["exp"]

    def cancel(phase, done, total):
        raise KeyboardInterrupt

    with pytest.raises(td.CancelledError, match="nothing was written"):
        tune(gated, seconds=120, progress=cancel)
    assert ways(gated) == ["exp"]


def test_an_earlier_tuning_of_an_edited_network_is_not_tried(tmp_path):
    tune(written(tmp_path, NETWORK, "gated"), seconds=120)
    edited = written(
        tmp_path, NETWORK.replace("return F.linear(y, model.b)", "return F.silu(F.linear(y, model.b))"), "gated"
    )
    report = tune(edited, seconds=1e-9)
    assert report.builds <= 2 and not report.changes and report.file is None


def test_cancelling_keeps_what_was_found(tmp_path):
    text = NETWORK.replace(
        "return F.linear(y, model.b)", "return F.prelu(F.linear(y, model.b), torch.full((1,), 0.25))"
    )
    spec = written(tmp_path, text, "gated")
    seen = []

    def cancel(phase, done, total):
        seen.append(phase)
        if phase.startswith("tuning (") and ": prelu" in phase:
            raise KeyboardInterrupt

    report = tune(spec, seconds=120, progress=cancel)
    assert report.cancelled and [change.after for change in report.changes] == ["exp"]
    assert ways(spec)[0] == "exp"
    with pytest.raises(td.CancelledError, match="before the search began"):
        tune(spec, seconds=120, profiles=Cancels())


class Cancels(list):
    """Profiles that cancel where they are read."""

    def __iter__(self):
        raise KeyboardInterrupt


def test_bad_input(gated, tmp_path):
    net = td.Network()
    net.output(net.input("x", (2,)) + 1, "y")
    with pytest.raises(td.UsageError, match="written already: tune the spec"):
        tune(net)
    for seconds in (0, -1, float("nan"), "abc", None):
        with pytest.raises(td.UsageError, match="more than 0 seconds"):
            tune(gated, seconds=seconds)
    with pytest.raises(td.UsageError, match="start is a dict of lowerings by function.*not 'silu'"):
        tune(gated, start="silu")
    with pytest.raises(td.UsageError, match="cannot write"):
        tune(gated, output=tmp_path / "missing" / "x.json")
    with pytest.raises(td.UsageError, match="silu has no lowering 'fast'.*sigmoid, exp"):
        tune(gated, start={"silu": "fast"})
    with pytest.raises(td.UsageError, match="no function 'silo' has several lowerings.*silu"):
        tune(gated, start={"silo": "exp"})
    with pytest.raises(td.UsageError, match=r"there is no tuning .*x\.json"):
        gated.tuned(tmp_path / "x.json").define()


@pytest.mark.parametrize("name", ["gated.py", "notes.txt", "weights.safetensors", "list.json"])
def test_a_file_that_is_no_tuning_is_not_replaced(gated, tmp_path, name):
    file = tmp_path / name
    if name != "gated.py":
        file.write_text("[1, 2]")
    before = file.read_bytes()
    with pytest.raises(
        td.UsageError, match=rf"{name}: (it is the file of the network|the file that is there is not a tuning)"
    ):
        tune(gated, seconds=120, output=file)
    assert file.read_bytes() == before


def test_the_tuning_of_another_network_is_not_replaced(gated, tmp_path):
    file = tmp_path / "mine.json"
    tune(gated, seconds=120, output=file)
    before = file.read_bytes()
    other = written(tmp_path, NETWORK.replace("def gated", "def other"), "other")
    with pytest.raises(td.UsageError, match="a tuning of the network 'gated', and this one is 'other'"):
        tune(other, seconds=120, output=file)
    assert file.read_bytes() == before


UNREAD = {
    '{"schema": 1, "kind": "tuning", "netw': "it is not JSON: it is damaged",
    '{"schema":99,"kind":"tuning","network":"gated"}': "it has schema 99, and this trtdsl reads 1",
    '{"schema":1,"kind":"tuning","mine":1}': "object contains unknown field mine",
}


@pytest.mark.parametrize("text", UNREAD)
def test_a_tuning_that_cannot_be_read_is_neither_replaced_nor_removed(gated, tmp_path, monkeypatch, text):
    monkeypatch.setattr("trtdsl.building.tune.Search", None)  # nothing is tuned
    file = tmp_path / "gated.tuning.json"
    file.write_text(text)
    for output in (None, file):
        with pytest.raises(td.UsageError) as error:
            tune(gated, seconds=120, output=output)
        assert f"{file}: the file that is there is a tuning that cannot be read ({UNREAD[text]}" in str(error.value)
        assert file.read_text() == text


def test_a_tuning_that_became_another_meanwhile_is_not_removed(gated, tmp_path):
    file = tmp_path / "gated.tuning.json"
    text = '{"schema":99,"kind":"tuning"}'
    with pytest.raises(td.UsageError, match="it has schema 99"):
        tune(gated, seconds=1e-9, progress=lambda *_: file.write_text(text) and None)
    assert file.read_text() == text


def test_two_tunings_of_one_file_at_once_keep_both_cases(gated, tmp_path, monkeypatch):
    """The second one ends while the first one, which has read the file already, is about to write it."""
    others = [lambda: tune(gated, seconds=120, precision="fp16")]

    def dumped(tuning):
        if others:
            others.pop()()
        return dump(tuning)

    monkeypatch.setattr("trtdsl.building.tune.dump", dumped)
    tune(gated, seconds=120)
    assert not others
    assert ways(gated, precision="fp16") == ["exp"] == ways(gated)


def test_a_tuning_of_another_version_is_replaced(gated, tmp_path):
    file = tmp_path / "gated.tuning.json"
    tune(gated, seconds=120)
    written = file.read_bytes()
    facts = json.loads(written)
    file.write_text(json.dumps({**facts, "trtdsl": "0.0.1"}))
    tune(gated, seconds=120)
    assert json.loads(file.read_text())["trtdsl"] == facts["trtdsl"]


def test_a_network_that_cannot_be_built_here_is_named_by_its_line(gated, tmp_path, monkeypatch):
    monkeypatch.setattr(buildable, "has_cuda_device", lambda: False)
    spec = written(tmp_path, NETWORK.replace("return F.linear(y, model.b)", "return y[y[:, 0, 0] > 0]"), "rows")
    with pytest.raises(td.BuildError, match=r"rows\.py:11: layer .* cannot be built here: NON_ZERO"):
        tune(spec, seconds=120)
    assert not list(tmp_path.glob("*.tuning.json"))


def test_a_network_that_was_edited_is_not_half_tuned(gated, tmp_path):
    tune(gated, seconds=120)
    file = tmp_path / "gated.py"
    twice = NETWORK.replace("F.silu(F.linear(x, model.a))", "F.silu(F.silu(F.linear(x, model.a)))")
    for text, reason in (
        (twice, "the network has 2 calls with a choice of lowerings, and had 1"),
        (NETWORK.replace("F.silu(", "F.relu("), "the network has 0 calls with a choice of lowerings, and had 1"),
        (NETWORK.replace("F.silu(F.linear(x, model.a))", "F.linear(F.silu(x[..., :16]), model.a[:, :16])"), "16"),
        (NETWORK.replace("F.silu(F.linear(x, model.a))", "F.silu(x, lowering='sigmoid')"), "gated.py:10: silu of"),
    ):
        file.write_text(text)
        with pytest.warns(TuningWarning, match="is not used: the network is another now") as caught:
            found = ways(td.load_spec(str(file)))
        assert "exp" not in found
        assert reason in str(caught[0].message) and "\n" not in str(caught[0].message)


def test_another_process_defines_it_alike(gated, tmp_path):
    tune(gated, seconds=120)
    (site,) = gated.define().choices.sites
    for spec, way in (
        (gated, "exp"),
        (gated.tuned(False), "sigmoid"),
        (gated.tuned(Choices({site.key: "exp"})), "exp"),
    ):
        assert ways(pickle.loads(pickle.dumps(spec))) == [way]


def test_calls_that_are_best_lowered_apart_are_split(tmp_path):
    """Branches that are added up: the builder joins some of their products, and not all calls want one lowering."""
    branches = "y = sum(F.silu(F.linear(x, model.a * k)) for k in (1, 2, 3))"
    spec = written(tmp_path, NETWORK.replace("y = F.silu(F.linear(x, model.a))", branches), "gated")
    report = tune(spec, seconds=120)
    both = [td.program(spec.tuned(Choices(start={"silu": way}))) for way in ("sigmoid", "exp")]
    assert report.after.floor_seconds <= min(td.floor_of(program).seconds for program in both)


def test_a_refit_derives_weights_as_the_tuned_engine_has_them(tmp_path):
    text = NETWORK.replace('reference="model.py:Model"', "weights='w.safetensors'").replace(
        "gated(x)", "gated(x, model)"
    )
    weights = {name: torch.randn(32, 32) for name in "ab"}
    save_file(weights, tmp_path / "w.safetensors")
    spec = written(tmp_path, text.replace("    model = Model()\n", ""), "gated")
    tune(spec, seconds=120)
    network = spec.define()
    made = recipe(spec, network, tmp_path / "gated.engine", None, spec.open_weights())
    (tmp_path / "gated.tuning.json").unlink()
    assert structure(spec.define()) != made["structure_sha256"]
    facts = msgspec.convert(msgspec.to_builtins(made), Refit)
    found = new_values(facts, weights, backend=network.backend, folder=tmp_path, trust_network_file=True)
    assert values_hash(found) == made["values_sha256"]


def test_choices_are_asked_for_by_code(gated):
    (site,) = gated.define().choices.sites
    assert ways(gated.tuned(Choices({site.key: "exp"}))) == ["exp"]
    assert ways(gated.tuned(Choices(start={"silu": "exp"}))) == ["exp"]
