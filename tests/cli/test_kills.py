"""A command that is killed at any call of the file system leaves its inputs, and whole outputs: the old or the new."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import trtdsl as td

COMMANDS = {
    "build": "build small.py --no-check -o small.engine --force",
    "build and check": "build small.py -o small.engine --dim N=1:2:3",
    "tune": "build small.py --no-check --tune-seconds 1 -o small.engine --force",
    "precision": "precision small.py --seconds 1 -o small.precision.json",
    "check": "check small.py --sizes quick --save check.safetensors",
    "view": "view small.py -o view.html",
    "drawing": "view small.py -o picture.svg",
    "convert": "weights convert a.pt a.safetensors",
    "derive": "weights derive small.py derived.safetensors",
    "stubs": "stubs small.safetensors -o stub.pyi",
    "port": "port reference.py:Model --input x=N,3,5,5 --no-check -o ported.py --weights ported.safetensors --force",
    "triton": "export triton small.engine repository --allow-rtx",
    "cpp": "export cpp small.engine project --force",
    "compare": "compare small.py small.engine",
    "program": "inspect small.engine --program",
    "mutate": "check small.py --sizes quick --mutate --limit 2",
    "several": "build small.py --no-check -o folder/ -j 1",
}
READERS = {"compare", "program", "mutate"}
QUICK = {"convert"}
"""Of which the writing calls are tried in the usual run."""


@pytest.fixture(scope="module")
def folder(small_folder, tmp_path_factory):
    import shutil

    folder = tmp_path_factory.mktemp("kills") / "source"
    shutil.copytree(small_folder, folder, ignore=shutil.ignore_patterns("__pycache__"))
    td.build(str(folder / "small.py"), folder / "small.engine", check=False)
    torch.save({"a": torch.ones(2)}, folder / "a.pt")
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    return folder


def killed(folder, every, command, by="SIGKILL"):
    harness = Path(__file__).with_name("kills.py")
    given = [sys.executable, harness, folder, every, by, *command.split()]
    done = subprocess.run(given, capture_output=True, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("name", "every"),
    [(name, "writing") for name in sorted(QUICK)]
    + [pytest.param(name, "every", marks=pytest.mark.heavy) for name in COMMANDS],
)
def test_kills_at_every_call(folder, name, every):
    found = killed(folder, every, COMMANDS[name])
    assert (found["code"], found["codes"]) == (0, [-9])
    assert bool(found["outputs"]) is (name not in READERS)
    assert found["kills"] > (1 if name in READERS else 4)
    assert found["inputs"] == []
    assert found["damaged"] == []
    assert all(code == 0 for _, code in found["after"]), found["after"]
    assert found["left"] == []


@pytest.mark.parametrize(
    ("name", "every", "by"),
    [("convert", "writing", "SIGTERM")]
    + [
        pytest.param(name, "every", by, marks=pytest.mark.heavy)
        for name in COMMANDS
        for by in ("SIGINT", "SIGTERM", "SIGHUP")
    ],
)
def test_an_interruption_at_every_call_leaves_nothing(folder, name, every, by):
    found = killed(folder, every, COMMANDS[name], by)
    assert found["codes"] == [130]
    assert found["kills"] > (1 if name in READERS else 4)
    assert (found["inputs"], found["damaged"], found["at_once"]) == ([], [], [])
