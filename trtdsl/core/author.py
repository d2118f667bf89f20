"""The author's files: importing them, and giving what they raise the author's line."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader, all_suffixes
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from .diagnosis import misfits
from .errors import PACKAGE, DefinitionError, Location, TrtdslError, UsageError, shown_file, told
from .files.reading import read_source
from .imports import READ, alone, is_library
from .lazy import not_installed, torch
from .reads import Reads, asker_of, noted


def load_module(path: Path, text: bytes | None = None) -> Any:
    """A Python file as a module, or what it would be with another ``text``; its folder is importable meanwhile.

    Raises DefinitionError when it raises, UsageError for a name that is not UTF-8: layers tell their lines by it.
    """
    import hashlib

    path = path.resolve()
    try:
        digest = hashlib.sha256(str(path).encode()).hexdigest()
    except UnicodeEncodeError:
        raise UsageError(
            f"layers are called after a network's file, whose name must be UTF-8 (in a locale such as LC_ALL=C, run it "
            f"with PYTHONUTF8=1): {str(path)!a}"
        ) from None
    name = f"trtdsl_file_{path.stem}_{digest[:8]}"
    spec = importlib.util.spec_from_file_location(name, path, loader=_Source(name, str(path), text))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with authors_code(path, folder=path.parent):
        spec.loader.exec_module(module)
    return module


_WENT: dict[str, str] = {}
"""Where the author's code went, by the working directory that it came from."""


@contextlib.contextmanager
def at_place() -> Iterator[None]:
    """Inside, the working directory is where the author's code last went; outside it stays, for the caller's paths."""
    ours = _here()
    if ours in _WENT:
        os.chdir(_WENT[ours])
    try:
        yield
    finally:
        theirs = _here()
        if ours and (theirs != ours or ours in _WENT):
            _WENT[ours] = theirs or ours
            os.chdir(ours)


def _here() -> str:
    """The working directory; empty where it was removed."""
    with contextlib.suppress(OSError):
        return os.getcwd()
    return ""


@contextlib.contextmanager
def import_path(folder: Path | None) -> Iterator[None]:
    """Inside, modules in a folder, a whole path, can be imported, and what the author's code reads is noted; other
    threads wait until they have their own.
    """
    if folder is None:
        yield
        return
    with alone(), noted(folder) as reads, _own_modules(folder):
        finder = _Finder(reads)
        sys.path.insert(0, str(folder))
        sys.meta_path.insert(0, finder)
        try:
            yield
        finally:
            sys.meta_path.remove(finder)
            with contextlib.suppress(ValueError):
                sys.path.remove(str(folder))


_MODULES: dict[Path, dict[str, ModuleType]] = {}
"""By the author's folders the modules that lie there, and are not in ``sys.modules`` where others have their names."""


@contextlib.contextmanager
def _own_modules(folder: Path) -> Iterator[None]:
    """Inside, the author's modules that lie elsewhere do not stand for those of this folder that have their names."""
    names = {name.partition(".")[0] for name in os.listdir(folder)} if folder.is_dir() else set[str]()
    theirs = {top for top in names & sys.modules.keys() if _stands_for_another(top, folder / top)}
    if not theirs:
        yield
        return

    def taken() -> dict[str, ModuleType]:
        return {name: sys.modules.pop(name) for name in [*sys.modules] if name.partition(".")[0] in theirs}

    others = taken()
    sys.modules.update(_MODULES.pop(folder, {}))
    try:
        yield
    finally:
        _MODULES[folder] = taken()
        sys.modules.update(others)


def _stands_for_another(top: str, place: Path) -> bool:
    """Whether the author's modules of a name lie elsewhere than at the place where Python would find them first."""
    own = getattr(sys.modules[top], "__file__", None)
    if own and not is_authors(own):  # torch has parts that name files as if they were in the working directory
        return False
    modules = [module for name, module in [*sys.modules.items()] if name.partition(".")[0] == top]
    files = [file for file in (getattr(module, "__file__", None) for module in modules) if file and is_authors(file)]
    is_package = (place / "__init__.py").is_file() or (
        place.is_dir() and not getattr(sys.modules[top], "__file__", None)
    )
    paths = [Path(file).resolve().with_suffix("") for file in files]
    return (is_package or place.with_suffix(".py").is_file()) and any(
        place not in (path, *path.parents) for path in paths
    )


class _Source(SourceFileLoader):
    """Runs a file as it is now: Python runs an earlier one's bytecode where the size and the second of writing agree,
    as they may after a clock that went back, a copy that keeps times, or two edits in one second."""

    sha256: str | None = None

    def __init__(self, fullname: str, path: str, text: bytes | None = None):
        super().__init__(fullname, path)
        self.text = text

    def get_code(self, fullname: str) -> CodeType:
        import hashlib

        path = self.get_filename(fullname)
        if self.text is not None:
            return self.source_to_code(self.text, path)
        try:
            data = read_source(path)
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}") from None
        self.sha256 = READ[os.path.realpath(path)] = hashlib.sha256(data).hexdigest()
        return self.source_to_code(data, path)


class _Finder:
    """Finds what Python would, and has the author's files loaded as they are now."""

    def __init__(self, reads: Reads):
        self.reads = reads

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target)
        if spec is None:
            self._note_absent(name, path)
        if spec is None or type(spec.loader) is not SourceFileLoader or not is_authors(spec.loader.path):
            return None
        is_ours, asker = asker_of(sys._getframe(1))
        if not is_ours:
            self.reads.note(spec.loader.path, asker)
        spec.loader = _Source(spec.name, spec.loader.path)
        return spec

    def _note_absent(self, name: str, path: Any) -> None:
        """Notes where a module could be that is not there: it may be there later."""
        is_ours, asker = asker_of(sys._getframe(2))
        for folder in sys.path if path is None else path:
            if not is_ours and not is_library(folder):
                for suffix in ("", *all_suffixes()):
                    self.reads.note(os.path.join(folder, name.rpartition(".")[2] + suffix), asker)


@contextlib.contextmanager
def authors_code(
    author: Callable[..., Any] | Path | None = None, doing: str = "", folder: Path | None = None
) -> Iterator[None]:
    """Inside, the author's code runs: the modules in its folder, or in that of the ``author``, can be imported.

    What it raises, while ``doing`` something, becomes a DefinitionError with the author's line. Where none of the
    author's lines raised it, the place is that of the ``author``: a function, or a file. All but Ctrl-C is an error:
    a file that calls ``exit()`` would end the command as if all had gone well.
    """
    place = _place_of(author)
    try:
        with import_path(Path(place.file).resolve().parent if folder is None and place else folder), at_place():
            yield
    except KeyboardInterrupt:
        raise
    except TrtdslError as error:
        if error.location is None:
            error.location = _last_place(error) or place
        raise
    except SyntaxError as error:
        located = error.filename and error.lineno and is_authors(error.filename)
        location = Location(str(error.filename), error.lineno or 0) if located else _last_place(error) or place
        raise DefinitionError(f"SyntaxError: {error.msg}", location=location) from error
    except BaseException as error:
        text, first = told(error), _first_cause(error) if isinstance(error, ImportError) else error
        because = "" if first is error else f" (because of {told(first)})"
        raise DefinitionError(
            f"{doing}{text}{because}{_advice(told(first))}", location=_last_place(error) or place
        ) from error


def _first_cause(error: BaseException) -> BaseException:
    """What a library raised first, where it raises another for it."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


NOT_LOADED = r"^operator \w+::\w+ does not exist|undefined symbol|cannot open shared object|Could not load this library"
"""How the import of a package fails whose operators are built for another torch."""


def _advice(text: str) -> str:
    """What to do where packages do not fit each other, or torch refused a network's sizes; otherwise empty."""
    text = text.partition(": ")[2]
    if "value cannot be converted to type c10::Half without overflow" in text:
        return ": float16 ends at 65504; write torch.finfo(x.dtype).min, or -math.inf, instead of a mask's -1e9"
    if re.search(NOT_LOADED, text):
        found = misfits()
        named = {package: misfit for package, misfit in found.items() if package in text}
        return "".join(f"; {misfit}" for misfit in (named or found).values())
    if found := re.match(r"No module named '([\w.]+)'", text):
        if found[1] == "torch":
            return f": {not_installed('torch').message}"
        return f": install what has it for {sys.executable}; for a file of your own, put its folder in PYTHONPATH"
    if re.match("Could not infer dtype of (Dim|Size)", text):
        return ": a size has no value when the network is written; write F.tensor(…), which takes sizes"
    found = re.match(r"(zeros|ones|empty|full)\(\) takes 1 positional argument but \d+ were given", text)
    return f": with sizes of a network, write F.{found[1]}(n, 3) or torch.{found[1]}((n, 3))" if found else ""


def _last_place(error: BaseException) -> Location | None:
    """The last of the author's lines that an exception came through."""
    import traceback

    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_authors(frame.filename)]
    return Location(frames[-1].filename, frames[-1].lineno or 0) if frames else None


def _place_of(author: Callable[..., Any] | Path | None) -> Location | None:
    if isinstance(author, Path):
        return Location(str(author), 1)
    code = getattr(author, "__code__", None)  # a class has none, nor what is written in C
    if code is None or not is_authors(code.co_filename):
        return None
    return Location(code.co_filename, code.co_firstlineno)


def source_of(made: Any, *, named: bool = False) -> tuple[str, Path] | None:
    """Name and file of the code of a function, lambda, closure, class, partial or instance; None where no file has it.

    With ``named`` only of a function or class that its module has under its name, where another process finds it.

    >>> name, file = source_of(functools.partial(source_of, 1))
    >>> name, file.name, source_of(len), source_of(functools.partial(source_of, 1), named=True)
    ('source_of', 'author.py', None, None)
    """
    name, module = getattr(made, "__qualname__", ""), sys.modules.get(getattr(made, "__module__", None) or "")
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    own = getattr(module, "__file__", None)
    if name and found is made and own is not None:
        return name, Path(own).resolve()
    if named:
        return None
    while isinstance(made, functools.partial):
        made = made.func
    code = made if inspect.isroutine(made) or inspect.isclass(made) else type(made)
    with contextlib.suppress(TypeError, OSError):  # what is built in, and what a notebook made
        file = inspect.getsourcefile(code)
        return (code.__qualname__, Path(file).resolve()) if file and Path(file).is_file() else None
    return None


@functools.lru_cache(maxsize=1024)
def is_authors(file: str) -> bool:
    """Whether a file is neither trtdsl's nor a library's, nor none at all, such as ``<string>``."""
    if shown_file(file) != file:  # a cell of a notebook
        return True
    library = "site-packages" in file or file.startswith(("<", sys.base_prefix, sys.prefix + "/lib"))
    return not file.startswith(PACKAGE) and not library


@contextlib.contextmanager
def without_values() -> Iterator[None]:
    """Parameters of modules made inside are not filled, which takes neither time nor memory; all else is as it is.

    On torch's meta device a module could compute nothing while it is built, as ``torch.linspace(0, 1, 3)[k].item()``.
    """
    from torch.nn import Parameter, init
    from torch.overrides import TorchFunctionMode

    fills = {torch.Tensor.normal_, torch.Tensor.uniform_}

    class Unfilled(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            # A library may have put its own in the place of one of torch.nn.init.
            if func in fills or vars(init).get(getattr(func, "__name__", "")) is func:
                target = args[0] if args else (kwargs or {}).get("tensor")
                if isinstance(target, Parameter):
                    return target
            return func(*args, **(kwargs or {}))

    with Unfilled():
        yield
