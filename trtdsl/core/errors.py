"""Every exception of trtdsl, each with the exit code that the command line gives for it."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from . import exit_codes

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""The folder of trtdsl: the author's code is what lies outside of it."""


UNPRINTED = "\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff"
"""Characters of a pattern that TensorRT cuts a name at, that a terminal obeys, or that nobody sees."""
UNSHOWN = re.compile(rf"(?![\t\n])[{UNPRINTED}]")
ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
"""What terminals take for colours and the like."""


class Location(NamedTuple):
    """A place in the author's code: the first frame outside trtdsl."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{printed(shown_file(self.file))}:{self.line}"

    @property
    def short(self) -> str:
        """With the file's last folder alone, as a layer's metadata has it: the same on every machine."""
        return f"{printed(_last_two(shown_file(self.file)))}:{self.line}"


def shown(text: str) -> str:
    """Text from outside as it may be printed: a terminal would obey its control characters.

    >>> shown("a\\x1b[2Jb")
    'a?[2Jb'
    """
    return UNSHOWN.sub("?", text)


def several(number: int, noun: str) -> str:
    """A number of things.

    >>> several(1, "launch"), several(2, "launch"), several(0, "edit")
    ('1 launch', '2 launches', '0 edits')
    """
    return f"{number} {noun}{('es' if noun.endswith(('ch', 's')) else 's') * (number != 1)}"


def printed(name: str) -> str:
    """A name from outside as a part of a line.

    >>> printed("a\\nb")
    'a?b'
    """
    return re.sub(f"[{UNPRINTED}]", "?", name)


def placed(location: Location | None, text: str) -> str:
    """A message after the author's line, where there is one.

    >>> placed(Location("network.py", 7), "too wide"), placed(None, "too wide")
    ('network.py:7: too wide', 'too wide')
    """
    return f"{location}: {text}" if location else text


def told(error: BaseException) -> str:
    """An exception's class and text, as a traceback ends; the class alone where its ``__str__`` fails.

    >>> told(KeyError("x")), told(GeneratorExit())
    ("KeyError: 'x'", 'GeneratorExit')
    """
    name = type(error).__name__
    try:
        return f"{name}: {error!s}".removesuffix(": ")
    except BaseException:
        return name


def shown_file(file: str) -> str:
    """A file as a reader knows it: ``In [3]`` for a notebook's cell, which has a made-up name.

    >>> shown_file("networks/stgcn.py")
    'networks/stgcn.py'
    """
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    compiler = getattr(shell, "compile", None)
    if compiler is None or not hasattr(compiler, "format_code_name"):
        return file
    named = compiler.format_code_name(file)
    return f"In [{named[1].strip()[3:-1]}]" if named and named[1].strip().startswith("In[") else file


@functools.lru_cache(maxsize=1024)
def _last_two(file: str) -> str:
    return "/".join(file.split("/")[-2:])


COMPARED = 2_000
"""Names that are compared letter by letter, which takes 0.1 s."""


def nearest(name: str, names: Iterable[str], suffix: str = "") -> str:
    """The names most like an unknown one, for a message; empty where none is, or where there are too many.

    ``suffix`` is what all of them are printed with.

    >>> nearest("conv1.wieght", ["conv1.weight", "conv1.bias"])
    ' (nearest: conv1.weight)'
    """
    import difflib

    known: dict[str, list[str]] = {}
    names = list(names)
    for each in names if len(names) <= COMPARED else ():
        known.setdefault(_plain(each), []).append(each)
    plain = _plain(name)
    close = [plain] if plain in known else difflib.get_close_matches(plain, known, n=2, cutoff=0.7)
    close = close or [each for each in known if len(plain) > 2 and each.startswith(plain)][:2]
    found = [each for match in close for each in known[match]][:3]
    return f" (nearest: {', '.join(printed(each + suffix) for each in found)})" if found else ""


def _plain(name: str) -> str:
    """A name without what people write one way or another: capitals and underscores."""
    return name.lower().replace("_", "")


def no_attribute(module: str, name: str, names: Iterable[str]) -> AttributeError:
    """The error for a name that a module does not have, with the nearest."""
    return AttributeError(f"{module} has no {name!r}{nearest(name, names)}")


LONGEST, WORD = 8_000, 400
"""Characters of a message, and of a word in it, which may be an argument of the command line or a path."""


def _shortened(message: str) -> str:
    """A message without escapes, and with the middle of what is too long left out."""
    message = shown(ESCAPES.sub("", message))  # torch colours some of its own
    if len(message) > WORD:
        message = re.sub(rf"\S{{{WORD},}}", lambda word: f"{word[0][:200]}...{word[0][-100:]}", message)
    if len(message) > LONGEST:  # a value of the caller's, such as an engine's bytes
        message = f"{message[: LONGEST // 2]} … {message[-LONGEST // 2 :]}"
    return message


class TrtdslError(Exception):
    """Base of all errors of trtdsl.

    ``exit_code`` is what the command line exits with; ``location`` is the author's file and line where
    there is one, and ``context`` are facts added on the way up (the call, its operands' shapes).
    """

    exit_code = exit_codes.RUNTIME
    code: str | None = None
    """A stable name for what can happen to an engine, the same from Python and from C++; None for anything else."""

    def __init_subclass__(cls, exit_code: int | None = None, code: str | None = None):
        if exit_code is not None:
            cls.exit_code = exit_code
        if code is not None:
            cls.code = code

    def __init__(self, message: str, *, location: Location | None = None):
        message = _shortened(message)
        super().__init__(message)
        self.message = message
        self.location = location
        self.context: list[str] = []

    def __str__(self) -> str:
        head = placed(self.location, self.message)
        return "\n".join([head, *(f"  {line}" for line in self.context)])

    def _render_traceback_(self) -> list[str]:
        """What IPython shows instead of the whole traceback: the author's frames, then the message."""
        import traceback

        frames = traceback.extract_tb(self.__traceback__)
        own = [
            frame
            for frame in frames
            if not frame.filename.startswith(PACKAGE) and "site-packages" not in frame.filename
        ]
        lines = [f"{shown_file(frame.filename)}:{frame.lineno}: {frame.line}" for frame in own]
        return [*lines, f"{type(self).__name__}: {self}"]


@contextmanager
def located(location: Location | None) -> Iterator[None]:
    """Gives the author's place to errors that pass and have none."""
    try:
        yield
    except TrtdslError as error:
        error.location = error.location or location
        raise


@contextmanager
def noted(kind: type[TrtdslError], note: str) -> Iterator[None]:
    """Adds a line, unless it is empty, to errors of a kind that pass, such as the file that they are about.

    >>> with noted(FeedError, "x is x.npy"):
    ...     raise FeedError("'x' is float16, not float32")
    Traceback (most recent call last):
    trtdsl.core.errors.FeedError: 'x' is float16, not float32
      x is x.npy
    """
    try:
        yield
    except kind as error:
        error.context += [note] if note else []
        raise


class MismatchError(TrtdslError, exit_code=exit_codes.MISMATCH):
    """A network's outputs differ from its reference."""


class UsageError(TrtdslError, exit_code=exit_codes.USAGE, code="usage"):
    """The call itself is wrong: no such file, an unknown option value, an unwritable output."""


class DefinitionError(TrtdslError, exit_code=exit_codes.DEFINITION):
    """The network cannot be defined: the author's code or a call in it is wrong."""


class ShapeError(DefinitionError):
    """Operand shapes do not fit each other or the operation."""


class UnsupportedError(DefinitionError, code="unsupported"):
    """Legal in torch, but TensorRT (or trtdsl) cannot express it; says what to write instead."""


class WeightsError(DefinitionError, code="weights-mismatch"):
    """Weights are missing, unused, misshapen, of the wrong type or not finite."""


class NoWeightsError(UsageError, WeightsError):
    """There is no such weights file, or it cannot be read."""


class FeedError(TrtdslError, exit_code=exit_codes.USAGE):
    """A feed does not fit the network's input signature."""


class FeedNameError(FeedError, code="feed-name"):
    """An input is missing, or there is none of that name."""


class FeedDtypeError(FeedError, code="feed-dtype"):
    """A feed has another dtype than its input."""


class FeedRankError(FeedError, code="feed-rank"):
    """A feed has another number of dimensions than its input."""


class FeedShapeError(FeedError, code="feed-shape"):
    """A feed differs from its input in a fixed size."""


class FeedPlaceError(FeedError, code="feed-place"):
    """A feed is on another device than it is read from."""


class FeedProfileError(FeedError, code="feed-profile"):
    """A feed's size is outside the range that the engine was built for."""


class BuildError(TrtdslError, exit_code=exit_codes.BUILD):
    """TensorRT defined the network but could not build an engine from it."""


class EngineError(TrtdslError, exit_code=exit_codes.ENGINE):
    """An engine does not fit this machine: other product, version or compute capability."""


class BackendError(TrtdslError, exit_code=exit_codes.NO_DEVICE):
    """What the command needs is not on this machine: TensorRT itself, or a CUDA device."""


class CorruptFileError(TrtdslError, exit_code=exit_codes.CORRUPT_FILE):
    """A file is truncated, damaged or of another kind than expected."""


class CancelledError(TrtdslError, exit_code=exit_codes.CANCELLED):
    """The user cancelled; nothing was left behind but what the message says."""

    def __init__(self, message: str = "cancelled; nothing was written"):
        super().__init__(message)


class ExecutionError(TrtdslError, exit_code=exit_codes.RUNTIME, code="execution-failed"):
    """The engine could not be executed, or the GPU reported an error."""


class OutOfMemoryError(ExecutionError, code="out-of-memory"):
    """The GPU has less memory free than is needed."""

    def __init__(self, needed: int | None, free: int | None, what: str = "this"):
        wanted = "more memory" if needed is None else f"{needed:,} bytes"
        there = "" if free is None else f", and {free:,} bytes are free"
        super().__init__(f"out of GPU memory: {what} needs {wanted}{there}")
        self.needed, self.free = needed, free


# -- why an engine does not load: the file itself ----------------------------------------------------------------------


class EngineMissingError(UsageError, code="engine-missing"):
    """There is no such engine file, or it cannot be read."""


class ManifestMissingError(UsageError, code="manifest-missing"):
    """There is no manifest beside the engine."""


class EngineTooShortError(CorruptFileError, code="engine-too-short"):
    """The file is empty or shorter than an engine's header."""


class NotAnEngineError(CorruptFileError, code="not-an-engine"):
    """The file is something else: ONNX, safetensors, a checkpoint, …"""


class EnginePrefixError(CorruptFileError, code="engine-prefixed"):
    """An engine begins further on in the file, after what another program put before it."""


class EngineTruncatedError(CorruptFileError, code="engine-truncated"):
    """The file ends before the engine does."""


class EngineDamagedError(CorruptFileError, code="engine-damaged"):
    """The file has not the bytes that were built: flipped bits, or something put in or after it."""


class ManifestDamagedError(CorruptFileError, code="manifest-damaged"):
    """The manifest is not one that trtdsl wrote, or belongs to another engine."""


class InputDamagedError(CorruptFileError, FeedError, code="input-damaged"):
    """A .npy file is truncated, damaged, or none."""


class SavedCheckDamagedError(CorruptFileError, UsageError):
    """A saved check is truncated, damaged, none, or not as it was saved."""

    code = None  # its exit code is that of damaged files, and not of what the code says


class WeightsDamagedError(CorruptFileError, code="weights-damaged"):
    """A weights file is truncated, or not a safetensors file."""


# -- why a program cannot be read from a plan --------------------------------------------------------------------------


class UnreadableProgramError(EngineError):
    """A plan holds no program that trtdsl can read: of another product or version, or without its text."""


class ProgramDamagedError(CorruptFileError):
    """The text of a program in a plan does not follow its grammar."""


class UnevaluatedProgramError(EngineError):
    """A program has an operation, a header or a setting that its evaluation on the CPU does not know."""


class ProgramFaultError(MismatchError):
    """A program reads what nothing wrote, writes where another tensor lives, or races between streams."""


# -- why an engine does not load: what is here -------------------------------------------------------------------------


class WrongProductError(EngineError, code="wrong-product"):
    """A TensorRT engine for TensorRT-RTX, or the other way round."""


class VersionMismatchError(EngineError, code="version-mismatch"):
    """The engine was built by another version than is here."""


class ComputeCapabilityError(EngineError, code="compute-capability"):
    """The engine was not built for this GPU."""


class LibraryMismatchError(EngineError, code="library-mismatch"):
    """TensorRT's library is not the one that its Python bindings, or the headers of a program, are of."""


class MissingPluginError(EngineError, code="missing-plugin"):
    """The engine needs a plugin that is not registered."""


class StrippedEngineError(EngineError, code="engine-stripped"):
    """The engine was built without its weights and has not got any yet."""


class HostCodeError(EngineError, code="host-code"):
    """The engine carries code for the CPU, which is not run unless asked for."""


class EngineRefusedError(EngineError, code="engine-refused"):
    """TensorRT refuses the engine; the message is TensorRT's."""


class NoDriverError(BackendError, code="no-driver"):
    """No CUDA device is usable: whether the engine fits one was not judged."""


class OldDriverError(BackendError, code="driver-too-old"):
    """The CUDA driver is older than TensorRT needs: whether the engine is good was not judged."""


class UnexaminedVersionWarning(UserWarning):
    """TensorRT-RTX is newer than the versions whose programs are read."""


class TuningWarning(UserWarning):
    """A tuning is not used, because it is damaged or of another network or version."""


class PrecisionWarning(UserWarning):
    """What is said of a precision, or its scales, is of other values, sizes or versions than those at hand."""


class RuntimeCacheWarning(UserWarning):
    """A runtime cache was discarded, and is built anew."""

    code = "runtime-cache"
