"""The drawing of the house in docs/architecture.md is what the imports are."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "trtdsl"
UPWARDS = {("tensor", "functional")}  # a Tensor's operators and methods


def floors():
    """The row of each module that is drawn, counted from the top; cli and console, in the first, import anything."""
    drawing = (ROOT / "docs" / "architecture.md").read_text().split("```")[1]
    rows = [re.findall(r"[a-z]{3,}", line[:32]) for line in drawing.split("\n")]
    return {name: row for row, names in enumerate(rows) for name in names}


def imports(module):
    """The modules and folders of trtdsl that one of them imports, at any place in its code."""
    folder = PACKAGE / module
    found = set()
    for path in folder.rglob("*.py") if folder.is_dir() else [folder.with_suffix(".py")]:
        parts = path.relative_to(PACKAGE).parts[:-1]
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level:
                base = [*parts[: len(parts) - node.level + 1], *(node.module or "").split(".")]
                found |= {base[0]} if base[0] else {alias.name for alias in node.names}
    return found - {module}


def test_what_is_drawn_is_there():
    assert len(floors()) > 15
    assert floors().keys() <= {path.stem for path in PACKAGE.iterdir()}


def test_imports_go_down_only():
    floor = floors()
    for module, row in floor.items():
        for other in imports(module) & floor.keys():
            assert floor[other] >= row or (module, other) in UPWARDS, f"{module} imports {other}"


def test_what_stands_on_the_floor_of_spec_or_higher_is_drawn():
    """Files that are not drawn are helpers: they know nothing of network files, checks, builds and engines."""
    floor = floors()
    high = {module for module, row in floor.items() if row <= floor["spec"]}
    for module in high - {"cli", "console"}:
        for other in imports(module) - floor.keys():
            assert not imports(other) & high, f"{module} imports {other}, which is not drawn"
