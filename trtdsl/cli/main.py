"""The entry point of the command line. What it needs is imported inside, where Ctrl-C is answered."""

from __future__ import annotations

import contextlib
import faulthandler
import sys

from ..core.errors import CancelledError
from .interrupt import answered


def main() -> None:
    """The entry point of the command ``trtdsl``."""
    with contextlib.suppress(Exception):  # there is no stderr
        faulthandler.enable()  # what ends the process, such as a mapped file that is truncated, says where
    try:
        with answered():
            from .app import app

            app()
    except KeyboardInterrupt:
        sys.stderr.write(f"error: {CancelledError()}\n")
        sys.exit(CancelledError.exit_code)


if __name__ == "__main__":
    main()
