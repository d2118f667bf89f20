"""A command that is killed at any call of the file system leaves its inputs, and whole outputs: the old or the new."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import trtdsl as td

pytestmark = pytest.mark.long

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
    "run": "run small.engine --input x=x.npy -o .",
    "bench": "bench small.py --runs 2 --warm-up 1",
    "doctor": "doctor",
    "explain": "explain einsum nkctv,kvw->nctw N,3,64,300,18 3,18,18 --dim N=1:2:4",
    "generate": "generate following.py --tokens 1,2 --max-tokens 3",
    "generate by an engine": "generate following.engine --tokens 1,2 --max-tokens 3",
    "several": "build small.py --no-check -o folder/ -j 1",
}
READERS = {"compare", "program", "mutate", "bench", "doctor", "explain", "generate", "generate by an engine"}
FILELESS = {"doctor", "explain"}
QUICK = {"convert"}
"""Of which the writing calls are tried in the usual run."""

FOLLOWING = """\
import torch
import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L

N, S = td.Dim("N", min=1, opt=1, max=2), td.Dim("S", min=1, opt=2, max=3)
INPUTS = {
    "tokens": td.Input((N, S), "int64", sample=(0, 11)), "starts": td.Input((N,), "int32", sample=(0, 4)),
    "lengths": td.Input((N,), "int32", sample=(1, 2)), "cache": td.State((N, 1, 7, 1)),
}


@td.network(inputs=INPUTS, profiles=[td.Profile(S=1), td.Profile()])
def following(tokens, starts, lengths, cache):
    new = L.kv_cache_update(cache, tokens.to(torch.float32).unsqueeze(1).unsqueeze(-1), starts)
    end = (starts + lengths).to(torch.int64).unsqueeze(1)
    total = F.where(F.arange(7) < end, new.flatten(1), 0.0).sum(1)
    return {"next_cache": new, "logits": F.one_hot(total.to(torch.int64) % 11, 11)}
"""
"""Whose next token is the sum of all before, modulo 11."""


@pytest.fixture(scope="module")
def folder(small_folder, tmp_path_factory):
    import shutil

    folder = tmp_path_factory.mktemp("kills") / "source"
    shutil.copytree(small_folder, folder, ignore=shutil.ignore_patterns("__pycache__"))
    td.build(str(folder / "small.py"), folder / "small.engine", check=False)
    (folder / "following.py").write_text(FOLLOWING)
    td.build(str(folder / "following.py"), folder / "following.engine", check=False)
    np.save(folder / "x.npy", np.ones((2, 3, 5, 5), np.float32))
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
    + [pytest.param(name, "every", marks=pytest.mark.heavy) for name in COMMANDS if name not in FILELESS],
)
def test_kills_at_every_call(folder, name, every):
    found = killed(folder, every, COMMANDS[name])
    assert (found["code"], found["codes"]) == (0, [-9])
    assert bool(found["outputs"]) is (name not in READERS)
    assert found["kills"] >= (1 if name in READERS else 5)
    assert found["inputs"] == []
    assert found["damaged"] == []
    assert all(code == 0 for _, code in found["after"]), found["after"]
    assert found["left"] == []


@pytest.mark.parametrize(
    ("name", "when", "by"),
    [("convert", "writing", "SIGTERM"), ("explain", "working", "SIGINT")]
    + [
        pytest.param(name, when, by, marks=pytest.mark.heavy)
        for when in ("every", "working")
        for name in COMMANDS
        if when == "working" or name not in FILELESS
        for by in ("SIGINT", "SIGTERM", "SIGHUP")
    ],
)
def test_an_interruption_leaves_nothing(folder, name, when, by):
    """At every call of the file system, and at moments between."""
    found = killed(folder, when, COMMANDS[name], by)
    assert (found["code"], found["codes"], found["said"]) == (0, [130], [])
    assert found["kills"] >= (1 if name in READERS else 5)
    assert (found["inputs"], found["damaged"], found["at_once"]) == ([], [], [])
