"""`trtdsl compare`: two programs side by side."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import trtdsl as td

from ...core import exit_codes
from ...core.errors import UsageError
from ...display.results import print_comparison
from ...display.terminal import print_line
from ...programs.devices import DEFAULT, find_device
from ..command import Output, command
from ..options import (
    Backend,
    Dims,
    Gpu,
    Precision,
    Settings,
    Shapes,
    dims_of,
    networks_of,
    settings_of,
    shapes_of,
)

app = typer.Typer()


@app.command()
@command
def compare(
    out: Output,
    before: Annotated[str, typer.Argument(metavar="A", help="A network, an engine or an ONNX file.")],
    after: Annotated[str, typer.Argument(metavar="B", help="What is compared with it.")],
    set_: Settings = None,
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
) -> None:
    """Compare two programs: launches, bytes, floor, memory, engine size, build time, and where they differ most."""
    if fail_above is not None and not fail_above > 0:
        raise UsageError(f"--fail-above must be more than 0, not {fail_above}")
    find_device(device)
    options: dict[str, Any] = {"precision": precision, "backend": backend}
    with out.progress() as progress:
        networks = networks_of([before, after], settings_of(set_))
        programs = td.programs_alike(
            networks, dims=dims_of(dim), shapes=shapes_of(shape), progress=progress.step, **options
        )
    comparison = td.compare_programs(programs[0], programs[1], device)
    worse = comparison.worse_than(fail_above) if fail_above is not None else ()

    def show() -> None:
        print_comparison(comparison)
        for row in worse:
            ratio = "more than nothing" if row.ratio is None else f"{row.ratio:.3f} of A's"
            print_line(f"{row.name}: {ratio}, above {fail_above}")

    value = {**comparison.to_json(), "fail_above": fail_above, "worse": [row.name for row in worse]}
    out.result(value, show)
    if worse:
        raise typer.Exit(exit_codes.MISMATCH)
