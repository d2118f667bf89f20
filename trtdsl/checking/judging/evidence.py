"""The results that judge a network at one set of feeds: torch's in its precision, in float64, and perturbed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ...core.dtypes import dtype_name
from ...core.errors import UsageError
from ...core.lazy import torch
from .alternatives import Alternatives
from .calls import DECIDING, Call, Flip
from .decisions import Run, deciding, imposing, recording, warn_of_faults
from .equality import OutputComparison, Tolerance, judge
from .isolate import Reference, Within
from .network_decisions import Proposal
from .noise import Noise
from .structure import Leaves, Other, leaves, match

PERTURBED = (3, 12)  # how many more times torch's own error is measured where it would refuse a network, and nearly so
NEARLY = 3.0  # times what is allowed
WITHOUT_TRUTH = 10.0  # times the floor, for a reference that does not run in float64
LOUDER = 30.0  # times the error at smaller sizes that torch may have at a greater one, where it computes otherwise
KNOWN, TRUTH, THOROUGH = range(3)  # judged by what is known, by float64, by torch's own error measured again
MOST_SAMPLES = 32  # of a batch, each of which may be judged by itself
EXACT_DRAWS = ("ties", "sparse")  # these feeds are tried for their exact values: inputs are not moved

Propose = Callable[[Mapping[str, "torch.Tensor"]], Proposal | None]
Tolerances = float | Tolerance | Mapping[str, float | Tolerance] | None


@dataclass(frozen=True)
class Rules:
    """What counts as equal: tolerances by output (None: the default), and the outputs that are left out."""

    tolerances: Mapping[str | None, Tolerance] = field(default_factory=dict)
    leave_out: tuple[str, ...] = ()

    def of(self, output: str) -> Tolerance:
        """The tolerance of an output."""
        return self.tolerances.get(output) or self.tolerances.get(None) or Tolerance()

    def relaxed(self, output: str, dtype: str) -> bool:
        """Whether the tolerance of an output is larger than the default."""
        return self.of(output).relaxed(dtype)


def as_tolerances(*given: Tolerances) -> dict[str | None, Tolerance]:
    """Tolerances by output name; later ones replace earlier ones. A number is a floor, for all outputs without a name.

    Raises UsageError for a value that is no tolerance.
    """
    found: dict[str | None, Tolerance] = {}
    for one in given:
        items: Mapping[Any, Any] = one if isinstance(one, Mapping) else {} if one is None else {None: one}
        for name, tolerance in items.items():
            if isinstance(tolerance, (int, float)) and not isinstance(tolerance, bool) and 0 <= tolerance < 1:
                tolerance = Tolerance(floor=float(tolerance))
            if not isinstance(tolerance, Tolerance):
                raise UsageError(
                    f"a tolerance is a part of a slice, such as 1e-3, or a td.Tolerance, not {tolerance!r}"
                )
            found[name] = tolerance
    return found


@dataclass
class Evidence:
    """The results of the reference for one set of feeds, each made when it is first asked for."""

    feeds: Mapping[str, torch.Tensor]
    names: Sequence[str]
    """The network's outputs."""
    rules: Rules
    precision: torch.dtype | None
    own: dict[str, torch.Tensor | Other]
    """What torch gives in the network's precision, by the network's output names."""
    wide: Callable[[], dict[str, torch.Tensor] | None]
    """What gives the results in float64; None where there are none."""
    moved: Callable[[int], dict[str, torch.Tensor] | None] = lambda index: None
    """What gives torch's results for moved feeds and weights; None where it does not run with these."""
    noise: Mapping[str, Noise] = field(default_factory=dict)
    """Torch's own error for normal values at smaller sizes, by output."""
    made: list[dict[str, torch.Tensor] | None] = field(default_factory=list)
    """What ``moved`` gave."""
    first: Callable[[], tuple[int, dict[str, torch.Tensor] | None]] = lambda: (0, None)
    """What gives the results in float64 for the first samples alone, and how many these are."""
    samples: int = 0
    """The size of the batch, where inputs and outputs are batches of one size."""
    part: Callable[[Sequence[int]], Evidence | None] = lambda samples: None
    """What gives the evidence for some of the samples alone."""
    alternatives: Alternatives | None = None
    """The reference with its open decisions taken in different ways; None where it has none."""
    exact: bool = False
    """Whether its decisions are the only ones: then integers and bool are the truth's."""
    decided: dict[str, None] = field(default_factory=dict)
    """The decisions that were taken as the network has them, in words."""

    @cached_property
    def truth(self) -> dict[str, torch.Tensor] | None:
        """The results in float64."""
        return self.wide()

    @cached_property
    def start(self) -> tuple[int, dict[str, torch.Tensor] | None]:
        """The number of first samples, and the results in float64 for these alone."""
        return self.first()

    def others(self, count: int) -> list[dict[str, torch.Tensor]]:
        """Up to ``count`` further results in the network's precision."""
        self.made += [self.moved(index) for index in range(len(self.made), count)]
        return [result for result in self.made[:count] if result is not None]

    def compare(self, got: Mapping[str, torch.Tensor], propose: Propose = lambda feeds: None) -> list[OutputComparison]:
        """Compares a network's results with the reference's. An output that only one side has fails.

        Where a decision of the reference lies within torch's own error (the order of near ties, a comparison near
        equality), all outputs are judged together, by the reference with the decisions that the network has.
        ``propose`` gives what the network decides for some feeds.
        """
        results = self.judged(got, KNOWN)
        if all(result.passed for result in results) or any(result.problem for result in results):
            return results
        results = self._by_samples(got, propose)
        if results is not None:
            return results
        settled = self.alternatives.settle(got, lambda: propose(self.feeds)) if self.alternatives else None
        if settled is None or (not settled.passed and not settled.complete):
            return self.judged(got)
        if not settled.passed:
            return settled.results
        self.own, self.__dict__["truth"] = settled.evidence.own, settled.evidence.truth
        self.moved, self.made = settled.evidence.moved, settled.evidence.made
        self.decided = dict.fromkeys((*self.decided, *settled.said))
        return [replace(result, truth="decided") if settled.said else result for result in settled.results]

    def judged(self, got: Mapping[str, torch.Tensor], depth: int = THOROUGH) -> list[OutputComparison]:
        """Compares with the reference as it decides itself, by what is known, by float64 or by all measures."""
        results = []
        for name in dict.fromkeys((*got, *self.own)):
            if name in got and isinstance(self.own.get(name), torch.Tensor):
                results.append(self._judged(name, got[name], depth))
            else:
                results.append(self._unmatched(name, got))
        return results

    def _by_samples(self, got: Mapping[str, torch.Tensor], propose: Propose) -> list[OutputComparison] | None:
        """Judges a batch by float64 for those samples alone that need it; None where it does not decide.

        These samples alone must give torch what they give it in the batch, and the others must pass by torch's own
        error as it is known.
        """
        if not self.samples or "truth" in vars(self) or not set(got) == set(self.own) <= set(self.noise):
            return None
        own = {name: self._plain(tensor) for name, tensor in self.own.items()}
        chosen = self._chosen(got, own)
        if chosen is None:
            return None
        some, results = chosen
        evidence = self.part(some)
        if evidence is None:
            return None
        alone = {name: self._plain(tensor) for name, tensor in evidence.own.items()}
        for name, tensor in own.items():
            how: dict[str, Any] = {"known": self.noise[name], "precision": self.precision}
            if not judge(name, alone[name], tensor[some], **how).passed:
                return None
        found = evidence.compare({name: tensor[some] for name, tensor in got.items()}, propose)
        if not all(result.passed for result in found):
            return None
        self.decided = dict.fromkeys((*self.decided, *evidence.decided))
        pairs = zip(results, found, strict=True)
        return [
            replace(one, truth=two.truth, own_abs=two.own_abs) if one.ratio < two.ratio else one for one, two in pairs
        ]

    def _chosen(
        self, got: Mapping[str, torch.Tensor], own: Mapping[str, torch.Tensor]
    ) -> tuple[list[int], list[OutputComparison]] | None:
        """The samples without which the rest passes by what is known, and how it passes; None for more than half.

        A slice through all samples may differ though none of them does by itself: then the sample of its worst element
        is taken.
        """
        ratios = [self._ratio(got, own, index) for index in range(self.samples)]
        ranked = sorted(range(self.samples), key=ratios.__getitem__, reverse=True)
        some = ranked[: sum(ratio > 1 for ratio in ratios)]
        while 2 * len(some) <= self.samples:
            places = torch.tensor(some, dtype=torch.int64)
            rest = {name: tensor.index_copy(0, places, own[name][places]) for name, tensor in got.items()}
            results = self.judged(rest, KNOWN)
            wrong = [result.worst_index[0] for result in results if not result.passed and result.worst_index]
            if all(result.passed for result in results):
                more = [index for index in ranked if index not in some][: max(self.samples // 4 - len(some), 0)]
                return sorted((*some, *more)), results
            if not wrong or wrong[0] in some:
                return None
            some.append(wrong[0])
        return None

    def _ratio(self, got: Mapping[str, torch.Tensor], own: Mapping[str, torch.Tensor], index: int) -> float:
        """How much of what is allowed the worst output of a sample needs, by what is known."""
        place, ratios = slice(index, index + 1), [0.0]
        for name, tensor in got.items():
            how: dict[str, Any] = {"tolerance": self.rules.of(name), "precision": self.precision}
            found = [
                judge(name, tensor[place], own[name][place], known=known, **how)
                for known in (None, *(known for known, _ in self._known(name, own[name])))
            ]
            ratios.append(min(0.0 if result.passed else max(result.ratio, 1.01) for result in found))
        return max(ratios)

    def _unmatched(self, name: str, got: Mapping[str, torch.Tensor]) -> OutputComparison:
        own = self.own.get(name)
        if isinstance(own, Other):
            problem = f"the reference has {own.kind} here, which cannot be compared: leave it out by its name"
            return OutputComparison(name, False, own.kind, (), problem)
        side, tensor = ("reference", own) if own is not None else ("network", got[name])
        problem = f"only the {side} has this output"
        if side == "reference":
            problem += " (leave it out by its name where that is meant)"
        return OutputComparison(name, False, dtype_name(tensor.dtype), tuple(tensor.shape), problem)

    def _judged(self, name: str, got: torch.Tensor, depth: int) -> OutputComparison:
        """Judges by torch's own result; where needed by float64, and then by torch's own error measured again.

        A result within the floor of torch's own result is within torch's own error and the floor of the truth, so
        float64 is run only where it decides. Where it has decided at smaller sizes, torch's own error at those is used
        here.
        """
        own = self._plain(self.own[name])
        tolerance = self.rules.of(name)
        first = judge(name, got, own, tolerance=tolerance, precision=self.precision)
        if first.passed or first.problem:
            return first
        if name in self.noise and "truth" not in vars(self):
            for known, source in self._known(name, own):
                result = judge(name, got, own, known=known, tolerance=tolerance, precision=self.precision)
                if result.passed:
                    return replace(result, truth=source)
        if depth == KNOWN:
            return first
        truth = (self.truth or {}).get(name)
        if truth is not None and truth.shape != own.shape:
            truth = None
        if self.exact and truth is not None and not own.is_floating_point():
            return judge(name, got, truth.to(own.dtype), tolerance=tolerance)
        second = first
        if truth is not None:
            second = judge(name, got, own, truth, tolerance=tolerance, precision=self.precision)
            if second.passed or depth < THOROUGH or not self._is_near(second):
                return second
        if truth is None and self.precision is None:  # moved feeds show less of torch's own error than float64 does
            floor = WITHOUT_TRUTH * tolerance.floor_of(dtype_name(self.precision or own.dtype))
            tolerance = replace(tolerance, floor=floor)
        result = second
        for count in PERTURBED:
            if result.passed or (count > PERTURBED[0] and result.ratio > NEARLY):
                break
            others = [self._plain(other[name]) for other in self.others(count) if name in other]
            if others:
                result = judge(name, got, own, truth, others, tolerance=tolerance, precision=self.precision)
        return result

    def _known(self, name: str, own: torch.Tensor) -> Iterator[tuple[Noise, str]]:
        """What is known of torch's own error without float64 for all: from smaller sizes, from the first samples."""
        smaller = self.noise[name]
        yield smaller, "smaller"
        count, truth = self.start
        if truth is None or name not in truth or truth[name].shape[1:] != own.shape[1:]:
            return
        known = Noise(smaller.moving)
        known.learn(own[:count], truth[name])
        if 0 < known.level <= LOUDER * smaller.level:  # otherwise the samples may depend on each other
            yield known, "start"

    def teach(self, name: str, noise: Noise) -> None:
        """Adds torch's own error to what is known of an output, where float64 was run."""
        truth, own = (self.truth or {}).get(name) if "truth" in vars(self) else None, self.own.get(name)
        if truth is not None and isinstance(own, torch.Tensor):
            noise.learn(self._plain(own), truth)

    def _is_near(self, result: OutputComparison) -> bool:
        """Whether another measurement of torch's own error, which finds a multiple of it, could change the result."""
        return result.ratio < 100 or not result.dtype.startswith(("float", "bfloat"))

    def _plain(self, tensor: Any) -> torch.Tensor:
        """Outputs are float32 where a network has a precision, whatever was computed inside."""
        half = tensor.dtype in (torch.float16, torch.bfloat16)
        return tensor.float() if half and self.precision is not None else tensor


def gather(
    reference: Reference,
    feeds: Mapping[str, torch.Tensor],
    names: Sequence[str],
    rules: Rules,
    *,
    seed: int = 0,
    move_inputs: bool = True,
    noise: Mapping[str, Noise] | None = None,
    samples: int = 0,
    called: Collection[str] = (),
) -> Evidence:
    """The evidence that a reference gives for some feeds.

    ``samples`` is the size of the batch, where inputs and outputs are batches of one size: float64 may then be run for
    a part of it alone.

    ``called`` are the names of all operations of the reference, once it has run.
    """

    def named(returned: Any) -> dict[str, torch.Tensor | Other]:
        found: Leaves = leaves(returned).without(rules.leave_out)
        return match(found, names)

    def tensors(returned: Any) -> dict[str, torch.Tensor] | None:
        if returned is None:
            return None
        return {name: leaf for name, leaf in named(returned).items() if isinstance(leaf, torch.Tensor)}

    def start() -> tuple[int, dict[str, torch.Tensor] | None]:
        first = max(2, samples // 4) if samples >= 4 else 0
        return first, tensors(reference.truth({name: feed[:first] for name, feed in feeds.items()})) if first else None

    def part(chosen: Sequence[int]) -> Evidence | None:
        some = {name: feed[list(chosen)] for name, feed in feeds.items()}
        return gather(reference, some, names, rules, seed=seed, move_inputs=move_inputs, called=called)

    def moved(index: int, within: Within = None) -> dict[str, torch.Tensor] | None:
        return tensors(reference.perturbed(feeds, seed + index, inputs=move_inputs, within=within))

    calls = Run()
    known = not DECIDING.isdisjoint(called)  # from smaller sizes
    own = named(reference(feeds, watched=recording(calls) if known else None))
    found = Evidence(
        feeds,
        names,
        rules,
        reference.precision,
        own,
        lambda: tensors(reference.truth(feeds)),
        moved,
        noise or {},
        first=start,
        samples=samples if 2 <= samples <= MOST_SAMPLES else 0,
        part=part,
    )
    if not DECIDING.isdisjoint(called):
        found.first = lambda: (0, None)  # what comes in an order of its own says little of other samples
        found.alternatives = _alternatives(found, reference, named, calls if known else None)
    return found


def _alternatives(
    plain: Evidence, reference: Reference, named: Callable[[Any], dict[str, torch.Tensor | Other]], recorded: Run | None
) -> Alternatives:
    """The reference with its open decisions taken in different ways; ``recorded`` is its own run, if that is known."""
    feeds, own = plain.feeds, plain.own
    first_moved: Any = plain.moved

    def record() -> list[Call]:
        run = recorded or Run()
        if recorded is None:
            reference(feeds, within=recording(run))
        warn_of_faults(run)
        return run.calls

    def make(
        calls: Sequence[Call], flips: Collection[Flip], base: Evidence | None, measure: bool, proposal: Proposal | None
    ) -> tuple[Run, Evidence] | None:
        run, dtype = Run(), reference.precision or torch.float32
        within = deciding(run, calls, flips, Tolerance(), dtype, first=measure, proposal=proposal)
        returned = reference.truth(feeds, within)
        warn_of_faults(run)
        if returned is None:
            return None
        truth = {name: leaf for name, leaf in named(returned).items() if isinstance(leaf, torch.Tensor)}
        results = None if base is None else _with_error_of(base, truth)
        if results is None and all(torch.equal(a.result, b.result) for a, b in zip(run.calls, calls, strict=False)):
            results = own
        elif results is None:
            results = named(reference(feeds, within=imposing(run)))
            warn_of_faults(run)

        def moved(index: int) -> dict[str, torch.Tensor] | None:
            result = first_moved(index, imposing(run))
            warn_of_faults(run)
            return result

        made = Evidence(feeds, plain.names, plain.rules, reference.precision, results, lambda: truth, moved, exact=True)
        return run, made

    return Alternatives(record, make)


def _with_error_of(base: Evidence, truth: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor | Other]:
    """Results with the error that torch's own have in other evidence: good enough for a search."""
    results: dict[str, torch.Tensor | Other] = {}
    for name, own in base.own.items():
        before, after = (base.truth or {}).get(name), truth.get(name)
        if isinstance(own, torch.Tensor) and before is not None and after is not None and before.shape == after.shape:
            moved = own + (after - before) if own.is_floating_point() else after
            results[name] = torch.where(after == before, own, moved).to(own.dtype)
        elif isinstance(own, torch.Tensor) and after is not None:
            results[name] = after.to(own.dtype)
        else:
            results[name] = own
    return results
