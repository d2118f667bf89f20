"""The engines that this user's trtdsl built on this machine: only their text is compiled and run unasked."""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from pathlib import Path

SHA256 = re.compile(r"[0-9a-f]{64}")


def folder() -> Path:
    """What evaluations keep, in the user's cache; OSError without one. It is never below the working directory, where
    another's files may be: a path that is not absolute counts for nothing, as XDG's specification says.
    """
    given = os.environ.get("XDG_CACHE_HOME", "")
    cache = given if os.path.isabs(given) else os.path.expanduser("~/.cache")
    if not os.path.isabs(cache):
        raise OSError(errno.ENOENT, "there is no home folder")
    return Path(cache) / "trtdsl"


def remember(sha256: str) -> None:
    """Notes an engine by its hash; a folder that cannot be written leaves it unknown."""
    try:
        known = folder() / "built"
        known.mkdir(parents=True, exist_ok=True)
        (known / sha256).touch()
    except OSError:
        return


def is_known(sha256: str) -> bool:
    """Whether an engine was built here."""
    with suppress(OSError):
        return SHA256.fullmatch(sha256) is not None and (folder() / "built" / sha256).is_file()
    return False
