"""`trtdsl doctor`: what is installed on this machine, and what can be done with it."""

from __future__ import annotations

import shlex
from typing import Annotated

import trtdsl as td

from ...core.diagnosis import cmake_options
from ...display.results import print_facts
from ...display.terminal import print_line
from ..command import Output, command
from ..options import Backend, option


@command
def doctor(
    out: Output,
    backend: Backend = None,
    cmake: Annotated[bool, option("Print CMake's options to link with the library in the Python package.")] = False,
) -> None:
    """Say what is installed here, what this machine can do with it, and what is missing.

    Examples:
      trtdsl doctor
    """
    if cmake:
        options = cmake_options(backend)
        value = {"schema": 1, "kind": "doctor", "cmake": options}
        return out.result(value, lambda: print_line(shlex.join(options)))
    facts = td.diagnose(backend)
    return out.result({"schema": 1, "kind": "doctor", **facts}, lambda: print_facts(facts))
