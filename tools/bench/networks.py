"""The networks of the gallery by what the GPU will run: trtdsl by precision, beside both exporters of torch.onnx.

    python tools/bench/networks.py [NAME …] [--only PATTERN] [--device GPU]
    python tools/bench/networks.py --results networks.jsonl --minutes 5    # goes on where it stopped
    python tools/bench/networks.py --results networks.jsonl --write        # writes the tables in docs/benchmarks.md

Every road builds for the sizes that the network is tuned for, and those alone, in a process of its own. "fp16" and
"bf16" are trtdsl's ``precision=``, which runs low what torch.autocast runs low; "all fp16" and "all bf16" have weights
and inputs of that dtype too, as the exporters' ``.half()`` has them, and are what these compare with. "Images channels
last" takes images so (``td.Input(format=)``), which no exporter's file can ask for. No GPU is needed: launches, bytes
and memory are read from the engines' programs (docs/program.md). The limit is what convolutions, products and fused
attention move alone. Weights that are not in the repository are made by tools/make_weights.py.
The dynamo-based exporter needs the package onnxscript.

A row of trtdsl counts for the commit that it was measured on; an exporter's for its version, torch's and TensorRT's,
and for the text of the reference and the sizes.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import os
import platform
import re
import sys
import tempfile
import time
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from measured import Results, alone, versions, write_part  # noqa: E402

import trtdsl as td  # noqa: E402
from trtdsl.core.author import load_module  # noqa: E402
from trtdsl.core.backend import get_backend  # noqa: E402
from trtdsl.core.dtypes import as_dtype  # noqa: E402

DOCUMENT = ROOT / "docs" / "benchmarks.md"
PARTS = {
    part: (f"<!-- {part}: python tools/bench/networks.py --write -->", f"<!-- end of {part} -->")
    for part in ("networks", "half precision")
}
NAMES = (
    "stgcn", "stn", "mobilefacenet", "mamba", "vit", "ddrnet", "slowfast", "crnn", "raft_small", "yolo",
    "yolo:without_suppression",
)  # fmt: skip
EXPORTERS = {"TorchScript": (), "dynamo": ("onnxscript",)}  # and the packages that each needs
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
LAST = "fp32, images channels last"
OURS = ("fp32", LAST, "fp16", "bf16", "all fp16", "all bf16")
HEADS = {
    "definition": "definition, s", "build": "build, s", "launches": "launches", "bytes": "bytes moved",
    "limit": "limit", "rearranged": "rearranged", "memory": "activation memory", "engine": "engine, bytes",
    "floor": "floor, ms",
}  # fmt: skip
COMPARED = ("launches", "bytes", "memory", "engine")
PRODUCTS = ("convolution", "product", "attention")
SECONDS = 90  # of a row; ten times as many by the clock


# -- one row, in a process of its own ----------------------------------------------------------------------------------


def figures(program, definition, device):
    return {
        "definition": round(definition, 2), "build": round(program.build_seconds, 2),
        "launches": program.launch_count, "bytes": program.bytes, "limit": limit(program),
        "rearranged": program.rearranged_bytes,
        "memory": program.memory, "engine": program.engine_bytes,
        "floor": round(td.floor_of(program, device).seconds * 1e3, 3),
    }  # fmt: skip


def limit(program):
    """The bytes that the network would move if everything else were part of its products.

    Those of convolutions, products and fused attention: each reads its operands and residuals once and writes its
    result once, and nothing else is launched.
    """
    return sum(launch.bytes * launch.times for launch in program.launches if launch.kind in PRODUCTS)


def refused(error):
    words = " ".join(str(error).replace(tempfile.gettempdir(), "").replace("|", "/").split())
    return {"refused": f"{type(error).__name__}: {words[:160]}"}


def ours(spec, weights, sizes, kind, device):
    """The figures of trtdsl's engine."""
    precision = None if kind.startswith("fp32") else kind
    try:
        if kind == LAST:
            inputs = {name: dataclasses.replace(given, format="channels_last") for name, given in spec.inputs.items()}
            spec = dataclasses.replace(spec, inputs=inputs, tuning=False)
        if kind.startswith("all "):
            spec, weights, precision = *halved(spec, weights, DTYPES[kind.removeprefix("all ")]), None
        start = time.perf_counter()
        network = spec.define(weights=weights, dims=sizes, profiles=[], precision=precision)
        definition = time.perf_counter() - start
        return figures(td.program(network), definition, device)
    except td.TrtdslError as error:
        return refused(error)


def halved(spec, weights, dtype):
    """The network with inputs and weights of that dtype: what ``.half()`` makes of a module."""
    inputs = {
        name: dataclasses.replace(given, dtype=dtype) if as_dtype(given.dtype).is_floating_point else given
        for name, given in spec.inputs.items()
    }
    opened = spec.open_weights(weights)
    tensors = {name: opened.get(name) for name in opened.shapes}
    low = {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
    return dataclasses.replace(spec, inputs=inputs, reference=None, tuning=False), low


def exported(spec, weights, sizes, exporter, precision, device):
    """The figures of torch's own ONNX of the reference, of its ``.half()`` in half precision, read by the parser."""
    dtype = DTYPES[precision]
    given = td.sample_feeds(spec, sizes, torch.Generator().manual_seed(0))
    feeds = {name: feed.to(dtype) if feed.is_floating_point() else feed for name, feed in given.items()}
    module = spec.reference_module(spec.open_weights(weights)).to(dtype)
    return parsed(module, feeds, exporter, device)


def parsed(module, feeds, exporter, device):
    """The figures of an exporter's ONNX of a module, read by TensorRT's parser."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "model.onnx"
        try:
            start = time.perf_counter()
            torch.onnx.export(
                module,
                tuple(feeds.values()),
                str(path),
                dynamo=exporter == "dynamo",
                input_names=list(feeds),
                verbose=False,
            )
            definition = time.perf_counter() - start
            return figures(td.program(path), definition, device)
        except Exception as error:  # an exporter fails in its own ways
            return refused(error)


# -- all rows, each kept with what it depends on -----------------------------------------------------------------------


class Networks:
    """The networks that are asked for, their weights, and the rows that are known or can be measured."""

    def __init__(self, names, device, results, folder, until):
        self.names, self.device, self.folder, self.until = names, device, folder, until
        self.specs = {name: td.load_spec(str(ROOT / "networks" / file_of(name))) for name in names}
        self.kept = Results(results)
        self.of_exporters = {name: Results(results, maker(name)) for name in EXPORTERS}
        self.missed = []

    def sizes(self, name):
        spec = self.specs[name]
        return (spec.profiles[0] if spec.profiles else td.Profile()).within(spec.dims).at("opt")

    def weights(self, name):
        spec, made = self.specs[name], Path(self.folder) / self.specs[name].weights.name
        if spec.weights.exists():
            return None
        maker = load_module(ROOT / "tools" / "make_weights.py")
        return made if made.exists() else maker.make(made.stem, Path(self.folder))

    def roads(self, name):
        """Every road by its name: where its row is kept, what the row depends on besides, and how it is made."""
        of_images = all(
            len(given.shape) in (4, 5) and given.shape[1] == 3 for given in self.specs[name].inputs.values()
        )
        for kind in OURS:
            if kind == LAST and not of_images:
                continue
            yield f"trtdsl, {kind}", self.kept, "", ours, (kind,)
        for exporter, kept in self.of_exporters.items():
            for precision in DTYPES:
                road = f"torch.onnx, {exporter}, {precision}"
                yield road, kept, self.content(name), exported, (exporter, precision)

    def content(self, name):
        """What an exporter's row depends on: the reference's file and the sizes."""
        spec = self.specs[name]
        text = (spec.file.parent / spec.reference.rpartition(":")[0]).read_text()
        return hashlib.sha256(f"{text}{sorted(self.sizes(name).items())}".encode()).hexdigest()[:16]

    def rows(self, name, only=""):
        """Each road's name and figures; those that cannot be measured in time are noted as missed."""
        for road, kept, content, work, arguments in self.roads(name):
            key = {"network": name, "road": road, "of": content, "device": self.device}
            known = [row for row in kept.rows if key.items() <= row.items()]
            if not known and (time.monotonic() > self.until or not re.search(only, road)):
                self.missed.append(f"{name}: {road}")
                continue
            if not known:
                made = self.measured(name, work, arguments)
                print(f"{name}, {road}: {made.get('refused') or made['bytes']}", file=sys.stderr, flush=True)
                kept.add({**key, **made})
            yield road, known[-1] if known else made

    def measured(self, name, work, arguments):
        weights, sizes = self.weights(name), self.sizes(name)
        try:
            return alone(work, self.specs[name], weights, sizes, *arguments, self.device, seconds=SECONDS)
        except RuntimeError as error:
            return refused(error)


def file_of(name):
    """The file of a network of the gallery, and its name where the file has several: "yolo:part" is yolo.py:part."""
    stem, *part = name.split(":")
    return ":".join([f"{stem}.py", *part])


def maker(exporter):
    """The versions that an exporter's row depends on."""
    found = []
    for package in EXPORTERS[exporter]:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"no {package}")
    return ", ".join([f"torch.onnx, {exporter}", *found, versions()])


# -- what is printed and written ---------------------------------------------------------------------------------------


def table(title, rows):
    lines = [f"| {title} | {' | '.join(HEADS.values())} |", "|---" * (1 + len(HEADS)) + "|"]
    for road, row in rows.items():
        why = re.sub(r"\S*model\.onnx", "the file", row.get("refused", ""))  # not where it was,
        why = re.sub(r"\x1b\[\d+m", "", why)  # nor in colours
        cells = [why, *[""] * (len(HEADS) - 1)] if why else [cell(key, row[key]) for key in HEADS]
        lines.append(f"| {road} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(key, value):
    return f"{value:,}" if isinstance(value, int) else f"{value:.{3 if key == 'floor' else 2}f}"


def beside(rows, kind):
    """Our row of that kind, and of each figure the least of the exporters' in the same precision."""
    mine = rows.get(f"trtdsl, {kind}", {"refused": ""})
    theirs = [rows.get(f"torch.onnx, {exporter}, {kind.removeprefix('all ')}", {}) for exporter in EXPORTERS]
    theirs = [row for row in theirs if row and "refused" not in row]
    return mine, {key: min(row[key] for row in theirs) for key in COMPARED} if theirs else None


def ratios(found, kinds):
    """Our figures divided by the better exporter's, one row for a network and a kind."""
    heads = "launches | bytes moved | activation memory | engine | rearranged, of our bytes | our bytes, of the limit"
    lines = [f"| network | | {heads} |", "|---" * 8 + "|"]
    for name, rows in found.items():
        for kind in kinds:
            mine, theirs = beside(rows, kind)
            if "refused" in mine:
                lines.append(f"| {name} | {kind} | refused | | | | | |")
                continue
            tried = all(f"torch.onnx, {exporter}, {kind.removeprefix('all ')}" in rows for exporter in EXPORTERS)
            none = "no exporter" if tried else "not measured"
            cells = [f"{mine[key] / theirs[key]:.3f}" for key in COMPARED] if theirs else [none, "", "", ""]
            cells += [f"{mine['rearranged'] / mine['bytes']:.1%}", f"{mine['bytes'] / mine['limit']:.2f}"]
            lines.append(f"| {name} | {kind} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--only", default="", help="roads whose names this pattern finds, of those not known")
    parser.add_argument("--device", default="rtx-4090")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="what is not measured by then is named")
    parser.add_argument("--results", type=Path, help="a file of results: what it has is not measured again")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/benchmarks.md")
    options = parser.parse_args(arguments)
    backend = get_backend()
    head = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}, "
    head += f"{backend.name} {backend.version}, no GPU needed; floors are estimates for {options.device}."
    found, texts = {}, []
    with tempfile.TemporaryDirectory() as folder:
        until = time.monotonic() + 60 * options.minutes
        networks = Networks(options.names, options.device, options.results, folder, until)
        for name in options.names:
            found[name] = dict(networks.rows(name, options.only))
            at = ", ".join(f"{key} = {size}" for key, size in networks.sizes(name).items())
            texts.append(table(f"{name}, {at}", found[name]))
            print(f"\n{texts[-1]}", flush=True)
    for kinds in (("fp32",), OURS[-2:]):
        print(f"\n{ratios(found, kinds)}")
    if networks.missed:
        print(f"\nNot measured: {', '.join(networks.missed)}.")
    if options.write:
        if tuple(options.names) != NAMES:
            raise SystemExit("only whole tables are written")
        texts += [f"Not measured: {'; '.join(networks.missed)}."] if networks.missed else []
        write_part(DOCUMENT, *PARTS["networks"], "\n\n".join([head, *texts, ratios(found, ("fp32",))]))
        write_part(DOCUMENT, *PARTS["half precision"], ratios(found, OURS[-2:]))


if __name__ == "__main__":
    main()
