"""Latency on this machine's GPU: networks beside torch, torch.compile and ONNX, and lowerings beside each other.

    python tools/bench/gpu.py [--runs 200] [--networks networks/stgcn.py …]

`python tools/make_weights.py crnn ddrnet slowfast vit yolo` makes the weights that are not in the repository.
Prints markdown tables for docs/benchmarks.md, with device, versions and date. Says why, and exits with code 6, where
there is no GPU.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from functools import partial
from pathlib import Path

import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.compiling.compiler import compile_engine
from trtdsl.compiling.config import BuildConfig
from trtdsl.engine import Engine, cuda
from trtdsl.engine.bench import timed

NETWORKS = Path(__file__).parents[2] / "networks"

EINSUMS = [
    ("nkctv,kvw->nctw", (8, 3, 64, 300, 18), (3, 18, 18)),
    ("bhqd,bhkd->bhqk", (4, 8, 256, 64), (4, 8, 256, 64)),
    ("bij,bjk->bik", (1024, 4, 4), (1024, 4, 4)),
    ("bld,dn->bldn", (4, 256, 64), (64, 16)),
]
SAMPLES = [(1, 64, 64, 64), (8, 32, 128, 128)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--networks", nargs="*", default=sorted(map(str, NETWORKS.glob("*.py"))))
    options = parser.parse_args()
    try:
        cuda.require_device()
    except td.BackendError as error:
        print(f"nothing measured: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    backend = td.Network().backend
    print(
        f"{cuda.device_name(0)}, {backend.name} {backend.version}, torch {torch.__version__}, {datetime.date.today()}\n"
    )
    networks(options.networks, options.runs)
    einsums(options.runs)
    samples(options.runs)


def networks(names: list[str], runs: int) -> None:
    print("| network | what | first run, ms | median, ms | p99, ms | variation |\n|---|---|---|---|---|---|")
    against = ["torch", "compile", "onnx"] if torch.cuda.is_available() else ["onnx"]
    for name in names:
        for graphs in (False, True):
            try:
                report = td.bench(name, runs=runs, against=[] if graphs else against, tf32=False, graphs=graphs)
            except td.TrtdslError as error:
                print(f"| {Path(name).stem} | failed: {str(error).splitlines()[0]} | | | | |")
                continue
            for times in report.times:
                label = "engine, CUDA graph" if graphs else times.name
                row = (f"{times.first:.2f}", f"{times.median:.3f}", f"{times.p99:.3f}", f"{times.variation:.1%}")
                print(f"| {report.name} {report.dims or ''} | {label} | {' | '.join(row)} |")
    print()


def engine_time(define, shapes, runs: int) -> float:
    """The median in milliseconds of a network of one function, inputs on the GPU."""
    net = td.Network()
    inputs = [net.input(f"x{index}", shape) for index, shape in enumerate(shapes)]
    net.output(define(*inputs), "y")
    engine = Engine(compile_engine(net, BuildConfig(tf32=False)).data, backend=net.backend)
    bound = engine.capture(
        {f"x{i}": torch.rand(s) * 2 - 1 for i, s in enumerate(shapes)}, outputs="device", graph=False
    )
    return timed("engine", lambda: (bound.launch, bound.stream), runs, 20).median


def torch_time(function, shapes, runs: int) -> str:
    """The median of torch eager, where this torch has CUDA."""
    if not torch.cuda.is_available():
        return "no CUDA"
    inputs = [torch.rand(shape, device="cuda") * 2 - 1 for shape in shapes]
    stream = torch.cuda.current_stream().cuda_stream
    return f"{timed('torch', lambda: (lambda: function(*inputs), stream), runs, 20).median:.3f}"


def einsums(runs: int) -> None:
    print("| einsum | planned, ms | IEinsum, ms | broadcast, ms | torch, ms |\n|---|---|---|---|---|")
    for equation, *shapes in EINSUMS:
        row = []
        for lowering in ("matmul", "native", "broadcast"):
            define = partial(F.einsum, equation, lowering=lowering)
            row.append(f"{engine_time(define, shapes, runs):.3f}")
        row.append(torch_time(partial(torch.einsum, equation), shapes, runs))
        print(f"| `{equation}` {' × '.join(map(str, shapes))} | {' | '.join(row)} |")
    print()


def samples(runs: int) -> None:
    print("| grid_sample | gather, ms | native, ms | torch, ms |\n|---|---|---|---|")
    for n, c, h, w in SAMPLES:
        shapes = [(n, c, h, w), (n, h, w, 2)]
        row = []
        for how in ("gather", "native"):
            define = lambda x, g, how=how: F.grid_sample(x, g, align_corners=False, lowering=how)  # noqa: E731
            row.append(f"{engine_time(define, shapes, runs):.3f}")
        reference = lambda x, g: torch.nn.functional.grid_sample(x, g, align_corners=False)  # noqa: E731
        row.append(torch_time(reference, shapes, runs))
        print(f"| {n} × {c} × {h} × {w} | {' | '.join(row)} |")


if __name__ == "__main__":
    main()
