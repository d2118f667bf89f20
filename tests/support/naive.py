"""A table of lowerings whose default for silu is the worse way, so that a tuning has something to find."""

from trtdsl.functional.lowerings import LOWERINGS

SILU = {way: LOWERINGS["silu"][way] for way in ("sigmoid", "exp")}

# The end of a network's file that processes of their own read.
FILE_END = """
from trtdsl.functional.lowerings import LOWERINGS

LOWERINGS["silu"] = {way: LOWERINGS["silu"][way] for way in ("sigmoid", "exp")}
"""
