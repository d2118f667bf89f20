"""Engines: loaded, and run on a GPU through cuda-python."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..core.backend import Backend, get_backend
from ..core.caller import as_argument, option
from ..core.errors import BackendError, FeedProfileError, FeedShapeError, ManifestDamagedError, UsageError
from ..core.files.reading import Count
from ..core.lazy import np, torch
from ..definition.network import Network
from ..definition.weights.source import Source
from ..interpreter.feeds import by_name, check_written
from . import cuda
from .arrays import KINDS, Kind, kind_of, target_view, zeros
from .compiling.compiler import compile_engine
from .compiling.config import BuildConfig
from .loading import loader
from .loading.loaded import Loaded, Specialization
from .loading.loader import Header
from .loading.manifest import Manifest, manifest_path, read_engines
from .loading.signature import Signature, TensorInfo
from .refit import apply, new_values
from .running.capture import Captured
from .running.context import Context
from .running.outputs import check_outputs
from .running.session import Session


def load_engine(
    path: str | os.PathLike[str],
    *,
    backend: str | Backend | None = None,
    device: int = 0,
    manifest: bool = True,
    weights: Source | None = None,
    runtime_cache: str | os.PathLike[str] | None = None,
    cuda_graphs: bool = False,
    specialization: Specialization | None = None,
    trust_network_file: bool = False,
    allow_host_code: bool = False,
    communicator: Any = None,
) -> Engine:
    """The engine in a file, on the GPU, ready to be called.

    Everything that can be checked without TensorRT is checked first, by the engine's first bytes and the manifest
    beside it; ``manifest=False`` loads an engine that has none. ``backend`` is the engine's own by default. ``weights``
    are put into a refittable engine; an engine built without weights needs them. The network file that the manifest
    names derives the engine's values from them, and is run only with ``trust_network_file``. ``runtime_cache`` is a
    file in which TensorRT-RTX keeps what it compiles for this GPU, written by :meth:`Engine.warm_up` and
    :meth:`Engine.close`. ``cuda_graphs`` makes TensorRT-RTX run each shape as a CUDA graph. ``specialization`` says
    when it compiles kernels for the exact shapes that are fed: ``"lazy"`` in the background, while runs use other
    kernels (its default), ``"eager"`` before the first run of each shape, ``"none"`` never. ``allow_host_code`` loads
    engines that carry code for the CPU. ``communicator`` is NCCL's for this rank, a pointer as a number or in a
    capsule, which the engine of one of several ranks needs: each execution context is made by all ranks together.
    The manifest of several engines, each for some of the sizes (``NAME.engines.json``), loads all of them, and each
    run takes the one that serves its feeds.

    Raises an EngineError (the engine does not fit this machine), a CorruptFileError, UsageError (no such file, another
    rank's engine),
    BackendError (no GPU), or OutOfMemoryError, each with a class and a ``code`` of its own.
    """
    several = read_engines(Path(path)) if isinstance(path, (str, os.PathLike)) else None
    how: dict[str, Any] = {"device": device, "cuda_graphs": cuda_graphs, "specialization": specialization}
    how |= {"allow_host_code": allow_host_code, "communicator": communicator}
    if several is not None:
        how |= {"backend": backend, "weights": weights, "trust_network_file": trust_network_file}
        parts: dict[str, Engine] = {}
        for each in several.engines:
            cache = None if runtime_cache is None else f"{os.fspath(runtime_cache)}.{each.engine}"
            parts[each.engine] = part = load_engine(Path(path).parent / each.engine, runtime_cache=cache, **how)
            if part.manifest is None or part.manifest.engine.sha256 != each.sha256:
                raise ManifestDamagedError(
                    f"{path} names another {each.engine} than the one beside it: build all of {several.network} again"
                )
        return Engines(parts)
    found = loader.open_engine(path, backend=backend, manifest=manifest, allow_host_code=allow_host_code)
    loader.check_stripped(found.manifest, refitted=weights is not None)
    loader.check_world(found.manifest, communicator)
    loader.check_driver(found.backend)
    known: dict[str, Any] = {"backend": found.backend, "manifest": found.manifest, "header": found.header}
    engine = Engine(found.data, **known, runtime_cache=runtime_cache, **how)
    if weights is not None:
        engine.refit(weights, folder=manifest_path(found.path).parent, trust_network_file=trust_network_file)
    return engine


def engine_of(network: Network) -> Callable[[Mapping[str, Any]], dict[str, torch.Tensor]]:
    """Builds a network (without TF32, so that float32 is exact) and returns a function that runs it.

    The function takes feeds by name and returns torch tensors on the CPU. Raises BackendError where there is no GPU,
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

    Outputs are of the kind of the inputs: numpy arrays, torch tensors on the CPU, torch tensors on the GPU (on torch's
    current stream, without waiting), or, for any other array on the GPU, :class:`~trtdsl.arrays.DeviceArray`. Threads
    may share an engine: each run takes an execution context from a pool that grows as needed. ``how`` has the arguments
    of :func:`load_engine` from ``runtime_cache`` on that are not about weights.
    """

    def __init__(
        self,
        data: bytes,
        *,
        backend: str | Backend | None = None,
        device: int = 0,
        manifest: Manifest | None = None,
        header: Header | None = None,
        **how: Any,
    ):
        cuda.require_device()
        self.backend = backend if isinstance(backend, Backend) else get_backend(backend)
        self.device, self.manifest = as_argument("device", device, int), manifest
        with cuda.on_device(self.device):
            header = header or loader.read_header(data, "the engine")
            self._loaded = Loaded(data, self.backend, self.device, manifest=manifest, header=header, **how)
        required = manifest.signature.requirements if manifest is not None else ()
        self.signature = replace(self._loaded.signature, requirements=required)
        self._free: list[Context] = []
        self._lock = threading.Lock()  # of the pool
        self._eager = False  # whether new contexts compile for a shape before they run it
        self._has_weights = manifest is None or not manifest.config.strip_weights

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
        out: Mapping[str, Any] | None = None,
        stream: int | None = None,
        profile: int | None = None,
    ) -> dict[str, Any]:
        """The outputs by name for ``feeds`` by name.

        ``outputs`` is ``"numpy"``, ``"torch"`` (CPU), ``"cuda"`` (torch, on the GPU) or ``"device"``, instead of the
        kind of the first feed. ``out`` has arrays of yours by output name, on the GPU or the host: they are written to
        and returned. ``stream`` is a CUDA stream's handle; without one, torch's current stream for torch tensors on the
        GPU, else the engine's own. Outputs on the host, and device outputs without a ``stream``, are complete when this
        returns; others follow in the order of the stream, and the host does not wait. Feeds may be released at once:
        the engine holds them until the GPU is done with them. ``profile`` is by default the first that holds all
        shapes.

        Raises FeedError (of a kind for each way that a feed or an ``out`` does not fit), OutOfMemoryError,
        ExecutionError.
        """
        self._loaded.check_process()
        loader.check_stripped(self.manifest, refitted=self._has_weights)
        check_written(self.manifest.states if self.manifest else {}, by_name(feeds))
        kind, asked = self._placed(feeds, outputs, stream)
        targets = {
            name: target_view(name, array, channels_last=self.signature.lies_channels_last(name))
            for name, array in (out or {}).items()
        }
        check_outputs(self.signature, kind, targets, self.device)
        with cuda.on_device(self.device), self._context() as context:
            reader = context.working_stream(asked)
            views = self.signature.views(feeds, reader)
            index = self.signature.check(views, profile, device=self.device)
            results = context.run(views, kind, asked, index, targets)
        return {name: (out or {}).get(name, results.get(name)) for name in self.signature.outputs}

    def session(self, **sizes: int) -> Session:
        """Runs that hand the network's states (:class:`~trtdsl.State`) to one another, beginning with zeros.

        ``sizes`` are those of the states' dynamic dimensions: ``engine.session(N=4)``. The manifest names the states.

        Raises UsageError for an engine without states, and for sizes that are missing, not the engine's or out of its
        profiles' ranges.
        """
        if self.manifest is None or not self.manifest.states:
            raise UsageError("this engine has no states: declare them as td.State, and load it with its manifest")
        return Session(self.run, self.signature, self.device, self.manifest, sizes)

    def capture(
        self,
        feeds: Mapping[str, Any],
        *,
        outputs: Kind | None = None,
        profile: int | None = None,
        graph: bool = True,
    ) -> Captured:
        """The engine at one set of shapes, as a CUDA graph: call it with feeds of these shapes.

        Inputs are copied into memory of its own; outputs on the GPU are memory of its own, which the next call
        overwrites. ``profile`` and the errors are those of :meth:`run`, with UnsupportedError for outputs whose shapes
        depend on values. Without ``graph`` memory is bound in the same way, and each kernel is launched by itself.
        """
        self._loaded.check_process()
        loader.check_stripped(self.manifest, refitted=self._has_weights)
        kind, _ = self._placed(feeds, outputs, None)
        check_outputs(self.signature, kind, {}, self.device)
        with cuda.on_device(self.device), self._loaded.gate.run():
            return Captured(self._loaded, feeds, kind, profile, graph=graph)

    def warm_up(self, runs: int = 3) -> None:
        """Runs each profile at its best size with zeros, so that nothing is compiled or allocated later.

        From then on TensorRT-RTX compiles for a shape before it first runs it, unless another ``specialization`` was
        asked for. The runtime cache, which is written where there is one, therefore holds all kernels that the runs
        need.
        """
        with self._lock:
            self._eager = True
            self._free.clear()
        for index, profile in enumerate(self.signature.profiles):
            feeds = {
                name: self._shape_value(name, index) if info.on_host else zeros(profile[name][1], info.dtype)
                for name, info in self.signature.inputs.items()
            }
            for _ in range(as_argument("runs", runs, Count)):
                self.run(feeds, outputs="device", profile=index)
        self.save_runtime_cache()

    def refit(
        self,
        weights: Source,
        *,
        network: str | None = None,
        folder: str | os.PathLike[str] = ".",
        trust_network_file: bool = False,
    ) -> None:
        """Puts new weights into an engine that was built with ``refit``, in place.

        ``weights`` is a safetensors file or a mapping with the names of the state_dict, or a file that ``trtdsl weights
        derive`` wrote. The network's own definition derives the engine's values from them. ``network="FILE.py:NAME"``
        names it, or else the manifest, relative to the engine's ``folder``; since a manifest is not trusted, its file
        is run only with ``trust_network_file``. Waits for all runs; runs that threads begin meanwhile wait for it.

        Raises UsageError for an engine that takes no weights, WeightsError that names all weights that do not fit.
        """
        facts = self.manifest.refit if self.manifest is not None else None
        if facts is None:
            raise UsageError("this engine takes no new weights: build it with " + option("refit"))
        values = new_values(
            facts,
            weights,
            backend=self.backend,
            folder=Path(folder),
            network=network,
            trust_network_file=trust_network_file,
        )
        self._loaded.check_process()
        with cuda.on_device(self.device), self._loaded.gate.alone():
            cuda.call("cudaDeviceSynchronize")
            apply(self._loaded.trt, self.backend, values, facts.values)
            with self._lock:
                self._free.clear()  # a context may have captured the old weights
            self._loaded.generation += 1
            self._has_weights = True

    def _shape_value(self, name: str, profile: int) -> np.ndarray:
        """The best value of an input that TensorRT reads as a shape."""
        info = self.signature.inputs[name]
        values = self._loaded.trt.get_tensor_profile_values(profile, name)  # in this order, whatever its signature says
        return np.array(values[1], dtype=info.dtype).reshape(info.shape)

    def _placed(self, feeds: Mapping[str, Any], outputs: str | None, stream: int | None) -> tuple[Kind, int | None]:
        """The kind of the outputs, and the stream in whose order they follow; None for the context's own."""
        kinds = [kind_of(feed) for feed in by_name(feeds).values()]
        if outputs is not None and outputs not in KINDS:
            raise UsageError(f"outputs is one of {', '.join(KINDS)}, not {outputs!r}")
        kind: Any = outputs or (kinds[0] if kinds else "numpy")
        if kind == "cuda" and not torch.cuda.is_available():
            raise BackendError(f"outputs='cuda' needs a torch with CUDA; this is {torch.__version__}")
        if stream is not None and type(stream) is not int:
            stream = as_argument("stream", stream, Count)
        if stream is None and (kind == "cuda" or "cuda" in kinds):
            stream = torch.cuda.current_stream(self.device).cuda_stream
        return kind, stream

    @contextmanager
    def _context(self) -> Iterator[Context]:
        with self._loaded.gate.run():
            with self._lock:
                context = self._free.pop() if self._free else None
                eager = self._eager
            if context is None:
                context = Context(self._loaded, eager=eager)
            try:
                yield context
            finally:
                with self._lock:
                    if not context.broken and eager == self._eager:
                        self._free.append(context)

    def save_runtime_cache(self) -> None:
        """Writes TensorRT-RTX's runtime cache to the file that :func:`load_engine` was given; nothing without one."""
        self._loaded.save_runtime_cache()

    def close(self) -> None:
        """Writes the runtime cache and frees the execution contexts after their work is done."""
        self.save_runtime_cache()
        with self._lock:
            self._free.clear()


class Engines(Engine):
    """Engines of one network, each for some of the sizes: a run takes the first that serves its feeds."""

    def __init__(self, parts: Mapping[str, Engine]):
        self.parts = dict(parts)
        engine = next(iter(self.parts.values()))
        self.backend, self.device, self.manifest = engine.backend, engine.device, None
        first, *others = (part.signature for part in self.parts.values())
        inputs, outputs = (
            {name: _joined([info, *(getattr(each, kind)[name] for each in others)]) for name, info in mine.items()}
            for kind, mine in (("inputs", first.inputs), ("outputs", first.outputs))
        )
        self.signature = Signature(inputs, outputs, (*first.profiles, *(p for each in others for p in each.profiles)))

    def _serving(self, feeds: Mapping[str, Any]) -> Engine:
        """The engine whose ranges hold the feeds. FeedProfileError where none does."""
        views, problems = self.signature.views(by_name(feeds)), list[str]()
        for name, part in self.parts.items():
            try:
                part.signature.check(views, device=self.device)
            except (FeedShapeError, FeedProfileError) as error:
                problems.append(f"{name}: {error.message}")
            else:
                return part
        raise FeedProfileError(f"no one of the {len(problems)} engines serves these sizes ({'; '.join(problems)})")

    def run(self, feeds: Mapping[str, Any], **how: Any) -> dict[str, Any]:
        """As :meth:`Engine.run` of the engine that serves the sizes of the feeds; FeedProfileError where none does."""
        return self._serving(feeds).run(feeds, **how)

    def capture(self, feeds: Mapping[str, Any], **how: Any) -> Captured:
        """As :meth:`Engine.capture` of the engine that serves the sizes of the feeds."""
        return self._serving(feeds).capture(feeds, **how)

    def session(self, **sizes: int) -> Session:
        """UsageError: the runs of a session are of one engine."""
        raise UsageError(f"a session is of one engine: load the one for its sizes, of {', '.join(self.parts)}")

    def warm_up(self, runs: int = 3) -> None:
        """As :meth:`Engine.warm_up`, of each engine."""
        for part in self.parts.values():
            part.warm_up(runs)

    def refit(self, weights: Source, **how: Any) -> None:
        """As :meth:`Engine.refit`, of each engine."""
        for part in self.parts.values():
            part.refit(weights, **how)

    def save_runtime_cache(self) -> None:
        """As :meth:`Engine.save_runtime_cache`, of each engine."""
        for part in self.parts.values():
            part.save_runtime_cache()

    def close(self) -> None:
        """As :meth:`Engine.close`, of each engine."""
        for part in self.parts.values():
            part.close()


def _joined(infos: Sequence[TensorInfo]) -> TensorInfo:
    """What several engines take or give under one name: a size in which they differ is dynamic."""
    sizes = (set(each) for each in zip(*(info.shape for info in infos), strict=True))
    return replace(infos[0], shape=tuple(each.pop() if len(each) == 1 else -1 for each in sizes))
