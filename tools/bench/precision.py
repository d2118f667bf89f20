"""What `td.find_precision` finds for networks of the gallery: SQNR, launches, bytes, floor, and the seconds it takes.

    python tools/bench/precision.py [NAME …] [--budget 45] [--allow fp16,int8] [--seconds N] [--device rtx-4090]

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

NAMES = ("stgcn", "vit", "mobilefacenet", "stn")
HEADS = (
    "network",
    "precision",
    "SQNR, dB",
    "launches",
    "bytes moved",
    "floor, ms",
    "calls in int8, float16, bfloat16, float32",
)


def samples(spec):
    """Two samples, of one element where the network has a dimension N."""
    sizes = {name: 1 if name == "N" else dim.opt for name, dim in spec.dims.items()}
    return [td.sample_feeds(spec, sizes, torch.Generator().manual_seed(seed)) for seed in range(2)]


def found(spec, weights, options, folder):
    """The rows of a network."""
    report = td.find_precision(
        spec,
        data=samples(spec),
        allow=options.allow.split(","),
        budget=options.budget,
        device=options.device,
        seconds=options.seconds,
        weights=weights,
        output=Path(folder) / f"{spec.name}.precision.json",
    )
    (variant,) = report.tuning.variants
    dtypes = [call.lowering for call in variant.calls]
    for name, figures in report.figures.items():
        calls = ""
        if name == "found":
            calls = ", ".join(str(dtypes.count(each)) for each in ("int8", "float16", "bfloat16", "float32"))
            name = f"found, in {report.seconds:.0f} s by {report.evaluations} evaluations"
            decibels = report.decibels["found"]
        else:
            decibels = report.decibels[name]
        cells = (
            spec.name, name, ", ".join(f"{value:.1f}" for value in decibels.values()), f"{figures.launches:,}",
            f"{figures.bytes:,}", f"{figures.floor_seconds * 1e3:.3f}", calls,
        )  # fmt: skip
        print("| " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--budget", type=float, default=45.0)
    parser.add_argument("--allow", default="fp16,bf16")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--device", default="rtx-4090")
    options = parser.parse_args()
    tool = load_module(ROOT / "tools" / "make_weights.py")
    backend = get_backend()
    print(f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}, ", end="")
    print(
        f"{backend.name} {backend.version}; floors are estimates for {options.device}; {options.budget:g} dB asked.\n"
    )
    print("| " + " | ".join(HEADS) + " |\n|" + "---|" * len(HEADS), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in options.names:
            spec = td.load_spec(str(ROOT / "networks" / f"{name}.py"))
            weights = None if spec.weights and spec.weights.exists() else tool.make(name, Path(folder))
            found(spec, weights, options, folder)


if __name__ == "__main__":
    main()
