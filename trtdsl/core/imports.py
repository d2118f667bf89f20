"""The author's files that a file imports, found as Python finds them."""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.metadata
import os
import site
import sys
import sysconfig
import threading
import zipimport
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import NamedTuple

from .errors import PACKAGE
from .files.names import is_file
from .files.reading import read_source


class Imports(NamedTuple):
    """What some files import, directly or not."""

    modules: set[Path]
    """The author's, the first ones included: Python files, compiled modules, and ``archive.zip/module.py``."""
    packages: set[str]
    """The names of other packages; not torch, trtdsl and Python's own."""

    @property
    def files(self) -> set[Path]:
        """Those that hold the modules."""
        return {file_of(path) for path in self.modules}


READ: dict[str, str] = {}
"""The SHA-256 of each of the author's files as it was when trtdsl loaded it last."""


_TURN = [threading.RLock()]
if hasattr(os, "register_at_fork"):  # the thread that has it is not in the child
    os.register_at_fork(after_in_child=lambda: _TURN.__setitem__(0, threading.RLock()))


@contextmanager
def alone() -> Iterator[None]:
    """Inside, other threads wait: ``sys.path``, ``sys.modules`` and the working directory are those of one project."""
    with _TURN[0]:
        yield


@alone()
def imported(roots: Iterable[Path]) -> Imports:
    """What these files import, anywhere in them, as ``sys.path`` is now.

    Also a module that was imported already, of whichever project: Python may take it again. Where trtdsl loads these
    files, what lies beside them has its place.
    """
    importlib.invalidate_caches()
    waiting = [path.resolve() for path in roots]
    folders = [str(path.parent) for path in waiting]
    beside = folders if all(str(path) in READ for path in waiting) else []
    places = [place for place in map(os.path.abspath, _paths()) if not is_library(place)]
    modules, packages = set[Path](), set[str]()
    while waiting:
        path = waiting.pop()
        if path in modules:
            continue
        modules.add(path)
        for name, level in _names(_source(path)):
            top = name.partition(".")[0]
            if not level and top in ("torch", "trtdsl"):
                continue
            own = (place for place in places if not _is_installed(top, place))
            is_beside = not level and PathFinder.find_spec(top, beside) is not None
            found = list(_found(name, level, path, [*folders, str(path.parent), *own], not is_beside))
            waiting += found
            if not found and not level and top and top not in sys.stdlib_module_names:
                packages.add(top)
    return Imports(modules, packages)


def file_of(path: Path) -> Path:
    """The file that holds a module: the archive of ``archive.zip/module.py``."""
    return next((each for each in (path, *path.parents) if is_file(each)), path)


def _source(path: Path) -> bytes:
    if is_compiled(path):
        return b""
    try:
        archive = file_of(path)
        return read_source(path) if archive == path else zipimport.zipimporter(str(archive)).get_data(str(path))
    except (OSError, ImportError):
        return b""


def _tree(source: bytes) -> ast.AST:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: deeply nested
        return ast.Module([], [])


def is_compiled(path: Path) -> bool:
    """Whether a module has no source."""
    return path.suffix in (".pyc", ".so", ".pyd")


@functools.lru_cache(1024)
def _names(source: bytes) -> dict[tuple[str, int], None]:
    """The modules that a file imports, anywhere in it, by name and level."""
    found: dict[tuple[str, int], None] = {}
    for node in ast.walk(_tree(source)):
        if isinstance(node, ast.Import):
            found.update({(alias.name, 0): None for alias in node.names})
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            names = (base, *(f"{base}.{alias.name}".strip(".") for alias in node.names))
            found.update({(name, node.level): None for name in names})
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            name, given = getattr(node.func, "attr", getattr(node.func, "id", "")), node.args[0].value
            if name in ("import_module", "__import__") and isinstance(given, str):
                found[given.lstrip("."), len(given) - len(given.lstrip("."))] = None
    return found


def _found(name: str, level: int, path: Path, places: list[str], earlier: bool) -> Iterator[Path]:
    """The author's files of a module that a file imports from one of some places, its packages' own among them, and
    with ``earlier`` those of one that was imported already.
    """
    parts = [part for part in name.split(".") if part]
    if level:
        package = path.parents[level - 1] if level <= len(path.parents) else Path("/")
        places, parts = [str(package.parent)], [package.name, *parts]
    for depth, part in enumerate(parts, 1):
        loaded = _earlier(".".join(parts[:depth])) if earlier and not level else None
        specs = [spec for spec in (PathFinder.find_spec(part, places), loaded) if spec is not None]
        if not specs:
            return
        for spec in specs:
            if spec.has_location and spec.origin is not None and not spec.origin.startswith(PACKAGE):
                yield Path(spec.origin).resolve()
        places = [place for spec in specs for place in spec.submodule_search_locations or ()]


def _earlier(name: str) -> ModuleSpec | None:
    """Of a module of the author's that was imported already."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    if not isinstance(spec, ModuleSpec) or not spec.has_location or not isinstance(spec.origin, str):
        return None
    above = Path(spec.origin).parents
    depth = min(name.count(".") + (spec.submodule_search_locations is not None), len(above) - 1)
    installed = _is_installed(name.partition(".")[0], str(above[depth]))
    return None if installed or is_library(spec.origin) or not is_file(file_of(Path(spec.origin))) else spec


def _paths() -> tuple[str, ...]:
    return tuple(entry for entry in sys.path if isinstance(entry, str))


@functools.lru_cache(4096)
def is_library(path: str) -> bool:
    """Whether a file or folder belongs to this Python, or to what is installed for it."""
    return f"{os.path.realpath(path)}{os.sep}".startswith(_libraries())


@functools.cache
def _libraries() -> tuple[str, ...]:
    kinds = [sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")]
    archive = Path(sys.base_prefix, sys.platlibdir, f"python{sys.version_info.major}{sys.version_info.minor}.zip")
    folders = [*kinds, *site.getsitepackages(), site.getusersitepackages(), str(archive)]
    return tuple({f"{os.path.realpath(folder)}{os.sep}" for folder in folders})


def _is_installed(name: str, place: str) -> bool:
    """Whether a package in a folder was installed there: it has a version, and the folder is one for packages.

    Such a folder need not be this Python's (``pip install --target``).
    """
    if {"site-packages", "dist-packages"}.isdisjoint(Path(place).parts):
        return name in _wheels(place)
    return name in _installed(*_paths())


@functools.cache
def _wheels(place: str) -> frozenset[str]:
    """The names of packages that were installed to a folder, and are not an author's that is being written there."""
    found = importlib.metadata.distributions(path=[place])
    files = (file for each in found if each.read_text("WHEEL") for file in each.files or ())
    return frozenset(file.parts[0].partition(".")[0] for file in files)


@functools.cache
def _installed(*paths: str) -> frozenset[str]:
    """The names of installed packages, wherever on the path they are: these have a version."""
    return frozenset(importlib.metadata.packages_distributions())
