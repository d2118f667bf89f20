"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from .errors import UsageError


def check_writable(path: str | os.PathLike[str]) -> Path:
    """The path, when a file can be made there; otherwise UsageError, before any work is done."""
    from tempfile import mkstemp

    path = Path(path)
    folder = _regular(path).parent
    try:
        descriptor, name = mkstemp(dir=folder, prefix=f".{path.name}.")
        os.close(descriptor)
        os.unlink(name)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    return path


def _regular(path: Path) -> Path:
    """The file that is written for a path: a link stays one. UsageError where there cannot be a regular file."""
    try:
        if path.is_dir():
            raise UsageError(f"cannot write {path}: it is a directory")
        if path.exists() and not path.is_file():  # a rename would put a file in the place of a device or a pipe
            raise UsageError(f"cannot write {path}: it is not a regular file")
        target = path.resolve() if path.is_symlink() else path
        if not target.parent.is_dir():
            raise UsageError(f"cannot write {path}: there is no directory {target.parent}")
        return target
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
        raise UsageError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from None


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes a file under a temporary name, syncs it and renames it. Raises UsageError when that fails."""
    write_all_atomically({path: data})


def write_all_atomically(files: Mapping[str | os.PathLike[str], bytes]) -> None:
    """Writes several files; none is renamed before all are on disk, and none is left half-written.

    Raises UsageError as :func:`check_writable` does, and when writing fails.
    """
    from tempfile import mkstemp

    temporary: list[tuple[str, Path]] = []
    try:
        for target, data in files.items():
            path = _regular(Path(target))
            descriptor, name = mkstemp(dir=path.parent, prefix=f".{path.name}.")
            temporary.append((name, path))
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o666 & ~_umask())
        for name, path in temporary:
            os.replace(name, path)
    except OSError as error:
        raise UsageError(f"cannot write {', '.join(map(str, files))}: {error.strerror}") from None
    finally:
        for name, _ in temporary:
            if os.path.exists(name):
                os.unlink(name)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
