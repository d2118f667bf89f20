"""Weights of a network that are not in the module's state_dict, and what forward does to those that are."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import trtdsl as td
from trtdsl.porting import ported, write_files

MODULES = """
import numpy as np
import torch
from torch import nn


class Window(nn.Module):
    def __init__(self):
        super().__init__()
        self.window = nn.Linear(40, 40)

    def forward(self, x):
        window = torch.from_numpy(np.hanning(40).astype(np.float32))
        return self.window(x) * window


class Noise(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("noise", torch.randn(4), persistent=False)
        self.register_buffer("steps", torch.arange(4.0), persistent=False)

    def forward(self, x):
        return x * self.noise + self.steps


class MaxNorm(nn.Conv1d):
    def forward(self, x):
        self.weight.data = torch.renorm(self.weight.data, p=2, dim=0, maxnorm=0.5)
        return super().forward(x)


class Decay(nn.Linear):
    def forward(self, x):
        self.weight.data.mul_(0.9)
        return super().forward(x)
"""


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Ports a class into a file beside its weights."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "modules.py").write_text(MODULES)
    with open("modules.py", "a") as file:
        file.write("\n\ndef max_norm():\n    return MaxNorm(3, 4, 3)\n\ndef decay():\n    return Decay(4, 4)\n")

    def make(target, shape, dims=None):
        text, weights = tmp_path / "net.py", tmp_path / "net.safetensors"
        inputs = {"x": shape}
        result = ported(f"modules.py:{target}", inputs, dims=dims, file=text, weights=weights, check=True, name="net")
        write_files(result, text, weights)
        return result, td.load_spec(f"{text}:net")

    return make


def test_long_constants_are_in_the_weights_file_under_the_authors_name(made):
    result, spec = made("Window", "N,40")
    assert set(result.constants) == {"window_2"}, "the module has a part of that name"
    assert '"window_2",  # (40,) float32, made at ' in result.text
    assert result.verdict.passed and td.check(spec).passed
    torch.testing.assert_close(result.constants["window_2"], torch.hann_window(40, False))


def test_a_buffer_that_is_drawn_is_the_modules_own_everywhere(made):
    result, spec = made("Noise", "N,4")
    assert set(result.constants) == {"noise"} and "buffers=True" in result.text
    assert td.check(spec).passed, "the reference is made anew, with another noise"
    x = torch.rand(2, 4)
    expected = x * result.module.noise + torch.arange(4.0)
    torch.testing.assert_close(td.interpret(spec.define(), {"x": x})["output"], expected)


def test_data_that_is_replaced_is_what_the_weight_is(made):
    result, spec = made("max_norm", "N,3,T", {"T": (3, 5, 9)})
    assert "F.renorm(w.weight, 2, 0, 0.5)" in result.text and td.check(spec).passed
    assert any("forward changes its weight" in note for note in result.notes)


def test_parameters_are_not_written_to(made):
    with pytest.raises(td.UnsupportedError, match=r"modules\.py:\d+: forward changes the parameter weight in place"):
        made("decay", "N,4")


def test_a_port_leaves_the_parameters_as_they_are():
    class Decay(torch.nn.Linear):
        def forward(self, x):
            self.weight.data.mul_(0.9)
            return super().forward(x)

    module = Decay(4, 4)
    before = module.weight.detach().clone()
    with pytest.raises(td.UnsupportedError):
        td.from_module(module, ["N,4"])
    assert torch.equal(module.weight, before)


def test_a_constant_that_is_missing_is_named(made, tmp_path):
    made("Window", "N,40")
    left = {name: value for name, value in load_file(tmp_path / "net.safetensors").items() if name != "window_2"}
    save_file(left, tmp_path / "net.safetensors")
    with pytest.raises(td.WeightsError, match="window_2: missing: a constant of the network"):
        td.load_spec(f"{tmp_path / 'net.py'}:net").define()


TABLES = torch.arange(20.0), torch.arange(20.0) + 1


class Half(torch.nn.Module):
    def forward(self, x):
        first, _ = x * TABLES[0], x * TABLES[1]
        return first


def test_a_constant_of_what_is_left_out_is_left_out():
    td.check(td.from_module(Half(), ["N,20"])).raise_for_mismatch()


class Windowed(torch.nn.Module):
    """A window of a table that Python looks up by the batch."""

    windows = tuple(np.hanning(40 + number).astype(np.float32)[:40] for number in range(4))

    def forward(self, x):
        return x * torch.from_numpy(self.windows[x.shape[0]])


def test_a_constant_that_differs_is_said_in_words():
    message = r"test_constants.py:\d+: .*mul gets a constant that has other numbers at N = 2 than at N = 1: the size "
    with pytest.raises(td.UnsupportedError, match=message):
        td.from_module(Windowed(), {"x": "N,40"}, dims={"N": (1, 2, 3)})


class Even(torch.nn.Module):
    def forward(self, x):
        return x * torch.from_numpy(np.full(40, 0.025, np.float32))


def test_a_check_draws_no_other_values_for_what_forward_makes():
    """The module computes it itself, whatever the file says."""
    report = td.check(td.from_module(Even(), ["N,40"], dims={"N": (1, 2, 4)}))
    assert report.passed, report


class Shifted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("by", torch.tensor([1.5, 2.0]), persistent=False)

    def forward(self, x):
        along, down = torch.linspace(-1, 1, 20), torch.linspace(-1, 1, 16)
        y, x_ = torch.meshgrid(down - 2 * self.by[1] / 15, along - 2 * self.by[0] / 19, indexing="ij")
        return torch.nn.functional.grid_sample(x, torch.stack([x_, y], -1)[None], align_corners=True)


def test_a_constant_point_that_is_rounded_to_below_its_pixel_is_read_where_float32_reads_it():
    """Two pixels down, which float32 computes as a little less: the place and the part of it go together."""
    report = td.check(td.from_module(Shifted(), ["1,3,16,20"], dims={}))
    assert report.passed, report


class Filtered(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.by = torch.nn.Parameter(torch.full((33,), 0.5))

    def forward(self, x):
        window = torch.hann_window(64)
        spectrum = torch.view_as_real(torch.stft(x, 64, 16, window=window, return_complex=True))
        spectrum = torch.tanh(spectrum.sum(-1, keepdim=True)) * spectrum * self.by[:, None, None]
        return torch.istft(torch.view_as_complex(spectrum.contiguous()), 64, 16, window=window)


def test_a_window_that_forward_makes_is_rounded_in_the_weights():
    """In exact arithmetic the module's own is another one, by what float32 does not hold."""
    spec = td.from_module(Filtered().eval(), ["2,256"], dims={})
    assert spec.constants and not spec.reference_buffers()
    report = td.check(spec)
    assert report.passed, report


class Unwritten(nn.Module):
    """Numbers by functions that a network does not have: as exact as the file's other numbers are."""

    def forward(self, x):
        places = torch.linspace(1, 7, 5) / 3
        return x * torch.lgamma(places) + torch.i0(torch.lgamma(places)) + torch.tensor(0.1).digamma()


def test_numbers_of_functions_without_a_counterpart_are_not_rounded():
    found = ported(Unwritten(), ["N,5"], dims={"N": (1, 2, 3)}, check=True)
    assert found.verdict.passed, found.verdict.text
    places = torch.linspace(1, 7, 5, dtype=torch.float64) / 3
    for numbers in (torch.lgamma(places), torch.i0(torch.lgamma(places))):
        assert all(repr(number) in found.text for number in numbers.tolist())
