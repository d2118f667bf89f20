"""An engine run once on files: .npy in, .npy out."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..core.backend import Backend
from ..core.errors import UsageError
from ..core.files import file_name, write_all_atomically
from ..core.lazy import np
from ..interpreter.feeds import read_array
from .arrays import view
from .engine import load_engine
from .loading.loader import open_engine


def read_inputs(files: Mapping[str, str | os.PathLike[str]]) -> dict[str, np.ndarray]:
    """Arrays by input name. Raises UsageError for a missing file, FeedError for a file that is no array."""
    return {name: read_array(name, path) for name, path in files.items()}


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
    arrays = read_inputs(inputs)
    found = open_engine(engine, backend=backend, manifest=manifest, allow_host_code=allow_host_code)
    if found.manifest is not None:
        _paths(Path(output), found.manifest.signature.outputs)
        found.manifest.signature.check({name: view(array) for name, array in arrays.items()})
    loaded = load_engine(
        engine,
        backend=backend,
        device=device,
        manifest=manifest,
        weights=weights,
        trust_network_file=trust_network_file,
        allow_host_code=allow_host_code,
    )
    paths = _paths(Path(output), loaded.signature.outputs)
    results = loaded.run(arrays, outputs="numpy")
    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}") from None
    write_all_atomically({paths[name]: _npy(array) for name, array in results.items()})
    return paths


def _paths(folder: Path, names: Iterable[str]) -> dict[str, Path]:
    """Where each output goes: into ``folder`` and nowhere else."""
    return {name: folder / file_name(name, ".npy", "the output's name") for name in names}


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()
