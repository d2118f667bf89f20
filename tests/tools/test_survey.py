"""The survey of libraries: what it finds of modules of torch and of others, and the table that it writes."""

import importlib
import json
import os
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

ROOT = Path(__file__).parents[2]


@pytest.fixture
def survey(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    yield importlib.import_module("survey")
    for name in [name for name in sys.modules if name.partition(".")[0] in ("survey", "surveyed", "measured")]:
        del sys.modules[name]


class Zero(nn.Module):
    """A layer that begins as zeros, as diffusion models have them."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)
        nn.init.zeros_(self.fc.weight)

    def forward(self, x):
        return self.fc(x)


class Folded(nn.Module):
    """A module whose batch becomes a number, another at each of more sizes than a file has networks."""

    def forward(self, x):
        return x * [0.5 * number * number for number in range(41)][x.shape[0]]


class Random(nn.Module):
    def forward(self, x):
        return x + torch.randperm(3)


class Slow(nn.Module):
    def forward(self, x):
        while True:
            x = x + 1


def subjects(survey):
    make = {"Zero": Zero, "Random": Random, "Absent": lambda: nn.Absent()}
    for name, maker in make.items():
        yield survey.Subject(name, maker, ["N,3"], {"N": (1, 2, 3)})


def test_modules_are_judged_one_by_one_and_the_table_gives_reasons(survey, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(survey, "LIBRARIES", {"torch": lambda: subjects(survey), "absent": lambda: iter(())})
    document, results = tmp_path / "survey.md", tmp_path / "results.jsonl"
    begin, end = survey.PARTS[False]
    document.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    monkeypatch.setattr(survey, "DOCUMENT", document)
    options = ["--results", str(results), "--write"]
    survey.main(options)
    version = torch.__version__.split("+")[0]
    text = document.read_text()
    assert f"| torch {version} | 3 | 1 | 1 | Zero |\n| all | 3 | 1 | 1 | |\n" in text
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    assert "| torch Random | UnsupportedError: " in text and "torch.randperm draws random numbers" in text
    assert "| torch Absent | AttributeError: " in text
    assert "absent cannot be imported: ModuleNotFoundError" in capsys.readouterr().err
    monkeypatch.setattr(survey, "measured", lambda *_: pytest.fail("it is measured already"))
    survey.main(options)
    assert document.read_text() == text


def test_what_is_not_equal_with_dynamic_sizes_is_tried_with_fixed_ones(survey):
    folded = survey.Subject("Folded", Folded, ["N,3"], {"N": (1, 2, 40)})
    result = survey.measured("torch", folded, 60)
    assert "torch.Tensor.mul gets 2.0 at N = 2 and 0.5 at N = 1" in result.why and not result.fixed
    assert "| all | 1 | 0 | 1 | |" in survey.table([result])


def test_a_result_counts_for_its_commit_alone(survey, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(survey, "LIBRARIES", {"torch": lambda: subjects(survey)})
    results = tmp_path / "results.jsonl"
    row = {"library": "torch", "version": "1", "name": "Zero", "why": "", "seconds": 1.0}
    results.write_text(json.dumps({**row, "commit": "of another day"}) + "\n")
    survey.main(["--results", str(results), "--only", "Zero", "--minutes", "0"])
    out = capsys.readouterr().out
    assert "| all | 0 | 0 | 0 | |" in out and "Not measured: torch Zero." in out
    survey.main(["--results", str(results), "--only", "Zero"])
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    assert [each["commit"] == survey.Results(None).commit for each in rows] == [False, True]


def test_a_module_that_ends_its_process_does_not_end_the_survey(survey):
    kill = survey.Subject("Kill", lambda: os._exit(7), ["N,3"], {"N": (1, 2, 3)})
    assert survey.measured("torch", kill, 60).why == "its process ended with exit code 7"


def test_a_pattern_chooses_modules(survey, monkeypatch, capsys):
    monkeypatch.setattr(survey, "LIBRARIES", {"torch": lambda: subjects(survey)})
    survey.main(["torch", "--only", "^Zero$"])
    assert "| all | 1 | 1 | 1 | |" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        survey.main(["nothing"])


def test_a_module_has_a_limit_of_time(survey):
    slow = survey.Subject("Slow", Slow, ["N,3"], {"N": (1, 2, 3)})
    assert "more than 1 s" in survey.measured("torch", slow, 1).why


def test_every_subject_of_torch_has_a_name_of_its_own(survey):
    names = [subject.name for subject in survey.LIBRARIES["torch"]()]
    assert len(names) == len(set(names)) > 15


def test_weights_that_are_all_alike_stay(survey):
    layer = nn.Conv1d(3, 2, 4)
    nn.init.ones_(layer.weight)
    assert survey.varied(layer).weight.eq(1).all()


PACKAGE = """
import torch
from torch import nn


class Mixer(nn.Module):
    def __init__(self, d_model: int, num_heads: int, dropout: float, bias: bool = True):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(d_model), nn.MultiheadAttention(d_model, num_heads, dropout)

    def forward(self, tokens, mask=None):
        x = self.norm(tokens)
        return tokens + self.attention(x, x, x, need_weights=False)[0]


class Stem(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)

    def forward(self, image):
        return self.conv(image).relu()


class Draws(nn.Module):
    def forward(self, x):
        return x + torch.rand(())


class Constant(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)
"""


def test_modules_of_any_library_are_found_by_guessing(survey, monkeypatch, tmp_path, capsys):
    (tmp_path / "unseen").mkdir()
    (tmp_path / "unseen" / "__init__.py").write_text("from unseen.blocks import Mixer\n")
    (tmp_path / "unseen" / "blocks.py").write_text(PACKAGE)
    (tmp_path / "unseen" / "broken.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = {subject.name.rpartition(".")[2]: subject for subject in survey.guessed.guessed("unseen")}
    assert set(found) == {"Mixer", "Stem"}
    assert [*found["Mixer"].inputs] == ["tokens"] and "N" in found["Mixer"].dims
    assert set(found["Stem"].dims) == {"N", "H", "W"}
    survey.main(["--guessed", "unseen", "--only", "Stem"])
    assert "| all | 1 | 1 | 1 | |" in capsys.readouterr().out
    for wrong in (["--guessed"], ["--guessed", "unseen", "--write"], ["--guessed", "unseen", "--published"]):
        with pytest.raises(SystemExit):
            survey.main(wrong)
        assert "--guessed takes names of libraries" in capsys.readouterr().err
