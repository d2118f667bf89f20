"""F.einsum as planned, by TensorRT's layer and multiplied out: what the GPU would run of each, and latencies on one.

    python tools/bench/einsum.py

Activation memory is the builder's figure for the profile's maximum; launches and bytes are those of the engine's
program at its optimum, and FLOPs those of the equation's plan.
On a machine with a GPU (and a torch that uses it) each engine is run at the optimum, beside torch.einsum and
torch.compile.
"""

import os
import platform
import statistics
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tools" / "bench")]

from compared import by_einsum_layer, multiplied_out  # noqa: E402

import trtdsl as td  # noqa: E402
import trtdsl.functional as F  # noqa: E402
from trtdsl.engine.compiling.compiler import compile_engine  # noqa: E402
from trtdsl.engine.program import program_of_plan  # noqa: E402

LOWERINGS = ("matmul", "native", "broadcast")
N, B = td.Dim("N", min=1, opt=8, max=16), td.Dim("B", min=1, opt=4, max=8)
P = td.Dim("P", min=1, opt=20_000, max=100_000)

# What it is, the equation, the operands' shapes, and which of them are constants.
ROWS = [
    ("channels", "nctw,cd->ndtw", [(N, 64, 300, 18), (64, 128)], (1,)),
    ("ST-GCN", "nkctv,kvw->nctw", [(N, 3, 64, 300, 18), (3, 18, 18)], (1,)),
    ("ST-GCN, by channel", "nkctv,kcvw->nctw", [(N, 3, 64, 300, 18), (3, 64, 18, 18)], (1,)),
    ("matching", "bhnm,bdhm->bdhn", [(B, 4, 1024, 1024), (B, 64, 4, 1024)], ()),
    ("Mamba, decay", "b l d_in, d_in n -> b l d_in n", [(B, 512, 1536), (1536, 16)], (1,)),
    ("Mamba, read-out", "b d_in n, b n -> b d_in", [(B, 1536, 16), (B, 16)], ()),
    ("Mamba, input", "b l d_in, b l n, b l d_in -> b l d_in n", [(B, 512, 1536), (B, 512, 16), (B, 512, 1536)], ()),
    ("attention, scores", "bqhd,bkhd->bhqk", [(B, 512, 8, 64), (B, 512, 8, 64)], ()),
    ("attention, values", "bhqk,bkhd->bqhd", [(B, 8, 512, 512), (B, 512, 8, 64)], ()),
    ("bilinear", "bi,oij,bj->bo", [(B, 128), (256, 128, 128), (B, 128)], (1,)),
    ("tensor train", "ai,ibj,jck,kd->abcd", [(16, 16), (16, 64, 16), (16, 64, 16), (16, 16)], ()),
    ("tensor ring", "bxy,xiu,yju,bij->b", [(B, 32, 32), (32, 48, 24), (32, 48, 24), (B, 48, 48)], (1, 2)),
    ("rotations", "pij,pjk->pik", [(P, 3, 3), (P, 3, 3)], ()),
]


def at_opt(shape):
    return tuple(size if isinstance(size, int) else size.opt for size in shape)


def define(equation, shapes, constants, lowering):
    torch.manual_seed(0)
    net = td.Network()
    operands = [
        net.constant(torch.randn(shape)) if index in constants else net.input(f"x{index}", shape)
        for index, shape in enumerate(shapes)
    ]
    with net.current():
        made = {"matmul": F.einsum, "native": by_einsum_layer, "broadcast": multiplied_out}[lowering]
        net.output(made(equation, *operands), "y")
    return net


def microseconds(run):
    """The median time of a run on the GPU."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times = []
    for round_ in range(60):
        start.record()
        run()
        end.record()
        end.synchronize()
        if round_ >= 10:
            times.append(start.elapsed_time(end) * 1e3)
    return statistics.median(times)


def torch_latencies(equation, shapes):
    operands = [torch.randn(at_opt(shape), device="cuda") for shape in shapes]
    letters = equation.replace("d_in", "d")
    compiled = torch.compile(lambda *x: torch.einsum(letters, *x))
    return [microseconds(lambda: torch.einsum(letters, *operands)), microseconds(lambda: compiled(*operands))]


def engine_latency(plan, net):
    from trtdsl.engine.engine import Engine

    engine = Engine(plan.data, backend=net.backend)
    feeds = {name: torch.randn(at_opt(tensor.shape), device="cuda") for name, tensor in net.inputs.items()}
    return microseconds(lambda: engine.run(feeds, outputs="cuda"))


def measure(equation, shapes, constants, lowering):
    """Launches, bytes, rearranged bytes, activation memory, engine bytes, seconds to build; on a GPU the latency.

    None where it cannot be.
    """
    try:
        net = define(equation, shapes, constants, lowering)
        plan = compile_engine(net)
    except td.TrtdslError:
        return None
    memory, seconds = plan.statistics.activation_memory, plan.statistics.seconds
    latency = [engine_latency(plan, net)] if torch.cuda.is_available() else []
    program = program_of_plan(plan, net)
    moved = [program.launch_count, program.bytes, program.rearranged_bytes]
    return [*moved, memory, len(plan.data), seconds, *latency]


def cell(value):
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"


def main():
    gpu = torch.cuda.is_available()
    backend = td.Network().backend
    print(f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {backend.name} {backend.version}", end="")
    print(f", {torch.cuda.get_device_name()}" if gpu else ", no GPU", end=".\n\n")
    heads = [
        "",
        "equation",
        "lowering",
        "launches",
        "bytes moved",
        "rearranged",
        "activation memory",
        "engine, bytes",
        "build, s",
        "FLOPs",
    ]
    heads += ["latency, µs"] if gpu else []
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
    measure(*ROWS[0][1:], "matmul")  # the builder's own set-up is no row's
    kept = []
    for name, equation, shapes, constants in ROWS:
        costs = td.explain_einsum(equation, *shapes, constants=constants).to_json()
        work = {"matmul": costs, "broadcast": costs["naive"]}
        memory = {}
        for lowering in LOWERINGS:
            values = measure(equation, shapes, constants, lowering)
            memory[lowering] = values and values[3]
            row = [*(values or [None] * (7 if gpu else 6))]
            row[6:6] = [work.get(lowering, {}).get("flops")]
            print(f"| {name} | `{equation}` | {lowering} | " + " | ".join(map(cell, row)) + " |", flush=True)
        if gpu:
            for how, latency in zip(("torch.einsum", "torch.compile"), torch_latencies(equation, shapes), strict=True):
                print(f"| {name} | `{equation}` | {how} | " + "| - " * 6 + f"| {latency:.2f} |", flush=True)
        if memory["native"] is not None:
            kept.append((name, memory["matmul"] <= 1.05 * memory["native"]))
    wins = sum(good for _, good in kept)
    others = ", ".join(name for name, good in kept if not good)
    print("\nThe default needs no more activation memory than the native layer (5% allowed) ", end="")
    print(f"in {wins} of {len(kept)} rows{f'; not in: {others}' * bool(others)}.")


if __name__ == "__main__":
    main()
