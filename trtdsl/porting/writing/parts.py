"""One file of several networks, each for some of the sizes, where a module takes paths that are no one program."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from ...core.errors import TrtdslError, UnsupportedError
from ..given import Given
from ..tracing.proof.covered import ElsewhereAt
from .write import File

Made = TypeVar("Made")
MOST = 16  # networks


def made_in_parts(
    given: Given, made: Callable[[Given, str], Made], why: list[str], most: int = MOST, part: str = ""
) -> list[Made]:
    """What is ``made`` of the inputs and of the name of a part: of all sizes, or of parts that together have all.

    ``why`` gets the reasons for more than one. Raises what ``made`` does of all sizes where more than ``most`` parts
    would be needed.
    """
    try:
        return [made(given, part)]
    except UnsupportedError as error:
        cause = error.__cause__
        name, runs = (isinstance(cause, ElsewhereAt) and cause.runs) or ("", [])
        found: list[Made] = []
        with suppress(TrtdslError):
            for number, (low, high) in enumerate(runs if 1 < len(runs) <= most else []):
                label = f"{part}_{name.lower()}{low}{f'_{high}' * (high > low)}".lstrip("_")
                left = most - len(found) - (len(runs) - number - 1)
                found += made_in_parts(given.within(name, low, high), made, why, left, label)
            if found:
                why += [f"{error.location}: {line}" for line in error.context or ["forward takes another path here"]]
                return found
        if isinstance(cause, ElsewhereAt) and not part:
            error.context.append(
                f"a file has at most {MOST} networks, each for a range of sizes at which the module takes one path: "
                f"with a smaller range of {' and '.join(cause.names)} it may be ported"
            )
        raise


def joined(files: Sequence[File]) -> str:
    """The text of all networks; functions that several of them have stand there once."""
    blocks: dict[str, str] = {}
    dims: dict[str, str] = {}
    networks: list[str] = []
    constants = dict.fromkeys(path for file in files for path in file.trace.constants)
    for file in files:
        others: dict[str, str] = {}
        file.beside = [path for path in constants if file.main.scoped and path not in file.trace.constants]
        for function, block in zip(file.functions, file.blocks):
            name, text = function.name, _called(block, others)
            if blocks.get(name, text) != text:
                others[name] = name = _free(f"{name}_2", {*blocks, *(each.name for each in file.functions)})
                text = _called(block, others)
            blocks[name] = text
        text = _called(file.network, others)
        for name, dim in file.dims.items():
            variable = next((known for known, its in dims.items() if its == dim), None) or _free(name, dims)
            dims[variable] = dim
            text = re.sub(rf"(?<![\w.\"']){name}(?![\w\"'])", variable, text)
        networks.append(text)
    return files[0].text([*blocks.values(), *networks], dims)


def _called(text: str, names: Mapping[str, str]) -> str:
    """The text with other names of functions."""
    return re.sub(r"(?<![\w.])\w+(?=\()", lambda found: names.get(found[0], found[0]), text)


def _free(name: str, taken: Collection[str]) -> str:
    number = 2
    while name in taken:
        name, number = f"{name.rstrip('0123456789')}{number}", number + 1
    return name
