"""Advice is in the language of who reads it: Python's, or the shell's."""

from __future__ import annotations

import re

import pytest
import torch
from typer.testing import CliRunner

import trtdsl as td
from trtdsl.cli.app import app

NETWORK = """
import torch, trtdsl as td

@td.network(inputs={"x": td.Input(("N", 3))}, weights="w.safetensors")
def net(x, w):
    return x * w.a

def made(*, depth: int) -> td.NetworkSpec:
    return net
"""
OPTION = re.compile(r"(^|[ (`])--[a-z]")


@pytest.fixture
def file(tmp_path):
    (tmp_path / "net.py").write_text(NETWORK)
    return tmp_path / "net.py"


def bad_weights():
    return {"a": torch.tensor([1.0, float("nan"), 2.0])}


same = td.network(inputs={"x": td.Input(("N",))}, reference=torch.nn.Identity)(lambda x: x * 1)
PYTHON = {
    "no range": (
        lambda file: td.load_spec(f"{file}:net").define(weights={"a": torch.ones(3)}).profiles,
        "dims={'N': (1",
    ),
    "not finite": (
        lambda file: td.Interpreter(td.load_spec(f"{file}:net").define(weights=bad_weights())),
        "allow_nonfinite=True",
    ),
    "a setting": (lambda file: td.load_spec(f"{file}:made"), "settings={'depth': …}"),
    "sizes": (lambda file: td.check(same, dims={"N": (1, 4)}, sizes="?"), "sizes are auto, quick, all"),
    "port without inputs": (lambda file: td.port("torch.nn:ReLU", {}), "inputs={'input': 'N,3,224,224'}"),
    "port without a range": (lambda file: td.port("torch.nn:ReLU", {"input": "N,T"}), "dims={'T': (MIN, OPT, MAX)}"),
    "port's input": (lambda file: td.port("torch.nn:ReLU", {"input": "N,3:int64:0"}), "input input='N,3:int64:0'"),
    "port's name": (lambda file: td.port("torch.nn:ReLU", {"input": "N,3"}, name="a b"), "give name="),
}


@pytest.mark.parametrize(("call", "wanted"), PYTHON.values(), ids=PYTHON)
def test_a_caller_from_python_reads_no_options(call, wanted, file):
    with pytest.raises(td.TrtdslError) as caught:
        call(file)
    assert OPTION.search(str(caught.value)) is None, str(caught.value)
    assert any(text in str(caught.value) for text in wanted.split("|")), str(caught.value)


def test_a_network_written_in_a_notebook_is_not_sent_to_a_decorator():
    net = td.Network()
    net.output(net.input("x", ("N", 3)) * 2, "y")
    with pytest.raises(td.UsageError) as caught:
        td.build(net, "never.engine", check=False)
    assert "td.Dim('N', min=1, opt=4, max=16)" in str(caught.value)
    assert "dims=" not in str(caught.value)
    net = td.Network()
    net.output(net.input("x", (3,)) * 2, "y")
    with pytest.raises(td.UsageError) as caught:
        td.check(net)
    assert "give td.check its reference=" in str(caught.value)
    assert "@td.network" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["build", "{}:net", "--no-check", "--dry-run", "--weights", "{}.safetensors"], "--dim N=1:4:16"),
        (["build", "{}:made"], "--set depth=…"),
        (["port", "torch.nn:ReLU"], "--input input=N,3,224,224"),
        (["port", "torch.nn:ReLU", "--input", "input=N,T"], "--dim T=MIN:OPT:MAX"),
    ],
)
def test_someone_at_a_shell_reads_options(arguments, wanted, file, monkeypatch):
    from safetensors.torch import save_file

    monkeypatch.setenv("COLUMNS", "300")
    save_file({"a": torch.ones(3)}, f"{file}.safetensors")
    done = CliRunner().invoke(app, [text.format(file) for text in arguments])
    assert done.exit_code in (2, 3)
    assert wanted in done.output.replace("\n", " ")
