"""The entry point of the command line. What it needs is imported inside, where Ctrl-C is answered."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import sys

from ..core.cancel import NOTICED
from ..core.errors import CancelledError, TrtdslError, told
from ..core.exit_codes import RUNTIME
from .interrupt import answered
from .streams import guard_streams


def main() -> None:
    """The entry point of the command ``trtdsl``."""
    guard_streams()
    if os.environ.get("COLUMNS") == "0":  # none are known, as Python reads it; rich would print nothing
        del os.environ["COLUMNS"]
    with contextlib.suppress(Exception):
        faulthandler.enable()  # what ends the process, such as a mapped file that is truncated, says where
    try:
        with answered():
            from .app import app

            try:
                app()
            finally:
                sys.stdout.flush()
    except Exception as error:  # outside of a command, or where the author's code took away what a print needs
        said, code = (error, error.exit_code) if isinstance(error, TrtdslError) else (told(error), RUNTIME)
        with contextlib.suppress(OSError):
            os.write(2, f"error: {said}\n".encode(errors="backslashreplace"))
        sys.exit(code)
    except (KeyboardInterrupt, SystemExit) as ended:
        if isinstance(ended, SystemExit) and (ended.code != CancelledError.exit_code or NOTICED.is_set()):
            raise  # all is said; typer says nothing of Ctrl-C while it reads arguments
        sys.stderr.write(f"error: {CancelledError()}\n")
        sys.exit(CancelledError.exit_code)


if __name__ == "__main__":
    main()
