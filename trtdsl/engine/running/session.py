"""An engine with states: what a run leaves in them on the GPU is what the next run begins with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

from msgspec import Meta

from ...core.caller import as_argument
from ...core.errors import FeedNameError, FeedShapeError, UsageError
from ...interpreter.feeds import by_name
from ...sizes.dim import Dim
from ...sizes.shape import shape_text
from ...sizes.size import Size, value
from .. import cuda
from ..arrays import DeviceArray, Kind, to_device, view, zeros
from ..loading.manifest import Manifest
from ..loading.signature import Signature


def state_shapes(manifest: Manifest, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The shapes of an engine's states where the dimensions have these sizes. UsageError for others than theirs."""
    from ...programs.handed import parse_size  # loaded for this alone

    dims = {name: Dim(name) for profile in manifest.profiles for name in profile.dims}
    shapes = {
        name: [parse_size(size, dims) if isinstance(size, str) else size for size in manifest.inputs[name].shape]
        for name in manifest.states
    }
    open_sizes = [size for shape in shapes.values() for size in shape if isinstance(size, Size)]
    wanted = {str(atom) for size in open_sizes for atom in size.atoms()}
    if wanted != sizes.keys():
        names = ", ".join(sorted(wanted)) or "no sizes"
        raise UsageError(f"the states need {names}, and {', '.join(sizes) or 'none'} were given")
    given = {}
    for name, size in sizes.items():
        lows, _, highs = zip(*(profile.dims[name] for profile in manifest.profiles))
        given[name] = as_argument(name, size, Annotated[int, Meta(ge=min(lows), le=max(highs))])
    return {name: tuple(value(size, given) for size in shape) for name, shape in shapes.items()}


class Session:
    """Runs of an engine that hand states to one another, made by :meth:`Engine.session`.

    A state begins with zeros and lies on the GPU. TensorRT writes it in place where it can; otherwise there are two
    buffers, which take turns. One run at a time: sessions of one engine are independent of each other.
    """

    def __init__(
        self,
        run: Callable[..., dict[str, Any]],
        signature: Signature,
        device: int,
        manifest: Manifest,
        sizes: Mapping[str, int],
    ):
        self._run, self._signature, self._device, self._manifest = run, signature, device, manifest
        self._sizes, self._shapes = dict(sizes), state_shapes(manifest, sizes)
        self._outputs = dict(manifest.states)
        self._lock = threading.Lock()
        self.states: dict[str, DeviceArray] = {}
        """By the names of the inputs, as they are after the last run: read one with ``.numpy()``."""
        self._spare: dict[str, DeviceArray] = {}
        self.reset()

    def reset(self) -> None:
        """Zeros in every state."""
        with self._turn():
            self.states = {name: self._zeros(name) for name in self._outputs}
            outputs = self._signature.outputs
            doubled = [name for name, output in self._outputs.items() if outputs[output].alias != name]
            self._spare = {name: self._zeros(name) for name in doubled}

    def run(
        self,
        feeds: Mapping[str, Any],
        *,
        outputs: Kind | None = None,
        stream: int | None = None,
        profile: int | None = None,
    ) -> dict[str, Any]:
        """The outputs that are no states, for the inputs that are none; the arguments are those of :meth:`Engine.run`.

        Raises UsageError where another run of this session has not returned, FeedNameError for a state that is fed,
        and what :meth:`Engine.run` raises; the states are then those after the last run that returned, unless TensorRT
        failed while it wrote them in place.
        """
        for name, feed in by_name(feeds).items():
            if name in self._outputs:
                raise FeedNameError(f"{name} is a state, which the session feeds: reset() begins anew")
            if name in self._manifest.inputs:
                self._check_sizes(name, getattr(feed, "shape", ()))
        with self._turn():
            after = {name: self._spare.get(name, state) for name, state in self.states.items()}
            into = {output: after[name] for name, output in self._outputs.items()}
            found = self._run(
                {**feeds, **self.states}, outputs=outputs or "numpy", out=into, stream=stream, profile=profile
            )
            self._spare = {name: self.states[name] for name in self._spare}
            self.states = {
                name: DeviceArray(state.memory, state.shape, state.dtype, state.device, stream)
                for name, state in after.items()
            }
        return {name: value for name, value in found.items() if name not in into}

    def fork(self, rows: Sequence[int]) -> Session:
        """Another session whose states have these rows of this one's, along the first dimension: beams, or a batch
        without the sequences that have ended.

        Raises FeedShapeError for a row that is not there, for more or fewer rows than the engine serves, and where the
        states have no first dimension in common.
        """
        firsts = {self._manifest.inputs[name].shape[:1] for name in self._shapes}
        if len(firsts) != 1 or () in firsts:
            raise FeedShapeError("these states have no first dimension in common: there are no rows to choose from")
        ((first,),), count = firsts, next(iter(self._shapes.values()))[0]
        chosen = as_argument("rows", rows, list[int], FeedShapeError)
        if not chosen or not all(0 <= row < count for row in chosen):
            raise FeedShapeError(f"the states have rows 0 to {count - 1}, not {chosen}")
        if first not in self._sizes and len(chosen) != count:
            raise FeedShapeError(f"the engine has states of {count} rows, no fewer and no more, not {len(chosen)}")
        sizes = {name: len(chosen) if name == first else size for name, size in self._sizes.items()}
        made = Session(self._run, self._signature, self._device, self._manifest, sizes)
        with self._turn(), cuda.on_device(self._device):
            stream = cuda.Stream()
            for name, state in self.states.items():
                source, target = view(state, stream=stream.handle), made.states[name].memory.pointer
                if source.ready is not None:
                    cuda.order(source.ready, stream.handle)
                size = source.size // count
                for place, row in enumerate(chosen):
                    cuda.copy(target + place * size, source.pointer + row * size, size, stream.handle)
            cuda.synchronize(stream.handle)
        return made

    def __repr__(self) -> str:
        return f"Session({', '.join(f'{name} {shape_text(shape)}' for name, shape in self._shapes.items())})"

    def _check_sizes(self, name: str, shape: Sequence[int]) -> None:
        """FeedShapeError for a feed of other sizes than the states have."""
        for size, fed in zip(self._manifest.inputs[name].shape, shape):
            if self._sizes.get(str(size), fed) != fed:
                raise FeedShapeError(
                    f"input {name!r} was fed with {size}={fed}, and the session has states for {size}="
                    f"{self._sizes[str(size)]}"
                )

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if not self._lock.acquire(blocking=False):
            raise UsageError("two runs of one session at a time: make a session for each with engine.session()")
        try:
            yield
        finally:
            self._lock.release()

    def _zeros(self, name: str) -> DeviceArray:
        with cuda.on_device(self._device):
            stream = cuda.Stream()
            value = zeros(self._shapes[name], self._signature.inputs[name].dtype)
            return to_device(value, self._device, stream.handle)
