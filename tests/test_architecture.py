"""Imports go down: each room of the package knows only the rooms below it, and the drawing shows those rooms."""

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "trtdsl"
# From the ground up. The one way up is core/lazy.py, which looks functional's names up when they are called.
ROOMS = [
    "core",
    "sizes",
    "definition",
    "layers",
    "functional",
    "interpreter",
    "programs",
    "engine",
    "checking",
    "building",
    "porting",
    "display",
    "cli",
]
# The files and folders of some rooms, from the ground up: each imports only from those before it.
ORDERS = {
    "sizes": [
        "text",
        "torch_calls",
        "size",
        "operators",
        "followed",
        "dim",
        "shape",
        "profile",
        "proof",
        "condition",
        "constraints",
    ],
    "definition": [
        "common",
        "settings",
        "input",
        "call",
        "tuning",
        "function_methods",
        "methods",
        "tensor",
        "precision",
        "operation",
        "graph",
        "emission",
        "weights",
        "network",
        "spec",
    ],
    "checking": [
        "tried_sizes",
        "coverage",
        "exercise",
        "judging",
        "report",
        "proof",
        "saved",
        "losses",
        "witness",
        "check",
        "generation",
        "mutation",
        "locate",
    ],
    "porting": [
        "checkpoint",
        "calls",
        "statements",
        "render",
        "missing",
        "given",
        "served_range",
        "translating",
        "tracing",
        "passes",
        "attempts",
        "origin",
        "writing",
        "module",
        "verdict",
    ],
}
# A floor has about a dozen names, so that one look at it finds a noun.
MOST_NAMES = 15
# Floors where one flat list is easier to read than rooms.
FLAT = {
    "layers": "one file for each family of layers, named as TensorRT names what it does",
    "cli/commands": "one file for each command, named as it is",
    "functional": "one room for each noun of torch's vocabulary, and files that all of them use",
}
FILES = {path: path.relative_to(PACKAGE).with_suffix("").parts for path in sorted(PACKAGE.rglob("*.py"))}
MODULES = {parts[:-1] if parts[-1] == "__init__" else parts: path for path, parts in FILES.items()}


@functools.cache
def parsed(path):
    return ast.parse(path.read_text())


def imports(path):
    """The files that a file imports from, at any place in its code, for types alone too."""
    folder = FILES[path][:-1]
    found = set()

    def walk(node):
        if isinstance(node, ast.ImportFrom) and node.level:
            module = (*folder[: len(folder) - node.level + 1], *(node.module.split(".") if node.module else ()))
            for alias in node.names:
                found.add(MODULES.get((*module, alias.name)) or MODULES.get(module))
        for child in ast.iter_child_nodes(node):
            walk(child)

    walk(parsed(path))
    return found - {path, None}


def imported_rooms(path):
    """The rooms that a file imports from, at any place in its code."""
    parts = path.relative_to(PACKAGE).parts[:-1]
    found = set()
    for node in ast.walk(parsed(path)):
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
        up |= {parts[0] for parts in (FILES[other] for other in imports(path))} - below
        assert not up, f"{path.relative_to(ROOT)} imports {', '.join(sorted(up))}, which is above {room}"


def tied(graph):
    """The files that are in a circle, or above one."""
    while free := [path for path, needed in graph.items() if not needed & graph.keys()]:
        graph = {path: needed for path, needed in graph.items() if path not in free}
    return {".".join(FILES[path]) for path in graph}


def test_no_file_is_in_an_import_circle():
    """Imports inside functions and those for types alone count."""
    graph = {path: imports(path) for path in FILES}
    assert sum(map(len, graph.values())) > 400
    assert not tied(graph)


def named(folder):
    """The names of a folder: its files, each once, and its rooms."""
    found = {path.stem for path in folder.iterdir() if path.is_dir() or path.suffix == ".py"}
    return {name for name in found if not name.startswith("__")}


@pytest.mark.parametrize("room", ORDERS)
def test_the_files_of_a_room_stand_in_order(room):
    order = ORDERS[room]
    assert named(PACKAGE / room) == set(order), "a new file has a place in ORDERS"
    for path, parts in FILES.items():
        if parts[0] == room and parts[1] in order:
            allowed = order[: order.index(parts[1]) + 1]
            up = {other[1] for other in map(FILES.get, imports(path)) if other[0] == room} - {*allowed}
            assert not up, f"{path.relative_to(ROOT)} imports {', '.join(sorted(up))}, which stand above it"


def test_a_floor_has_about_a_dozen_names():
    folders = [PACKAGE, *(path.parent for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE)]
    full = {path.relative_to(PACKAGE).as_posix(): len(named(path)) for path in folders if len(named(path)) > MOST_NAMES}
    assert full.keys() == FLAT.keys(), f"split these by noun: {full}"


def test_names_of_the_floor_above_are_looked_up_in_one_place():
    late = {path for path in PACKAGE.rglob("*.py") if '= LazyModule("trtdsl.' in path.read_text()}
    assert late == {PACKAGE / "core" / "lazy.py"}


def test_the_drawing_shows_the_rooms_in_their_order():
    drawing = (ROOT / "docs" / "architecture.md").read_text().split("```")[1]
    drawn = re.findall(r"^ (\w+)/", drawing, re.MULTILINE)
    assert drawn == ROOMS[::-1]


# Functions that change a layer after it was added.
CHANGING = {
    ("layers/control.py", "next"): "TensorRT takes a recurrence's next value once the loop's body has made it",
}
# What the graph gives a layer once its name is known, and how it is read back.
NAMING = {"name", "metadata", "__class__"}


def changes(node):
    """Whether a piece of code gives a layer an input or an attribute."""
    if isinstance(node, ast.Assign):
        targets = [part for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Attribute)]
        return any(isinstance(x.value, ast.Name) and x.value.id == "layer" and x.attr not in NAMING for x in targets)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
        return isinstance(node.args[0], ast.Name) and node.args[0].id == "layer"
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "set_input"


def test_what_was_added_to_a_network_does_not_change():
    """Outputs stay marked, and a layer gets its inputs and attributes in the function that adds it."""
    changing = set()
    for path, parts in FILES.items():
        if parts[0] not in ("definition", "layers", "functional"):
            continue
        functions = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.FunctionDef)]
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Attribute):
                assert node.attr not in ("unmark_output", "remove_tensor"), f"{path}:{node.lineno}"
            if changes(node):
                around = [each for each in functions if each.lineno <= node.lineno <= each.end_lineno]
                inner = max(around, key=lambda each: each.lineno)
                inside = ast.walk(inner)
                adds = any(isinstance(each, ast.Attribute) and each.attr.startswith("add_") for each in inside)
                adds |= [each.arg for each in inner.args.args[:1]] == ["target"]
                if not adds:
                    changing.add((path.relative_to(PACKAGE).as_posix(), inner.name))
    assert changing == CHANGING.keys()


def test_texts_are_read_and_written_in_an_encoding_that_is_said():
    """Otherwise it is the system's, and `import trtdsl` fails where that is not UTF-8."""
    before = {"read_text": 0, "write_text": 1}  # arguments
    for path in FILES:
        for node in ast.walk(parsed(path)):
            name = getattr(node.func, "attr", None) if isinstance(node, ast.Call) else None
            if name in before:
                said = len(node.args) > before[name] or "encoding" in [each.arg for each in node.keywords]
                assert said, f"{path.relative_to(ROOT)}:{node.lineno}: {name} without an encoding"


def test_what_is_known_of_layer_types_stands_beside_them():
    """A table of many layer types in a room above would have to be found by whoever adds one."""
    text = "".join(path.read_text() for path in (PACKAGE / "layers").glob("*.py"))
    types = set(re.findall(r'@(?:evaluates|computes)\(\s*"(\w+)"', text))
    assert len(types) > 40
    for path, parts in FILES.items():
        for node in ast.walk(parsed(path)) if parts[0] != "layers" else ():
            if isinstance(node, (ast.Dict, ast.Set, ast.Tuple, ast.List)):
                listed = {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)} & types
                assert len(listed) < 6, f"{path.relative_to(ROOT)}:{node.lineno}: {', '.join(sorted(listed))}"


# Rooms whose files are tested by a suite that runs each of their functions, evaluators, calls or engines.
SUITES = {
    "functional": "functional/test_records.py",
    "layers": "layers/test_cases.py",
    "porting": "porting/test_modules.py",
    "cli": "cli/test_main.py",
    "engine": "device/test_machine.py",
}
# Files that are tested through another one.
THROUGH = {
    "building/manifest.py": "building/test_build.py",
    "core/reads.py": "checking/test_proof.py",
    "sizes/dim.py": "sizes/test_size.py",
    "display/program.py": "cli/test_program.py",
    "display/results.py": "cli/test_main.py",
    "display/view/formats.py": "display/view/test_view.py",
    "display/view/layers.py": "display/view/test_tree.py",
    "display/view/model.py": "display/view/test_tree.py",
    "display/view/tidy.py": "display/view/test_tree.py",
    "building/precision_search.py": "building/test_find_precision.py",
    "programs/launches.py": "programs/test_reading.py",
    "programs/host_sizes.py": "programs/test_reading.py",
}


def test_the_test_of_a_file_is_found_by_its_path_or_its_name():
    """tests/ROOM/test_FILE.py; or a test that imports the file; or the room's suite; or the one in THROUGH."""
    tests = {path: path.read_text() for path in (ROOT / "tests").rglob("*.py")}
    for suite in (*SUITES.values(), *THROUGH.values()):
        assert ROOT / "tests" / suite in tests, suite
    for path, parts in FILES.items():
        if parts[0] in SUITES or path.name == "__init__.py" or path.read_text().count("\n") < 100:
            continue
        module = ".".join(("trtdsl", *parts))
        mirrored = [test for test in tests if test.name == f"test_{path.stem}.py" and parts[0] in test.parts]
        imported = [test for test, text in tests.items() if module in text]
        through = path.relative_to(PACKAGE).as_posix() in THROUGH
        assert mirrored or imported or through, f"no test for {path.relative_to(ROOT)}"
