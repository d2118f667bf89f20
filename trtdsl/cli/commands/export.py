"""`trtdsl export`: engines for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import trtdsl as td

from ...display.terminal import print_line
from ..command import Output, command
from ..defaults import Command, Group
from ..options import EngineName, option

app = typer.Typer(cls=Group, name="export", help="Engines for other programs.", no_args_is_help=True)


@app.command(cls=Command)
@command
def triton(
    out: Output,
    engine: EngineName,
    repository: Annotated[Path, typer.Argument(metavar="FOLDER", help="Triton's model repository.")],
    name: Annotated[str | None, option("The model's; the network's when not said.")] = None,
    version: Annotated[int, option("The model's version.")] = 1,
    instances: Annotated[int, option("Per GPU.")] = 1,
    queue_delay: Annotated[int | None, option("Microseconds to wait for a fuller batch.", "US")] = None,
    allow_rtx: Annotated[bool, option("Export a TensorRT-RTX engine, for a backend of your own.")] = False,
) -> None:
    """Write a Triton model repository around an engine.

    Examples:
      trtdsl export triton net.engine models --name net --instances 2
    """
    how = {"version": version, "instances": instances, "queue_delay_us": queue_delay, "allow_rtx": allow_rtx}
    folder = td.export_triton(engine, repository, name=name, **how)
    value = {"schema": 1, "kind": "export", "folder": str(folder)}
    out.result(value, lambda: print_line(str(folder)))


@app.command(cls=Command)
@command
def cpp(
    out: Output,
    engine: EngineName,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The project's.")],
    name: Annotated[str | None, option("The engine's there; the network's when not said.")] = None,
    force: Annotated[bool, option("Replace the project that is there.")] = False,
) -> None:
    """Write a CMake project in C++ around an engine.

    Examples:
      trtdsl export cpp net.engine project
    """
    written = td.export_cpp(engine, folder, name=name, force=force)
    value = {"schema": 1, "kind": "export", "folder": str(written)}
    out.result(value, lambda: print_line(str(written)))
