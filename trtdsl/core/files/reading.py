"""Files from outside: opened without waiting, within a limit of size, and JSON checked against a schema of msgspec."""

from __future__ import annotations

import copy
import errno
import hashlib
import json
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, BinaryIO, TypeVar

import msgspec

from ..errors import UNPRINTED, UsageError, printed
from .held import hold
from .names import brief, names_beside, nearest_beside

T = TypeVar("T")
Error = Callable[[str], Exception]

LARGEST = 16 << 20
"""Bytes of the largest JSON that is read."""
DEEPEST = 100
"""Levels of lists and objects in JSON."""
HALF = re.compile(rb"\\u[dD][89a-fA-F]")
STEP = re.compile(r"\.([^.\[`]+)|\[(\d+|\.\.\.)\]")

Int = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""A size, an index or a number of things."""


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """A file for reading. OSError, without waiting, also for a pipe, a socket or a device, and for a name with NUL.

    A file that says it has no bytes has none: some of Linux's, as ``/proc/kmsg``, would have their reader wait.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except ValueError as error:
        raise OSError(0, str(error)) from None
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise OSError(0, "it is not a regular file")
    if not found.st_size:
        os.close(descriptor)
        return open(os.devnull, "rb")
    return os.fdopen(descriptor, "rb")


def open_input(path: str | os.PathLike[str]) -> BinaryIO:
    """A file that a command reads, as :func:`open_regular`. UsageError where it changed since the command read it."""
    file = open_regular(path)
    try:
        hold(path, os.fstat(file.fileno()))
    except UsageError:
        file.close()
        raise
    return file


def read_source(path: str | os.PathLike[str]) -> bytes:
    """The author's Python, which he may go on to write while it runs. OSError as :func:`open_regular`."""
    with open_regular(path) as file:
        return file.read()


def read_file(path: str | os.PathLike[str], largest: int | None = None) -> bytes:
    """The bytes of a regular file. OSError for any other, and for one of more than ``largest`` bytes or the memory;
    UsageError as :func:`open_input`.
    """
    with open_input(path) as file:
        if largest is not None and os.fstat(file.fileno()).st_size > largest:
            raise OSError(0, f"it is larger than the {largest >> 20} MiB that such a file may have")
        try:
            return file.read()
        except MemoryError:
            raise OSError(errno.ENOMEM, "it is larger than the memory") from None


def sha256_of(path: str | os.PathLike[str], opened: Callable[..., BinaryIO] = open_regular) -> str | None:
    """The hash of a regular file's content; None for what cannot be read."""
    digest = hashlib.sha256()
    try:
        with opened(path) as file:
            while part := file.read(1 << 20):
                digest.update(part)
    except OSError:
        return None
    return digest.hexdigest()


def others_beside(path: str | os.PathLike[str]) -> str:
    """The files of its kind in the folder of a missing file, for a message; empty where there are none."""
    at = Path(path)
    names = names_beside(at, at.suffix) if at.suffix else []
    there = f" ({at.parent}/ has {', '.join(map(printed, names[:3]))})" if names else ""
    return (there and nearest_beside(at, at.suffix)) or there


def read_json(path: str | os.PathLike[str], kind: str, error: Error) -> dict[str, Any]:
    """The object in a file. ``error`` where it cannot be read, and as :func:`parse_json` says."""
    try:
        data = read_file(path, LARGEST)
    except OSError as found:
        raise error(f"the {kind} {os.fspath(path)} cannot be read: {found.strerror}") from None
    return parse_json(data, os.fspath(path), kind, error)


def parse_json(data: bytes, label: str, kind: str, error: Error, *, strict: bool = False) -> dict[str, Any]:
    """The object that a file holds. ``error`` where it holds none, or one that is nested too deeply; with ``strict``
    also where an object has a name twice, of which JSON's reader keeps the last.
    """
    repeated: list[str] = []

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(found := dict(pairs)) < len(pairs):
            repeated.extend(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        return found

    try:
        facts = json.loads(data.decode("utf-8"), object_pairs_hook=once if strict else None)
        if HALF.search(data):
            json.dumps(facts, ensure_ascii=False).encode()  # raises for half of a surrogate pair
    except (ValueError, RecursionError):
        raise error(f"{label} is not JSON: it is damaged, or not a {kind}") from None
    if not isinstance(facts, dict):
        raise error(f"{label} is not a {kind}: the whole must be an object")
    if repeated:
        raise error(f"{label} is not a {kind}: {brief(repeated[0])!a} repeats")
    level: list[Any] = [facts]
    for _ in range(DEEPEST):
        inner = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, (dict, list))]
        level = [child for children in inner for child in children]
    if level:
        raise error(f"{label} is not a {kind}: it is nested more than {DEEPEST} times")
    return facts


_PATTERNS: dict[str, str] = {}


def written(pattern: str, what: str) -> msgspec.Meta:
    """Of a text that follows a pattern, and is called ``what`` in errors."""
    _PATTERNS[f"Expected `str` matching regex {pattern!r}"] = f"must be {what}"
    return msgspec.Meta(pattern=pattern)


Text = Annotated[str, written(rf"\A[^{UNPRINTED}]*\Z", "printable text")]
"""What is shown to a reader as it is."""


def check_schema(facts: Mapping[str, Any], known: Sequence[int], label: str, error: Error) -> None:
    """``error`` where a file is of another schema than those that are read."""
    schema = facts.get("schema")
    if type(schema) is not int or schema not in known:
        read = " and ".join(map(str, known))
        raise error(f"{label} has schema {ascii(schema)[:20]}, and this trtdsl reads {read}: use the one that wrote it")


def as_struct(facts: Any, kind: type[T], label: str, error: Error, *, strict: bool = True) -> T:
    """Values of JSON as the ``kind`` that they must have. ``error`` names the entry that is of another.

    Where it is not ``strict``, numbers may be texts, such as ``"nan"``, which JSON has no number for.
    """
    try:
        return msgspec.convert(facts, kind, strict=strict)
    except msgspec.ValidationError as found:
        reason, _, place = str(found).partition(" - at ")
        where = _place(facts, kind, str(found), place.rpartition("$")[2], strict)
        words = _PATTERNS.get(reason) or printed(reason[:1].lower() + reason[1:200].replace("`", ""))
        raise error(": ".join(filter(None, (label, where, words)))) from None


def _place(facts: Any, kind: Any, message: str, path: str, strict: bool) -> str:
    """The path of an entry, with the keys for which msgspec writes ``[...]``: the first key that gives the message."""
    whole = here = copy.copy(facts)
    text = ""
    for field, index in STEP.findall(path):
        key: Any = int(index) if index.isdigit() else field
        if index == "...":
            items = list(here.items())
            while len(items) > 1:
                half = len(items) // 2
                _keep(here, items[:half])
                items = items[:half] if _message(whole, kind, strict) == message else items[half:]
            _keep(here, items)
            key = items[0][0]
        text += f"[{key}]" if isinstance(key, int) else f".{brief(key)}" if key.isidentifier() else f"[{brief(key)!r}]"
        here[key] = here = copy.copy(here[key])
    return text.removeprefix(".")


def _keep(mapping: dict[str, Any], items: list[tuple[str, Any]]) -> None:
    mapping.clear()
    mapping.update(items)


def _message(facts: Any, kind: Any, strict: bool) -> str | None:
    try:
        msgspec.convert(facts, kind, strict=strict)
    except msgspec.ValidationError as found:
        return str(found)
    return None
