"""An engine at one set of shapes with its memory bound: enqueued directly or as a CUDA graph."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ...core.errors import FeedShapeError, TrtdslError, UnsupportedError, UsageError
from ...core.lazy import np, torch
from .. import cuda
from ..arrays import Kind, View
from ..loading.loaded import Loaded
from .context import Context


class Captured:
    """An engine captured by :meth:`Engine.capture`; called with feeds of the shapes that it was captured with.

    TensorRT's work is captured from the stream; TensorRT-RTX keeps the graph itself. Threads take turns. Without
    ``graph`` the memory is only bound, and each launch enqueues the engine's kernels one by one.
    """

    def __init__(
        self, loaded: Loaded, feeds: Mapping[str, Any], kind: Kind, profile: int | None, *, graph: bool = True
    ):
        self.loaded, self.kind = loaded, kind
        self._lock = threading.Lock()
        self._context = Context(loaded, graphs=graph, eager=True)
        handle = self._context.stream
        views = loaded.signature.views(feeds, handle)
        index = loaded.signature.check(views, profile, device=loaded.device)
        self._shapes = {name: given.shape for name, given in views.items()}
        self._generation = loaded.generation
        self._values = {name: _values(views[name]) for name, info in loaded.signature.inputs.items() if info.on_host}
        self._inputs = {name: cuda.Memory(given.size) for name, given in views.items() if name not in self._values}
        try:
            self._fill(views, handle)
            bound = {name: self._bound(name, given) for name, given in views.items()}
            seen = torch.cuda.current_stream(loaded.device).cuda_stream if kind == "cuda" else handle
            self._sinks = self._context.bind(bound, kind, handle, index, seen=seen)
            unknown = [name for name, sink in self._sinks.items() if sink.shape is None]
            if unknown:
                raise UnsupportedError(f"the shape of output {', '.join(unknown)} depends on values: no graph holds it")
            if seen != handle:
                cuda.order(seen, handle)
            self._context.execute(handle)  # work that is done once for a shape is not part of the graph
        finally:
            with suppress(TrtdslError):
                cuda.synchronize(handle)  # the feeds may go
        self._graph: cuda.Graph | None = None
        if graph and not loaded.backend.compiles_where_it_runs:
            with cuda.capture(handle) as captured:
                self._context.execute(handle)
            self._graph = captured[0]

    def _bound(self, name: str, given: View) -> View:
        memory = self._inputs.get(name)
        if memory is None:
            array = self._values[name]
            return View(array.ctypes.data, given.shape, given.dtype, None, "numpy", array)
        return View(memory.pointer, given.shape, given.dtype, self.loaded.device, "device", memory)

    def _fill(self, feeds: Mapping[str, View], stream: int) -> None:
        for ready in {given.ready for given in feeds.values() if given.ready is not None}:
            cuda.order(ready, stream)
        for name, memory in self._inputs.items():
            pointer = self._context.addresses.get(name, memory.pointer)  # an output's, where it overwrites the input
            cuda.copy(pointer, feeds[name].pointer, feeds[name].size, stream)

    def __call__(self, **feeds: Any) -> dict[str, Any]:
        """Runs the graph; see :meth:`run`."""
        return self.run(feeds)

    @property
    def stream(self) -> int:
        """The handle of the stream that it runs on."""
        return self._context.stream

    def launch(self) -> None:
        """Enqueues the work on its stream, for the inputs in its memory, without waiting."""
        if self._graph is not None:
            self._graph.launch(self.stream)
        else:
            self._context.execute(self.stream)

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs for feeds of the captured shapes, complete when this returns.

        Outputs on the GPU are overwritten by the next call. Raises FeedError, as :meth:`Engine.run` does, also for
        another shape, or another value of a shape, than was captured; UsageError when the engine got new weights since.
        """
        loaded, handle = self.loaded, self.stream
        loaded.check_process()
        with cuda.on_device(loaded.device), self._lock, loaded.gate.run():
            if loaded.generation != self._generation:
                raise UsageError("the engine got new weights since this was captured: capture it again")
            views = loaded.signature.views(feeds, handle)
            loaded.signature.check(views, device=loaded.device)
            loaded.signature.check_shapes(views, self._shapes)
            self._check_values(views)
            try:
                self._fill(views, handle)
                self.launch()
                results = {name: sink.result(complete=True) for name, sink in self._sinks.items()}
            finally:
                cuda.synchronize(handle)  # also after an error: the feeds may be freed only then
        return results

    def _check_values(self, feeds: Mapping[str, View]) -> None:
        for name, captured in self._values.items():
            got = _values(feeds[name])
            if not np.array_equal(got, captured):
                raise FeedShapeError(
                    f"input {name!r} is the value of a shape: it was captured as {captured.tolist()}, and "
                    f"{got.tolist()} was fed"
                )


def _values(given: View) -> Any:
    """A copy of a host array's values."""
    return np.array(given.owner.numpy() if given.kind == "torch" else given.owner)
