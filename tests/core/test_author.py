"""What the author's modules do while they are made; his errors and files are covered in tests/definition."""

import importlib
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import trtdsl as td
from trtdsl.core.author import authors_code, import_path, without_values
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


def test_modules_of_two_folders_that_have_the_same_names(tmp_path):
    """Each network has those of its own folder: an earlier network's are not taken for them."""
    for number, name in enumerate(("before", "after"), 1):
        (tmp_path / name / "inner_of_networks").mkdir(parents=True)
        (tmp_path / name / "number_of_networks.py").write_text(f"NUMBER = {number}\nmade = []\n")
        (tmp_path / name / "inner_of_networks" / "more.py").write_text(f"NUMBER = {10 * number}\n")
        (tmp_path / name / "net.py").write_text(NETWORK)
    found = []
    for name in ("before", "after", "before", "after"):  # a module is executed once, as ever
        network = td.load_spec(tmp_path / name / "net.py").define()
        found.append(float(td.interpret(network, {"x": torch.ones(1)})["y"]))
    assert found == [111, 222, 112, 223]


def test_threads_that_define_networks_of_several_folders_at_once(tmp_path):
    """Modules and Python's path are the process's: a thread must not get those of another's project."""
    for number in range(3):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "scale_of_threads.py").write_text(f"import time; time.sleep(0.2); SCALE = {number}")
        (tmp_path / str(number) / "net.py").write_text(
            "import trtdsl as td\n"
            "@td.network(inputs={'x': td.Input((1,))})\n"
            "def net(x):\n"
            "    import scale_of_threads\n"
            "    return {'y': x * scale_of_threads.SCALE}\n"
        )

    def scale(number):
        network = td.load_spec(tmp_path / str(number) / "net.py").define()
        return float(td.interpret(network, {"x": torch.ones(1)})["y"])

    with ThreadPoolExecutor(3) as pool:
        assert [*pool.map(scale, range(3))] == [0, 1, 2]


NETWORK = """
import trtdsl as td
from number_of_networks import NUMBER, made
from inner_of_networks import more


@td.network(inputs={"x": td.Input((1,))})
def net(x):
    import inner_of_networks.more as again

    made.append(x)
    return {"y": x * (NUMBER + more.NUMBER + 10 * again.NUMBER + len(made) - 1)}
"""


def test_an_authors_file_of_a_librarys_name_does_not_stand_for_it(tmp_path):
    """As d2l has a module d2l.torch: torch itself ends the process where torch._C cannot be imported."""
    (tmp_path / "torch.py").write_text("raise RuntimeError")
    with import_path(tmp_path):
        assert importlib.import_module("torch") is torch
