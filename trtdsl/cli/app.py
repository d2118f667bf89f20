"""The command line. It has no logic of its own: commands parse, call, print, and turn errors into exit codes."""

from __future__ import annotations

import importlib
import pkgutil
import platform
from typing import Annotated

import typer

from ..core.version import __version__
from . import commands
from .defaults import Command, Group, set_defaults

app = typer.Typer(
    name="trtdsl",
    cls=Group,
    help="TensorRT networks in Python with torch's vocabulary, without ONNX, proven equal to torch without a GPU.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_FIRST = ("port", "check", "precision", "build", "inspect", "advise", "view", "compare", "run", "generate", "bench")
"""Commands in the order of an author's work; the others follow by name, and then groups."""


_NAMES = {file.name for file in pkgutil.iter_modules(commands.__path__)}
for _name in (*_FIRST, *sorted(_NAMES.difference(_FIRST))):
    _module = importlib.import_module(f"{commands.__name__}.{_name}")
    app.add_typer(_module.app) if hasattr(_module, "app") else app.command(cls=Command)(getattr(_module, _name))


def _version(show: bool) -> None:
    if show:
        typer.echo(f"trtdsl {__version__} (Python {platform.python_version()})")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    set_defaults(context)
