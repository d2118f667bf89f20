"""A network against its torch reference: the loop over sizes and values."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

from ..core.author import authors_code
from ..core.backend import Backend
from ..core.caller import Seed, as_argument
from ..core.cancel import Progress, untold
from ..core.dtypes import dtype_name
from ..core.errors import DefinitionError, TrtdslError, UsageError, nearest
from ..core.files.held import one_state
from ..core.files.writing import check_writable
from ..core.lazy import torch
from ..core.tensors.watched import by_default
from ..definition.network import Network
from ..definition.spec.load import NetworkLike, Reference, as_spec
from ..definition.spec.spec import NetworkSpec
from ..definition.weights.source import IGNORED, Source, Weights
from ..interpreter.feeds import DRAWS, NONFINITE, ORDINARY, RANGING, given_feeds, has_draw, make_feeds, sizes_of
from ..interpreter.reading import working_precision
from ..sizes.dim import depends_on_data
from ..sizes.profile import Profile, Range, sizes_text
from ..sizes.size import bounds
from . import saved
from .coverage import Coverage, watching
from .exercise import Exercise, weights_without_effect
from .judging import limits
from .judging.branches import Branches
from .judging.drawn_weights import OTHER, drawn_weights
from .judging.equality import alike
from .judging.evidence import By, Evidence, Rules, Tolerances, gather
from .judging.isolate import Reference as RunningReference
from .proof import subject_of
from .report import Case, CheckReport, Executor
from .tried_sizes import Sizes, elements, for_special_values, sizes_to_try
from .witness import ProgramWitness

Feeds = Mapping[str, "torch.Tensor"]
PHASE = "checking against torch"
STRAYING = 2  # times the greatest exact value: no rounding of what does not amplify it
LARGE = 15_000  # elements of the inputs: where they have more, float32 stands for exact values first


@one_state
@by_default
def check(
    source: NetworkLike,
    *,
    on: str = "interpreter",
    reference: Reference | None = None,
    weights: Source | None = None,
    dims: Mapping[str, Range] | None = None,
    profiles: Sequence[Profile] | None = None,
    precision: str | os.PathLike[str] | None = None,
    backend: str | Backend | None = None,
    seed: int = 0,
    network: Network | None = None,
    plan: bytes | None = None,
    allow_nonfinite: bool = False,
    sizes: Sizes = None,
    feeds: Any = None,
    tolerance: Tolerances = None,
    leave_out: Sequence[str] = (),
    trivial: Sequence[str] = (),
    save: str | os.PathLike[str] | None = None,
    against: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> CheckReport:
    """Compares a network with its torch reference at many sizes and with several kinds of values.

    Both are computed in exact arithmetic, too, in which they must be equal: see ``docs/checking.md``, which says what a
    pass proves.

    ``source`` is a NetworkSpec, a file (``FILE.py:NAME``) or a :class:`Network`. ``reference`` (a class, its
    ``"FILE.py:CLASS"``, or a module) takes the place of the spec's own; a Network has none. ``on`` is
    ``"interpreter"``, ``"program"`` (which builds the engine too and evaluates its program on the CPU: torch, network
    and engine must agree) or, where there is a GPU, ``"engine"`` (which builds and executes it). ``network`` is the
    spec already defined, where the caller has it, and ``plan`` the bytes of its engine, for ``"program"``. ``sizes`` is
    ``"auto"``, ``"quick"``, ``"all"`` or the sizes themselves, ``"H=65,N=3"``. ``feeds`` (a mapping of arrays or .npy
    files, several in a list, a folder, or a function) replaces the drawn values. ``tolerance`` (a part of a row such as
    1e-3, a :class:`Tolerance`, or these by output), ``leave_out`` (outputs of the reference that the network does not
    have) and ``trivial`` (outputs that may be constant, empty or NaN) add to the spec's own. ``save`` keeps feeds and
    reference outputs in a file, ``against`` compares with those of such a file instead of running the reference.
    ``progress`` is told of each size.

    Raises UsageError when there is no reference, FeedError for feeds that do not fit, DefinitionError when the network
    or the reference fails, with the author's line.

    >>> class Double(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x + x
    >>> double = td.network(inputs={"x": td.Input(("N", 3))}, reference=Double)(lambda x: x * 2)
    >>> check(double, dims={"N": (1, 4)}).passed
    True
    """
    if on not in ("interpreter", "program", "engine"):
        raise UsageError(f"on is 'interpreter', 'program' or 'engine', not {on!r}")
    as_argument("seed", seed, Seed)
    if sum(given is not None for given in (sizes, feeds, against)) > 1:
        raise UsageError("sizes, feeds and against exclude each other: feeds have their own sizes")
    spec = as_spec(source, reference)
    weights = spec.open_weights(weights)
    reads = [*spec.reads(weights), ("saved check", against), *(feeds.items() if isinstance(feeds, Mapping) else ())]
    target = None if save is None else check_writable(save, saved.SAVED_CHECK, reads)
    if network is None:
        how: dict[str, Any] = {"precision": precision, "backend": backend, "allow_nonfinite": allow_nonfinite}
        network = spec.define(weights=weights, dims=dims, profiles=profiles, exact=True, **how)
    calls = None if network.policy is None else network.policy.calls
    least = None if calls is None else calls.decibels(network.outputs, feeds is not None)
    rules = Rules.of_spec(spec, tolerance, leave_out, least)
    if unknown := [name for name in rules.tolerances if name is not None and name not in network.outputs]:
        near = nearest(unknown[0], network.outputs)
        raise UsageError(f"{network.name} has no output {unknown[0]!r}, of which a tolerance was given{near}")
    witness = ProgramWitness(network, plan) if on == "program" else None
    run = Run(spec, network, cast("Executor", on), seed, rules, weights, progress or untold, witness)
    if against is not None:
        how = {"rules": rules, "exact": run.exact}
        cases = run.saved_cases(against, saved.load(against, spec, network, (*spec.trivial, *trivial), **how))
    elif feeds is not None:
        cases = run.given_cases(given_feeds(network, feeds))
    else:
        cases = run.drawn_cases(sizes)
    if target is None:
        results = run.judged(cases)
    else:
        kept: list[tuple[str, Evidence]] = []
        whole = (replace(each, cheaper=()) for each in cases)
        results = run.judged(whole, lambda each, evidence: kept.append((each.draw, evidence)))
        saved.save(target, spec, network, kept)
    if feeds is None and against is None and on != "engine":
        results += run.with_other_weights(sizes)
    return run.report(results, (*spec.trivial, *trivial))


@dataclass(frozen=True)
class Planned:
    """A size and a kind of values that a check tries."""

    dims: dict[str, int]
    draw: str
    evidence: Callable[[By], Evidence | None]
    """Makes the evidence, by all values or some."""
    cheaper: tuple[By, ...] = ()
    """By what the network is compared first; what differs so is compared by both."""
    quality: bool = True
    """Whether it is asked how well the network computes."""


@dataclass
class Run:
    """One check: the network made ready to run, its reference, and the findings so far."""

    spec: NetworkSpec
    network: Network
    on: Executor
    seed: int
    rules: Rules
    weights: Weights | None
    tell: Progress = untold
    witness: ProgramWitness | None = None
    coverage: Coverage = field(default_factory=Coverage)
    exercise: Exercise = field(default_factory=Exercise)
    notes: dict[str, None] = field(default_factory=dict)
    coarse: dict[str, None] = field(default_factory=dict)
    """The sizes at which it was compared in float32."""
    unsteady: list[str] | None = None
    """The outputs that the reference does not repeat; None where it has not run yet."""
    expected: int = 1
    """How many cases there will be, as far as is known."""
    chaotic: dict[str, float] = field(default_factory=dict)
    """Outputs that rounding at 2**-52 alone moves by more than a millionth of themselves, and by how much."""

    def __post_init__(self) -> None:
        self.reference: RunningReference | None = None
        self.exact, self.working = self.network.exact_values(), working_precision(self.network)
        self.apart: Collection[str] = ()  # outputs of other ranks in the network's branches
        self.execute: Callable[[Feeds], Mapping[str, torch.Tensor]]
        if self.on == "engine":
            from ..engine.engine import engine_of

            self.execute = engine_of(self.network)
        else:
            with self.exact:
                self.interpreter = watching(self.network, self.coverage)
            self.apart = self.interpreter.apart
            self.execute = self._executed_exactly
        self.disagreements: list[str] = []
        self.network.check_sizes()

    def _executed_exactly(self, feeds: Feeds) -> dict[str, torch.Tensor]:
        with self.exact:
            found = self._interpreted(feeds)
        if self.exact.alone:
            return found
        # In its precision it decides otherwise.
        if self.rules.decibels or any(self._strays(value) for value in found.values()):
            for name, value in self._interpreted(feeds).items():
                if value.is_floating_point():
                    self.exact.keep(value, self.exact.of(found[name]))
                    found[name] = value
        return found

    def _interpreted(self, feeds: Feeds) -> dict[str, torch.Tensor]:
        return self.interpreter({name: feed.clone() for name, feed in feeds.items()})

    def _strays(self, value: torch.Tensor) -> bool:
        """Whether a result is finite elsewhere than the exact one, or greater: in what amplifies rounding, decisions
        for exact values do not fit rounded ones."""
        exact = self.exact.of(value)
        finite = torch.isfinite(value)
        if not bool(finite.all()) and not torch.equal(finite, torch.isfinite(exact)):
            return True
        if not value.is_floating_point() or not value.numel():
            return False
        return bool(value.abs().max() > STRAYING * exact.abs().max())

    # -- what is fed -----------------------------------------------------------------------------------------------

    def drawn_cases(self, sizes: Sizes) -> Iterator[Planned]:
        """Normal values at every size, the cheapest first, then the other kinds of values where they show most.

        How well the network computes is compared where these are fed, at the cheapest size, at each profile's opt, and
        at the greatest size that is not large. Of values outside of the ranges that dtypes were found for it is not.
        """
        reference, calls = self.open_reference(), self.network.policy and self.network.policy.calls
        points = sizes_to_try(self.network, sizes)
        corners, wide = points[:3], for_special_values(self.network, points, sizes)
        ordered = sorted(points, key=lambda env: elements(self.network, env))
        draws = [draw for draw in DRAWS[1:] if has_draw(self.spec.inputs, draw)]
        draws = draws or ["again"] * bool(self.network.inputs)
        self.expected = len(ordered) + len(draws)
        opts, judged = [profile.at("opt") for profile in self.network.profiles], not self.rules.decibels
        ends = [env for env in (ordered[0], ordered[-1]) if env is ordered[0] or elements(self.network, env) <= LARGE]
        special = elements(self.network, wide)  # where other kinds of values are fed, normal ones show nothing more
        large = max(LARGE, special - bool(draws)) if judged and self.working is None else math.inf
        for env in ordered:
            cheaper: tuple[By, ...] = () if judged and env in (*ends, *opts) else ("meaning",)
            if elements(self.network, env) > large and env is not ordered[0]:
                cheaper = ("own",)
            yield Planned(env, "normal", partial(self._drawn, env, "normal", corner=env in corners), cheaper, judged)
        if reference.recording.asked.branches and sizes in (None, "auto", "all") and self.network.dims:
            branches = Branches(self.network, reference.copied, points)
            self.notes |= branches.unreached
            self.expected += len(branches.further)
            for env in branches.further:
                yield Planned(env, "normal", partial(self._drawn, env, "normal"), ("meaning",))
        if judged and calls and calls.measured:
            self.notes["how well it computes smaller or larger values than its dtypes were found for"] = None
        for draw in draws:
            if draw in RANGING and (most := self._at_its_most(self.feeds(wide, draw))):
                self.notes[f"{draw} values, of which sizes are made: {most}, the most that there may be"] = None
                continue
            asked = judged and not (draw in RANGING and calls and calls.measured)
            cheaper = () if asked and draw not in ORDINARY else ("meaning",)
            yield Planned(wide, draw, partial(self._drawn, wide, draw), cheaper, asked)
            if draw in RANGING and self.working is not None and reference.not_exact is None:
                yield Planned(wide, draw, partial(self._drawn, wide, draw, half=False), ("meaning",), quality=False)
        for draw in NONFINITE * reference.recording.asked.nonfinite:
            if has_draw(self.spec.inputs, draw):
                yield Planned(wide, draw, partial(self._drawn, wide, draw))

        for env in ordered:  # a factor of sizes may be 0 where the others were fed
            if env != wide and self.exercise.undecided(self.network):
                yield Planned(env, "again", partial(self._drawn, env, "again"), ("meaning",), quality=False)

    def feeds(self, env: Mapping[str, int], draw: str, half: bool | None = None) -> dict[str, torch.Tensor]:
        """The feeds of a size and a kind of values."""
        assert self.reference is not None
        generator = torch.Generator().manual_seed(self.seed + (draw == "again"))
        kind, numbers = draw if draw in (*DRAWS, *NONFINITE) else "normal", self.reference.recording.asked.numbers
        half = self.working is not None if half is None else half
        return make_feeds(self.spec.inputs, self.network, env, generator, kind, half=half, numbers=numbers)

    def _drawn(
        self, env: Mapping[str, int], draw: str, by: By, *, corner: bool = False, half: bool | None = None
    ) -> Evidence | None:
        """The evidence for drawn feeds; None where the reference does not run; at a corner this raises."""
        try:
            return self._evidence(self.feeds(env, draw, half), env, draw, by)
        except DefinitionError as error:
            if corner:
                raise
            text = error.message.removeprefix("the reference fails").strip(" :")
            place = f" ({error.location})" if error.location else ""
            self.notes[f"not tried, since the reference itself fails there: {text}{place}"] = None
            return None

    def given_cases(self, given: Sequence[dict[str, torch.Tensor]]) -> Iterator[Planned]:
        """The author's own feeds."""
        self.open_reference()
        for index, feeds in enumerate(given):
            env = sizes_of(self.network, feeds)
            draw = f"given {index}" if len(given) > 1 else "given"
            yield Planned(env, draw, partial(self._evidence, feeds, env, draw))

    def saved_cases(self, path: Any, cases: Sequence[tuple[str, Evidence]]) -> Iterator[Planned]:
        """The cases of a saved check. UsageError where the reference, if it is here, gives others for the least."""
        least = min((each for _, each in cases), key=lambda each: sum(feed.numel() for feed in each.feeds.values()))
        if self.spec.reference is not None:
            by, part = ("both", limits.UNREPEATED) if least.truth is None else ("meaning", limits.CHAOTIC)
            now = gather(self.open_reference(), least.feeds, [*self.network.outputs], self.rules, by)
            self.reference = None  # of which one run says nothing to a report
            if changed := _changing(least, now, part):
                raise UsageError(f"{path} was saved when the reference gave another {changed[0]!r}: save it again")
        for draw, evidence in cases:
            env = sizes_of(self.network, evidence.feeds)
            yield Planned(env, draw, lambda by, evidence=evidence: evidence)

    def open_reference(self, *, values: bool = False) -> RunningReference:
        """The reference, ready to run; with ``values`` it keeps its calls."""

        def make() -> torch.nn.Module:
            return self.spec.reference_module(self.spec.open_weights(self.weights))

        how = self.network.precision, self.exact, self.working, self.spec.reference_folder
        self.reference = RunningReference(make, *how, values=values)
        return self.reference

    def _evidence(self, feeds: Feeds, env: Mapping[str, int], draw: str, by: By) -> Evidence:
        assert self.reference is not None
        at = Case(dict(env), [], draw).at
        self.reference.at = f" at {at}" * bool(at)
        with authors_code(self.reference.module.forward):  # what is wrong with its outputs has its place, too
            gathered = partial(gather, self.reference, feeds, list(self.network.outputs), self.rules)
            asked = self.reference.recording.asked
            followed, found = not asked.branches, gathered(by)
            if self.unsteady is None:
                decided, asked.branches = asked.branches, True
                again = gathered("both" if found.truth is None else "meaning")
                asked.branches = decided
                if followed and _changing(found, again, 0.0):  # by the type of sizes, or by chance
                    asked.branches = True
                    found = gathered(by)
                self.unsteady = _changing(found, again, limits.UNREPEATED)
            return found

    def with_other_weights(self, sizes: Sizes) -> list[Case]:
        """One case more where some weights distinguish nothing, with drawn ones in their place on both sides.

        What the network means is compared alone: how well it computes with such weights says nothing.
        """
        weights, network = self.weights, self.network
        other = drawn_weights(self.spec, weights, torch.Generator().manual_seed(self.seed)) if weights else {}
        if not other or self.reference is None or self.reference.not_exact is not None:
            return []
        self._end()
        env = for_special_values(network, sizes_to_try(network, sizes), sizes)
        ranges = {name: dim.range for name, dim in network.dims.items() if dim.range is not None}
        how: dict[str, Any] = {"precision": network.asked, "backend": network.backend, "allow_nonfinite": True}
        try:
            changed = self.spec.define(
                weights=other, dims={**network.fixed, **ranges}, profiles=network.profiles, exact=True, **how
            )
            run = Run(self.spec, changed, "interpreter", self.seed, self.rules, Weights(other))
            reference = run.open_reference()
            reference.recording.asked.branches = True
            run.unsteady, evidence = [], partial(run._drawn, env, "normal", corner=True)
            found = run.judged([Planned(env, OTHER, evidence, ("meaning",), quality=False)])
        except TrtdslError as error:  # of a module or a network that decides by its weights
            self.notes[f"with other weights for those that show little: {error.message}"] = None
            return []
        return found if reference.not_exact is None else []

    # -- judging ---------------------------------------------------------------------------------------------------

    def judged(
        self, cases: Iterable[Planned], keep: Callable[[Planned, Evidence], Any] = lambda *given: None
    ) -> list[Case]:
        """Compares every case; ``keep`` gets each with the evidence by which it was judged."""
        results = []
        for number, planned in enumerate(cases):
            at = Case(planned.dims, [], planned.draw).at or "the one shape"
            self.expected = max(self.expected, number + 1)
            self.tell(f"{PHASE} ({at})", number, self.expected)
            ways: tuple[By, ...] = (*(planned.cheaper if self.on == "interpreter" else ()), "both")
            found = next(filter(None, (self._judged(planned, by) for by in ways)), None)
            if found is not None:
                evidence, judged = found
                keep(planned, evidence)
                self.chaotic |= evidence.chaotic
                results += judged
        self.tell(PHASE, self.expected, self.expected)
        return results

    def _judged(self, planned: Planned, by: By) -> tuple[Evidence, list[Case]] | None:
        """The case, as the engine's program has it, too; None where the reference does not run.

        By some of the values alone, it is None as well where the network is not seen to be equal.
        """
        try:
            evidence = planned.evidence(by)
            if evidence is None or evidence.alone != (by == "meaning"):
                return None
            self.exact.alone = evidence.alone
            got = self._interpreted(evidence.feeds) if by == "own" else self._executed(evidence.feeds, planned.dims)
        except TrtdslError:
            if by == "both":
                raise
            return None  # it is raised again where everything is evaluated
        finally:
            self.exact.alone = False
        outputs = evidence.compare(got, meaning=self.on != "engine")
        if not planned.quality:  # values leave the ranges that narrow dtypes were calibrated for, or those of a half
            outputs = [replace(each, passed=each.passed or each.truth in ("quality", "budget")) for each in outputs]
        case = Case(planned.dims, outputs, planned.draw)
        if by != "both" and not case.passed:
            return None
        if by == "own":
            self.coarse[case.at] = None
        exact = {name: self.exact.widened(value) for name, value in got.items()}
        self.exercise.note(exact, evidence.feeds, {} if evidence.alone else evidence.own)
        found = [case]
        if self.witness is not None:
            beside = replace(evidence, own=dict(got), truth=None) if self.rules.decibels else evidence
            found += [self._witnessed(self.witness, each, case, beside) for each in self.witness.profiles_at(case.dims)]
        return evidence, found

    def _at_its_most(self, feeds: Feeds) -> str:
        """An output whose size values say, which is as great as the network's may be; empty where there is none.

        The reference's may be greater, beyond all memory.
        """
        sizes = [
            (name, axis, bounds(size)[1])
            for name, output in self.network.outputs.items()
            for axis, size in enumerate(output.shape)
            if depends_on_data(size)
        ]
        got = self._interpreted(feeds) if sizes else {}
        found = (
            f"output {name!r} has {most} along dimension {axis}"
            for name, axis, most in sizes
            if got[name].shape[axis] == most
        )
        return next(found, "")

    def _witnessed(self, witness: ProgramWitness, profile: int, network: Case, evidence: Evidence) -> Case:
        """The same case as the engine's program for a profile has it."""
        got = witness.programs[profile](evidence.feeds)
        case = Case(network.dims, evidence.compare(got, meaning=False), network.draw)
        if network.passed and not case.passed and not self.disagreements:
            at = f" at {case.at}" * bool(case.at)
            difference = witness.first_difference(evidence.feeds, profile)
            self.disagreements.append(
                f"the network equals its reference and the engine's program does not{at}: {difference}"
            )
        return case

    def _end(self) -> None:
        """Lets go of what runs: of the weights, it has most of what is in memory, and a report needs none of it."""
        del self.execute, self.interpreter
        if self.reference is not None:
            self.reference.module = torch.nn.Module()

    def _executed(self, feeds: Feeds, env: Mapping[str, int]) -> Mapping[str, torch.Tensor]:
        try:
            return self.execute(feeds)
        except DefinitionError as error:
            at = sizes_text(env)
            error.message += f" (at {at}, where the reference runs)" if at else ""
            raise

    def report(self, cases: list[Case], trivial: Sequence[str]) -> CheckReport:
        """The report of all findings. WeightsError where the weights' file has changed meanwhile."""
        if self.weights is not None:
            self.weights.check_unchanged()
        findings = [] if len(cases) == 0 else self.exercise.findings(self.network, trivial)
        findings += self.disagreements + self._unused_weights()
        findings += [
            f"the reference gives another {name!r} when it is called again with the same inputs: "
            "it draws numbers, or keeps something outside of itself"
            for name in self.unsteady or ()
        ]
        tolerances = {name: self.rules.of(name) for name in self.network.outputs}
        dtypes = {name: self.network.precision or tensor.dtype for name, tensor in self.network.outputs.items()}
        relaxed = [
            f"output {name!r} has more room than by default: {tolerances[name]}"
            for name, dtype in dtypes.items()
            if tolerances[name].relaxed(dtype_name(dtype))
        ]
        backend, unproven = self.network.backend, self._unproven(cases)
        about = self.spec.name, f"{backend.name} {backend.version}", self.on
        of = subject_of(self.spec, self.network, self.weights)
        return CheckReport(*about, cases, self.seed, tolerances, findings, unproven, relaxed, of)

    def _unused_weights(self) -> list[str]:
        opened = self.spec.open_weights(self.weights)
        if opened is None:
            return []
        names = [name for name in opened.shapes if not name.endswith(IGNORED)]
        left = weights_without_effect(self.network, names, self.spec.unused)
        return [f"no output depends on the weight {name!r} (unused={name!r} says that it is meant)" for name in left]

    def _unproven(self, cases: Sequence[Case]) -> list[str]:
        lines = list(self.notes)
        if self.coarse:
            lines.append(f"more than four digits at {'; '.join(self.coarse)}: it was compared in float32 there")
        if self.rules.decibels and not any(case.draw.startswith("given") for case in cases):
            lines.append("how well it computes below float16: its ranges are of the author's data, and none was fed")
        if self.rules.leave_out:
            lines.append(f"left out of the reference's outputs: {', '.join(self.rules.leave_out)}")
        if self.reference is not None:
            lines += self.reference.notes
            if self.reference.not_exact is not None:
                lines.append(
                    "what the network means: the reference does not run in exact arithmetic, so only its quality was "
                    f"compared: {self.reference.not_exact}"
                )
        if self.exact.rounded:
            lines.append(f"more than five digits: there is no float64 in {', '.join(self.exact.rounded)}")
        lines += [
            f"output {name!r} beyond {part:.1g} of itself: rounding at 2**-52 alone moves it by so much"
            for name, part in self.chaotic.items()
        ]
        lines += [f"output {name!r} of other ranks, which differs from this one's: check each" for name in self.apart]
        lines += self.exercise.unproven(self.network)
        plugins = dict.fromkeys(used.name for used in self.network.plugins)
        lines += [f"that the plugin {name} computes what its evaluator does" for name in plugins]
        noisy = {
            output.name: output.own_abs / output.scale
            for case in cases
            for output in case.outputs
            if output.passed and output.scale and output.own_abs > limits.ROUGH * output.scale
        }
        for name, error in noisy.items():
            lines.append(f"torch's own result for {name!r} is {error:.1%} of its scale off the truth: little is proven")
        lines += self.coverage.missed()
        missed = [] if self.reference is None else self.reference.recording.choices.missed()
        lines += [line.replace(": ", ": the reference's ", 1) for line in missed]
        return list(dict.fromkeys(lines))


def _changing(first: Evidence, second: Evidence, part: float) -> list[str]:
    """The outputs that differ by more than a part of them: sums whose order is left open do by a little."""
    one, two = (each.own | (each.truth or {}) for each in (first, second))

    def repeats(a: Any, b: Any) -> bool:
        return alike(a, b, part) if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) else type(a) is type(b)

    return [name for name in one if not repeats(one[name], two.get(name))]
