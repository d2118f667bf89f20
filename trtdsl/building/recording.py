"""What a network computes on given data: the range of each call, exact outputs, calls that share tensors."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..checking.judging.quality import Quality
from ..core.dtypes import as_dtype
from ..core.errors import PrecisionWarning, UsageError
from ..core.lazy import torch
from ..definition.network import Network
from ..definition.precision import LOW
from ..definition.spec.spec import NetworkSpec
from ..definition.tuning.choices import Site, SiteKey
from ..definition.tuning.precisions import GROUP, NARROW, Precisions, around, narrow_dtype
from ..interpreter.calibration import Seen
from ..interpreter.feeds import make_feeds
from ..interpreter.interpret import Interpreter
from ..layers.evaluation import Evaluate, Node, Shapes, kind
from ..programs.devices import Device

MARGIN = 2.0
"""How far values on the author's data stay below the greatest of a dtype: other data has greater ones."""
PRODUCTS = LOW - {"prelu"}
DRAWN = "values that were drawn as a check draws them, which are not representative"
QUANTIZED = ("CONVOLUTION", "MATRIX_MULTIPLY", "ELEMENTWISE")
Feeds = Mapping[str, "torch.Tensor"]
Tell = Callable[[str, int, int], None]
Assignment = dict[SiteKey, str]


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
    work: dict[str, int] = field(default_factory=dict)
    """Floating-point operations of its products, by layer."""
    made: int = 0
    """Elements of its product."""
    weight: int = 0
    """Elements of its weight."""
    operands: tuple[str, ...] = ()
    """The tensors that it would take in int8."""
    followed: bool = False
    """Whether what it adds behind its product is no part of that."""

    @property
    def is_product(self) -> bool:
        """Whether it multiplies what may be narrow: with a weight, or in attention."""
        return "float8_e4m3fn" in self.site.ways and self.site.key.function in PRODUCTS

    @property
    def attends(self) -> bool:
        """Whether it is attention, whose operands have one scale."""
        return self.is_product and "int8" not in self.site.ways

    def fits(self, dtype: str) -> bool:
        """Whether its values stay within a dtype's range; in a narrow one, within that of the float16 around it."""
        if dtype in NARROW and not (self.is_product and self.operands and dtype in self.site.ways):
            return False
        return self.greatest * MARGIN <= torch.finfo(as_dtype(around(dtype))).max

    def gain(self, dtype: str, device: Device, scale: float) -> float:
        """Seconds that its product wins in a narrow dtype over float16.

        In int8 and fp8 it is faster, and needs a launch that quantizes: behind it, where something is added, or else
        before it, for each operand; a scale for each channel may need another. In int4 it reads a quarter of its
        weight, once for each row, and multiplies outside of the tensor cores.
        """
        operands = [scale * self.elements[name] for name in self.operands]
        taken, made, work = sum(operands), scale * self.made, scale * sum(self.work.values())

        def seconds(moved: float, rate: float) -> float:
            return max(moved / device.bandwidth, work / rate, device.overhead)

        half = seconds(2 * (taken + self.weight + made), device.half)
        if dtype == "int4":
            rows = max(1.0, work / max(2 * self.weight, 1))
            return half - seconds(2 * (taken + made) + rows * self.weight * (1 / 2 + 4 / GROUP), device.vector)
        rate = device.fp8 if dtype.startswith("float8") else device.int8
        if rate is None:
            return -math.inf
        behind = seconds(2 * made, math.inf) if dtype == "int8" and not self.followed else 0.0
        rounding = sum(seconds(3 * each, math.inf) for each in ([made] if self.followed else operands))
        return half - seconds(taken + self.weight + 2 * made, rate) - rounding - behind


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
        """Bytes that its tensors save in a dtype; a narrow one has float16 around its product."""
        return self.bytes * (1 - as_dtype(around(dtype)).itemsize / 4)

    def gain(self, dtype: str, device: Device, scale: float) -> float:
        """Seconds that its products win in a narrow dtype over float16."""
        return sum(call.gain(dtype, device, scale) for call in self.calls if call.fits(dtype))


class Ranges:
    """The range of each call of a network in float32, on all that its ``interpreter`` evaluates."""

    def __init__(self, network: Network):
        assert network.policy is not None and network.policy.calls is not None
        self.network = network
        sources = network.policy.sources
        self.calls = {site.key: Call(site, sources[site.key]) for site in network.policy.calls.sites}
        self.sites = {
            name: call.site for name, each in network.layers.items() if (call := each.call) and call.site is not None
        }
        """The call of each layer."""
        self.seen: dict[str, Seen] = {}
        """The values of the tensors that calls take that may be in int8."""
        self._scales: dict[tuple[str, str, str], float] = {}
        self.interpreter = Interpreter(network, wrap=self._wrap)

    def _wrap(self, node: Node, evaluate: Evaluate) -> Evaluate:
        key = self.sites.get(node.name)
        if key is None or key not in self.calls:
            return evaluate
        call, makes = self.calls[key], node.makes
        needs = [None if tensor is None else tensor.name for tensor in node.inputs]
        varying = bool(node.inputs)

        def watched(*operands: Any) -> Any:
            results = evaluate(*operands)
            made = results if isinstance(results, (tuple, list)) else (results,)
            for name, x in (*zip(needs, operands, strict=False), *zip(makes, made, strict=True)):
                if isinstance(x, torch.Tensor) and x.is_floating_point() and x.numel() and name is not None:
                    size = x.abs()  # infinities, and what is next to them, are a mask's: it is one in any dtype
                    greatest = torch.where(size > torch.finfo(x.dtype).max / 2, 0.0, size).max()
                    call.greatest = max(call.greatest, float(greatest.nan_to_num(0.0)))
                    if varying:
                        call.elements[name] = max(call.elements.get(name, 0), x.numel())
            if call.attends:
                self._watch_attention(call, node, operands, made)
            elif "int8" in call.site.ways and node.type in QUANTIZED:
                self._watch(call, node, operands, made)
            return results

        return watched

    def _watch(self, call: Call, node: Node, operands: Sequence[Any], made: Sequence[Any]) -> None:
        """Notes what a call in a narrow dtype would take."""
        taken = [(name, x) for name, x in zip(node.needs, operands, strict=False) if name in call.elements]
        shapes = Shapes([tuple(x.shape) for x in operands], [tuple(x.shape) for x in made])
        if call.is_product:
            if node.type == "ELEMENTWISE" or (node.type == "CONVOLUTION" and node.layer.num_groups > 1):
                call.followed |= node.type == "ELEMENTWISE"
                return  # what is behind the product; grouped ones stay in float16
            taken, call.made = taken[:1], made[0].numel()
            call.work[node.name] = kind(node).flops(node, shapes)
            call.weight = operands[1].numel() if len(operands) > 1 else len(node.layer.kernel)
        elif any(self._is_made_by(call, name) for name, _ in taken):
            return  # a part of it
        self._take(call, taken)

    def _watch_attention(self, call: Call, node: Node, operands: Sequence[Any], made: Sequence[Any]) -> None:
        """Notes what attention takes of other calls, and what its products cost."""
        taken = [(name, x) for name, x in zip(node.needs, operands, strict=False) if name in call.elements]
        new = [(n, x) for n, x in taken if n not in self.interpreter.fixed and not self._is_made_by(call, n)]
        if new:
            self._take(call, new, call.operands)
        if node.type in ("MATRIX_MULTIPLY", "ATTENTION_INPUT"):
            shapes = Shapes([tuple(x.shape) for x in operands if x is not None], [tuple(x.shape) for x in made])
            call.work[node.name], call.made = kind(node).flops(node, shapes), made[0].numel()

    def _is_made_by(self, call: Call, name: str) -> bool:
        return self.sites.get(self.interpreter.makers.get(name, "")) == call.site.key

    def _take(self, call: Call, taken: Sequence[tuple[str, torch.Tensor]], before: tuple[str, ...] = ()) -> None:
        call.operands = tuple(dict.fromkeys((*before, *(name for name, _ in taken))))
        for name, x in taken:
            self.seen.setdefault(name, Seen()).add(x)

    def precisions(self, assignment: Mapping[SiteKey, str], method: str = "max") -> Precisions:
        """The dtype of each call, with scales: in a narrow dtype products and the sums behind them, others in float16.

        A sum takes what a product has quantized; a tensor has one scale. In int4 weights alone are rounded.
        """
        narrow = {key: call for key, call in self.calls.items() if assignment[key] in NARROW}
        taken = {
            (narrow_dtype(assignment[key]), name)
            for key, call in narrow.items()
            if call.is_product
            for name in call.operands
        }
        dtypes, scales = dict(assignment), {}
        for key, call in narrow.items():
            dtype = assignment[key]
            if dtype == "int4":
                dtypes[key] = dtype if call.fits(dtype) else "float16"
                continue
            steps = [
                self.scale(name, method, dtype) if (narrow_dtype(dtype), name) in taken else 0.0
                for name in call.operands
                if dtype in call.site.ways
            ]
            steps = [max(steps, default=0.0)] if call.attends else steps
            dtypes[key] = dtype if any(steps) else "float16"
            if any(steps):
                scales[key] = tuple(steps)
        return Precisions(dtypes, scales)

    def scale(self, name: str, method: str, dtype: str) -> float:
        """That of a tensor in int8 or fp8; 0 for values so small that float16 does not hold its reciprocal."""
        key = name, method, narrow_dtype(dtype)
        if key not in self._scales:
            found = self.seen[name].scale(*key[1:])
            self._scales[key] = found if found * torch.finfo(torch.float16).max > 1 else 0.0
        return self._scales[key]


class Recording(Ranges):
    """The same on the author's data, with exact outputs beside it, and groups of calls.

    At a time ``until`` samples that are left are left out; the first one never is.
    """

    def __init__(self, network: Network, feeds: Sequence[Feeds], tell: Tell, until: float = math.inf):
        super().__init__(network)
        self.own = Quality()
        """Of the network in float32."""
        exact = network.exact_values()
        with exact:
            precise = Interpreter(network)
        self.truth: list[dict[str, torch.Tensor]] = []
        for index, each in enumerate(feeds):
            if index and time.perf_counter() > until:
                break
            tell("evaluating in float64 and float32", index, len(feeds))
            exact.alone = True
            with exact:
                found = precise({name: feed.clone() for name, feed in each.items()})
            self.truth.append({name: exact.of(x) if x.is_floating_point() else x for name, x in found.items()})
            self.own.add(self.interpreter(each), self.truth[-1])
        self.feeds = feeds[: len(self.truth)]

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


def drawn(spec: NetworkSpec, network: Network) -> list[dict[str, torch.Tensor]]:
    """Two samples as a check draws them, of the sizes that the network is tuned for."""
    env = network.profiles[0].at("opt") if network.profiles else {}
    return [make_feeds(spec.inputs, network, env, torch.Generator().manual_seed(seed)) for seed in range(2)]


def named_precisions(spec: NetworkSpec, way: str, **how: Any) -> Precisions:
    """What ``precision="int8"`` or ``"fp8"`` means: each call in ``way`` that may be, the others as autocast has them.

    Scales are those of the greatest values that drawn samples have. A call whose values float16 does not hold is in
    float32. UsageError for a network of which no call may be so.
    """
    network = spec.tuned(False).define(precision=Precisions({}), **how)
    ranges = Ranges(network)
    for feeds in drawn(spec, network):
        ranges.interpreter(feeds)
    able = {key: call for key, call in ranges.calls.items() if way in call.site.ways and not call.site.given}
    wide = {key: call for key, call in able.items() if not call.fits("float16")}
    assigned = {key: way if key in able and key not in wide else "" for key in ranges.calls}
    found = ranges.precisions(assigned)
    dtypes = {key: dtype for key, dtype in found.tuned.items() if dtype == way}
    kept = "".join(
        f"; {call.site.location}: {key.function} stays in float32, since it has values of {call.greatest:.3g}"
        for key, call in wide.items()
    )
    if not dtypes:
        small = "".join(
            f"; {call.site.location}: {key.function} takes values of at most {ranges.seen[name].greatest:.1g}"
            for key, call in able.items()
            for name in (() if key in wide else call.operands)
        )
        raise UsageError(
            f"no call of {spec.name} can compute in {way}: those can whose weight is constant (convolutions that are "
            f"not grouped, linear) and whose values, and the reciprocal of their scale, float16 holds{small}{kept}"
        )
    warnings.warn(
        f"{len(dtypes)} of {len(ranges.calls)} calls of {spec.name} compute in {way} by the greatest {DRAWN}; "
        f"`trtdsl precision` chooses for each call and calibrates on data{kept}",
        PrecisionWarning,
        stacklevel=2,
    )
    dtypes |= {key: "float32" for key, call in ranges.calls.items() if not (call.site.given or call.fits("float16"))}
    return Precisions(dtypes, found.scales, low=torch.float16, measured={"data": DRAWN, "samples": 2})
