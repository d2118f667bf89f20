"""What an editor shows: each public name, and each method of the public classes, has a docstring and a signature."""

import inspect
import re
from importlib.resources import files
from types import ModuleType

import pytest

import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L
from trtdsl.definition.function_methods import NAMES


def public(owner):
    """The public names of a module or a class with what they are; submodules are no names of it."""
    found = {name: getattr(owner, name) for name in dir(owner) if not name.startswith("_")}
    return {name: each for name, each in found.items() if not isinstance(each, ModuleType)}


@pytest.mark.parametrize("module", [td, F, L])
def test_a_public_module_shows_its_names_alone(module):
    """Neither rooms nor what its file imports: ``__all__``, and every name of it is there."""
    assert sorted(module.__all__) == sorted(dir(module))
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        assert hasattr(module, name), name
    names = {}
    exec(f"from {module.__name__} import *", names)
    assert set(module.__all__) <= names.keys()


def test_the_package_lists_its_names_by_task():
    errors = {
        name for name in td.__all__ if isinstance(getattr(td, name), type) and issubclass(getattr(td, name), Exception)
    }
    listed = re.findall(r"``(\w+)``", td.__doc__)
    assert sorted(listed) == sorted(set(td.__all__) - errors - {"__version__"})


def complain(name, found):
    """What is missing of one function, class or property."""
    if not (inspect.getdoc(found) or "").strip():
        yield f"{name} has no docstring"
    if callable(found):
        try:
            inspect.signature(found)
        except (TypeError, ValueError):
            yield f"{name} has no signature"


@pytest.mark.parametrize(("module", "least"), [(td, 75), (F, 350), (L, 45)])
def test_every_name_of_a_public_module_has_a_docstring_and_a_signature(module, least):
    names = public(module)
    assert len(names) >= least
    assert not [line for name, found in names.items() for line in complain(name, found)]


def test_every_method_of_the_public_classes_has_a_docstring_and_a_signature():
    checked, missing = 0, []
    for title, cls in public(td).items():
        if not inspect.isclass(cls) or issubclass(cls, BaseException):
            continue
        for name, found in public(cls).items():
            own = inspect.getattr_static(cls, name)
            if callable(found) or isinstance(own, property):
                checked += 1
                missing += complain(f"{title}.{name}", found)
    assert checked > 300
    assert not missing


def test_a_method_of_a_tensor_is_documented_as_its_function():
    assert len(NAMES) > 190
    for name in NAMES:
        ours, theirs = getattr(td.Tensor, name), getattr(F, name)
        assert (inspect.getdoc(ours), inspect.signature(ours)) == (inspect.getdoc(theirs), inspect.signature(theirs))


def test_type_checkers_are_told_that_the_package_is_typed():
    """PEP 561: an empty py.typed beside the code, and the stubs."""
    assert files("trtdsl").joinpath("py.typed").is_file()
    assert files("trtdsl").joinpath("__init__.pyi").is_file()


def test_missing_docstrings_and_signatures_are_found():
    assert list(complain("f", lambda: None)) == ["f has no docstring"]
    assert [line.rpartition(" no ")[2] for line in complain("type", type)] == ["signature"]
