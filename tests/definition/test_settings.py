"""Settings: functions of a network file that make a network for the values that they are given."""

import json
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import trtdsl as td
from trtdsl.core.errors import ManifestDamagedError
from trtdsl.core.files.reading import as_struct
from trtdsl.engine.loading.manifest import Refit
from trtdsl.engine.refit import new_values, recipe

MAKERS = """\
from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch
import trtdsl as td
import trtdsl.functional as F


def scaled(
    path: Path,
    depth: int = 1,
    factor: float = 1.0,
    gate: Literal["relu", "tanh"] = "relu",
    signed: bool = False,
    label: str | None = None,
) -> td.NetworkSpec:
    @td.network(inputs={"x": td.Input(("N", 3))}, weights=path, name=label)
    def inner(x, w):
        for _ in range(depth):
            x = getattr(F, gate)(F.linear(x, w.weight)) * factor
        return {"y": -x if signed else x}

    return inner


def broken(size: int) -> td.NetworkSpec:
    return 1 // size  # here


def untyped(size):
    return None


def odd(sizes: list[int]) -> td.NetworkSpec:
    return None


def nothing() -> td.NetworkSpec:
    return None


@td.network(inputs={"x": td.Input((3,))})
def plain(x):
    return F.relu(x)
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(MAKERS)
    save_file({"weight": torch.eye(3) * 2}, "w.safetensors")
    return tmp_path / "net.py"


def run(spec, values):
    network = spec.define()
    return td.interpret(network, {"x": torch.tensor([values])})["y"][0].tolist()


def test_texts_are_read_in_the_types_of_the_parameters(file):
    texts = {"path": "w.safetensors", "depth": "2", "factor": "0.5", "gate": "relu", "signed": "true", "label": "deep"}
    spec = td.load_spec("net.py:scaled", texts)
    assert spec.settings == {**texts, "path": file.parent / "w.safetensors", "depth": 2, "factor": 0.5, "signed": True}
    assert spec.name == "deep"
    assert run(spec, [1.0, -1.0, 3.0]) == [-1.0, 0.0, -3.0]  # twice relu(2x) / 2, negated


def test_values_are_taken_as_they_are_and_defaults_hold(file):
    spec = td.load_spec("net.py:scaled", {"path": Path("w.safetensors"), "factor": 3})
    assert spec.name == "scaled"  # the function inside has no name of its own for it
    assert (spec.settings["depth"], spec.settings["factor"], spec.settings["label"]) == (1, 3.0, None)
    assert run(spec, [1.0, -1.0, 0.5]) == [6.0, 0.0, 3.0]
    assert td.load_spec("net.py:scaled", {"path": "w.safetensors", "label": "none"}).settings["label"] is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {},
            r"net.py:scaled: the setting path must be given, as settings=\{'path': …\}: scaled takes path \(Path\)",
        ),
        ({"path": "w", "dept": "1"}, r"no setting 'dept' \(nearest: depth\): scaled takes path"),
        ({"path": "w", "depth": "two"}, "the setting depth is an int, not 'two'"),
        ({"path": "w", "depth": "1.5"}, "the setting depth is an int, not '1.5'"),
        ({"path": "w", "depth": True}, "the setting depth is an int, not True"),
        ({"path": "w", "factor": "nan"}, "the setting factor is a float, not 'nan'"),
        ({"path": "w", "gate": "gelu"}, "the setting gate is one of 'relu', 'tanh', not 'gelu'"),
        ({"path": "w", "signed": "maybe"}, "the setting signed is a bool, not 'maybe'"),
        ({"path": ""}, "the setting path is a Path, not ''"),
        ({"path": "w", "label": 3}, "the setting label is a str or none, not 3"),
    ],
)
def test_settings_that_are_unknown_missing_or_badly_typed(file, settings, message):
    with pytest.raises(td.UsageError, match=message):
        td.load_spec("net.py:scaled", settings)


def test_invalid_makers_are_refused(file):
    with pytest.raises(td.UsageError, match=r"plain takes no settings, such as 'depth'"):
        td.load_spec("net.py:plain", {"depth": "1"})
    with pytest.raises(td.UsageError, match=r"untyped is a function, and not marked .* -> td.NetworkSpec`"):
        td.load_spec("net.py:untyped")
    with pytest.raises(td.UsageError, match=r"no network 'scaed' \(nearest: scaled\): it has plain, scaled, broken"):
        td.load_spec("net.py:scaed")
    with pytest.raises(td.DefinitionError, match=r"odd: sizes: 'list\[int\]' is no setting: annotate it as") as caught:
        td.load_spec("net.py:odd", {"sizes": "1"})
    assert caught.value.location.line == MAKERS.split("\n").index("def odd(sizes: list[int]) -> td.NetworkSpec:") + 1
    with pytest.raises(td.DefinitionError, match="nothing must return a td.NetworkSpec, not NoneType"):
        td.load_spec("net.py:nothing")
    with pytest.raises(td.DefinitionError, match="ZeroDivisionError") as caught:
        td.load_spec("net.py:broken", {"size": "0"})
    assert MAKERS.split("\n")[caught.value.location.line - 1].endswith("# here")


def test_a_file_with_one_maker_and_nothing_else_needs_no_name(file):
    file.with_name("one.py").write_text(MAKERS.partition("def broken")[0])
    assert td.load_spec("one.py", {"path": "w.safetensors"}).name == "scaled"


def test_a_made_spec_pickles_with_its_settings(file):
    spec = td.load_spec("net.py:scaled", {"path": "w.safetensors", "depth": 2})
    again = pickle.loads(pickle.dumps(spec))
    assert (again.name, again.settings) == (spec.name, spec.settings)


def test_settings_are_part_of_the_engines_key_and_manifest(file):
    def build(**settings):
        spec = td.load_spec("net.py:scaled", {"path": "w.safetensors", **settings})
        return td.build(spec, "a.engine", dims={"N": (1, 2)})

    first = build()
    assert first.built and not build().built
    assert first.manifest["settings"]["path"] == "w.safetensors"  # not where it lies on this machine
    assert build(label="scaled").built  # the same layers, and another setting
    assert build(depth=2).manifest["settings"]["depth"] == 2
    assert "settings" not in td.build("net.py:plain").manifest


def test_a_refit_makes_the_network_again_with_its_settings(file):
    spec = td.load_spec("net.py:scaled", {"path": "w.safetensors", "depth": 2})
    facts = recipe(spec, spec.define(), file.parent / "engines" / "a.engine", None, spec.open_weights())
    assert facts["network"] == "../net.py:scaled"
    assert facts["settings"]["path"] == {"file": "../w.safetensors"}
    facts = as_struct(json.loads(json.dumps(facts)), Refit, "", ManifestDamagedError)  # as it comes back
    weights = {"weight": torch.eye(3) * 5}
    values = new_values(
        facts, weights, backend=spec.define().backend, folder=file.parent / "engines", trust_network_file=True
    )
    assert values["weight:CONSTANT"].reshape(3, 3).equal(torch.eye(3) * 5)


def test_every_command_that_takes_a_network_takes_settings(file, command_line):
    trtdsl = command_line(file.parent)
    given = ("net.py:scaled", "--set", "path=w.safetensors", "--set", "depth=2", "--dim", "N=1:2:3", "--json")
    assert json.loads(trtdsl("build", *given).stdout)["manifest"]["settings"]["depth"] == 2
    assert Path("scaled.engine").is_file()
    layers = json.loads(trtdsl("inspect", *given).stdout)["layers"]
    assert sum(layer["type"] == "MATRIX_MULTIPLY" for layer in layers) == 2
    assert json.loads(trtdsl("inspect", *given, "--program").stdout)["network"] == "scaled"
    assert "no reference" in trtdsl("check", *given, code=2).stderr
    names = json.loads(trtdsl("weights", "derive", *given[:-3], "out.safetensors", "--json").stdout)["names"]
    assert "weight:CONSTANT" in names
    several = trtdsl("build", "net.py:scaled", "net.py:nothing", *given[1:], code=2)
    assert "no setting 'path': nothing takes no settings" in several.stdout
    assert "--set depth: expected NAME=VALUE" in trtdsl("build", "net.py:scaled", "--set", "depth", code=2).stderr
