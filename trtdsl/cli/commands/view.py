"""`trtdsl view`: a network and its program as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import trtdsl as td

from ...core.errors import UsageError, several
from ...core.files.names import file_name
from ...display.terminal import print_line, print_note
from ...display.view.files import FORMATS, SUFFIXES, format_of, output_of
from ...programs.devices import DEFAULT
from ..command import Output, command
from ..options import Common, Gpu, Settings, Shapes, for_each_part, option, shapes_of

Target = Annotated[str, typer.Argument(metavar="NETWORK|ENGINE", help="FILE.py or FILE.py:NAME, or NAME.engine")]


@command
def view(
    out: Output,
    network: Target,
    settings: Settings,
    definition: Common,
    output: Annotated[
        Path | None, option("Default: NAME.html here. Its folder is made.", "FILE", "-o", "--output")
    ] = None,
    format: Annotated[str | None, option(f"{', '.join(FORMATS)}; by the file's suffix.", "FORMAT")] = None,
    check: Annotated[bool, option("Compare with torch, and colour each call by its error.")] = False,
    report: Annotated[Path | None, option("A check that was made: `trtdsl check --json`'s output.", "FILE")] = None,
    build: Annotated[bool, option("Build it in memory for the program's tab.")] = False,
    engine: Annotated[Path | None, option("The engine for the program's tab.", "FILE")] = None,
    shape: Shapes = None,
    device: Gpu = DEFAULT,
    profile_index: Annotated[int, option("At whose best sizes, of an engine's.", "INDEX")] = 0,
) -> None:
    """Write a network and its program as one HTML page, which needs no other file and no network connection.

    The program is that of --engine, of a build with --build, or of NAME.engine where that is of this very network. An
    engine alone shows its program.

    Examples:
      trtdsl view net.py --build --check -o net.html
      trtdsl view net.engine
    """
    if format is not None and format not in FORMATS:
        raise UsageError(f"--format is one of {', '.join(FORMATS)}, not {format!r}")
    if check and report is not None:
        raise UsageError("--check makes the report that --report has: give one of them")
    from ...display.view.view import reads_of  # which imports most rooms

    def one(out: Output, source: td.NetworkSpec | str) -> None:
        chosen = format or (format_of(output) if output is not None else "html")
        called = (Path(source).stem or "view") if isinstance(source, str) else source.name  # no manifest chooses it
        file = Path(file_name(called, SUFFIXES[chosen], "the network's name")) if output is None else output
        with out.progress() as progress:
            reads = reads_of(Path(source) if isinstance(source, str) else source, definition["weights"], engine, report)
            output_of(file, chosen, reads)  # type: ignore[arg-type]
            made = td.view(
                source,
                check=check if report is None else report,
                build=build,
                engine=engine,
                shapes=shapes_of(shape),
                device=device,
                profile=profile_index,
                progress=progress.step,
                **definition,
            )
        if made.note:
            print_note(made.note)
        made.save(file, chosen)  # type: ignore[arg-type]
        value = {"schema": 1, "kind": "view", "file": str(file), "format": chosen, "bytes": file.stat().st_size}
        value |= {"note": made.note} if made.note else {}
        out.result(value, lambda: print_line(f"{file}: {_what(made)}, {value['bytes'] / 1e3:.0f} kB"))

    if ".py" not in Path(network).suffix:
        return one(out, network)
    alone = {"--output": output, "--report": report, "--engine": engine}
    return for_each_part(out, network, settings, one, alone)


def _what(made: td.View) -> str:
    network, program, check = (made.model[name] for name in ("network", "program", "check"))
    parts = [several(len(network["layers"]), "layer")] if network else []
    parts += [several(program["totals"]["launches"], "launch")] if program else []
    parts += ["equal to torch" if check["passed"] else "not equal to torch"] if check else []
    return ", ".join(parts)
