"""An engine is up to date only where its manifest is, entry by entry, the one that its build wrote."""

import copy
import json

import pytest
import torch

import trtdsl as td
from trtdsl.building.manifest import read_earlier_manifest
from trtdsl.building.reference_results import agree


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    N = td.Dim("N", min=2, opt=2, max=8)

    def double(x):
        td.require(x.shape[0] % 2 == 0, "in pairs")
        return {"y": x * 2}

    spec = td.network(inputs={"x": td.Input((N, 3))})(double)
    td.build(spec, folder / "a.engine")
    return spec, folder / "a.engine"


def entries(facts, path=()):
    """The place of every value of a manifest."""
    items = facts.items() if isinstance(facts, dict) else enumerate(facts) if isinstance(facts, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from entries(value, (*path, key))


def changed(value):
    """Another value: of the same type, and of another one."""
    yield (value + 1 if isinstance(value, (int, float)) else f"{value}x" if isinstance(value, str) else None)
    yield 7
    if isinstance(value, (list, dict)):
        yield type(value)()


def test_every_entry_that_is_changed_by_hand_is_built_again(built):
    spec, engine = built
    file = engine.with_name("a.engine.json")
    whole = file.read_text()
    facts = json.loads(whole)
    assert read_earlier_manifest(file) == facts
    tried = 0
    for path in entries(facts):
        inner = facts
        for key in path[:-1]:
            inner = inner[key]
        for value in changed(inner[path[-1]]):
            if value == inner[path[-1]]:
                continue
            other = copy.deepcopy(facts)
            place = other
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = value
            file.write_text(json.dumps(other, indent=2))
            assert read_earlier_manifest(file) == {}, path
            tried += 1
    file.write_text(whole)
    assert tried > 100
    assert not td.build(spec, engine).built


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("requirements", []), ("profiles", []), ("inputs", {}), ("outputs", {}), ("compute_capabilities", 7),
        ("compute_capabilities", ["9.0"]), ("check", 7), ("engine", 7), ("tuning", "x"), ("manifest_sha256", 7),
        ("manifest_sha256", None), ("program", {}),
    ],
)  # fmt: skip
def test_a_changed_manifest_is_built_again_and_loads(built, name, value):
    spec, engine = built
    file = engine.with_name("a.engine.json")
    before = json.loads(file.read_text())
    file.write_text(json.dumps({**before, name: value}))
    assert td.build(spec, engine).built
    after = json.loads(file.read_text())
    assert {**after, "build_seconds": 0, "engine": 0, "manifest_sha256": 0} == {
        **before, "build_seconds": 0, "engine": 0, "manifest_sha256": 0
    }  # fmt: skip
    assert not td.build(spec, engine).built


@pytest.mark.parametrize("given", [7, "8.9", [7], {"8.9": 1}, None, ((),)])
def test_compute_capabilities_are_texts(given):
    with pytest.raises(td.UsageError, match=r"compute_capabilities=.*: expected (list|str), got"):
        td.BuildConfig(compute_capabilities=given)


@pytest.mark.parametrize("length", [0, 200, -3])
def test_half_a_manifest_is_built_again(built, length):
    spec, engine = built
    file = engine.with_name("a.engine.json")
    file.write_text(file.read_text()[:length])
    assert td.build(spec, engine).built


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "null", "7", '{"schema": 3}', "\udcff", '{"a":' * 5000])
def test_what_is_no_manifest_stays(built, text):
    spec, engine = built
    file = engine.with_name("a.engine.json")
    whole = file.read_bytes()
    file.write_text(text, errors="surrogateescape")
    assert read_earlier_manifest(file) == {}
    with pytest.raises(td.UsageError, match="is not a manifest"):
        td.build(spec, engine)
    assert file.read_text(errors="surrogateescape") == text
    file.write_bytes(whole)


def test_another_budget_of_a_precision_is_checked_anew(tmp_path):
    @td.network(inputs={"x": td.Input((4, 8))}, reference=Scaled)
    def scaled(x):
        return x * 3 + 1

    file = tmp_path / "scaled.precision.json"
    td.find_precision(scaled, allow="fp16", budget=td.SQNR(20), output=file)
    options = {"output": tmp_path / "scaled.engine", "precision": str(file)}
    td.build(scaled, **options)
    assert td.build(scaled, **options).report is None
    file.write_text(file.read_text().replace('"budget": {"output": 20.0}', '"budget": {"output": 40.0}'))
    again = td.build(scaled, **options)
    assert not again.built
    assert again.report is not None
    assert again.manifest["precisions"]["budget"] == {"output": 40.0}


class Scaled(torch.nn.Module):
    def forward(self, x):
        return x * 3 + 1


class Told(torch.nn.Module):
    """What the program around it decides: a factor, a bound, an operation, a size."""

    factor, bound, signs = 2.0, 100.0, False
    large = 10**6

    def forward(self, x):
        y = x * (self.factor if len(x) < self.large else 3.0)
        y = y.clamp(max=self.bound)
        return {"y": y.sign() * y.abs() if self.signs else y}


TOLD = {
    "an environment variable": lambda patch: patch.setenv("FACTOR", "3"),
    "an argument of the command line": lambda patch: patch.setattr("sys.argv", ["x", "3"]),
    "an attribute of the class": lambda patch: patch.setattr(Told, "factor", 3.0),
    "the last digits": lambda patch: patch.setattr(Told, "factor", 2.000001),
    "what few values reach": lambda patch: patch.setattr(Told, "bound", 99.0),
    "an operation": lambda patch: patch.setattr(Told, "signs", True),
    "at some sizes alone": lambda patch: patch.setattr(Told, "large", 8),
}


class Asking(Told):
    def __init__(self):
        super().__init__()
        import os
        import sys

        given = sys.argv[1] if len(sys.argv) == 2 else os.environ.get("FACTOR")
        if given:
            self.factor = float(given)


@pytest.mark.parametrize("what", TOLD)
def test_what_the_program_around_a_reference_decides_is_seen(tmp_path, monkeypatch, what):
    N = td.Dim("N", min=1, opt=4, max=8)
    monkeypatch.setattr("sys.argv", ["x"])

    @td.network(inputs={"x": td.Input((N, 3))}, reference=Asking)
    def told(x):
        return {"y": (x * 2.0).clamp(max=100.0)}

    td.build(told, tmp_path / "told.engine")
    before = json.loads((tmp_path / "told.engine.json").read_text())["check"]
    torch.set_num_threads(2)
    assert td.build(told, tmp_path / "told.engine").report is None  # whatever the number of threads
    torch.set_num_threads(1)
    with monkeypatch.context() as patch:
        TOLD[what](patch)
        if what == "an operation":  # equal all the same
            assert td.build(told, tmp_path / "told.engine").report is not None
            return
        with pytest.raises(td.MismatchError):
            td.build(told, tmp_path / "told.engine")
    assert json.loads((tmp_path / "told.engine.json").read_text())["check"] == before
    assert td.build(told, tmp_path / "told.engine").report is None


def test_results_of_a_reference_agree_but_for_rounding():
    def one(*sums, sha256="a", limit=1e-11):
        return {"normal": {"sha256": sha256, "limit": limit, "sums": [list(each) for each in sums]}}

    assert agree(one((1.0, 8.0)), one((1.0 + 4e-11, 8.0)))
    assert not agree(one((1.0, 8.0)), one((1.0 + 1e-10, 8.0)))
    assert agree(one((0.0, 0.0)), one((0.0, 0.0)))
    for other in (one((1.0, 8.0), sha256="b"), one(), one((1.0, 8.0), (1.0, 8.0)), {}, None):
        assert not agree(one((1.0, 8.0)), other)
    assert not agree(None, None)
