"""``python -m trtdsl``: the command line."""

from .cli.main import main

main()
