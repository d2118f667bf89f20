"""What a file holds when it is opened, whatever becomes of its name."""

from __future__ import annotations

import hashlib
import mmap
import os
import shutil
import sys
import tempfile
import weakref
from pathlib import Path
from typing import IO, NamedTuple

from .reading import open_regular, sha256_of

NORESERVE = 0x4000
"""Linux's MAP_NORESERVE, which Python has from 3.13 on."""
PRIVATE = 64 << 20
"""Bytes of the largest file that a :class:`Snapshot` copies."""


class Snapshot:
    """What a file holds when it is opened, whatever becomes of its name: a copy in memory, or a large file itself.

    What is read of a copy is one state of the file. A large file is not copied: it can be written to, which
    :meth:`change` tells afterwards, and truncated, which ends a process that reads a map of it.

    Raises OSError for what cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        with open_regular(path) as file:
            self.version = _version(os.fstat(file.fileno()))
            copied = _copy(file) if self.version.size <= PRIVATE else None
            self.is_copy, self.descriptor = copied is not None, os.dup(file.fileno()) if copied is None else copied
        weakref.finalize(self, os.close, self.descriptor)
        self._first: str | None = None

    @property
    def name(self) -> str:
        """A path of the content where the system has one, for what reads files by their names; the file's elsewhere."""
        own = f"/proc/self/fd/{self.descriptor}"
        return own if os.path.exists(own) else os.fspath(self.path)

    def map(self) -> mmap.mmap:
        """The content, in pages of the caller's own where he writes to them. OSError where there is no room for it."""
        if sys.platform != "linux":
            return mmap.mmap(self.descriptor, 0, access=mmap.ACCESS_COPY)
        # Linux would refuse a map of more than the memory, although no page of it is written to.
        flags, pages = mmap.MAP_PRIVATE | NORESERVE, mmap.PROT_READ | mmap.PROT_WRITE
        return mmap.mmap(self.descriptor, 0, flags=flags, prot=pages)

    def read(self, count: int, offset: int) -> bytes:
        """Some of the content; fewer bytes where it ends."""
        return os.pread(self.descriptor, count, offset)

    def sha256(self) -> str:
        """The content's hash, which is that of the first time for a copy."""
        if self._first is not None and self.is_copy:
            return self._first
        digest, offset = hashlib.sha256(), 0
        while chunk := self.read(1 << 20, offset):
            digest.update(chunk)
            offset += len(chunk)
        found = digest.hexdigest()
        self._first = self._first or found
        return found

    def change(self) -> str | None:
        """What has become of the file since it was opened, in words; None where it has the same content still."""
        try:
            now = _version(os.stat(self.path))
        except OSError as error:
            return f"it cannot be found any more ({error.strerror})"
        known, before = self.sha256() if self.is_copy else self._first, self.version
        if known is not None:  # then the content tells: times can be set back, and stay where memory is shared
            before = now._replace(size=before.size) if self.is_copy else before._replace(changed=now.changed)
        if now == before and (known is None or sha256_of(self.path) == known):
            return None
        if now[:2] != self.version[:2]:
            return "another file has taken its place"
        return "it was truncated" if now.size < self.version.size else "it was written to"


class Version(NamedTuple):
    """What tells a file from any other, and from itself after a change."""

    device: int
    inode: int
    size: int
    modified: int
    """In nanoseconds; whoever writes to a file can set it back."""
    changed: int
    """When content, rights or names changed last: nobody can set it back."""


def _version(status: os.stat_result) -> Version:
    return Version(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _copy(file: IO[bytes]) -> int | None:
    """A descriptor of a file without a name that holds a copy: in memory where the system knows that.

    None where there is no room for one, or files may not be as large (``ulimit -f``), those in memory included.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("trtdsl")
    else:
        with tempfile.TemporaryFile() as made:
            descriptor = os.dup(made.fileno())
    try:
        with open(descriptor, "wb", closefd=False) as copy:
            shutil.copyfileobj(file, copy, 1 << 20)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
