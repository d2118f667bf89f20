"""Files that are written whole or not at all, and names from outside that become files' names."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import UsageError

LONGEST = 255  # bytes of a file's name that every file system here takes


def file_name(name: str, suffix: str = "", what: str = "the name") -> str:
    """A name that came from outside (a manifest, an engine) with ``suffix``, as the name of one file or folder.

    Raises UsageError, naming ``what`` it is of, for one that would lead to another folder or that no file can have.

    >>> file_name("scores", ".npy")
    'scores.npy'
    """
    reason = None
    if name in ("", ".", ".."):
        reason = "is no file's name"
    elif any(mark in name for mark in ("/\\:" if os.name == "nt" else "/\\")):
        reason = "would lead to another place"
    elif not name.isprintable():
        reason = "has characters that cannot be printed"
    elif len((name + suffix).encode("utf-8", "surrogatepass")) > LONGEST:
        reason = "is too long for a file's name"
    if reason is not None:
        shown = name if len(name) <= 60 else name[:57] + "..."
        raise UsageError(f"{what} {shown!r} {reason}, and a file would be called after it")
    return name + suffix


def is_file(path: str | os.PathLike[str]) -> bool:
    """Whether there is such a file; False also for a name that no file can have."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def check_writable(path: str | os.PathLike[str]) -> Path:
    """The path, when a file can be made there; otherwise UsageError, before any work is done."""
    path = Path(path)
    target = _regular(path)
    try:
        with _temporary(target) as (descriptor, name):
            os.close(descriptor)
            os.unlink(name)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    return path


@contextmanager
def _temporary(target: Path) -> Iterator[tuple[int, Path]]:
    """A new file beside ``target`` for writing, with the mode that it will have; locked while its writer lives."""
    short = hashlib.sha256(target.name.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    for left in target.parent.glob(f".trtdsl-{short}-*.tmp"):
        _remove_if_abandoned(left)
    name = target.parent / f".trtdsl-{short}-{secrets.token_hex(8)}.tmp"
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
    try:
        with suppress(OSError):  # there are file systems without locks
            _lock(descriptor)
        with suppress(FileNotFoundError):
            os.chmod(name, stat.S_IMODE(target.stat().st_mode))
        yield descriptor, name
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def _lock(descriptor: int) -> None:
    """Takes the file's lock, or raises OSError where another process has it."""
    with suppress(ImportError):  # Windows: a file that is open there cannot be removed in any case
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _remove_if_abandoned(path: Path) -> None:
    """Removes the files that a killed writer left behind: its lock ended with its process."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
        try:
            _lock(descriptor)
            os.unlink(path)
        finally:
            os.close(descriptor)


def make_folder(path: str | os.PathLike[str]) -> Path:
    """The folder, made where there is none. Raises UsageError when that fails."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make the folder {path}: {error.strerror}") from None
    return Path(path)


def _regular(path: Path) -> Path:
    """The file that is written for a path: a link stays one. UsageError where there cannot be a regular file."""
    try:
        if path.is_dir():
            raise UsageError(f"cannot write {path}: it is a directory")
        if path.exists() and not path.is_file():  # a rename would replace a device or a pipe by a file
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

    They are renamed in their order: a process that is killed meanwhile leaves the last ones as they were. A file that
    was there keeps its mode. Raises UsageError as :func:`check_writable` does, and when writing fails.
    """
    temporary: list[tuple[Path, Path]] = []
    descriptors: list[int] = []
    try:
        for target, data in files.items():
            path = _regular(Path(target))
            with _temporary(path) as (descriptor, name):
                descriptors.append(descriptor)
                _write(descriptor, data)
            temporary.append((name, path))
        for name, path in temporary:
            os.replace(name, path)
        for folder in {path.parent for _, path in temporary}:
            _sync(folder)
    except OSError as error:
        raise UsageError(f"cannot write {', '.join(map(str, files))}: {error.strerror}") from None
    finally:
        for name, _ in temporary:
            with suppress(FileNotFoundError):
                os.unlink(name)
        for descriptor in descriptors:
            os.close(descriptor)


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest[: 1 << 30]) :]
    os.fsync(descriptor)


def _sync(folder: Path) -> None:
    """Puts a folder's entries on disk, where the system knows that."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
