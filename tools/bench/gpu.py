"""Latency on this machine's GPU: networks beside torch, torch.compile and ONNX, and lowerings beside each other.

    python tools/bench/gpu.py [--seconds 480] [--runs 200] [--networks networks/stgcn.py …] [--ways engine,graphs,…]
    python tools/bench/gpu.py --tables measured.jsonl

Each network in each way is a process of its own and one line of JSON, printed as soon as it is known, in the order of
importance, within a budget of seconds: what fails, or takes too long, is a line that says so, and ends nothing else.
Beside each latency stands what the engine's program says without a GPU: launches, bytes moved, memory. ``--tables``
prints the lines of a file as markdown, for docs/benchmarks.md.

`python tools/make_weights.py crnn ddrnet slowfast vit yolo` makes the weights that are not in the repository. Says why,
and exits with code 6, where there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "networks"
ORDER = ("stgcn", "raft_small", "mamba", "vit", "stn", "mobilefacenet", "ddrnet", "slowfast")  # the others come after
WAYS = ("engine", "graphs", "torch", "fp16", "onnx", "compile")
LIMIT = 75  # seconds for one network in one way
LEAST = 5  # seconds: less is not worth a process

EINSUMS = [
    ("nkctv,kvw->nctw", (8, 3, 64, 300, 18), (3, 18, 18)),
    ("bhqd,bhkd->bhqk", (4, 8, 256, 64), (4, 8, 256, 64)),
    ("bij,bjk->bik", (1024, 4, 4), (1024, 4, 4)),
    ("bld,dn->bldn", (4, 256, 64), (64, 16)),
]
SAMPLES = [(1, 64, 64, 64), (8, 32, 128, 128)]

Facts = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=480, help="for everything together")
    parser.add_argument("--networks", nargs="*", default=None, metavar="FILE.py", help="none: only the lowerings")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--tables", metavar="FILE.jsonl")
    parser.add_argument("--one", metavar="TASK", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.tables:
        print(tables(json.loads(line) for line in Path(options.tables).read_text().splitlines() if line[:1] == "{"))
        return
    if options.one:
        print(json.dumps(measured(json.loads(options.one), options.runs)), flush=True)
        return
    import trtdsl as td
    from trtdsl.engine import cuda

    try:
        cuda.require_device()
    except td.BackendError as error:
        print(f"nothing measured: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    wanted = list(tasks(options.networks, [way for way in options.ways.split(",") if way]))
    for facts in schedule(wanted, options.seconds, partial(in_a_process, runs=options.runs)):
        print(json.dumps(facts), flush=True)


def tasks(networks: list[str] | None, ways: list[str]) -> Iterator[Facts]:
    """What to measure, the most important first."""
    ours = sorted(str(path) for path in FOLDER.glob("*.py") if path.stem != "llama")  # whose weights a user has
    found = ours if networks is None else networks
    place = {name: index for index, name in enumerate(ORDER)}
    found = sorted(found, key=lambda name: place.get(Path(name).stem, len(ORDER)))
    lowerings = [{"kind": "einsum", "index": index} for index in range(len(EINSUMS))]
    lowerings += [{"kind": "grid_sample", "index": index} for index in range(len(SAMPLES))]
    for way in ways:
        if way == "fp16":  # after what says most of each network
            yield from lowerings
        yield from ({"kind": "network", "network": name, "way": way} for name in found)
    if "fp16" not in ways:
        yield from lowerings


def schedule(wanted: Iterable[Facts], seconds: float, run: Callable[[Facts, float], Facts]) -> Iterator[Facts]:
    """Runs the tasks one after the other, and says of each that found no time that it was left out."""
    ends = time.monotonic() + seconds
    for task in wanted:
        left = ends - time.monotonic()
        yield run(task, min(left, LIMIT)) if left >= LEAST else {**task, "error": "left out: no time was left"}


def in_a_process(task: Facts, limit: float, runs: int) -> Facts:
    """One task in a process of its own, stopped at its limit: a crash, or what CUDA keeps, ends with it."""
    command = [sys.executable, __file__, "--one", json.dumps(task), "--runs", str(runs)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return {**task, "error": f"stopped after {limit:.0f} s"}
    lines = [line for line in done.stdout.splitlines() if line[:1] == "{"]
    if lines:
        return json.loads(lines[-1])
    return {**task, "error": f"exit code {done.returncode}: {done.stderr.strip()[-400:]}"}


def measured(task: Facts, runs: int) -> Facts:
    """One task, here. Never raises: what went wrong is in the facts."""
    started = time.perf_counter()
    try:
        facts = {"network": of_network, "einsum": of_einsum, "grid_sample": of_sample}[task["kind"]](task, runs)
    except Exception as problem:
        facts = {"error": f"{type(problem).__name__}: {str(problem)[:600]}"}
    return {**task, **facts, "seconds": round(time.perf_counter() - started, 1)}


def of_network(task: Facts, runs: int) -> Facts:
    import trtdsl as td

    way = task["way"]
    against = [way] if way in ("torch", "compile", "onnx") else []
    precision = "fp16" if way == "fp16" else None
    report = td.bench(
        task["network"], runs=runs, warm_up=50, against=against, tf32=False, graphs=way == "graphs", precision=precision
    )
    times = report.times[2:] if against else report.times
    facts = {**report.to_json(), "kind": "network", "times": [vars(each) for each in times]}
    return facts if against else {**facts, "program": estimate(task["network"], report.dims, precision)}


def estimate(network: str, dims: dict[str, int], precision: str | None) -> Facts:
    """What the engine's program says, by which lowerings are judged where there is no GPU."""
    import trtdsl as td

    try:
        program = td.program(network, dims=dims, precision=precision, config=td.BuildConfig(tf32=False))
    except td.TrtdslError as problem:
        return {"error": str(problem).partition("\n")[0]}
    return {
        "launches": program.launch_count,
        "bytes": program.bytes,
        "rearranged_bytes": program.rearranged_bytes,
        "memory": program.memory,
    }


def of_einsum(task: Facts, runs: int) -> Facts:
    import torch

    import trtdsl.functional as F

    sys.path.insert(0, str(Path(__file__).parent))
    from compared import by_einsum_layer

    equation, *shapes = EINSUMS[task["index"]]
    medians = {
        name: engine_time(partial(made, equation), shapes, runs)
        for name, made in (("matmul", F.einsum), ("native", by_einsum_layer))
    }
    what = f"`{equation}` {' × '.join(map(str, shapes))}"
    return {"what": what, "medians": medians | torch_time(partial(torch.einsum, equation), shapes, runs)}


def of_sample(task: Facts, runs: int) -> Facts:
    import torch

    import trtdsl.functional as F

    n, c, h, w = SAMPLES[task["index"]]
    shapes = [(n, c, h, w), (n, h, w, 2)]
    medians = {
        name: engine_time(partial(F.grid_sample, align_corners=False, lowering=name), shapes, runs)
        for name in ("taps", "native")
    }
    reference = partial(torch.nn.functional.grid_sample, align_corners=False)
    return {"what": f"{n} × {c} × {h} × {w}", "medians": medians | torch_time(reference, shapes, runs)}


def engine_time(define: Callable[..., Any], shapes: list[tuple[int, ...]], runs: int) -> float:
    """The median in milliseconds of a network of one function, inputs on the GPU."""
    import torch

    import trtdsl as td
    from trtdsl.engine.bench import timed
    from trtdsl.engine.compiling.compiler import compile_engine
    from trtdsl.engine.engine import Engine

    net = td.Network()
    inputs = [net.input(f"x{index}", shape) for index, shape in enumerate(shapes)]
    net.output(define(*inputs), "y")
    engine = Engine(compile_engine(net, td.BuildConfig(tf32=False)).data, backend=net.backend)
    bound = engine.capture(
        {f"x{i}": torch.rand(s) * 2 - 1 for i, s in enumerate(shapes)}, outputs="device", graph=False
    )
    return timed("engine", lambda: (bound.launch, bound.stream), runs, 20).median


def torch_time(function: Callable[..., Any], shapes: list[tuple[int, ...]], runs: int) -> dict[str, float]:
    """The median of torch eager, where this torch has CUDA."""
    import torch

    from trtdsl.engine.bench import timed

    if not torch.cuda.is_available():
        return {}
    inputs = [torch.rand(shape, device="cuda") * 2 - 1 for shape in shapes]
    stream = torch.cuda.current_stream().cuda_stream
    return {"torch": timed("torch", lambda: (lambda: function(*inputs), stream), runs, 20).median}


def tables(lines: Iterable[Facts]) -> str:
    """Markdown of what was measured."""
    found = list(lines)
    rows = ["| network | way | what | first run, ms | median, ms | p99, ms | launches | MB moved | memory, MB |"]
    rows.append("|" + "---|" * 9)
    for facts in found:
        if facts["kind"] != "network":
            continue
        name = f"{Path(facts['network']).stem} {facts.get('dims') or ''}".strip()
        program = facts.get("program", {})
        there = [""] * 3
        if "launches" in program:
            there = [f"{program['launches']}", f"{program['bytes'] / 1e6:.1f}", f"{program['memory'] / 1e6:.1f}"]
        if "error" in facts:
            rows.append(f"| {name} | {facts['way']} | {facts['error'].partition(chr(10))[0][:80]} | | | | | | |")
        for times in facts.get("times", []):
            numbers = [f"{times['first']:.2f}", f"{times['median']:.3f}", f"{times['p99']:.3f}"]
            beside = there if times["name"] == "engine" else [""] * 3
            rows.append(f"| {name} | {facts['way']} | {times['name']} | {' | '.join(numbers + beside)} |")
    for kind in ("einsum", "grid_sample"):
        several = [facts for facts in found if facts["kind"] == kind]
        names = list(dict.fromkeys(name for facts in several for name in facts.get("medians", {})))
        if not names:
            continue
        rows += ["", f"| {kind} | {', ms | '.join(names)}, ms |", "|" + "---|" * (len(names) + 1)]
        for facts in several:
            times = facts.get("medians", {})
            numbers = [f"{times[name]:.3f}" if name in times else "" for name in names]
            rows.append(f"| {facts.get('what') or facts.get('error', '')[:80]} | {' | '.join(numbers)} |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
