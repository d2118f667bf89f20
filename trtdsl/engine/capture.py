"""An engine at one set of shapes as a CUDA graph: one launch instead of one per kernel."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..core.errors import UnsupportedError
from . import cuda
from .arrays import Kind, View, view
from .context import Context

if TYPE_CHECKING:
    from .engine import Engine


class Captured:
    """Made by :meth:`Engine.capture`; called with feeds of the shapes that it was captured with.

    TensorRT's work is captured from the stream; TensorRT-RTX keeps the graph itself. Threads take turns.
    """

    def __init__(self, engine: Engine, feeds: Mapping[str, View], kind: Kind, profile: int):
        self.engine, self.kind = engine, kind
        self._shapes = {name: given.shape for name, given in feeds.items()}
        self._lock = threading.Lock()
        self._stream = cuda.Stream()
        self._context = Context(engine, graphs=True)
        handle = self._stream.handle
        self._inputs = {
            name: given.owner if engine.signature.inputs[name].on_host else cuda.Memory(given.size)
            for name, given in feeds.items()
        }
        self._fill(feeds, handle)
        self._sinks = self._context.bind(
            {name: self._bound(name, given) for name, given in feeds.items()}, kind, handle, profile
        )
        unknown = [name for name, sink in self._sinks.items() if sink.shape is None]
        if unknown:
            raise UnsupportedError(f"the shape of output {', '.join(unknown)} depends on values: no graph holds it")
        self._context.execute(handle)  # what is done once for a shape is not part of the graph
        cuda.synchronize(handle)
        self._graph: cuda.Graph | None = None
        if not engine.backend.compiles_where_it_runs:
            with cuda.capture(handle) as captured:
                self._context.execute(handle)
            self._graph = captured[0]

    def _bound(self, name: str, given: View) -> View:
        memory = self._inputs[name]
        if not isinstance(memory, cuda.Memory):
            return given
        return View(memory.pointer, given.shape, given.dtype, self.engine.device, "device", memory)

    def _fill(self, feeds: Mapping[str, View], stream: int) -> None:
        if any(given.kind == "cuda" for given in feeds.values()):
            cuda.wait_for_torch(stream, self.engine.device)
        for name, given in feeds.items():
            memory = self._inputs[name]
            if isinstance(memory, cuda.Memory):
                cuda.copy(memory.pointer, given.pointer, given.size, stream)

    def __call__(self, **feeds: Any) -> dict[str, Any]:
        """Runs the graph; see :meth:`run`."""
        return self.run(feeds)

    @property
    def stream(self) -> int:
        """The handle of the stream that the graph runs on."""
        return self._stream.handle

    def launch(self) -> None:
        """Puts the graph on its stream, on the inputs that are in its memory, and waits for nothing."""
        if self._graph is not None:
            self._graph.launch(self.stream)
        else:
            self._context.execute(self.stream)

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs for feeds of the captured shapes, complete when this returns.

        Outputs on the GPU are overwritten by the next call. Raises FeedError, as :meth:`Engine.run` does, also for
        another shape than was captured.
        """
        engine = self.engine
        cuda.set_device(engine.device)
        views = {name: view(feed, stream=self._stream.handle) for name, feed in feeds.items()}
        engine.signature.check(views, device=engine.device)
        engine.signature.check_shapes(views, self._shapes)
        handle = self._stream.handle
        with self._lock:
            self._fill(views, handle)
            self.launch()
            results = {name: sink.result(complete=True) for name, sink in self._sinks.items()}
            cuda.synchronize(handle)
        return results
