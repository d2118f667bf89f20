"""What goes into an engine and comes out: names, dtypes, shapes, profiles; and whether feeds fit them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.caller import as_argument
from ...core.errors import (
    FeedDtypeError,
    FeedNameError,
    FeedPlaceError,
    FeedProfileError,
    FeedRankError,
    FeedShapeError,
)
from ..arrays import View, view
from .requirements import Requirement

Shapes = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]  # at min, opt and max


@dataclass(frozen=True)
class TensorInfo:
    """An input or output of an engine; a dynamic size is -1."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    on_host: bool = False
    """Whether TensorRT reads it on the CPU: the value of a shape."""
    alias: str | None = None
    """Of an output: the input in whose memory TensorRT writes it."""

    channels_last: bool = False
    """Whether (N, C, H, W) lies in memory as (N, H, W, C), and (N, C, D, H, W) as (N, D, H, W, C)."""

    def __str__(self) -> str:
        sizes = ", ".join("?" if size < 0 else str(size) for size in self.shape)
        return f"{self.name}: {self.dtype} ({sizes}){', channels last' if self.channels_last else ''}"


@dataclass(frozen=True)
class Signature:
    """All inputs and outputs, and per optimization profile the range of every dynamic input."""

    inputs: dict[str, TensorInfo]
    outputs: dict[str, TensorInfo]
    profiles: tuple[dict[str, Shapes], ...]
    requirements: tuple[Requirement, ...] = ()
    """What the sizes of the inputs must fulfil besides, from the manifest."""

    def __str__(self) -> str:
        return f"{', '.join(map(str, self.inputs.values()))} -> {', '.join(map(str, self.outputs.values()))}"

    def views(self, feeds: Mapping[str, Any], stream: int | None = None) -> dict[str, View]:
        """The memory of feeds, as the inputs lie. Raises FeedError, as :func:`view` does."""
        return {
            name: view(feed, stream=stream, channels_last=self.lies_channels_last(name)) for name, feed in feeds.items()
        }

    def lies_channels_last(self, name: str) -> bool:
        """Whether there is such an input or output, and it lies so."""
        info = self.inputs.get(name) or self.outputs.get(name)
        return info is not None and info.channels_last

    def check(self, feeds: Mapping[str, View], profile: int | None = None, device: int | None = None) -> int:
        """The profile that serves these feeds: the given one, or the first whose ranges hold all shapes.

        ``device`` is the index of the engine's GPU. Raises FeedNameError for a missing or unknown input,
        FeedDtypeError, FeedRankError, FeedShapeError, FeedPlaceError for one on another GPU, and FeedProfileError for a
        shape outside every profile, or one that does not fulfil what is required; each says what was expected.
        """
        self._check_names(feeds)
        for name, given in feeds.items():
            self._check_feed(self.inputs[name], given)
            self._check_place(self.inputs[name], given, device)
        shapes = {name: given.shape for name, given in feeds.items()}
        candidates: Sequence[int] = range(len(self.profiles)) if profile is None else (profile,)
        if profile is not None and not 0 <= as_argument("profile", profile, int) < len(self.profiles):
            raise FeedProfileError(f"there is no profile {profile}: the engine has {len(self.profiles)}")
        for index in candidates:
            if not self._outside(index, shapes):
                self.check_requirements(shapes)
                return index
        raise FeedProfileError(
            "; ".join(line for index in candidates for line in self._outside(index, shapes))
            + ("" if len(candidates) == 1 else f": no one of the {len(candidates)} profiles holds these shapes")
        )

    @staticmethod
    def check_shapes(feeds: Mapping[str, View], shapes: Mapping[str, tuple[int, ...]]) -> None:
        """FeedShapeError when a feed has not exactly the shape it had when the engine was captured."""
        for name, given in feeds.items():
            if given.shape != shapes[name]:
                raise FeedShapeError(
                    f"input {name!r} was captured with shape {shapes[name]}, and {given.shape} was fed"
                )

    def check_requirements(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """FeedProfileError for sizes that the network's author excludes."""
        for requirement in self.requirements:
            problem = requirement.failure(shapes)
            if problem is not None:
                raise FeedProfileError(problem)

    def _check_names(self, feeds: Mapping[str, View]) -> None:
        missing = [name for name in self.inputs if name not in feeds]
        unknown = [name for name in feeds if name not in self.inputs]
        if missing or unknown:
            problems = [f"input {name!r} is missing" for name in missing]
            problems += [f"there is no input {name!r}" for name in unknown]
            expected = ", ".join(map(str, self.inputs.values())) or "none"
            raise FeedNameError(f"{'; '.join(problems)}. The inputs are {expected}")

    def _check_feed(self, info: TensorInfo, view: View) -> None:
        if view.dtype != info.dtype:
            raise FeedDtypeError(f"input {info.name!r} must be {info.dtype}, and {view.dtype} was fed")
        if len(view.shape) != len(info.shape):
            raise FeedRankError(
                f"input {info} has {len(info.shape)} dimensions, and {len(view.shape)} were fed: {view.shape}"
            )
        for axis, (wanted, got) in enumerate(zip(info.shape, view.shape, strict=True)):
            if wanted >= 0 and wanted != got:
                raise FeedShapeError(f"dimension {axis} of input {info} must be {wanted}, and {got} was fed")

    def _check_place(self, info: TensorInfo, view: View, device: int | None) -> None:
        if info.on_host and view.device is not None:
            raise FeedPlaceError(f"input {info} is the value of a shape, read on the CPU: feed it from there")
        if device is not None and view.device is not None and view.device != device:
            raise FeedPlaceError(f"input {info.name!r} is on cuda:{view.device}, the engine on cuda:{device}")

    def _outside(self, index: int, shapes: Mapping[str, tuple[int, ...]]) -> list[str]:
        lines = []
        for name, (low, _, high) in self.profiles[index].items():
            for axis, got in enumerate(shapes[name]):
                if not low[axis] <= got <= high[axis]:
                    which = f" in profile {index}" if len(self.profiles) > 1 else ""
                    lines.append(
                        f"dimension {axis} of input {name!r} is {got}, and the engine serves {low[axis]} to "
                        f"{high[axis]}{which}"
                    )
        return lines
