"""Loops of an author's in Python's numbers: written as loops, or counted in a remark."""

import pytest
import torch

import trtdsl as td
from tests.support.port_oracle import assert_every_pass_keeps_the_meaning
from trtdsl.porting import ported, statements
from trtdsl.porting.tracing.recording.doubles import Doubles

MODULES = """
import torch
from torch import nn


class Counted(nn.Module):
    def forward(self, x):
        y = x
        for i in range(40):
            y = torch.sin(y) + x * (i + 2)
        return y


class Gathered(nn.Module):
    def forward(self, x):
        out = []
        for i in range(1, 12, 2):
            out.append(x[:, i] * 2 + torch.sin(x[:, 0]))
        return torch.stack(out, 1)


class Uneven(nn.Module):
    def forward(self, x):
        y = x
        for i in range(20):
            y = torch.sin(y) + x * (2 + i * i)
        return y


class Later(nn.Module):
    def forward(self, x):
        kept = []
        for i in range(6):
            part = torch.sin(x[:, i]) * 2
            kept.append(part)
        for j in range(6):
            x = x + part[:, None] * (j + 2) + kept[j][:, None]
        return x * kept[2][:, None], part
"""

APART = """
import torch


class Apart(torch.nn.Module):
    def forward(self, x):
        for i in range(40):
            x = torch.sin(x) if i in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29) else torch.cos(x) + i
        return x
"""


@pytest.fixture
def modules(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "looping.py").write_text(MODULES)
    space = {}
    exec(compile(MODULES, str(tmp_path / "looping.py"), "exec"), space)
    return space


def body(name):
    result = ported(f"looping.py:{name}", {"x": "N,12"})
    return result.text[result.text.index("def ") :], result.notes


def test_numbers_of_equal_distance_are_a_range(modules):
    text, notes = body("Counted")
    assert "    for number in range(2, 41):\n" in text and len(text.split("\n")) < 8 and not notes
    text, _ = body("Gathered")
    assert " in range(1, 12, 2):\n" in text, text


def test_other_numbers_are_listed(modules):
    text, notes = body("Uneven")
    assert "    for number in (2, 3, 6, 11, 18," in text and not notes


@pytest.mark.parametrize("name", ["Counted", "Gathered", "Uneven", "Later"])
def test_every_pass_keeps_their_meaning(modules, name):
    assert_every_pass_keeps_the_meaning(modules[name](), {"x": torch.rand(3, 12)}, name)


def test_rounds_that_stay_written_out_are_counted(modules, tmp_path):
    (tmp_path / "apart.py").write_text(APART)
    notes = ported("apart.py:Apart", {"x": "N,12"}).notes
    assert len(notes) == 1 and notes[0].startswith("loops are written out where their rounds differ (")


def test_rounds_over_parts_of_a_module_that_is_a_list_have_their_own_weights():
    parts = [torch.nn.Sequential(torch.nn.LayerNorm(4), torch.nn.Linear(4, 4), torch.nn.GELU()) for _ in range(3)]
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), *parts, torch.nn.Linear(4, 2)).eval()
    td.check(td.from_module(module, ["N,4"])).raise_for_mismatch()


class Shifted(torch.nn.Module):
    def forward(self, x):
        out = []
        for row in range(5):
            for column in range(5):
                start = row + column * row % 3
                out.append((x[:, :8] * x[:, start : start + 8]).sum(1))
        return torch.stack(out)


def test_the_search_for_rounds_reads_each_statement_once_from_each_start(monkeypatch):
    read, calls = statements.parts, []
    monkeypatch.setattr(statements, "parts", lambda expression: calls.append(0) or read(expression))
    lines = td.port(Shifted, {"x": "N,16"}).count("\n")
    assert len(calls) < lines**2, (len(calls), lines)


class Ranks(torch.nn.Module):
    """Rounds that give more dimensions each time, or fewer, and whose last sizes are asked for (kuwahara-torch)."""

    def forward(self, x):
        for step in (1, 1, 2, 2):
            x = x.unfold(-2, 3, step)
        y = x.mean(dim=(-1, -2)).view(*x.size()[:4], -1)
        for _ in range(3):
            y = y.mean(-1)
        return y.reshape(y.shape[0], -1)


def test_rounds_of_other_ranks_are_no_loop():
    assert ported(Ranks(), {"x": "N,2,H,9"}, dims={"N": (1, 2, 3), "H": (8, 9, 11)}, check=True).verdict.passed


class Laid(torch.nn.Module):
    """Takes the sizes of images that it is given, and nothing else of them."""

    def forward(self, images, x):
        kept = []
        for image in images:
            height, width = image.shape[-2:]
            kept.append(torch.linspace(0, 1, height)[:, None] * torch.linspace(1, 2, width) * x.mean())
        return torch.cat([each.flatten() for each in kept])


class Laying(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Laid()

    def forward(self, x):
        return self.part([x[:, :, 1:], x[:, 2:, :], x[:, 3:, 1:]], x)


def test_no_loop_of_a_function_goes_over_tensors_of_which_it_has_sizes_alone():
    assert ported(Laying(), {"x": "2,6,5"}, check=True).verdict.passed


class Growing(torch.nn.Module):
    """Layers that each take all that those before them gave (DenseNet); ``listed``: as a list, or one by one."""

    def __init__(self, listed, count=5, first=1):
        super().__init__()
        self.listed, self.first, self.count = listed, first, count
        for number in range(count):
            self.add_module(f"dense{first + number}", (Listed if listed else Dense)(4 + 2 * number))

    def forward(self, x):
        features = [x]
        for number in range(self.first, self.first + self.count):
            layer = getattr(self, f"dense{number}")
            fresh = layer(features) if self.listed else layer(*features)
            features.append(fresh)
        return torch.cat(features, 1)


class Dense(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, 2)

    def forward(self, *features):
        return torch.relu(self.linear(torch.cat(features, 1)))


class Listed(Dense):
    def forward(self, features):
        return torch.relu(self.linear(torch.cat(features, 1)))


@pytest.mark.parametrize("listed", [True, False])
def test_a_list_that_each_layer_adds_to_is_a_loop(listed):
    text = ported(Growing(listed), {"x": "N,4"}).text
    assert "features = [x]\n" in text and 'w[f"dense{number}"]' in text and text.count("append(") == 1, text
    assert "for number in range(1, 6):\n" in text and text.count("def ") == 2, text
    assert_every_pass_keeps_the_meaning(Growing(listed).eval(), {"x": torch.rand(3, 4)}, "Growing")


class Several(torch.nn.Module):
    """Blocks of other numbers of layers."""

    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Growing(True, count) for count in (3, 5, 4))
        self.between = torch.nn.ModuleList(torch.nn.Linear(4 + 2 * count, 4) for count in (3, 5, 4))

    def forward(self, x):
        for block, linear in zip(self.blocks, self.between):
            x = linear(block(x))
        return x


def test_blocks_of_other_numbers_of_layers_are_one_function():
    torch.manual_seed(0)
    result = ported(Several(), {"x": "N,4"}, dims={"N": (1, 2, 3)}, check=True)
    assert "for number in range(1, count + 1):\n" in result.text and result.text.count("def ") == 3, result.text
    assert "count=5" in result.text and result.verdict.passed, result.text
    assert_every_pass_keeps_the_meaning(Several().eval(), {"x": torch.rand(3, 4)}, "Several")


def test_numbers_with_zeros_before_them_and_few_layers_stay_written_out():
    class Padded(Growing):
        def __init__(self):
            super().__init__(True, 4)
            for number in range(1, 5):
                self.add_module(f"dense0{number}", self._modules.pop(f"dense{number}"))

        def __getattr__(self, name):
            return super().__getattr__(f"dense0{name[5:]}" if name[:5] == "dense" and name[5] != "0" else name)

    text = ported(Padded(), {"x": "N,4"}).text
    assert "range(" not in text and text.count(".append(") == 4, text
    assert ".append(" not in ported(Growing(True, 1), {"x": "N,4"}).text
    assert_every_pass_keeps_the_meaning(Padded().eval(), {"x": torch.rand(3, 4)}, "Padded")


class Between(torch.nn.Module):
    """Takes a list at each length, keeps what it computes of a short one for later, and one part is for all rounds."""

    def __init__(self):
        super().__init__()
        for number in range(1, 5):
            self.add_module(f"part{number}", torch.nn.Linear(4, 4))

    def forward(self, x):
        kept, early = [x], []
        for number in range(1, 5):
            early.append(torch.stack(kept).sum(0))
            y = getattr(self, f"part{number}")(torch.stack(kept).mean(0)) + self.part1(x)
            kept.append(y)
        return torch.stack(kept).amax(0) * early[1] - early[2] / 2 + kept[2]


class Written(torch.nn.Module):
    """No list of the author's: each is written (ESRGAN)."""

    def __init__(self):
        super().__init__()
        for number in range(1, 5):
            self.add_module(f"conv{number}", torch.nn.Linear(4 * number, 4))

    def forward(self, x):
        x1 = torch.relu(self.conv1(x))
        x2 = torch.relu(self.conv2(torch.cat((x, x1), 1)))
        x3 = torch.relu(self.conv3(torch.cat((x, x1, x2), 1)))
        return self.conv4(torch.cat((x, x1, x2, x3), 1)) * 0.2 + x


@pytest.mark.parametrize("kind", [Between, Written])
def test_what_a_growing_list_held_stays_what_it_was(kind):
    torch.manual_seed(0)
    assert_every_pass_keeps_the_meaning(kind().eval(), {"x": torch.rand(3, 4)}, kind.__name__)
    text = ported(kind(), {"x": "N,4"}).text
    assert (kind is Written) == (".append(" not in text), text


def test_a_list_of_many_rounds_is_filled_by_a_loop():
    class Filter(torch.nn.Module):
        def forward(self, x):
            state, states = x[:, 0], []
            for step in range(60):
                state = 0.9 * state + 0.1 * x[:, step]
                states.append(state)
            return torch.stack(states, 1)

    text = td.port(Filter(), {"x": "N,60"})
    assert "    for number in range(60):" in text
    assert text.count("0.9") == 1


def test_what_lengths_are_counted_of_is_computed_once(monkeypatch):
    class Filter(torch.nn.Module):
        def forward(self, x):
            state = x[:, 0]
            for step in range(60):
                state = 0.9 * state + 0.1 * x[:, step]
            return state

    calls, made = [], Doubles.made
    monkeypatch.setattr(Doubles, "made", lambda self, op: calls.append(op) or made(self, op))
    td.port(Filter(), {"x": "2,60"})
    assert 0 < len(calls) <= 16 * len({*calls})


class Dilated(torch.nn.Module):
    """Convolutions whose padding and dilation go up together, one after the other or in blocks (TCN, trRosetta)."""

    def __init__(self, blocks, dilations=(1, 2, 4, 1, 2, 4)):
        super().__init__()
        self.layers = torch.nn.ModuleList()
        for each in dilations:
            conv = torch.nn.Conv1d(4, 4, 3, padding=each, dilation=each)
            self.layers.append(Block(conv) if blocks else torch.nn.Sequential(conv, torch.nn.ELU()))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(x + layer(x))
        return x


class Block(torch.nn.Module):
    def __init__(self, conv):
        super().__init__()
        self.conv, self.out = conv, torch.nn.Conv1d(4, 4, 1)

    def forward(self, x):
        return self.out(torch.relu(self.conv(x)))


@pytest.mark.parametrize("blocks", [True, False])
def test_numbers_that_go_up_together_are_one(blocks):
    torch.manual_seed(0)
    text = ported(Dilated(blocks), {"x": "N,4,T"}, dims={"N": (1, 2, 3), "T": (8, 9, 12)}).text
    assert "    for dilation, layer in zip((1, 2, 4, 1, 2, 4), w.layers):\n" in text, text
    assert "padding=dilation, dilation=dilation" in text and (not blocks or "w: td.Scope, dilation: int)" in text), text
    assert_every_pass_keeps_the_meaning(Dilated(blocks).eval(), {"x": torch.rand(3, 4, 9)}, "Dilated")


class Two(Dilated):
    """Two numbers that differ in two ways each: by chance the same."""

    def __init__(self):
        super().__init__(True, (1, 1, 1, 1))
        for place in (1, 3):
            self.layers[place].conv = torch.nn.Conv1d(4, 4, 5, padding=2, groups=2)


def test_numbers_that_are_two_alone_are_not_one():
    text = ported(Two(), {"x": "N,4,9"}).text
    assert "padding: int, groups: int = 1" in text and "padding=padding, groups=groups)" in text, text


class Wave(torch.nn.Module):
    """A list whose first value is made before the rounds that are alike (WaveNet)."""

    def __init__(self):
        super().__init__()
        self.filters = torch.nn.ModuleList(torch.nn.Conv1d(4, 8, 3, padding=2**i, dilation=2**i) for i in range(5))
        self.skips = torch.nn.ModuleList(torch.nn.Conv1d(4, 4, 1) for _ in range(5))

    def forward(self, x):
        skips = []
        for conv, out in zip(self.filters, self.skips):
            a, b = conv(x).chunk(2, 1)
            h = torch.tanh(a) * torch.sigmoid(b)
            skips.append(out(h))
            x = x + h
        return torch.stack(skips).sum(0), skips[2]


def test_a_list_begins_with_what_was_there_before_the_rounds():
    torch.manual_seed(0)
    text = ported(Wave(), {"x": "N,4,9"}).text
    assert "skips = [skip]\n" in text and "F.stack(skips)" in text, text
    assert_every_pass_keeps_the_meaning(Wave().eval(), {"x": torch.rand(3, 4, 9)}, "Wave")
