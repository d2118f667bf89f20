"""The networks of the gallery by what the GPU will run: trtdsl by precision, beside both exporters of torch.onnx.

    python tools/bench/networks.py [NAME …] [--device GPU] [--exporters TorchScript dynamo]

Every road builds for the sizes that the network is tuned for, and those alone. "fp16" and "bf16" are trtdsl's
``precision=``, which runs low what torch.autocast runs low; "all fp16" and "all bf16" have weights and inputs of that
dtype too, as the exporters' ``.half()`` has them, and are what these compare with. No GPU is needed: launches, bytes
and memory are read from the engines' programs (docs/program.md). Weights that are not in the repository are made by
tools/make_weights.py. The dynamo-based exporter needs the package onnxscript; without it its rows say so.
"""

import argparse
import dataclasses
import os
import platform
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import trtdsl as td  # noqa: E402
from trtdsl.core.author import load_module  # noqa: E402
from trtdsl.core.backend import get_backend  # noqa: E402
from trtdsl.core.dtypes import as_dtype  # noqa: E402

NAMES = ("stgcn", "stn", "mobilefacenet", "mamba", "vit", "ddrnet", "slowfast", "crnn", "raft_small")
EXPORTERS = ("TorchScript", "dynamo")
DTYPES = {None: torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
HEADS = (
    "road", "definition, s", "build, s", "launches", "bytes moved", "rearranged", "activation memory", "engine, bytes",
    "floor, ms",
)  # fmt: skip


def row(road, program, definition, device):
    floor = td.floor_of(program, device).seconds * 1e3
    cells = [
        road, f"{definition:.2f}", f"{program.build_seconds:.2f}", f"{program.launch_count:,}", f"{program.bytes:,}",
        f"{program.rearranged_bytes:,}", f"{program.memory:,}", f"{program.engine_bytes:,}", f"{floor:.3f}",
    ]  # fmt: skip
    print("| " + " | ".join(cells) + " |", flush=True)


def refused(road, error):
    words = " ".join(str(error).replace(tempfile.gettempdir(), "").split())
    print(f"| {road} | {type(error).__name__}: {words[:160]} |" + " |" * (len(HEADS) - 2), flush=True)


def ours(spec, weights, sizes, precision, device, whole=False):
    road = f"trtdsl, {'all ' if whole else ''}{precision or 'fp32'}"
    try:
        if whole:
            spec, weights, precision = halved(spec, weights, DTYPES[precision])
        start = time.perf_counter()
        network = spec.define(weights=weights, dims=sizes, profiles=[], precision=precision)
        definition = time.perf_counter() - start
        row(road, td.program(network), definition, device)
    except td.TrtdslError as error:
        refused(road, error)


def halved(spec, weights, dtype):
    """The network with inputs and weights of that dtype: what ``.half()`` makes of a module."""
    inputs = {
        name: dataclasses.replace(given, dtype=dtype) if as_dtype(given.dtype).is_floating_point else given
        for name, given in spec.inputs.items()
    }
    opened = spec.open_weights(weights)
    tensors = {name: opened.get(name) for name in opened.shapes}
    low = {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
    return dataclasses.replace(spec, inputs=inputs, reference=None, tuning=False), low, None


def exported(spec, weights, sizes, exporter, precision, device):
    """torch's own ONNX of the reference, in half precision of its ``.half()``, read by TensorRT's parser."""
    road = f"torch.onnx, {exporter}, {precision or 'fp32'}"
    dtype = DTYPES[precision]
    module = spec.reference_module(spec.open_weights(weights)).to(dtype)
    given = td.sample_feeds(spec, sizes, torch.Generator().manual_seed(0))
    feeds = {name: feed.to(dtype) if feed.is_floating_point() else feed for name, feed in given.items()}
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
            row(road, td.program(path), definition, device)
        except Exception as error:  # an exporter fails in its own ways
            refused(road, error)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--device", default="rtx-4090")
    parser.add_argument("--exporters", nargs="*", choices=EXPORTERS, default=EXPORTERS)
    options = parser.parse_args()
    tool = load_module(ROOT / "tools" / "make_weights.py")
    backend = get_backend()
    print(f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}, ", end="")
    print(f"{backend.name} {backend.version}, no GPU needed; floors are estimates for {options.device}.")
    with tempfile.TemporaryDirectory() as folder:
        for name in options.names:
            spec = td.load_spec(str(ROOT / "networks" / f"{name}.py"))
            weights = None if spec.weights and spec.weights.exists() else tool.make(name, Path(folder))
            sizes = (spec.profiles[0] if spec.profiles else td.Profile()).within(spec.dims).at("opt")
            at = ", ".join(f"{key} = {size}" for key, size in sizes.items())
            print(f"\n| {name}, {at} | " + " | ".join(HEADS[1:]) + " |\n|" + "---|" * len(HEADS), flush=True)
            for precision in (None, "fp16", "bf16"):
                ours(spec, weights, sizes, precision, options.device)
            for precision in ("fp16", "bf16"):
                ours(spec, weights, sizes, precision, options.device, whole=True)
            for exporter in options.exporters:
                for precision in (None, "fp16", "bf16"):
                    exported(spec, weights, sizes, exporter, precision, options.device)


if __name__ == "__main__":
    main()
