"""The version of trtdsl."""

__version__ = "0.1.0"
