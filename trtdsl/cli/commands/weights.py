"""`trtdsl weights`: files of weights for networks and for engines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import trtdsl as td

from ...display.terminal import print_line
from ..command import Output, command
from ..defaults import Command, Group
from ..options import NetworkName, Settings, Texts, dims_of, option

app = typer.Typer(cls=Group, name="weights", help="Weights files.", no_args_is_help=True)


@app.command(cls=Command)
@command
def convert(
    out: Output,
    source: Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="A torch checkpoint (.pt, .pth).")],
    output: Annotated[Path, typer.Argument(metavar="OUTPUT", help="The safetensors file to write.")],
) -> None:
    """Make a safetensors file of a torch checkpoint's state_dict; a pickle that would run code is refused.

    Examples:
      trtdsl weights convert model.pt model.safetensors
    """
    names = td.convert_weights(source, output)
    value = {"schema": 1, "kind": "weights", "output": str(output), "names": names}
    out.result(value, lambda: print_line(f"{output}: {len(names)} tensors"))


@app.command(cls=Command)
@command
def derive(
    out: Output,
    network: NetworkName,
    settings: Settings,
    output: Annotated[Path, typer.Argument(metavar="OUTPUT", help="The safetensors file to write.")],
    weights: Annotated[Path | None, option("The new weights.", "FILE")] = None,
    dim: Annotated[Texts, option("As the engine was built with.", "NAME=MIN:OPT:MAX")] = None,
    precision: Annotated[str | None, option("As the engine was built with.", "fp16|bf16")] = None,
) -> None:
    """Make what a refittable engine takes of new weights, where the network's file is and the engine is not.

    Examples:
      trtdsl weights derive net.py derived.safetensors --weights new.safetensors
    """
    spec = td.load_spec(network, settings)
    values = td.derive_weights(spec, weights, dims=dims_of(dim), precision=precision, output=output)
    value = {"schema": 1, "kind": "weights", "output": str(output), "names": list(values)}
    out.result(value, lambda: print_line(f"{output}: {len(values)} values"))
