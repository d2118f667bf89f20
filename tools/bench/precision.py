"""What `td.find_precision` finds for networks of the gallery: SQNR, launches, bytes, floors, and the seconds it takes.

    python tools/bench/precision.py [NAME …] [--budget 40] [--allow fp16,int8] [--seconds N] [--write]
    python tools/bench/precision.py [NAME …] --bounds

The search is for the first device of DEVICES. The rows "int8" have every product in int8 that may be so, by one scale a
tensor, with float16 around: what the builder makes of quantizing everything, whatever the noise. ``--bounds`` says
instead what int8 could win at the most, by what builders do (docs/cookbook/int8.md), whatever the noise.

The data are two samples of one element each (SMALL has sizes), drawn as a check draws them, as most weights are drawn:
figures of SQNR say how the search works, and nothing of trained networks. Programs are those of the sizes that each
network is tuned for. No GPU is needed. Weights that are not in the repository are made by tools/make_weights.py.
"""

import argparse
import os
import platform
import sys
import tempfile
from collections import Counter
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from measured import write_part  # noqa: E402

import trtdsl as td  # noqa: E402
from trtdsl.core.author import load_module  # noqa: E402
from trtdsl.core.backend import get_backend  # noqa: E402
from trtdsl.definition.tuning.precisions import PER_TENSOR, Precisions  # noqa: E402
from trtdsl.programs.devices import find_device, floor_of  # noqa: E402

NAMES = ("stgcn", "stn", "mobilefacenet", "mamba", "vit", "ddrnet", "crnn", "yolo", "slowfast", "raft_small")
SMALL = {"slowfast": {"T": 16, "H": 112, "W": 112}, "raft_small": {"H8": 16, "W8": 16}}
PART = "<!-- precision: python tools/bench/precision.py --write -->", "<!-- end of precision -->"
DEVICES = ("rtx-4090", "h100")
DTYPES = ("int8", "int8_per_tensor", "float8_e4m3fn", "int4", "float16", "bfloat16", "float32")
BOUNDS = (
    *("network", "device", "fp16, ms", "launches alone", "rounding for nothing", "rounding where it pays"),
    *("bytes where it pays", "the bytes"),
)
HEADS = (
    *("network", "precision", "SQNR, dB", "launches", "bytes moved"),
    *(f"floor on {device}, ms" for device in DEVICES),
    "calls",
)


def samples(spec, given):
    """Two samples, of one element where the network has a dimension N, and of the sizes that are given."""
    sizes = {name: 1 if name == "N" else given.get(name, dim.opt) for name, dim in spec.dims.items()}
    return [td.sample_feeds(spec, sizes, torch.Generator().manual_seed(seed)) for seed in range(2)]


def narrowed(spec, weights):
    """Every product in int8 that may be, the other calls in float16."""
    sites = spec.define(precision=Precisions({}), weights=weights).policy.calls.sites
    narrow = [site for site in sites if PER_TENSOR in site.ways]
    dtypes = {site.key: PER_TENSOR if site in narrow else "float16" for site in sites}
    return Precisions(dtypes, {site.key: (0.05,) for site in narrow})


def bounds(spec, weights):
    """The rows of what int8 could win at the most: parts of fp16's floor and bytes that are left.

    A launch takes the least time of a launch whatever its dtype. Those that float32's program does not have, such as
    casts, are left out, the greatest of their kind. A product reads int8 and writes float16, a linear one perhaps int8.
    Its operand is rounded once for all that take it: for nothing where no product and no attention writes it, or else
    by a launch that reads float16. The better of autocast's choices and every call in float16.
    """
    sites = spec.define(precision=Precisions({}), weights=weights).policy.calls.sites
    whole = Precisions({site.key: "float16" for site in sites if "float16" in site.ways})
    *programs, plain = (td.program(spec.define(precision=each, weights=weights)) for each in ("fp16", whole, None))
    for name in DEVICES:
        device, fp16 = find_device(name), floor_of(programs[0], name).seconds
        least = min(program.launch_count for program in (*programs, plain)) * device.overhead
        left = [_left(program, plain, device) for program in programs]
        parts = [least / fp16, *(min(each[i] for each in left) / fp16 for i in range(2))]
        parts.append(min(each[2] for each in left) / programs[0].bytes)
        cells = (spec.name, name, f"{fp16 * 1e3:.3f}", *(f"{part:.2f}" for part in parts))
        print("| " + " | ".join(cells) + f" | {min(each[2] for each in left):,.0f} |", flush=True)


def _besides(program, plain, device):
    """The seconds of launches that float32's program has fewer of, less those of which it has more."""
    seconds = 0.0
    each, fewer = (Counter() for _ in range(2))
    for launch, now in zip(program.launches, floor_of(program, device).launches, strict=True):
        each[launch.kind, now / launch.times] += launch.times
        fewer[launch.kind] += launch.times
    for launch in plain.launches:
        fewer[launch.kind] -= launch.times
    for (kind, now), times in sorted(each.items(), key=lambda item: -item[0][1]):
        left_out = min(times, max(fewer[kind], 0))
        seconds += left_out * now
        fewer[kind] -= left_out
    return max(seconds + sum(fewer.values()) * device.overhead, 0.0)


def _left(program, plain, device):
    """Of a program in float16: the least seconds with rounding for nothing, and where it pays; the least bytes."""
    floor, graph = floor_of(program, device), program.graph
    wins = {}
    for launch, now in zip(program.launches, floor.launches, strict=True):
        constant = [program.tensors[operand.tensor].constant for operand in launch.reads[:2]]
        if launch.kind not in ("convolution", "product") or sum(constant) != 1:
            continue
        taken = launch.reads[constant.index(False)]
        saved, made = sum(operand.bytes for operand in launch.reads[:2]) / 2, launch.writes[0].bytes
        readers = {reader.kind for reader in graph.consumers(launch)}
        if launch.kind == "product" and {*launch.epilogue} <= {"relu"}:
            saved += made / 2  # it may write int8 itself
        elif launch.kind == "product" and not readers.isdisjoint(("product", "attention")):
            saved -= 2 * made  # a launch of its own adds the bias
        moved = launch.bytes - max(saved, 0)
        low = max(moved / device.bandwidth, (launch.flops or 0) / device.int8, device.overhead) * launch.times
        writers = [program.launches[index].kind for index in graph.writers.get(taken.tensor, ())]
        apart = any(kind in ("convolution", "product", "attention") for kind in writers)
        rounding = 1.5 * taken.bytes if apart else -0.5 * taken.bytes
        seconds = max(rounding / device.bandwidth, device.overhead) * apart
        each = wins.setdefault(taken.tensor, [seconds, rounding, [], []])
        each[2].append(max(now - low, 0.0))
        each[3].append(max(saved, 0) * launch.times)
    free = sum(sum(each[2]) for each in wins.values())
    pays = sum(max(sum(each[2]) - each[0], 0.0) for each in wins.values())
    fewer = sum(max(sum(each[3]) - each[1], 0) for each in wins.values())
    besides = _besides(program, plain, device)
    return floor.seconds - besides - free, floor.seconds - besides - pays, program.bytes - fewer


def found(spec, weights, options, folder):
    """Prints and gives the rows of a network."""
    rows = []
    file = Path(folder) / f"{spec.name}.precision.json"
    report = td.find_precision(
        spec,
        data=samples(spec, SMALL.get(spec.name, {})),
        allow=options.allow.split(","),
        budget=options.budget,
        device=DEVICES[0],
        seconds=options.seconds,
        weights=weights,
        output=file,
    )
    (variant,) = report.tuning.variants
    dtypes = [call.way for call in variant.calls]
    calls = ", ".join(f"{dtypes.count(each)} {each}" for each in DTYPES if each in dtypes)
    took = f"found, in {report.seconds:.0f} s by {report.evaluations} evaluations"
    for name, label, precision in (
        ("fp32", "fp32", None),
        ("fp16", "fp16", "fp16"),
        ("found", took, str(file)),
        ("int8", "int8", narrowed(spec, weights)),
    ):
        try:
            program = td.program(spec.define(precision=precision, weights=weights))
            cost = [f"{program.launch_count:,}", f"{program.bytes:,}"]
            cost += [f"{floor_of(program, device).seconds * 1e3:.3f}" for device in DEVICES]
        except td.TrtdslError as error:
            cost = [" ".join(str(error).split())[:90], *[""] * (1 + len(DEVICES))]
        decibels = ", ".join(f"{value:.1f}" for value in report.decibels.get(name, {}).values())
        cells = (spec.name, label, decibels, *cost, calls if name == "found" else "")
        rows.append("| " + " | ".join(cells) + " |")
        print(rows[-1], flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--budget", type=float, default=40.0)
    parser.add_argument("--allow", default="fp16,int8")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--bounds", action="store_true")
    parser.add_argument("--write", action="store_true", help="write the table into docs/benchmarks.md")
    options = parser.parse_args()
    tool = load_module(ROOT / "tools" / "make_weights.py")
    backend = get_backend()
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    asked = f"{options.budget:g} dB asked in {options.seconds:g} s, of {options.allow}, for the {DEVICES[0]}"
    text = f"{machine}, torch {torch.__version__}, {backend.name} {backend.version}; floors are estimates; {asked}."
    heads = BOUNDS if options.bounds else HEADS
    rows = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    print(text, "", *rows, sep="\n", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in options.names:
            spec = td.load_spec(str(ROOT / "networks" / f"{name}.py"))
            weights = None if spec.weights and spec.weights.exists() else tool.make(name, Path(folder))
            if options.bounds:
                bounds(spec, weights)
            else:
                rows += found(spec, weights, options, folder)
    if options.write and not options.bounds:
        write_part(ROOT / "docs" / "benchmarks.md", *PART, "\n".join([text, "", *rows]))


if __name__ == "__main__":
    main()
