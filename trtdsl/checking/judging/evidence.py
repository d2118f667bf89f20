"""The results that judge a network at one set of feeds: torch's in its precision, and exact ones."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ...core.caller import as_number
from ...core.dtypes import dtype_name, narrowed
from ...core.errors import UsageError
from ...core.lazy import torch
from ...core.tensors.exact import Exact
from ...definition.spec.spec import NetworkSpec
from . import limits
from .equality import OutputComparison, Tolerance, allowed, described, deviation, excess, judge
from .isolate import Reference
from .outputs import Leaves, Other, leaves, match
from .quality import sqnr

By = Literal["both", "meaning", "own"]
"""By what a network is compared: by exact values and its own, by the exact ones alone, or by its own alone."""
Tolerances = float | Tolerance | Mapping[str, float | Tolerance] | None


@dataclass(frozen=True)
class Rules:
    """What counts as equal: tolerances by output (None: the default), and the outputs that are left out."""

    tolerances: Mapping[str | None, Tolerance] = field(default_factory=dict)
    leave_out: tuple[str, ...] = ()
    decibels: Mapping[str, float] = field(default_factory=dict)
    """The least SQNR of outputs that are computed below float16, in place of a tolerance."""

    @classmethod
    def of_spec(
        cls,
        spec: NetworkSpec,
        tolerance: Tolerances = None,
        leave_out: Sequence[str] = (),
        decibels: Mapping[str, float] | None = None,
    ) -> Rules:
        """A spec's own, and these besides."""
        return cls(as_tolerances(spec.tolerance, tolerance), (*spec.leave_out, *leave_out), decibels or {})

    def of(self, output: str) -> Tolerance:
        """The tolerance of an output."""
        return self.tolerances.get(output) or self.tolerances.get(None) or Tolerance()


def as_tolerances(*given: Tolerances) -> dict[str | None, Tolerance]:
    """Tolerances by output name; later ones replace earlier ones. A number is a floor, for all outputs without a name.

    Raises UsageError for a value that is no tolerance.
    """
    found: dict[str | None, Tolerance] = {}
    for one in given:
        items: Mapping[Any, Any] = one if isinstance(one, Mapping) else {} if one is None else {None: one}
        for name, tolerance in items.items():
            if (floor := as_number(tolerance)) is not None and 0 <= floor < 1:
                tolerance = Tolerance(floor=float(floor))
            if not isinstance(tolerance, Tolerance):
                raise UsageError(f"a tolerance is a part of a row, such as 1e-3, or a td.Tolerance, not {tolerance!r}")
            found[name] = tolerance
    return found


@dataclass
class Evidence:
    """The results of the reference for one set of feeds."""

    feeds: Mapping[str, torch.Tensor]
    rules: Rules
    precision: torch.dtype | None
    """That of torch's autocast."""
    working: torch.dtype | None
    """The half precision that the network computes in, if it does."""
    own: dict[str, torch.Tensor | Other]
    """What torch gives in the network's precision, by the network's output names."""
    truth: dict[str, torch.Tensor] | None = None
    """The exact results; None where there are none."""
    exact: Exact | None = None
    """What knows the network's exact results."""
    alone: bool = False
    """Whether there are exact results alone, and no others: then ``own`` says dtypes and shapes."""
    moved: Callable[[int, float], Mapping[str, torch.Tensor]] | None = None
    """What gives the exact results with noise, by its seed and size; None where there is no reference to run."""
    chaotic: dict[str, float] = field(default_factory=dict)
    """Outputs that noise of 2**-52 alone moves by more than a millionth, and by how much."""

    def compare(self, got: Mapping[str, torch.Tensor], *, meaning: bool = True) -> list[OutputComparison]:
        """Compares a network's results with the reference's. An output that only one side has fails.

        Results that come with exact values are compared by these, too, unless it is not ``meaning`` that is asked.
        """
        results = []
        for name in dict.fromkeys((*got, *self.own)):
            own = self.own.get(name)
            if name in got and isinstance(own, torch.Tensor):
                results.append(self._judged(name, got[name], self._plain(own, got[name].dtype), meaning))
            else:
                results.append(self._unmatched(name, got))
        return results

    def _judged(self, name: str, got: torch.Tensor, own: torch.Tensor, meaning: bool) -> OutputComparison:
        truth, tolerance, exact = (self.truth or {}).get(name), self.rules.of(name), self.exact
        knows = meaning and exact is not None and (exact.has(got) or not got.is_floating_point())
        if truth is not None and knows and truth.shape != got.shape:
            moved = self._of_another_count(name, got, tolerance)
            truth, own = (truth, own) if moved is None else (moved, moved.to(own.dtype))
        alike = got.shape == own.shape and got.dtype == own.dtype and got.numel()
        if truth is None or truth.shape != got.shape or not knows or not alike:
            return self._quality(name, got, own, truth)
        assert self.exact is not None
        truth = truth if got.is_floating_point() else truth.double()
        mine, room = self._meant(self.exact, got), self._room(self.exact, truth, tolerance)
        over = excess(mine, truth, room)
        if bool((over > 1).any()) and self.moved is not None:
            over, away = self._beside_noise(name, mine, truth, room, 2.0**-52)
            self._note(name, truth, away)
        if bool((over > 1).any()) and self.exact.rounded_constants and self.moved is not None:
            coarse, _ = self._beside_noise(name, mine, truth, room, 2.0**-24)
            if not bool((coarse > 1).any()):
                self.exact.rounded["constants that were rounded before they could be seen"] = None
                over = coarse
        if bool((over > 1).any()) or self.alone:
            found = described(name, mine, truth, truth, over, "meaning" if bool((over > 1).any()) else "meaning alone")
            return replace(found, dtype=dtype_name(got.dtype), meaning=_greatest(mine, truth))
        # What noise excuses is no error of the precision.
        aside = torch.where((mine == truth) | ~torch.isfinite(mine - truth), 0.0, truth - mine)
        moved = (got.double() + aside).to(got.dtype) if bool(aside.any()) else got
        result = self._quality(name, moved, own, truth)
        if not result.passed and name not in self.rules.decibels and self.moved is not None and got.is_floating_point():
            eps = torch.finfo(self.working if self.working is not None else own.dtype).eps
            for away in self._sensitivity(name, truth, eps):
                result = self._quality(name, moved, _as_sensitive(own, truth, tolerance, away), truth)
                if result.passed:
                    break
        return replace(result, truth="meaning" if result.passed else result.truth, meaning=_greatest(mine, truth))

    def _quality(self, name: str, got: torch.Tensor, own: torch.Tensor, truth: torch.Tensor | None) -> OutputComparison:
        """How well an output is computed."""
        least = self.rules.decibels.get(name)
        if least is None or not got.is_floating_point() or got.shape != own.shape:
            return judge(name, got, own, truth, tolerance=self.rules.of(name), precision=self.working)
        if truth is None:  # of two that round differently one may overflow alone
            most = torch.finfo(torch.float16).max
            got, truth = (each.double().nan_to_num(torch.nan, most, -most) for each in (got, own))
        over = 10 ** ((least - sqnr(got, truth)) / 20)
        return described(name, got, own, truth, torch.full_like(truth, over), "budget")

    def _beside_noise(
        self, name: str, mine: torch.Tensor, truth: torch.Tensor, room: torch.Tensor, size: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """How far an output is off beside what noise of a size makes of the exact one, and what that is."""
        over = away = room
        for away in self._sensitivity(name, truth, size):
            over = excess(mine, truth, room + limits.NOISY * away)
            if not bool((over > 1).any()):
                break
        return over, away

    @staticmethod
    def _meant(exact: Exact, got: torch.Tensor) -> torch.Tensor:
        """The exact value of a network's result."""
        return exact.of(got) if got.is_floating_point() else got.double()

    @staticmethod
    def _room(exact: Exact, truth: torch.Tensor, tolerance: Tolerance) -> torch.Tensor:
        """How far it may be off."""
        return allowed(truth, limits.ROUNDED if exact.rounded else limits.LIMIT, tolerance.floor)

    def _of_another_count(self, name: str, got: torch.Tensor, tolerance: Tolerance) -> torch.Tensor | None:
        """What noise of 2**-52 makes of the exact result where the network's, of another size, is that; else None.

        Which of two elements with one score is left, and so how many others are, is decided by the last bit.
        """
        if self.exact is None or self.moved is None:
            return None
        mine = self._meant(self.exact, got)
        for seed in range(limits.RUNS):
            other = self.moved(seed, 2.0**-52)[name].double()
            if other.shape == mine.shape:
                room = self._room(self.exact, other, tolerance)
                if not bool((excess(mine, other, room) > 1).any()):
                    return other
        return None

    def _sensitivity(self, name: str, truth: torch.Tensor, size: float) -> Iterator[torch.Tensor]:
        """How far noise of a size moves each element of the exact result, as is seen by ever more runs of it."""
        assert self.moved is not None
        moved: list[torch.Tensor] = []
        for seed in range(limits.RUNS):
            moved.append(self.moved(seed, size)[name].double())
            yield deviation(truth, moved)

    def _note(self, name: str, truth: torch.Tensor, away: torch.Tensor) -> None:
        size = truth.abs().nan_to_num(0.0, 0.0).median()
        part = float(limits.NOISY * away.nan_to_num(0.0, 0.0).median() / size) if float(size) else 0.0
        if part > limits.CHAOTIC:
            self.chaotic[name] = part

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

    def _plain(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """As an output is: float32 where a network has a precision, whatever was computed inside, though a state keeps
        its own; and of the dtype that TensorRT has instead of the reference's."""
        halves = (torch.float16, torch.bfloat16)
        if self.precision is None or tensor.dtype not in halves:
            return tensor.to(dtype) if narrowed(tensor.dtype) == dtype else tensor
        return tensor.to(dtype if dtype in halves else torch.float32)


def _as_sensitive(own: torch.Tensor, truth: torch.Tensor, tolerance: Tolerance, away: torch.Tensor) -> torch.Tensor:
    """torch's result, as far off as noise of the network's precision in each operation makes the exact one.

    What is so sensitive, such as a softmax of great scores, says nothing about how well a network computes.
    """
    error, least = own.double() - truth, limits.SENSITIVE * away / tolerance.times
    further = truth + torch.where(least > error.abs(), torch.copysign(least, error), error)
    greatest = torch.finfo(own.dtype).max
    return torch.where(torch.isfinite(own), further.nan_to_num(0.0).clamp(-greatest, greatest).to(own.dtype), own)


def _greatest(mine: torch.Tensor, truth: torch.Tensor) -> float:
    size = truth.abs()
    typical = float(size.nan_to_num(0.0, 0.0).mean()) or 1.0
    return float(((mine - truth).abs() / (size + typical)).nan_to_num(0.0, 0.0).max())


def gather(
    reference: Reference, feeds: Mapping[str, torch.Tensor], names: Sequence[str], rules: Rules, by: By = "both"
) -> Evidence:
    """The evidence that a reference gives for some feeds."""

    def named(returned: Any) -> dict[str, torch.Tensor | Other]:
        found: Leaves = leaves(returned).without(rules.leave_out)
        return match(found, names)

    def exact(found: Mapping[str, torch.Tensor | Other]) -> dict[str, torch.Tensor]:
        tensors = {name: leaf for name, leaf in found.items() if isinstance(leaf, torch.Tensor)}
        return {
            name: reference.exact.of(leaf) if leaf.is_floating_point() or leaf.is_complex() else leaf
            for name, leaf in tensors.items()
        }

    if by == "own":
        rules = Rules({None: Tolerance(floor=limits.COARSE), **rules.tolerances}, rules.leave_out)
    own = named(reference(feeds, by=by))
    found = Evidence(feeds, rules, reference.precision, reference.working, own)
    if reference.not_exact is None and by != "own":
        found.truth, found.exact, found.alone = exact(own), reference.exact, by == "meaning"
        if reference.exact.read_half and not found.alone:
            found.own = named(reference(feeds, by="own"))
        found.moved = functools.cache(  # of each changed network, and each output, the same is asked
            lambda seed, size: exact(named(reference(feeds, noise=(seed, size), by="meaning")))
        )
    return found
