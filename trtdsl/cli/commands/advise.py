"""`trtdsl advise`: edits of a network's file with which its engine costs less."""

from __future__ import annotations

from typing import Annotated

import typer

import trtdsl as td

from ...core import exit_codes
from ...display.results import print_advice
from ...programs.devices import DEFAULT
from ..command import Output, command
from ..options import Definition, Gpu, Lowerings, NetworkName, Settings, option


@command
def advise(
    out: Output,
    network: NetworkName,
    settings: Settings,
    definition: Definition,
    lowerings: Lowerings,
    device: Gpu = DEFAULT,
    write: Annotated[bool, option("Check the changed network, and write its file where it passes.")] = False,
) -> None:
    """Print edits of a network's file, as a diff, with which its engine moves less: each is built and measured.

    Attention that is written out becomes one call. With --write the file is changed where the changed network passes
    its check; exit code 1 when it does not.

    Examples:
      trtdsl advise net.py --precision fp16
    """
    with out.progress() as progress:
        spec = td.load_spec(network, settings).tuned(lowerings)
        advice = td.advise(spec, write=write, device=device, progress=progress.step, **definition)
    out.result(advice.to_json(), lambda: print_advice(advice, verbose=out.verbose))
    if advice.check is not None and not advice.check.passed:
        raise typer.Exit(exit_codes.MISMATCH)
