"""The search of :func:`find_precision`: sensitivities, then the cheapest dtypes that stay within a budget of noise."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..checking.judging.quality import Outputs, Quality
from ..core.caller import as_number
from ..core.dtypes import as_dtype
from ..core.errors import UsageError, nearest
from ..core.lazy import torch
from ..definition.network import Network
from ..definition.tuning.choices import SiteKey
from ..definition.tuning.precisions import NARROW, PER_TENSOR, Precisions, narrow_dtype
from ..interpreter.calibration import METHODS
from ..interpreter.interpret import Interpreter
from ..programs.devices import Device
from .recording import Assignment, Group, Recording, Tell

LEAST = 1e-9
"""Seconds that a wider dtype costs at the least: what joins two parts in it may cost less than nothing."""
SHARE = 0.5
"""The part of the time that sensitivities may take."""
ROUNDS = 12
"""The most whole evaluations before the search gives up."""
LATE = 2
"""As many are made after the first one even where there is no time: what was measured is worth them."""
Found = tuple[Assignment, Network, Quality]


@dataclass(frozen=True)
class SQNR:
    """The least signal to quantization noise ratio of an output: 20 decibels are a tenth off, 40 a hundredth.

    >>> SQNR(45).part
    3.1622776601683795e-05
    """

    decibels: float

    def __post_init__(self) -> None:
        number = as_number(self.decibels)
        if number is None or not 0 < number < 300:
            how = "between 0 and 300, such as td.SQNR(45)"
            raise UsageError(f"an SQNR is a number of decibels {how}, not {self.decibels!r}")
        object.__setattr__(self, "decibels", number)

    @property
    def part(self) -> float:
        """The greatest power of the noise, as a part of the signal's."""
        return 10 ** (-self.decibels / 10)


def as_budget(given: Any, outputs: Sequence[str]) -> dict[str, SQNR]:
    """The least SQNR by output; one for all, a number of decibels or an :class:`SQNR`, or a mapping of these.

    Raises UsageError for what is none of these, and for an output that there is not.
    """
    items: dict[str, Any] = dict(given) if isinstance(given, Mapping) else dict.fromkeys(outputs, given)
    for name in items:
        if name not in outputs:
            raise UsageError(f"there is no output {name!r} with floating-point values{nearest(str(name), outputs)}")
    return {name: each if isinstance(each, SQNR) else SQNR(each) for name, each in items.items()}


class Search:
    """The dtypes of a network's calls: ``best`` has the cheapest that stay within the budget."""

    def __init__(
        self,
        recording: Recording,
        allow: Sequence[str],
        budget: Mapping[str, SQNR],
        enough: Callable[[Sequence[Outputs]], bool] | None,
        define: Callable[[Precisions], Network],
        device: Device,
        deadline: float,
        tell: Tell,
        scale: float = 1.0,
    ):
        self.device, self.scale = device, scale  # by which tensors of the program are greater than those of the data
        self.recording, self.allow, self.enough = recording, allow, enough
        self.deadline, self.tell = deadline, tell
        self._define, self.method = define, "max"
        self.left_out: set[int] = set()
        """Groups that are not to be narrow."""
        self.limits = {name: each.part for name, each in budget.items()}
        self.groups = recording.groups()
        self.of = {call.site.key: group for group in self.groups for call in group.calls}
        self.neighbours: dict[int, set[SiteKey]] = {id(group): set() for group in self.groups}
        """A call of each group that takes its results or gives it operands."""
        for key, call in recording.calls.items():
            for source in call.sources:
                if source is not None and self.of[source] is not self.of[key]:
                    self.neighbours[id(self.of[key])].add(self.of[source].calls[0].site.key)
                    self.neighbours[id(self.of[source])].add(self.of[key].calls[0].site.key)
        self.evaluations, self.feeds = 0, len(recording.feeds)
        self.reserve = 0.0
        """Seconds that building a program takes."""
        self.unmeasured = 0
        """Groups that there was no time to evaluate alone."""

    def define(self, assignment: Assignment) -> Network:
        """The network in which each call has what its group is assigned."""
        return self._define(self.recording.precisions(assignment, self.method))

    def calibrate(self, assignment: Assignment) -> None:
        """Chooses the method that gives the network with these dtypes the least noise."""
        if not {"int8", PER_TENSOR} & {*assignment.values()}:
            return
        noise = {}
        for number, self.method in enumerate(METHODS):
            self.tell("calibrating", number, len(METHODS))
            noise[self.method] = self.noise(self.quality(self.define(assignment), self.feeds)[0])
        self.method = min(noise, key=lambda method: noise[method])

    def measure(self) -> None:
        """The noise of each group alone in each dtype, as long as there is time: of those below float16 first, which
        make most, by what they win, then the largest groups."""
        began = time.perf_counter()
        until = began + SHARE * (self.deadline - began)
        tried = [
            (group, dtype)
            for group in sorted((group for group in self.groups if group.is_open), key=lambda group: -group.bytes)
            for dtype in self.allow
            if self._may(group, dtype)
        ]
        tried.sort(key=lambda each: -self._gain(*each) if each[1] in NARROW else 0.0)
        left: list[tuple[Group, str]] = []
        for index, (group, dtype) in enumerate(tried):
            self.tell("measuring each call's noise", index, len(tried))
            if time.perf_counter() > until:
                left.append((group, dtype))
                continue
            start = time.perf_counter()
            group.noise[dtype] = self._alone(group, dtype)
            if (time.perf_counter() - start) * (len(tried) - index) > until - time.perf_counter():
                self.feeds = max(1, self.feeds // 2)
        for group, dtype in left:  # as most of those that were measured, or else what its digits round off
            measured = [other.noise[dtype] for other in self.groups if dtype in other.noise]
            kept = as_dtype(narrow_dtype(dtype))
            step = torch.finfo(kept).eps if kept.is_floating_point else 1 / NARROW[dtype]
            group.noise[dtype] = {
                name: statistics.median([each[name] for each in measured] or [step**2 / 12]) for name in self.limits
            }
        self.unmeasured = len({id(group) for group, _ in left})

    def _alone(self, group: Group, dtype: str) -> dict[str, float]:
        """The noise of the network in which one group alone has a dtype, and the others float32."""
        alone = {key: dtype if other is group else "float32" for key, other in self.of.items()}
        return self.quality(self.define(self.chosen(alone)), self.feeds)[0].parts()

    def _may(self, group: Group, dtype: str) -> bool:
        """Whether values fit a dtype, and a narrow one wins something."""
        if dtype in NARROW:
            low = all(call.fits("float16") for call in group.calls)
            return low and any(call.fits(dtype) for call in group.calls) and self._gain(group, dtype) > 0
        return all(call.fits(dtype) for call in group.calls)

    def start(self) -> Assignment:
        """Every call in the dtype that saves most, of those whose range its values fit."""
        return {key: self._possible(group)[0] for key, group in self.of.items()}

    def _possible(self, group: Group) -> list[str]:
        """The dtypes that a group may have, the one that saves most and makes the least noise first."""
        if not group.is_open:
            return [group.calls[0].site.lowering]
        kept = [dtype for dtype in self.allow if math.isfinite(self._worst(group, dtype))]
        kept = [dtype for dtype in kept if dtype not in NARROW or id(group) not in self.left_out]
        return [*sorted(kept, key=lambda dtype: (self._saved(group, dtype), self._worst(group, dtype))), "float32"]

    def _gain(self, group: Group, dtype: str) -> float:
        return group.gain(dtype, self.device, self.scale)

    def _saved(self, group: Group, dtype: str) -> float:
        """Seconds by which a dtype is above float32, alone: less than 0 where it wins."""
        won = self._gain(group, dtype) if dtype in NARROW else 0.0
        return -group.saves(dtype) * self.scale / self.device.bandwidth - won

    def _worst(self, group: Group, dtype: str) -> float:
        """The noise of a group over what is allowed, of the output where that is most; infinite if it is not to be."""
        if dtype == "float32":
            return 0.0
        noise = group.noise.get(dtype)
        return (
            math.inf if noise is None else max((noise[name] / limit for name, limit in self.limits.items()), default=0)
        )

    def _seconds(self, group: Group, dtype: str, chosen: Mapping[int, str]) -> float:
        """What a group costs in a dtype: its bytes, and a cast for each neighbour that has another one."""
        casts = sum(chosen[id(self.of[key])] != dtype for key in self.neighbours[id(group)]) * (dtype not in NARROW)
        return self._saved(group, dtype) + casts * self.device.overhead

    def _predicted(self, chosen: Mapping[int, str]) -> dict[str, float]:
        """The noise of each output over what is allowed, as the sum of the groups'."""
        return {
            name: sum(
                group.noise[dtype][name] / limit for group in self.groups if (dtype := chosen[id(group)]) in group.noise
            )
            for name, limit in self.limits.items()
        }

    def _within(self, assignment: Assignment, most: float) -> Assignment:
        """The assignment with the groups in wider dtypes that make most noise for what they save, until the predicted
        noise is at most so much of what is allowed; then those that fit after all are taken back."""
        chosen = {id(group): assignment[group.calls[0].site.key] for group in self.groups}
        before = dict(chosen)

        def steps() -> Iterable[tuple[float, Group, str]]:
            now = self._predicted(chosen)
            over = [name for name, part in now.items() if part > most]
            for group in self.groups if over else ():
                dtype = chosen[id(group)]
                for wider in self._possible(group) if group.is_open and dtype != "float32" else ():
                    gain = sum(
                        group.noise.get(dtype, {}).get(name, 0.0) - group.noise.get(wider, {}).get(name, 0.0)
                        for name in over
                    )
                    if gain > 0:
                        costs = self._seconds(group, wider, chosen) - self._seconds(group, dtype, chosen)
                        yield gain / max(costs, LEAST), group, wider

        while (best := max(steps(), key=lambda step: step[0], default=None)) is not None:
            chosen[id(best[1])] = best[2]
        changed = [group for group in self.groups if chosen[id(group)] != before[id(group)]]
        for group in sorted(changed, key=lambda group: -group.bytes):
            back = {**chosen, id(group): before[id(group)]}
            if all(part <= most for part in self._predicted(back).values()):
                chosen = back
        return {key: chosen[id(group)] for key, group in self.of.items()}

    def run(self, assignment: Assignment, late: int = LATE) -> Found | None:
        """From an assignment to one whose whole evaluation stays within the budget; None where there was no time.

        ``late`` further evaluations are made even then.
        """
        most = 1.0
        for number in range(ROUNDS):
            if number > late and self._is_late():
                return None
            assignment = self.chosen(self._within(assignment, most))
            self.tell("evaluating the whole network", number, ROUNDS)
            network = self.define(assignment)
            quality, got = self.quality(network)
            if self.is_enough(quality, got):
                return assignment, network, quality
            parts = self._parts(quality)
            if not all(map(math.isfinite, parts.values())) and self._mended(network, assignment):
                continue
            chosen = {id(group): assignment[group.calls[0].site.key] for group in self.groups}
            predicted = max(self._predicted(chosen).values(), default=0.0)
            worst = max(parts.values(), default=2.0) if self.enough is None else 2.0
            most = min(most, predicted) / max(1.3, min(worst, 8.0))
        return None

    def _is_late(self) -> bool:
        """Whether there is no time left to build what would be found."""
        return time.perf_counter() + self.reserve > self.deadline

    def with_less(self, assignment: Assignment, is_dear: Callable[[Found], bool]) -> None:
        """Tries no narrow group, and then how few must be left out so that nothing ``is_dear``: first those that win
        least for the bytes that they move more."""
        dtypes = {id(group): assignment[group.calls[0].site.key] for group in self.groups}
        narrow = [group for group in self.groups if dtypes[id(group)] in NARROW]
        moving = replace(self.device, half=math.inf, int8=math.inf, fp8=math.inf, vector=math.inf, overhead=0.0)

        def worth(group: Group) -> float:
            more = -group.gain(dtypes[id(group)], moving, self.scale)
            return self._gain(group, dtypes[id(group)]) / more if more > 0 else math.inf

        narrow.sort(key=worth)
        least, most = 0, len(narrow)
        place = most
        while place > least and not self._is_late():
            self.left_out = {id(group) for group in narrow[:place]}
            each = self.run(self.start(), late=0)
            least, most = (place, most) if each is None or is_dear(each) else (least, place)
            place = (least + most) // 2
        self.left_out = set()

    def is_enough(self, quality: Quality, got: Sequence[Outputs]) -> bool:
        """Whether outputs are within the budget."""
        return all(part <= 1 for part in self._parts(quality).values()) and (self.enough is None or self.enough(got))

    def _parts(self, quality: Quality) -> dict[str, float]:
        """The noise of each output over what is allowed."""
        return {name: part / self.limits[name] for name, part in quality.parts().items() if name in self.limits}

    def noise(self, quality: Quality) -> float:
        """The noise over what is allowed, of the output where that is most."""
        return max(self._parts(quality).values(), default=0.0)

    def chosen(self, assignment: Assignment) -> Assignment:
        """With the author's own choices."""
        return assignment | {key: call.site.lowering for key, call in self.recording.calls.items() if call.site.given}

    def quality(self, network: Network, feeds: int | None = None) -> tuple[Quality, list[Outputs]]:
        """That of a network on all data, or so many samples of it, and its outputs."""
        interpreter, quality, got = Interpreter(network), Quality(), list[Outputs]()
        for each, truth in zip(self.recording.feeds[:feeds], self.recording.truth, strict=feeds is None):
            got.append(interpreter(each))
            quality.add(got[-1], truth)
        self.evaluations += len(got)
        return quality, got

    def _mended(self, network: Network, assignment: Assignment) -> bool:
        """Forbids the dtype of the first calls that give what is not finite where float32 is; whether there are any."""
        sites = {
            name: call.site for name, each in network.layers.items() if (call := each.call) and call.site is not None
        }
        finite: dict[str, bool] = {}
        guilty: dict[int, Group] = {}
        interpreter = Interpreter(network)
        makers = interpreter.makers
        needs = {node.name: node.needs for node in interpreter.nodes}

        def observe(name: str, value: torch.Tensor) -> None:
            finite[name] = not value.is_floating_point() or bool(torch.isfinite(value).all())
            maker = makers.get(name, "")
            key = sites.get(maker)
            if key is None or key not in self.of or finite[name]:
                return
            group, first = self.of[key], all(finite.get(need, True) for need in needs.get(maker, ()))
            if first and group.is_open and assignment[key] != "float32":
                guilty[id(group)] = group

        for each in self.recording.feeds:
            interpreter(each, observe=observe)
        for group in guilty.values():
            dtype = assignment[group.calls[0].site.key]
            group.noise[dtype] = dict.fromkeys(self.limits, math.inf)
            for call in group.calls:
                assignment[call.site.key] = self._possible(group)[0]
        return bool(guilty)
