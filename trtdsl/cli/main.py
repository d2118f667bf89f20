"""The entry point of the command line. What it needs is imported inside, where Ctrl-C is answered."""

from __future__ import annotations

import sys

from ..core import exit_codes
from .interrupt import CANCELLED, answered


def main() -> None:
    """The entry point of the command ``trtdsl``."""
    try:
        with answered():
            from .app import app

            app()
    except KeyboardInterrupt:
        sys.stderr.write(f"error: {CANCELLED}\n")
        sys.exit(exit_codes.CANCELLED)


if __name__ == "__main__":
    main()
