"""`trtdsl doctor`: what is installed on this machine, and what can be done with it."""

from __future__ import annotations

import typer

import trtdsl as td

from ...display.results import print_facts
from ..command import Output, command
from ..options import Backend

app = typer.Typer()


@app.command()
@command
def doctor(out: Output, backend: Backend = None) -> None:
    """Say what is installed here, what this machine can do with it, and what is missing."""
    facts = td.diagnose(backend)
    out.result({"schema": 1, "kind": "doctor", **facts}, lambda: print_facts(facts))
