"""Whether the code of a reference that ran may branch on sizes: it is noted where it runs, and read."""

from __future__ import annotations

import ast
import dis
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType
from typing import Any

from ...core.errors import PACKAGE
from ...core.files.names import is_file
from ...core.imports import is_library, tree_of

KNOWING = {"isinstance", "issubclass", "hasattr", "callable"}
"""Functions whose result depends on no size."""
UNNAMED = {"setattr", "vars", "__dict__"}
"""What changes a module without naming what."""


@contextmanager
def noting(codes: set[CodeType | None]) -> Iterator[None]:
    """Inside, the code of the Python functions that run is noted; None where a profiler runs, and nobody else can."""

    def note(frame: Any, event: str, arg: Any) -> None:
        if event == "call":
            codes.add(frame.f_code)

    if sys.getprofile() is not None:
        codes.add(None)
        yield
        return
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


def branches_where_run(codes: Collection[CodeType | None]) -> bool:
    """Whether some of the author's code that ran chooses by what may be a size."""
    lines: dict[str, set[int]] = {}
    for code in codes:
        if code is None:
            return True
        file = code.co_filename
        if file.startswith((PACKAGE, "<frozen")) or is_library(file):
            continue
        if is_file(file):
            lines.setdefault(file, set()).add(code.co_firstlineno)
        elif any("_IF_" in each.opname for each in dis.get_instructions(code)):  # its text is not there to be read
            return True
    functions = [
        node
        for file, begins in lines.items()
        for node in ast.walk(tree_of(Path(file)))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and _first_line(node) in begins
    ]
    nodes = {node for function in functions for node in ast.walk(function)}
    changed = {node.attr for node in nodes if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)}
    known = changed if UNNAMED.isdisjoint(map(_mentioned, nodes)) else None
    return any(not _is_settled(test, known) for node in nodes for test in _tests(node))


def _first_line(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> int:
    return min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])


def _mentioned(node: ast.AST) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None


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
