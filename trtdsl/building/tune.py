"""Tuning: the lowerings of a network's calls are tried, and judged by the program that TensorRT's builder makes."""

from __future__ import annotations

import inspect
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ..core.backend import Backend, get_backend
from ..core.cancel import Progress, cancellable, untold
from ..core.errors import CancelledError, UsageError
from ..core.files.held import one_state
from ..core.files.writing import Output, check_writable, write_all_atomically
from ..core.version import __version__
from ..definition.spec.load import NetworkLike
from ..definition.tuning.file import Case, Tuned, Tuning, Variant, default_file, dump, file_bytes, file_kind, loads
from ..definition.weights.source import Source
from ..engine.compiling.config import BuildConfig
from ..functional.lowerings import LOWERINGS
from ..programs.devices import DEFAULT, find_device
from ..sizes.profile import Profile, Range
from .search import Change, Figures, Search, searched

SECONDS = 60.0


@dataclass(frozen=True)
class TuneReport:
    """What :func:`tune` tried and won."""

    network: str
    case: str
    device: str
    calls: int
    """How many can be lowered in several ways."""
    before: Figures
    after: Figures
    changes: tuple[Change, ...]
    untried: tuple[str, ...]
    """What there was no time for."""
    skipped: tuple[str, ...]
    """What cannot be defined or built, or gives other values, and why."""
    builds: int
    seconds: float
    cancelled: bool
    tuning: Tuning = field(repr=False)
    file: Path | None
    """Where it was written; None where nothing was won."""

    def to_json(self) -> dict[str, Any]:
        """Everything as one JSON object."""
        facts = asdict(self)
        del facts["tuning"]
        return {"schema": 1, "kind": "tuning", **facts, "file": None if self.file is None else str(self.file)}


@one_state
def tune(
    source: NetworkLike,
    *,
    seconds: float = SECONDS,
    start: Mapping[str, str] | None = None,
    output: str | Path | None = None,
    weights: Source | None = None,
    dims: Mapping[str, Range] | None = None,
    profiles: Sequence[Profile] | None = None,
    precision: str | None = None,
    backend: str | Backend | None = None,
    config: BuildConfig | None = None,
    allow_nonfinite: bool = False,
    device: str = DEFAULT,
    progress: Progress | None = None,
) -> TuneReport:
    """Finds the lowerings of a network's calls with which its engine moves the fewest bytes, and writes them down.

    Every call that can be lowered in several ways, and whose ``lowering`` the author leaves open, is tried in each:
    all calls of a function together, then those of two functions, those of each line, those of equal operands, and
    each alone. A trial is a network that is defined and built, and is kept where the floor under its time on ``device``
    falls (:func:`floor_of`, at the sizes of the first profile), or at the same floor its bytes, and where the
    interpreter gives the same outputs. No trial begins that would probably end after ``seconds``; Ctrl-C ends the
    search, and what was found until then is kept. What an earlier tuning of the same case found is tried first, so that
    no tuning ends worse than one before it.

    The choices stand in ``output``, by default ``NAME.tuning.json`` beside the weights, or else the network's file, or
    else in the working directory; later definitions take them from there. There is no file where the defaults are best.
    ``start`` has the lowerings to begin with, by function, in the place of the defaults. The other arguments are those
    of :func:`build`.

    Raises what ``spec.define`` and the builder raise for the network as it is, and UsageError for a :class:`Network`,
    which is written already, and for an ``output`` that cannot be written or that is another file than a tuning of
    this network that can be read.
    """
    began = time.perf_counter()
    spec = searched(source, seconds, "tune")
    begin = _start(start or {})
    file = Path(output) if output is not None else default_file(spec.name, spec.weights, spec.file)
    reads = [(what, path) for what, path in spec.reads(weights) if what != "tuning"]
    target = check_writable(file, file_kind(spec.name), reads)
    backend = get_backend(backend) if isinstance(backend, str | None) else backend
    opened = spec.open_weights(weights)
    how: dict[str, Any] = {"weights": opened, "dims": dims, "profiles": profiles, "backend": backend}
    how["precision"] = asked = spec.asked(precision, **how, allow_nonfinite=allow_nonfinite)
    case = spec.case(dims, asked)
    search = Search(
        spec,
        {**how, "allow_nonfinite": allow_nonfinite},
        begin,
        config or BuildConfig(),
        find_device(device).name,
        began + seconds,
        progress or untold,
        _earlier(_held_by(file), spec.name, backend).variant(case),
    )
    cancelled = False
    try:
        with cancellable():
            search.run()
    except CancelledError:
        if search.best is None:
            raise CancelledError("cancelled before the search began; nothing was written") from None
        cancelled = True
    if opened is not None:
        opened.check_unchanged()
    return _report(search, case, target, time.perf_counter() - began, cancelled)


def _start(given: Mapping[str, str]) -> dict[str, str]:
    """The lowerings to start with. UsageError for a function or a lowering that there is not."""
    if not isinstance(given, Mapping):
        raise UsageError(f"start is a dict of lowerings by function, such as {{'prelu': 'layer'}}, not {given!r}")
    for function, way in given.items():
        if function not in LOWERINGS:
            raise UsageError(f"no function {function!r} has several lowerings: these have {', '.join(LOWERINGS)}")
        if way not in LOWERINGS[function]:
            raise UsageError(f"{function} has no lowering {way!r}: it has {', '.join(LOWERINGS[function])}")
    return dict(given)


def _report(search: Search, case: Case, output: Output, seconds: float, cancelled: bool) -> TuneReport:
    """What a search found, written down."""
    best, first = search.best, search.first
    assert best is not None and first is not None
    backend, name = best.network.backend, search.spec.name
    measured = {"device": search.device, "before": asdict(first), "after": asdict(best.figures)}
    variant = Variant.made(case, map(Tuned.of, best.sites), measured)
    tuning, file = _written(output, variant, name, backend, won=any(site.differs for site in best.sites))
    return TuneReport(
        network=name,
        case=str(case),
        device=search.device,
        calls=len(search.open()),
        before=first,
        after=best.figures,
        changes=tuple(search.changes),
        untried=tuple(search.left()),
        skipped=tuple(search.skipped),
        builds=search.builds,
        seconds=seconds,
        cancelled=cancelled,
        tuning=tuning,
        file=file,
    )


def tune_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the options of :func:`build` that a tuning has, too."""
    return {name: value for name, value in options.items() if name in inspect.signature(tune).parameters}


def _held_by(file: Path) -> bytes | None:
    try:
        return file_bytes(file)
    except ValueError:
        return None


def _earlier(data: bytes | None, network: str, backend: Backend) -> Tuning:
    """The tuning of this network that a file holds already; an empty one where there is none, or of other versions."""
    label = f"{backend.name} {backend.version}"
    try:
        tuning = None if data is None else loads(data, "tuning")
    except ValueError:
        tuning = None
    if tuning is None or tuning.stale(network, label):
        return Tuning(network, label, __version__, ())
    return tuning


class _OvertakenError(Exception):
    """Another tuning wrote the file meanwhile."""


def _written(
    output: Output, variant: Variant, network: str, backend: Backend, *, won: bool
) -> tuple[Tuning, Path | None]:
    """The tuning with a case, and its file; where the defaults are best the case leaves it, and a file of no other case
    goes away. What another tuning wrote of its cases meanwhile stays.
    """
    while True:
        before = _held_by(output.path)

        def judge(before: bytes | None = before) -> None:
            if _held_by(output.path) != before:
                raise _OvertakenError

        tuning = _earlier(before, network, backend).including(variant)
        kept = tuning if won else replace(tuning, variants=tuning.variants[:-1])
        with suppress(_OvertakenError):
            write_all_atomically({output: dump(kept) if kept.variants else None}, judge)
            return tuning, output.path if won else None
