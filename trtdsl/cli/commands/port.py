"""`trtdsl port`: a first network file for a torch module."""

from __future__ import annotations

import ast
import json
import sys
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from ...core.exit_codes import DEFINITION
from ...display.terminal import print_note
from ..command import Output, command, print_json
from ..options import Dims, Texts, dims_of, option, pairs_of


@command
def port(
    out: Output,
    module: Annotated[
        str, typer.Argument(metavar="MODULE:CLASS", help="A torch.nn.Module, or a function; FILE.py:NAME too.")
    ],
    input: Annotated[
        Texts,
        option(
            "An input of forward, such as x=N,3,224,224 or ids=N,T:int64; once for each.",
            "NAME=SHAPE[:DTYPE[:LOW:HIGH]]",
        ),
    ] = None,
    dim: Dims = None,
    arg: Annotated[Texts, option("For MODULE:CLASS: JSON, a literal such as (1, 2), or text.", "NAME=VALUE")] = None,
    name: Annotated[str | None, option("What to call the network.", "NAME")] = None,
    output: Annotated[Path | None, option("Write the file instead of printing it.", "FILE", "-o", "--output")] = None,
    weights: Annotated[Path | None, option("Write the module's own weights there, as safetensors.", "FILE")] = None,
    outputs: Annotated[str | None, option("What to call the outputs, in forward's order.", "NAME,…")] = None,
    force: Annotated[bool, option("Write over files that are there.")] = False,
    no_check: Annotated[bool, option("Do not define and check what is written.")] = False,
) -> None:
    """Print a network file for a torch module: its functions, weights and calls, from a trace of forward.

    What is written is defined and compared with the module; exit code 1 when it differs, 3 when it cannot be defined or
    not at all sizes of the ranges, and then no file is written.
    With --json, the object has the file's text; with -q, nothing is printed besides the file.

    Examples:
      trtdsl port models.py:Net --input x=N,16 --dim N=1:4:16 -o net.py --weights net.safetensors
      trtdsl port torch.nn:GRUCell --arg input_size=16 --arg hidden_size=32 --input input=N,16
    """
    from ...porting import outputs_of, ported, write_files

    outputs_of(output, weights, module, force=force)
    with out.progress() as progress, redirect_stdout(sys.stderr):  # the file may go to stdout, and nothing else
        result = ported(
            module,
            _named(input, "--input", "NAME=SHAPE, such as x=N,3,224,224"),
            dims=dims_of(dim),
            arguments={key: _value(text) for key, text in _named(arg, "--arg", "NAME=VALUE").items()},
            name=name,
            file=output,
            weights=weights,
            outputs=[each.strip() for each in outputs.split(",")] if outputs else (),
            check=not no_check,
            progress=progress.step,
        )
    verdict = result.verdict
    refused = verdict is not None and verdict.exit_code == DEFINITION
    if not refused:
        write_files(result, output, weights, force=force)
    if out.json:
        facts: dict[str, Any] = {
            name: getattr(result, name) for name in ("name", "missing", "text", "notes", "requirements")
        }
        facts["check"] = result.verdict.to_json() if result.verdict is not None else None
        print_json({"schema": 1, "kind": "port", **facts})
    elif output is None:
        typer.echo(result.text, nl=False)
    if not out.quiet and not out.json:
        for line in result.remarks(output, weights):
            print_note(line)
        if refused and (output or weights):
            print_note("no file is written: --no-check writes it as it is")
    if verdict is not None and verdict.exit_code:
        raise typer.Exit(verdict.exit_code)


def _named(given: Texts, option: str, expected: str) -> dict[str, str]:
    return pairs_of(given, option, expected, lambda name, _: name.isidentifier())


def _value(text: str) -> Any:
    """JSON, a literal of Python's such as ``(1, 2)``, or the text itself."""
    for read in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            return read(text)
    return text
