"""Whether the code of a reference may branch on its sizes: read, not run."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence

KNOWING = {"isinstance", "issubclass", "hasattr", "callable"}
"""Functions whose result depends on no size."""
UNNAMED = {"setattr", "vars", "__dict__"}
"""What changes a module without naming what."""
RUNNING = {
    "exec",
    "eval",
    "compile",
    "import_module",
    "__import__",
    "exec_module",
    "load_module",
    "run_path",
    "run_module",
}
"""What runs code that is not there to be read."""


def branches_when_called(trees: Iterable[ast.AST]) -> bool:
    """Whether some code besides that of ``__init__``, and what only this calls, chooses by what may be a size.

    >>> code = "class M:\\n def __init__(self, n):\\n  self.wide = n > 4\\n def forward(self, x):\\n  "
    >>> both = (ast.parse(code + f"return x if {test} else -x") for test in ("self.wide", "len(x) > 4"))
    >>> [branches_when_called([each]) for each in both]
    [False, True]
    """
    nodes = [node for tree in trees for node in ast.walk(tree)]
    if any((node.name if isinstance(node, ast.alias) else _mentioned(node)) in RUNNING for node in nodes):
        return True
    functions = _functions(nodes)
    running = _running(nodes, functions)
    parts = [node for each in running for node in ast.walk(each)]
    names = {_mentioned(node) for node in parts}
    making = [each for each in functions.get("__init__", ()) if each not in running]
    made = {node for each in making for node in ast.walk(each)}
    changed = {
        node.attr for node in nodes if isinstance(node, ast.Attribute) and not _is_read(node) and node not in made
    }
    known = None if UNNAMED & names else changed
    return any(not _is_settled(test, known) for node in parts for test in _tests(node))


def _functions(nodes: Sequence[ast.AST]) -> dict[str, list[ast.AST]]:
    """The functions by their names; who calls a class runs its ``__init__``."""
    found: dict[str, list[ast.AST]] = {}
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.ClassDef):
            makers = [part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]
            found.setdefault(node.name, []).extend(makers)
    return found


def _running(nodes: Sequence[ast.AST], functions: Mapping[str, Sequence[ast.AST]]) -> list[ast.AST]:
    """The functions that may run where a module is called: those that torch and Python call by themselves, those that
    are handed on, by names in strings, too, and what these call."""
    called = {node.func for node in nodes if isinstance(node, ast.Call)}
    classes = {node.name for node in nodes if isinstance(node, ast.ClassDef)}
    named = any(
        isinstance(node, ast.Call) and _mentioned(node.func) == "getattr" and _is_computed(node) for node in nodes
    )
    found: list[ast.AST] = [node for node in nodes if isinstance(node, ast.Lambda)]
    waiting = {_mentioned(node) for each in found for node in ast.walk(each)}
    waiting |= {_mentioned(node) for node in nodes if node not in called} - classes
    waiting |= {name for name in functions if name == "forward" or (name.startswith("__") and name != "__init__")}
    if named:
        waiting |= functions.keys() - classes - {"__init__"}
    reached = set[str | None]()
    while waiting := (waiting & functions.keys()) - reached:
        reached |= waiting
        fresh = [function for name in waiting if name is not None for function in functions[name]]
        found += fresh
        waiting = {_mentioned(node) for each in fresh for node in ast.walk(each)}
    return found


def _is_computed(call: ast.Call) -> bool:
    return len(call.args) < 2 or not isinstance(call.args[1], ast.Constant)


def _is_read(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Load)


def _mentioned(node: ast.AST) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return node.id if isinstance(node, ast.Name) else None


def _tests(node: ast.AST) -> Iterator[ast.expr]:
    """What a piece of code chooses by."""
    if isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Assert)):
        yield node.test
    elif isinstance(node, ast.Match):
        yield node.subject
    elif isinstance(node, (ast.BoolOp, ast.Compare)):
        yield node
    elif isinstance(node, ast.comprehension):
        yield from node.ifs
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max", "bool"):
        yield node


def _is_settled(test: ast.expr, changed: set[str] | None) -> bool:
    """Whether no size has a part in it: constants, and what a module has from when it was made.

    ``changed`` are the names of what is given to it later; None where these are not known.
    """
    if isinstance(test, ast.Constant):
        return True
    if isinstance(test, ast.Attribute) and changed is not None:
        first: ast.expr = test
        while isinstance(first, ast.Attribute) and first.attr not in changed:
            first = first.value
        return isinstance(first, ast.Name) and first.id == "self"
    if isinstance(test, ast.BoolOp):
        return all(_is_settled(value, changed) for value in test.values)
    if isinstance(test, ast.UnaryOp):
        return _is_settled(test.operand, changed)
    if isinstance(test, ast.Compare):
        if all(isinstance(by, (ast.Is, ast.IsNot)) for by in test.ops):
            return True
        return all(_is_settled(value, changed) for value in (test.left, *test.comparators))
    return isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id in KNOWING
