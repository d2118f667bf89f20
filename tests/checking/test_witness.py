"""The engine's program as a third witness: a program that differs is caught, with its launch and the author's line."""

import dataclasses
import inspect

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.engine.running import evaluate
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
    compiled = evaluate.compile_engine

    def wrong(*args, **kwargs):
        plan = compiled(*args, **kwargs)
        name = b"__myln_sub___myln_float___myln_float"
        assert name in bytes(plan.data)
        return dataclasses.replace(
            plan, data=bytes(plan.data).replace(b"= " + name, b"= " + name.replace(b"sub", b"add"))
        )

    monkeypatch.setattr(evaluate, "compile_engine", wrong)
    report = td.check(spec, on="program", sizes="quick")
    assert not report.passed
    assert report.witnesses == []
    (finding,) = report.findings
    assert "the network equals its reference and the engine's program does not" in finding
    assert "the first launch that differs from the network's layers is launch" in finding
    line = inspect.getsourcelines(write)[1] + 2
    assert f"test_witness.py:{line}" in finding
