"""What `trtdsl build --tune` wins on the networks of the gallery, in how many seconds.

    python tools/bench/tune.py [NAME …] [--seconds N] [--precision fp16] [--naive]

Each network is tuned at the sizes that it is tuned for, and the tuned definition is checked against torch. ``--naive``
begins with the lowerings that a plain port would take: IParametricReLULayer, batch norms as layers. No file is written;
no GPU is needed. Weights that are not in the repository are made by tools/make_weights.py.
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

NAMES = ("stgcn", "stn", "mobilefacenet", "mamba", "vit", "ddrnet", "slowfast", "crnn", "raft_small")
NAIVE = {"prelu": "layer", "batch_norm": "scale"}
HEADS = ("network", "calls", "engines", "seconds", "launches", "bytes moved", "floor, ms", "kept", "check")


def tuned(spec, weights, options, folder):
    report = td.tune(
        spec,
        seconds=options.seconds,
        start=NAIVE if options.naive else None,
        output=Path(folder) / f"{spec.name}.tuning.json",
        weights=weights,
        precision=options.precision,
        device=options.device,
    )
    before, after = report.before, report.after
    kept = "; ".join(
        f"{change.function} ×{change.calls}: {change.before} → {change.after}" for change in report.changes
    )
    check = td.check(spec.tuned(report.tuning), weights=weights, precision=options.precision, sizes="quick")
    left = f", {len(report.untried)} groups untried" if report.untried else ""
    cells = (
        spec.name, f"{report.calls}", f"{report.builds}", f"{report.seconds:.1f}{left}",
        f"{before.launches:,} → {after.launches:,}", f"{before.bytes:,} → {after.bytes:,}",
        f"{before.floor_seconds * 1e3:.3f} → {after.floor_seconds * 1e3:.3f}", kept or "the defaults",
        "equal" if check.passed else "DIFFERS",
    )  # fmt: skip
    print("| " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--precision")
    parser.add_argument("--device", default="rtx-4090")
    parser.add_argument("--naive", action="store_true")
    options = parser.parse_args()
    tool = load_module(ROOT / "tools" / "make_weights.py")
    backend = get_backend()
    print(f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}, ", end="")
    print(f"{backend.name} {backend.version}; floors are estimates for {options.device}.\n")
    print("| " + " | ".join(HEADS) + " |\n|" + "---|" * len(HEADS), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in options.names:
            spec = td.load_spec(str(ROOT / "networks" / f"{name}.py"))
            weights = None if spec.weights and spec.weights.exists() else tool.make(name, Path(folder))
            tuned(spec, weights, options, folder)


if __name__ == "__main__":
    main()
