"""An engine run once on files: .npy in, .npy out."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..core.backend import Backend
from ..core.errors import FeedError, noted
from ..core.files.names import file_name
from ..core.files.writing import Kind, Output, Reads, check_all_writable, write_all_atomically
from ..core.lazy import np
from ..interpreter.feeds import note_of_files, read_array
from .engine import load_engine
from .loading.loader import open_engine
from .loading.manifest import manifest_path

ARRAY = Kind("an array", r"\x93NUMPY")


def run_files(
    engine: str | os.PathLike[str],
    inputs: Mapping[str, str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    backend: str | Backend | None = None,
    device: int = 0,
    manifest: bool = True,
    weights: str | os.PathLike[str] | None = None,
    trust_network_file: bool = False,
    allow_host_code: bool = False,
) -> dict[str, Path]:
    """Runs an engine on .npy files and writes each output as ``OUTPUT/NAME.npy``; returns the paths by output name.

    The engine and its inputs are checked before a GPU is needed. Raises as :func:`~trtdsl.load_engine` and
    :meth:`~trtdsl.Engine.run` do, and UsageError, also for an output whose name would lead out of the folder.
    """
    reads = [("engine", engine), ("manifest", manifest_path(Path(engine))), ("weights", weights)]
    reads += [(f"input {name!r}", file) for name, file in inputs.items()]
    arrays = {name: read_array(name, path) for name, path in inputs.items()}
    found = open_engine(engine, backend=backend, manifest=manifest, allow_host_code=allow_host_code)
    if found.manifest is not None:
        _outputs(Path(output), found.manifest.signature.outputs, reads)
        with noted(FeedError, note_of_files(inputs)):
            found.manifest.signature.check(found.manifest.signature.views(arrays))
    loaded = load_engine(
        engine,
        backend=backend,
        device=device,
        manifest=manifest,
        weights=weights,
        trust_network_file=trust_network_file,
        allow_host_code=allow_host_code,
    )
    files = _outputs(Path(output), loaded.signature.outputs, reads)
    with noted(FeedError, note_of_files(inputs)):
        results = loaded.run(arrays, outputs="numpy")
    write_all_atomically({files[name]: _npy(array) for name, array in results.items()})
    return {name: file.path for name, file in files.items()}


def _outputs(folder: Path, names: Iterable[str], reads: Reads) -> dict[str, Output]:
    """Where each output goes: into ``folder``, which is made, and nowhere else."""
    places = {name: file_name(name, ".npy", "the output's name") for name in names}
    files = check_all_writable(folder, dict.fromkeys(places.values(), ARRAY), reads)
    return {name: files[place] for name, place in places.items()}


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()
