"""Every exception of trtdsl and the exit code that the command line gives for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Location:
    """A place in the author's code: the first frame outside trtdsl."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class TrtdslError(Exception):
    """Base of all errors of trtdsl.

    ``exit_code`` is what the command line exits with; ``location`` is the author's file and line where
    there is one, and ``context`` are facts added on the way up (the call, its operands' shapes).
    """

    exit_code = 8

    def __init__(self, message: str, *, location: Location | None = None):
        super().__init__(message)
        self.message = message
        self.location = location
        self.context: list[str] = []

    def __str__(self) -> str:
        head = f"{self.location}: {self.message}" if self.location else self.message
        return "\n".join([head, *(f"  {line}" for line in self.context)])


class MismatchError(TrtdslError):
    """A network's outputs differ from its reference."""

    exit_code = 1


class UsageError(TrtdslError):
    """The call itself is wrong: no such file, an unknown option value, an unwritable output."""

    exit_code = 2


class DefinitionError(TrtdslError):
    """The network cannot be defined as it is written."""

    exit_code = 3


class ShapeError(DefinitionError):
    """Operand shapes do not fit each other or the operation."""


class UnsupportedError(DefinitionError):
    """Legal in torch, but TensorRT (or trtdsl) cannot express it; says what to write instead."""


class WeightsError(DefinitionError):
    """Weights are missing, unused, misshapen, of the wrong type or not finite."""


class FeedError(TrtdslError):
    """A feed does not fit the network's input signature."""

    exit_code = 2


class FeedNameError(FeedError):
    """An input is missing, or there is none of that name."""


class FeedDtypeError(FeedError):
    """A feed has another dtype than its input."""


class FeedRankError(FeedError):
    """A feed has another number of dimensions than its input."""


class FeedShapeError(FeedError):
    """A feed differs from its input in a fixed size."""


class FeedProfileError(FeedError):
    """A feed's size is outside the range that the engine was built for."""


class BuildError(TrtdslError):
    """TensorRT defined the network but could not build an engine from it."""

    exit_code = 4


class EngineError(TrtdslError):
    """An engine does not fit this machine: other product, version or compute capability."""

    exit_code = 5


class BackendError(TrtdslError):
    """What the command needs is not on this machine: TensorRT itself, or a CUDA device."""

    exit_code = 6


class CorruptFileError(TrtdslError):
    """A file is truncated, damaged or not of the kind that it is said to be."""

    exit_code = 7


class CancelledError(TrtdslError):
    """The user cancelled; nothing was left behind."""

    exit_code = 130


class ExecutionError(TrtdslError):
    """The engine could not be executed, or the GPU reported an error."""

    exit_code = 8


class OutOfMemoryError(ExecutionError):
    """The GPU has less memory free than is needed."""

    def __init__(self, needed: int | None, free: int | None, what: str = "this"):
        wanted = "more memory" if needed is None else f"{needed:,} bytes"
        there = "" if free is None else f", and {free:,} bytes are free"
        super().__init__(f"out of GPU memory: {what} needs {wanted}{there}")
        self.needed, self.free = needed, free
