"""The results of a reference under which a network passes, where decisions of the reference are open."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...core.errors import placed
from ...core.lazy import torch
from .calls import AS_PROPOSED, IN_PLACE, Call, Flip
from .decisions import Run, locations
from .network_decisions import Proposal

if TYPE_CHECKING:
    from .equality import OutputComparison
    from .evidence import Evidence

TRIALS = 40  # runs of the reference for one judgement
ALL_TRIALS = 60  # and for all judgements of one set of feeds, of which mutants have many
ROUNDS = 3  # of neighbours exchanged: a third one moves an element by more places
Flips = frozenset[Flip]
Results = Mapping[str, "torch.Tensor"]
Made = Callable[
    [Sequence[Call], Collection[Flip], "Evidence | None", bool, "Proposal | None"], "tuple[Run, Evidence] | None"
]


@dataclass
class Settled:
    """What a search found: the evidence that fits best, and whether the search came to its end."""

    evidence: Evidence
    results: list[OutputComparison]
    said: list[str]
    """The decisions that were taken as the network has them, a line for each of the author's."""
    complete: bool

    @property
    def passed(self) -> bool:
        return all(result.passed for result in self.results)


@dataclass
class Alternatives:
    """The reference run with its open decisions taken in different ways, each run kept."""

    record: Callable[[], Sequence[Call]]
    """Runs the reference in the network's precision and gives its calls that decide."""
    make: Made
    """The evidence for decisions like those of some calls, with some of them flipped. Where there is evidence without
    these flips already, torch's own error may be taken from it. Then come whether to measure what is open, and what the
    network decides.
    """
    trials: dict[Flips, tuple[Run, Evidence] | None] = field(default_factory=dict)
    """With torch's own error taken from the first of them."""
    confirmed: dict[Flips, tuple[Run, Evidence] | None] = field(default_factory=dict)
    """With torch's own error measured for these decisions."""
    calls: Sequence[Call] | None = None
    proposal: Proposal | None = None

    def settle(self, got: Results, propose: Callable[[], Proposal | None] = lambda: None) -> Settled | None:
        """The evidence that fits a network's results best; None where the reference has none in float64.

        It starts from torch's own decisions, and from those that the network proposes. A set of decisions is flipped
        together, and divided where that does not help, as long as a flip changes anything. Results that are wrong in
        places that no flip reaches are not searched for.
        """
        chosen: Flips = frozenset()
        for trials in (self.trials, self.confirmed):  # another network's proposal
            for flips in [flips for flips in trials if AS_PROPOSED in flips]:
                del trials[flips]
        base = self._trial(chosen)
        if base is None:
            return None
        self.left = min(TRIALS, ALL_TRIALS - len(self.trials))
        searched = False
        if self._wrong(chosen, got) and base[0].open:
            self.proposal = propose()
            if self.proposal is not None:
                proposed = self._settled(frozenset({AS_PROPOSED}), got)
                if proposed is not None and (proposed.passed or self._is_known()):
                    return proposed
            if base[0].tied and self._wrong(frozenset({IN_PLACE}), got) < self._wrong(chosen, got):
                chosen = frozenset({IN_PLACE})
            searched = bool(self._wrong(chosen, got)) and not self._out_of_reach(frozenset(base[0].open), got)
            if searched:
                chosen = self._best(chosen, got)
        settled = self._settled(chosen, got) or Settled(base[1], base[1].judged(got), [], complete=True)
        settled.complete = not base[0].lost
        return settled

    def _is_known(self) -> bool:
        """Whether all that the network decides is known: then no other decisions are its own."""
        made = self.confirmed.get(frozenset({AS_PROPOSED}))
        return made is not None and made[0].matched and not made[0].lost

    def _settled(self, flips: Flips, got: Results) -> Settled | None:
        """The judgement with torch's own error measured for these decisions."""
        assert self.calls is not None
        if flips and flips not in self.confirmed:
            self.confirmed[flips] = self.make(self.calls, flips, None, False, self.proposal)
        made = self.confirmed.get(flips) if flips else self._trial(flips)
        if made is None:
            return None
        said = [placed(place, name) for name, place in locations(self.calls, flips, made[0])]
        return Settled(made[1], made[1].judged(got), said, complete=True)

    def _best(self, chosen: Flips, got: Results) -> Flips:
        """The decisions that make least of the results wrong, from those chosen on."""
        for _ in range(ROUNDS):
            trial, before = self._trial(chosen), chosen
            if trial is not None:
                chosen = self._search(chosen, sorted(trial[0].open), got)
            if chosen == before or not self._wrong(chosen, got):
                break
        return chosen

    def _trial(self, flips: Flips) -> tuple[Run, Evidence] | None:
        if flips not in self.trials:
            first = self.calls is None
            if self.calls is None:
                self.calls = self.record()
            base = self.trials.get(frozenset())
            self.trials[flips] = self.make(self.calls, flips, base[1] if base else None, first, self.proposal)
        return self.trials[flips]

    def _wrong(self, flips: Flips, got: Results) -> float:
        """How much of the results is wrong with these decisions."""
        if flips not in self.trials:
            self.left -= 1
        trial = self._trial(flips)
        if trial is None:
            return float("inf")
        results = trial[1].judged(got, 1)
        return sum(float("inf") if result.problem else max(result.wrong, not result.passed) for result in results)

    def _out_of_reach(self, flips: Flips, got: Results) -> bool:
        """Whether results are wrong in places that do not change with the decisions."""
        self._wrong(flips, got)
        return bool(self._wrong(frozenset(), self._spliced(got, frozenset(), list(self.trials))))

    def _search(self, chosen: Flips, group: Sequence[Flip], got: Results) -> Flips:
        """The chosen decisions, with those of a group exchanged that make less wrong."""
        trial = chosen.symmetric_difference(group)
        now = self._wrong(chosen, got)
        if not now or self.left <= 0 or not group:
            return chosen
        then = self._wrong(trial, got)
        if not then or (len(group) == 1 and then < now):
            return trial
        if len(group) == 1 or self._wrong(chosen, self._spliced(got, chosen, [trial])) == now:
            return chosen  # what is wrong stays wrong whatever this group decides
        middle = len(group) // 2
        chosen = self._search(chosen, group[:middle], got)
        return self._search(chosen, group[middle:], got)

    def _spliced(self, got: Results, base: Flips, others: Iterable[Flips]) -> Results:
        """The results, with those of ``base`` where it differs from the others."""
        spliced = dict(got)
        for name, expected in self._truth(base).items():
            reached = torch.zeros(expected.shape, dtype=torch.bool)
            for other in (self._truth(flips).get(name) for flips in others):
                if other is not None and other.shape == expected.shape:
                    reached |= _changed(expected, other)
            if name in got and got[name].shape == expected.shape:
                spliced[name] = torch.where(reached, expected.to(got[name].dtype), got[name])
        return spliced

    def _truth(self, flips: Flips) -> Results:
        trial = self._trial(flips)
        return (trial[1].truth or {}) if trial else {}


def _changed(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Where two results of float64 differ by more than its rounding."""
    if not a.is_floating_point():
        return a != b
    scale = a.abs().nan_to_num(0, 0, 0).max() if a.numel() else 0.0
    return ((a - b).abs() > 1e-11 * scale) | (torch.isnan(a) != torch.isnan(b)) | (torch.isinf(a) & (a != b))
