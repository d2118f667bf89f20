"""Imports go down: each room of the package knows only the rooms below it, and the drawing shows those rooms."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "trtdsl"
# From the ground up. The one way up is definition/above.py, which looks functional's names up when they are called.
ROOMS = [
    "core",
    "definition",
    "layers",
    "functional",
    "interpreter",
    "compiling",
    "programs",
    "engine",
    "checking",
    "building",
    "porting",
    "display",
    "cli",
]


def imported_rooms(path):
    """The rooms that a file imports from, at any place in its code."""
    parts = path.relative_to(PACKAGE).parts[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*parts[: len(parts) - node.level + 1], *(node.module or "").split(".")]
            found |= {base[0]} if base[0] else {alias.name for alias in node.names}
    return found


def test_every_folder_is_a_room():
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert folders == set(ROOMS)
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py", "__main__.py"}


@pytest.mark.parametrize("room", ROOMS)
def test_imports_go_down(room):
    below = set(ROOMS[: ROOMS.index(room) + 1])
    for path in (PACKAGE / room).rglob("*.py"):
        up = imported_rooms(path) - below
        assert not up, f"{path.relative_to(ROOT)} imports {', '.join(sorted(up))}, which is above {room}"


def test_names_of_the_floor_above_are_looked_up_in_one_place():
    late = [path for path in (PACKAGE / "definition").rglob("*.py") if "LazyModule(" in path.read_text()]
    assert [path.name for path in late] == ["above.py"]


def test_the_drawing_shows_the_rooms_in_their_order():
    drawing = (ROOT / "docs" / "architecture.md").read_text().split("```")[1]
    drawn = re.findall(r"^ (\w+)/", drawing, re.MULTILINE)
    assert drawn == ROOMS[::-1]
