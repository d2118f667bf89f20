"""Writes what follows from the functions themselves: the contents pages of the two vocabularies, and Tensor's methods.

    python tools/make_contents.py

- ``trtdsl/layers/__init__.py`` imports every public function: those under ``@operation``, ``@member`` or
  ``@prepared``, and the rows of a ``family``;
- ``trtdsl/functional/__init__.py`` has the files that offer them;
- ``trtdsl/functional/__init__.pyi`` is its contents page for editors and type checkers, with the rows of families
  written out: each has its own parameters and docstring there;
- ``trtdsl/definition/function_methods.pyi`` has every function of ``functional`` that torch.Tensor has as a method,
  each the function itself; Tensor reads its names there, and so do editors and type checkers.

A test fails when one of them is not current.
"""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from trtdsl.definition.function_methods import OPERATORS, REFLECTED  # noqa: E402

PACKAGE = ROOT / "trtdsl"
FUNCTIONAL, LAYERS = PACKAGE / "functional", PACKAGE / "layers"
METHODS = PACKAGE / "definition" / "function_methods.pyi"

FUNCTIONAL_HEAD = '''\
"""torch's vocabulary: same names, same arguments, same meaning; written in terms of :mod:`trtdsl.layers`.

In the examples, ``net`` is a new ``td.Network()``.
"""
'''
FUNCTIONAL_PAGE = (
    FUNCTIONAL_HEAD
    + """
from importlib import import_module as _import_module
from types import FunctionType as _Function

from .absent import absent as __getattr__  # noqa: F401

# The files that offer functions, by room; written by tools/make_contents.py. The stub has each with its parameters.
FILES = {{
{rows}}}

_modules = [_import_module(room + file, __name__) for room, files in FILES.items() for file in files.split()]
_functions = {{
    name: made
    for module in (*_modules, _import_module(".aliases", __name__))
    for name, made in vars(module).items()
    if isinstance(made, _Function) and hasattr(made, "__wrapped__")  # under @operation
    if module.__name__.endswith("aliases") or (made.__module__, made.__name__) == (module.__name__, name)
}}
globals().update(_functions)
__all__ = sorted(_functions)  # pyright: ignore[reportUnsupportedDunderAll]


def __dir__() -> list[str]:
    return __all__
"""
)
LAYERS_PAGE = '''\
"""TensorRT's vocabulary: one function per layer, with its evaluator and its cost beside it.

In the examples, ``net`` is a new ``td.Network()``.
"""

from typing import Any as _Any

from ..core.errors import no_attribute as _no_attribute
'''
METHODS_HEAD = '''\
"""Functions of trtdsl.functional as methods of Tensor; written by tools/make_contents.py."""

from typing import Any

from trtdsl import functional as F
from trtdsl.definition.tensor import Tensor

NAMES: tuple[str, ...]
OPERATORS: dict[str, str]
REFLECTED: tuple[str, ...]
'''
ELSEWHERE = {"cond", "of_constants", "scan", "while_loop"}  # td's own, which torch has not among its functions
CLASSES_AND_HELPERS = {"Conditional", "Loop", "int4_constant", "quantize_values"}  # of the layers floor
NO_METHODS = {"dequantize"}  # torch's method is of a quantized tensor, and takes no scale


class Function(NamedTuple):
    """A public function, and the file that it stands in."""

    node: ast.FunctionDef
    file: Path
    tree: ast.Module

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def module(self) -> str:
        """The file's name in an import."""
        return ".".join(("trtdsl", *self.file.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")

    @property
    def parameters(self) -> list[ast.arg]:
        return [*self.node.args.posonlyargs, *self.node.args.args]


def parsed(file: Path) -> ast.Module:
    """A file's statements."""
    return ast.parse(file.read_text())


def is_operation(node: ast.AST) -> bool:
    """Whether it is a function under ``@operation``."""
    return isinstance(node, ast.FunctionDef) and any(
        isinstance(decorator, ast.Name) and decorator.id == "operation" for decorator in node.decorator_list
    )


def written_out(tree: ast.Module) -> set[str]:
    """The functions that a file has definitions of with all that they take; rows of a family have none."""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {node.name for node in functions if len(extended(node, tree).args.kwonlyargs) == len(node.args.kwonlyargs)}


def offered(node: ast.stmt, tree: ast.Module) -> list[ast.FunctionDef]:
    """The public functions that a statement of a file makes: one under a decorator, or a family's."""
    if is_operation(node):
        return [extended(node, tree)]  # type: ignore[arg-type]
    if isinstance(node, ast.FunctionDef):
        calls = [each for each in node.decorator_list if isinstance(each, ast.Call)]
        return [common(call, tree, node.name) for call in calls if ast.unparse(call.func) in ("member", "prepared")]
    made = isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name)
    return members(node.value, tree) if made and node.value.func.id == "family" else []  # type: ignore[attr-defined]


def members(call: ast.Call, tree: ast.Module) -> list[ast.FunctionDef]:
    """The functions of a family as if each were written out: the common one's parameters but the first.

    The example that their common docstring has is left to ``help``.
    """
    text = len(call.args) > 1
    common_text = ast.literal_eval(call.args[1]).partition(">>>")[0] if text else "{}"
    found = []
    for row in call.keywords:
        assert isinstance(row.value, ast.Tuple) and row.arg, "a row of a family is (KEY, DOCSTRING)"
        key, words = row.value.elts
        member = common(call, tree, row.arg)
        shown = ast.literal_eval(key) if isinstance(key, ast.Constant) else ast.unparse(key)
        filled = inspect.cleandoc(common_text.rstrip()).replace("{}", inspect.cleandoc(ast.literal_eval(words)))
        filled = filled.replace("{name}", row.arg).replace("{key}", str(shown)) if text else filled
        member.body = [ast.Expr(ast.Constant(filled))]
        found.append(member)
    return found


def extended(node: ast.FunctionDef, tree: ast.Module) -> ast.FunctionDef:
    """A function with the keywords that a decorator of its own file adds, ``@stored``: those of its inner function."""
    made, decorators = copy.deepcopy(node), {ast.unparse(each) for each in node.decorator_list}
    for each in tree.body:
        if isinstance(each, ast.FunctionDef) and each.name in decorators:
            for inner in (inner for inner in each.body if isinstance(inner, ast.FunctionDef)):
                made.args.kwonlyargs += inner.args.kwonlyargs
                made.args.kw_defaults += inner.args.kw_defaults
    return made


def common(call: ast.Call, tree: ast.Module, name: str) -> ast.FunctionDef:
    """The function that a family, or a member of one, is given, without its first parameter and by another name."""
    given = ast.unparse(call.args[0])
    (written,) = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == given]
    made = copy.deepcopy(extended(written, tree))
    (made.args.posonlyargs or made.args.args).pop(0)
    made.name = name
    return made


def functions(room: Path) -> list[Function]:
    """The public functions of a floor."""
    found = []
    for file in sorted(room.rglob("*.py")):
        tree = parsed(file)
        found += [Function(node, file, tree) for statement in tree.body for node in offered(statement, tree)]
    by_place = {(function.file.stem, function.name): function for function in found}
    for name, place in aliases(room).items():
        node = copy.copy(by_place[place].node)
        node.name = name
        found.append(by_place[place]._replace(node=node))
    return found


def aliases(room: Path) -> dict[str, tuple[str, str]]:
    """The second names in a floor's ``aliases.py``: the file and the function that each stands for."""
    file = room / "aliases.py"
    found = {}
    for node in ast.parse(file.read_text()).body if file.exists() else ():
        if isinstance(node, ast.Assign):
            name, target = ast.unparse(node.targets[0]), ast.unparse(node.value)
            module, _, function = target.partition(".")
            found[name] = (module, function)
    return found


def page(room: Path, head: str, also: set[str]) -> str:
    """The text of a floor's ``__init__.py`` with an import of each name."""
    found = offers(room, set(), also)
    lines = [f"from .{module} import {', '.join(names)}\n" for module, names in found.items()]
    names = textwrap.fill(", ".join(sorted(f'"{name}"' for names in found.values() for name in names)), 116)
    listed = textwrap.indent(names, "    ")
    text = f"\n__all__ = [\n{listed},\n]  # fmt: skip\n\n\ndef __dir__() -> list[str]:\n    return __all__\n"
    text += "\n\ndef __getattr__(name: str) -> _Any:\n    raise _no_attribute(__name__, name, __all__)\n"
    return formatted(head + "\n" + "".join(lines) + text, room / "__init__.py")


def table_page(room: Path, head: str, leave_out: set[str]) -> str:
    """The text of a floor's ``__init__.py`` with the files that it is made of: the stub has an import of each name."""
    files: dict[str, list[str]] = {}
    for module in sorted(offers(room, leave_out, set()).keys() - {"aliases"}):
        folder, _, file = module.rpartition(".")
        files.setdefault(f".{folder}." if folder else ".", []).append(file)
    rows = "".join(f'"{folder}": "{" ".join(names)}",\n' for folder, names in sorted(files.items()))
    return formatted(head.format(rows=rows), room / "__init__.py")


def offers(room: Path, leave_out: set[str], also: set[str]) -> dict[str, list[str]]:
    """The names that a floor offers, by the module that each is imported from."""
    found: dict[str, list[str]] = {}
    for file in sorted(room.rglob("*.py")):
        if file == room / "__init__.py":
            continue
        module = ".".join(file.relative_to(room).with_suffix("").parts).removesuffix(".__init__")
        tree = parsed(file)
        for node in tree.body:
            names = [each.name for each in offered(node, tree) if each.name not in leave_out]
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name in also:
                names.append(node.name)
            if names:
                found.setdefault(module, []).extend(names)
    if second := list(aliases(room)):
        found["aliases"] = second
    return found


def stub_page(room: Path, head: str, leave_out: set[str]) -> str:
    """The text of a floor's ``__init__.pyi``: its page, with a declaration of each row of a family."""
    imports: set[str] = set()
    declarations: list[Function] = []
    found = {function.name: function for function in functions(room) if function.name not in leave_out}
    second = {name: function for name, (_, function) in aliases(room).items()}
    for name, function in found.items():
        if name in second:
            continue
        if name in written_out(function.tree):
            imports.add(f"from {function.module} import {name} as {name}\n")
        else:
            imports |= imports_of(function)
            declarations.append(function)
    shadowed = {name for name in found if hasattr(builtins, name)}
    written: dict[str, str] = {}  # the names of functions, by how they are declared
    for function in declarations:
        name = written.setdefault(declaration(function, shadowed), function.name)
        if name != function.name:
            second[function.name] = name
    declared = "\n".join(f"def {name}{text}" for text, name in written.items())
    also = "".join(f"{name} = {function}\n" for name, function in second.items())
    head += f"\nimport builtins\n{''.join(sorted(imports))}\n__all__: builtins.list[builtins.str]\n\n"
    return formatted(head + declared + also, room / "__init__.pyi")


def declaration(function: Function, shadowed: set[str]) -> str:
    """What follows a function's name: parameters and docstring; Python's own names that the page has, too, as
    ``builtins.int``.
    """
    bare = ast.FunctionDef(
        function.name, copy.deepcopy(function.node.args), [], [], copy.deepcopy(function.node.returns)
    )
    for node in ast.walk(bare):
        if isinstance(node, ast.Name) and node.id in shadowed:
            node.id = f"builtins.{node.id}"
    text = textwrap.indent(ast.get_docstring(function.node) or "", "    ").strip()
    returned = f" -> {ast.unparse(bare.returns)}" if bare.returns else ""
    return f'({ast.unparse(bare.args)}){returned}:\n    """{text}\n    """\n'


def methods() -> str:
    """The text of the stub with the functions that are methods: each is the function itself."""
    taken, second = own_methods() | NO_METHODS | ELSEWHERE, aliases(FUNCTIONAL)
    names = [
        function.name
        for function in sorted(functions(FUNCTIONAL), key=lambda function: function.name)
        if function.name not in taken and hasattr(torch.Tensor, function.name)
        if function.parameters and function.parameters[0].arg in ("input", "tensor")
    ]
    body = "class FunctionMethods:\n    __slots__ = ()\n\n"
    # A second name of a second name is Any to mypy.
    body += (
        "".join(f"    {name} = F.{second.get(name, ('', name))[1]}\n" for name in names) + "\n" + "".join(operators())
    )
    return formatted(f"{METHODS_HEAD}\n{body}", METHODS)


def operators() -> list[str]:
    """Python's operators, with what each takes."""
    taken = {"neg": "", "abs": "", "invert": "", "getitem": ", index: Any"}
    compared = ("eq", "ne")  # object's own give a bool
    names = [*OPERATORS, *(f"r{name}" for name in REFLECTED)]
    return [
        f"    def __{name}__(self{taken.get(name, ', other: Any')}) -> Tensor: ..."
        f"{'  # type: ignore[override]' * (name in compared)}\n"
        for name in names
    ]


def own_methods() -> set[str]:
    """The methods that Tensor has by hand, since they differ from the functions of their names."""
    found = set()
    for file in ("tensor.py", "methods.py"):
        for node in ast.walk(ast.parse((PACKAGE / "definition" / file).read_text())):
            if isinstance(node, ast.ClassDef):
                found |= {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
    return found


def imports_of(function: Function) -> set[str]:
    """The imports that the types in a function's declaration need, as lines of the stub."""
    annotations = [node.annotation for node in ast.walk(function.node.args) if isinstance(node, ast.arg)]
    names = {
        node.id
        for annotation in [*annotations, function.node.returns]
        if annotation is not None
        for node in ast.walk(annotation)
        if isinstance(node, ast.Name) and not hasattr(builtins, node.id)
    }
    return {f"from {home_of(name, function.file)} import {name}\n" for name in names}


def home_of(name: str, file: Path) -> str:
    """The module that a name in a file of the package comes from, through the modules that hand it on."""
    package = ("trtdsl", *file.relative_to(PACKAGE).parent.parts)
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and name in {alias.asname or alias.name for alias in node.names}:
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            source = (PACKAGE.parent / module.replace(".", "/")).with_suffix(".py")
            return home_of(name, source) if source.is_file() and PACKAGE in source.parents else module
    return ".".join([*package, file.stem])


def formatted(text: str, path: Path) -> str:
    """The text as ruff lays it out, its imports sorted."""
    ruff = [sys.executable, "-m", "ruff"]
    for command in (["check", "--select", "I,E501,F401,RUF022", "--fix-only", "--quiet"], ["format", "--quiet"]):
        arguments = [*ruff, *command, "--stdin-filename", str(path), "-"]
        text = subprocess.run(arguments, input=text, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    return text


def pages() -> dict[Path, str]:
    """What each written file should hold."""
    return {
        FUNCTIONAL / "__init__.py": table_page(FUNCTIONAL, FUNCTIONAL_PAGE, ELSEWHERE),
        LAYERS / "__init__.py": page(LAYERS, LAYERS_PAGE, CLASSES_AND_HELPERS),
        FUNCTIONAL / "__init__.pyi": stub_page(FUNCTIONAL, FUNCTIONAL_HEAD, ELSEWHERE),
        METHODS: methods(),
    }


def main() -> None:
    for path, text in pages().items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
