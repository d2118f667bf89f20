"""The contents pages and the stub of Tensor's methods are those that follow from the functions."""

import ast
import importlib.util
import inspect
import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import trtdsl.functional as F
from trtdsl.definition.function_methods import NAMES

ROOT = Path(__file__).parents[2]
VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def load():
    spec = importlib.util.spec_from_file_location("make_contents", ROOT / "tools" / "make_contents.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tool():
    return load()


def test_generated_files_are_current(tool):
    for path, text in tool.pages().items():
        assert path.read_text() == text, f"{path.relative_to(ROOT)}: run python tools/make_contents.py"


def test_a_method_in_the_stub_is_the_function_of_its_name(tool):
    """Read by Python itself, not by the tool that wrote it."""
    (stub,) = [node for node in ast.parse(tool.METHODS.read_text()).body if isinstance(node, ast.ClassDef)]
    methods = {ast.unparse(node) for node in stub.body if isinstance(node, ast.Assign)} - {"__slots__ = ()"}
    assert {text.partition(" = ")[0] for text in methods} == {*NAMES}
    for name, function in (text.split(" = F.") for text in methods):
        assert getattr(F, name) is getattr(F, function), name
    assert len(methods) > 190


def test_an_editor_sees_each_member_of_a_family_as_it_runs():
    """The declarations of the page's stub, read by Python itself, beside the functions."""
    tree = ast.parse((ROOT / "trtdsl" / "functional" / "__init__.pyi").read_text())
    declared = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    imported = {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    second = {ast.unparse(node.targets[0]): node.value.id for node in tree.body if isinstance(node, ast.Assign)}
    assert set(F.__all__) <= declared.keys() | imported | second.keys()
    assert len(declared) > 50
    for name, of in second.items():
        assert inspect.getdoc(getattr(F, name)).startswith(inspect.getdoc(getattr(F, of)).partition(">>>")[0]), name
        assert inspect.signature(getattr(F, name)) == inspect.signature(getattr(F, of)), name
    for name, node in declared.items():
        found = getattr(F, name)
        shown, left = ast.get_docstring(node), inspect.getdoc(found)
        assert left.startswith(shown), name
        assert left == shown or left.removeprefix(shown).startswith("\n\n>>> "), name
        given = {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
        assert given == inspect.signature(found).parameters.keys(), name
        returned = inspect.signature(found).return_annotation
        assert node.returns is not None and ast.unparse(node.returns).removeprefix("builtins.") == returned, name


@pytest.mark.skipif(find_spec("pyright") is None, reason="pyright is not installed")
def test_a_type_checker_knows_the_parameters_of_every_function(tmp_path):
    file = tmp_path / "shown.py"
    file.write_text("import trtdsl.functional as F\n" + "".join(f"reveal_type(F.{name})\n" for name in F.__all__))
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(ROOT)]}))
    command = [sys.executable, "-m", "pyright", "-p", tmp_path, "--pythonpath", sys.executable, "--outputjson"]
    said = json.loads(subprocess.run(command, capture_output=True, text=True).stdout)["generalDiagnostics"]
    shown = dict(re.match(r'Type of "F\.(\w+)" is "(.*)"$', each["message"], re.DOTALL).groups() for each in said)
    assert shown.keys() == {*F.__all__}
    for name, text in shown.items():
        named = [
            each.name for each in inspect.signature(getattr(F, name)).parameters.values() if each.kind not in VARIADIC
        ]
        missing = [each for each in named if not re.search(rf"\b{each}: ", text)]
        assert not missing, (name, missing, text)


def test_a_new_function_comes_onto_its_page_and_among_the_methods(tool, tmp_path, monkeypatch):
    room = tmp_path / "functional"
    (room / "pointwise").mkdir(parents=True)
    (room / "pointwise" / "news.py").write_text(
        "from ...definition.operation import operation\n"
        "from ...definition.tensor import Tensor\n\n\n"
        "@operation\ndef digamma(input: Tensor, *, scale: float = 1) -> Tensor:\n"
        '    """The logarithmic derivative of the gamma function."""\n\n\n'
        "@operation\ndef not_of_torch(input: Tensor) -> Tensor:\n"
        '    """No method: torch has none."""\n\n\n'
        "def _gamma(log: bool, input: Tensor, *, scale: float = 1) -> Tensor: ...\n\n\n"
        "lgamma, mvlgamma = family(\n"
        "    _gamma,\n"
        '    """The {} of the gamma function, log={key}, as F.{name}."""'
        ",\n"
        '    lgamma=(True, "logarithm"),\n'
        '    mvlgamma=(False, "value"),\n'
        ")\n\n\n"
        "@member(_gamma, None)\n"
        "def polygamma():\n"
        '    """A derivative of digamma."""\n\n\n'
        "def helper(): ...\n"
    )
    monkeypatch.setattr(tool, "FUNCTIONAL", room)
    monkeypatch.setattr(tool, "PACKAGE", ROOT / "trtdsl")
    page = tool.page(room, tool.LAYERS_PAGE, set())
    assert page.splitlines()[8:13] == [
        "from .pointwise.news import digamma, lgamma, mvlgamma, not_of_torch, polygamma",
        "",
        "__all__ = [",
        '    "digamma", "lgamma", "mvlgamma", "not_of_torch", "polygamma",',
        "]  # fmt: skip",
    ]
    methods = tool.methods()
    assert (
        "    digamma = F.digamma\n    lgamma = F.lgamma\n    mvlgamma = F.mvlgamma\n    polygamma = F.poly" in methods
    )
    assert "not_of_torch" not in methods
    monkeypatch.setattr(tool, "PACKAGE", tmp_path)
    monkeypatch.setattr(tool, "imports_of", lambda function: set())
    stub = tool.stub_page(room, tool.FUNCTIONAL_HEAD, set())
    assert "digamma as digamma\n" in stub and "polygamma as polygamma\n" in stub
    assert "def lgamma(input: Tensor, *, scale: float = 1) -> Tensor:" in stub
    assert '"""The logarithm of the gamma function, log=True, as F.lgamma."""' in stub
    table = tool.table_page(room, tool.FUNCTIONAL_PAGE, {"lgamma"})
    assert '    ".pointwise.": "news",\n' in table
    assert "helper" not in page + stub + methods + table
