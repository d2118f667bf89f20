"""Defaults of options from ``[tool.trtdsl]`` in pyproject.toml, such as the GPU that a project is for."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import typer
from typer.core import TyperCommand, TyperGroup

from ..core.errors import UsageError, nearest
from ..core.files.names import brief, working_directory
from ..core.files.reading import DEEPEST, read_file

FILE = "pyproject.toml"
LARGEST = 1 << 20
"""Bytes of the file."""
CONSENTS = {"allow-host-code", "force", "trust", "trust-network-file"}
"""Options that allow what else is refused, to whoever writes the command: the file may have come with a download."""
PART = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*"""
DEEP = re.compile(rf"(?<![\w.'\"-])(?:{PART}){{{DEEPEST}}}")
"""A key of so many parts that tomllib, which keeps all its beginnings, would take the memory."""


def set_defaults(context: typer.Context) -> None:
    """Gives all commands of a context's group the defaults of the nearest pyproject.toml, where there is one.

    An entry of ``[tool.trtdsl]`` is for every command that has the option, one of ``[tool.trtdsl.COMMAND]`` for one
    command; names are the options' without their dashes. Raises UsageError for a file that cannot be read, a name that
    no command has, and a value that the option does not take.
    """
    folder = working_directory()
    file = next((each / FILE for each in (folder, *folder.parents) if os.path.lexists(each / FILE)), None)
    if file is None:
        return
    tool = _read(file).get("tool")
    given = tool.get("trtdsl", {}) if isinstance(tool, dict) else {}
    place, group = f"{file}: [tool.trtdsl", context.command
    shared = {name: value for name, value in _table(given, place).items() if not isinstance(value, dict)}
    own = {name: value for name, value in given.items() if name not in shared}
    _refuse_unknown(shared, _every_option(group), place, "option")
    for name in CONSENTS & _names(given):
        raise UsageError(f"{place}]: {name} is said by --{name} on the command line alone")
    context.default_map = _defaults(group, own, shared, place)
    context.meta[FILE] = file


def _names(given: dict[str, Any]) -> set[str]:
    """The names in a table, and in those within it."""
    return {*given}.union(*(_names(each) for each in given.values() if isinstance(each, dict)))


def said_by_file(context: Any) -> str | None:
    """The options of a command that its project says, for an error of its call; None without any."""
    said = [
        f"{name} = {brief(repr(context.default_map[option.name]))}"
        for name, option in _options(context.command).items()
        if _is_said(context, option.name)
    ]
    return f"{context.meta[FILE]} says {', '.join(said)}" if said else None


def _is_said(context: Any, name: str | None) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "DEFAULT_MAP"  # of click's, or of the one in typer


class _Flags:
    """Help that names no value for a flag, of which typer says <bool> as if it took one."""

    def get_params(self, ctx: Any) -> Any:
        """The options and arguments, with ``--help``."""
        found = super().get_params(ctx)  # type: ignore[misc]
        for option in found:
            if getattr(option, "is_flag", False):
                option.metavar = ""
        return found


class Command(_Flags, TyperCommand):
    """A command."""


class Group(_Flags, TyperGroup):
    """The commands; an error of what a project's file says of an option names the file."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the command that the arguments name."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            inner, option = error.ctx, error.param
            if inner is None or option is None or not _is_said(inner, option.name):
                raise
            raise UsageError(f"{error.format_message()}\n  {said_by_file(inner)}") from None


def _read(file: Path) -> dict[str, Any]:
    try:
        text = read_file(file, LARGEST).decode()
        if DEEP.search(text):
            raise RecursionError
        return msgspec.toml.decode(text)
    except OSError as error:
        reason = error.strerror
    except UnicodeDecodeError:
        reason = "it is not UTF-8"
    except RecursionError:
        reason = "it is nested too deeply"
    except ValueError as error:
        reason = f"it is not TOML: {brief(str(error))}"
    raise UsageError(f"{file} cannot be read: {reason}")


def _defaults(group: Any, given: dict[str, Any], shared: dict[str, Any], place: str) -> dict[str, Any]:
    """The defaults of the commands of a group, of which ``given`` has the tables, and ``shared`` what is for all."""
    _refuse_unknown(given, set(group.commands), place, "command")
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        own, inner = _table(given.get(name, {}), f"{place}.{name}"), f"{place}.{name}"
        if hasattr(command, "commands"):
            found[name] = _defaults(command, own, shared, inner)
            continue
        options = _options(command)
        _refuse_unknown(own, set(options), inner, "option")
        found[name] = {
            options[key].name: _value(options[key], value, f"{inner if key in own else place}]: {key}")
            for key, value in {**shared, **own}.items()
            if key in options
        }
    return found


def _value(option: Any, given: Any, label: str) -> Any:
    """What a file says of an option, as click takes it. UsageError for what no command line can say."""
    if option.is_flag:
        if not isinstance(given, bool):
            raise UsageError(f"{label} is true or false, not {brief(repr(given))}")
        return given
    several = given if option.multiple and isinstance(given, list) else [given]
    for each in several:
        number = type(each) in (int, float) and math.isfinite(each)
        if not number and not isinstance(each, str):
            raise UsageError(f"{label} is a text or a finite number, not {brief(repr(each))}")
    return several if option.multiple else given


def _table(given: Any, place: str) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise UsageError(f"{place}] is not a table of options, but {given!r:.40}")
    return given


def _every_option(group: Any) -> set[str]:
    inner = (
        _every_option(each) if hasattr(each, "commands") else set(_options(each)) for each in group.commands.values()
    )
    return set().union(*inner)


def _options(command: Any) -> dict[str, Any]:
    """A command's options by their long names without dashes."""
    return {
        text.removeprefix("--"): parameter
        for parameter in command.params
        if parameter.param_type_name == "option"
        for text in parameter.opts
        if text.startswith("--")
    }


def _refuse_unknown(given: dict[str, Any], known: set[str], place: str, what: str) -> None:
    for name in given:
        if name not in known:
            raise UsageError(f"{place}]: there is no {what} {name!r}{nearest(name, known)}")
