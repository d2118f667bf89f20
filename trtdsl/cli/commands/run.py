"""`trtdsl run`: runs an engine on files of inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import trtdsl as td

from ...display.results import print_outputs
from ..command import Output, command
from ..options import EngineBackend, EngineName, Texts, files_of, option


@command
def run(
    out: Output,
    engine: EngineName,
    input: Annotated[Texts, option("An input; once for each.", "NAME=FILE.npy")] = None,
    output: Annotated[Path, option("For NAME.npy.", "FOLDER", "--output", "-o")] = Path("."),
    weights: Annotated[Path | None, option("Put these into a refittable engine first.", "FILE")] = None,
    backend: EngineBackend = None,
    device: Annotated[int, option("Which GPU.", "N")] = 0,
    no_manifest: Annotated[bool, option("The engine has none.")] = False,
    trust_network_file: Annotated[bool, option("With --weights: run the Python that the manifest names.")] = False,
    allow_host_code: Annotated[bool, option("Load an engine that carries code for the CPU.")] = False,
) -> None:
    """Run an engine on .npy files and write its outputs as FOLDER/NAME.npy.

    Examples:
      trtdsl run net.engine --input x=x.npy -o outputs
    """
    paths = td.run_files(
        engine,
        files_of(input, "--input"),
        output,
        backend=backend,
        device=device,
        manifest=not no_manifest,
        weights=weights,
        trust_network_file=trust_network_file,
        allow_host_code=allow_host_code,
    )
    outputs = {name: str(path) for name, path in paths.items()}

    from ...engine.loading.manifest import read_manifest  # not for --help, which imports this file

    entries = {} if no_manifest else read_manifest(engine).outputs
    shapes = {name: entry.shape for name, entry in entries.items()}
    value = {"schema": 1, "kind": "run", "engine": str(engine), "outputs": outputs}
    out.result(value, lambda: print_outputs(paths, shapes))
