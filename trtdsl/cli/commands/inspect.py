"""`trtdsl inspect`: a network's layers, or what the GPU will run."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

import trtdsl as td

from ...core.errors import UsageError
from ...core.files.names import is_file
from ...display.folding import SORTS as LAYER_SORTS
from ...display.results import ALL, print_passes, print_summary
from ...display.terminal import print_parts, terminal
from ...programs.devices import DEFAULT, find_device, floor_of
from ..command import Output, command
from ..options import NUMBER, Common, Gpu, Lowerings, Settings, Shapes, for_each_part, option, shapes_of

if TYPE_CHECKING:
    from ...programs.program import By
Target = Annotated[str, typer.Argument(metavar="NETWORK|ENGINE", help="FILE.py or FILE.py:NAME, or NAME.engine")]


@command
def inspect(
    out: Output,
    network: Target,
    settings: Settings,
    lowerings: Lowerings,
    definition: Common,
    program: Annotated[bool, option("Show what the GPU will run, instead of the layers.")] = False,
    by: Annotated[str, option("Of a program: line, module, kind or launch.", "WHAT")] = "line",
    sort: Annotated[
        str | None, option("Of layers order, bytes, flops, parameters; of a program bytes, floor, order.", "COLUMN")
    ] = None,
    depth: Annotated[
        str | None, option("Fold modules below N names, or all for every layer; as few as fit.", "N")
    ] = None,
    passes: Annotated[bool, option("Show what passes did with each call, and why they did not.")] = False,
    device: Gpu = DEFAULT,
    profile: Annotated[int, option("At whose best sizes.", "INDEX")] = 0,
    shape: Shapes = None,
) -> None:
    """Print a network's layers, what an engine's manifest says of it, or with --program what the GPU will run.

    With --passes, what passes did with each of the author's calls, and why they did nothing.

    Layers have shapes, parameters, FLOPs, bytes and the author's line; a program has launches, the bytes that they
    move, what of them is only rearranged, a floor under its time, and hazards.

    Examples:
      trtdsl inspect net.py --sort flops
      trtdsl inspect net.engine --program --by launch
    """
    alone = {"--tuning": isinstance(lowerings, Path)}
    if program:
        at = _checked(by, sort or "bytes", device)

        def launches(out: Output, source: td.NetworkSpec | str) -> None:
            from ...display.program import program_text
            from ...programs.hazards import find_hazards

            with out.progress() as progress:
                at_sizes = {"shapes": shapes_of(shape), "profile": profile}
                found = td.program(source, **at_sizes, **definition, progress=progress.step)
            hazards = [vars(hazard) for hazard in find_hazards(found)] if out.json else []
            value = {**found.to_json(), "floor": floor_of(found, device).to_json(), "hazards": hazards}
            text = functools.partial(program_text, found, device, by=at, sort=sort or "bytes", width=terminal().width)
            out.result(value, lambda: print_parts(text()))

        if ".py" not in Path(network).name and not settings and lowerings is True:
            return launches(out, network)
        return for_each_part(out, network, settings, lambda out, spec: launches(out, spec.tuned(lowerings)), alone)
    if shape:
        raise UsageError("--shape belongs to --program; --dim has the sizes that a network's layers are shown at")
    if Path(network).suffix == ".engine" and is_file(network):
        return _engine(out, Path(network))
    order = sort or "order"
    if order not in LAYER_SORTS:
        raise UsageError(f"--sort must be one of {', '.join(LAYER_SORTS)}, not {order!r} (of layers)")
    shown = sys.maxsize if depth == ALL else None if depth is None else _number(depth)

    def layers(out: Output, spec: td.NetworkSpec) -> None:
        with out.progress() as progress:
            progress.step("defining the network", 0, 1)
            summary = td.inspect(spec.tuned(lowerings), profile=profile, **definition)
        show = print_passes if passes else functools.partial(print_summary, depth=shown, sort=order)
        out.result(summary.to_json(), lambda: show(summary))

    return for_each_part(out, network, settings, layers, alone)


def _engine(out: Output, path: Path) -> None:
    from ...display.engine import engine_facts, engine_lines
    from ...engine.loading.loader import read_described

    _, _, manifest = read_described(path)
    value = {"schema": 1, "kind": "engine", **engine_facts(manifest)}
    out.result(value, lambda: print_parts(engine_lines(path, manifest)))


def _number(depth: str) -> int:
    if not NUMBER.fullmatch(depth) or int(depth) < 1:
        raise UsageError(f"--depth {depth}: expected a number from 1 on, or {ALL}")
    return int(depth)


def _checked(by: str, sort: str, device: str) -> By:
    from ...display.program import SORTS
    from ...programs.program import By

    if by not in get_args(By):
        raise UsageError(f"--by must be one of {', '.join(get_args(By))}, not {by!r}")
    if sort not in SORTS:
        raise UsageError(f"--sort must be one of {', '.join(SORTS)}, not {sort!r}")
    find_device(device)
    return by  # pyright: ignore[reportReturnType] (it is one of them)
