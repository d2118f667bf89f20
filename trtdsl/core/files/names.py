"""Names from outside that become files' names."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from pathlib import Path

from ..errors import UNPRINTED, UsageError, nearest

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
        raise UsageError(f"{what} {brief(name)!r} {reason}, and a file would be called after it")
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


def brief(text: str) -> str:
    """A name or a text from outside as a message has it, which is one line.

    >>> brief("x" * 100) == "x" * 57 + "..."
    True
    """
    return text if len(text) <= 60 else f"{text[:57]}..."


def check_names_file(given: str | os.PathLike[str], what: str, *, folder: bool = False) -> None:
    """UsageError for an empty name, which Path takes for the working directory, and for one that ends as a folder's."""
    text = os.fspath(given)
    if not text:
        raise UsageError(f"{what} is empty, and names nothing")
    if text.endswith(("/", os.sep)) and not folder and not is_folder(text):
        raise UsageError(f"{what} {brief(text)} ends as a folder's name, and a file is meant: leave the end out")


def as_path(given: str | os.PathLike[str], what: str) -> Path:
    """What is given as the name of a file. UsageError, saying ``what`` has it, for no such name.

    >>> as_path("net.engine", "an engine").suffix
    '.engine'
    """
    try:
        return Path(given)
    except TypeError:
        raise UsageError(f"{what} is the name of a file, not {brief(repr(given))}") from None


def working_directory() -> Path:
    """The process's. UsageError where it is gone, or cannot be named."""
    try:
        return Path.cwd()
    except OSError as error:
        raise UsageError(f"the working directory cannot be used ({error.strerror}): go to another") from None


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Whether there is such a folder; False also for a name that none can have."""
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):
        return False


def is_file(path: str | os.PathLike[str]) -> bool:
    """Whether there is such a file; False also for a name that no file can have."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def names_beside(path: str | os.PathLike[str], suffix: str) -> list[str]:
    """The names of the files with ``suffix`` in the folder of a path; none where that cannot be read."""
    folder = Path(path).parent
    return sorted(each.name for each in folder.glob(f"*{suffix}")) if is_folder(folder) else []


def nearest_beside(path: str | os.PathLike[str], suffix: str) -> str:
    """The files with ``suffix`` in the folder of a path whose names are most like its own, for a message.

    What they have in common, the suffix, does not count.
    """
    stems = [name.removesuffix(suffix) for name in names_beside(path, suffix)]
    return nearest(Path(path).name.removesuffix(suffix), stems, suffix)


def why_barred(path: str | os.PathLike[str]) -> str:
    """Why nobody can tell whether there is such a file: a folder on the way may not be searched; empty otherwise."""
    try:
        os.stat(path)
    except PermissionError as error:
        return f"{os.fspath(path)} cannot be read: {error.strerror}"
    except (OSError, ValueError):
        pass
    return ""


def check_is_file(path: str | os.PathLike[str], missing: str) -> None:
    """UsageError where there is no such file, in words of the caller's; what is there and no file is said."""
    if is_file(path):
        return
    with suppress(OSError, ValueError):
        kind = "a folder" if stat.S_ISDIR(os.stat(path).st_mode) else "not a regular file"
        raise UsageError(f"{os.fspath(path)} is {kind}")
    raise UsageError(why_barred(path) or missing)
