"""What a check's verdict depends on, as one hash: where it is the same, an earlier verdict holds still."""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from ..core.errors import PACKAGE
from ..core.files import is_file
from ..core.lazy import torch
from ..core.version import __version__
from ..definition.input import Input
from ..definition.spec.spec import NetworkSpec
from ..definition.weights import Source
from .judging.evidence import as_tolerances
from .report import SCHEMA

BRANCHES = (ast.If, ast.IfExp, ast.While, ast.Assert, ast.BoolOp, ast.Compare, ast.Match)


def proof_of(spec: NetworkSpec, weights: Source | None) -> str | None:
    """The hash of all that a check of ``spec`` depends on besides the network itself.

    That is: the content of the reference's file, of the samples', and of every file that these import, in functions
    too; the versions of torch and of the packages that they import; the inputs' samples; tolerances and what is left
    out; weights that the network leaves aside. Data files that a reference reads are not in it. None where the
    reference or a sample is not in a file under its name, and so may change unseen.
    """
    reference = _reference(spec)
    if reference is None or not spec.reference_is_current:  # another one was imported than is there now
        return None
    samples = {name: _sample(given) for name, given in spec.inputs.items()}
    if any(sample is None for sample in samples.values()):
        return None
    files, packages = imported([reference[1], *(Path(s[1]) for s in samples.values() if s and s[0] == "function")])
    opened = spec.open_weights(weights)
    facts = {
        "trtdsl": [__version__, SCHEMA],
        "torch": torch.__version__,
        "reference": reference[0],
        "files": sorted(_sha256(path.read_bytes()) for path in files),
        "packages": {name: _version(name) for name in sorted(packages)},
        "samples": {name: [s[0], *s[2:]] if s and s[0] == "function" else s for name, s in samples.items()},
        "tolerances": sorted((str(name), repr(given)) for name, given in as_tolerances(spec.tolerance).items()),
        "left_out": [spec.leave_out, spec.trivial],
        "weights": opened.sha256() if opened is not None and spec.unused else None,
    }
    return _sha256(json.dumps(facts, sort_keys=True).encode())


def may_branch(spec: NetworkSpec) -> bool:
    """Whether the reference's code, or what it imports, has a branch outside of what makes a module."""
    reference = _reference(spec)
    if reference is None:
        return True
    files, packages = imported([reference[1]])
    return bool(packages - {"numpy"}) or any(_has_branch(ast.parse(path.read_bytes())) for path in files)


def _has_branch(tree: ast.AST) -> bool:
    if isinstance(tree, BRANCHES) or (isinstance(tree, ast.Name) and tree.id in ("min", "max", "bool")):
        return True
    return any(
        _has_branch(part)
        for part in ast.iter_child_nodes(tree)
        if not (isinstance(part, ast.FunctionDef) and part.name == "__init__")
    )


def reference_facts(spec: NetworkSpec) -> dict[str, str] | None:
    """The reference's name, and a hash of its file and of those that it imports; None where it is in no file."""
    reference = _reference(spec)
    if reference is None:
        return None
    files = sorted(_sha256(path.read_bytes()) for path in imported([reference[1]])[0])
    return {"name": reference[0].rpartition(":")[2], "files_sha256": _sha256(" ".join(files).encode())}


def _reference(spec: NetworkSpec) -> tuple[str, Path] | None:
    """The reference's name and file."""
    if isinstance(spec.reference, str):
        if spec.file is None:
            return None
        path = spec.file.parent / spec.reference.rpartition(":")[0]
        return (spec.reference, path.resolve()) if path.is_file() else None
    return None if spec.reference is None else _in_a_file(spec.reference)


def _in_a_file(function: Callable[..., Any]) -> tuple[str, Path] | None:
    """Name and file of a function or class that a module has under its name; None for any other."""
    name, module = getattr(function, "__qualname__", ""), sys.modules.get(getattr(function, "__module__", None) or "")
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    file = getattr(module, "__file__", None)
    return (name, Path(file).resolve()) if found is function and file is not None and name else None


def _sample(given: Input) -> list[Any] | None:
    """An input's sample as a fact; None for a function that is in no file."""
    sample, dtype = given.sample, str(given.dtype)
    if sample is None or isinstance(sample, tuple):
        return ["range", sample, dtype]
    if isinstance(sample, (str, PathLike)):
        path = Path(sample)
        return ["file", _sha256(path.read_bytes()) if path.is_file() else None, dtype]
    code = getattr(sample, "__code__", None)
    if code is None or code.co_freevars or not Path(code.co_filename).is_file():
        return None  # what it closes over is in no file
    return ["function", code.co_filename, sample.__qualname__, dtype]


def imported(roots: list[Path]) -> tuple[set[Path], set[str]]:
    """The author's files that some files import, directly or not, these included; and the names of other packages."""
    folders = [path.parent for path in roots]
    waiting, files, packages = [path.resolve() for path in roots], set[Path](), set[str]()
    while waiting:
        path = waiting.pop()
        if path in files:
            continue
        files.add(path)
        for name, level in _imports(path):
            found = list(_found(name, level, path, folders))
            waiting += found
            top = name.partition(".")[0]
            if not found and not level and top not in sys.stdlib_module_names and top not in ("", "torch", "trtdsl"):
                packages.add(top)
    return files, packages


def _imports(path: Path) -> Iterator[tuple[str, int]]:
    """The modules that a file imports, anywhere in it, by name and level."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: deeply nested
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            yield base, node.level
            yield from ((f"{base}.{alias.name}".strip("."), node.level) for alias in node.names)
        elif isinstance(node, ast.Call) and _is_import_module(node.func) and node.args:
            given = node.args[0]
            if isinstance(given, ast.Constant) and isinstance(given.value, str):
                yield given.value, 0


def _is_import_module(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in ("import_module", "__import__")


def _found(name: str, level: int, path: Path, folders: list[Path]) -> Iterator[Path]:
    """The author's files of a module, its packages' own among them."""
    if level:
        places = [path.parents[level - 1]] if level <= len(path.parents) else []
    else:
        own = [Path(entry) for entry in sys.path if isinstance(entry, str) and not _is_library(entry)]  # "": here
        places = [*folders, path.parent, *own]
    parts = [part for part in name.split(".") if part]
    for place in dict.fromkeys(places):
        files = []
        for depth in range(len(parts) + 1):
            base = place.joinpath(*parts[:depth])
            files += [Path(f"{base}.py")] if depth else []
            files += [base / "__init__.py"] if depth or level else []
        there = [file.resolve() for file in files if is_file(file) and not str(file).startswith(PACKAGE)]
        if there:
            yield from there
            return


def _is_library(folder: str) -> bool:
    return "site-packages" in folder or folder.startswith((sys.base_prefix, sys.prefix)) or folder.endswith(".zip")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        names: Mapping[str, list[str]] = importlib.metadata.packages_distributions()
        return ", ".join(importlib.metadata.version(name) for name in sorted(set(names.get(package, []))))


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
