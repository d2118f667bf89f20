"""`trtdsl explain`: what a lowering will do, from shapes alone."""

from __future__ import annotations

from typing import Annotated

import typer

import trtdsl as td

from ...core.errors import UsageError
from ...display.terminal import print_line
from ..command import Output, command
from ..defaults import Command, Group
from ..options import Dims, Texts, dims_of, option, shape_of

app = typer.Typer(cls=Group, name="explain", help="What a lowering will do, from shapes alone.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    pass


@app.command(cls=Command)
@command
def einsum(
    out: Output,
    equation: Annotated[str, typer.Argument(metavar="EQUATION", help='Such as "nkctv,kvw->nctw".')],
    shapes: Annotated[list[str], typer.Argument(metavar="SHAPE…", help="One for each operand, such as N,3,64,300,18.")],
    constant: Annotated[list[int] | None, option("An operand known in advance, from 0 on.", "INDEX")] = None,
    order: Annotated[
        Texts, option("How an operand lies in memory, such as 0=ntvkc: channels last.", "INDEX=LABELS")
    ] = None,
    dim: Dims = None,
) -> None:
    """Print the plan of an einsum: its steps, what is transposed and why, and what it costs.

    Examples:
      trtdsl explain einsum "nkctv,kvw->nctw" N,3,64,300,18 3,18,18 --dim N=1:4:16
    """
    known = dims_of(dim)
    orders = dict(_order_of(text) for text in order or ())
    given = [shape_of(text, known) for text in shapes]
    plan = td.explain_einsum(equation, *given, constants=constant or (), orders=orders)
    out.result({"schema": 1, "kind": "einsum", **plan.to_json()}, lambda: print_line(str(plan)))


def _order_of(text: str) -> tuple[int, str]:
    """An operand's number and the labels of its dimensions, from the slowest in memory to the fastest."""
    index, equals, labels = text.partition("=")
    if not equals or not index.isdecimal():
        raise UsageError(f"--order {text!r} is not an operand's number and its labels, such as 0=ntvkc")
    return int(index), labels
