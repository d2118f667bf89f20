"""The command `trtdsl port`. As in cli.py, no logic of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ..display.terminal import print_note
from .common import Dims, dims_of, errors, pairs_of, print_json


def _named(given: list[str] | None, option: str, expected: str) -> dict[str, str]:
    return pairs_of(given, option, expected, lambda name, _: name.isidentifier())


def _value(text: str) -> Any:
    """JSON, or the text itself."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def port(
    module: Annotated[
        str, typer.Argument(metavar="MODULE:CLASS", help="A torch.nn.Module, or a function; FILE.py:NAME too.")
    ],
    input: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="NAME=SHAPE[:DTYPE[:LOW:HIGH]]",
            help="An input of forward, such as x=N,3,224,224 or ids=N,T:int64; once for each.",
        ),
    ] = None,
    dim: Dims = None,
    arg: Annotated[
        list[str] | None,
        typer.Option("--arg", metavar="NAME=VALUE", help="An argument for MODULE:CLASS, in JSON or as text."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="What to call the network.")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the file instead of printing it.")
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option("--weights", metavar="FILE", help="Write the module's own weights there, as safetensors."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over files that are there.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout, the file's text in it.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing besides the file.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Tracebacks with errors.")] = False,
) -> None:
    """Print a first network file for a torch module: its functions, weights and calls, from a trace of forward."""
    with errors(json_, verbose):
        from ..porting import ported, write_files

        result = ported(
            module,
            _named(input, "--input", "NAME=SHAPE, such as x=N,3,224,224"),
            dims=dims_of(dim),
            arguments={key: _value(text) for key, text in _named(arg, "--arg", "NAME=VALUE").items()},
            name=name,
            file=output,
            weights=weights,
        )
        write_files(result, output, weights, force=force)
        if json_:
            facts = {"name": result.name, "missing": result.missing, "text": result.text}
            print_json({"schema": 1, "kind": "port", **facts})
        elif output is None:
            typer.echo(result.text, nl=False)
        if not quiet and not json_:
            for line in result.remarks(output, weights):
                print_note(line)


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command()(port)
