"""Models of the survey's libraries beside torch.onnx: what the engines move, and how long the way there takes.

    PYTHONPATH=FOLDER python tools/bench/libraries.py PATTERN [--write]

PATTERN finds models by library and name (tools/surveyed/published.py, which says how they are made). Engines are of the
greatest sizes that a model is surveyed at, in float32, as tools/bench/models.py has them. Seconds are the processor's:
``td.port`` with all dimensions dynamic, which checks what it writes; ``td.from_module`` and ``td.check`` with fixed
sizes; and ``torch.onnx.export(dynamo=True)`` with fixed sizes, which checks nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import platform
import re
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tools"), str(Path(__file__).parent)]

from measured import alone, versions, write_part  # noqa: E402
from models import ROADS, Plain, cleaned, feeds, is_whole, made, measured, ours, ratio, theirs  # noqa: E402
from survey import declare_operators_of_torchvision  # noqa: E402
from surveyed.published import LIBRARIES  # noqa: E402

import trtdsl as td  # noqa: E402
from networks import COMPARED, DOCUMENT, HEADS, refused  # noqa: E402

PART = "<!-- published: python tools/bench/libraries.py --write -->", "<!-- end of published -->"
SECONDS = 120  # of the processor, for the three ways


def subjects(pattern):
    """Each model that the pattern finds, with its library's name."""
    for library, make in LIBRARIES.items():
        with contextlib.suppress(ImportError):
            yield from ((library, each) for each in make() if re.search(pattern, f"{library} {each.name}"))


def fixed(subject):
    """The model at its greatest sizes."""
    sizes = {name: size[-1] if isinstance(size, tuple) else size for name, size in subject.dims.items()}

    def at_sizes(text):
        shape, *rest = text.split(":")
        return ":".join([",".join(str(eval(size, {}, sizes)) for size in filter(None, shape.split(","))), *rest])

    given = subject.inputs
    inputs = {k: at_sizes(v) for k, v in given.items()} if isinstance(given, dict) else [at_sizes(v) for v in given]
    return replace(subject, inputs=inputs, dims={})


def seconds(subject):
    """Processor seconds of each way; None for one that fails."""
    still = fixed(subject)
    names = list(still.inputs) if isinstance(still.inputs, dict) else None
    given = feeds(still, "fp32")

    def exported():
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            module, file = Plain(made(still, "fp32"), names), f"{folder}/model.onnx"
            torch.onnx.export(module, tuple(given.values()), file, dynamo=True, input_names=list(given))

    by_name = subject.inputs
    if names is None:  # in the order of what forward takes
        by_name = dict(zip(inspect.signature(made(subject, "fp32").forward).parameters, subject.inputs, strict=False))
    ways = {
        "port": lambda: td.port(made(subject, "fp32"), by_name, dims=subject.dims),
        "check": lambda: td.check(td.from_module(made(still, "fp32"), still.inputs, dims={})).raise_for_mismatch(),
        "dynamo": exported,
    }
    found = {}
    for name, way in ways.items():
        start = time.process_time()
        try:
            way()
            found[name] = time.process_time() - start
        except Exception:  # a library's module may fail as well
            found[name] = None
    return found


def row(library, subject):
    """A model's cells, or why there are none."""
    still = fixed(subject)
    pair = dict(zip(ROADS, (measured(work, still, "fp32") for work in (ours, theirs)), strict=True))
    if not is_whole(pair):
        whys = [f"{road}: {cleaned(figures['refused'])}" for road, figures in pair.items() if "refused" in figures]
        return [f"{library} {subject.name}", "; ".join(whys), *[""] * (4 + len(COMPARED))]
    try:
        times = alone(seconds, subject, seconds=SECONDS)
    except RuntimeError as error:
        times = refused(error)
    mine, other = (pair[road] for road in ROADS)
    cells = [f"{library} {subject.name}{' (dynamo)' * (other['exporter'] == 'dynamo')}"]
    cells += [
        f"{mine['launches']:,} / {other['launches']:,}",
        f"{mine['bytes'] / 1e3:,.1f} / {other['bytes'] / 1e3:,.1f}",
    ]
    cells += [f"{ratio(pair, key):.3f}" for key in COMPARED[1:]]
    return cells + [f"{times[way]:.1f}" if times.get(way) is not None else "" for way in ("port", "check", "dynamo")]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern")
    parser.add_argument("--write", action="store_true", help="write the table into docs/benchmarks.md")
    options = parser.parse_args(arguments)
    declare_operators_of_torchvision()
    heads = ["model", "launches", "bytes moved, kB", *(f"{HEADS[key].split(',')[0]}, ratio" for key in COMPARED[1:])]
    heads += ["port, s", "fixed, checked, s", "dynamo, s"]
    lines = [f"{platform.system()} {platform.machine()}, {versions()}.", "", f"| {' | '.join(heads)} |"]
    lines.append("|---" * len(heads) + "|")
    for library, subject in subjects(options.pattern):
        lines.append(f"| {' | '.join(row(library, subject))} |")
        print(lines[-1], file=sys.stderr, flush=True)
    text = "\n".join(lines)
    print(text)
    if options.write:
        write_part(DOCUMENT, *PART, text)


if __name__ == "__main__":
    main()
