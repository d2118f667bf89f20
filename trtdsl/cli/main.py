"""The command line. It has no logic of its own: it parses, calls, prints, and turns errors into exit codes."""

from __future__ import annotations

import platform
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import trtdsl as td

from ..core.version import __version__
from ..display.results import print_check, print_facts, print_layers
from ..display.terminal import Progress, print_error, print_line
from . import build as cli_build
from . import engine as cli_engine
from . import port as cli_port
from . import program as cli_program
from .common import (
    AllowNonfinite,
    Backend,
    Dims,
    Json,
    NetworkName,
    Precision,
    Profiles,
    Quiet,
    Verbose,
    WeightsFile,
    dims_of,
    errors,
    print_json,
    profiles_of,
    shape_of,
)

app = typer.Typer(
    name="trtdsl",
    help="TensorRT networks in Python with torch's vocabulary, without ONNX, proven equal to torch without a GPU.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
weights_app = typer.Typer(help="Weights files.", no_args_is_help=True)
app.add_typer(weights_app, name="weights")
explain_app = typer.Typer(help="What a lowering will do, from shapes alone.", no_args_is_help=True)
app.add_typer(explain_app, name="explain")

app.command()(cli_build.build)


@app.command()
def check(
    network: NetworkName,
    dim: Dims = None,
    profile: Profiles = None,
    weights: WeightsFile = None,
    precision: Precision = None,
    backend: Backend = None,
    on: Annotated[str, typer.Option("--on", help="interpreter (any machine) or engine (needs a GPU).")] = "interpreter",
    seed: Annotated[int, typer.Option("--seed", help="Of the random inputs.")] = 0,
    layers: Annotated[
        bool, typer.Option("--layers", help="Find the first submodule, layer and line that differ.")
    ] = False,
    allow_nonfinite: AllowNonfinite = False,
    json_: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Compare a network with its torch reference at the ends of every profile; exit code 1 when it differs."""
    with errors(json_, verbose), Progress(quiet or json_) as progress:
        spec = td.load_spec(network)
        defined = spec.define(
            weights=weights,
            dims=dims_of(dim),
            profiles=profiles_of(profile),
            precision=precision,
            backend=backend,
            allow_nonfinite=allow_nonfinite,
        )
        report = td.check(
            spec,
            on=on,
            weights=weights,
            seed=seed,
            network=defined,
            progress=progress.step,
        )
        found = td.locate_difference(spec, defined, report, weights) if layers else None
        unbuildable = td.obstacles(defined)
        progress.stop()
        if json_:
            more = {"layers": found.to_json() if found else None, "unbuildable": [asdict(each) for each in unbuildable]}
            print_json({**report.to_json(), **more})
        elif not quiet:
            print_check(report)
            if found is not None:
                print_layers(found)
            for obstacle in unbuildable:
                print_line(str(obstacle))
    if not report.passed:
        raise typer.Exit(1)


@weights_app.command("convert")
def convert(
    source: Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="A torch checkpoint (.pt, .pth).")],
    output: Annotated[Path, typer.Argument(metavar="OUTPUT", help="The safetensors file to write.")],
    json_: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Make a safetensors file of a torch checkpoint's state_dict; a pickle that would run code is refused."""
    with errors(json_, verbose):
        names = td.convert_weights(source, output)
        if json_:
            print_json({"schema": 1, "kind": "weights", "output": str(output), "names": names})
        elif not quiet:
            print_line(f"{output}: {len(names)} tensors")


@explain_app.command("einsum")
def explain_einsum(
    equation: Annotated[str, typer.Argument(metavar="EQUATION", help='Such as "nkctv,kvw->nctw".')],
    shapes: Annotated[list[str], typer.Argument(metavar="SHAPE…", help="One for each operand, such as N,3,64,300,18.")],
    constant: Annotated[
        list[int] | None, typer.Option("--constant", metavar="INDEX", help="An operand known in advance, from 0 on.")
    ] = None,
    dim: Dims = None,
    json_: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Print the plan of an einsum: its steps, what is transposed and why, and what it costs."""
    with errors(json_, verbose):
        known = dims_of(dim)
        plan = td.explain_einsum(equation, *(shape_of(text, known) for text in shapes), constants=constant or ())
        if json_:
            print_json({"schema": 1, "kind": "einsum", **plan.to_json()})
        elif not quiet:
            print_line(str(plan))


@app.command()
def doctor(backend: Backend = None, json_: Json = False, quiet: Quiet = False, verbose: Verbose = False) -> None:
    """Say what is installed here, what this machine can do with it, and what is missing."""
    with errors(json_, verbose):
        facts = td.diagnose(backend)
        if json_:
            print_json({"schema": 1, "kind": "doctor", **facts})
        elif not quiet:
            print_facts(facts)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"trtdsl {__version__} (Python {platform.python_version()})")
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


cli_engine.register(app, weights_app)
cli_port.register(app)
cli_program.register(app)


def main() -> None:
    """The entry point of the console script."""
    try:
        app()
    except KeyboardInterrupt:
        print_error("cancelled; nothing was written")
        sys.exit(130)


if __name__ == "__main__":
    main()
