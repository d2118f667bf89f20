"""Engines: loaded, and run on a GPU through cuda-python."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import cuda
from .arrays import Kind, view
from .backend import Backend, get_backend
from .build import compile_engine
from .context import Context
from .errors import EngineError
from .lazy import torch
from .network import Network
from .signature import Signature, TensorInfo


def load_engine(path: str | os.PathLike[str], *, backend: str | Backend | None = None, device: int = 0) -> Engine:
    """The engine in a file, on the GPU, ready to be called.

    Raises BackendError where there is no GPU, and an error of its own for every way in which the file does not fit.
    """
    path = Path(path)
    data = path.read_bytes()
    cuda.require_device()
    return Engine(data, backend=backend, device=device)


def engine_of(network: Network) -> Callable[[Mapping[str, Any]], dict[str, torch.Tensor]]:
    """Builds a network (without TF32, so that float32 means float32) and gives a function that runs it.

    The function takes feeds by name and gives torch tensors on the CPU. Raises BackendError where there is no GPU,
    before anything is built; BuildError.
    """
    cuda.require_device()
    engine = Engine(compile_engine(network, tf32=False).data, backend=network.backend)

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

    def __init__(self, data: bytes, *, backend: str | Backend | None = None, device: int = 0):
        cuda.require_device()
        self.backend = backend if isinstance(backend, Backend) else get_backend(backend)
        self.device = device
        cuda.set_device(device)
        with self.backend.listen() as messages:
            self._runtime = self.backend.trt.Runtime(self.backend.logger)
            self._runtime.engine_host_code_allowed = False
            self.trt = self._runtime.deserialize_cuda_engine(data)
        if self.trt is None:
            raise EngineError(f"TensorRT does not load this engine: {messages.summary()}")
        self.signature = read_signature(self.trt, self.backend)
        self._free: list[Context] = []
        self._lock = threading.Lock()
        self._stream = cuda.Stream()

    def __repr__(self) -> str:
        return f"Engine({self.signature}; {self.backend.name} {self.backend.version})"

    def __call__(self, **feeds: Any) -> dict[str, Any]:
        """Runs the engine; see :meth:`run`."""
        return self.run(feeds)

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
        complete when this returns; others follow in the order of the stream.

        Raises FeedError (of a kind for each way that a feed does not fit), OutOfMemoryError, ExecutionError.
        """
        cuda.set_device(self.device)
        views = {name: view(feed, stream=stream) for name, feed in feeds.items()}
        kind = outputs or next((given.kind for given in views.values()), "numpy")
        index = self.signature.check(views, profile)
        wait = stream is None and kind == "device"  # its consumer need not know our stream
        if stream is None:
            on_torch = any(given.kind == "cuda" for given in views.values()) or kind == "cuda"
            stream = torch.cuda.current_stream(self.device).cuda_stream if on_torch else self._stream.handle
        with self._context() as context:
            return context.run(views, kind, stream, index, wait=wait)

    @contextmanager
    def _context(self) -> Iterator[Context]:
        with self._lock:
            context = self._free.pop() if self._free else None
        if context is None:
            context = Context(self)
        try:
            yield context
        finally:
            with self._lock:
                self._free.append(context)


def read_signature(engine: Any, backend: Backend) -> Signature:
    """Names, dtypes, shapes and profiles of a deserialized engine."""
    trt = backend.trt
    inputs, outputs = {}, {}
    for index in range(engine.num_io_tensors):
        name = engine.get_tensor_name(index)
        dtype = str(backend.torch_dtype(engine.get_tensor_dtype(name))).removeprefix("torch.")
        on_host = engine.get_tensor_location(name) == trt.TensorLocation.HOST
        info = TensorInfo(name, dtype, tuple(engine.get_tensor_shape(name)), on_host)
        (inputs if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT else outputs)[name] = info
    profiles = []
    for index in range(engine.num_optimization_profiles):
        ranges = {}
        for name, info in inputs.items():
            if not info.on_host:
                low, opt, high = (tuple(shape) for shape in engine.get_tensor_profile_shape(name, index))
                ranges[name] = (low, opt, high)
        profiles.append(ranges)
    return Signature(inputs, outputs, tuple(profiles))
