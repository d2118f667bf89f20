"""The search of :func:`find_precision`: ranges and sensitivities from one network in float32, then the cheapest dtypes
that stay within a budget of noise."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..checking.judging.quality import SQNR, Outputs, Quality
from ..core.dtypes import as_dtype
from ..core.lazy import torch
from ..definition.network import Network
from ..definition.precision import FLOAT32, LOW
from ..definition.tuning.choices import Site, SiteKey
from ..definition.tuning.precisions import Precisions
from ..interpreter.calibration import METHODS, Seen
from ..interpreter.interpret import Interpreter
from ..layers.convolution import parameters_of
from ..layers.evaluation import Evaluate, Node, Shapes, kind, weights_of
from ..programs.devices import Device

MARGIN = 2.0
"""How far values on the author's data stay below the greatest of a dtype: other data has greater ones."""
LEAST = 1e-9
"""Seconds that a wider dtype costs at the least: what joins two parts in it may cost less than nothing."""
SHARE = 0.5
"""The part of the time that sensitivities may take."""
ROUNDS = 12
"""The most whole evaluations before the search gives up."""
PRODUCTS = LOW - {"prelu"}
QUANTIZED = ("CONVOLUTION", "MATRIX_MULTIPLY", "ELEMENTWISE")
Feeds = Mapping[str, "torch.Tensor"]
Tell = Callable[[str, int, int], None]
Assignment = dict[SiteKey, str]
Found = tuple[Assignment, Network, Quality]


@dataclass
class Call:
    """What was recorded of one call of the author's."""

    site: Site
    sources: Collection[SiteKey | None]
    """The calls whose results it takes; None for inputs of the network."""
    greatest: float = 0.0
    """Of its operands, results and what it computes in between."""
    elements: dict[str, int] = field(default_factory=dict)
    """Of its tensors that are not constant, by name."""
    work: int = 0
    """Floating-point operations of its product."""
    made: int = 0
    """Elements of its product."""
    operands: tuple[str, ...] = ()
    """The tensors that it would take in int8."""

    @property
    def is_product(self) -> bool:
        """Whether it multiplies with a weight that may be int8."""
        return "int8" in self.site.ways and self.site.key.function in PRODUCTS

    def fits(self, dtype: str) -> bool:
        """Whether its values stay within a dtype's range; in int8, within that of the float16 around it."""
        if dtype == "int8" and not (self.is_product and self.operands):
            return False
        return self.greatest * MARGIN <= torch.finfo(as_dtype("float16" if dtype == "int8" else dtype)).max

    def gain(self, device: Device, scale: float) -> float:
        """Seconds that its product wins in int8 over float16: it is faster, and needs a launch behind it that scales,
        and quantizes for the next one."""
        taken, made = (scale * n for n in (sum(self.elements[name] for name in self.operands), self.made))

        def seconds(moved: float, rate: float) -> float:
            return max(moved / device.bandwidth, self.work * scale / rate, device.overhead)

        narrow = seconds(taken + 2 * made, device.int8) + seconds(3 * made, math.inf)
        return seconds(2 * taken + 2 * made, device.half) - narrow


@dataclass
class Group:
    """Calls that share tensors that nothing else takes: they have one dtype."""

    calls: list[Call]
    noise: dict[str, dict[str, float]] = field(default_factory=dict)
    """By dtype and output: the noise that this group alone makes, as a part of the signal."""

    @property
    def bytes(self) -> int:
        """Of its tensors in float32."""
        return 4 * sum({name: n for call in self.calls for name, n in call.elements.items()}.values())

    @property
    def is_open(self) -> bool:
        """Whether the author leaves its dtype to the search."""
        return not any(call.site.given for call in self.calls)

    def saves(self, dtype: str) -> float:
        """Bytes that it saves in a dtype; one of int8 has float16 around its product."""
        return self.bytes * (1 - as_dtype("float16" if dtype == "int8" else dtype).itemsize / 4)

    def gain(self, device: Device, scale: float) -> float:
        """Seconds that its products win in int8 over float16."""
        return sum(call.gain(device, scale) for call in self.calls if call.is_product)


class Recording:
    """A network in float32, evaluated on the author's data: exact outputs, each call's range, groups of calls."""

    def __init__(self, network: Network, feeds: Sequence[Feeds], tell: Tell):
        assert network.policy is not None and network.policy.calls is not None
        self.network, self.feeds = network, feeds
        sources = network.policy.sources
        self.calls = {site.key: Call(site, sources[site.key]) for site in network.policy.calls.sites}
        self.sites = {name: call.site for name, call in network.calls.items() if call.site is not None}
        """The call of each layer."""
        self.seen: dict[str, Seen] = {}
        """The values of the tensors that calls take that may be in int8."""
        self._scales: dict[tuple[str, str], float] = {}
        self._rounded: Collection[SiteKey] = ()
        self._dtype = torch.float32
        self._records = True
        self.interpreter = Interpreter(network, wrap=self._wrap)
        self.own = Quality()
        """Of the network in float32."""
        exact = network.exact_values()
        with exact:
            precise = Interpreter(network)
        self.truth: list[dict[str, torch.Tensor]] = []
        for index, each in enumerate(feeds):
            tell("evaluating in float64 and float32", index, len(feeds))
            exact.alone = True
            with exact:
                found = precise({name: feed.clone() for name, feed in each.items()})
            self.truth.append({name: exact.of(x) for name, x in found.items() if x.is_floating_point()})
            self.own.add(self.interpreter(each), self.truth[-1])
        self._records = False

    def _wrap(self, node: Node, evaluate: Evaluate) -> Evaluate:
        key = self.sites.get(node.name)
        if key is None or key not in self.calls:
            return evaluate
        call, makes = self.calls[key], node.makes
        kernel = parameters_of(node, channels_first=node.type == "CONVOLUTION") if "kernel" in weights_of(node) else ()
        needs = [None if tensor is None else tensor.name for tensor in node.inputs]
        varying = bool(node.inputs)

        def watched(*operands: Any) -> Any:
            if self._records:
                results = evaluate(*operands)
                made = results if isinstance(results, (tuple, list)) else (results,)
                for name, x in (*zip(needs, operands, strict=False), *zip(makes, made, strict=True)):
                    if isinstance(x, torch.Tensor) and x.is_floating_point() and x.numel() and name is not None:
                        greatest = torch.where(torch.isinf(x), 0.0, x).abs().max()  # an infinity is a mask's
                        call.greatest = max(call.greatest, float(greatest.nan_to_num(0.0)))
                        if varying:
                            call.elements[name] = max(call.elements.get(name, 0), x.numel())
                if "int8" in call.site.ways and node.type in QUANTIZED:
                    self._watch(call, node, operands, made)
                return results
            if key not in self._rounded:
                return evaluate(*operands)
            results = evaluate(*map(self._round, (*operands, *kernel[len(operands) - 1 :])))
            if isinstance(results, (tuple, list)):
                return type(results)(map(self._round, results))
            return self._round(results)

        return watched

    def _watch(self, call: Call, node: Node, operands: Sequence[Any], made: Sequence[Any]) -> None:
        """Notes what a call in int8 would take."""
        taken = [(name, x) for name, x in zip(node.needs, operands, strict=False) if name in call.elements]
        shapes = Shapes([tuple(x.shape) for x in operands], [tuple(x.shape) for x in made])
        if call.is_product:
            if node.type == "ELEMENTWISE" or (node.type == "CONVOLUTION" and node.layer.num_groups > 1):
                return  # what is behind the product; grouped ones stay in float16
            taken, call.made = taken[:1], made[0].numel()
            call.work = max(call.work, kind(node).flops(node, shapes))
        elif any(self.sites.get(self.interpreter.makers.get(name, "")) == call.site.key for name, _ in taken):
            return  # a part of it
        call.operands = tuple(name for name, _ in taken)
        for name, x in taken:
            self.seen.setdefault(name, Seen()).add(x)

    def _round(self, x: Any) -> Any:
        """A value in float32 that the dtype has."""
        if isinstance(x, torch.Tensor) and x.dtype == torch.float32:
            return x.to(self._dtype).float()
        return x

    def groups(self) -> list[Group]:
        """The calls in groups: one joins the call whose result it alone takes, unless it is a product, or one of the
        two has values that the other's dtype would not hold."""
        users: dict[SiteKey, list[Call]] = {}
        for call in self.calls.values():
            for source in call.sources:
                if source is not None:
                    users.setdefault(source, []).append(call)
        group = {key: Group([call]) for key, call in self.calls.items()}
        for key, taking in users.items():
            first, second = self.calls[key], taking[0]
            alike = first.fits("float16") == second.fits("float16") and first.site.given == second.site.given
            if len(taking) > 1 or not alike or second.site.key.function in PRODUCTS:
                continue
            one, other = group[key], group[second.site.key]
            if one is not other:
                one.calls += other.calls
                group |= {call.site.key: one for call in other.calls}
        return list({id(each): each for each in group.values()}.values())

    def noise(self, group: Group, dtype: str, feeds: int) -> dict[str, float]:
        """What rounding in one group alone makes of the outputs, on so many of the samples."""
        self._rounded, self._dtype = {call.site.key for call in group.calls}, as_dtype(dtype)
        quality = Quality()
        try:
            for each, truth in zip(self.feeds[:feeds], self.truth, strict=False):
                quality.add(self.interpreter(each), truth)
        finally:
            self._rounded = ()
        return quality.parts()

    def scale(self, name: str, method: str) -> float:
        """That of a tensor in int8."""
        if (name, method) not in self._scales:
            self._scales[name, method] = self.seen[name].scale(method)
        return self._scales[name, method]

    def as_autocast(self, low: str) -> Assignment:
        """The dtypes that autocast's lists give the calls."""
        found: Assignment = {}
        for key, call in self.calls.items():  # in the author's order: sources come first
            name = key.function
            wide = any(source is None or found.get(source) == "float32" for source in call.sources)
            found[key] = low if name in LOW else "float32" if name in FLOAT32 or wide else low
        return found


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
        self._define, self.method, self.least_gain = define, "max", 0.0
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
        self.evaluations = 0
        self.unmeasured = 0
        """Groups that there was no time to evaluate alone."""

    def define(self, assignment: Assignment) -> Network:
        """The network in which each call has what its group is assigned."""
        return self._define(self.precisions(assignment))

    def precisions(self, assignment: Assignment) -> Precisions:
        """The dtype of each call, with scales: in a group of int8 its products and sums are so, and others in float16.

        A sum takes what a product has quantized; a tensor has one scale.
        """
        calls = self.recording.calls
        taken = {name for key, call in calls.items() if self._is_narrow(assignment, call) for name in call.operands}
        dtypes, scales = dict(assignment), {}
        for key, call in calls.items():
            if assignment[key] == "int8":
                steps = [self.recording.scale(name, self.method) if name in taken else 0.0 for name in call.operands]
                dtypes[key] = "int8" if any(steps) else "float16"
                if any(steps):
                    scales[key] = tuple(steps)
        return Precisions(dtypes, scales)

    def _is_narrow(self, assignment: Assignment, call: Call) -> bool:
        return assignment[call.site.key] == "int8" and call.is_product

    def calibrate(self, assignment: Assignment) -> None:
        """Chooses the method that gives the network with these dtypes the least noise."""
        if "int8" not in assignment.values():
            return
        noise = {}
        for number, self.method in enumerate(METHODS):
            self.tell("calibrating", number, len(METHODS))
            parts = self._parts(self.quality(self.define(assignment))[0])
            noise[self.method] = max(parts.values(), default=0.0)
        self.method = min(noise, key=lambda method: noise[method])

    def measure(self) -> None:
        """The noise of each group alone in each dtype, the largest groups first, as long as there is time."""
        feeds, began = len(self.recording.feeds), time.perf_counter()
        until = began + SHARE * (self.deadline - began)
        tried = [
            (group, dtype)
            for group in sorted((group for group in self.groups if group.is_open), key=lambda group: -group.bytes)
            for dtype in self.allow
            if self._may(group, dtype)
        ]
        left: list[tuple[Group, str]] = []
        for index, (group, dtype) in enumerate(tried):
            self.tell("measuring each call's noise", index, len(tried))
            if time.perf_counter() > until:
                left.append((group, dtype))
                continue
            start = time.perf_counter()
            if dtype == "int8":
                alone = {key: dtype if other is group else "float32" for key, other in self.of.items()}
                group.noise[dtype] = self.quality(self.define(self.chosen(alone)), feeds)[0].parts()
            else:
                group.noise[dtype] = self.recording.noise(group, dtype, feeds)
            self.evaluations += feeds
            if (time.perf_counter() - start) * (len(tried) - index) > until - time.perf_counter():
                feeds = max(1, feeds // 2)
        for group, dtype in left:  # as most of those that were measured
            measured = [other.noise[dtype] for other in self.groups if dtype in other.noise]
            group.noise[dtype] = {
                name: statistics.median(each[name] for each in measured) if measured else 0.0 for name in self.limits
            }
        self.unmeasured = len({id(group) for group, _ in left})

    def _may(self, group: Group, dtype: str) -> bool:
        """Whether values fit a dtype, and one of int8 wins something."""
        if dtype == "int8":
            low = all(call.fits("float16") for call in group.calls)
            return low and any(call.fits(dtype) for call in group.calls) and group.gain(self.device, self.scale) > 0
        return all(call.fits(dtype) for call in group.calls)

    def start(self) -> Assignment:
        """Every call in the dtype that saves most, of those whose range its values fit."""
        return {key: self._possible(group)[0] for key, group in self.of.items()}

    def _possible(self, group: Group) -> list[str]:
        """The dtypes that a group may have, the one that saves most and makes the least noise first."""
        if not group.is_open:
            return [group.calls[0].site.lowering]
        kept = [dtype for dtype in self.allow if math.isfinite(self._worst(group, dtype))]
        if "int8" in kept and group.gain(self.device, self.scale) <= self.least_gain:
            kept.remove("int8")
        return [*sorted(kept, key=lambda dtype: (self._saved(group, dtype), self._worst(group, dtype))), "float32"]

    def _saved(self, group: Group, dtype: str) -> float:
        """Seconds by which a dtype is above float32, alone: less than 0 where it wins."""
        won = group.gain(self.device, self.scale) if dtype == "int8" else 0.0
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
        casts = sum(chosen[id(self.of[key])] != dtype for key in self.neighbours[id(group)]) * (dtype != "int8")
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

    def run(self, assignment: Assignment) -> Found | None:
        """From an assignment to one whose whole evaluation stays within the budget; None where there was no time."""
        most = 1.0
        for number in range(ROUNDS):
            if number and time.perf_counter() > self.deadline:
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

    def with_less_int8(self, assignment: Assignment) -> list[Found]:
        """The networks in which only the half, the quarter of the groups are in int8 that win most by it, and none."""
        gains = sorted(
            group.gain(self.device, self.scale) for group in self.groups if self._has_int8(group, assignment)
        )
        found = []
        for place in dict.fromkeys((len(gains) // 2, len(gains) * 3 // 4, len(gains))):
            if time.perf_counter() > self.deadline:
                break
            self.least_gain = gains[place - 1] if place else 0.0
            less = {key: self._possible(group)[0] for key, group in self.of.items()}
            if (each := self.run(less)) is not None:
                found.append(each)
        self.least_gain = 0.0
        return found

    def _has_int8(self, group: Group, assignment: Assignment) -> bool:
        return assignment[group.calls[0].site.key] == "int8"

    def is_enough(self, quality: Quality, got: Sequence[Outputs]) -> bool:
        """Whether outputs are within the budget."""
        return all(part <= 1 for part in self._parts(quality).values()) and (self.enough is None or self.enough(got))

    def _parts(self, quality: Quality) -> dict[str, float]:
        """The noise of each output over what is allowed."""
        return {name: part / self.limits[name] for name, part in quality.parts().items() if name in self.limits}

    def evaluated(self, assignment: Assignment) -> Found | None:
        """The network with these dtypes as they are; None where that is not enough."""
        assignment = self.chosen(assignment)
        network = self.define(assignment)
        quality, got = self.quality(network)
        return (assignment, network, quality) if self.is_enough(quality, got) else None

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
        sites = {name: call.site for name, call in network.calls.items() if call.site is not None}
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
