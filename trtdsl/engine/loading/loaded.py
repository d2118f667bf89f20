"""A deserialized engine: TensorRT's objects, the signature, and the settings of execution contexts."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from ...core.backend import Backend
from ...core.errors import ExecutionError, OutOfMemoryError, UsageError
from ...core.files.writing import check_kind
from .. import cuda
from . import loader
from .loader import Header
from .manifest import Manifest
from .runtime_cache import RUNTIME_CACHE, discard, read_runtime_cache, write_runtime_cache
from .signature import Signature, TensorInfo

Specialization = Literal["lazy", "eager", "none"]
SPECIALIZATIONS = ("lazy", "eager", "none")


class Gate:
    """Runs enter it side by side. Who has to be alone waits for them, and meanwhile no further run enters."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0
        self._waiting = 0

    @contextmanager
    def run(self) -> Iterator[None]:
        """Inside, nobody is alone. It must not be entered again from inside."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting)
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Inside, nothing runs."""
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: not self._running)
                yield
            finally:
                self._waiting -= 1
                self._changed.notify_all()


class Loaded:
    """An engine on a GPU. Its contexts refer to it; it does not refer to them."""

    def __init__(
        self,
        data: bytes,
        backend: Backend,
        device: int,
        *,
        manifest: Manifest | None,
        header: Header,
        runtime_cache: str | os.PathLike[str] | None = None,
        cuda_graphs: bool = False,
        specialization: Specialization | None = None,
        allow_host_code: bool = False,
        communicator: Any = None,
    ):
        if specialization is not None and specialization not in SPECIALIZATIONS:
            raise UsageError(f"specialization is one of {', '.join(SPECIALIZATIONS)}, not {specialization!r}")
        self.backend, self.device, self.cuda_graphs, self.specialization = backend, device, cuda_graphs, specialization
        self.pool, self._communicator = cuda.Pool(), _in_capsule(communicator)
        capability = cuda.compute_capability(device)
        capabilities = manifest.compute_capabilities if manifest is not None else ()
        loader.check_compute_capability(capabilities, capability, open_targets=header.open_targets or manifest is None)
        with backend.listen() as messages:
            self._runtime = backend.trt.Runtime(backend.logger)
            self._runtime.engine_host_code_allowed = allow_host_code
            judged = backend.engine_validity(self._runtime, data)
            if judged is not None:
                loader.judge_validity(*judged, capability)
            self.trt = self._runtime.deserialize_cuda_engine(data)
        if self.trt is None:
            raise loader.judge_messages(messages, size=len(data), free=cuda.free_memory())
        self.signature = read_signature(self.trt, backend)
        self.gate = Gate()
        self.process = os.getpid()
        self.generation = 0
        """How often it got new weights: what was captured before is not used after."""
        self._lock = threading.Lock()
        self._cache_file = Path(runtime_cache) if runtime_cache is not None else None
        if self._cache_file is not None:
            check_kind(self._cache_file, RUNTIME_CACHE)
        self._cache_for = {"backend": backend.version, "compute_capability": capability}
        self._cache: Any = None
        self._saved: bytes | None = None

    def check_process(self) -> None:
        """UsageError in a process that was forked after the engine was loaded: CUDA does not survive that."""
        if os.getpid() != self.process:
            raise UsageError(
                "the engine was loaded before this process was forked, and CUDA does not survive that: load it in this "
                "process (with multiprocessing, the start method 'spawn')"
            )

    def make_context(self, *, graphs: bool, eager: bool) -> tuple[Any, Any]:
        """An execution context of TensorRT's, and the configuration that has to live as long.

        ``graphs`` makes TensorRT-RTX capture each shape. ``eager`` makes it compile for each shape before the first
        run, unless the caller asked for something else. Raises OutOfMemoryError, ExecutionError.
        """
        config = None
        with self.backend.listen() as messages:
            if self.backend.compiles_where_it_runs:
                config = self.runtime_config(graphs=graphs or self.cuda_graphs, eager=eager)
                context = self.trt.create_execution_context(config)
            else:
                context = self.trt.create_execution_context()
        if context is None:
            if loader.says_out_of_memory(messages):
                needed = int(self.trt.device_memory_size_v2)
                raise OutOfMemoryError(needed, cuda.free_memory(), "an execution context")
            raise ExecutionError(f"TensorRT makes no execution context: {messages.summary()}")
        if self._communicator is not None and not (
            hasattr(context, "set_communicator") and context.set_communicator(self._communicator)
        ):
            raise ExecutionError("TensorRT does not take the communicator for an execution context")
        return context, config

    def runtime_config(self, *, graphs: bool, eager: bool) -> Any:
        """The settings of an execution context of TensorRT-RTX: cache, graphs, and when kernels are specialized."""
        trt = self.backend.trt
        config = self.trt.create_runtime_config()
        if graphs:
            config.cuda_graph_strategy = trt.CudaGraphStrategy.WHOLE_GRAPH_CAPTURE
        chosen = self.specialization or ("eager" if eager else None)
        if chosen is not None:
            strategies = trt.DynamicShapesKernelSpecializationStrategy.__members__
            config.dynamic_shapes_kernel_specialization_strategy = strategies[chosen.upper()]
        if self._cache_file is not None and not config.set_runtime_cache(self._runtime_cache(config)):
            raise ExecutionError("TensorRT-RTX does not take its own runtime cache")
        return config

    def _runtime_cache(self, config: Any) -> Any:
        """The one cache of all contexts, filled from its file."""
        assert self._cache_file is not None
        with self._lock:
            if self._cache is None:
                self._cache = config.create_runtime_cache()
                data = read_runtime_cache(self._cache_file, self._cache_for)
                if data is not None and not self._cache.deserialize(data):
                    discard(self._cache_file, "TensorRT-RTX does not take it")
                    self._cache.reset()
            return self._cache

    def save_runtime_cache(self) -> None:
        """Writes TensorRT-RTX's runtime cache to its file, where there is one and it has changed."""
        with self._lock:
            if self._cache is None or self._cache_file is None:
                return
            serialized = self._cache.serialize()
            data = None if serialized is None else bytes(serialized)
            if data is not None and data != self._saved:
                write_runtime_cache(self._cache_file, data, self._cache_for)
                self._saved = data


def _in_capsule(pointer: Any) -> Any:
    """A pointer as TensorRT's bindings take it."""
    if pointer is None or type(pointer).__name__ == "PyCapsule":
        return pointer
    if not isinstance(pointer, int) or not pointer:
        raise UsageError(f"communicator is a pointer to an ncclComm_t, a number or a capsule, not {pointer!r}")
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return capsule(pointer, None, None)


def read_signature(engine: Any, backend: Backend) -> Signature:
    """Names, dtypes, shapes and profiles of a deserialized engine."""
    trt = backend.trt
    inputs, outputs = {}, {}
    for index in range(engine.num_io_tensors):
        name = engine.get_tensor_name(index)
        dtype = backend.dtype_name(engine.get_tensor_dtype(name))
        on_host = engine.get_tensor_location(name) == trt.TensorLocation.HOST
        is_input = engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
        aliases = not is_input and hasattr(engine, "get_aliased_input_tensor")  # TensorRT has it since KV_CACHE_UPDATE
        alias = engine.get_aliased_input_tensor(name) if aliases else None
        info = TensorInfo(
            name, dtype, tuple(engine.get_tensor_shape(name)), on_host, alias, backend.is_channels_last(engine, name)
        )
        (inputs if is_input else outputs)[name] = info
    profiles = []
    for index in range(engine.num_optimization_profiles):
        ranges = {}
        for name in inputs:
            low, opt, high = (tuple(shape) for shape in engine.get_tensor_profile_shape(name, index))
            ranges[name] = (low, opt, high)
        profiles.append(ranges)
    return Signature(inputs, outputs, tuple(profiles))
