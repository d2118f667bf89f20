"""Two engines compared by evaluating both on the CPU: whether they give the same, and where they part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import torch

from ...core.dtypes import as_dtype
from ...core.errors import FeedError, UsageError, noted
from ...core.files.names import is_file
from ...core.files.writing import finite
from ...definition.input import Input
from ...definition.network import Network
from ...definition.spec.load import NetworkLike, load_spec
from ...definition.spec.spec import NetworkSpec
from ...interpreter.feeds import draw_feeds, note_of_files, read_array
from ..loading.manifest import Manifest, manifest_path, read_manifest
from ..program import given_of_manifest
from .evaluate import evaluator_of
from .trace import ROOM, Trace, by_line, first_unlike

SINGLE = 1e-4
"""What an output may be off by, of its scale, where both compute in float32."""


@dataclass(frozen=True)
class OutputDifference:
    """One output of both: how far they are apart."""

    name: str
    greatest: float
    scale: float
    """The greatest value in the first one's."""
    differ: int
    """Elements that are not the same bits."""
    equal: bool


@dataclass(frozen=True)
class RunComparison:
    """What :func:`compare_runs` found."""

    before: str
    after: str
    shapes: dict[str, tuple[int, ...]]
    """Of what was fed."""
    room: float
    """What an output may be off by, of its scale, at the coarser precision of the two."""
    outputs: tuple[OutputDifference, ...]
    parting: str | None
    """The first launch of the second one whose result no launch of the first has at its lines."""

    @property
    def equal(self) -> bool:
        """Whether every output is the same, within the room."""
        return all(output.equal for output in self.outputs)

    def to_json(self) -> dict[str, Any]:
        """As one JSON object."""
        return finite({"schema": 1, "kind": "run comparison", "equal": self.equal, **asdict(self)})


def compare_runs(
    before: NetworkLike,
    after: NetworkLike,
    *,
    feeds: Mapping[str, Any] | None = None,
    samples: Mapping[str, tuple[float, float]] | None = None,
    dims: Mapping[str, int] | None = None,
    profile: int = 0,
    precision: str | None = None,
    seed: int = 0,
    trust: bool = False,
) -> RunComparison:
    """Evaluates two engines on the same feeds, and says whether they give the same and where they part.

    ``before`` and ``after`` are engines of one network (files, or networks that are built here): of another version,
    precision, tuning or GPU. ``feeds`` are arrays or .npy files by input; without them, they are drawn as the network's
    inputs say, or normal; ``samples`` are ranges of inputs that say nothing, such as integers of an engine's.
    ``dims`` are sizes of the dynamic dimensions, by default those that the ``profile`` is tuned for. ``precision`` is
    that of networks that are built here. ``trust`` is that of :func:`evaluate_engine`.

    Raises UsageError for inputs that differ or cannot be drawn, and as :func:`evaluate_engine`.

    >>> def double(x):
    ...     return x + x
    >>> one = td.network(inputs={"x": td.Input((2, 3))})(double)
    >>> compare_runs(one, one).equal
    True
    """
    sides = [_Side(source, profile, precision, trust) for source in (before, after)]
    inputs = [side.inputs for side in sides if side.inputs]
    if len(inputs) == 2 and inputs[0].keys() != inputs[1].keys():
        raise UsageError(
            f"they are no engines of one network: inputs {', '.join(inputs[0])}, and {', '.join(inputs[1])}"
        )
    given = _given(feeds) if feeds is not None else _drawn(sides, samples or {}, dims or {}, seed)
    with noted(FeedError, note_of_files(feeds or {})):
        found = [side.evaluate(given) for side in sides]
    if found[0].keys() != found[1].keys():
        raise UsageError(
            f"they are no engines of one network: outputs {', '.join(found[0])}, and {', '.join(found[1])}"
        )
    room = max(side.room for side in sides)
    outputs = tuple(_compared(name, value, found[1][name], room) for name, value in found[0].items())
    parting = None if all(output.equal for output in outputs) else _parting(sides, given)
    shapes = {name: tuple(feed.shape) for name, feed in given.items()}
    return RunComparison(sides[0].label, sides[1].label, shapes, room, outputs, parting)


class _Side:
    """One of the two, ready to be evaluated."""

    def __init__(self, source: NetworkLike, profile: int, precision: str | None, trust: bool):
        self.spec: NetworkSpec | None = None
        self.manifest: Manifest | None = None
        self.network: Network | None = None
        self.profile, self.trace, self.room = profile, Trace(), SINGLE
        if isinstance(source, (str, PathLike)) and ".py" in Path(source).name:
            source = load_spec(str(source))
        if isinstance(source, NetworkSpec):
            self.spec, source = source, source.define(precision=precision)
        if isinstance(source, Network):
            self.network, self.label = source, source.name
        else:
            path = Path(source)
            self.label = path.name
            self.manifest = read_manifest(path) if is_file(manifest_path(path)) else None
        self.evaluate = evaluator_of(source, profile=profile, trust=trust, observe=self._observe)

    def _observe(self, step: Any, results: Mapping[str, torch.Tensor]) -> None:
        self.room = max([self.room, *(ROOM.get(result.dtype, 0.0) for result in results.values())])
        self.trace(step, results)

    @property
    def inputs(self) -> dict[str, Input]:
        """The inputs, as far as they are known; what to draw is known of a network in a file."""
        if self.spec is not None:
            return dict(self.spec.inputs)
        if self.network is not None:
            return {name: Input(tensor.shape, tensor.dtype) for name, tensor in self.network.inputs.items()}
        entries = self.manifest.inputs if self.manifest is not None else {}
        return {name: Input((), entry.dtype) for name, entry in entries.items()}

    def shapes(self, dims: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """The shapes of the inputs at these sizes, and those that the profile is tuned for."""
        if self.manifest is not None:
            found = given_of_manifest(self.manifest, dims, self.profile).shapes
            return {name: tuple(shape) for name, shape in found.items()}
        if self.network is None:
            return {}
        profiles = self.network.profiles
        tuned = profiles[self.profile].at("opt") if profiles else {}
        return {name: self.network.input_shape(name, {**tuned, **dims}) for name in self.network.inputs}


def _drawn(
    sides: Sequence[_Side], samples: Mapping[str, tuple[float, float]], dims: Mapping[str, int], seed: int
) -> dict[str, torch.Tensor]:
    known = sorted((side for side in sides if side.inputs), key=lambda side: side.spec is None)
    if not known:
        raise UsageError("neither engine has a manifest that says what to feed it: give feeds")
    inputs, shapes = known[0].inputs, known[0].shapes(dims)
    unknown = [name for name in samples if name not in inputs]
    if unknown:
        raise UsageError(f"there is no input {unknown[0]!r}: there are {', '.join(inputs)}")
    drawn = {
        name: replace(each, shape=shapes[name], sample=samples.get(name, each.sample)) for name, each in inputs.items()
    }
    return draw_feeds(drawn, {}, torch.Generator().manual_seed(seed))


def _given(feeds: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    arrays = {
        name: read_array(name, feed) if isinstance(feed, (str, PathLike)) else feed for name, feed in feeds.items()
    }
    return {name: torch.as_tensor(array).detach().cpu() for name, array in arrays.items()}


def _compared(name: str, before: torch.Tensor, after: torch.Tensor, room: float) -> OutputDifference:
    if before.shape != after.shape:
        raise UsageError(
            f"they are no engines of one network: {name} is {tuple(before.shape)}, and {tuple(after.shape)}"
        )
    a, b = before.double(), after.double()
    same = (a == b) | (a.isnan() & b.isnan())
    apart = (a - b).abs().masked_fill(same, 0.0)
    greatest = float(apart.max()) if apart.numel() else 0.0
    finite = a.masked_fill(~a.isfinite(), 0.0).abs()
    scale = float(finite.max()) if finite.numel() else 0.0
    counts = as_dtype(before.dtype).is_floating_point
    return OutputDifference(name, greatest, scale, int((~same).sum()), greatest <= (room * scale if counts else 0.0))


def _parting(sides: Sequence[_Side], given: Mapping[str, torch.Tensor]) -> str | None:
    with sides[0].trace.kept() as steps:
        sides[0].evaluate(given)
        known = by_line(steps)
    with sides[1].trace.kept() as steps:
        sides[1].evaluate(given)
        found = first_unlike(steps, known)
    return None if found is None else f"{str(found[0]).removesuffix(',')}, in {found[1]}"
