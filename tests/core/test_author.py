"""What the author's modules do while they are made; his errors and files are covered in tests/definition."""

import os

import pytest
import torch

from trtdsl.core.author import authors_code, without_values
from trtdsl.core.errors import DefinitionError


def test_parameters_are_not_filled_and_all_else_is():
    filled = []

    class Watched(torch.nn.Linear):
        def reset_parameters(self):
            torch.nn.init.constant_(self.weight, 3.0)
            filled.append(torch.zeros(2).normal_().abs().sum() > 0)

    with without_values():
        module = Watched(2, 2)
    assert filled == [True]
    assert not bool((module.weight == 3.0).all())
    assert bool((Watched(2, 2).weight == 3.0).all())


def test_modules_are_not_filled_by_what_a_library_puts_into_torch_nn_init(monkeypatch):
    first = torch.nn.init.normal_
    monkeypatch.setattr(torch.nn.init, "normal_", lambda tensor, *how, **more: first(tensor, *how, **more))
    torch.nn.init.normal_.__name__ = "normal_"
    with without_values():
        parameter = torch.nn.init.normal_(torch.nn.Parameter(torch.full((4,), 7.0)))
    assert torch.equal(parameter.detach(), torch.full((4,), 7.0))


def test_an_import_that_a_library_reports_late_has_its_first_cause():
    """As transformers raises ModuleNotFoundError for whatever one of its modules raises."""
    late = ModuleNotFoundError("Could not import module 'Model'.")
    late.__cause__ = RuntimeError("the driver is missing")
    with pytest.raises(DefinitionError) as caught, authors_code(doing="the reference cannot be made: "):
        raise late
    said = "the reference cannot be made: ModuleNotFoundError: Could not import module 'Model'."
    assert caught.value.message == f"{said} (because of RuntimeError: the driver is missing)"


def test_the_authors_code_goes_to_a_directory_and_the_caller_stays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    with authors_code():
        os.chdir("data")
    assert os.getcwd() == str(tmp_path)
    with authors_code():  # which reads its data from there, as without trtdsl
        assert os.getcwd() == str(tmp_path / "data")
        os.chdir("..")
    with authors_code():
        assert os.getcwd() == str(tmp_path)
        os.chdir("data")
        os.rmdir(tmp_path / "data")
    assert os.getcwd() == str(tmp_path)
