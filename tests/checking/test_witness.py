"""The engine's program as a third witness: a program that differs is caught, with its launch and the author's line."""

import dataclasses
import inspect
import json
import sys

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.engine.running.trace import sorted_values
from trtdsl.programs.evaluation import kernels

pytestmark = pytest.mark.skipif(kernels.compiler() is None, reason="needs a C++ compiler")


class Reference(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(6, 5, generator=torch.Generator().manual_seed(0)))

    def forward(self, x):
        return torch.softmax(torch.nn.functional.linear(x, self.weight), -1)


def write(x):
    y = F.linear(x, Reference().weight.detach())
    return F.softmax(y, -1)


@pytest.fixture
def spec():
    inputs = {"x": td.Input((td.Dim("N", min=1, opt=2, max=4), 5))}
    return td.network(inputs=inputs, reference=Reference)(write)


def test_torch_network_and_program_agree(spec):
    report = td.check(spec, on="program", sizes="quick")
    assert report.passed, report
    assert report.witnesses == ["torch", "network", "engine's program"]
    assert "no engine was executed" in report.statement
    interpreted = td.check(spec, sizes="quick")
    assert interpreted.witnesses == ["torch", "network"]
    assert len(report.cases) == 2 * len(interpreted.cases)


def test_a_builder_that_gets_a_kernel_wrong_is_caught_at_its_launch(spec, monkeypatch):
    module = sys.modules["trtdsl.checking.witness"]
    compiled = module.compile_engine

    def wrong(*args, **kwargs):
        plan = compiled(*args, **kwargs)
        name = b"__myln_sub___myln_float___myln_float"
        assert name in bytes(plan.data)
        return dataclasses.replace(
            plan, data=bytes(plan.data).replace(b"= " + name, b"= " + name.replace(b"sub", b"add"))
        )

    monkeypatch.setattr(module, "compile_engine", wrong)
    report = td.check(spec, on="program", sizes="quick")
    assert not report.passed
    assert report.witnesses == []
    (finding,) = report.findings
    assert "the network equals its reference and the engine's program does not" in finding
    assert "the first launch that differs from the network's layers is launch" in finding
    line = inspect.getsourcelines(write)[1] + 2
    assert f"test_witness.py:{line}" in finding


def test_values_in_fp8_are_compared():
    assert sorted_values(torch.tensor([2.0, -1.0, 0.5]).to(torch.float8_e4m3fn)).tolist() == [-1.0, 0.5, 2.0]


def test_every_profile_that_serves_a_size_is_a_witness(spec):
    profiles = [td.Profile(N=(1, 2)), td.Profile(N=(2, 3, 4))]
    report = td.check(spec, on="program", sizes="N=2", profiles=profiles)
    assert report.passed, report
    interpreted = td.check(spec, sizes="N=2", profiles=profiles)
    assert len(report.cases) == 3 * len(interpreted.cases)


# -- builds ------------------------------------------------------------------------------------------------------------


def witnesses(engine):
    return json.loads(engine.with_name(engine.name + ".json").read_text())["check"]["witnesses"]


def test_a_build_evaluates_the_engine_that_it_writes(spec, tmp_path, monkeypatch):
    engine = tmp_path / "net.engine"
    td.build(spec, engine)
    assert witnesses(engine) == ["torch", "network"]
    before = engine.read_bytes()
    seen = []
    module = sys.modules["trtdsl.checking.witness"]
    evaluator = module.evaluator_of_plan
    monkeypatch.setattr(module, "evaluator_of_plan", lambda data, *rest: seen.append(data) or evaluator(data, *rest))
    again = td.build(spec, engine, on="program")
    assert not again.built
    assert seen == [before]
    assert witnesses(engine) == ["torch", "network", "engine's program"]
    assert td.build(spec, engine, on="program", force=True).built
    assert seen[1:] == [engine.read_bytes()]


def test_an_engine_that_differs_is_not_written(spec, tmp_path, monkeypatch):
    module = sys.modules["trtdsl.building.build"]
    compiled = module.compile_engine

    def wrong(*args, **kwargs):
        plan = compiled(*args, **kwargs)
        name = b"= __myln_sub___myln_float___myln_float"
        return dataclasses.replace(plan, data=bytes(plan.data).replace(name, name.replace(b"sub", b"add")))

    monkeypatch.setattr(module, "compile_engine", wrong)
    with pytest.raises(td.MismatchError, match="Nothing was built"):
        td.build(spec, tmp_path / "net.engine", on="program")
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_a_witness_is_refused(spec, tmp_path):
    with pytest.raises(td.UsageError, match="'interpreter' or 'program', not 'engine'"):
        td.build(spec, tmp_path / "net.engine", on="engine")
    with pytest.raises(td.UsageError, match="no check was asked for"):
        td.build(spec, tmp_path / "net.engine", on="program", check=False)
    with pytest.raises(td.UsageError, match="an engine without weights cannot be evaluated"):
        td.build(spec, tmp_path / "net.engine", on="program", config=td.BuildConfig(strip_weights=True))
