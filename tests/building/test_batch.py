"""Several networks tuned and built in processes of their own; failures are covered in test_build and in the cli."""

import json
import os
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import save_file
from support.naive import FILE_END

import trtdsl as td
from trtdsl.building.batch import build_several
from trtdsl.display.results import print_outcome
from trtdsl.engine.loading.manifest import read_manifest

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def silu_by_sigmoid(monkeypatch):
    """The files end by changing the default in this process, too: it is put back."""
    monkeypatch.setattr("trtdsl.functional.pointwise.activation.silu_of", lambda x: "sigmoid")


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


HELPED = """
import sys
from pathlib import Path

sys.path.{adding}str(Path(__file__).with_name("lib")))
import scaling
import torch
import trtdsl as td


class Scaled(torch.nn.Module):
    def forward(self, x):
        return x * scaling.FACTOR


@td.network(inputs={{"x": td.Input((4,))}}, reference=Scaled)
def {name}(x):
    return {{"y": x * scaling.FACTOR}}
"""


@pytest.mark.parametrize("adding", ["insert(0, ", "append("])
def test_a_module_of_another_project_does_not_stand_for_one_of_the_same_name(tmp_path, adding):
    for name, factor in (("double", 2.0), ("triple", 3.0)):
        (tmp_path / name / "lib").mkdir(parents=True)
        (tmp_path / name / "lib" / "scaling.py").write_text(f"FACTOR = {factor}\n")
        (tmp_path / name / f"{name}.py").write_text(HELPED.format(name=name, adding=adding))
    outcomes = build_several([str(tmp_path / name / f"{name}.py") for name in ("double", "triple")], tmp_path)
    assert [outcome.error for outcome in outcomes] == [None, None]
    x = torch.tensor([1.0, 2.0, 3.0, 4.0])
    for name, factor in (("double", 2.0), ("triple", 3.0)):
        y = td.evaluate_engine(tmp_path / f"{name}.engine", {"x": x})["y"]
        assert y.tolist() == [factor, 2 * factor, 3 * factor, 4 * factor]


def test_a_process_that_dies_takes_no_other_with_it(tmp_path):
    dying = TEXT.replace("    w =", "    import os, sys\n    if 'pytest' not in sys.modules: os._exit(9)\n    w =")
    for name, text in (("dying", dying), ("living", TEXT)):
        (tmp_path / f"{name}.py").write_text(text.format(name=name))
    dead, alive = build_several([str(tmp_path / f"{name}.py") for name in ("dying", "living")], tmp_path, jobs=2)
    assert (dead.exit_code, dead.built) == (8, False) and "died, with the exit code 9" in dead.error
    assert alive.built and (tmp_path / "living.engine").is_file()


WAITING = """
import time
from pathlib import Path
import trtdsl as td

@td.network(inputs={"x": td.Input((4,))})
def waiting(x):
    Path(__file__).with_name("began").touch()
    time.sleep(60)
    return x
"""


def begun(folder, waiting):
    """A command that builds two networks, of which one is waiting."""
    (folder / "waiting.py").write_text(waiting)
    (folder / "living.py").write_text(TEXT.format(name="living"))
    command = [sys.executable, "-m", "trtdsl", "build", "waiting.py", "living.py", "-o", "out/", "-j", "2"]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, env=os.environ)
    while not (folder / "began").exists():
        time.sleep(0.1)
    return process


def test_what_is_told_to_end_ends_its_processes(tmp_path):
    process = begun(tmp_path, WAITING)
    process.terminate()
    began = time.monotonic()
    said = process.communicate()[1]
    assert process.returncode == 130 and time.monotonic() - began < 20  # it would be 60
    assert said.endswith("cancelling…\nerror: cancelled; what was not complete was not written\n")


def test_a_process_whose_command_was_killed_says_nothing_and_writes_whole_files(tmp_path):
    process = begun(tmp_path, WAITING.replace("60", "6"))
    process.kill()
    said = process.communicate()[1]  # ends with the last process that may write there
    assert "Traceback" not in said, said
    for manifest in (tmp_path / "out").glob("*.json"):
        read_manifest(manifest.with_suffix(""))


def test_weights_that_no_other_process_can_take(tmp_path):
    save_file({"k": torch.ones(3)}, tmp_path / "w.safetensors")
    head = "import trtdsl as td\n@td.network(inputs={'x': td.Input((3,))}, weights='w.safetensors')\n"
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(f"{head}def {name}(x, w):\n    return x * w.k\n")
    weights = td.Weights(tmp_path / "w.safetensors")
    with pytest.raises(td.UsageError, match="in processes of their own, which take files: cannot pickle"):
        td.build_several([str(tmp_path / "one.py"), str(tmp_path / "two.py")], tmp_path, weights=weights, check=False)
    assert not list(tmp_path.glob("*.engine*"))
