"""`trtdsl stubs`: the names in a file of weights, for editors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import trtdsl as td

from ...core.errors import several
from ...display.terminal import print_line
from ..command import Output, command
from ..options import option


@command
def stubs(
    out: Output,
    weights: Annotated[Path, typer.Argument(metavar="WEIGHTS", help="A safetensors file.")],
    output: Annotated[
        Path | None, option("Write the stub instead of printing it.", "FILE.pyi", "-o", "--output")
    ] = None,
) -> None:
    """Write a .pyi for a file of weights, so that an editor completes the names after `w.`.

    Examples:
      trtdsl stubs net.safetensors -o weights.pyi
    """
    text = td.stubs(weights, output)
    value = {"schema": 1, "kind": "stubs", "output": None if output is None else str(output), "text": text}
    classes = text.count("\nclass ")
    said = text.rstrip("\n") if output is None else f"{output}: {several(classes, 'class')}"
    out.result(value, lambda: print_line(said))
