"""Models of other libraries by what the GPU will run: trtdsl's engines of the unedited models beside torch.onnx's.

    python tools/bench/models.py [--only PATTERN]
    python tools/bench/models.py --results models.jsonl --minutes 5    # goes on where it stopped
    python tools/bench/models.py --results models.jsonl --write        # writes the tables in docs/benchmarks.md

Each model is made with random weights at one size (tools/surveyed/models.py), ported by ``td.from_module`` and built;
beside it stands the file of torch.onnx's TorchScript-based exporter, or of the dynamo-based one where that fails, read
by TensorRT's own parser. "all fp16" is the module's ``.half()`` with inputs of that dtype on both roads; where the half
module depends on its values, trtdsl's is the float32 port with inputs and weights of float16. Each road takes a process
of its own. A row of trtdsl counts for the commit that it was measured on; an exporter's for the versions of the
packages and for the model's inputs. The libraries are not installed with trtdsl: those that are missing are named.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import re
import statistics
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tools"), str(Path(__file__).parent)]

from measured import Results, alone, versions, write_part  # noqa: E402
from survey import declare_operators_of_torchvision  # noqa: E402
from surveyed.models import MAKERS  # noqa: E402
from surveyed.subject import varied  # noqa: E402

import trtdsl as td  # noqa: E402
from networks import COMPARED, DOCUMENT, DTYPES, HEADS, figures, halved, parsed, refused  # noqa: E402
from trtdsl.core.backend import get_backend  # noqa: E402

PART = "<!-- models: python tools/bench/models.py --write -->", "<!-- end of models -->"
KINDS = {"fp32": "float32", "all fp16": "float16"}
ROADS = ("trtdsl", "torch.onnx")
SECONDS = 30  # of a row; ten times as many by the clock
DEVICE = "rtx-4090"  # of the floors, which the tables do not have


# -- one row, in a process of its own ----------------------------------------------------------------------------------


def made(subject, kind):
    """The module with numbers where a fresh one has zeros: exporters leave out what is added to zeros."""
    torch.manual_seed(0)
    with torch.no_grad():
        return varied(subject.make().eval()).requires_grad_(False).to(DTYPES[kind.removeprefix("all ")])


def inputs_of(subject, kind):
    """The inputs by name or in order, floats in the dtype of that kind."""

    def of_kind(text):
        shape, dtype, *sample = (text.split(":") + ["float32"])[: max(2, text.count(":") + 1)]
        return ":".join([shape, KINDS[kind] if dtype == "float32" else dtype, *sample])

    if isinstance(subject.inputs, dict):
        return {name: of_kind(text) for name, text in subject.inputs.items()}
    return [of_kind(text) for text in subject.inputs]


def ours(subject, kind):
    """The figures of trtdsl's engine of the unedited module."""
    start = time.perf_counter()
    try:
        network = defined(subject, kind)
        return figures(td.program(network), time.perf_counter() - start, DEVICE)
    except Exception as error:  # a library's module may fail as well
        return refused(error)


def defined(subject, kind):
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            network = td.from_module(made(subject, kind), inputs_of(subject, kind), dims={}).define()
            layers = map(network.definition.get_layer, range(network.definition.num_layers))
            if kind == "fp32" or all(layer.type.name != "CONDITION" for layer in layers):
                return network
        except td.UnsupportedError:
            if kind == "fp32":
                raise
        spec = td.from_module(made(subject, "fp32"), subject.inputs, dims={})
        low, weights = halved(spec, None, DTYPES[kind.removeprefix("all ")])
        return low.define(weights=weights)


def theirs(subject, kind):
    """The figures of the TorchScript-based exporter, or of the dynamo-based one."""
    found = {}
    for exporter in ("TorchScript", "dynamo"):
        try:
            module = Plain(made(subject, kind), list(subject.inputs) if isinstance(subject.inputs, dict) else None)
            found = parsed(module, feeds(subject, kind), exporter, DEVICE)
        except Exception as error:
            found = refused(error)
        if "refused" not in found:
            break
    return {**found, "exporter": exporter}


def feeds(subject, kind):
    """Drawn inputs by name; those in order have numbers for names."""
    given = inputs_of(subject, kind)
    named = given if isinstance(given, dict) else {f"input_{index}": text for index, text in enumerate(given)}
    inputs = {}
    for name, text in named.items():
        shape, dtype, *sample = text.split(":")
        sizes = tuple(int(size) for size in shape.split(",")) if shape else ()
        inputs[name] = td.Input(sizes, dtype, tuple(int(end) for end in sample) or None)
    return td.sample_feeds(SimpleNamespace(inputs=inputs), {}, torch.Generator().manual_seed(0))


class Plain(nn.Module):
    """A module that takes tensors in order and gives tensors, as exporters want it."""

    def __init__(self, module, names):
        super().__init__()
        self.module, self.names = module, names

    def forward(self, *given):
        if self.names is None:
            return tuple(tensors(self.module(*given)))
        return tuple(tensors(self.module(**dict(zip(self.names, given, strict=True)))))


def tensors(value):
    """The tensors of a result, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (dict, list, tuple)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from tensors(part)


# -- all rows, each kept with what it depends on -----------------------------------------------------------------------


def subjects(only):
    """Each model that the pattern finds, with its library's name."""
    for library, make in MAKERS.items():
        try:
            found = list(make(importlib.import_module(library)))
        except ImportError as error:
            print(f"{library} is not installed: pip install {library} ({error})", file=sys.stderr)
            continue
        yield from ((library, subject) for subject in found if re.search(only, f"{library} {subject.name}"))


def rows(only, results, until):
    """Figures by kind, model and road, and the names of what there was no time for."""
    kept = dict(zip(ROADS, (Results(results), Results(results, f"torch.onnx, {versions()}")), strict=True))
    work = dict(zip(ROADS, (ours, theirs), strict=True))
    found, missed = {kind: {} for kind in KINDS}, []
    declare_operators_of_torchvision()
    every = list(subjects(only))
    for kind in KINDS:
        for library, subject in every:
            model, of = f"{library} {subject.name}", f"{library} {version(library)}, {subject.inputs}"
            for road in ROADS:
                key = {"model": model, "kind": kind, "road": road, "of": of}
                known = [row for row in kept[road].rows if key.items() <= row.items()]
                if not known and time.monotonic() > until:
                    missed.append(f"{model}, {kind}, {road}")
                    continue
                row = known[-1] if known else measured(work[road], subject, kind)
                if not known:
                    kept[road].add({**key, **row})
                    print(f"{model}, {kind}, {road}: {row.get('refused') or row['bytes']}", file=sys.stderr, flush=True)
                found[kind].setdefault(model, {})[road] = row
    return found, missed


def measured(work, subject, kind):
    try:
        return alone(work, subject, kind, seconds=SECONDS)
    except RuntimeError as error:
        return refused(error)


# -- what is printed and written ---------------------------------------------------------------------------------------


def table(kind, models):
    """A row a model, most bytes beside torch.onnx's first: launches and megabytes of both, and ratios."""
    heads = [
        "launches",
        "bytes moved, MB",
        "rearranged, MB",
        *(f"{HEADS[key].split(',')[0]}, ratio" for key in COMPARED),
    ]
    lines = [f"| {kind} | {' | '.join(heads)} |", "|---" * (1 + len(heads)) + "|"]
    both = {model: pair for model, pair in models.items() if is_whole(pair)}
    for model, pair in sorted(both.items(), key=lambda item: -ratio(item[1], "bytes")):
        mine, other = (pair[road] for road in ROADS)
        cells = [f"{mine['launches']:,} / {other['launches']:,}"]
        cells += [f"{mine[key] / 1e6:,.2f} / {other[key] / 1e6:,.2f}" for key in ("bytes", "rearranged")]
        cells += [f"{ratio(pair, key):.3f}" for key in COMPARED]
        lines.append(f"| {model}{' (dynamo)' * (other['exporter'] == 'dynamo')} | {' | '.join(cells)} |")
    for model, pair in models.items():
        whys = [f"{road}: {cleaned(row['refused'])}" for road, row in pair.items() if "refused" in row]
        if whys:
            lines.append(f"| {model} | {'; '.join(whys)} {'| ' * len(heads)}|")
    return "\n".join(lines)


def is_whole(pair):
    return len(pair) == len(ROADS) and not any("refused" in row for row in pair.values())


def ratio(pair, key):
    return pair["trtdsl"][key] / pair["torch.onnx"][key]


def cleaned(why):
    """An error without paths, colours and the places of this machine."""
    return re.sub(r"\x1b\[\d+m|\S*(?:/site-packages/|model\.onnx)", "", why)


def summary(found):
    """Of each figure the median and the worst ratio, and how many are above the bound."""
    lines = [
        f"| | models | {' | '.join(f'{HEADS[key]}: median, worst, above' for key in COMPARED)} |",
        "|---" * 6 + "|",
    ]
    for kind, models in found.items():
        pairs = [pair for pair in models.values() if is_whole(pair)]
        cells = []
        for key in COMPARED if pairs else ():
            values, bound = [ratio(pair, key) for pair in pairs], 1.02 if key in ("memory", "engine") else 1.0
            above = sum(round(value, 3) > bound for value in values)
            cells.append(f"{statistics.median(values):.3f}, {max(values):.3f}, {above}")
        lines.append(f"| {kind} | {len(pairs)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models whose library and name this pattern finds")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="what is not measured by then is named")
    parser.add_argument("--results", type=Path, help="a file of results: what it has is not measured again")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/benchmarks.md")
    options = parser.parse_args(arguments)
    if options.write and options.only:
        raise SystemExit("only whole tables are written")
    found, missed = rows(options.only, options.results, time.monotonic() + 60 * options.minutes)
    backend = get_backend()
    packages = [
        f"{library} {version(library)}" for library in MAKERS if any(m.startswith(library) for m in found["fp32"])
    ]
    head = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {', '.join(packages)}, "
    head += f"{backend.name} {backend.version}, no GPU needed."
    texts = [head, summary(found), *(table(kind, models) for kind, models in found.items())]
    texts += [f"Not measured: {'; '.join(missed)}."] if missed else []
    print("\n\n".join(texts))
    if options.write:
        write_part(DOCUMENT, *PART, "\n\n".join(texts))


if __name__ == "__main__":
    main()
