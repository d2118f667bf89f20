"""Shapes as comments: what each line makes, in the dimensions of the file, read while the file is defined once."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from ...definition.tensor import Tensor
from .lines import WIDTH

NOTE = "__note__"


def noted(text: str, place: str, note: Callable[[int, str, Any], None]) -> tuple[Any, Mapping[str, Any]]:
    """The text's code, in which every assignment tells ``note`` its line, its variable's name and the value."""
    tree = _Notes().visit(ast.parse(text, place))
    return compile(ast.fix_missing_locations(tree), place, "exec"), {NOTE: note}


class _Notes(ast.NodeTransformer):
    def visit_Assign(self, node: ast.Assign) -> Any:
        (target,) = node.targets
        names = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
        calls = [self._call(node, name.id) for name in names if isinstance(name, ast.Name) and name.id != "_"]
        return [node, *calls]

    @staticmethod
    def _call(node: ast.Assign, name: str) -> ast.stmt:
        given = [ast.Constant(node.end_lineno), ast.Constant(name), ast.Name(name, ast.Load())]
        call = ast.Expr(ast.Call(ast.Name(NOTE, ast.Load()), given, []))
        return ast.copy_location(call, node)


class Shapes:
    """The shapes that the lines of a file make, where every call of its functions makes the same."""

    def __init__(self) -> None:
        self.found: dict[int, dict[str, set[str]]] = {}

    def note(self, line: int, name: str, value: Any) -> None:
        """Keeps the shape of a Tensor."""
        if isinstance(value, Tensor):
            self.found.setdefault(line, {}).setdefault(name, set()).add(str(value.shape))

    def commented(self, text: str) -> str:
        """The text, with a comment behind each line that makes one Tensor of another shape than the line before."""
        lines, last = text.split("\n"), ""
        for number, line in enumerate(lines, start=1):
            if line.startswith(("def ", "@")):
                last = ""
            shapes = self.found.get(number, {})
            if len(shapes) != 1:
                continue
            (several,) = shapes.values()
            shape = next(iter(several)) if len(several) == 1 else ""
            if shape and shape != last and len(line) + len(shape) + 4 <= WIDTH:
                lines[number - 1] = f"{line}  # {shape}"
            last = shape or last
        return "\n".join(lines)
