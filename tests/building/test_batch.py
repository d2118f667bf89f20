"""Several networks tuned and built in processes of their own; failures are covered in test_build and in the cli."""

import json

import pytest
from support.naive import FILE_END

import trtdsl as td
from trtdsl.building.batch import build_several
from trtdsl.display.results import print_outcome


@pytest.fixture(autouse=True)
def silu_by_sigmoid(monkeypatch):
    """The files end by changing the default in this process, too: it is put back."""
    monkeypatch.setattr("trtdsl.functional.pointwise.activation.is_linear", lambda x: False)


TEXT = """
import torch
import trtdsl as td
import trtdsl.functional as F

@td.network(inputs={{"x": td.Input((4, 16, 32))}})
def {name}(x):
    w = torch.full((32, 32), 0.1)
    return F.linear(F.silu(F.linear(x, w)), w)
"""


def test_each_network_is_tuned_before_it_is_built(tmp_path, capsys):
    files = [tmp_path / f"{name}.py" for name in ("first", "second")]
    for file in files:
        file.write_text(TEXT.format(name=file.stem) + FILE_END)
    outcomes = build_several([str(file) for file in files], tmp_path, jobs=2, tune_seconds=60)
    for outcome, file in zip(outcomes, files, strict=True):
        assert outcome.built and outcome.tuning["changes"][0]["function"] == "silu"
        manifest = json.loads((tmp_path / f"{file.stem}.engine.json").read_text())
        assert manifest["tuning"]["file"] == f"{file.stem}.tuning.json"
        assert manifest["program"]["bytes"] == outcome.tuning["after"]["bytes"] < outcome.tuning["before"]["bytes"]
    print_outcome(outcome, quiet=False)
    assert "tuned: 3 → 2 launches" in capsys.readouterr().out
    (outcome,) = build_several([str(files[0])], tmp_path, tuning=False)
    assert outcome.built and outcome.tuning is None
    assert td.load_spec(str(files[0])).tuning_file is not None
