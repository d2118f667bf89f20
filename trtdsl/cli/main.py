"""The entry point of the command line. What it needs is imported inside, where Ctrl-C is answered."""

from __future__ import annotations

import contextlib
import faulthandler
import sys

from ..core.cancel import NOTICED
from ..core.errors import CancelledError, TrtdslError
from ..core.exit_codes import RUNTIME
from .interrupt import answered
from .streams import guard_streams


def main() -> None:
    """The entry point of the command ``trtdsl``."""
    guard_streams()
    with contextlib.suppress(Exception):
        faulthandler.enable()  # what ends the process, such as a mapped file that is truncated, says where
    try:
        with answered():
            from .app import app

            try:
                app()
            finally:
                sys.stdout.flush()
    except TrtdslError as error:  # of what is said outside of a command, such as --help
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_code)
    except OSError as error:  # no more files or processes may be opened
        sys.stderr.write(f"error: {error}\n")
        sys.exit(RUNTIME)
    except (KeyboardInterrupt, SystemExit) as ended:
        if isinstance(ended, SystemExit) and (ended.code != CancelledError.exit_code or NOTICED.is_set()):
            raise  # all is said; typer says nothing of Ctrl-C while it reads arguments
        sys.stderr.write(f"error: {CancelledError()}\n")
        sys.exit(CancelledError.exit_code)


if __name__ == "__main__":
    main()
