"""Engines: loaded, and run on a GPU through cuda-python."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..compiling.compiler import compile_engine
from ..compiling.config import BuildConfig
from ..core.backend import Backend, get_backend
from ..core.dtypes import dtype_name
from ..core.errors import UsageError
from ..core.lazy import torch
from ..definition.network import Network
from ..definition.weights import Source
from . import cuda, loader
from .arrays import Kind, View, view
from .capture import Captured
from .context import Context
from .loader import Header
from .manifest import Manifest
from .refit import apply, new_values
from .runtime_cache import discard, read_runtime_cache, write_runtime_cache
from .signature import Signature, TensorInfo


def load_engine(
    path: str | os.PathLike[str],
    *,
    backend: str | Backend | None = None,
    device: int = 0,
    manifest: bool = True,
    weights: Source | None = None,
    runtime_cache: str | os.PathLike[str] | None = None,
    cuda_graphs: bool = False,
    allow_host_code: bool = False,
) -> Engine:
    """The engine in a file, on the GPU, ready to be called.

    Everything that can be judged without TensorRT is judged first, by the engine's first bytes and the manifest beside
    it; ``manifest=False`` loads an engine that has none. ``backend`` is the engine's own when not said. ``weights`` are
    put into a refittable engine, which one built without weights needs. ``runtime_cache`` is a file in which
    TensorRT-RTX keeps what it compiles for this GPU, written by :meth:`Engine.warm_up` and :meth:`Engine.close`.
    ``cuda_graphs`` makes TensorRT-RTX run each shape as a CUDA graph. ``allow_host_code`` loads engines that carry code
    for the CPU.

    Raises, each with a class and a ``code`` of its own, an EngineError (it does not fit what is here), a
    CorruptFileError, UsageError (no such file), BackendError (no GPU), or OutOfMemoryError.
    """
    found = loader.open_engine(path, backend=backend, manifest=manifest, allow_host_code=allow_host_code)
    loader.check_stripped(found.manifest, refitted=weights is not None)
    loader.check_driver(found.backend)
    engine = Engine(
        found.data,
        backend=found.backend,
        device=device,
        manifest=found.manifest,
        header=found.header,
        runtime_cache=runtime_cache,
        cuda_graphs=cuda_graphs,
        allow_host_code=allow_host_code,
    )
    if weights is not None:
        engine.refit(weights, folder=found.path.parent)
    return engine


def engine_of(network: Network) -> Callable[[Mapping[str, Any]], dict[str, torch.Tensor]]:
    """Builds a network (without TF32, so that float32 means float32) and gives a function that runs it.

    The function takes feeds by name and gives torch tensors on the CPU. Raises BackendError where there is no GPU,
    before anything is built; BuildError.
    """
    cuda.require_device()
    engine = Engine(compile_engine(network, BuildConfig(tf32=False)).data, backend=network.backend)

    def run(feeds: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        tensors = {name: torch.as_tensor(feed).cpu() for name, feed in feeds.items()}
        return engine.run(tensors, outputs="torch")

    return run


class Engine:
    """A deserialized engine: call it with its inputs by name.

    Outputs come as the inputs came: numpy arrays, torch tensors on the CPU, torch tensors on the GPU (on torch's
    current stream, without waiting), or, for any other array on the GPU, :class:`~trtdsl.arrays.DeviceArray`.
    Threads may share an engine: each run takes an execution context from a pool that grows as needed.
    """

    def __init__(
        self,
        data: bytes,
        *,
        backend: str | Backend | None = None,
        device: int = 0,
        manifest: Manifest | None = None,
        header: Header | None = None,
        runtime_cache: str | os.PathLike[str] | None = None,
        cuda_graphs: bool = False,
        allow_host_code: bool = False,
    ):
        cuda.require_device()
        self.backend = backend if isinstance(backend, Backend) else get_backend(backend)
        self.device, self.manifest, self.cuda_graphs = device, manifest, cuda_graphs
        header = header or loader.read_header(data, "the engine")
        cuda.set_device(device)
        capability = cuda.compute_capability(device)
        capabilities = manifest.compute_capabilities if manifest is not None else ()
        loader.check_compute_capability(capabilities, capability, open_targets=header.open_targets or manifest is None)
        with self.backend.listen() as messages:
            self._runtime = self.backend.trt.Runtime(self.backend.logger)
            self._runtime.engine_host_code_allowed = allow_host_code
            judged = self.backend.engine_validity(self._runtime, data)
            if judged is not None:
                loader.judge_validity(*judged, capability)
            self.trt = self._runtime.deserialize_cuda_engine(data)
        if self.trt is None:
            raise loader.judge_messages(messages, size=len(data), free=cuda.free_memory())
        self.signature = read_signature(self.trt, self.backend)
        self._free: list[Context] = []
        self._lock = threading.Lock()
        self._cache_file = Path(runtime_cache) if runtime_cache is not None else None
        self._cache_for = {"backend": self.backend.version, "compute_capability": capability}
        self._cache: Any = None
        self._has_weights = manifest is None or not manifest.stripped

    def __repr__(self) -> str:
        return f"Engine({self.signature}; {self.backend.name} {self.backend.version})"

    def __call__(self, **feeds: Any) -> dict[str, Any]:
        """Runs the engine; see :meth:`run`."""
        return self.run(feeds)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # -- running -------------------------------------------------------------------------------------------------------

    def run(
        self,
        feeds: Mapping[str, Any],
        *,
        outputs: Kind | None = None,
        stream: int | None = None,
        profile: int | None = None,
    ) -> dict[str, Any]:
        """The outputs by name for ``feeds`` by name.

        ``outputs`` is ``"numpy"``, ``"torch"`` (CPU), ``"cuda"`` (torch, on the GPU) or ``"device"``, instead of what
        the first feed is. ``stream`` is a CUDA stream's handle; without one, torch's current stream for torch tensors
        on the GPU, else the engine's own. Outputs on the host, and device outputs where no stream was said, are
        complete when this returns; others follow in the order of the stream. ``profile`` is the first that holds all
        shapes when not said.

        Raises FeedError (of a kind for each way that a feed does not fit), OutOfMemoryError, ExecutionError.
        """
        loader.check_stripped(self.manifest, refitted=self._has_weights)
        cuda.set_device(self.device)
        views = {name: view(feed, stream=stream) for name, feed in feeds.items()}
        index = self.signature.check(views, profile, device=self.device)
        kind, handle = self._placed(views, outputs, stream)
        if stream is not None and any(given.kind == "cuda" for given in views.values()):
            cuda.wait_for_torch(stream, self.device)
        with self._context() as context:
            return context.run(views, kind, handle, index)

    def capture(self, feeds: Mapping[str, Any], *, outputs: Kind | None = None, profile: int | None = None) -> Captured:
        """The engine at one set of shapes, as a CUDA graph: call it with feeds of these shapes.

        Inputs are copied into memory of its own; outputs on the GPU are memory of its own, which the next call
        overwrites. ``profile`` is as for :meth:`run`, and so is what is raised, besides UnsupportedError for outputs
        whose shapes depend on values.
        """
        loader.check_stripped(self.manifest, refitted=self._has_weights)
        cuda.set_device(self.device)
        views = {name: view(feed) for name, feed in feeds.items()}
        index = self.signature.check(views, profile, device=self.device)
        return Captured(self, views, self._placed(views, outputs, None)[0], index)

    def warm_up(self, runs: int = 3) -> None:
        """Runs each profile at its best size with zeros, so that nothing is compiled or allocated later.

        Writes the runtime cache where there is one.
        """
        for index, profile in enumerate(self.signature.profiles):
            feeds = {
                name: self._shape_value(name, index)
                if info.on_host
                else torch.zeros(profile[name][1], dtype=getattr(torch, info.dtype))
                for name, info in self.signature.inputs.items()
            }
            for _ in range(runs):
                self.run(feeds, outputs="device", profile=index)
        self.save_runtime_cache()

    def refit(
        self,
        weights: Source,
        *,
        network: str | None = None,
        folder: str | os.PathLike[str] = ".",
    ) -> None:
        """Puts new weights into an engine that was built with ``refit``, in place.

        ``weights`` is a safetensors file or a mapping with the names of the state_dict, or what ``trtdsl weights
        derive`` wrote. What the engine holds is made of them by the network's own definition, which the manifest finds
        from ``folder``, the engine's, or ``network="FILE.py:NAME"`` names. Waits for all runs; no thread may begin one
        meanwhile.

        Raises UsageError for an engine that takes no weights, WeightsError with all that do not fit at once.
        """
        facts = self.manifest.facts.get("refit") if self.manifest is not None else None
        if not facts:
            raise UsageError("this engine takes no new weights: build it with --refit")
        values = new_values(facts, weights, backend=self.backend, folder=Path(folder), network=network)
        cuda.set_device(self.device)
        with self._lock:
            cuda.call("cudaDeviceSynchronize")
            counts = {name: count for name, (count, _) in facts["values"].items()}
            apply(self.trt, self.backend, values, counts)
        self._has_weights = True

    def _shape_value(self, name: str, profile: int) -> torch.Tensor:
        """The best value of an input that TensorRT reads as a shape."""
        info = self.signature.inputs[name]
        values = self.trt.get_tensor_profile_values(profile, name)  # in this order, whatever its signature says
        return torch.tensor(values[1], dtype=getattr(torch, info.dtype)).reshape(info.shape)

    def _placed(self, views: Mapping[str, View], outputs: Kind | None, stream: int | None) -> tuple[Kind, int | None]:
        """What the outputs are, and the stream to run on; None for the context's own."""
        kind = outputs
        if kind is None:
            kind = next(iter(views.values())).kind if views else "numpy"
        if stream is not None:
            return kind, stream
        on_torch = kind == "cuda" or any(given.kind == "cuda" for given in views.values())
        return kind, torch.cuda.current_stream(self.device).cuda_stream if on_torch else None

    @contextmanager
    def _context(self) -> Iterator[Context]:
        with self._lock:
            context = self._free.pop() if self._free else None
        if context is None:
            context = Context(self)
        yield context
        with self._lock:  # one that failed is not used again: what it has put on its stream is not known
            self._free.append(context)

    def runtime_config(self, *, graphs: bool) -> Any:
        """What an execution context of TensorRT-RTX is made with: the runtime cache and the strategy for graphs."""
        trt = self.backend.trt
        config = self.trt.create_runtime_config()
        if graphs:
            config.cuda_graph_strategy = trt.CudaGraphStrategy.WHOLE_GRAPH_CAPTURE
        if self._cache_file is not None:
            with self._lock:
                if self._cache is None:
                    self._cache = config.create_runtime_cache()
                    data = read_runtime_cache(self._cache_file, self._cache_for)
                    if data is not None and not self._cache.deserialize(data):
                        discard(self._cache_file, "TensorRT-RTX does not take it")
                        self._cache.reset()
            config.set_runtime_cache(self._cache)
        return config

    def save_runtime_cache(self) -> None:
        """Writes TensorRT-RTX's runtime cache to the file that :func:`load_engine` was given; nothing without one."""
        if self._cache is not None and self._cache_file is not None:
            data = self._cache.serialize()
            if data is not None:
                write_runtime_cache(self._cache_file, bytes(data), self._cache_for)

    def close(self) -> None:
        """Writes the runtime cache and frees the execution contexts."""
        self.save_runtime_cache()
        with self._lock:
            self._free.clear()


def read_signature(engine: Any, backend: Backend) -> Signature:
    """Names, dtypes, shapes and profiles of a deserialized engine."""
    trt = backend.trt
    inputs, outputs = {}, {}
    for index in range(engine.num_io_tensors):
        name = engine.get_tensor_name(index)
        dtype = dtype_name(backend.torch_dtype(engine.get_tensor_dtype(name)))
        on_host = engine.get_tensor_location(name) == trt.TensorLocation.HOST
        info = TensorInfo(name, dtype, tuple(engine.get_tensor_shape(name)), on_host)
        (inputs if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT else outputs)[name] = info
    profiles = []
    for index in range(engine.num_optimization_profiles):
        ranges = {}
        for name in inputs:
            low, opt, high = (tuple(shape) for shape in engine.get_tensor_profile_shape(name, index))
            ranges[name] = (low, opt, high)
        profiles.append(ranges)
    return Signature(inputs, outputs, tuple(profiles))
