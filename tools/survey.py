"""Ports and checks modules of the libraries that are installed, and writes the table in docs/survey.md.

    python tools/survey.py                                     # all libraries that can be imported
    python tools/survey.py timm kornia --only 'mobile|Blur'    # what a pattern finds in these
    python tools/survey.py --results survey.jsonl --write      # goes on where it stopped, and writes the table
    PYTHONPATH=FOLDER python tools/survey.py --published       # libraries that nothing was written for
    PYTHONPATH=FOLDER python tools/survey.py --guessed NAME …  # any library: its classes, with guessed arguments

Each module is made with random weights and ported, and what is written is compared with it at the ends of its sizes,
unedited, in a process of its own; one that is not equal, once more with its sizes fixed. A result is kept with the
commit of trtdsl, and counts for that commit alone.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from measured import Results, alone, versions, write_part
from surveyed import LIBRARIES, Subject, guessed, published
from surveyed.subject import varied

import trtdsl as td
from trtdsl.porting import ported

Subjects = Callable[[], Iterator[Subject]]
DOCUMENT = Path(__file__).parents[1] / "docs" / "survey.md"
PARTS = {
    False: ("<!-- survey: python tools/survey.py --write -->", "<!-- end of survey -->"),
    True: ("<!-- survey: python tools/survey.py --published --write -->", "<!-- end of published -->"),
}


@dataclass(frozen=True)
class Result:
    """What was found of one module; ``why`` is empty where it is equal."""

    library: str
    version: str
    name: str
    why: str
    seconds: float
    """Of the processor's time."""
    fixed: str = ""
    """As ``why``, with its sizes fixed."""


def judged(library: str, subject: Subject) -> Result:
    """Ports and checks one module."""
    version = getattr(importlib.import_module(library), "__version__", "").split("+")[0]
    start = time.process_time()
    why = _why(subject, subject.dims)
    fixed = why and _why(subject, {name: _usual(given) for name, given in subject.dims.items()})
    return Result(library, version, subject.name, why, round(time.process_time() - start, 1), fixed)


def _usual(given: int | tuple[int, int, int]) -> int:
    """The size to tune for."""
    return given if isinstance(given, int) else given[1]


def _why(subject: Subject, dims: dict[str, Any]) -> str:
    """Why the module is not equal with these sizes; empty where it is."""
    why = ""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        try:
            module = varied(subject.make().eval())
            result = ported(module, subject.inputs, dims=dims, check=True)
            if result.verdict is None or not result.verdict.passed:
                why = ", ".join(dict.fromkeys(result.missing)) or str(result.verdict and result.verdict.text)
        except td.TrtdslError as error:
            why = f"{type(error).__name__}: {error}"
        except Exception as error:
            line = traceback.extract_tb(error.__traceback__)[-1]
            why = f"{type(error).__name__}: {error} ({Path(line.filename).name}:{line.lineno})"
    return " ".join(why.split())


def table(results: Iterable[Result], missed: Sequence[str] = ()) -> str:
    """The modules by library, the reason for each that is not equal, and what was not measured."""
    by_library: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        by_library.setdefault((result.library, result.version), []).append(result)
    lines = ["| modules of | tried | equal | with sizes fixed | which |", "|---|---|---|---|---|"]
    for (library, version), found in by_library.items():
        equal = [result.name for result in found if not result.why]
        fixed = sum(not result.fixed for result in found)
        lines.append(f"| {library} {version} | {len(found)} | {len(equal)} | {fixed} | {', '.join(equal)} |")
    every = [result for found in by_library.values() for result in found]
    equal, fixed = sum(not each.why for each in every), sum(not each.fixed for each in every)
    lines.append(f"| all | {len(every)} | {equal} | {fixed} | |")
    failed = [result for result in every if result.why]
    if failed:
        lines += ["", "| not equal | why |", "|---|---|"]
        lines += [f"| {result.library} {result.name} | {_reason(result)} |" for result in failed]
    if missed:
        lines += ["", f"Not measured: {', '.join(missed)}."]
    return "\n".join(lines)


def _reason(result: Result) -> str:
    """The first sentence, with paths from the library's folder on, not those of this machine."""
    why = re.sub(rf"\S*/(?={result.library}/)", "", result.why).replace("|", "/")
    return why if len(why) <= 200 else f"{why[:197].rsplit(' ', 1)[0]} …"


def results_of(
    names: list[str], libraries: Mapping[str, Subjects], only: str, kept: Results, seconds: int, until: float
) -> Iterator[Result | str]:
    """What is known already, and the rest as it is found; after ``until`` the names of modules that are not known."""
    done = {(row["library"], row["name"]): Result(**row) for row in kept.rows}
    for library in names:
        try:
            importlib.import_module(library)
            subjects = list(libraries[library]())
        except Exception as error:
            print(f"{library} cannot be imported: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        start, before = time.monotonic(), len(kept.rows)
        for number, subject in enumerate(subjects, start=1):
            if (library, subject.name) in done:
                yield done[library, subject.name]
            elif not re.search(only, subject.name):
                continue
            elif time.monotonic() > until:
                yield f"{library} {subject.name}"
            else:
                result = measured(library, subject, seconds)
                kept.add(asdict(result))
                each = (time.monotonic() - start) / (len(kept.rows) - before)
                left = f"{number} of {len(subjects)}, at most {each * (len(subjects) - number) / 60:.0f} min left"
                print(f"{library} {result.name} ({left}): {result.why or 'equal'}", file=sys.stderr)
                yield result


def measured(library: str, subject: Subject, seconds: int) -> Result:
    """The verdict on a module, from a process of its own."""
    try:
        return alone(judged, library, subject, seconds=seconds)
    except RuntimeError as error:
        version = getattr(importlib.import_module(library), "__version__", "").split("+")[0]
        return Result(library, version, subject.name, str(error), 0.0, str(error))


def declare_operators_of_torchvision() -> None:
    """torchvision that is built for another torch can be imported where its operators are known by name."""
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            torch.library.define(f"torchvision::{name}", "(Tensor a, Tensor b, float c) -> Tensor")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libraries", nargs="*", help=f"of {', '.join(LIBRARIES)}; all of them by default")
    parser.add_argument("--only", default="", help="modules whose names this pattern finds")
    parser.add_argument("--seconds", type=int, default=120, help="the time for one module")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="what is not measured by then is named")
    parser.add_argument("--results", type=Path, help="a file of results: what has this commit is not measured again")
    parser.add_argument("--published", action="store_true", help=f"of {', '.join(published.LIBRARIES)}")
    parser.add_argument("--guessed", action="store_true", help="of any libraries, by the names that are imported")
    parser.add_argument("--write", action="store_true", help="write the table into docs/survey.md")
    options = parser.parse_args(arguments)
    libraries = published.LIBRARIES if options.published else LIBRARIES
    if options.guessed:
        if not options.libraries or options.published or options.write:
            parser.error("--guessed takes names of libraries, and writes no table into the document")
        libraries = {name: partial(guessed.guessed, name) for name in options.libraries}
    unknown = [name for name in options.libraries if name not in libraries]
    if unknown:
        parser.error(f"no library {', '.join(unknown)}")
    declare_operators_of_torchvision()
    until = time.monotonic() + 60 * options.minutes
    kept = Results(options.results)
    names = options.libraries or list(libraries)
    found = list(results_of(names, libraries, options.only, kept, options.seconds, until))
    results = [each for each in found if isinstance(each, Result)]
    text = table(results, [each for each in found if isinstance(each, str)])
    text = f"Measured with {versions()}.\n\n{text}"
    print(text)
    if options.write:
        write_part(DOCUMENT, *PARTS[options.published], text)


if __name__ == "__main__":
    main()
