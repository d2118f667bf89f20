"""TensorRT-RTX's runtime cache on disk: the kernels that it compiled for this GPU, kept for the next start.

The file is ours: one line of JSON saying what follows, then TensorRT's own bytes. What does not fit is discarded with a
warning before TensorRT sees it.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from typing import Any

from ...core.errors import RuntimeCacheWarning
from ...core.files import RUNTIME_CACHE, check_writable, write_atomically
from ...core.reading import read_file

MARK = "trtdsl-runtime-cache"
LINE = 4096  # more than the first line ever has


def write_runtime_cache(path: str | os.PathLike[str], data: bytes, made_for: dict[str, Any]) -> None:
    """Writes a cache whole or not at all. ``made_for`` must be equal when it is read. Raises UsageError."""
    head = {"kind": MARK, "for": made_for, "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    output = check_writable(path, RUNTIME_CACHE, ())
    write_atomically(output, json.dumps(head, sort_keys=True).encode() + b"\n" + data)


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
        head = json.loads(line) if len(line) < LINE else None
    except (ValueError, RecursionError):
        head = None
    if not isinstance(head, dict) or head.get("kind") != MARK:
        discard(path, "it is not a runtime cache")
    elif len(data) != head.get("bytes") or hashlib.sha256(data).hexdigest() != head.get("sha256"):
        discard(path, "it is damaged")
    elif head.get("for") != made_for:
        discard(path, "it was made by another version or for another GPU")
    else:
        return data
    return None


def discard(path: str | os.PathLike[str], reason: str) -> None:
    """Warns that a cache is not used."""
    message = f"the runtime cache {path} is not used, and is built anew: {reason}"
    warnings.warn(message, RuntimeCacheWarning, stacklevel=4)
