"""ST-GCN from weights file to network, beside torch -> ONNX -> parser; and the interpreter beside torch.

    python tools/bench/definition.py

Everything in one run, medians of several; peak memory of interpreter and torch in processes of their own. torch's
default exporter, the dynamo-based one, needs the package onnxscript.
"""

import gc
import importlib.util
import io
import os
import platform
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import torch

import trtdsl as td
from trtdsl.engine.compiling.compiler import compile_definition, compile_engine
from trtdsl.programs.plan import read_plan
from trtdsl.programs.reader import Given, make_program

ROOT = Path(__file__).resolve().parents[2]
NETWORK = str(ROOT / "networks" / "stgcn.py")
SIZE = {"N": 1}


class Seconds(NamedTuple):
    clock: float
    processor: float


def seconds(function):
    gc.collect()  # what earlier runs left is not this one's
    clock, processor = time.perf_counter(), time.process_time()
    function()
    return Seconds(time.perf_counter() - clock, time.process_time() - processor)


def side_by_side(*routes, runs):
    """Medians of runs that take turns, so that a machine that changes its speed changes all."""
    gc.collect()
    gc.freeze()  # collecting what a run left would walk all that was imported, and leave the caches cold for the next
    turns = [[seconds(route) for route in routes] for _ in range(runs)]
    return [Seconds(*map(statistics.median, zip(*times, strict=True))) for times in zip(*turns, strict=True)]


def feeds(spec):
    return td.sample_feeds(spec, SIZE, torch.Generator().manual_seed(0))


def onnx_route(module, x, backend, **exporter):
    """Exported by torch, by default or by its TorchScript-based exporter, and read by the backend's own parser."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (x,), buffer, input_names=["x"], output_names=["logits"], verbose=False, **exporter)
    definition = backend.create_network()
    parser = backend.trt.OnnxParser(definition, backend.logger)
    if not parser.parse(buffer.getvalue()):
        raise SystemExit("the parser refuses the model")
    return definition


def engine_of(definition, backend):
    """Engine bytes and activation memory with the backend's default configuration."""
    plan, messages = compile_definition(definition, backend)
    if plan is None:
        raise SystemExit(f"the parsed model does not build: {messages.summary()}")
    return plan


def definition_rows(ours, torchscript, dynamo):
    """From a weights file, or a module in memory, to a network: by the clock, and the time of all processors."""
    roads = {"weights file (or module) to network": (torchscript, 11)}
    if importlib.util.find_spec("onnxscript"):
        roads["the same, torch's default exporter (dynamo)"] = (dynamo, 3)
    for name, (road, runs) in roads.items():
        mine, theirs = side_by_side(ours, road, runs=runs)
        for what, own, other in zip((name, "the same, processor time"), mine, theirs, strict=True):
            yield what, f"{own:.3f} s", f"{other:.3f} s", f"1/{other / own:.1f}"


def program_rows(ours, theirs, backend):
    """Launches and bytes of both engines' programs."""
    programs = [
        make_program(read_plan(plan.data, backend.name, backend.version).of_profile(0), Given({}))
        for plan in (ours, theirs)
    ]
    for name, values in (
        ("launches", [program.launch_count for program in programs]),
        ("bytes moved", [program.bytes for program in programs]),
        ("of them only rearranged", [program.rearranged_bytes for program in programs]),
    ):
        yield name, f"{values[0]:,}", f"{values[1]:,}", f"{values[0] / values[1]:.3f}"


def peak(mode):
    """Peak resident memory of what the run itself adds: the median of processes of their own."""
    command = [sys.executable, __file__, "--peak", mode]
    runs = [subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(7)]
    return int(statistics.median(map(int, runs)))


def run_peak(mode):
    spec = td.load_spec(NETWORK)
    x = feeds(spec)
    module = spec.reference_module(spec.open_weights())
    interpreter = td.Interpreter(spec.define(dims=SIZE))
    run = (lambda: interpreter(x)) if mode == "interpreter" else (lambda: module(*x.values()))
    with torch.inference_mode():
        run()  # the kernels' own set-up is not the run's
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew from here
        before = status("VmRSS")
        run()
    print(status("VmHWM") - before)


def status(field):
    """A field of /proc/self/status in KiB."""
    lines = Path("/proc/self/status").read_text().split("\n")
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def startup(code):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    run = lambda: subprocess.run([sys.executable, *code], check=True, capture_output=True, env=environment)  # noqa: E731
    run()  # writes the bytecode that an installed package has
    return statistics.median(seconds(run).clock for _ in range(9))


def main():
    spec = td.load_spec(NETWORK)
    backend = td.Network().backend
    module = spec.reference_module(spec.open_weights())
    x = feeds(spec)

    def ours():
        return spec.define(dims=SIZE)

    def theirs(**exporter):
        return onnx_route(module, *x.values(), backend, **(exporter or {"dynamo": False, "opset_version": 17}))

    network, parsed = ours(), theirs()  # imports and caches
    definitions = list(definition_rows(ours, theirs, lambda: theirs(dynamo=True)))
    our_plan, their_plan = compile_engine(network), engine_of(parsed, backend)

    interpreter = td.Interpreter(network)
    with torch.inference_mode():
        expected = module(*x.values())
        got = interpreter(x)["logits"]
        mine, eager = (each.clock for each in side_by_side(lambda: interpreter(x), lambda: module(*x.values()), runs=9))
    error = float((got - expected).abs().max() / expected.abs().max())
    memory, torch_memory = peak("interpreter"), peak("torch")

    python = Path(sys.executable)
    rows = [
        *definitions,
        *program_rows(our_plan, their_plan, backend),
        (
            "activation memory, bytes",
            f"{our_plan.statistics.activation_memory:,}",
            f"{their_plan.statistics.activation_memory:,}",
            f"{our_plan.statistics.activation_memory / their_plan.statistics.activation_memory:.3f}",
        ),
        (
            "engine, bytes",
            f"{len(our_plan.data):,}",
            f"{len(their_plan.data):,}",
            f"{len(our_plan.data) / len(their_plan.data):.4f}",
        ),
        ("build", f"{our_plan.statistics.seconds:.2f} s", f"{their_plan.statistics.seconds:.2f} s", ""),
    ]
    print(
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, ",
        end="",
    )
    print(f"torch {torch.__version__}, {backend.name} {backend.version}\n")
    print("| ST-GCN at (1, 3, 300, 18, 2) | trtdsl | torch.onnx.export and OnnxParser | ratio |\n|---|---|---|---|")
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")
    print("\n| | trtdsl | torch eager | ratio |\n|---|---|---|---|")
    print(f"| interpreted, one run | {mine * 1e3:.0f} ms | {eager * 1e3:.0f} ms | {mine / eager:.2f} |")
    ratio = memory / torch_memory
    print(f"| peak memory added by a run | {memory >> 10} MiB | {torch_memory >> 10} MiB | {ratio:.2f} |")
    print(f"| greatest error, relative to the output's scale | {error:.1e} | | |")
    bare = startup(["-c", "pass"])
    print("\n| start-up (a bare interpreter's subtracted) | seconds |\n|---|---|")
    print(f"| `import trtdsl` | {startup(['-c', 'import trtdsl']) - bare:.2f} |")
    print(f"| `trtdsl --help` | {startup([str(python.parent / 'trtdsl'), '--help']) - bare:.2f} |")


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "--peak":
        run_peak(sys.argv[2])
    else:
        main()
