"""A module whose paths are no one program is a file of several networks, each for some of the sizes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import trtdsl as td
from trtdsl.interpreter.interpret import Interpreter
from trtdsl.porting import ported

pytestmark = pytest.mark.long

FILE = "modules_of_parts.py"
TEXT = """
import math
import numpy as np
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(4, 4), nn.LayerNorm(4)

    def forward(self, x):
        x = self.first(x)
        x = x if x.shape[1] < 7 else x.transpose(1, 2).softmax(1).transpose(1, 2)
        return torch.relu(self.norm(x))


class Short(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.small = nn.Conv1d(4, 4, 7), nn.Linear(4, 4)
        self.head = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 2))
        self.blocks = nn.ModuleList(Block() for _ in range(2))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        x = self.small(x).mean(1) if x.shape[1] < 7 else self.wide(x.transpose(1, 2)).mean(2)
        return self.head(x)


class Blocks(nn.Module):
    def forward(self, x):
        return torch.cat([part.softmax(1) for part in x.split(4, dim=1)], 1)


class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        rows = x.unbind(1)
        memory = rows[0][:, None]
        for row in rows[1:]:
            query = self.fc(row)[:, None]
            memory = torch.cat((memory, (query @ memory.transpose(1, 2)).softmax(-1) @ memory + query), 1)
        return memory


class Doubled(nn.Module):
    def forward(self, x):
        for k in range(int(math.log2(x.shape[1]))):
            x = x + torch.roll(x, 2**k, 1)
        return x


class Table(nn.Module):
    def forward(self, x):
        table = torch.from_numpy(np.random.RandomState(int(x.shape[1])).randn(3, 40).astype("float32"))
        for part in x.unbind(1)[1:]:
            x = torch.cat((x, part[:, None]), 1)
        return x @ table


class Many(nn.Module):
    def forward(self, x):
        for _ in range(x.shape[1] % 5):
            x = torch.nn.functional.conv1d(x[:, None], torch.ones(1, 1, 3), padding=1)[:, 0]
        return x


class Recurrent(nn.Module):
    def forward(self, x):
        total = torch.zeros_like(x)
        for shift in range(min(3, x.shape[1])):
            total = torch.tanh(total + torch.nn.functional.pad(x[:, : x.shape[1] - shift], (0, 0, shift, 0)))
        state, states = torch.zeros_like(x[:, 0]), torch.zeros_like(x)
        for step in range(x.shape[1]):
            state = torch.tanh(state * 0.5 + total[:, step])
            states[:, step] = state
        return states
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / FILE).write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    return lambda name: f"{FILE}:{name}"


def test_a_short_input_is_served_by_a_network_of_its_own(module):
    result = ported(module("Short"), {"x": "N,T,4"}, dims={"N": (1, 2, 3), "T": (4, 6, 9)}, check=True)
    assert result.verdict is not None and result.verdict.passed and result.name == "short"
    assert result.text.count("@td.network(") == 2 and result.text.count('part_of="short"') == 2
    assert 'T = td.Dim("T", min=4, opt=6, max=6)\nT2 = td.Dim("T", min=7, opt=7, max=9)' in result.text
    assert "def block(" in result.text and "def block_2(" in result.text  # each its own
    assert result.text.count("F.layer_norm(x, (8,)") <= 2 and result.text.count("def sequential(") <= 1
    assert any("the file has 2 networks" in note and "short.engines.json" in note for note in result.notes)
    assert "T2 >= 7" in result.text and any("T >= 7" in each and "short_t7_9" in each for each in result.requirements)
    Path("short.py").write_text(result.text)
    reference = result.module
    for name, length in (("short_t4_6", 5), ("short_t7_9", 8)):
        network = td.load_spec(f"short.py:{name}").define(weights=result.weights)
        x = torch.rand(2, length, 4)
        (got,) = Interpreter(network)({"x": x}).values()
        torch.testing.assert_close(got, reference(x))


def test_parts_of_another_number_are_another_network(module):
    result = ported(module("Blocks"), {"x": "N,T,3"}, dims={"N": (1, 2, 3), "T": (2, 3, 8)}, check=True)
    assert result.verdict is not None and result.verdict.passed
    assert "def blocks_t2_4(" in result.text and "def blocks_t5_8(" in result.text


def test_each_network_has_its_own_constants(module):
    result = ported(module("Table"), {"x": "N,T,3"}, dims={"N": (1, 2, 3), "T": (4, 4, 5)}, check=True)
    assert result.verdict is not None and result.verdict.passed
    assert "# (N, 5, 3)" in result.text or "# (N, 6, 3)" in result.text  # it was defined, with the constants of all
    Path("made.py").write_text(result.text)
    for length in (4, 5):
        network = td.load_spec(f"made.py:table_t{length}").define(weights=result.weights)
        x = torch.rand(2, length, 3)
        torch.testing.assert_close(Interpreter(network)({"x": x}), {"output": result.module(x)})


def test_a_squeeze_of_a_size_that_may_be_one_gives_another_rank_there(module):
    class Squeezed(nn.Module):
        def forward(self, x):
            return x.squeeze().cumsum(-1)

    result = ported(Squeezed(), {"x": "N,3,T"}, dims={"N": (1, 2, 3), "T": (2, 4, 6)}, check=True)
    assert result.verdict is not None and result.verdict.passed
    assert "def squeezed_n1(" in result.text and "def squeezed_n2_3(" in result.text
    result = ported(Squeezed(), {"x": "N,3,T"}, dims={"N": (2, 2, 3), "T": (2, 4, 6)})
    assert any("N != 1" in each for each in result.requirements)


def test_a_list_of_what_values_choose_of_each_row_is_a_network_for_each_number_of_rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    class Padded(nn.Module):
        def forward(self, x):
            rows = [row[row > 0] for row in x]
            assert all(row.shape[0] < 9 for row in rows)  # no size of an input's
            padded = torch.zeros(x.shape[0], max(row.shape[0] for row in rows))
            for place, row in enumerate(rows):
                padded[place, : row.shape[0]] = row
            return padded

    result = ported(Padded(), {"x": "N,6"}, dims={"N": (1, 2, 3)}, check=True)
    assert result.verdict is not None and result.verdict.passed
    Path("made.py").write_text(result.text)
    for count in (1, 2, 3):
        network = td.load_spec(f"made.py:padded_n{count}").define()
        x = torch.randn(count, 6)
        torch.testing.assert_close(Interpreter(network)({"x": x}), {"output": Padded()(x)})


@pytest.mark.parametrize(
    ("name", "sizes", "parts", "why"),
    [
        ("Memory", (1, 3, 4), ["t1", "t2", "t3", "t4"], "44: forward takes another path here"),
        ("Doubled", (1, 4, 17), ["t1", "t2_3", "t4_7", "t8_15", "t16_17"], "54: forward takes another path here"),
    ],
)
def test_a_loop_that_is_no_scan_is_a_network_for_each_number_of_rounds(module, name, sizes, parts, why):
    result = ported(module(name), {"x": "N,T,3"}, dims={"N": (1, 2, 3), "T": sizes}, check=True)
    assert result.verdict is not None and result.verdict.passed
    assert any(f"modules_of_parts.py:{why}" in note for note in result.notes)
    count = int(result.verdict.text.split()[-4])
    assert count >= 3 * len(parts)  # of all: N is 1, 2 and 3 in each
    Path("made.py").write_text(result.text)
    low = sizes[0]
    for part in parts:
        spec = td.load_spec(f"made.py:{name.lower()}_{part}")
        network = spec.define(weights=result.weights) if result.weights else spec.define()
        high = int(part.rpartition("_")[2].lstrip("t"))
        for length in range(low, high + 1):
            x = torch.rand(2, length, 3)
            (got,) = Interpreter(network)({"x": x}).values()
            torch.testing.assert_close(got, result.module(x))
        low = high + 1
    assert low == sizes[2] + 1 and result.text.count("@td.network(") == len(parts)


def test_with_loops_that_are_scans_a_file_has_a_network_for_each_range(module):
    """Rounds that are written out would be a way for each of the sizes."""
    result = ported(module("Recurrent"), {"x": "N,T,3"}, dims={"N": (1, 2, 3), "T": (2, 6, 12)}, check=True)
    assert result.verdict is not None and result.verdict.passed
    assert result.text.count("@td.network(") == 2 and "td.scan(" in result.text.partition("def recurrent_t3_12(")[2]
    Path("made.py").write_text(result.text)
    for name, length in (("t2", 2), ("t3_12", 3), ("t3_12", 11)):
        x = torch.rand(2, length, 3)
        (got,) = Interpreter(td.load_spec(f"made.py:recurrent_{name}").define())({"x": x}).values()
        torch.testing.assert_close(got, result.module(x))


def test_more_than_sixteen_paths_are_refused_with_what_to_give(module):
    with pytest.raises(td.UnsupportedError, match=r"modules_of_parts.py:69: the module takes another path where T = 4"):
        ported(module("Many"), {"x": "N,T"}, dims={"T": (4, 10, 30)})
    with pytest.raises(td.UnsupportedError, match="(?s)another path where T = 1: .*at most 16 networks"):
        ported(module("Memory"), {"x": "N,T,3"}, dims={"T": (1, 3, 40), "N": (1, 2, 3)})


def test_a_module_that_is_given_as_an_object_is_refused_for_a_spec_alone():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.fc = nn.Conv1d(4, 4, 7), nn.Linear(4, 4)

        def forward(self, x):
            return self.fc(x).mean(1) if x.shape[1] < 7 else self.conv(x.transpose(1, 2)).mean(2)

    with pytest.raises(td.UnsupportedError, match="takes another path where T = 7.*dims="):
        td.from_module(Two(), {"x": "1,T,4"}, dims={"T": (4, 6, 9)})
    text = td.port(Two(), {"x": "N,T,4"}, dims={"N": (1, 2, 3), "T": (4, 6, 9)})
    assert "def two_t4_6(" in text and "def two_t7_9(" in text and 'weights="two.safetensors"' in text
