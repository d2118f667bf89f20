"""The precision of each call of a network, found without a GPU: what stays within a budget at the least cost."""

from __future__ import annotations

import copy
import itertools
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from ..checking.judging.quality import Outputs, Quality, decibels
from ..core.author import authors_code
from ..core.backend import Backend, get_backend
from ..core.caller import as_number
from ..core.cancel import Progress, cancellable, untold
from ..core.dtypes import SHORT, dtype_name
from ..core.errors import FeedError, UsageError, noted
from ..core.files.held import one_state
from ..core.files.writing import check_writable, finite, write_atomically
from ..core.lazy import torch
from ..core.tensors.watched import by_default
from ..core.version import __version__
from ..definition.network import Network
from ..definition.precision import as_precision
from ..definition.spec.load import NetworkLike
from ..definition.spec.spec import NetworkSpec
from ..definition.tuning.choices import Site, SiteKey
from ..definition.tuning.file import Tuned, Tuning, Variant, default_file, dump, file_kind
from ..definition.tuning.precisions import NARROW, SUFFIX, Precisions, narrow_dtype
from ..definition.weights.source import Source
from ..interpreter.feeds import given_feeds, sizes_of
from ..interpreter.fingerprint import fingerprint
from ..programs.devices import DEFAULT, find_device, floor_of
from ..programs.program import Program
from ..sizes.profile import Range
from .precision_search import SQNR, Found, Search, as_budget
from .recording import DRAWN, Assignment, Call, Recording, drawn
from .search import Figures, measured, searched

SECONDS = 120.0
SAMPLES = 32
"""As many are taken of the author's data."""
CLOSE = 5e-3
"""Floors are estimates: of two that differ by less than this part, the one with fewer bytes is cheaper."""
RECORDED = 1 / 3
"""The part of the time that exact values may take: samples that do not fit in it are left out."""
Metric = Callable[[Outputs, Outputs], float]
Priced = tuple[Assignment, Network, Quality, Program, Figures]


@dataclass(frozen=True)
class LineReport:
    """The calls of one of the author's lines."""

    line: str
    """Empty for launches that no line makes."""
    calls: tuple[str, ...]
    """None of a line whose launches are no call's, such as casts of inputs, where the network's function begins."""
    dtypes: tuple[str, ...]
    decibels: float | None
    """The SQNR of the network where these calls alone, with those that share their tensors, have their dtypes; None
    where they are in float32, or there was no time for it."""
    greatest: float
    """The greatest absolute value that they take or make."""
    launches: int
    bytes: int
    won: float
    """Seconds of the floor beneath those of float32."""


@dataclass(frozen=True)
class PrecisionReport:
    """What :func:`find_precision` found."""

    network: str
    device: str
    data: str
    samples: int
    budget: Mapping[str, float]
    allow: tuple[str, ...]
    decibels: Mapping[str, Mapping[str, float]]
    """The SQNR of each output by precision: ``fp32``, ``found``, and the lowest one that is allowed."""
    figures: Mapping[str, Figures]
    """The same of their programs."""
    lines: tuple[LineReport, ...]
    notes: tuple[str, ...]
    evaluations: int
    seconds: float
    tuning: Tuning
    file: Path

    def __repr__(self) -> str:
        found, least = self.figures["found"], min(self.decibels["found"].values())
        moved = f"{least:.1f} dB or more by {found.launches} launches of {found.bytes:,} bytes"
        return f"PrecisionReport({self.network}: {moved}, in {self.file})"

    def to_json(self) -> dict[str, Any]:
        """Everything as one JSON object."""
        facts = asdict(self)
        del facts["tuning"]
        return finite({"schema": 1, "kind": "precision", **facts, "file": str(self.file)})


@one_state
@by_default
def find_precision(
    source: NetworkLike,
    *,
    data: Any = None,
    allow: Sequence[str] = ("fp16", "bf16"),
    budget: Any = 40.0,
    metric: Metric | None = None,
    device: str = DEFAULT,
    seconds: float = SECONDS,
    output: str | PathLike[str] | None = None,
    weights: Source | None = None,
    dims: Mapping[str, Range] | None = None,
    backend: str | Backend | None = None,
    progress: Progress | None = None,
) -> PrecisionReport:
    """Finds in which dtype each call of a network may compute, and writes it to ``NAME.precision.json``.

    The network is evaluated on ``data`` in float64 and in float32, which says each call's range. A call whose values,
    or those that it computes in between, leave a dtype's range does not get it. Then the noise of each is measured: the
    network with this call alone rounded, together with those that share its tensors. The search begins with every call
    in the dtype that saves most, and widens those that make most noise for the bytes that they save until the whole
    network, evaluated as TensorRT documents its layers, is within the ``budget``. Programs are built for ``device``:
    nothing is taken that has a higher floor, or moves more bytes, than ``precision="fp16"`` where that is within the
    budget and keeps a factor of two to its range, and else than float32; notes say where fp16 is cheaper but for these.

    ``data`` is what :func:`check` takes as ``feeds``, or an iterable of such mappings, of Tensors or of tuples in the
    order of the inputs, of which the first 32 are taken, or as many as a third of the ``seconds`` suffices for; without
    it values are drawn, which says little of real ones.
    ``allow`` has the low dtypes. With ``"int8"`` convolutions and products with a constant weight, and the sums behind
    them, compute in int8, in float16 around, where the device wins by it: activations are quantized by a scale for each
    tensor, found on the data by the method (greatest value, percentile, least squares, entropy) that gives the outputs
    the least noise, weights by a scale for each channel that is multiplied after the product, or by one for all
    (``int8_per_tensor``): noisier, and bias, ReLU and sum are part of a convolution's launch. Builders requantize in a
    launch of its own, so small products stay in float16, and grouped convolutions always do. ``"fp8"`` is the same with
    fewer digits and a wider range, for devices that have it, by scales from the greatest values; attention without a
    mask may have it, too. With ``"int4"`` the weights of ``F.linear`` with few rows are rounded in groups of 128
    numbers, which reads a quarter of float16.

    ``budget`` is the least SQNR in decibels, of every output or by output
    (``{"logits": td.SQNR(45)}``); with ``metric``, a function of the network's and the exact outputs of a sample, of
    integers, too, that is greater the better they are, it is the least mean of that. ``output`` is where the file goes,
    by default beside the weights, or else the network's file. The other arguments are those of :func:`build`.

    Raises UsageError, before anything is written, for data without samples, a budget that float32 misses, an unknown
    device or dtype, data on which outputs have no finite value; FeedError for data of another shape or dtype, or that
    has NaN in it.

    >>> from tempfile import TemporaryDirectory
    >>> @td.network(inputs={"x": td.Input((256, 1024))})
    ... def gate(x):
    ...     return {"y": F.sigmoid(x) * x}
    >>> with TemporaryDirectory() as folder:
    ...     report = td.find_precision(gate, data=[torch.rand(256, 1024)], output=f"{folder}/gate.precision.json")
    >>> [(line.calls, line.dtypes) for line in report.lines]  # between float32 in and out, half precision wins nothing
    [(('sigmoid', 'mul'), ('float32',))]
    """
    began = time.perf_counter()
    spec, tell = searched(source, seconds, "give"), progress or untold
    device, low = find_device(device).name, _allowed(allow)
    file = Path(output) if output is not None else default_file(spec.name, spec.weights, spec.file, suffix=SUFFIX)
    target = check_writable(file, file_kind(spec.name, "precision"), spec.reads(weights))
    if file.suffix != ".json":
        raise UsageError(f"{file} is taken as a precision where its name ends in .json alone: give such an output")
    backend = backend if isinstance(backend, Backend) else get_backend(backend)
    opened = spec.open_weights(weights)
    how: dict[str, Any] = {"weights": opened, "dims": dims, "backend": backend}

    def define(precisions: Precisions) -> Network:
        return spec.define(precision=precisions, allow_nonfinite=True, **how)  # the first one was looked at

    with cancellable():
        tell("defining the network", 0, 1)
        plain = spec.define(precision=Precisions({}), exact=True, **how)
        given, label = samples(spec, plain, data)
        recording = Recording(plain, given, tell, began + seconds * RECORDED)
        feeds = recording.feeds
        wanted, scale = _Wanted(recording, budget, metric), _scale(plain, feeds[0])
        asked = low, wanted.limits, None if metric is None else wanted.is_enough
        search = Search(recording, *asked, define, find_device(device), began + seconds, tell, scale)
        name = "fp16" if "float16" in low else "bf16"
        tell("building engines", 0, 1)
        half = spec.define(precision=name, allow_nonfinite=True, **how)
        autocast = define(Precisions({}, low=as_precision(name)))  # as a file can say it: constants are rounded, too
        is_one = fingerprint(half.definition, backend) == fingerprint(autocast.definition, backend)
        start = time.perf_counter()
        fp32, other = (measured(each, device) for each in (plain, autocast))
        search.reserve = (time.perf_counter() - start) / 2
        search.measure()
        search.calibrate(search.start())
        rough, got = search.quality(autocast)
        same = {site.key: site.lowering for site in _sites(autocast)}
        close = [call for key, call in recording.calls.items() if not (call.site.given or call.fits(same[key]))]
        alike = same | {call.site.key: "float32" for call in close}, autocast, rough
        enough_of_it = search.is_enough(rough, got)
        serves = enough_of_it and not close
        its_quality, its_cost = (rough, other[1]) if is_one else (search.quality(half)[0], measured(half, device)[1])
        plain_choice = search.chosen(dict.fromkeys(search.of, "float32")), plain, recording.own
        best = _best(search, (*plain_choice, *fp32), (*alike, *other), device, serves)
        chosen, network, quality, program, cost = best
        found = recording.precisions(chosen, search.method)
    why = f"does not meet the budget{'' if is_one else ' by calls'}: {_decibels(rough.decibels())}"
    if enough_of_it and close:
        call = max(close, key=lambda call: call.greatest)
        why = f"is close to its greatest number: {call.site.location}: {call.site.key.function} has {call.greatest:.3g}"
    notes = _cheaper(name, other[1], why, fp32[1], cost)
    if chosen == plain_choice[0]:
        late = time.perf_counter() - began > seconds
        more = "; more seconds or fewer samples may find it" if late else ""
        notes.append(f"nothing below float32 was found that costs less within the budget{more}")
    if unasked := {key: value for key, value in quality.decibels().items() if key not in wanted.limits}:
        notes.append(f"without a budget, and whatever it comes to: {_decibels(unasked)}")
    figures = {"fp32": fp32[1], name: its_cost, "found": cost}
    if data is None:
        notes.append(f"measured on {DRAWN}: give data of your own")
    if len(feeds) < len(given):
        notes.append(f"time for {len(feeds)} of {len(given)} samples: give more seconds")
    if search.unmeasured:
        notes.append(f"no time to measure {search.unmeasured} of {len(search.groups)} groups of calls alone")
    all_decibels = {"fp32": recording.own, name: its_quality, "found": quality}
    facts = {"data": label, "samples": len(feeds), "device": device}
    limits = {key: each.decibels for key, each in wanted.limits.items()}
    kept = {
        **facts,
        "network": fingerprint(network.definition, network.backend),
        "budget": limits if metric is None else wanted.least,
        "sqnr": {key: None if value == math.inf else max(value, -1e3) for key, value in quality.decibels().items()},
        "figures": {key: asdict(value) for key, value in figures.items()},
    }
    variant = Variant.made(spec.case(dims, found), map(Tuned.of, _sites(network)), kept)
    tuning = Tuning(spec.name, f"{backend.name} {backend.version}", __version__, (variant,), "precision")
    if opened is not None:
        opened.check_unchanged()
    write_atomically(target, dump(tuning))
    return PrecisionReport(
        **facts,
        network=spec.name,
        budget=limits if metric is None else {"metric": wanted.least},
        allow=low,
        decibels={key: each.decibels() for key, each in all_decibels.items()},
        figures=figures,
        lines=_lines(search, found.tuned, fp32[0], program, device),
        notes=tuple(notes),
        evaluations=search.evaluations,
        seconds=time.perf_counter() - began,
        tuning=tuning,
        file=target.path,
    )


def _allowed(allow: Sequence[str]) -> tuple[str, ...]:
    """The low dtypes by torch's names. UsageError for another, and for none."""
    given = (allow,) if isinstance(allow, str) or not isinstance(allow, Iterable) else tuple(allow)
    asked = dict.fromkeys(SHORT.get(each := dtype_name(name), each) for name in given)
    narrow = [way for way in NARROW if not asked.keys().isdisjoint((way, narrow_dtype(way)))]
    names = dict.fromkeys(each for each in asked if each not in ("float32", *NARROW))
    if narrow:
        names = dict.fromkeys(("float16", *names, *narrow))  # which float16 is around
    if not names or not names.keys() <= {*SHORT.values(), *NARROW}:
        raise UsageError(f"allow has dtypes below float32, 'fp16', 'bf16', 'int8', 'fp8' or 'int4', not {allow!r}")
    return tuple(names)


def samples(spec: NetworkSpec, network: Network, data: Any) -> tuple[list[dict[str, torch.Tensor]], str]:
    """The samples of the author's data, and what they are called; drawn ones without any.

    UsageError where there are none, FeedError for one that does not fit or has NaN in it.
    """
    if data is None:
        return drawn(spec, network), "drawn values"
    label = fspath(data) if isinstance(data, (str, PathLike)) else f"given as {type(data).__name__}"
    if not isinstance(data, (str, PathLike, Mapping)) and isinstance(data, Iterable):
        with authors_code(doing="the data fails: "):
            given = list(itertools.islice(data, SAMPLES))
        data = [_named(network, each) for each in given]
        if not data:
            raise UsageError("the data has no sample")
    feeds = given_feeds(network, data, SAMPLES)
    for index, each in enumerate(feeds):
        with noted(FeedError, f"it is sample {index} of the data"):
            sizes_of(network, each)
        for name, tensor in each.items():
            if tensor.is_floating_point() and bool(torch.isnan(tensor).any()):
                raise FeedError(f"sample {index} of the data: {name!r} has NaN in it")
    return feeds, label


def _named(network: Network, sample: Any) -> Any:
    """A sample by the names of the inputs."""
    if isinstance(sample, Mapping):
        return sample
    parts = sample if isinstance(sample, (tuple, list)) else (sample,)
    if len(parts) != len(network.inputs):
        raise UsageError(f"a sample of the data has {len(parts)} parts, and the network {len(network.inputs)} inputs")
    return dict(zip(network.inputs, parts, strict=True))


class _Wanted:
    """What the outputs must have: an SQNR each, or else a least mean of a metric over the samples.

    Raises UsageError for what is neither, where noise cannot be measured, and for what float32 itself misses.
    """

    def __init__(self, recording: Recording, budget: Any, metric: Metric | None):
        self.recording, self.metric, self.least = recording, metric, 0.0
        outputs = [name for name, signal in recording.own.signal.items() if signal]
        if metric is None:
            _check_measurable(recording, outputs)
            self.limits = as_budget(budget, outputs)
        elif (least := as_number(budget)) is not None and math.isfinite(least):
            self.limits, self.least = dict.fromkeys(outputs, SQNR(1e-3)), float(least)
        else:
            raise UsageError(f"with a metric the budget is the least that it may be, a number, not {budget!r}")
        own = recording.own.decibels()
        for name, limit in self.limits.items():
            if not own[name] >= limit.decibels:
                raise UsageError(
                    f"float32 itself has {own[name]:.1f} dB of {name!r}, below the budget of {limit.decibels:g}"
                )
        if metric and not (has := self._mean([recording.interpreter(each) for each in recording.feeds])) >= self.least:
            raise UsageError(f"float32 itself has {has:g} of the metric, below the budget of {self.least:g}")

    def is_enough(self, got: Sequence[Outputs]) -> bool:
        """Whether the metric's mean is."""
        return self._mean(got) >= self.least

    def _mean(self, got: Sequence[Outputs]) -> float:
        """That of a metric, which may write in what it is given."""
        metric, pairs = self.metric, zip(got, self.recording.truth, strict=True)
        assert metric is not None
        with authors_code(metric, "the metric fails: "):
            values = [_number(metric(*copy.deepcopy(each))) for each in pairs]
        return sum(values) / len(values)


def _number(given: Any) -> float:
    try:
        return float(given)
    except (TypeError, ValueError, RuntimeError):  # of a tensor of several elements
        raise UsageError(f"a metric gives a number, not {given!r:.60}") from None


def _scale(network: Network, feeds: Mapping[str, torch.Tensor]) -> float:
    """How many times the elements of a sample the inputs of the program have."""
    env = network.profiles[0].at("opt") if network.profiles else {}
    elements = sum(math.prod(network.input_shape(name, env)) for name in feeds)
    return elements / max(sum(feed.numel() for feed in feeds.values()), 1)


def _check_measurable(recording: Recording, outputs: Sequence[str]) -> None:
    """UsageError where noise cannot be measured: an output is nowhere finite, or all are 0 or integers."""
    for name in recording.own.signal:
        values = [each[name] for each in recording.truth if each[name].numel()]
        if values and not any(bool(torch.isfinite(each).any()) for each in values):
            raise UsageError(f"output {name!r} has no finite value on this data: its noise cannot be measured")
    if not outputs:
        raise UsageError(
            "no output has a floating-point value other than 0 on this data: noise cannot be measured; give a metric"
        )


def _best(search: Search, plain: Priced, autocast: Priced, device: str, serves: bool) -> Priced:
    """The cheapest of float32, what the search finds, and half precision as autocast has it: of those that cost no more
    than that where it ``serves``, and else than float32; of two that cost the same, the one with less noise. Where it
    does not serve and costs less than what is found, another search begins with autocast's choices."""
    bound = autocast if serves else plain
    found = [bound]

    def is_dear(each: Found) -> bool:
        """Notes what an assignment costs, and says whether that is more than may be."""
        found.append((*each, *measured(each[1], device)))
        return _costs_more(found[-1][-1], bound[-1])

    own = search.run(search.start())
    if own is not None:
        is_dear(own)
        search.with_less(own[0], is_dear)
    if not serves and _costs_more(found[-1][-1], autocast[-1]) and (again := search.run(autocast[0])) is not None:
        is_dear(again)
    best, *others = [each for each in (*found, plain) if not _costs_more(each[-1], bound[-1])]
    for each in others:
        is_as_good = not best[-1].beats(each[-1], CLOSE) and search.noise(each[2]) < search.noise(best[2])
        best = each if is_as_good or each[-1].beats(best[-1], CLOSE) else best
    return best


def _costs_more(figures: Figures, other: Figures) -> bool:
    """Whether a program has the higher floor, or moves more bytes."""
    return figures.floor_seconds > other.floor_seconds or figures.bytes > other.bytes


def _cheaper(name: str, half: Figures, why: str, fp32: Figures, found: Figures) -> list[str]:
    """What is cheaper than what was found: half precision, ``why`` it does not serve, and float32."""
    notes = []
    if _costs_more(found, half):
        notes.append(f"{name} {'costs less' if half.beats(found, CLOSE) else 'moves fewer bytes'}, and {why}")
    if fp32.beats(found, CLOSE):
        floors = " for ".join(f"{each.floor_seconds * 1e6:.3g}" for each in (fp32, found))
        notes.append(
            f"fp32 has the lower floor ({floors} µs), and moves more bytes than {name}, which meets the budget"
        )
    return notes


def _sites(network: Network) -> list[Site]:
    """The calls that have a precision each."""
    return [] if network.policy is None or network.policy.calls is None else network.policy.calls.sites


def _decibels(found: Mapping[str, float]) -> str:
    return ", ".join(f"{value:.1f} dB of {name!r}" for name, value in found.items())


def _lines(
    search: Search, found: Mapping[SiteKey, str], before: Program, after: Program, device: str
) -> tuple[LineReport, ...]:
    """The author's lines in their order, with what their calls cost; behind them the lines whose launches no call
    makes, such as the casts of inputs."""
    seconds = [
        program.graph.seconds(floor_of(program, device).launches, program.graph.lines) for program in (before, after)
    ]
    shares = {share.name: share for share in after.by("line")}
    by_line: dict[str, dict[SiteKey, Call]] = {}
    for key, call in search.recording.calls.items():
        by_line.setdefault(call.site.location.short, {})[key] = call
    rows = []
    for line in dict.fromkeys((*by_line, *shares, *seconds[0])):
        share, calls = shares.get(line), by_line.get(line, {})
        own = [max(noise.values(), default=0.0) for key in calls if (noise := search.of[key].noise.get(found[key]))]
        rows.append(
            LineReport(
                line,
                tuple(key.function for key in calls),
                tuple(sorted({found[key] for key in calls})),
                decibels(max(own)) if own else None,
                max((call.greatest for call in calls.values()), default=0.0),
                share.launches if share is not None else 0,
                share.bytes if share is not None else 0,
                seconds[0].get(line, 0.0) - seconds[1].get(line, 0.0),
            )
        )
    return tuple(rows)
