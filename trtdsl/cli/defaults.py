"""Defaults of options from ``[tool.trtdsl]`` in pyproject.toml, such as the GPU that a project is for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ..core.errors import UsageError, nearest

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
        project = msgspec.toml.decode(file.read_bytes())
    except (OSError, ImportError, msgspec.DecodeError, UnicodeDecodeError):  # which is not ours to judge
        return {}
    given = project.get("tool", {}).get("trtdsl", {})
    if not given:
        return {}
    commands = {path: _options(command) for path, command in _commands(group, ())}
    shared = {name: value for name, value in given.items() if not isinstance(value, dict)}
    known = {name for options in commands.values() for name in options}
    _refuse_unknown(shared, known, f"{file}: [tool.trtdsl]", "option")
    _refuse_unknown({k: v for k, v in given.items() if k not in shared}, {p[0] for p in commands}, f"{file}", "command")
    found: dict[str, Any] = {}
    for path, options in commands.items():
        own, place = given, "tool.trtdsl"
        for part in path:
            own, place = own.get(part, {}), f"{place}.{part}"
        below = {other[len(path)] for other in commands if other[: len(path)] == path and len(other) > len(path)}
        own = {name: value for name, value in own.items() if name not in below}
        _refuse_unknown(own, set(options), f"{file}: [{place}]", "option")
        target = found
        for part in path:
            target = target.setdefault(part, {})
        for name, value in {**shared, **own}.items():
            if name in options:
                parameter = options[name]
                target[parameter.name] = [value] if parameter.multiple and not isinstance(value, list) else value
    return found


def _commands(group: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, (*path, name))
        else:
            yield (*path, name), command


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
            raise UsageError(f"{place}: there is no {what} {name!r}{nearest(name, known)}")
