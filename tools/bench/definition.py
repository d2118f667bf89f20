"""ST-GCN from weights file to network, beside torch -> ONNX -> parser; and the interpreter beside torch.

    python tools/bench/definition.py

Everything in one run, medians of several; peak memory of interpreter and torch in processes of their own.
"""

import gc
import io
import os
import platform
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path

import torch

import trtdsl as td
from trtdsl.engine.compiling.compiler import compile_engine
from trtdsl.programs.plan import read_plan
from trtdsl.programs.reader import Given, make_program

ROOT = Path(__file__).resolve().parents[2]
NETWORK = str(ROOT / "networks" / "stgcn.py")
SIZE = {"N": 1}


def seconds(function):
    gc.collect()  # what earlier runs left is not this one's
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def side_by_side(ours, theirs, runs):
    """Medians of runs that take turns, so that a machine that changes its speed changes both."""
    gc.collect()
    gc.freeze()  # collecting what a run left would walk all that was imported, and leave the caches cold for the next
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(runs)]
    return [statistics.median(times) for times in zip(*pairs, strict=True)]


def feeds(spec):
    return td.sample_feeds(spec, SIZE, torch.Generator().manual_seed(0))


def onnx_route(module, x, backend):
    """Exported by torch's TorchScript-based exporter, read by the backend's own parser."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, (x,), buffer, dynamo=False, opset_version=17, input_names=["x"], output_names=["logits"]
        )
    definition = backend.create_network()
    parser = backend.trt.OnnxParser(definition, backend.logger)
    if not parser.parse(buffer.getvalue()):
        raise SystemExit("the parser refuses the model")
    return definition


def engine_of(definition, backend):
    """Engine bytes and activation memory with the backend's default configuration."""
    network = td.Network("parsed", backend=backend)
    network.definition = definition
    network.outputs = {"logits": None}
    return compile_engine(network)


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
    return statistics.median(seconds(run) for _ in range(9))


def main():
    spec = td.load_spec(NETWORK)
    backend = td.Network().backend
    module = spec.reference_module(spec.open_weights())
    x = feeds(spec)
    spec.define(dims=SIZE)  # imports and caches
    onnx_route(module, *x.values(), backend)

    ours, theirs = side_by_side(
        lambda: spec.define(dims=SIZE), lambda: onnx_route(module, *x.values(), backend), runs=11
    )
    network, parsed = spec.define(dims=SIZE), onnx_route(module, *x.values(), backend)
    our_plan, their_plan = compile_engine(network), engine_of(parsed, backend)

    interpreter = td.Interpreter(network)
    with torch.inference_mode():
        expected = module(*x.values())
        got = interpreter(x)["logits"]
        mine, eager = side_by_side(lambda: interpreter(x), lambda: module(*x.values()), runs=9)
    error = float((got - expected).abs().max() / expected.abs().max())
    memory, torch_memory = peak("interpreter"), peak("torch")

    python = Path(sys.executable)
    rows = [
        ("weights file (or module) to network", f"{ours:.3f} s", f"{theirs:.3f} s", f"1/{theirs / ours:.1f}"),
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
