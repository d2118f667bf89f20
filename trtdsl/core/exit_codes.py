"""Exit codes of the command line. An exception of :mod:`trtdsl.core.errors` has its code as ``exit_code``."""

FINE = 0
MISMATCH = 1
"""A network's outputs differ from its reference, or a figure is worse than before."""
USAGE = 2
DEFINITION = 3
"""The network cannot be defined."""
BUILD = 4
ENGINE = 5
"""The engine does not fit this machine."""
NO_DEVICE = 6
"""No CUDA device, or no TensorRT."""
CORRUPT_FILE = 7
RUNTIME = 8
"""The engine could not be executed, or an error that nobody foresaw."""
CANCELLED = 130
"""128 and the number of SIGINT, as a shell reports it."""
