"""The commands that look at networks and engines: inspect and compare. No logic of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, get_args

import typer

import trtdsl as td

from ..core.errors import UsageError
from ..display.picture import write_svg
from ..display.program import SORTS, program_text
from ..display.results import print_comparison, print_summary
from ..display.terminal import Progress, print_line, print_parts
from ..programs.devices import DEFAULT, find_device, floor_of
from ..programs.hazards import find_hazards
from ..programs.program import By
from .common import (
    AllowNonfinite,
    Backend,
    Dims,
    Json,
    Precision,
    Quiet,
    Verbose,
    WeightsFile,
    dims_of,
    errors,
    print_json,
    shape_of,
)

Target = Annotated[str, typer.Argument(metavar="NETWORK|ENGINE", help="FILE.py or FILE.py:NAME, or NAME.engine")]
Program = Annotated[bool, typer.Option("--program", help="Show what the GPU will run, instead of the layers.")]
ByWhat = Annotated[str, typer.Option("--by", metavar="WHAT", help="Of a program: line, module, kind or launch.")]
Sort = Annotated[str, typer.Option("--sort", metavar="COLUMN", help="Of a program: bytes, floor or order.")]
Gpu = Annotated[str, typer.Option("--device", metavar="GPU", help="Whose floor: h100, rtx-4090, orin, …")]
Svg = Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Draw the program, too.")]
Profile = Annotated[int, typer.Option("--profile", metavar="INDEX", help="At whose best sizes, of an engine's.")]
Shapes = Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="INPUT=SIZES", help="Of an engine without a manifest, such as x=4,3,224,224."),
]


def inspect(
    network: Target,
    dim: Dims = None,
    weights: WeightsFile = None,
    precision: Precision = None,
    backend: Backend = None,
    allow_nonfinite: AllowNonfinite = False,
    program: Program = False,
    by: ByWhat = "line",
    sort: Sort = "bytes",
    device: Gpu = DEFAULT,
    svg: Svg = None,
    profile: Profile = 0,
    shape: Shapes = None,
    json_: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Print a network's layers at the sizes it is tuned for, or with --program what the GPU will run.

    Layers have shapes, parameters, FLOPs, bytes and the author's line; a program has launches, the bytes that they
    move, what of them is only rearranged, a floor under its time, and hazards.
    """
    with errors(json_, verbose):
        if program or svg is not None:
            at = _checked(by, sort, device)
            with Progress(quiet or json_) as progress:
                found = td.program(
                    network,
                    dims=dims_of(dim),
                    shapes=_shapes_of(shape),
                    profile=profile,
                    weights=weights,
                    precision=precision,
                    backend=backend,
                    progress=progress.step,
                )
            if svg is not None:
                write_svg(found, svg, device=device)
            if json_:
                hazards = [vars(hazard) for hazard in find_hazards(found)]
                print_json({**found.to_json(), "floor": floor_of(found, device).to_json(), "hazards": hazards})
            elif not quiet:
                print_parts(program_text(found, device, by=at, sort=sort))
            return
        if precision is not None:
            raise UsageError("--precision is for --program: layers are shown as they are written")
        spec = td.load_spec(network)
        summary = td.inspect(spec, weights=weights, dims=dims_of(dim), backend=backend, allow_nonfinite=allow_nonfinite)
        if json_:
            print_json(summary.to_json())
        elif not quiet:
            print_summary(summary)


def compare(
    before: Annotated[str, typer.Argument(metavar="A", help="A network, an engine or an ONNX file.")],
    after: Annotated[str, typer.Argument(metavar="B", help="What is compared with it.")],
    dim: Dims = None,
    shape: Shapes = None,
    precision: Precision = None,
    backend: Backend = None,
    device: Gpu = DEFAULT,
    fail_above: Annotated[
        float | None,
        typer.Option(
            "--fail-above",
            metavar="RATIO",
            help="Exit code 1 where B's launches, bytes, rearranged bytes, floor or memory are above RATIO times A's.",
        ),
    ] = None,
    json_: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Compare two programs: launches, bytes, floor, memory, engine size, build time, and where they differ most."""
    with errors(json_, verbose):
        if fail_above is not None and not fail_above > 0:
            raise UsageError(f"--fail-above must be more than 0, not {fail_above}")
        find_device(device)
        options: dict[str, Any] = {"precision": precision, "backend": backend}
        with Progress(quiet or json_) as progress:
            programs = td.programs_alike(
                [before, after], dims=dims_of(dim), shapes=_shapes_of(shape), progress=progress.step, **options
            )
        comparison = td.compare_programs(programs[0], programs[1], device)
        worse = comparison.worse_than(fail_above) if fail_above is not None else ()
        if json_:
            print_json({**comparison.to_json(), "fail_above": fail_above, "worse": [row.name for row in worse]})
        elif not quiet:
            print_comparison(comparison)
            for row in worse:
                ratio = "more than nothing" if row.ratio is None else f"{row.ratio:.3f} of A's"
                print_line(f"{row.name}: {ratio}, above {fail_above}")
    if worse:
        raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(inspect)
    app.command()(compare)


def _checked(by: str, sort: str, device: str) -> By:
    if by not in get_args(By):
        raise UsageError(f"--by must be one of {', '.join(get_args(By))}, not {by!r}")
    if sort not in SORTS:
        raise UsageError(f"--sort must be one of {', '.join(SORTS)}, not {sort!r}")
    find_device(device)
    return by  # pyright: ignore[reportReturnType] (it is one of them)


def _shapes_of(given: list[str] | None) -> dict[str, tuple[int, ...]]:
    """Of ``--shape``."""
    shapes = {}
    for text in given or []:
        name, found, sizes = text.partition("=")
        shape = shape_of(sizes, {})
        if not found or not name or not all(isinstance(size, int) for size in shape):
            raise UsageError(f"--shape {text}: expected INPUT=SIZES, such as x=4,3,224,224")
        shapes[name] = shape
    return shapes
