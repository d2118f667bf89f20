"""Files of what was found for the calls of a network: lowerings (``NAME.tuning.json``), precisions
(``NAME.precision.json``)."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta, Struct, convert, to_builtins
from msgspec.structs import asdict, replace

from ...core.backend import Backend
from ...core.caller import Finite
from ...core.errors import TrtdslError, TuningWarning, UsageError
from ...core.files.names import brief, check_is_file, file_name, is_file
from ...core.files.reading import LARGEST, Count, Text, as_struct, check_schema, parse_json, read_file
from ...core.files.writing import Kind as FileKind
from ...core.files.writing import as_json, json_kind
from ...core.version import __version__
from ..common import dtype_name, shape_text
from ..input import Input, dims_of
from ..settings import as_facts
from .choices import Choices, Site, SiteKey

N = TypeVar("N")
SCHEMA = 1
Kind = Literal["tuning", "precision"]


class Case(Struct, frozen=True, forbid_unknown_fields=True):
    """What a definition depends on besides the author's code, as texts that a file can keep."""

    precision: Text
    inputs: dict[Text, Text]
    """Shape and dtype by name: ``(N, 3, 18) float32``."""
    dims: dict[Text, Annotated[list[Count], Meta(min_length=3, max_length=3)] | None]
    """The ranges of the dimensions."""
    settings: dict[Text, Any]
    """Of a network that a function of its file makes."""

    @classmethod
    def of(cls, precision: str, inputs: Mapping[str, Input], settings: Mapping[str, Any]) -> Case:
        """The case of a network with these inputs."""
        return cls(
            precision,
            {name: f"{shape_text(spec.shape)} {dtype_name(spec.dtype)}" for name, spec in inputs.items()},
            {name: None if dim.range is None else list(dim.range) for name, dim in sorted(dims_of(inputs).items())},
            as_facts(settings),
        )

    def __str__(self) -> str:
        dims = [f"{name}={':'.join(map(str, sizes))}" for name, sizes in self.dims.items() if sizes]
        settings = [f"{name}={value}" for name, value in self.settings.items()]
        return " ".join([self.precision, *dims, *settings, *(f"{name} {text}" for name, text in self.inputs.items())])


class Tuned(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One call of a tuned network, as the file has it: with a lowering, or with a dtype."""

    file: Text
    within: Text
    operation: Text
    function: Text
    ordinal: Count
    line: Count
    """Where it stood; for the reader alone."""
    operands: tuple[Text, ...]
    lowering: Text = ""
    dtype: Literal["float32", "float16", "bfloat16", "int8", "int8_per_tensor", "float8_e4m3fn", "int4", ""] = ""
    scales: tuple[Annotated[float, Meta(ge=0, le=3.4e38)], ...] = ()
    values: Text = ""
    """A hash of its numbers and constants."""

    @classmethod
    def of(cls, site: Site) -> Tuned:
        """The call as it was defined."""
        way: dict[str, Any] = {site.said: site.lowering, "scales": site.scales, "values": site.values}
        return cls(*site.key, site.location.line, site.operands, **way)

    @property
    def key(self) -> SiteKey:
        """What names the call."""
        return SiteKey(self.file, self.within, self.operation, self.function, self.ordinal)

    @property
    def way(self) -> str:
        """Its lowering, or its dtype."""
        return self.lowering or self.dtype


LEAST = 2.0**-126  # of float32's numbers with all their digits
Decibels = Annotated[float, Meta(ge=0, le=1000)]
"""Below 0 there is more noise than signal, and any result would do."""
Figure = Count | Finite


class Measured(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What a search measured, on what data, and for which GPU."""

    network: Text = ""
    """The fingerprint of the network that was measured, its weights included."""
    device: Text = ""
    before: dict[Text, Figure] = {}
    after: dict[Text, Figure] = {}
    data: Text = ""
    samples: Count = 0
    budget: Annotated[float, Meta(ge=-1e300, le=1e300)] | dict[Text, Decibels] = {}
    """That of a metric, or by output."""
    sqnr: dict[Text, Annotated[float, Meta(ge=-1000, le=1000)] | None] = {}
    """By output, also of those without a budget; None for an exact one, -1000 for one without finite values."""
    figures: dict[Text, dict[Text, Figure]] = {}


class Variant(Case, frozen=True, forbid_unknown_fields=True):
    """The calls of a network in one case, each with its lowering, and what was measured."""

    measured: Measured
    """What the tuning won; for the reader alone."""
    calls: tuple[Tuned, ...]
    """Every call that can be lowered in several ways, in the order in which the network makes them."""

    def __post_init__(self) -> None:
        if len({call.key for call in self.calls}) != len(self.calls):
            raise ValueError("'calls' has a call twice")
        for call in self.calls:
            if call.dtype.startswith(("int8", "float8")) and not call.scales:
                raise ValueError(f"'calls' has one in {call.dtype} without scales")
            if any(0 < scale < LEAST for scale in call.scales):
                raise ValueError("'calls' has a scale that float32 does not hold")

    @classmethod
    def made(cls, case: Case, calls: Iterable[Tuned], measured: Mapping[str, Any]) -> Variant:
        """The calls of a case, and what was measured."""
        return cls(**asdict(case), measured=convert(measured, Measured), calls=tuple(calls))

    @property
    def case(self) -> Case:
        """What it is for."""
        return Case(self.precision, self.inputs, self.dims, self.settings)

    def elsewhere(self, case: Case) -> str | None:
        """The first input, dimension or setting that another case has otherwise; None where all are alike."""
        for now, before in ((case.inputs, self.inputs), (case.dims, self.dims), (case.settings, self.settings)):
            for name in now:
                if now[name] != before.get(name):
                    return f"{brief(name)} was {before.get(name)}, and is {now[name]}"
        return None

    def choices(self) -> dict[SiteKey, str]:
        """The lowerings by the calls' keys."""
        return {call.key: call.way for call in self.calls}

    def difference(self, sites: Sequence[Site], before: str = "tuned network", of: str = "lowerings") -> str | None:
        """What differs in a network that was defined with these choices; None where they are all there."""
        alike = {(call.key._replace(ordinal=0), call.operands, call.values): call for call in self.calls}
        for call, site in zip(self.calls, sites, strict=False):
            now = Tuned.of(site)
            if (now.key, now.operands) != (call.key, call.operands):
                return f"{site.location}: {_words(now)}, where the {before} had {_words(call)}"
            moved = alike.get((call.key._replace(ordinal=0), call.operands, now.values))
            if call.values not in ("", now.values) and moved is not None and moved.way != call.way:
                return f"{site.location}: {_words(now)} has the numbers that the {before} had in {_words(moved)}"
            if now.way != call.way and not (site.given and now.dtype):  # a block of precisions may be added at any time
                has = f"the author says {now.way!r}" if site.given else f"it can have {', '.join(site.ways)}"
                return f"{site.location}: {_words(now)} has the lowering {brief(call.way)!r} there, and {has}"
        if len(sites) != len(self.calls):
            return f"the network has {len(sites)} calls with a choice of {of}, and had {len(self.calls)}"
        return None


def _words(call: Tuned) -> str:
    key, operands = call.key, ", ".join(map(brief, call.operands[:8])) or "no operands"
    by = "" if key.operation == key.function else f" by {brief(key.operation)}"
    place = f"{brief(key.within)} in {brief(key.file)}" if key.file else brief(key.within)
    return f"{brief(key.function)}{by} of {operands} (call {key.ordinal} of {place})"


CHOSEN = {"tuning": "lowering", "precision": "dtype"}
"""What a file says of each call."""


class Tuning(Struct, frozen=True, forbid_unknown_fields=True):
    """What a ``NAME.tuning.json`` holds: one variant for each case that was tuned."""

    network: Text
    backend: Text
    """Name and version: the choices hold for no other."""
    trtdsl: Text
    variants: tuple[Variant, ...]
    kind: Kind = "tuning"
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        chosen = CHOSEN[self.kind]
        if not all(getattr(call, chosen) for variant in self.variants for call in variant.calls):
            raise ValueError(f"'calls' has one without a {chosen}")

    def variant(self, case: Case) -> Variant | None:
        """That of a case."""
        return next((variant for variant in self.variants if variant.case == case), None)

    def including(self, variant: Variant) -> Tuning:
        """With a variant in the place of the one of its case."""
        others = tuple(other for other in self.variants if other.case != variant.case)
        return replace(self, variants=(*others, variant))

    def stale(self, network: str, backend: str) -> str | None:
        """Why it says nothing about a network and a version; None where it does."""
        if self.network != network:
            return f"it is of the network {brief(self.network)!r}, and this one is {network!r}"
        return self.other_versions(backend)

    def other_versions(self, backend: str) -> str | None:
        """The other version that it was made with, of TensorRT or of trtdsl; None where both are at hand."""
        if self.backend != backend:
            return f"it holds for {brief(self.backend)}, and this is {backend}"
        if self.trtdsl != __version__:
            return f"it was made by trtdsl {brief(self.trtdsl)}, and this is {__version__}"
        return None


def find_variant(given: Path | Tuning, network: str, backend: str, case: Case) -> Variant | str | None:
    """The variant of a case, or why there is none; None, with a TuningWarning, where the file is of no use at all."""
    label = "the tuning" if isinstance(given, Tuning) else str(given)
    try:
        tuning = read_tuning(given) if isinstance(given, Path) else given
    except ValueError as error:
        warn(f"{label} is not used: {error}", f"remove it, and {ANEW}")
        return None
    reason = tuning.stale(network, backend)
    if reason is not None:
        warn(f"{label} is not used: {reason}", ANEW if tuning.network == network else f"remove it, and {ANEW}")
        return None
    return tuning.variant(case) or f"{label} has nothing for {case}"


def default_file(name: str, *beside: Any, suffix: str = ".tuning.json") -> Path:
    """``NAME.tuning.json`` beside the first of some files that has a path; in the working directory without any.

    UsageError for a network's name that no file can have.
    """
    paths = (Path(given) for given in beside if isinstance(given, (str, PathLike)))
    folder = next((path.parent for path in paths), Path())
    return folder / file_name(name, suffix, "the network's name")


def chosen_file(tuning: object, name: str, *beside: Any) -> Path | None:
    """The file that is named, or for True the default one where it is."""
    if isinstance(tuning, (str, PathLike)):
        check_is_file(tuning, f"there is no tuning {os.fspath(tuning)}")
        return Path(tuning)
    with suppress(UsageError):
        file = default_file(name, *beside)
        return file if tuning is True and is_file(file) else None
    return None


ANEW = "`trtdsl build --tune` tunes anew"


def warn(text: str, advice: str = ANEW) -> None:
    """A TuningWarning in one line."""
    warnings.warn(f"{text}; {advice}", TuningWarning, stacklevel=2)


def with_tuning(
    given: Path | Tuning | None, backend: Backend, name: str, case: Case, defined: Callable[[Choices], N]
) -> N:
    """The network that ``defined`` makes, with the choices of a tuning where one fits it wholly.

    A tuning that does not (the network was edited since) is not used at all, and a TuningWarning says so.
    """
    label = f"{backend.name} {backend.version}"
    variant = None if given is None else find_variant(given, name, label, case)
    if variant is None or isinstance(variant, str):
        plain = Choices()
        plain.unused = variant
        return defined(plain)
    choices = Choices(variant.choices())
    try:
        network = defined(choices)
        reason = variant.difference(choices.sites)
    except TrtdslError as error:
        network, reason = None, f"{error.location}: {error.message.splitlines()[0]}"
    if network is not None and reason is None:
        choices.tuning = given.name if isinstance(given, Path) else "given"
        return network
    network = defined(Choices())
    warn(f"{given if isinstance(given, Path) else 'the tuning'} is not used: the network is another now: {reason}")
    return network


def dump(tuning: Tuning) -> bytes:
    """The file's text: JSON with a line for each call."""

    def lines(facts: Mapping[str, Any], indent: str) -> list[str]:
        return [f'{indent}"{name}": {as_json(value, ensure_ascii=False)}' for name, value in facts.items()]

    variants = []
    for variant in to_builtins(tuning.variants):
        calls = ",\n".join(f"        {as_json(call, ensure_ascii=False)}" for call in variant.pop("calls"))
        parts = [*lines(variant, "      "), f'      "calls": [\n{calls}\n      ]']
        variants.append("    {\n" + ",\n".join(parts) + "\n    }")
    head = {name: getattr(tuning, name) for name in ("schema", "kind", "network", "backend", "trtdsl")}
    text = [*lines(head, "  "), '  "variants": [\n' + ",\n".join(variants) + "\n  ]"]
    return ("{\n" + ",\n".join(text) + "\n}\n").encode()


def read_tuning(path: Path, kind: Kind = "tuning") -> Tuning:
    """A tuning from its file. ValueError, in one line, where it is not one that trtdsl wrote."""
    return loads(file_bytes(path), kind)


def file_bytes(path: Path) -> bytes:
    """What a file holds; ValueError where it cannot be read."""
    try:
        return read_file(path, LARGEST)
    except OSError as error:
        raise ValueError(f"it cannot be read: {error.strerror}") from None


def loads(data: bytes, kind: Kind) -> Tuning:
    """A tuning from what its file holds; ValueError naming the entry that is wrong."""
    facts = parse_json(data, "it", kind, ValueError)
    if facts.get("kind") != kind:
        raise ValueError(f"it is not a {kind}")
    check_schema(facts, (SCHEMA,), "it", ValueError)
    return as_struct(facts, Tuning, "", ValueError)


def file_kind(network: str, kind: Kind = "tuning") -> FileKind:
    """The files that what is found for a network may replace: those of the same network that this trtdsl can read."""

    def objection(content: bytes) -> str | None:
        try:
            owner = loads(content, kind).network
        except ValueError as error:
            return f"that cannot be read ({error})"
        return None if owner == network else f"of the network {brief(owner)!r}, and this one is {network!r}"

    return json_kind(f"a {kind}", kind, objection)
