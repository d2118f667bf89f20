"""`trtdsl explain`: what a lowering will do, from shapes alone."""

from __future__ import annotations

from typing import Annotated

import typer

import trtdsl as td

from ...display.terminal import print_line
from ..command import Output, command
from ..options import Dims, dims_of, shape_of

app = typer.Typer(name="explain", help="What a lowering will do, from shapes alone.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    pass


@app.command()
@command
def einsum(
    out: Output,
    equation: Annotated[str, typer.Argument(metavar="EQUATION", help='Such as "nkctv,kvw->nctw".')],
    shapes: Annotated[list[str], typer.Argument(metavar="SHAPE…", help="One for each operand, such as N,3,64,300,18.")],
    constant: Annotated[
        list[int] | None, typer.Option("--constant", metavar="INDEX", help="An operand known in advance, from 0 on.")
    ] = None,
    dim: Dims = None,
) -> None:
    """Print the plan of an einsum: its steps, what is transposed and why, and what it costs."""
    known = dims_of(dim)
    plan = td.explain_einsum(equation, *(shape_of(text, known) for text in shapes), constants=constant or ())
    out.result({"schema": 1, "kind": "einsum", **plan.to_json()}, lambda: print_line(str(plan)))
