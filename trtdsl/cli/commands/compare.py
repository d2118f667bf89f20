"""`trtdsl compare`: two programs side by side, or two engines evaluated on the same feeds."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

import trtdsl as td

from ...core import exit_codes
from ...core.errors import UsageError
from ...display.results import print_comparison, print_runs
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
    Texts,
    dims_of,
    files_of,
    networks_of,
    option,
    shapes_of,
)


def run_options(
    feed: Annotated[Texts, option("With --run: what to feed; once for each input.", "NAME=FILE.npy")] = None,
    sample: Annotated[Texts, option("With --run: the range of an engine's input.", "NAME=LOW:HIGH")] = None,
    seed: Annotated[int, option("With --run: of what is drawn.")] = 0,
    trust: Annotated[bool, option("With --run: run kernels of engines that were not built here.")] = False,
) -> dict[str, Any]:
    """What engines are evaluated on, as :func:`~trtdsl.compare_runs` takes it."""
    return {"feeds": files_of(feed, "--feed") or None, "samples": samples_of(sample), "seed": seed, "trust": trust}


@command
def compare(
    out: Output,
    before: Annotated[str, typer.Argument(metavar="A", help="A network, an engine or an ONNX file.")],
    after: Annotated[str, typer.Argument(metavar="B", help="What is compared with it.")],
    runs: Annotated[dict[str, Any], run_options],
    settings: Settings,
    dim: Dims = None,
    shape: Shapes = None,
    precision: Precision = None,
    backend: Backend = None,
    device: Gpu = DEFAULT,
    run: Annotated[bool, option("Evaluate both on the CPU: do they give the same, and where do they part?")] = False,
    fail_above: Annotated[
        float | None,
        option(
            "Exit code 1 where B's launches, bytes, rearranged bytes, floor or memory are above RATIO times A's.",
            "RATIO",
        ),
    ] = None,
) -> None:
    """Compare two programs: launches, bytes, floor, memory, engine size, build time, and where they differ most.

    With --run both are evaluated instead, and exit code 1 says that they differ.

    Examples:
      trtdsl compare net.py other.py --precision fp16
      trtdsl compare net.engine net.py --fail-above 1.05
    """
    if run:
        if fail_above is not None or shape or backend:
            raise UsageError("--run compares results: not with --fail-above, --shape or --backend")
        options = {**runs, "dims": dims_of(dim), "precision": precision}
        _compare_results(out, [before, after], settings, options)
        return
    if any(runs.values()):
        raise UsageError("--feed, --sample, --seed and --trust belong to --run")
    if fail_above is not None and not fail_above > 0:
        raise UsageError(f"--fail-above must be more than 0, not {fail_above}")
    find_device(device)
    how: dict[str, Any] = {"precision": precision, "backend": backend}
    with out.progress() as progress:
        networks = networks_of([before, after], settings)
        sizes: dict[str, Any] = {"dims": dims_of(dim), "shapes": shapes_of(shape)}
        programs = td.programs_alike(networks, **sizes, **how, progress=progress.step)
    comparison = td.compare_programs(programs[0], programs[1], device)
    worse = comparison.worse_than(fail_above) if fail_above is not None else ()

    def show() -> None:
        named = {"before": f"{before}: {comparison.before}", "after": f"{after}: {comparison.after}"}
        print_comparison(replace(comparison, **named))
        for row in worse:
            ratio = "more than nothing" if row.ratio is None else f"{row.ratio:.3f} of A's"
            print_line(f"{row.name}: {ratio}, above {fail_above}")

    value = {**comparison.to_json(), "fail_above": fail_above, "worse": [row.name for row in worse]}
    out.result(value, show)
    if worse:
        raise typer.Exit(exit_codes.MISMATCH)


def _compare_results(out: Output, sources: list[str], settings: dict[str, str], options: dict[str, Any]) -> None:
    """Evaluates both engines and prints where they part."""
    if not all(isinstance(size, int) for size in options["dims"].values()):
        raise UsageError("--run takes one size of a dimension: --dim N=4")
    with out.progress():
        found = td.compare_runs(*networks_of(sources, settings), **options)
    out.result(found.to_json(), lambda: print_runs(found))
    if not found.equal:
        raise typer.Exit(exit_codes.MISMATCH)


def samples_of(given: Texts) -> dict[str, tuple[float, float]]:
    """Parses ``--sample``."""
    found = {}
    for name, text in files_of(given, "--sample", "NAME=LOW:HIGH").items():
        try:
            low, high = map(float, text.split(":"))
        except ValueError:
            raise UsageError(f"--sample {name}={text}: expected NAME=LOW:HIGH, such as ids=0:1000") from None
        found[name] = (low, high)
    return found
