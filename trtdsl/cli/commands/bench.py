"""`trtdsl bench`: the time of an engine or a network on this machine's GPU."""

from __future__ import annotations

from typing import Annotated

import typer

import trtdsl as td

from ...core import exit_codes
from ...display.results import print_bench
from ...display.terminal import print_error
from ..command import Output, command
from ..options import EngineBackend, Settings, Texts, dims_of, networks_of, option


@command
def bench(
    out: Output,
    target: Annotated[str, typer.Argument(metavar="ENGINE|NETWORK", help="NAME.engine, or FILE.py[:NAME].")],
    settings: Settings,
    runs: Annotated[int, option("Timed runs.")] = 100,
    warm_up: Annotated[int, option("Runs before them.")] = 10,
    dim: Annotated[Texts, option("Of a network's dynamic dimension.", "NAME=SIZE")] = None,
    profile: Annotated[int, option("At whose best sizes.", "INDEX")] = 0,
    precision: Annotated[str | None, option("Of a network; torch runs in it too.", "fp16|bf16")] = None,
    against: Annotated[str, option("torch, compile, onnx: the reference, beside it.", "LIST")] = "",
    backend: EngineBackend = None,
    tf32: Annotated[bool, option("For all that is measured.", None, "--tf32/--no-tf32")] = True,
    graphs: Annotated[bool, option("Capture the engine as a CUDA graph.")] = False,
    fail_above: Annotated[float | None, option("Exit code 1 for a slower median.", "MS")] = None,
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
