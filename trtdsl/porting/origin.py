"""The torch module that is ported: where it comes from, how it is made, and how the file names it."""

from __future__ import annotations

import importlib
import inspect
import keyword
import os
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.author import authors_code, load_module
from ..core.caller import to_write
from ..core.errors import DefinitionError, UsageError, nearest
from ..core.files.names import check_is_file, is_file
from ..core.lazy import torch
from ..definition.spec.reference import evaluating, outside_state
from .calls import Weight
from .tracing.trace import check_traceable


@dataclass(frozen=True)
class Origin:
    """``module`` (or ``file``) and ``attribute`` say where ``make`` came from; it is called with ``arguments``.

    An exported program has no attribute; a module that was given as an object has no place.
    """

    factory: Callable[..., Any]
    module: str | None
    file: Path | None
    attribute: str
    arguments: dict[str, Any]

    @staticmethod
    def find(target: str | Callable[..., Any], arguments: dict[str, Any]) -> Origin:
        """The origin of MODULE:NAME, FILE.py:NAME, FILE.pt2, an importable object or a module. Raises UsageError."""
        if isinstance(target, (torch.nn.Module, torch.export.ExportedProgram)):
            return Origin.of(target)
        if isinstance(target, str) and target.endswith(".pt2"):
            check_is_file(target, f"no file {target}")
            return Origin(lambda: torch.export.load(target).module(), None, Path(target), "", {})
        if not isinstance(target, str):
            return Origin._importable(target, arguments)
        place, _, attribute = target.rpartition(":")
        if not place:
            file = Path(target) if target.endswith(".py") and is_file(target) else None
            module, _, name = ("", "", "") if is_file(target) else target.rpartition(".")
            known = [f"{target}:{each}" for each in _modules_of(load_module(file))] if file else [f"{module}:{name}"]
            raise UsageError(
                f"{target}: expected MODULE:NAME or FILE.py:NAME, of a torch.nn.Module class or a function"
                + f", such as {', '.join(known[:12])}" * bool((file or module) and known)
            )
        if place.endswith(".py"):
            path = Path(place)
            check_is_file(path, f"no file {path}")
            if not arguments:
                return Origin(_attribute(load_module(path), attribute, place), None, path, attribute, {})
            if path.resolve().parent != Path.cwd():
                raise UsageError(
                    to_write("arguments=", "--arg")
                    + f" is for what can be imported: give {path.name}:{attribute} in the folder of {path.name}"
                )
            place = path.stem  # a file cannot say with which arguments its class is made, and an import can
        try:
            with authors_code(doing=f"importing {place}: ", folder=Path.cwd()):
                found = importlib.import_module(place)
        except DefinitionError as error:
            cause = error.__cause__
            if isinstance(cause, ModuleNotFoundError) and place.startswith(str(cause.name)):
                raise UsageError(
                    f"no module {place!r} is installed or in this folder; of a file, give FILE.py:{attribute}"
                ) from None
            raise
        return Origin(_attribute(found, attribute, place), place, None, attribute, arguments)

    @staticmethod
    def of(module: torch.nn.Module | torch.export.ExportedProgram) -> Origin:
        """The origin of a module that is there already."""
        program = isinstance(module, torch.export.ExportedProgram)
        made = module.module() if program else module
        name = getattr(made, "original_name", type(made).__name__)  # a module of torch.jit has that of its source
        return Origin(lambda: made, None, None, "exported" if program else name, {})

    @staticmethod
    def _importable(factory: Callable[..., Any], arguments: dict[str, Any]) -> Origin:
        module, name = getattr(factory, "__module__", None), getattr(factory, "__qualname__", "")
        if module is None or not name.isidentifier() or getattr(sys.modules.get(module), name, None) is not factory:
            raise UsageError(f"{factory!r} cannot be imported by name: give a class or a function of a module")
        file = Path(inspect.getfile(factory)) if module == "__main__" or module.startswith("trtdsl_file_") else None
        return Origin(factory, None if file else module, file, name, arguments)

    @property
    def folder(self) -> Path:
        """The one whose modules can be imported while the module is made and run."""
        return Path.cwd() if self.file is None else self.file.resolve().parent

    def make(self) -> torch.nn.Module:
        """The module, in evaluation mode. Raises DefinitionError with the author's line where that fails."""
        with suppress(ValueError):  # of what is not written in Python, which has no signature
            signature = inspect.signature(self.factory)
            try:
                signature.bind(**self.arguments)
            except TypeError as error:
                each = to_write("arguments={NAME: VALUE}", "--arg NAME=VALUE")
                raise UsageError(f"{self.attribute} takes {signature}: {error}; {each} gives one") from None
        with authors_code(doing=f"making {self.attribute or self.file}: "):
            module = self.factory(**self.arguments)
        if not isinstance(module, torch.nn.Module):
            raise UsageError(f"{self.attribute} makes a {type(module).__name__}, not a torch.nn.Module")
        check_traceable(module)
        return evaluating(module)

    def drawn(self, module: torch.nn.Module, weights: Iterable[Weight]) -> dict[str, torch.Tensor]:
        """Those of the ``weights`` that the module does not store and that another of its kind has otherwise."""
        own = {weight.path for weight in weights if not weight.stored} if self.module or self.file else set[str]()
        mine = outside_state(module) if own else {}
        its = outside_state(self.make()) if own & {*mine} else {}
        return {
            path: mine[path]
            for path in own & {*mine}
            if path not in its
            or isinstance(mine[path], torch.nn.Parameter)  # which a reference has without values
            or not torch.equal(mine[path].nan_to_num(), its[path].nan_to_num())
        }

    def default_name(self, module: torch.nn.Module, file: str | os.PathLike[str] | None) -> str:
        """The name of the network that is written to ``file``: one that says which, unlike ``Net`` or ``build``."""
        from .passes.functions import snake

        named = next((value for key, value in self.arguments.items() if key in ("model_name", "name")), None)
        own = type(module).__name__ if "." in self.attribute else self.attribute
        if named is None and GENERIC.fullmatch(snake(own)):
            own = own if isinstance(self.factory, type) else type(module).__name__
            place = file or (self.file if isinstance(self.factory, type) else None)
            named = Path(place).stem if place is not None else None
        text = str(named) if isinstance(named, str) else snake(own)
        text = text.split(".")[0].rpartition("/")[2].lower()
        name = "".join(letter if letter.isalnum() else "_" for letter in text)
        return f"{name}_" if keyword.iskeyword(name) else name


GENERIC = re.compile(r"((build|create|get|load|make)(_|$))?(a_|the_|my_)?(model|network|net|module)?")
"""What a class, or a function that makes a module, is called that does not say which module."""


def _modules_of(module: Any) -> list[str]:
    """The names of a module's classes that are torch modules."""
    return [key for key, item in vars(module).items() if isinstance(item, type) and issubclass(item, torch.nn.Module)]


def _attribute(module: Any, name: str, place: str) -> Callable[..., Any]:
    found = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        classes = _modules_of(module)
        near = nearest(name, classes)
        has = f": it has {', '.join(classes[:12])}{', …' * (len(classes) > 12)}" if classes else ""
        raise UsageError(f"{place} has no {name!r}{near or has}")
    if not callable(found):
        raise UsageError(
            f"{place}:{name} is a {type(found).__name__}: give a torch.nn.Module class, or a function that makes one"
        )
    return found
