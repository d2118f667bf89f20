"""One file of several networks, each for some of the sizes, where a module takes paths that are no one program."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from ...core.errors import TrtdslError, UnsupportedError
from ..given import Given
from ..tracing.prove_guards import ElsewhereAt
from .write import File

Made = TypeVar("Made")
MOST = 4  # networks


def made_in_parts(given: Given, made: Callable[[Given, str], Made], most: int = MOST, part: str = "") -> list[Made]:
    """What is ``made`` of the inputs and of the name of a part: of all sizes, or of parts that together have all.

    Raises what ``made`` does of all sizes where more than ``most`` parts would be needed.
    """
    try:
        return [made(given, part)]
    except UnsupportedError as error:
        name, runs = (isinstance(error.__cause__, ElsewhereAt) and error.__cause__.runs) or ("", [])
        if not 1 < len(runs) <= most:
            raise
        found: list[Made] = []
        for number, (low, high) in enumerate(runs):
            label = f"{part}_{name.lower()}{low}{f'_{high}' * (high > low)}".lstrip("_")
            left = most - len(found) - (len(runs) - number - 1)
            try:
                found += made_in_parts(given.within(name, low, high), made, left, label)
            except TrtdslError:
                raise error from error.__cause__
        return found


def joined(files: Sequence[File]) -> str:
    """The text of all networks; functions that several of them have stand there once."""
    blocks: dict[str, str] = {}
    dims: dict[str, str] = {}
    networks: list[str] = []
    for file in files:
        others: dict[str, str] = {}
        for function, block in zip(file.functions, file.blocks):
            name, text = function.name, _called(block, others)
            if blocks.get(name, text) != text:
                others[name] = name = _free(f"{name}_2", {*blocks, *(each.name for each in file.functions)})
                text = _called(block, others)
            blocks[name] = text
        text = _called(file.blocks[-1], others)
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
