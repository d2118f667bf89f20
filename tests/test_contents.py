"""The contents page: every name of the stub is there, is its own, and costs nothing before it is used."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import trtdsl as td

ROOMS = {"functional", "layers"}  # the two vocabularies are modules


def contents():
    """The names in the stub, and the modules they come from."""
    page = ast.parse(Path(td.__file__).with_suffix(".pyi").read_text())
    lines = [node for node in page.body if isinstance(node, ast.ImportFrom)]
    return {alias.asname: f".{line.module or ''}" for line in lines for alias in line.names}


def test_the_package_offers_what_the_stub_says_and_nothing_else():
    assert (
        set(td.__all__) == set(contents()) == {name for name in dir(td) if not name.startswith("__")} | {"__version__"}
    )


@pytest.mark.parametrize("name", sorted(set(contents()) - ROOMS - {"__version__"}))
def test_a_name_is_its_own_and_never_a_module(name):
    found = getattr(td, name)
    assert not isinstance(found, ModuleType)
    assert found.__name__ == name
    assert inspect.getmodule(found).__name__.startswith(f"trtdsl{contents()[name]}")


def test_no_name_is_also_a_submodule():
    """Importing a submodule sets an attribute of its name on the package, which would hide the function."""
    folder = Path(td.__file__).parent
    submodules = {path.stem for path in folder.iterdir()}
    assert not (set(contents()) - ROOMS) & submodules


def test_importing_trtdsl_imports_neither_torch_nor_tensorrt_nor_any_room():
    code = "import sys, trtdsl; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"torch", "numpy", "tensorrt", "tensorrt_rtx", "safetensors", "cuda", "rich", "typer"}
    assert not {name for name in loaded if name.startswith("trtdsl.")}


def test_writing_a_network_imports_nothing_that_works_on_written_networks():
    code = "import sys, trtdsl as td, trtdsl.functional; td.network, td.Input, td.Dim; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = set(done.stdout.split())
    assert "trtdsl.functional.einsum" in loaded
    assert not loaded & {"torch", "numpy", "tensorrt", "tensorrt_rtx", "safetensors", "cuda", "rich", "typer"}
    later = ("checking", "building", "engine", "programs", "porting", "display", "cli")
    assert not {name for name in loaded if name.startswith(tuple(f"trtdsl.{room}" for room in later))}


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"trtdsl has no 'biuld' \(nearest: .*build"):
        _ = td.biuld


def test_the_functions_are_those_of_their_stub():
    import trtdsl.functional as F

    stub = ast.parse(Path(F.__file__).with_suffix(".pyi").read_text())
    imported = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    names = [alias.asname for node in imported for alias in node.names if alias.asname is not None]
    names += [node.name for node in stub.body if isinstance(node, ast.FunctionDef)]
    names += [ast.unparse(node.targets[0]) for node in stub.body if isinstance(node, ast.Assign)]
    assert F.__all__ == sorted(names)
    assert all(callable(getattr(F, name)) for name in names)


def test_the_layers_are_those_that_their_page_imports():
    import trtdsl.layers as L

    page = ast.parse(Path(L.__file__).read_text())
    imported = [alias for node in page.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    names = {alias.asname or alias.name for alias in imported}
    assert set(L.__all__) == {name for name in names if name[0] != "_"}
