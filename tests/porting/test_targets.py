"""What port takes: modules, exported programs, methods that make one; and what the outputs are called."""

import sys

import pytest
import torch

import trtdsl as td
from trtdsl.porting import ported, write_files

MODULES = """
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.fc = nn.Linear(4, width)

    @classmethod
    def from_width(cls, width):
        return cls(width)

    def forward(self, x):
        hidden = self.fc(x)
        mean = hidden.mean(-1)
        logvar = hidden.var(-1)
        return mean, logvar


class Several(nn.Module):
    def forward(self, x):
        return x * 2, x + 1
"""


@pytest.fixture
def modules(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "encoders.py").write_text(MODULES)
    import encoders

    yield encoders
    sys.modules.pop("encoders")


def checked(target, tmp_path, **more):
    """The result of a port, and what a check of the written file says."""
    file, weights = tmp_path / "net.py", tmp_path / "net.safetensors"
    result = ported(target, {"x": "N,4"}, name="net", file=file, weights=weights, check=True, **more)
    write_files(result, file, weights, force=True)
    return result, td.load_spec(f"{file}:net")


def test_outputs_have_the_names_of_the_modules_variables(modules, tmp_path):
    result, spec = checked("encoders:Encoder", tmp_path)
    assert result.verdict.passed and td.check(spec).passed
    assert list(spec.define().outputs) == ["mean", "logvar"]


def test_outputs_are_called_as_they_are_given(modules, tmp_path):
    _, spec = checked("encoders:Several", tmp_path, outputs=["double", "next"])
    assert list(spec.define().outputs) == ["double", "next"] and td.check(spec).passed
    with pytest.raises(td.UsageError, match="forward gives 2 tensors, and these names are given: a"):
        checked("encoders:Several", tmp_path, outputs=["a"])


@pytest.mark.parametrize("name", ['"', '"""', "'\\", '": x}\nraise SystemExit  # '.replace("\n", "; "), "{x}", "é"])
def test_outputs_of_any_printable_name(modules, tmp_path, name):
    _, spec = checked("encoders:Several", tmp_path, outputs=[name, "next"])
    assert list(spec.define().outputs) == [name, "next"]


@pytest.mark.parametrize("name", ["a\nb", "a\0", "\udce9"])
def test_outputs_of_no_printable_name(modules, tmp_path, name):
    with pytest.raises(td.UsageError, match="the name of an output has control characters"):
        checked("encoders:Several", tmp_path, outputs=[name, "next"])


def test_expressions_that_are_returned_have_numbers(modules):
    spec = td.from_module(modules.Several(), ["N,4"])
    assert list(spec.define().outputs) == ["output_0", "output_1"]


def test_a_method_that_makes_the_module(modules, tmp_path):
    result, spec = checked("encoders:Encoder.from_width", tmp_path, arguments={"width": 6})
    assert "from encoders import Encoder\n" in result.text
    assert "    return Encoder.from_width(width=6)" in result.text and td.check(spec).passed


def test_a_module_is_written_without_a_reference(modules, tmp_path):
    module = modules.Encoder(3)
    result, spec = checked(module, tmp_path)
    assert result.verdict.passed and "reference" not in result.text
    assert any("no reference" in line for line in result.remarks(None, None))
    report = td.check(spec, reference=lambda: module)
    assert report.passed


def test_inputs_in_order_and_examples():
    text = td.port(torch.nn.Bilinear(3, 2, 4), ["N,3", torch.tensor([[0.5, 2.0]])], dims={"N": 1})
    assert '"input1": td.Input((1, 3))' in text and '"input2": td.Input((1, 2), sample=(0.5, 2.0))' in text


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")  # of torch.export itself
def test_an_exported_program_and_its_file(modules, tmp_path):
    size = torch.export.Dim("size", min=1, max=8)
    program = torch.export.export(modules.Encoder(3).eval(), (torch.rand(2, 4),), dynamic_shapes=({0: size},))
    result, _ = checked(program, tmp_path)
    assert result.verdict.passed
    torch.export.save(program, tmp_path / "encoder.pt2")
    result, spec = checked("encoder.pt2", tmp_path)
    assert result.verdict.passed and 'torch.export.load(Path(__file__).parent / "encoder.pt2")' in result.text
    assert td.check(spec).passed


def test_what_lies_beside_a_modules_file_is_imported_when_it_runs(tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "late.py").write_text(
        "from torch import nn\n\nclass Late(nn.Module):\n    def forward(self, x):\n"
        "        from late_helper import twice\n        return twice(x)\n"
    )
    (tmp_path / "sub" / "late_helper.py").write_text("def twice(x):\n    return x * 2\n")
    monkeypatch.chdir(tmp_path)
    assert "x * 2" in td.port("sub/late.py:Late", {"x": "3"})
    sys.modules.pop("late_helper")


def test_a_file_that_is_not_there():
    with pytest.raises(td.UsageError, match=r"no file absent\.pt2"):
        td.port("absent.pt2", {"x": "N,4"})


@pytest.mark.parametrize(
    "name",
    ['a",x=__import__("sys").exit()or"', '"""\n__import__("sys").exit()\n"""', "a\\", "'a\"", "\r\x0cimport\x0b"],
)
def test_no_files_name_is_code(tmp_path, name):
    (tmp_path / f"{name}.py").write_text(MODULES)
    result, spec = checked(f"{tmp_path / name}.py:Encoder", tmp_path)
    assert spec.reference == f"{name}.py:Encoder" and result.verdict.passed and td.check(spec).passed
    assert ported(f"{tmp_path / name}.py:Encoder", {"x": "N,4"}, weights=tmp_path / f"{name}.safetensors").text
