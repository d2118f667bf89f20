"""Ports and checks modules of the libraries that are installed, and writes the table in docs/survey.md.

    python tools/survey.py                                     # all libraries that can be imported
    python tools/survey.py timm kornia --only 'mobile|Blur'    # what a pattern finds in these
    python tools/survey.py --results survey.jsonl --write      # goes on where it stopped, and writes the table

Each module is made with random weights, traced, defined and compared with itself at the ends of its sizes, unedited,
in a process of its own. A result is kept with the commit of trtdsl, and counts for that commit alone.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
import time
import traceback
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from measured import Results, alone, versions, write_part
from surveyed import LIBRARIES, Subject
from surveyed.subject import varied

import trtdsl as td

DOCUMENT = Path(__file__).parents[1] / "docs" / "survey.md"
BEGIN, END = "<!-- survey: python tools/survey.py --write -->", "<!-- end of survey -->"


@dataclass(frozen=True)
class Result:
    """What was found of one module; ``why`` is empty where it is equal."""

    library: str
    version: str
    name: str
    why: str
    seconds: float
    """Of the processor's time."""


def judged(library: str, subject: Subject) -> Result:
    """Ports and checks one module."""
    version = getattr(importlib.import_module(library), "__version__", "").split("+")[0]
    start = time.process_time()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        why = ""
        try:
            module = varied(subject.make().eval())
            td.check(td.from_module(module, subject.inputs, dims=subject.dims)).raise_for_mismatch()
        except td.TrtdslError as error:
            why = f"{type(error).__name__}: {error}"
        except Exception as error:
            line = traceback.extract_tb(error.__traceback__)[-1]
            why = f"{type(error).__name__}: {error} ({Path(line.filename).name}:{line.lineno})"
    return Result(library, version, subject.name, " ".join(why.split()), round(time.process_time() - start, 1))


def table(results: Iterable[Result], missed: Sequence[str] = ()) -> str:
    """The modules by library, the reason for each that is not equal, and what was not measured."""
    by_library: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        by_library.setdefault((result.library, result.version), []).append(result)
    lines = ["| modules of | tried | equal | which |", "|---|---|---|---|"]
    for (library, version), found in by_library.items():
        equal = [result.name for result in found if not result.why]
        lines.append(f"| {library} {version} | {len(found)} | {len(equal)} | {', '.join(equal)} |")
    every = [result for found in by_library.values() for result in found]
    lines.append(f"| all | {len(every)} | {sum(not result.why for result in every)} | |")
    failed = [result for result in every if result.why]
    if failed:
        lines += ["", "| not equal | why |", "|---|---|"]
        lines += [f"| {result.library} {result.name} | {_reason(result.why)} |" for result in failed]
    if missed:
        lines += ["", f"Not measured: {', '.join(missed)}."]
    return "\n".join(lines)


def _reason(why: str) -> str:
    """The first sentence, without the paths of this machine."""
    why = re.sub(r"\S*/site-packages/", "", why).replace("|", "/")
    return why if len(why) <= 200 else f"{why[:197].rsplit(' ', 1)[0]} …"


def results_of(names: list[str], only: str, kept: Results, seconds: int, until: float) -> Iterator[Result | str]:
    """What is known already, and the rest as it is found; after ``until`` the names of modules that are not known."""
    done = {(row["library"], row["name"]): Result(**row) for row in kept.rows}
    for library in names:
        try:
            importlib.import_module(library)
            subjects = list(LIBRARIES[library]())
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
        return Result(library, version, subject.name, str(error), 0.0)


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
    parser.add_argument("--write", action="store_true", help="write the table into docs/survey.md")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.libraries if name not in LIBRARIES]
    if unknown:
        parser.error(f"no library {', '.join(unknown)}")
    declare_operators_of_torchvision()
    until = time.monotonic() + 60 * options.minutes
    kept = Results(options.results)
    found = list(results_of(options.libraries or list(LIBRARIES), options.only, kept, options.seconds, until))
    results = [each for each in found if isinstance(each, Result)]
    text = table(results, [each for each in found if isinstance(each, str)])
    text = f"Measured with {versions()}.\n\n{text}"
    print(text)
    if options.write:
        write_part(DOCUMENT, BEGIN, END, text)


if __name__ == "__main__":
    main()
