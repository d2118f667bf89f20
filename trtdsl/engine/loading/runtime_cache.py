"""TensorRT-RTX's runtime cache on disk: the kernels that it compiled for this GPU, kept for the next start.

The file is ours: one line of JSON saying what follows, then TensorRT's own bytes. What does not fit is discarded with a
warning before TensorRT sees it.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from typing import Any, Literal

from msgspec import Struct

from ...core.errors import RuntimeCacheWarning
from ...core.files.reading import Count, as_struct, parse_json, read_file
from ...core.files.writing import Kind, as_json, check_writable, write_atomically

RUNTIME_CACHE = Kind("a runtime cache", r'\{"bytes": \d+, "for": .*"kind": "trtdsl-runtime-cache"|\0{4096}|\0+\Z')
"""Or what begins with zeros, as it does where power failed while it was written."""
LINE = 4096  # more than the first line ever has


class Head(Struct, rename={"made_for": "for"}):
    """The first line."""

    kind: Literal["trtdsl-runtime-cache"]
    made_for: Any
    sha256: str
    bytes: Count


def write_runtime_cache(path: str | os.PathLike[str], data: bytes, made_for: dict[str, Any]) -> None:
    """Writes a cache whole or not at all. ``made_for`` must be equal when it is read. Raises UsageError."""
    head = {
        "kind": "trtdsl-runtime-cache",
        "for": made_for,
        "sha256": hashlib.sha256(data).hexdigest(),
        "bytes": len(data),
    }
    output = check_writable(path, RUNTIME_CACHE, ())
    write_atomically(output, as_json(head, sort_keys=True).encode() + b"\n" + data)


def read_runtime_cache(path: str | os.PathLike[str], made_for: dict[str, Any]) -> bytes | None:
    """The cache's bytes; None when there is no file, and with a RuntimeCacheWarning when it is no good here."""
    try:
        content = read_file(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        discard(path, f"it cannot be read ({error.strerror})")
        return None
    line, _, data = content.partition(b"\n")
    try:
        facts = parse_json(line if len(line) < LINE else b"", "it", "runtime cache", ValueError)
        head = as_struct(facts, Head, "", ValueError)
    except ValueError:
        discard(path, "it is not a runtime cache")
        return None
    if len(data) != head.bytes or hashlib.sha256(data).hexdigest() != head.sha256:
        discard(path, "it is damaged")
    elif head.made_for != made_for:
        discard(path, "it was made by another version or for another GPU")
    else:
        return data
    return None


def discard(path: str | os.PathLike[str], reason: str) -> None:
    """Warns that a cache is not used."""
    message = f"the runtime cache {path} is not used, and is built anew: {reason}"
    warnings.warn(message, RuntimeCacheWarning, stacklevel=4)
