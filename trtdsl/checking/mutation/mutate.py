"""Which changes a check would not see: mutants of a network, judged as the network itself is."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ...core.backend import Backend
from ...core.cancel import Progress, untold
from ...core.errors import Location, MismatchError, TrtdslError, placed
from ...core.lazy import torch
from ...core.tensors.exact import Exact
from ...core.tensors.watched import by_default
from ...definition.network import Network
from ...definition.spec.spec import NetworkSpec
from ...definition.tensor import swapped
from ...definition.weights.source import Source
from ...interpreter.interpret import Interpreter, Step
from ...interpreter.replay import Replay, same
from ...layers.evaluation import KINDS, Evaluate, Node
from ...layers.region import nodes_of
from ...sizes.profile import Profile, Range
from ..check import Planned, Run
from ..judging import limits
from ..judging.equality import alike
from ..judging.evidence import Evidence, Rules, Tolerances
from ..tried_sizes import Sizes, elements
from .mutants import Mutant, mutants, varied

FACTORS = (0.03, 0.3, 1.0, 3.0, 30.0, 1e3, 1e5)  # on weights and inputs, to see whether a change ever has an effect
ORDINARY = 30.0  # values of greater factors may overflow, and then show nothing
FAILING = (TrtdslError, RuntimeError, ArithmeticError, IndexError, TypeError, ValueError)  # of a changed network
MEMORY = 1 << 30  # bytes of intermediate values that a case may keep


@dataclass(frozen=True)
class Survivor:
    """A mutant that passes the check."""

    layer: str
    type: str
    change: str
    location: Location | None
    """The author's line that made the layer."""
    reason: str
    """Whether it is unreached or allowed, or the rule by which it is equivalent."""

    def __str__(self) -> str:
        return placed(self.location, f"layer {self.layer!r} ({self.type.lower()}): {self.change}")


@dataclass(frozen=True)
class MutationReport:
    """What :func:`mutate` found: how many mutants there are, and which pass."""

    network: str
    mutants: int
    caught: int
    cases: int
    survivors: list[Survivor] = field(default_factory=list)
    """The check would not see these."""
    equivalent: list[Survivor] = field(default_factory=list)
    """There is nothing to see: each says by which rule."""
    possible: int = 0
    """How many mutants there are; with a limit, only some of them were tried."""

    @property
    def decidable(self) -> int:
        """The mutants that some check could catch."""
        return self.mutants - len(self.equivalent)

    @property
    def score(self) -> float:
        """The part of the decidable mutants that the check catches."""
        return self.caught / self.decidable if self.decidable else 1.0

    def to_json(self) -> dict[str, Any]:
        """Everything as one JSON object."""
        return {"schema": 1, "kind": "mutation", "score": self.score, **asdict(self)}


UNREACHED = "unreached: no feed shows it in an output"
ALLOWED = "allowed: no output changes by more than the check allows"
SURVIVING = (UNREACHED, ALLOWED)
NOTHING = "in exact arithmetic the outputs stay what they are, with other weights and inputs too"


@by_default
def mutate(
    spec: NetworkSpec,
    *,
    weights: Source | None = None,
    dims: Mapping[str, Range] | None = None,
    profiles: Sequence[Profile] | None = None,
    precision: str | None = None,
    backend: str | Backend | None = None,
    seed: int = 0,
    network: Network | None = None,
    allow_nonfinite: bool = False,
    sizes: Sizes = None,
    tolerance: Tolerances = None,
    leave_out: Sequence[str] = (),
    limit: int | None = None,
    progress: Progress | None = None,
) -> MutationReport:
    """Changes every weight and every layer of a network, one at a time, and says which changes its check would not see.

    The arguments are those of :func:`check`, and so are the feeds and the judgement, at all of its sizes whose
    intermediate values fit into a gigabyte. With ``limit``, that many of the changes are tried, evenly spread over the
    network. ``docs/checking-in-detail.md`` lists the changes, and the rules by which some of them
    cannot be seen at all.

    Raises UsageError when there is no reference, MismatchError where the network itself does not pass.

    >>> class Double(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x + x
    >>> double = td.network(inputs={"x": td.Input(("N", 3))}, reference=Double)(lambda x: x * 2)
    >>> report = mutate(double, dims={"N": (1, 4)})
    >>> report.survivors, report.score
    ([], 1.0)
    """
    if network is None:
        network = spec.define(
            weights=weights,
            dims=dims,
            profiles=profiles,
            precision=precision,
            backend=backend,
            allow_nonfinite=allow_nonfinite,
            exact=True,
        )
    rules = Rules.of_spec(spec, tolerance, leave_out)
    run = Run(spec, network, "interpreter", seed, rules, spec.open_weights(weights))
    return hunt_of(run, sizes).report(limit, progress)


def hunt_of(run: Run, sizes: Sizes = None) -> Hunt:
    """A network with the feeds and the judgement of its check, ready for its mutants; as :func:`mutate`."""
    hunt = Hunt(run.network, run.spec.name)
    run.judged(hunt.chosen(run.drawn_cases(sizes)), lambda planned, evidence: hunt.add(evidence))
    return hunt


class Hunt:
    """A network evaluated once for each case, ready to be evaluated again with one layer changed."""

    def __init__(self, network: Network, name: str):
        self.network, self.name = network, name
        self.exact = network.exact_values()
        with self.exact:
            self.interpreter = Interpreter(network)
        self.cases: list[Evidence] = []
        self.replays: list[Replay] = []
        self.kept: list[tuple[float, Replay]] = []
        self._alike = functools.partial(agree, self.exact)

    def chosen(self, cases: Iterator[Planned]) -> Iterator[Planned]:
        """The cases that there is room for, the smallest ones first, by what they mean."""
        first = next(cases)  # what the reference asks for in it decides what is tried
        yield replace(first, cheaper=("meaning",))
        for each in sorted(cases, key=lambda each: elements(self.network, each.dims)):
            if self.has_room(elements(self.network, each.dims)):
                yield replace(each, cheaper=("meaning",))

    def has_room(self, fed: int) -> bool:
        """Whether the values of a case with this number of elements fit into memory beside those of the other cases."""
        if not self.cases:
            return True
        first = sum(feed.numel() for feed in self.cases[0].feeds.values())
        kept = [replay.bytes for replay in self.replays]
        return sum(kept) + kept[0] * fed / max(first, 1) <= MEMORY

    def add(self, case: Evidence) -> None:
        """Evaluates the network for a case; MismatchError where the unchanged network does not pass."""
        case.exact, self.exact.alone = self.exact, case.alone
        with self.exact:
            replay = Replay(self.interpreter, case.feeds)
        for result in case.compare(self._outputs(replay, {})):
            if not result.passed:
                raise MismatchError(f"{self.name}: output {result.name!r} differs before anything is changed: check it")
        self.cases.append(case)
        self.replays.append(replay)

    def report(self, limit: int | None = None, progress: Progress | None = None) -> MutationReport:
        """Tries every mutant, or a number of them that are evenly spread."""
        changes = list(self.mutants())
        possible = len(changes)
        if limit is not None and limit < possible:
            changes = [changes[index * possible // limit] for index in range(limit)]
        tell, phase = progress or untold, f"changing {len(changes)} things, one at a time"
        survivors, equivalent = [], []
        for number, (place, mutant) in enumerate(changes):
            tell(phase, number, len(changes))
            reason = self.passes(place, mutant)
            if reason is not None:
                node = mutant.node
                passing = Survivor(node.name, node.type, mutant.change, self.network.layers[node.name].location, reason)
                (survivors if reason in SURVIVING else equivalent).append(passing)
        tell(phase, len(changes), len(changes))
        caught = len(changes) - len(survivors) - len(equivalent)
        return MutationReport(self.name, len(changes), caught, len(self.cases), survivors, equivalent, possible)

    def mutants(self) -> Iterator[tuple[int, Mutant]]:
        """Every mutant, with the place of its layer's step among the interpreter's."""
        for place, step in enumerate(self.interpreter.steps):
            for node in nodes_of(step.part):
                for mutant in mutants(node):
                    yield place, mutant

    def passes(self, place: int, mutant: Mutant) -> str | None:
        """Why a mutant passes every case; None for one that is caught."""
        try:
            with self.exact:
                step, inside = self._step(place, mutant)
            changes = []
            for case, replay in zip(self.cases, self.replays, strict=True):
                with self.exact:
                    changed = replay.changed(place, step, inside)
                if changed and not all(each.passed for each in case.compare(self._outputs(replay, changed))):
                    return None
                changes.append(changed)
        except FAILING:
            return None
        pairs = [
            (value, replay.values[replay.outputs[name]])
            for changed, replay in zip(changes, self.replays, strict=True)
            for name, value in changed.items()
        ]
        if not all(self._alike(*pair) for pair in pairs):
            return ALLOWED
        return UNREACHED if any(self._differs(*other, place, step, inside) for other in self._others()) else NOTHING

    def _outputs(self, replay: Replay, changed: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {name: changed.get(name, replay.values[slot]) for name, slot in replay.outputs.items()}

    def _step(self, place: int, mutant: Mutant) -> tuple[Step, tuple[Node, Evaluate] | None]:
        """The step with the changed layer, and for a layer inside of a region its evaluator."""
        step, node = self.interpreter.steps[place], mutant.node
        if step.part is node:
            return replace(step, run=mutant.evaluate()), None
        if node.type in KINDS:
            return step, (node, mutant.evaluate())
        if mutant.instead is not None:
            return step, (node, mutant.around(lambda result: result))
        with swapped(node, layer=mutant.layer or node.layer):  # a region reads its bounds when it is prepared
            return replace(step, run=self.interpreter._step(step.part).run), None

    # -- where there is nothing to see ---------------------------------------------------------------------------------

    def _others(self) -> Iterator[tuple[float, Replay]]:
        """The network with other weights and inputs, and the factor of their sizes; those of small cases are kept."""
        small = [place for place, replay in enumerate(self.replays) if replay.bytes <= MEMORY / 32][-2:]
        if not small and self.replays[0].bytes * len(FACTORS) > 2 * MEMORY:
            return self._made([0])
        small = small or [0]
        if not self.kept:
            fed = sum(feed.numel() for feed in self.cases[small[-1]].feeds.values())
            self.kept = list(self._made(small * min(max(128 // max(fed, 1), 1), 16)))
        return iter(self.kept)

    def _made(self, places: Sequence[int]) -> Iterator[tuple[float, Replay]]:
        generator = torch.Generator().manual_seed(0)
        for factor in FACTORS:
            steps = [self._varied(step, factor, generator) for step in self.interpreter.steps]
            for place in places:
                feeds = {name: _other(feed, factor, generator) for name, feed in self.cases[place].feeds.items()}
                with contextlib.suppress(*FAILING):  # such weights and inputs show nothing
                    with self.exact:
                        other = Replay(self.interpreter, feeds, steps, self.replays[place].most, self._alike)
                    yield factor, other

    def _differs(
        self, factor: float, replay: Replay, place: int, step: Step, inside: tuple[Node, Evaluate] | None
    ) -> bool:
        """Whether a change has an effect; failing is one, and overflow, but for great values."""
        own = self.interpreter.steps[place]
        try:
            with self.exact:
                changed = replay.changed(place, step, inside)
                before = {} if replay.steps[place] is own else replay.changed(place, own)  # its weight is not another
        except FAILING:
            return True
        outputs, others = self._outputs(replay, changed), self._outputs(replay, before)
        pairs = [(outputs[name], others[name]) for name in changed.keys() | before.keys()]
        if factor > ORDINARY and not all(bool(self.exact.of(x).isfinite().all()) for pair in pairs for x in pair):
            return False
        return not all(self._alike(*pair) for pair in pairs)

    def _varied(self, step: Step, factor: float, generator: torch.Generator) -> Step:
        node = step.part
        if not isinstance(node, Node) or node.type == "CONSTANT" or not self.network.layers[node.name].weights:
            return step
        evaluate = varied(node, factor, generator)
        return step if evaluate is None else replace(step, run=evaluate)


def agree(exact: Exact, a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two results have the same exact values."""
    if a.dtype != b.dtype or not a.is_floating_point():
        return same(a, b)
    with torch._C._DisableTorchDispatch():
        return alike(exact.of(a), exact.of(b), limits.LIMIT)


def _other(feed: torch.Tensor, factor: float, generator: torch.Generator) -> torch.Tensor:
    """Random values for an input; integers and bool as they are."""
    if not feed.is_floating_point():
        return feed
    return (torch.randn(feed.shape, generator=generator) * factor).to(feed.dtype)
