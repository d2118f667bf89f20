"""Fixtures: a small network on disk, with weights and a torch reference."""

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "layers")]

NETWORK = """\
import trtdsl as td
import trtdsl.functional as F

N = td.Dim("N", min=1, opt=2, max=4)


@td.network(inputs={"x": td.Input((N, 3, 5, 5))}, weights="small.safetensors", reference="reference.py:Model")
def small(x, w):
    x = F.conv2d(x, w.conv.weight, w.conv.bias, padding=1)
    x = F.relu(F.batch_norm(x, w.bn.running_mean, w.bn.running_var, w.bn.weight, w.bn.bias))
    x = F.mean(x, (2, 3))
    return {"scores": F.linear(x, w.fc.weight, w.fc.bias)}
"""

REFERENCE = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.bn = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4, 6)

    def forward(self, x):
        return self.fc(torch.relu(self.bn(self.conv(x))).mean((2, 3)))
"""


@pytest.fixture(scope="session")
def made_weights(tmp_path_factory):
    """Gives the weights file of a network by its name, as tools/make_weights.py makes it; made once."""
    from trtdsl.core.author import load_module

    tool = load_module(Path(__file__).parents[1] / "tools" / "make_weights.py")
    folder = tmp_path_factory.mktemp("weights")

    def made(name):
        path = folder / f"{name}.safetensors"
        return path if path.exists() else tool.make(name, folder)

    return made


@pytest.fixture
def small(tmp_path):
    """A folder with small.py, its reference and its weights."""
    return make_small(tmp_path / "project")


@pytest.fixture(scope="session")
def small_folder(tmp_path_factory):
    """As ``small``, for tests that change nothing in it."""
    return make_small(tmp_path_factory.mktemp("small") / "project")


def make_small(folder):
    import torch
    from safetensors.torch import save_file

    folder.mkdir()
    (folder / "small.py").write_text(NETWORK)
    (folder / "reference.py").write_text(REFERENCE)
    generator = torch.Generator().manual_seed(0)
    shapes = {"conv.weight": (4, 3, 3, 3), "conv.bias": (4,), "fc.weight": (6, 4), "fc.bias": (6,)}
    shapes |= {f"bn.{name}": (4,) for name in ("running_mean", "running_var", "weight", "bias")}
    weights = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    weights["bn.running_var"] = weights["bn.running_var"].abs() + 0.5
    weights["bn.num_batches_tracked"] = torch.tensor(7)
    save_file(weights, folder / "small.safetensors")
    return folder


@pytest.fixture
def command_line(monkeypatch):
    """Gives, for a folder, what runs a command line there and judges its exit code."""
    from typer.testing import CliRunner

    from trtdsl.cli.app import app

    def within(folder):
        monkeypatch.chdir(folder)
        monkeypatch.setenv("COLUMNS", "200")

        def run(*arguments, code=0):
            done = CliRunner().invoke(app, [str(argument) for argument in arguments])
            assert done.exit_code == code, (done.exit_code, done.stdout, done.stderr, done.exception)
            assert "Traceback" not in done.stderr
            return done

        return run

    return within
