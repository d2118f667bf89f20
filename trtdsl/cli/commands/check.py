"""`trtdsl check`: is a network equal to its torch reference?"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

import trtdsl as td

from ...display.results import print_check, print_layers
from ...display.terminal import print_line
from ..command import Output, command
from ..options import Definition, NetworkName

app = typer.Typer()


@app.command()
@command
def check(
    out: Output,
    network: NetworkName,
    definition: Definition,
    on: Annotated[str, typer.Option("--on", help="interpreter (any machine) or engine (needs a GPU).")] = "interpreter",
    seed: Annotated[int, typer.Option("--seed", help="Of the random inputs.")] = 0,
    layers: Annotated[
        bool, typer.Option("--layers", help="Find the first submodule, layer and line that differ.")
    ] = False,
) -> None:
    """Compare a network with its torch reference at the ends of every profile; exit code 1 when it differs."""
    with out.progress() as progress:
        spec = td.load_spec(network)
        defined = spec.define(**definition)
        weights = definition["weights"]
        report = td.check(spec, on=on, weights=weights, seed=seed, network=defined, progress=progress.step)
        found = td.locate_difference(spec, defined, report, weights) if layers else None
        unbuildable = td.obstacles(defined)

    def show() -> None:
        print_check(report)
        if found is not None:
            print_layers(found)
        for obstacle in unbuildable:
            print_line(str(obstacle))

    more: dict[str, Any] = {"layers": found.to_json() if found is not None else None}
    out.result({**report.to_json(), **more, "unbuildable": [asdict(each) for each in unbuildable]}, show)
    if not report.passed:
        raise typer.Exit(1)
