"""Defaults of options from ``[tool.trtdsl]`` in pyproject.toml, such as the GPU that a project is for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ..core.errors import UsageError, nearest
from ..core.files.reading import LARGEST, read_file

FILE = "pyproject.toml"


def default_map(group: Any) -> dict[str, Any]:
    """The defaults of all commands of a group, as click takes them.

    An entry of ``[tool.trtdsl]`` is for every command that has the option, one of ``[tool.trtdsl.COMMAND]`` for one
    command; names are the options' without their dashes. Raises UsageError for a name that no command has.
    """
    file = next((each / FILE for each in (Path.cwd(), *Path.cwd().parents) if (each / FILE).is_file()), None)
    if file is None:
        return {}
    try:
        tool = msgspec.toml.decode(read_file(file, LARGEST)).get("tool")
    except (OSError, ImportError, ValueError, RecursionError):  # which is not ours to judge
        return {}
    given = tool.get("trtdsl", {}) if isinstance(tool, dict) else {}
    place = f"{file}: [tool.trtdsl"
    shared = {name: value for name, value in _table(given, place).items() if not isinstance(value, dict)}
    _refuse_unknown(shared, _every_option(group), place, "option")
    return _defaults(group, {k: v for k, v in given.items() if k not in shared}, shared, place)


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
        known = {options[key]: value for key, value in {**shared, **own}.items() if key in options}
        found[name] = {
            option.name: [value] if option.multiple and not isinstance(value, list) else value
            for option, value in known.items()
        }
    return found


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
