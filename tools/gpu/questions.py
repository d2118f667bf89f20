"""Questions that only a GPU answers: one line each, with what TensorRT-RTX did.

Each question is a process of its own, four at a time. Run in the project's root with it on PYTHONPATH.

    python tools/gpu/questions.py          all
    python tools/gpu/questions.py NAME     one, in this process
"""

import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

QUESTIONS = {}


def question(function):
    QUESTIONS[function.__name__] = function
    return function


def say(text):
    print("   ", text, flush=True)


def small(profiles=True):
    """An engine of one matrix product with a dynamic size, and the Network (kept alive)."""
    import torch

    import trtdsl as td
    import trtdsl.functional as F
    from trtdsl.engine.compiling.compiler import compile_engine
    from trtdsl.engine.engine import Engine

    torch.manual_seed(0)
    n = td.Dim("N", min=1, opt=64, max=256)
    net = td.Network()
    x = net.input("x", (n if profiles else 64, 512))
    w = net.constant(torch.randn(512, 512) / 22)
    net.output(F.softmax(F.relu(x @ w) @ w, dim=1), "y")
    return Engine(compile_engine(net, td.BuildConfig(tf32=False)).data, backend=net.backend), net


@question
def log_of_a_run():
    """Everything that TensorRT says while it loads, makes a context and runs on the default stream."""
    import torch

    engine, _ = small()
    with engine.backend.listen() as messages:
        engine.run({"x": torch.randn(64, 512)}, outputs="numpy")
        engine.run({"x": torch.randn(64, 512, device="cuda")})
    for severity, text in messages[:20]:
        say(f"{severity} {text}")


@question
def same_bits_every_run():
    """LAZY specialization: whether results change between runs while kernels are compiled behind them."""
    import torch

    engine, net = small()
    import trtdsl as td

    for rows in (64, 17, 200):
        x = torch.randn(rows, 512)
        seen, first, changed = set(), None, []
        started = time.perf_counter()
        for index in range(400):
            y = engine.run({"x": x}, outputs="torch")["y"]
            digest = hash(y.numpy().tobytes())
            if digest not in seen:
                seen.add(digest)
                changed.append((index, round(time.perf_counter() - started, 3)))
        first = td.interpret(net, {"x": x})["y"]
        say(
            f"{rows} rows: {len(seen)} different results, first seen at (run, s) {changed}; "
            f"max error {(y - first).abs().max():.3g}"
        )


@question
def specialization_strategies():
    """First and steady times and results with LAZY, EAGER, NONE."""
    import torch

    from trtdsl.engine import cuda
    from trtdsl.engine.loading.loaded import Loaded as Engine

    plain = Engine.runtime_config
    for name in ("LAZY", "EAGER", "NONE"):

        def config(self, *, graphs, eager, name=name):
            made = plain(self, graphs=graphs, eager=eager)
            strategies = self.backend.trt.DynamicShapesKernelSpecializationStrategy
            made.dynamic_shapes_kernel_specialization_strategy = strategies.__members__[name]
            return made

        Engine.runtime_config = config
        engine, _ = small()
        stream, x, times = cuda.Stream(), torch.randn(64, 512), []
        for _ in range(300):
            started = time.perf_counter()
            engine.run({"x": x}, outputs="numpy", stream=stream.handle)
            times.append((time.perf_counter() - started) * 1e3)
        say(
            f"{name}: first {times[0]:.1f} ms, runs 2 to 10 {sum(times[1:10]) / 9:.3f}, last 100 {sum(times[-100:]) / 100:.3f}"
        )
    Engine.runtime_config = plain


@question
def cuda_graph_strategy_per_stream():
    """WHOLE_GRAPH_CAPTURE on a stream of our own, on torch's default stream, from two threads at once."""
    import torch

    from trtdsl.engine import cuda

    engine, _ = small()
    engine._loaded.cuda_graphs = True
    stream, x = cuda.Stream(), torch.randn(64, 512)
    good = engine.run({"x": x}, outputs="torch")["y"]
    for label, run in (
        ("own stream", lambda: engine.run({"x": x}, outputs="torch", stream=stream.handle)["y"]),
        ("torch's default stream", lambda: engine.run({"x": x.cuda()})["y"].cpu()),
    ):
        try:
            with engine.backend.listen() as messages:
                got = [run() for _ in range(5)][-1]
            say(
                f"{label}: max difference {(got - good).abs().max():.3g}; said {[t[:150] for s, t in messages if s <= 2][:3]}"
            )
        except Exception as problem:
            say(f"{label}: {type(problem).__name__}: {problem}")

    def work(_):
        return [engine.run({"x": x}, outputs="torch")["y"] for _ in range(50)][-1]

    with ThreadPoolExecutor(4) as pool:
        try:
            say(f"four threads: {max(float((y - good).abs().max()) for y in pool.map(work, range(4))):.3g}")
        except Exception as problem:
            say(f"four threads: {type(problem).__name__}: {problem}")


@question
def addresses_that_are_not_aligned():
    """The documentation wants 256 bytes; slices of torch tensors have 4."""
    import torch

    engine, _ = small()
    big = torch.randn(256 * 512 + 256, device="cuda")
    for offset in (64, 32, 16, 4, 1):
        x = big[offset : offset + 64 * 512].view(64, 512)
        try:
            with engine.backend.listen() as messages:
                got = engine.run({"x": x})["y"].cpu()
            good = engine.run({"x": x.clone()})["y"].cpu()
            say(
                f"{offset * 4} bytes off: max difference {(got - good).abs().max():.3g}; {[t[:150] for s, t in messages if s <= 2][:2]}"
            )
        except Exception as problem:
            say(f"{offset * 4} bytes off: {type(problem).__name__}: {str(problem)[:300]}")


@question
def refit_beside_a_gpu():
    """REFIT and STRIP_PLAN, which do not build without a GPU."""
    import torch

    import trtdsl as td
    import trtdsl.functional as F
    from trtdsl.engine.compiling.compiler import compile_engine
    from trtdsl.engine.engine import Engine

    for strip in (False, True):
        net = td.Network()
        net.output(F.relu(net.input("x", (4, 8)) @ net.constant(torch.ones(8, 8))), "y")
        data = compile_engine(net, td.BuildConfig(refit=True, strip_weights=strip)).data
        say(f"strip {strip}: {len(data)} bytes")
        engine = Engine(data, backend=net.backend)
        refitter = engine.backend.trt.Refitter(engine._loaded.trt, engine.backend.logger)
        say(f"  get_all {refitter.get_all()}, missing {refitter.get_missing()}")


@question
def outputs_whose_shape_depends_on_values():
    """NonZero: does it build beside a GPU, and in which order is the allocator called?"""
    import torch

    import trtdsl as td
    import trtdsl.functional as F
    from trtdsl.engine.engine import engine_of
    from trtdsl.engine.running import outputs as module

    plain, calls = module.Sink.place, []

    def place(self, size, buffer):
        calls.append(("allocate", size, self.shape))
        return plain(self, size, buffer)

    module.Sink.place = place
    net = td.Network()
    net.output(F.nonzero(net.input("x", (64,))), "where")
    run = engine_of(net)
    for count in (0, 1, 64):
        x = torch.zeros(64)
        x[:count] = 1
        say(f"{count} nonzero: {tuple(run({'x': x})['where'].shape)}; {calls}")
        calls.clear()


@question
def runtime_cache():
    import os
    import tempfile

    import torch

    engine, _ = small()
    with tempfile.TemporaryDirectory() as folder:
        for attempt in ("cold", "warm"):
            from pathlib import Path

            again, _ = small()
            again._loaded._cache_file = Path(folder) / "cache"
            started = time.perf_counter()
            again.run({"x": torch.randn(64, 512)}, outputs="numpy")
            say(f"{attempt}: first run {(time.perf_counter() - started) * 1e3:.1f} ms")
            time.sleep(2)  # what is compiled lazily
            again.save_runtime_cache()
            say(f"  cache {os.path.getsize(again._loaded._cache_file)} bytes")


@question
def inspector_and_signature():
    engine, _ = small()
    trt = engine.backend.trt
    inspector = engine._loaded.trt.create_engine_inspector()
    say(inspector.get_engine_information(trt.LayerInformationFormat.JSON)[:1500])
    say(f"{engine.signature} {engine.signature.profiles}")


@question
def what_leaks():
    """Device memory after an engine is dropped without close(), and after runs with an output allocator."""
    import gc

    import torch

    from trtdsl.engine import cuda

    gc.collect()
    before = cuda.free_memory()
    gc.disable()
    for _ in range(5):
        engine, _ = small()
        engine.run({"x": torch.randn(64, 512)}, outputs="numpy")
        del engine
    say(f"5 engines dropped: {(before - cuda.free_memory()) / 2**20:.1f} MiB held before the collector ran")
    gc.enable()
    gc.collect()
    say(f"after the collector: {(before - cuda.free_memory()) / 2**20:.1f} MiB")


@question
def time_inside_a_run():
    """What Engine.run costs beside the kernels: bound once and enqueued, against the whole call."""
    import torch

    from trtdsl.engine import cuda
    from trtdsl.engine.bench import timed

    engine, _ = small()
    stream, x = cuda.Stream(), torch.randn(64, 512)
    from trtdsl.engine.arrays import to_device

    arrays = {"x": to_device(x, 0, stream.handle)}
    call = lambda: engine.run(arrays, outputs="device", stream=stream.handle)
    whole = timed("run", lambda: (call, stream.handle), 200, 50)
    bound = engine.capture({"x": x}, outputs="device", graph=False)
    bare = timed("enqueue", lambda: (bound.launch, bound.stream), 200, 50)
    graph = engine.capture({"x": x}, outputs="device")
    replayed = timed("graph", lambda: (graph.launch, graph.stream), 200, 50)
    for times in (whole, bare, replayed):
        say(f"{times.name}: median {times.median:.4f} ms, p99 {times.p99:.4f}")


def one(name):
    try:
        done = subprocess.run([sys.executable, "-u", __file__, name], capture_output=True, text=True, timeout=100)
        text = done.stdout + (f"    exit {done.returncode}: {done.stderr[-600:]}\n" if done.returncode else "")
    except subprocess.TimeoutExpired as late:
        text = (late.stdout or b"").decode() + "    stopped after 100 s\n"
    return name, text


def main():
    if len(sys.argv) == 2:
        warnings.simplefilter("ignore")
        QUESTIONS[sys.argv[1]]()
        return
    with ThreadPoolExecutor(4) as pool:
        for name, text in pool.map(one, QUESTIONS):
            print(f"{name}\n{text}", flush=True)


if __name__ == "__main__":
    main()
