"""Files that are written whole or not at all and destroy nothing, and names from outside that become files' names."""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from .errors import UsageError

UNPRINTED = "\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff"
"""Characters of a pattern that TensorRT cuts a name at, that a terminal obeys, or that nobody sees."""
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


def check_characters(name: str, what: str) -> None:
    """UsageError for a name that is too long, or with characters that TensorRT, a manifest or a terminal loses.

    >>> check_characters("scores:0", "the name")
    """
    if not isinstance(name, str):
        raise UsageError(f"{what} must be text, not {name!r:.60}")
    if len(name) > 4096:
        raise UsageError(f"{what} has {len(name)} characters; TensorRT takes at most 4096: {name[:60]!a}…")
    if re.search(f"[{UNPRINTED}]", name):
        raise UsageError(f"{what} has control characters, invisible ones or halves of surrogate pairs: {name[:60]!a}")


def is_file(path: str | os.PathLike[str]) -> bool:
    """Whether there is such a file; False also for a name that no file can have."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


class Kind(NamedTuple):
    """A kind of file, known by how its content begins. What it is called says nothing of what it holds."""

    label: str
    head: str
    """A regular expression."""


JSON_TEXT = r'"(\\.|[^"\\])*"'
SEAL = "# Written by `trtdsl export triton`, which replaces no file that was edited: sha256 of the rest "
ENGINE = Kind("an engine", "[fpv]trt")
MANIFEST = Kind("a manifest", rf'\s*\{{\s*"schema":\s*\d+,\s*"network":\s*{JSON_TEXT},\s*"(settings|source|trtdsl)":')
TUNING = Kind("a tuning", r'\s*\{\s*"schema":\s*\d+,\s*"kind":\s*"tuning"')
PRECISION = Kind("a precision", r'\s*\{\s*"schema":\s*\d+,\s*"kind":\s*"precision"')
SAVED_CHECK = Kind("a saved check", r'.{8}\{"__metadata__":\{"trtdsl_check":')
DERIVED = Kind("a file of derived weights", r'.{8}\{"__metadata__":\{"trtdsl-derived":')
WEIGHTS = Kind("a file of weights", r".{4}\0{4}\s*\{")
ARRAY = Kind("an array", r"\x93NUMPY")
NETWORK = Kind("a network file", "(?!)")
STUB = Kind("a stub of trtdsl", r'"""The weights of [^\n]*: written by `trtdsl stubs`')
HTML = Kind(
    "a page of trtdsl view",
    r'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    r'(<meta name="generator" content="trtdsl">|.{,1000}<style>/\* trtdsl view )',  # the second of earlier versions
)
SVG = Kind(
    "a drawing of trtdsl view",
    r'<svg xmlns="http://www.w3.org/2000/svg" class="canvas" [^>]*><title>[^<]*</title><style>\.canvas text\{',
)
DOT = Kind("a graph of trtdsl view", rf"digraph {JSON_TEXT} \{{\n  rankdir=TB; compound=true;\n  node \[shape=box, ")
VIEW = Kind("a view in JSON", r'\s*\{\s*"schema":\s*\d+,\s*"kind":\s*"view"')
ONNX_JSON = Kind("a view as ONNX in JSON", r'\s*\{\s*"irVersion":\s*"\d+",\s*"producerName":\s*"trtdsl"')
RUNTIME_CACHE = Kind("a runtime cache", r'\{"bytes": \d+, "for": .*"kind": "trtdsl-runtime-cache"')
TRITON_CONFIG = Kind("a configuration of trtdsl export triton", SEAL)
PROJECT = Kind("a file of the C++ project", "(?!)")
CHECKPOINT = Kind("a torch checkpoint", r"PK\x03\x04|\x80[\x02-\x05]")
TIMING_CACHE = Kind("a timing cache", r"[^\0]*\0")  # TensorRT's own bytes, which it judges; no text at least
KINDS = (
    *(ENGINE, MANIFEST, TUNING, SAVED_CHECK, DERIVED, WEIGHTS, ARRAY, NETWORK, STUB, HTML, SVG, DOT, VIEW, ONNX_JSON),
    *(PRECISION, RUNTIME_CACHE, TRITON_CONFIG, PROJECT, CHECKPOINT),
)
"""In the order in which a file's content is tried."""
HEAD = 1 << 15  # bytes by which a kind is known: a manifest has the network's name among the first


def sealed(text: str) -> bytes:
    """A :data:`TRITON_CONFIG`'s content: the text after a comment with its hash, by which an edited one is known."""
    return f"{SEAL}{hashlib.sha256(text.encode()).hexdigest()}\n{text}".encode()


def _is_sealed(path: str | os.PathLike[str]) -> bool:
    data = Path(path).read_bytes()
    return data == sealed(data.partition(b"\n")[2].decode(errors="replace"))


Reads = Iterable[tuple[str, object]]
"""What a command reads, each with what it is; what is no path stands for no file."""


@dataclass(frozen=True, eq=False)
class Output:
    """A file that may be written: made by :func:`check_writable`, and judged again when it is."""

    path: Path
    kind: Kind
    reads: tuple[tuple[str, str | os.PathLike[str]], ...]
    force: bool

    def judged(self) -> Path:
        """The file that is written for the path, where a link stays one. Raises UsageError."""
        target = _regular(self.path)
        for what, read in self.reads:
            if _same(target, read):
                raise UsageError(f"cannot write {self.path}: it is the file of the {what}, which is read here")
        if not self.force:
            check_kind(self.path, self.kind)
        return target


def check_kind(path: str | os.PathLike[str], kind: Kind) -> None:
    """UsageError where a path has a file of another kind, which writing it would destroy."""
    if not is_file(path):
        return
    try:
        with open(path, "rb") as file:
            head = file.read(HEAD)
    except OSError:  # it may be written, though not read
        head = b" "
    text = head.decode("latin-1")
    tried = (*KINDS, kind)  # the caches of TensorRT are any bytes that are of no other kind
    found = next((each for each in tried if re.match(each.head, text, re.DOTALL)), None)
    was_edited = found is kind is TRITON_CONFIG and not _is_sealed(path)
    if head and (was_edited or found is not kind):
        other = "was edited" if was_edited else f"is {found.label}" if found else f"is not {kind.label}"
        raise UsageError(
            f"cannot write {path}: the file that is there {other}, and would be replaced by {kind.label}: give another "
            "name, or remove it"
        )


def check_writable(path: str | os.PathLike[str], kind: Kind, reads: Reads, *, force: bool = False) -> Output:
    """The path as an :class:`Output`, when a file can be made there; otherwise UsageError, before any work is done.

    A file that the command ``reads`` is never written over, whatever it is called: through links and as another
    spelling, too. A file that is there is replaced where it is of the same ``kind``, or empty, or with ``force``.
    """
    named = tuple((what, read) for what, read in reads if isinstance(read, (str, os.PathLike)))
    output = Output(Path(path), kind, named, force)
    target = output.judged()
    try:
        with _temporary(target) as (descriptor, name):
            os.close(descriptor)
            with suppress(FileNotFoundError):  # another writer removes what is not locked any more
                os.unlink(name)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    return output


def _same(target: Path, read: str | os.PathLike[str]) -> bool:
    """Whether two paths are one file, or would be."""
    try:
        return os.path.samefile(target, read)
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            return os.path.realpath(target) == os.path.realpath(read)
    return False


@contextmanager
def _temporary(target: Path) -> Iterator[tuple[int, Path]]:
    """A new file beside ``target`` for writing, with the mode that it will have; locked while its writer lives.

    The C++ library gives the same names and locks (cpp/src/files.cpp).
    """
    short = hashlib.sha256(target.name.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    for left in target.parent.glob(f".trtdsl-{short}-*.tmp"):
        _remove_if_abandoned(left)
    name = None
    try:
        while True:
            name = target.parent / f".trtdsl-{short}-{secrets.token_hex(8)}.tmp"
            descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
            with suppress(OSError):  # there are file systems without locks
                _lock(descriptor, wait=True)
            if os.fstat(descriptor).st_nlink:  # nobody took it for abandoned before it was locked
                break
            os.close(descriptor)
        with suppress(FileNotFoundError):
            os.chmod(name, stat.S_IMODE(target.stat().st_mode))
        yield descriptor, name
    except BaseException:
        with suppress(OSError):
            if name is not None:
                os.unlink(name)
        raise


def _lock(descriptor: int, *, wait: bool) -> None:
    """Takes the file's lock; without ``wait``, raises OSError where another process has it."""
    with suppress(ImportError):  # Windows: a file that is open there cannot be removed in any case
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def _remove_if_abandoned(path: Path) -> None:
    """Removes the files that a killed writer left behind: its lock ended with its process."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
        try:
            _lock(descriptor, wait=False)
            os.unlink(path)
        finally:
            os.close(descriptor)


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
        if not stat.S_ISREG(os.stat(path).st_mode) and not self.path.is_dir():  # opening a pipe would wait for ever
            raise OSError(errno.EINVAL, "it is not a regular file")
        with open(path, "rb") as file:
            self.version = _version(os.fstat(file.fileno()))
            copied = _copy(file) if self.version.size <= PRIVATE else None
            self.is_copy, self.descriptor = copied is not None, os.dup(file.fileno()) if copied is None else copied
        weakref.finalize(self, os.close, self.descriptor)
        self._first: str | None = None

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
        if not self.is_copy and self._first is not None:
            if self._first != self.sha256():
                return "it was written to"
            now = now._replace(changed=self.version.changed)  # a new name or new rights alone
        if now == self.version:
            return None
        if self.is_copy and now.size == self.version.size:  # copied anew, or touched
            with suppress(OSError):
                if Snapshot(self.path).sha256() == self.sha256():
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
        with suppress(FileNotFoundError, NotADirectoryError):
            os.lstat(path)  # raises for a name that no file can have
        if path.is_dir():
            raise UsageError(f"cannot write {path}: it is a directory")
        if path.exists() and not path.is_file():  # a rename would replace a device or a pipe by a file
            raise UsageError(f"cannot write {path}: it is not a regular file")
        target = path.resolve() if path.is_symlink() else path
        if not target.parent.is_dir():
            raise UsageError(f"cannot write {path}: there is no directory {target.parent}")
        return target
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: links in a circle; ValueError: NUL, surrogates
        raise UsageError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from None


def write_atomically(output: Output, data: bytes) -> None:
    """Writes a file under a temporary name, syncs it and renames it. Raises UsageError when that fails."""
    write_all_atomically({output: data})


def remove(output: Output) -> None:
    """Removes what is there of an output that has become needless. Raises UsageError as writing it would."""
    try:
        output.judged().unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"cannot remove {output.path}: {error.strerror}") from None


def write_all_atomically(files: Mapping[Output, bytes]) -> None:
    """Writes several files; none is renamed before all are on disk, and none is left half-written.

    They are renamed in their order: a process that is killed meanwhile leaves the last ones as they were. Of processes
    that write the same files, one after the other renames its own, so that what stays is all of one. A file that was
    there keeps its mode. Raises UsageError as :func:`check_writable` does, and when writing fails.
    """
    targets = [output.judged() for output in files]
    for index, output in enumerate(files):
        if any(_same(targets[index], other) for other in targets[:index]):
            raise UsageError(f"cannot write {output.path}: another file that is written here would have that name")
    temporary: list[tuple[Path, Path]] = []
    descriptors: list[int] = []
    try:
        for path, data in zip(targets, files.values(), strict=True):
            with _temporary(path) as (descriptor, name):
                descriptors.append(descriptor)
                _write(descriptor, data)
            temporary.append((name, path))
        with _synced({path.parent for _, path in temporary}):
            for name, path in temporary:
                os.replace(name, path)
    except OSError as error:
        names = ", ".join(str(output.path) for output in files)
        raise UsageError(f"cannot write {names}: {error.strerror}") from None
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


@contextmanager
def _synced(folders: Iterable[Path]) -> Iterator[None]:
    """Inside, no other process is inside for one of these folders; afterwards their entries are on disk.

    As far as the system opens folders, and the file system has locks.
    """
    descriptors = []
    try:
        if hasattr(os, "O_DIRECTORY"):
            for folder in sorted(folder.resolve() for folder in folders):  # in one order: none waits for another
                descriptors.append(os.open(folder, os.O_RDONLY | os.O_DIRECTORY))
                with suppress(OSError):
                    _lock(descriptors[-1], wait=True)
        yield
        for descriptor in descriptors:
            os.fsync(descriptor)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
