"""The search of a tuning: groups of calls are tried in each lowering, and judged by the program that comes out."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.caller import as_number
from ..core.cancel import Progress
from ..core.dtypes import dtype_name
from ..core.errors import CancelledError, TrtdslError, UsageError
from ..core.lazy import torch
from ..definition.network import Network
from ..definition.spec.load import NetworkLike, WrittenSpec, as_spec
from ..definition.spec.spec import NetworkSpec
from ..definition.tuning.choices import Choices, Site, SiteKey
from ..definition.tuning.file import Variant
from ..engine.compiling.compiler import compile_engine
from ..engine.compiling.config import BuildConfig
from ..engine.program import program_of_plan
from ..interpreter.feeds import make_feeds
from ..interpreter.fingerprint import fingerprint
from ..interpreter.interpret import interpret
from ..programs.devices import floor_of
from ..programs.hazards import find_hazards
from ..programs.program import Program
from ..sizes.profile import Profile
from .buildable import refuse_obstacles

GAIN = 1e-3
"""The part of the floor, or of the bytes at the same floor, that a change must save to be kept."""
MEMORY = 1.1
"""A change that asks for more than this times the activation memory at the start is not kept."""
TOLERANCE = {"float32": 1e-3, "float64": 1e-3, "float16": 5e-2, "bfloat16": 0.1}
"""How far outputs may be from those of the lowerings at the start, as a part of their greatest value: wrong lowerings
are to be found here, and what rounding does is for the check."""


@dataclass(frozen=True)
class Figures:
    """What a program costs at the sizes that it is tuned for."""

    launches: int
    bytes: int
    floor_seconds: float
    memory: int
    """Activation memory."""

    def beats(self, other: Figures, gain: float = GAIN) -> bool:
        """Whether the floor is lower, or as low with fewer bytes, or both are the same with fewer launches.

        What differs by less than ``gain``, as a part, is the same.
        """
        mine = (self.floor_seconds, self.bytes, self.launches)
        for value, before in zip(mine, (other.floor_seconds, other.bytes, other.launches), strict=True):
            if abs(value - before) > gain * before:
                return value < before
        return False


def measured(network: Network, device: str, config: BuildConfig | None = None) -> tuple[Program, Figures]:
    """The program of a network, which is built for that, and what it costs. Raises what the builder does."""
    refuse_obstacles(network)
    program = program_of_plan(compile_engine(network, config), network)
    floor = floor_of(program, device).seconds
    return program, Figures(program.launch_count, program.bytes, floor, program.memory)


class Truth:
    """The outputs of a network before it is changed, at sizes that are small."""

    def __init__(self, spec: NetworkSpec, network: Network):
        self.feeds: dict[str, torch.Tensor] = {}
        self.outputs: dict[str, torch.Tensor] = {}
        self.reason = ""
        """Why there are none, and nothing is compared."""
        profile = network.profiles[0] if network.profiles else Profile()
        small = {n: max(profile.at("min")[n], min(size, 9)) for n, size in profile.at("opt").items()}
        for sizes in (small, profile.at("opt")):
            try:
                self.feeds = make_feeds(spec.inputs, network, sizes, torch.Generator().manual_seed(0))
                self.outputs, self.reason = interpret(network, self.feeds), ""
                return
            except TrtdslError as error:
                self.reason = error.message.splitlines()[0]

    def difference(self, network: Network) -> str:
        """What is different in a changed network, rounding aside; empty where nothing is."""
        got = interpret(network, self.feeds) if self.outputs else {}
        for name, truth in self.outputs.items():
            if not _close(got[name], truth, network.precision or truth.dtype):
                return f"the output {name!r} has other values"
        return ""


@dataclass(frozen=True)
class Change:
    """Calls of one function that were lowered otherwise, and what the whole network costs before and after."""

    function: str
    places: tuple[str, ...]
    """The author's lines."""
    calls: int
    before: str
    after: str
    figures: tuple[Figures, Figures]


@dataclass(frozen=True)
class Trial:
    """A network with its choices, as it was measured."""

    network: Network
    choices: dict[SiteKey, str]
    figures: Figures

    @property
    def sites(self) -> list[Site]:
        """The calls with a choice."""
        return self.network.choices.sites


@dataclass(frozen=True)
class Group:
    """Calls that are tried together."""

    label: str
    sites: tuple[Site, ...]

    @property
    def keys(self) -> frozenset[SiteKey]:
        return frozenset(site.key for site in self.sites)

    @property
    def ways(self) -> list[str]:
        """The lowerings that some of the calls may have."""
        return list(dict.fromkeys(way for site in self.sites for way in site.ways))

    @property
    def others(self) -> list[str]:
        """Those of them that not all the calls have."""
        return [way for way in self.ways if any(site.lowering != way for site in self.sites)]


PAIRS = 16
"""The most trials of two functions that change together: more would leave no time for the rest."""
LEVELS: tuple[Callable[[Site], tuple[Any, ...]], ...] = (
    lambda site: (site.key.function, site.key.operation),
    lambda site: (site.key.function, site.key.operation, site.location),
    lambda site: (site.key.function, site.key.operation, site.operands),
    lambda site: (site.key,),
)
"""What calls have in common that are tried together, from the most to the fewest."""


def searched(source: NetworkLike, seconds: float, what: str) -> NetworkSpec:
    """The spec of a network that is to be defined again and again. UsageError for one that is written already, and for
    no time."""
    spec = as_spec(source)
    if isinstance(spec, WrittenSpec):
        raise UsageError(f"the network {spec.name!r} is written already: {what} the spec or the file that makes it")
    if not (as_number(seconds) or 0) > 0:
        raise UsageError(f"a search takes more than 0 seconds, not {seconds!r}")
    return spec


class Search:
    """The greedy search of :func:`tune`: ``best`` is what was found so far."""

    def __init__(
        self,
        spec: NetworkSpec,
        how: Mapping[str, Any],
        start: dict[str, str],
        config: BuildConfig,
        device: str,
        deadline: float,
        tell: Progress,
        earlier: Variant | None = None,
    ):
        self.spec, self.how, self.start, self.config, self.device = spec, how, start, config, device
        self.began, self.deadline, self.tell, self.earlier = time.perf_counter(), deadline, tell, earlier
        self.best: Trial | None = None
        self.first: Figures | None = None
        self.changes: list[Change] = []
        self.untried: list[list[str]] = [[] for _ in LEVELS]
        self.skipped: list[str] = []
        self.builds = 0
        self._known: dict[str, Figures] = {}
        self._tried: dict[frozenset[tuple[SiteKey, str]], int] = {}  # with the number of changes before each
        self._lasted: list[float] = []  # each trial's seconds
        self._weights: dict[str, int] = {}  # bytes of the lines, twice where they are only rearranged or a hazard
        self._truth: Truth | None = None

    def open(self) -> list[Site]:
        """The calls that have a choice."""
        assert self.best is not None
        return [site for site in self.best.sites if site.open]

    def left(self) -> list[str]:
        """What there was no time for: by function and line, and how many parts of these."""
        parts = sum(map(len, self.untried[2:]))
        some = [f"{parts} more of calls with equal operands, or of single calls"] if parts else []
        return list(dict.fromkeys([*self.untried[0], *self.untried[1]])) + some

    def run(self) -> None:
        """Tries every group of calls in every lowering, as long as there is time."""
        self._say("as it is")
        trial = self._trial({})
        self.first = trial.figures
        self.best = self._as_earlier(trial)
        for level, common in enumerate(LEVELS):
            changes = -1
            while changes != len(self.changes):  # a change may make another one better
                changes = len(self.changes)
                for group in self._groups(common):
                    for way in group.ways:
                        self._try([(group, way)], level)
                if level == 0:
                    self._try_pairs(list(self._groups(common)))
        self.tell("tuning", 1, 1)

    def _as_earlier(self, first: Trial) -> Trial:
        """The network as an earlier tuning has it, where that is better than ``first``: a tuning loses nothing."""
        if self.earlier is None:
            return first
        label = "what was found earlier"
        self._say(label)
        try:
            trial = self._trial(self.earlier.choices())
            best = self.earlier.difference(trial.sites) is None and trial.figures.beats(first.figures)
            if not best or self._asks_too_much(trial, label) or not self._gives_the_same(trial.network, label):
                return first
        except CancelledError:
            raise
        except TrtdslError as error:  # the network was edited since
            self._skip(label, error.message)
            return first
        moved: dict[tuple[str, str], list[Site]] = {}
        for site, now in zip(first.sites, trial.sites, strict=True):
            if now.lowering != site.lowering:
                moved.setdefault((site.key.function, now.lowering), []).append(site)
        self.changes = [_change(sites, way, first.figures, trial.figures) for (_, way), sites in moved.items()]
        return trial

    def _asks_too_much(self, trial: Trial, label: str) -> bool:
        """Whether it takes too much memory, which is noted."""
        if trial.figures.memory <= MEMORY * max(self._first.memory, 1):
            return False
        self._skip(label, f"it asks for {trial.figures.memory} bytes of memory instead of {self._first.memory}")
        return True

    def _try_pairs(self, groups: Sequence[Group]) -> None:
        """Tries what helps only together: all calls of two functions in another way each."""
        pairs = [
            [(one, first), (two, second)]
            for one, two in itertools.combinations(groups, 2)
            for first, second in itertools.product(one.others, two.others)
        ]
        for pair in pairs[:PAIRS]:
            self._try(pair, 0)

    def _groups(self, common: Callable[[Site], tuple[Any, ...]]) -> Iterator[Group]:
        """The groups of the calls that agree in what is common, those whose lines move and waste most bytes first."""
        groups: dict[tuple[Any, ...], list[Site]] = {}
        for site in self.open():
            groups.setdefault(common(site), []).append(site)
        for sites in sorted(
            groups.values(), key=lambda sites: -sum(self._weights.get(line, 0) for line in _lines(sites))
        ):
            yield Group(_label(sites), tuple(sites))

    def _try(self, wanted: Sequence[tuple[Group, str]], level: int) -> None:
        """Builds the network with each group's calls lowered in one way, and keeps that where it is better."""
        best = self.best
        assert best is not None
        parts = [
            ([site for site in best.sites if site.key in keys and way in site.ways and site.lowering != way], way)
            for group, way in wanted
            for keys in (group.keys,)
        ]
        known = frozenset((site.key, way) for moved, way in parts for site in moved)
        if not all(moved for moved, _ in parts) or self._tried.get(known) == len(self.changes):
            return
        label = " with ".join(f"{_label(moved)} as {way!r}" for moved, way in parts)
        if time.perf_counter() + self._expected > self.deadline:
            if known not in self._tried:
                self.untried[level].append(label)
            return
        self._tried[known] = len(self.changes)
        self._say(label)
        try:
            trial = self._trial({**best.choices, **dict(known)})
            heavy = self._asks_too_much(trial, label)
            if not heavy and trial.figures.beats(best.figures) and self._gives_the_same(trial.network, label):
                self.changes += [_change(moved, way, best.figures, trial.figures) for moved, way in parts]
                self.best = trial
        except CancelledError:
            raise
        except TrtdslError as error:
            self._skip(label, error.message)

    def _say(self, label: str) -> None:
        """How many of the seconds that it has are over."""
        whole = max(int(self.deadline - self.began), 1)
        self.tell(
            f"tuning (engine {self.builds + 1}: {label})", min(int(time.perf_counter() - self.began), whole - 1), whole
        )

    @property
    def _expected(self) -> float:
        """How long a trial takes: as the longest of the last ones. The very first loads the builder, too."""
        return max((self._lasted[1:] or self._lasted)[-4:], default=0.0)

    @property
    def _first(self) -> Figures:
        assert self.first is not None
        return self.first

    def _skip(self, label: str, reason: str) -> None:
        self.skipped.append(f"{label}: {reason.splitlines()[0]}")

    def _trial(self, choices: dict[SiteKey, str]) -> Trial:
        """The network with these choices, and what its program costs; built only where no equal one was."""
        began = time.perf_counter()
        network = self.spec.tuned(Choices(choices, start=self.start)).define(**self.how)
        known = fingerprint(network.definition, network.backend, values=False)
        if known not in self._known:
            program, self._known[known] = measured(network, self.device, self.config)
            self.builds += 1
            self._weights = self._weights or _weights(program)
        self._lasted.append(time.perf_counter() - began)
        return Trial(network, choices, self._known[known])

    def _gives_the_same(self, network: Network, label: str) -> bool:
        """Whether the interpreter gives the outputs of the network as it was at the start, rounding aside."""
        if self._truth is None:
            self._truth = Truth(self.spec, self.spec.tuned(Choices({}, start=self.start)).define(**self.how))
            if reason := self._truth.reason:
                self.skipped.append(f"the comparison of outputs, since the network cannot be interpreted: {reason}")
        different = self._truth.difference(network)
        if different:
            self._skip(label, different)
        return not different


def _close(got: torch.Tensor, wanted: torch.Tensor, dtype: torch.dtype) -> bool:
    """Whether two outputs are equal but for what rounding does."""
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return False
    if not wanted.dtype.is_floating_point:
        return bool((got == wanted).double().mean() > 0.99) if wanted.numel() else True
    got, wanted = got.double(), wanted.double()
    if not torch.equal(got.isfinite(), wanted.isfinite()):
        return False
    finite = wanted.isfinite()
    scale = float(wanted[finite].abs().max()) if bool(finite.any()) else 0.0
    limit = TOLERANCE.get(dtype_name(dtype), 1e-3) * max(scale, 1e-6)
    return bool((got - wanted)[finite].abs().le(limit).all())


def _weights(program: Program) -> dict[str, int]:
    """The bytes of each of the author's lines, and those of its hazards once more: these may be saved."""
    weights = Counter({share.name: share.bytes for share in program.by("line")})
    for hazard in find_hazards(program):
        weights[hazard.line] += hazard.bytes
    return weights


def _lines(sites: Iterable[Site]) -> list[str]:
    """The author's lines of some calls, as a program names them."""
    return list(dict.fromkeys(site.location.short for site in sites))


def _label(sites: Sequence[Site]) -> str:
    """Some calls in a few words."""
    lines = _lines(sites)
    shown = ", ".join(lines[:2]) + (f" and {len(lines) - 2} lines more" if len(lines) > 2 else "")
    return f"{sites[0].key.function}{f' ×{len(sites)}' if len(sites) > 1 else ''} at {shown}"


def _change(sites: Sequence[Site], way: str, before: Figures, after: Figures) -> Change:
    ways = ", ".join(dict.fromkeys(site.lowering for site in sites))
    return Change(sites[0].key.function, tuple(_lines(sites)), len(sites), ways, way, (before, after))
