"""What `td.find_precision` finds for networks of the gallery: SQNR, launches, bytes, floors, and the seconds it takes.

    python tools/bench/precision.py [NAME …] [--budget 40] [--allow fp16,bf16,int8] [--seconds N]

The search is for the first device of DEVICES. The rows "int8" have every product and sum in int8 that may be so, with
float16 around: what the builder makes of quantizing everything, whatever the noise.

The data are two samples of one element each, drawn as a check draws them, since most weights of the gallery are drawn:
figures of SQNR say how the search works, and nothing of trained networks. Programs are those of the sizes that each
network is tuned for. No GPU is needed. Weights that are not in the repository are made by tools/make_weights.py.
"""

import argparse
import os
import platform
import sys
import tempfile
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import trtdsl as td  # noqa: E402
from trtdsl.core.author import load_module  # noqa: E402
from trtdsl.core.backend import get_backend  # noqa: E402
from trtdsl.definition.tuning.precisions import Precisions  # noqa: E402
from trtdsl.programs.devices import floor_of  # noqa: E402

NAMES = ("stgcn", "stn", "mobilefacenet", "mamba", "vit", "ddrnet", "crnn", "yolo", "slowfast", "raft_small")
DEVICES = ("rtx-4090", "h100")
DTYPES = ("int8", "float8_e4m3fn", "int4", "float16", "bfloat16", "float32")
HEADS = (
    *("network", "precision", "SQNR, dB", "launches", "bytes moved"),
    *(f"floor on {device}, ms" for device in DEVICES),
    "calls",
)


def samples(spec):
    """Two samples, of one element where the network has a dimension N."""
    sizes = {name: 1 if name == "N" else dim.opt for name, dim in spec.dims.items()}
    return [td.sample_feeds(spec, sizes, torch.Generator().manual_seed(seed)) for seed in range(2)]


def narrowed(spec, weights):
    """Every call in int8 that may be, the others in float16."""
    sites = spec.define(precision=Precisions({}), weights=weights).policy.calls.sites
    narrow = [site for site in sites if "int8" in site.ways]
    dtypes = {site.key: "int8" if site in narrow else "float16" for site in sites}
    return Precisions(dtypes, {site.key: (0.05,) * (2 if site.key.function == "add" else 1) for site in narrow})


def found(spec, weights, options, folder):
    """The rows of a network."""
    file = Path(folder) / f"{spec.name}.precision.json"
    report = td.find_precision(
        spec,
        data=samples(spec),
        allow=options.allow.split(","),
        budget=options.budget,
        device=DEVICES[0],
        seconds=options.seconds,
        weights=weights,
        output=file,
    )
    (variant,) = report.tuning.variants
    dtypes = [call.lowering for call in variant.calls]
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
        print("| " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--budget", type=float, default=40.0)
    parser.add_argument("--allow", default="fp16,bf16,int8")
    parser.add_argument("--seconds", type=float, default=120.0)
    options = parser.parse_args()
    tool = load_module(ROOT / "tools" / "make_weights.py")
    backend = get_backend()
    print(f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}, ", end="")
    print(f"{backend.name} {backend.version}; floors are estimates; {options.budget:g} dB asked.\n")
    print("| " + " | ".join(HEADS) + " |\n|" + "---|" * len(HEADS), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in options.names:
            spec = td.load_spec(str(ROOT / "networks" / f"{name}.py"))
            weights = None if spec.weights and spec.weights.exists() else tool.make(name, Path(folder))
            found(spec, weights, options, folder)


if __name__ == "__main__":
    main()
