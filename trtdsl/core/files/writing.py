"""Files that are written whole or not at all and destroy nothing."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..cancel import WRITTEN, noted
from ..errors import UsageError
from .held import release
from .names import check_names_file, is_file
from .reading import LARGEST, open_regular


class Kind(NamedTuple):
    """A kind of file, known by how its content begins: what it is called says nothing of what it holds.

    Each stands beside the code that writes such files, in Python and in C++.
    """

    label: str
    head: str
    """A regular expression, which begins no other kind; ``(?!)`` where there is none to know it by."""
    objection: Callable[[bytes], str | None] = lambda content: None
    """Why content of this kind is not replaced either, in words that follow the label; None where it is."""


def json_kind(label: str, kind: str, objection: Callable[[bytes], str | None] = lambda content: None) -> Kind:
    """One of JSON that says its kind."""
    return Kind(label, rf'\s*\{{\s*"schema":\s*\d+,\s*"kind":\s*"{kind}"', objection)


def as_json(value: Any, **how: Any) -> str:
    """JSON that every reader takes: ``how`` is json.dumps'.

    >>> as_json({"error": [0.5, float("nan"), float("-inf")]})
    '{"error": [0.5, "nan", "-inf"]}'
    """
    return json.dumps(finite(value), allow_nan=False, **how)


def finite(value: Any) -> Any:
    """A value of JSON, which has no NaN or Inf: they become strings."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, (list, tuple)) else value


JSON_TEXT = r'"(\\.|[^"\\])*"'
HEAD = 1 << 15  # bytes by which a kind is known: a manifest has the network's name among the first


Reads = Iterable[tuple[str, object]]
"""What a command reads, each with what it is; what is no path stands for no file."""


@dataclass(frozen=True, eq=False)
class Output:
    """A file that may be written: made by :func:`check_writable`, and judged again when it is."""

    path: Path
    kind: Kind
    reads: tuple[tuple[str, str | os.PathLike[str]], ...]
    force: bool
    folder: Path | None = None
    """The one that it stays in, where links would lead out of it."""

    def judged(self) -> Path:
        """The file that is written for the path, where a link stays one. Raises UsageError."""
        if self.folder is not None:
            check_inside(self.path, self.folder)
        target = _regular(self.path)
        for what, read in self.reads:
            if _same(target, read):
                raise UsageError(f"cannot write {self.path}: it is the file of the {what}, which is read here")
        if not self.force:
            check_kind(self.path, self.kind)
        return target


def check_kind(path: str | os.PathLike[str], kind: Kind) -> None:
    """UsageError where a path has a file of another kind, or one of this kind that it objects to losing."""
    if not is_file(path):
        return
    head, found = b" ", f"is not {kind.label}"
    try:
        with open_regular(path) as file:
            head = file.read(HEAD)
            if re.match(kind.head, head.decode("latin-1"), re.DOTALL) is not None:
                reason = kind.objection(head + file.read(LARGEST))
                found = "" if reason is None else f"is {kind.label} {reason}"
    except OSError as error:  # it may be written, though not read
        found = f"cannot be read ({error.strerror}), may not be {kind.label}"
    if head and found:
        raise UsageError(
            f"cannot write {path}: the file that is there {found}, and would be replaced by one: give another name, or "
            "remove it"
        )


def check_writable(
    path: str | os.PathLike[str], kind: Kind, reads: Reads, *, force: bool = False, folder: Path | None = None
) -> Output:
    """The path as an :class:`Output`, when a file can be made there; otherwise UsageError, before any work is done.

    A file that the command ``reads`` is never written over, whatever it is called: through links and as another
    spelling, too. A file that is there is replaced where it is of the same ``kind``, or empty, or with ``force``.
    """
    check_names_file(path, "cannot write: its name")
    named = tuple((what, read) for what, read in reads if isinstance(read, (str, os.PathLike)))
    output = Output(Path(path), kind, named, force, folder)
    target = output.judged()
    for each in (path, target):
        release(each)
    try:
        os.scandir(target.parent).close()  # it is opened when its entries are put on disk
        with _temporary(target) as (descriptor, name):
            os.close(descriptor)
            with suppress(FileNotFoundError):  # another writer removes what is not locked any more
                os.unlink(name)
        sticky, user = target.parent.stat(), getattr(os, "geteuid", lambda: 0)()
        if sticky.st_mode & stat.S_ISVTX and target.exists() and user not in (0, sticky.st_uid, target.stat().st_uid):
            raise OSError(errno.EPERM, "it is another user's, and its folder lets only that user replace it")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    return output


def check_all_writable(
    folder: str | os.PathLike[str], kinds: Mapping[str, Kind], reads: Reads, *, force: bool = False
) -> dict[str, Output]:
    """The files by their places in a folder, as :func:`check_writable`; it and the folders in it are made.

    UsageError also where a link in it leads out of it, to where nobody has asked for a file.
    """
    whole, outputs = make_folder(folder), {}
    for place, kind in kinds.items():
        check_inside(whole / place, whole)
        make_folder((whole / place).parent)
        outputs[place] = check_writable(whole / place, kind, reads, force=force, folder=whole)
    return outputs


def check_inside(path: Path, folder: Path) -> None:
    """UsageError where a path leads out of a folder by links."""
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(os.path.realpath(folder)):
        raise UsageError(f"cannot write {path}: a link leads out of {folder}, to {real}; remove it")


def _same(target: Path, read: str | os.PathLike[str]) -> bool:
    """Whether two paths are one file, or would be."""
    try:
        return os.path.samefile(target, read)
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            return os.path.realpath(target) == os.path.realpath(read)
    return False


def _temporary_name(target: Path, which: str = "") -> Path:
    short = hashlib.sha256(target.name.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return target.parent / f".trtdsl-{short}-{which or secrets.token_hex(8)}.tmp"


@contextmanager
def _temporary(target: Path) -> Iterator[tuple[int, Path]]:
    """A new file beside ``target`` for writing, with the mode that it will have; locked while its writer lives.

    The C++ library gives the same names and locks (cpp/src/files.cpp).
    """
    for left in target.parent.glob(_temporary_name(target, "*").name):
        _remove_if_abandoned(left)
    name = None
    try:
        while True:
            name = _temporary_name(target)
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


ASKED: dict[Path, bool] = {}
"""The folders that were asked for, each after those that it is in, and whether they were made."""


def make_folder(path: str | os.PathLike[str]) -> Path:
    """The folder, made where there is none. Raises UsageError when that fails."""
    check_names_file(path, "cannot make a folder: its name", folder=True)
    way = [Path(path), *Path(path).parents]
    try:
        for each in reversed(way):
            ASKED[each.absolute()] = ASKED.get(each.absolute(), False) or not os.path.lexists(each)
        way[0].mkdir(parents=True, exist_ok=True)
    except OSError as error:
        there = next((each for each in way if os.path.lexists(each) and not os.path.isdir(each)), None)
        reason = error.strerror if there is None else f"{there} is there, and is no folder"
        raise UsageError(f"cannot make the folder {path}: {reason}") from None
    return way[0]


def remove_made() -> None:
    """Removes the folders that were made and have nothing in them."""
    while ASKED:
        folder, made = ASKED.popitem()
        with suppress(OSError):
            if made:
                folder.rmdir()


def _regular(path: Path) -> Path:
    """The file that is written for a path: a link stays one. UsageError where there cannot be a regular file."""
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            os.lstat(path)  # raises for a name that no file can have
        if path.is_dir():
            raise UsageError(f"cannot write {path}: it is a directory")
        if path.exists() and not path.is_file():  # a rename would replace a device or a pipe by a file
            raise UsageError(f"cannot write {path}: it is not a regular file")
        for stream in range(3):
            with suppress(OSError):
                if os.path.samestat(os.fstat(stream), os.stat(path)):
                    raise UsageError(f"cannot write {path}: what this command prints, or is fed, is in it")
        target = path.resolve() if path.is_symlink() else path
        if not target.parent.is_dir():
            if target.parent.absolute() not in ASKED:
                raise UsageError(f"cannot write {path}: there is no directory {target.parent}")
            make_folder(target.parent)  # the command that made it failed, and removed it
        return target
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: links in a circle; ValueError: NUL, surrogates
        raise UsageError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from None


def write_atomically(output: Output, data: bytes) -> None:
    """Writes a file under a temporary name, syncs it and renames it. Raises UsageError when that fails."""
    write_all_atomically({output: data})


def write_all_atomically(files: Mapping[Output, bytes | None], judge: Callable[[], None] = lambda: None) -> None:
    """Writes several files, or removes those that get None; none is renamed before all are on disk, and none is left
    half-written.

    They are renamed in their order: a process that is killed meanwhile leaves the last ones as they were. Of processes
    that write the same files, one after the other renames its own, so that what stays is all of one: at its turn each
    calls ``judge``, which may raise. A file that was there keeps its mode. Raises UsageError as :func:`check_writable`
    does, and when writing fails.
    """
    targets = [output.judged() for output in files]
    for index, output in enumerate(files):
        if any(_same(targets[index], other) for other in targets[:index]):
            raise UsageError(f"cannot write {output.path}: another file that is written here would have that name")
    temporary: list[tuple[Path, Path]] = []
    descriptors: list[int] = []
    try:
        removed = [path for path, data in zip(targets, files.values(), strict=True) if data is None]
        for path, data in zip(targets, files.values(), strict=True):
            if data is None:
                continue
            with _temporary(path) as (descriptor, name):
                descriptors.append(descriptor)
                _write(descriptor, data)
            temporary.append((name, path))
        with noted() as pressed, _synced({path.parent for path in targets}):
            judge()
            with _put_back(targets) as done:
                for name, path in temporary:
                    os.replace(name, path)
                    done.append(path)
                for path in removed:
                    path.unlink(missing_ok=True)
            WRITTEN.extend(str(output.path) for output in files)
        if pressed():  # between two names, some files would be new and some not
            raise KeyboardInterrupt
    except OSError as error:
        names = error.filename2 or ", ".join(str(output.path) for output in files)
        raise UsageError(f"cannot write {names}: {error.strerror}") from None
    finally:
        for name, _ in temporary:
            with suppress(FileNotFoundError):
                os.unlink(name)
        for descriptor in descriptors:
            os.close(descriptor)


@contextmanager
def _put_back(targets: Sequence[Path]) -> Iterator[list[Path]]:
    """Where one of several files cannot be put in its place inside, those that were are as they had been before.

    As far as the file system has hard links: what is there keeps a second name until all are in their places.
    """
    done: list[Path] = []
    kept: dict[Path, Path] = {}
    new = {path for path in targets if not os.path.lexists(path)}
    with ExitStack() as held:
        try:
            for path in targets if len(targets) > 1 else ():
                with suppress(OSError):
                    other = _temporary_name(path)
                    os.link(path, other)
                    kept[path] = other
                    descriptor = os.open(other, os.O_RDONLY)
                    held.callback(os.close, descriptor)
                    _lock(descriptor, wait=False)  # so that nobody takes it for abandoned
            yield done
        except BaseException:
            for path in done:
                with suppress(OSError):
                    if path in kept:
                        os.replace(kept[path], path)
                    elif path in new:
                        os.unlink(path)
            raise
        finally:
            for other in kept.values():
                with suppress(OSError):
                    os.unlink(other)


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest[: 1 << 30]) :]
    os.fsync(descriptor)


@contextmanager
def _synced(folders: Iterable[Path]) -> Iterator[None]:
    """Inside, no other process is inside for one of these folders; afterwards their entries are on disk.

    As far as the system opens folders, and the file system has locks and syncs folders.
    """
    descriptors = []
    try:
        if hasattr(os, "O_DIRECTORY"):
            for folder in sorted({folder.resolve() for folder in folders}):  # in one order: none waits for another
                descriptors.append(os.open(folder, os.O_RDONLY | os.O_DIRECTORY))
                with suppress(OSError):
                    _lock(descriptors[-1], wait=True)
        yield
        for descriptor in descriptors:
            try:
                os.fsync(descriptor)
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.EBADF, errno.ENOTSUP):
                    raise
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
