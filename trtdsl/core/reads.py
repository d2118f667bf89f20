"""What the author's code reads while it runs, as Python tells of it: a verdict on that code holds for this alone."""

from __future__ import annotations

import functools
import hashlib
import os
import stat
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from .errors import PACKAGE
from .files.reading import open_regular
from .imports import is_library

Identity = tuple[Any, ...]
"""Size, times, inode and device of a file, or a folder's names; empty for what is not there."""
Hashes = dict[str, str | None]
"""SHA-256 by path, of a file or of a folder's names; None for what is not there."""


@dataclass(eq=False)
class Reads:
    """The files and folders that were read while a folder was importable, each as it was then, and by which file."""

    found: dict[str, Identity] = field(default_factory=dict)
    askers: dict[str, set[str | None]] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    unrepeatable: set[str | None] = field(default_factory=set)
    """The files whose code read what nobody can compare later: a pipe, a connection, another program's output."""

    def note(self, path: str, asker: str | None, *, within: bool = True) -> None:
        """Keeps what a path leads to; of a link to a folder, ``within`` says whether its names count, too."""
        real, place = os.path.realpath(path), os.path.abspath(path)
        if identity_of(path) is None:
            self.unrepeatable.add(asker)
        elif not (real in self.written or real.startswith(PACKAGE) or is_library(real) or _of_the_system(real)):
            for each in {real, place} if within else {place}:  # a link may lead elsewhere later
                if each not in self.found:
                    self.found[each] = identity_of(each) or ()
                self.askers.setdefault(each, set()).add(asker)

    def hashes(self, others: Collection[str]) -> Hashes | None:
        """SHA-256 by path of what was read by other files than ``others``; None where it cannot be compared later."""
        if self.unrepeatable - set(others):
            return None
        asked = [path for path, askers in self.askers.items() if askers - set(others)]
        if any(identity_of(path) != self.found[path] for path in asked):
            return None
        return {path: hash_of(path) for path in asked}


_BY_FOLDER: dict[str, Reads] = {}
_ACTIVE: list[Reads] = []


def reads_of(folder: str | os.PathLike[str]) -> Reads:
    """What was read while this folder was importable, in this process."""
    return _BY_FOLDER.setdefault(os.path.realpath(folder), Reads())


@contextmanager
def noted(folder: str | os.PathLike[str]) -> Iterator[Reads]:
    """Inside, what the author's code reads is noted for a folder."""
    _listen()
    reads = reads_of(folder)
    _ACTIVE.append(reads)
    if len(_ACTIVE) == 1:
        _REPLACED.extend(_without_events())
        for module, name, function in _REPLACED:
            setattr(module, name, _told(function))
    try:
        yield reads
    finally:
        _ACTIVE.remove(reads)
        while _REPLACED and not _ACTIVE:
            setattr(*_REPLACED.pop())


_ASKING = {name: getattr(os, name) for name in ("stat", "lstat", "access", "readlink")}
_REPLACED: list[tuple[Any, str, Callable[..., Any]]] = []


def _without_events() -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """What Python has no event of: what tells whether a file is there, such as by os.path.exists, and what opens
    safetensors, under that name in whichever module.
    """
    import safetensors

    yield from ((module, *each) for module in (os, sys.modules[os.name]) for each in _ASKING.items())
    for module in [*sys.modules.values()]:
        if getattr(module, "__dict__", {}).get("safe_open") is safetensors.safe_open:
            yield module, "safe_open", safetensors.safe_open


def _told(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which tells of the path that it is asked about, but of a folder that is there and no link."""

    @functools.wraps(function)
    def asked(*args: Any, **kwargs: Any) -> Any:
        path = next(iter((*args, *kwargs.values())), None)
        if _ACTIVE and isinstance(path, (str, bytes, os.PathLike)):
            frame = sys._getframe(1)
            ours, asker = asker_of(frame)
            if not ours and not frame.f_code.co_filename.startswith("<frozen importlib"):  # which has its own event
                folder = os.path.isdir(path)
                if not folder or os.path.islink(path):
                    _ACTIVE[-1].note(os.fsdecode(path), asker, within=not folder)
        return function(*args, **kwargs)

    return asked


def identity_of(path: str) -> Identity | None:
    """What tells a file or folder from a later one; None for what is neither, and cannot be read twice."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return ()
    if stat.S_ISDIR(found.st_mode):
        return (os.path.realpath(path),) if os.path.islink(path) else tuple(_names(path))
    if stat.S_ISREG(found.st_mode):
        return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev
    return () if stat.S_ISCHR(found.st_mode) else None


def hash_of(path: str) -> str | None:
    """The SHA-256 of a file, or of a folder's names, and of where a link leads; None for what is not there."""
    digest, link = hashlib.sha256(), os.path.islink(path)
    try:
        if link:
            place = os.path.relpath(os.path.realpath(path), os.path.realpath(os.path.dirname(path)))
            digest.update(os.fsencode(place))
        if os.path.isdir(path):
            names = [] if link else _names(path)
            digest.update("\0".join(names).encode("utf-8", "surrogateescape"))
            return digest.hexdigest()
        with open_regular(path) as file:
            while part := file.read(1 << 24):
                digest.update(part)
    except OSError:
        return digest.hexdigest() if link else None
    return digest.hexdigest()


def _names(folder: str) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name != "__pycache__")


def hold(known: Hashes, folder: str) -> bool:
    """Whether all of some files and folders, whose paths lead from ``folder``, are as they were."""
    return all(hash_of(os.path.join(folder, path)) == before for path, before in known.items())


@functools.cache
def _listen() -> None:
    sys.addaudithook(_heard)


def _heard(event: str, given: tuple[Any, ...]) -> None:
    """Python's audit hook: it cannot be removed again, and does nothing where no code of the author's runs."""
    if not _ACTIVE or event not in _EVENTS:
        return
    reads, (is_ours, asker) = _ACTIVE[-1], asker_of(sys._getframe(1))
    if is_ours:
        return
    path = _EVENTS[event](given)
    if path is _UNREPEATABLE:
        reads.unrepeatable.add(asker)
    elif isinstance(path, (str, bytes, os.PathLike)):
        name = os.fsdecode(path)
        flags = given[2] if event == "open" else 0
        if (source := _source_of(sys._getframe(1))) is not None:
            reads.note(source, asker)
        elif flags & (os.O_TRUNC | os.O_EXCL):
            reads.written.add(os.path.realpath(name))
        elif flags & os.O_ACCMODE == os.O_WRONLY:  # to append: whoever reads it reads what was there, too
            return
        elif event != "ctypes.dlopen" or os.path.isfile(name):
            reads.note(name, asker)


def _source_of(frame: FrameType | None) -> str | None:
    """The file that Python's import reads, by its bytecode, too; None where something else reads."""
    while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        if "source_path" in frame.f_locals:
            return frame.f_locals["source_path"]
        frame = frame.f_back
    return None


def _of_the_system(path: str) -> bool:
    """Whether it is no file of anybody's; of those in ``/dev``, that is all but regular ones, as in ``/dev/shm``."""
    return path.startswith(("/proc/", "/sys/")) or (path.startswith("/dev/") and not os.path.isfile(path))


_UNREPEATABLE = object()
_EVENTS: dict[str, Any] = {
    "import": lambda given: given[1],  # a compiled module's file
    **dict.fromkeys(("open", "ctypes.dlopen", "os.link"), lambda given: given[0]),
    **dict.fromkeys(("os.listdir", "os.scandir"), lambda given: given[0] or "."),
    **dict.fromkeys(
        (
            "subprocess.Popen",
            "os.system",
            "os.posix_spawn",
            "os.exec",
            "os.fork",
            "os.forkpty",
            "socket.bind",
            "socket.connect",
            "socket.sendto",
            "sqlite3.connect",
            "os.getxattr",
        ),
        lambda given: _UNREPEATABLE,
    ),
}
"""What each of Python's events says was read."""


def asker_of(frame: FrameType | None) -> tuple[bool, str | None]:
    """Whether trtdsl, Python's search for modules, or a library that is being imported does something by itself.

    If not, the author's file that does: an installed package counts by its version.
    """
    if frame is not None and frame.f_code.co_name == "_fill_cache":  # importlib's
        return True, None
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(PACKAGE) or (frame.f_code.co_name == "<module>" and is_library(file)):
            return True, None
        if not file.startswith("<") and not is_library(file):
            return False, os.path.realpath(file)
        frame = frame.f_back
    return False, None
