"""``python -m trtdsl``: the command line."""

from .cli import main

main()
