"""The time of an engine on this machine's GPU: first runs, steady runs and transfers are measured separately."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from ..core.backend import Backend
from ..core.caller import to_write
from ..core.errors import BackendError, UsageError
from ..core.lazy import torch
from ..definition.network import Network
from ..definition.spec.load import NetworkLike, as_spec
from ..definition.spec.spec import NetworkSpec
from ..interpreter.feeds import make_feeds
from ..sizes.profile import Range
from . import cuda
from .arrays import DeviceArray, to_device
from .compiling.compiler import compile_engine
from .compiling.config import BuildConfig
from .compiling.onnx import compile_onnx
from .engine import Engine, load_engine
from .loading.signature import Shapes

T = TypeVar("T")
AGAINST = ("torch", "compile", "onnx")


@dataclass(frozen=True)
class Times:
    """Milliseconds of many runs of one measured row."""

    name: str
    runs: int
    first: float
    """The first run, with all that is done once."""
    minimum: float
    median: float
    mean: float
    p90: float
    p99: float
    variation: float
    """Standard deviation over mean."""


@dataclass(frozen=True)
class BenchReport:
    """What :func:`bench` measured. ``inputs`` and ``outputs`` are the transfers from and to the host, in ms."""

    name: str
    backend: str
    device: str
    dims: dict[str, int]
    times: list[Times]
    inputs: float
    outputs: float

    def to_json(self) -> dict[str, Any]:
        """Everything as one JSON object."""
        return {"schema": 1, "kind": "bench", **asdict(self)}


def summarize(name: str, first: float, samples: Sequence[float]) -> Times:
    """Times of ``samples``; percentiles are samples, the nearest from above.

    >>> summarize("x", 9.0, [1.0, 2.0, 3.0, 4.0]).median
    2.5
    """
    if not samples:
        raise UsageError("at least one run is needed")
    ordered = sorted(samples)

    def percentile(share: int) -> float:
        return ordered[-(-share * len(ordered) // 100) - 1]

    import statistics

    mean = statistics.fmean(ordered)
    return Times(
        name,
        len(ordered),
        first,
        ordered[0],
        statistics.median(ordered),
        mean,
        percentile(90),
        percentile(99),
        statistics.pstdev(ordered) / mean if mean else 0.0,
    )


def bench(
    target: NetworkLike | str | Path,
    *,
    runs: int = 100,
    warm_up: int = 10,
    dims: Mapping[str, Range] | None = None,
    profile: int = 0,
    precision: str | None = None,
    against: Sequence[str] = (),
    backend: str | Backend | None = None,
    tf32: bool = True,
    graphs: bool = False,
) -> BenchReport:
    """Times an engine (``NAME.engine``), or a network built here, at the best size of a profile.

    A network is a spec, ``FILE.py[:NAME]`` or a :class:`Network`.

    ``profile`` counts the engine's or the network's from 0. The row ``engine`` is the engine alone: memory is bound
    once, and each run is timed with CUDA events around its enqueueing; ``graphs`` captures it as a CUDA graph. The row
    ``host to host`` is a whole call by the clock, from arrays on the host to arrays on the host. ``against``
    ``"torch"``, ``"compile"`` (torch.compile) and ``"onnx"`` (exported by torch, parsed and built by the same backend,
    in float32, and bound likewise) measure a network's reference beside it; torch runs it under autocast where there
    is a ``precision``.

    Raises UsageError, BackendError where there is no GPU, and as building and loading do.
    """
    unknown = [name for name in against if name not in AGAINST]
    if unknown:
        raise UsageError(f"{to_write('against', '--against')} {', '.join(unknown)}: known are {', '.join(AGAINST)}")
    if runs < 1 or warm_up < 0:
        raise UsageError("at least one run is needed, and no negative number to warm up")
    file = None if isinstance(target, (NetworkSpec, Network)) else Path(target)
    is_network = file is None or ".py" in file.name
    if (against or precision) and not is_network:
        option = to_write("against=", "--against") if against else to_write("precision=", "--precision")
        raise UsageError(f"{option} needs a network with a reference, not an engine: give FILE.py")
    if file is not None and not is_network:
        engine = load_engine(file, backend=backend)
        feeds = _feeds(engine, chosen(engine.signature.profiles, profile))
        return _measure(file.name, engine, feeds, profile, runs, warm_up, {}, graphs, [])
    spec = as_spec(target)
    cuda.require_device()
    network = spec.define(dims=dims, precision=precision, backend=backend)
    sizes = chosen(network.profiles, profile).at("opt")
    feeds = make_feeds(spec.inputs, network, sizes, torch.Generator().manual_seed(0))
    engine = Engine(compile_engine(network, BuildConfig(tf32=tf32)).data, backend=network.backend)
    others = [(name, _other(name, spec, network, feeds, tf32, graphs)) for name in against]
    return _measure(spec.name, engine, feeds, profile, runs, warm_up, sizes, graphs, others)


def chosen(profiles: Sequence[T], index: int) -> T:
    """One of several profiles; UsageError for an index that does not exist."""
    if not 0 <= index < len(profiles):
        raise UsageError(f"there is no profile {index}: there are {len(profiles)}, counted from 0")
    return profiles[index]


def _feeds(engine: Engine, profile: Mapping[str, Shapes]) -> dict[str, torch.Tensor]:
    """Normal values, or zeros of an integer type, at the best size of a profile."""
    feeds = {}
    for name, info in engine.signature.inputs.items():
        shape, dtype = profile[name][1], getattr(torch, info.dtype)
        feeds[name] = torch.randn(shape).to(dtype) if dtype.is_floating_point else torch.zeros(shape, dtype=dtype)
    return feeds


Enqueue = tuple[Callable[[], Any], int]  # puts one run on a stream, and that stream's handle


def _measure(
    name: str,
    engine: Engine,
    feeds: Mapping[str, torch.Tensor],
    profile: int,
    runs: int,
    warm_up: int,
    dims: dict[str, int],
    graphs: bool,
    others: Sequence[tuple[str, Callable[[], Enqueue]]],
) -> BenchReport:
    def whole() -> Any:
        return engine.run(feeds, outputs="torch", profile=profile)

    times = [timed("engine", _bound(engine, feeds, profile, graphs), runs, warm_up)]
    copied_in, copied_out = _transfers(engine, feeds, profile)
    times.append(_by_the_clock("host to host", whole, runs, warm_up))
    times += [timed(other, make, runs, warm_up) for other, make in others]
    backend = f"{engine.backend.name} {engine.backend.version}"
    return BenchReport(name, backend, cuda.device_name(engine.device), dims, times, copied_in, copied_out)


def _bound(
    engine: Engine, feeds: Mapping[str, torch.Tensor], profile: int | None, graphs: bool
) -> Callable[[], Enqueue]:
    """Binds an engine's memory once."""

    def bind() -> Enqueue:
        bound = engine.capture(feeds, outputs="device", profile=profile, graph=graphs)
        return bound.launch, bound.stream

    return bind


def _transfers(engine: Engine, feeds: Mapping[str, torch.Tensor], profile: int) -> tuple[float, float]:
    """Milliseconds that the inputs take to the GPU and the outputs from it."""
    stream, started = cuda.Stream(), time.perf_counter()
    arrays = {
        key: to_device(feed, engine.device, stream.handle, channels_last=engine.signature.lies_channels_last(key))
        for key, feed in feeds.items()
    }
    copied_in = (time.perf_counter() - started) * 1e3
    on_host = {key: feeds[key] for key, info in engine.signature.inputs.items() if info.on_host}
    results = engine.run({**arrays, **on_host}, outputs="device", profile=profile)
    started = time.perf_counter()
    for array in results.values():
        if isinstance(array, DeviceArray):
            array.torch()
    return copied_in, (time.perf_counter() - started) * 1e3


def timed(name: str, make: Callable[[], Enqueue], runs: int, warm_up: int) -> Times:
    """Prepares the measured row, runs it once, then warms it up, then times each run between two events."""
    started = time.perf_counter()
    call, stream = make()
    call()
    cuda.synchronize(stream)
    first = (time.perf_counter() - started) * 1e3
    for _ in range(warm_up):
        call()
    cuda.synchronize(stream)
    samples = []
    begin, end = cuda.Event(timing=True), cuda.Event(timing=True)
    for _ in range(runs):
        begin.record(stream)
        call()
        end.record(stream)
        samples.append(end.milliseconds_since(begin))
    return summarize(name, first, samples)


def _by_the_clock(name: str, call: Callable[[], Any], runs: int, warm_up: int) -> Times:
    samples = []
    for _ in range(1 + warm_up + runs):
        started = time.perf_counter()
        call()
        samples.append((time.perf_counter() - started) * 1e3)
    return summarize(name, samples[0], samples[1 + warm_up :])


def _other(
    name: str, spec: NetworkSpec, network: Network, feeds: Mapping[str, torch.Tensor], tf32: bool, graphs: bool
) -> Callable[[], Enqueue]:
    """Prepares the network's reference for one way of running it; torch runs on its current stream."""
    module = spec.reference_module(spec.open_weights())
    if name == "onnx":
        engine = Engine(onnx_engine(module, network, feeds, tf32), backend=network.backend)
        named = {key: feeds[key] for key in engine.signature.inputs}  # torch leaves out inputs that it does not use
        return _bound(engine, named, None, graphs)
    if not torch.cuda.is_available():
        raise BackendError(
            f"{to_write(f'against {name!r}', f'--against {name}')} needs a torch with CUDA; this is {torch.__version__}"
        )
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    module = module.cuda()
    run = torch.compile(module) if name == "compile" else module
    on_gpu = [feed.cuda() for feed in feeds.values()]

    def call() -> Any:
        with torch.inference_mode(), torch.autocast("cuda", network.precision, enabled=network.precision is not None):
            return run(*on_gpu)

    return lambda: (call, torch.cuda.current_stream().cuda_stream)


def onnx_engine(
    module: torch.nn.Module, network: Network, feeds: Mapping[str, torch.Tensor], tf32: bool = True
) -> bytes:
    """The engine of a torch module by way of ONNX, at the sizes of ``feeds``. Raises BackendError without onnx."""
    try:
        import onnx  # noqa: F401
    except ImportError:
        raise BackendError("the way by ONNX needs the package onnx: pip install 'trtdsl[onnx]'") from None
    backend = network.backend
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.onnx")
        torch.onnx.export(module, tuple(feeds.values()), path, dynamo=False, input_names=list(feeds))
        return compile_onnx(path, backend, BuildConfig(tf32=tf32)).data
