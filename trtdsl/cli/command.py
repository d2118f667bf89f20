"""A command: groups of options, ``--json``, ``-q`` and ``-v`` for every command, and the handling of errors.

A file in :mod:`trtdsl.cli.commands` has one command of its own name, or ``app``, a typer of several::

    @command
    def check(out: Output, network: NetworkName, definition: Definition) -> None: ...

The command prints through ``out``. An argument annotated with a function, such as ``Definition``, stands for the
options that are that function's parameters, and its value is the function's result.
"""

from __future__ import annotations

import copy
import inspect
import os
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NoReturn, get_args, get_origin

import typer
from typer.models import OptionInfo

from ..core import exit_codes
from ..core.caller import at_shell
from ..core.cancel import NOTICED, PRESSED, cancellable
from ..core.errors import CancelledError, PrecisionWarning, TrtdslError, TuningWarning, UsageError, printed, told
from ..core.files.names import brief, check_names_file, working_directory
from ..core.files.writing import as_json, remove_made
from ..core.lazy import not_installed
from ..display.terminal import Progress, print_error, print_note
from .defaults import said_by_file

EXAMPLES = "Examples:\n"
PANELS = ("Network", "Check", "Build", "TensorRT")
"""Panels of the help, in the order in which an author meets them."""

SPOKEN = {"prompt"}
"""Arguments that are text, in which lines may end."""
FILES = re.compile("FILE|FOLDER|NETWORK|ENGINE|^[AB]$")
"""Of what stands for the value of an option that names files."""
ENDING = re.compile("[\n\x0b\f\r\x1c-\x1e\x85\u2028\u2029]")

Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, everything else on stderr.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Print errors only.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Print more; tracebacks with errors.")]


@dataclass(frozen=True)
class Output:
    """The output of a command: one JSON object, text for people, or nothing."""

    json: bool
    quiet: bool
    verbose: bool
    began: float = field(default_factory=time.monotonic)
    kept: list[Any] | None = None
    """The results of a network's parts, which are printed together."""

    @property
    def seconds(self) -> float:
        """The time since the command began."""
        return time.monotonic() - self.began

    def progress(self) -> Progress:
        """A bar, or a line for each phase, where something is printed for people."""
        return Progress(self.quiet or self.json)

    def result(self, value: Any, show: Callable[[], object]) -> None:
        """``value`` as one JSON object with ``--json``; otherwise ``show()`` prints, unless ``-q`` is given."""
        if self.kept is not None:
            self.kept.append(value)
        elif self.json:
            print_json(value)
        if not self.json and not self.quiet:
            show()


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Turns a function whose first argument is an :class:`Output` into a command for typer."""
    _, *own = inspect.signature(function, eval_str=True).parameters.values()
    groups = {parameter.name: group for parameter in own if (group := _group_of(parameter.annotation)) is not None}
    members = {name: [*inspect.signature(group, eval_str=True).parameters.values()] for name, group in groups.items()}
    options = [inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    options += [member for parameter in own for member in members.get(parameter.name, [parameter])]
    options = sorted(map(_named, options), key=_panel)
    files = {option.name: found for option in options if (found := _names_of_files(option)) is not None}
    paths = [name for name, (is_path, _) in files.items() if is_path]
    for name, annotation in (("json_", Json), ("quiet", Quiet), ("verbose", Verbose)):
        options.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation))

    def call(**given: Any) -> None:
        out = Output(given.pop("json_"), given.pop("quiet"), given.pop("verbose"))
        with warnings.catch_warnings(), errors(out, given.pop("context")), at_shell(), _apart(out.json):
            for kind in (TuningWarning, PrecisionWarning):
                warnings.simplefilter("default", kind)
            warnings.filterwarnings("ignore", "Mismatch dtype between input and weight")  # torch's, of its own speed
            warnings.showwarning = _show_warning
            _check_texts(given, files)
            given |= {name: Path(given[name]) for name in paths if given[name] is not None}
            for name, group in groups.items():
                given[name] = group(**{member.name: given.pop(member.name) for member in members[name]})
            function(out, **given)

    options = [_as_text(option) if option.name in paths else option for option in options]
    options = [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options]
    call.__name__, call.__module__ = function.__name__, function.__module__
    call.__doc__ = _help(inspect.getdoc(function) or "")
    call.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    call.__annotations__ = {option.name: option.annotation for option in options}
    return call


def _named(option: inspect.Parameter) -> inspect.Parameter:
    """An option without a name is called as its parameter: typer would have a flag's ``--no-NAME``, too."""
    kind, *infos = get_args(option.annotation) or (None,)
    if not infos or not isinstance(infos[0], OptionInfo) or infos[0].default is not ...:
        return option
    info = copy.copy(infos[0])
    info.default = f"--{option.name.strip('_').replace('_', '-')}"  # where typer finds the first of the names
    return option.replace(annotation=Annotated[kind, info])


def _names_of_files(option: inspect.Parameter) -> tuple[bool, bool] | None:
    """Whether an option that names files is a Path, and whether it may name a folder; None for other options."""
    kind, info = (get_args(option.annotation) or (None, None))[:2]
    is_path, metavar = Path in (kind, *get_args(kind)), getattr(info, "metavar", None) or ""
    return (is_path, "=" in metavar or "FOLDER" in metavar) if is_path or FILES.search(metavar) else None


def _as_text(option: inspect.Parameter) -> inspect.Parameter:
    """A Path as the text that was given: Path takes an empty one for the working directory, and drops a last stroke."""
    kind, info = get_args(option.annotation)
    return option.replace(annotation=Annotated[str if kind is Path else str | None, info, Path])


def _check_texts(given: dict[str, Any], files: Mapping[str, tuple[bool, bool]]) -> None:
    """UsageError for names of no file, and for arguments, and a working directory, that would write lines of their
    own where they are named.
    """
    for name, value in {**given, "working directory": working_directory()}.items():
        for text in value if isinstance(value, list) else [value]:
            if name in files and text is not None:
                check_names_file(text, name, folder=files[name][1])
            if name not in SPOKEN and isinstance(text, (str, os.PathLike)) and ENDING.search(os.fspath(text)):
                said = f"{name.strip('_')} {brief(printed(os.fspath(text)))!r}"
                raise UsageError(f"{said} has characters that end a line, and it is named in lines")


def _help(text: str) -> str:
    """A docstring as typer shows it: each paragraph as wide as the terminal, examples line by line."""
    paragraphs = text.split("\n\n")
    return "\n\n".join(f"\b\n{each}" if each.startswith(EXAMPLES) else " ".join(each.split()) for each in paragraphs)


def _show_warning(message: Warning | str, *_: Any) -> None:
    """A warning in one line on stderr, without Python's own line about where it was raised."""
    print_note(f"warning: {message}")


def _panel(option: inspect.Parameter) -> int:
    """The place of an option's panel in the help; typer shows panels as their first options come."""
    panel = next((each.rich_help_panel for each in get_args(option.annotation)[1:]), None)
    return PANELS.index(panel) + 1 if panel in PANELS else 0


def _group_of(annotation: Any) -> Callable[..., Any] | None:
    """The function whose parameters are the options of a group; None for an option of its own."""
    found = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    return next((each for each in found if inspect.isfunction(each)), None)


_STDOUT: ContextVar[Any] = ContextVar("stdout", default=None)
"""Where the object of ``--json`` goes, while all else that is printed goes to stderr."""


@contextmanager
def _apart(json: bool) -> Iterator[None]:
    """With ``--json``, what the author's code prints goes to stderr: it would stand before the object."""
    token = _STDOUT.set(sys.stdout)
    try:
        with redirect_stdout(sys.stderr) if json else nullcontext():
            yield
    finally:
        _STDOUT.reset(token)


def print_json(value: Any) -> None:
    """One object on stdout."""
    typer.echo(as_json(value, indent=2), file=_STDOUT.get())


@contextmanager
def errors(out: Output, context: typer.Context) -> Iterator[None]:
    """Prints an error as one message and exits with its code; the traceback only with -v.

    One of the call says what the project's file has to do with it.

    An unforeseen error exits with 8, since Python's own exit code, 1, means that a network differs.
    """
    try:
        with cancellable():
            yield
            sys.stdout.flush()  # a disk that is full shows here rather than when Python ends
            if PRESSED.is_set() and not NOTICED.is_set():  # a library lost the interrupt, and the end came first
                raise CancelledError("cancelled when all was done")
    except typer.Exit:
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):  # at the very beginning or end
            error = CancelledError()
        if isinstance(error, UsageError) and (defaults := said_by_file(context)) is not None:
            error.context.append(defaults)
        said = isinstance(error, CancelledError) or not isinstance(error, Exception)
        _failed(out, error if said or not PRESSED.is_set() else CancelledError())
    finally:
        remove_made()


def _failed(out: Output, error: BaseException) -> NoReturn:
    """Prints an error and exits with its code."""
    if isinstance(error, CancelledError):
        NOTICED.set()
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        error = not_installed(error.name)
    if isinstance(error, TrtdslError):
        _fail(out, error, error.exit_code, str(error))
    _fail(out, error, exit_codes.RUNTIME, told(error))


def _fail(out: Output, error: BaseException, code: int, text: str) -> NoReturn:
    if out.verbose:
        traceback.print_exception(error)
    if out.json:
        location = error.location if isinstance(error, TrtdslError) else None
        place = {"file": location.file, "line": location.line} if location else None
        kind = type(error).__name__
        details = {"type": kind, "message": text, "location": place, "exit_code": code}
        if isinstance(error, TrtdslError) and error.code is not None:
            details["code"] = error.code
        print_json({"schema": 1, "kind": "error", "error": details})
    print_error(text)
    sys.stdout.flush()
    raise typer.Exit(code)
