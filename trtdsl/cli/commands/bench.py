"""`trtdsl bench`: the time of an engine or a network on this machine's GPU."""

from __future__ import annotations

from typing import Annotated

import typer

import trtdsl as td

from ...core import exit_codes
from ...display.results import print_bench
from ...display.terminal import print_error
from ..command import Output, command
from ..options import EngineBackend, Settings, dims_of, networks_of


@command
def bench(
    out: Output,
    target: Annotated[str, typer.Argument(metavar="ENGINE|NETWORK", help="NAME.engine, or FILE.py[:NAME].")],
    settings: Settings,
    runs: Annotated[int, typer.Option("--runs", help="Timed runs.")] = 100,
    warm_up: Annotated[int, typer.Option("--warm-up", help="Runs before them.")] = 10,
    dim: Annotated[
        list[str] | None, typer.Option("--dim", metavar="NAME=SIZE", help="Of a network's dynamic dimension.")
    ] = None,
    profile: Annotated[int, typer.Option("--profile", metavar="INDEX", help="At whose best sizes.")] = 0,
    precision: Annotated[
        str | None, typer.Option("--precision", metavar="fp16|bf16", help="Of a network; torch runs in it too.")
    ] = None,
    against: Annotated[
        str, typer.Option("--against", metavar="LIST", help="torch, compile, onnx: the reference, beside it.")
    ] = "",
    backend: EngineBackend = None,
    tf32: Annotated[bool, typer.Option("--tf32/--no-tf32", help="For all that is measured.")] = True,
    graphs: Annotated[bool, typer.Option("--graphs", help="Capture the engine as a CUDA graph.")] = False,
    fail_above: Annotated[
        float | None, typer.Option("--fail-above", metavar="MS", help="Exit code 1 for a slower median.")
    ] = None,
) -> None:
    """Time an engine, or a network built here, on this machine's GPU.

    Examples:
      trtdsl bench net.engine --runs 200
      trtdsl bench net.py --dim N=4 --against torch,compile
    """
    report = td.bench(
        networks_of([target], settings)[0],
        runs=runs,
        warm_up=warm_up,
        dims=dims_of(dim),
        profile=profile,
        precision=precision,
        against=[name for name in against.split(",") if name],
        backend=backend,
        tf32=tf32,
        graphs=graphs,
    )
    out.result(report.to_json(), lambda: print_bench(report))
    if fail_above is not None and not report.times[0].median <= fail_above:  # nothing is below a limit of NaN
        print_error(f"the median is {report.times[0].median:.3f} ms, above {fail_above} ms")
        raise typer.Exit(exit_codes.MISMATCH)
