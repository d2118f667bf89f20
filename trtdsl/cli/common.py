"""What the commands share: their options, how an error leaves, JSON on stdout."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

import trtdsl as td

from ..core.errors import TrtdslError, UsageError
from ..definition.profile import Range, as_bounds, read_ranges
from ..display.terminal import print_error

NetworkName = Annotated[str, typer.Argument(metavar="NETWORK", help="FILE.py or FILE.py:NAME")]
WeightsFile = Annotated[
    Path | None, typer.Option("--weights", metavar="FILE", help="safetensors instead of the network's own")
]
Dims = Annotated[
    list[str] | None,
    typer.Option("--dim", metavar="NAME=MIN:OPT:MAX", help="Range of a dynamic dimension, or NAME=SIZE to fix it."),
]
Profiles = Annotated[
    list[str] | None,
    typer.Option(
        "--profile", metavar="DIMS", help="Sizes to tune for, as N=1 or N=1:4:8,T=100; once for each profile."
    ),
]
Backend = Annotated[
    str | None,
    typer.Option("--backend", metavar="NAME", help="auto, tensorrt or tensorrt-rtx; TRTDSL_BACKEND sets it too."),
]
Precision = Annotated[
    str | None, typer.Option("--precision", metavar="DTYPE", help="fp16 or bf16, as torch.autocast; fp32 by default.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, everything else on stderr.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Print errors only.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Print more; tracebacks with errors.")]
AllowNonfinite = Annotated[bool, typer.Option("--allow-nonfinite", help="Accept NaN and Inf in weights.")]


def dims_of(given: list[str] | None) -> dict[str, Range]:
    """Of ``--dim``: a range, or one size in the place of a dimension."""
    return read_ranges(given or [], "--dim")


def profiles_of(given: list[str] | None) -> list[td.Profile] | None:
    """Of ``--profile``; None leaves the network's own."""
    return [td.Profile.parse(text) for text in given] if given else None


def pairs_of(
    given: list[str] | None, option: str, expected: str, is_right: Callable[[str, str], bool]
) -> dict[str, str]:
    """Of an option ``NAME=TEXT`` that may be repeated. Raises UsageError."""
    result: dict[str, str] = {}
    for text in given or []:
        name, found, rest = text.partition("=")
        if not found or not is_right(name, rest):
            raise UsageError(f"{option} {text}: expected {expected}")
        if name in result:
            raise UsageError(f"{option} gives {name} twice")
        result[name] = rest
    return result


def shape_of(text: str, dims: dict[str, Range]) -> tuple[int | td.Dim, ...]:
    """``N,3,18`` as a shape, with the ranges of ``--dim``; an empty text is a scalar's."""
    shape: list[int | td.Dim] = []
    for size in text.split(",") if text.strip("()") else []:
        size = size.strip(" ()")
        known = dims.get(size)
        if size.isdigit() or isinstance(known, int):
            shape.append(known if isinstance(known, int) else int(size))
        elif known is not None:
            low, opt, high = as_bounds(size, known)
            shape.append(td.Dim(size, min=low, opt=opt, max=high))
        else:
            shape.append(td.Dim(size))
    return tuple(shape)


def print_json(value: Any) -> None:
    """One object on stdout."""
    typer.echo(json.dumps(_finite(value), indent=2))


def _finite(value: Any) -> Any:
    """JSON has no NaN or Inf: they become strings."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


@contextmanager
def errors(json_: bool, verbose: bool) -> Iterator[None]:
    """Prints an error as one message and exits with its code; the traceback only with -v.

    What nobody foresaw exits with 8: Python's own 1 would say that a network differs.
    """
    try:
        yield
    except typer.Exit:
        raise
    except TrtdslError as error:
        _fail(error, error.exit_code, str(error), json_, verbose, error.location)
    except KeyboardInterrupt:
        _fail(None, 130, "cancelled; nothing was written", json_, False, None)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except BaseException as error:
        _fail(error, 8, f"{type(error).__name__}: {error}", json_, verbose, None)


def _fail(error: BaseException | None, code: int, text: str, json_: bool, verbose: bool, location: Any) -> None:
    if verbose and error is not None:
        traceback.print_exception(error)
    if json_:
        place = {"file": location.file, "line": location.line} if location else None
        kind = type(error).__name__ if error is not None else "Cancelled"
        details = {"type": kind, "message": text, "location": place, "exit_code": code}
        if isinstance(error, TrtdslError) and error.code is not None:
            details["code"] = error.code
        print_json({"schema": 1, "kind": "error", "error": details})
    print_error(text)
    raise typer.Exit(code)
