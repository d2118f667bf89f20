"""The contents page: what is imported at once, what when it is first used."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import trtdsl as td


def late_imports():
    """The names that type checkers see, and the modules they come from."""
    page = ast.parse(Path(td.__file__).read_text())
    blocks = [node for node in page.body if isinstance(node, ast.If)]
    assert len(blocks) == 1
    return {alias.asname: f".{line.module}" for line in blocks[0].body for alias in line.names}


def test_what_comes_later_is_what_type_checkers_see():
    assert late_imports() == td._LATER


@pytest.mark.parametrize("name", sorted(td._LATER))
def test_a_later_name_is_its_own_and_never_a_module(name):
    found = getattr(td, name)
    assert not isinstance(found, ModuleType)
    assert found.__name__ == name
    assert name in dir(td)
    assert inspect.getmodule(found).__name__.startswith(f"trtdsl{td._LATER[name]}")


def test_a_function_stays_a_function_when_the_module_of_its_name_is_imported():
    code = "import trtdsl.check, trtdsl.build; import trtdsl as td; assert callable(td.check) and callable(td.build)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_trtdsl_imports_neither_torch_nor_tensorrt_nor_what_comes_later():
    code = "import sys, trtdsl; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = set(done.stdout.split())
    assert "trtdsl.functional" in loaded
    assert not loaded & {"torch", "numpy", "tensorrt", "tensorrt_rtx", "safetensors", "cuda", "rich", "typer"}
    assert not loaded & {f"trtdsl{module}" for module in td._LATER.values()}


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'trtdsl' has no attribute 'biuld'"):
        _ = td.biuld
