"""Settings: the typed parameters of a function in a network file that makes a network for each of their values."""

from __future__ import annotations

import inspect
import os
import types
import typing
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from msgspec import ValidationError, convert

from .common import DefinitionError, Location, UsageError, nearest, to_write

KINDS = (str, int, float, bool, Path)
NONE = "none"


@dataclass(frozen=True)
class Setting:
    """One parameter: its type, or the values that it may have, and what it is when it is not given."""

    name: str
    kind: type | None
    choices: tuple[Any, ...] = ()
    optional: bool = False
    """Whether it may be None."""
    default: Any = inspect.Parameter.empty

    @property
    def required(self) -> bool:
        """Whether it has no default."""
        return self.default is inspect.Parameter.empty

    @property
    def expected(self) -> str:
        """Its type or its values, for a message."""
        if self.choices:
            return "one of " + ", ".join(map(repr, self.choices))
        assert self.kind is not None
        article = "an" if self.kind is int else "a"
        return f"{article} {self.kind.__name__}{f' or {NONE}' if self.optional else ''}"

    def __str__(self) -> str:
        kind = " | ".join(map(repr, self.choices)) if self.choices else getattr(self.kind, "__name__", "")
        return f"{self.name} ({kind}{'' if self.required else f', {self.default!r} when not given'})"

    def read(self, given: Any) -> Any:
        """The value in its type: a text is parsed, and a path is made absolute. Raises UsageError."""
        is_text, value = isinstance(given, str), self
        if self.optional and (given is None or (is_text and given.lower() == NONE)):
            return None
        if self.choices:
            value = next((each for each in self.choices if given == each or (is_text and given == str(each))), self)
        elif self.kind is not Path:
            with suppress(ValidationError):
                value = convert(given, self.kind, strict=not is_text)
        elif given and isinstance(given, (str, os.PathLike)):
            value = Path(os.path.abspath(Path(given).expanduser()))
        if value is self or value != value:
            raise UsageError(f"the setting {self.name} is {self.expected}, not {given!r}")
        return value


def returns_a_network(function: Any) -> bool:
    """Whether a function says that it makes a network: ``def checkpoint(path: Path) -> td.NetworkSpec``."""
    if not callable(function) or isinstance(function, type):
        return False
    annotation = getattr(function, "__annotations__", {}).get("return")
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return name.strip("'\"").rpartition(".")[2] == "NetworkSpec"


def settings_of(function: Callable[..., Any]) -> dict[str, Setting]:
    """The settings that a function takes; DefinitionError, with its line, for one without a known type."""
    try:
        hints = typing.get_type_hints(function)
    except Exception as error:
        raise DefinitionError(
            f"the types of {function.__name__} cannot be read: {error}", location=place_of(function)
        ) from None
    found = {}
    for name, parameter in inspect.signature(function).parameters.items():
        setting = None
        if parameter.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY):
            setting = _setting(name, hints.get(name), parameter.default)
        if setting is None:
            raise DefinitionError(
                f"{function.__name__}: {parameter} is no setting: annotate it as str, int, float, bool, Path or "
                f"Literal[…], as {name}: str",
                location=place_of(function),
            )
        found[name] = setting
    return found


def _setting(name: str, hint: Any, default: Any) -> Setting | None:
    arguments, optional = typing.get_args(hint), False
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        rest = [each for each in arguments if each is not type(None)]
        if len(rest) != 1 or len(rest) == len(arguments):
            return None
        hint, arguments, optional = rest[0], typing.get_args(rest[0]), True
    if typing.get_origin(hint) is Literal:
        return Setting(name, None, arguments, optional, default)
    return Setting(name, hint, (), optional, default) if hint in KINDS else None


def read_settings(function: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of all settings that a function takes, from those that are given: texts, or values of their types.

    Raises UsageError for a name that is unknown, missing or badly typed, saying which there are.

    >>> def scaled(depth: int, gate: Literal["relu", "silu"] = "relu") -> td.NetworkSpec: ...
    >>> read_settings(scaled, {"depth": "12"})
    {'depth': 12, 'gate': 'relu'}
    """
    settings = settings_of(function)
    there = f"{function.__name__} takes {', '.join(map(str, settings.values())) or 'no settings'}"
    unknown = [name for name in given if name not in settings]
    if unknown:
        raise UsageError(f"no setting {unknown[0]!r}{nearest(unknown[0], settings)}: {there}")
    missing = [name for name, setting in settings.items() if setting.required and name not in given]
    if missing:
        given_as = to_write(
            f"settings={{{', '.join(f'{name!r}: …' for name in missing)}}}",
            " ".join(f"--set {name}=…" for name in missing),
        )
        raise UsageError(
            f"the setting{'s' * (len(missing) > 1)} {', '.join(missing)} must be given, as {given_as}: {there}"
        )
    return {name: setting.read(given[name]) if name in given else setting.default for name, setting in settings.items()}


def place_of(function: Callable[..., Any]) -> Location | None:
    """The file and line of a function."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return None if code is None else Location(code.co_filename, code.co_firstlineno)


def as_facts(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as a manifest has them: of a path its file's name, since engines are built in other folders too."""
    return {name: value.name if isinstance(value, Path) else value for name, value in settings.items()}
