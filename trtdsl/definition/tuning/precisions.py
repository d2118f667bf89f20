"""A precision for each call of a network: what a ``NAME.precision.json`` says, and whether it fits."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from ...core.errors import PrecisionWarning, UsageError, nearest
from ...core.files.writing import as_json
from ..common import check_is_file, torch
from .choices import Choices, SiteKey
from .file import Case, Tuning, file_bytes, loads

SUFFIX = ".precision.json"
DECIBELS = 20.0
PER_TENSOR = "int8_per_tensor"
"""int8 whose weight has one scale, where that of int8 has one for each channel."""
NARROW = {"int8": 127.0, PER_TENSOR: 127.0, "float8_e4m3fn": 448.0, "int4": 7.0}
"""Ways below float16 by their greatest numbers: products compute in them, with float16 around."""
GROUP = 128
"""Numbers of a row of a weight that share a scale in int4, in which weights alone are."""
FIND = "`trtdsl precision` finds another"


def around(dtype: str) -> str:
    """The dtype of what a call gives."""
    return "float16" if dtype in NARROW else dtype


def narrow_dtype(way: str) -> str:
    """The dtype of a way to compute below float16."""
    return "int8" if way == PER_TENSOR else way


@dataclass(eq=False, repr=False)
class Precisions(Choices):
    """The dtypes of a network's calls, by their keys; without any, all compute in float32.

    ``scales`` has those of the operands that calls in int8 and fp8 quantize. With ``low`` calls that have no dtype
    here compute as autocast has it.
    """

    scales: Mapping[SiteKey, tuple[float, ...]] = field(default_factory=dict)
    file: Path | None = None
    made: Tuning | None = None
    sha256: str | None = None
    low: torch.dtype | None = None
    measured: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.made is not None:
            self.measured = to_builtins(self.made.variants[0].measured)

    def __str__(self) -> str:
        calls = [[*key, dtype, self.scales.get(key)] for key, dtype in self.tuned.items()]
        text = as_json(calls if self.low is None else [str(self.low), calls])
        return f"each call its own ({hashlib.sha256(text.encode()).hexdigest()[:16]})"

    def check(self, network: str, outputs: Collection[str]) -> None:
        """UsageError where a network's calls or outputs are not those of the file."""
        if self.made is None:
            return
        variant = self.made.variants[0]
        reason = variant.difference(self.sites, "network", "dtypes")
        gone = [name for name in variant.measured.sqnr if name not in outputs]
        if reason is None and gone:
            reason = f"it was found for an output {gone[0]!r}, and there is none{nearest(gone[0], outputs)}"
        if reason is not None:
            raise UsageError(f"{self.file or 'the precision'} does not fit {network}: {reason}; {FIND}")

    def check_case(self, case: Case, backend: str) -> None:
        """A PrecisionWarning where the file was found for other sizes or settings, and one for other versions."""
        if self.made is None:
            return
        elsewhere = self.made.variants[0].elsewhere(case)
        others = {"sizes or settings": elsewhere, "versions": self.made.other_versions(backend)}
        for what, other in others.items():
            if other is not None:
                text = f"{self.file or 'the precision'} was found with other {what}: {other}; {FIND}"
                warnings.warn(text, PrecisionWarning, stacklevel=2)

    def decibels(self, outputs: Iterable[str], given: bool = False) -> dict[str, float]:
        """The least SQNR by which outputs below float16 are judged, and others on data that is ``given``: the budget.

        Below float16 it is what was measured, less one, for outputs without one, and without that :data:`DECIBELS`.
        """
        facts = (self.measured.get(key) for key in ("budget", "sqnr"))
        budget, sqnr = (each if isinstance(each, dict) else {} for each in facts)
        if not any(site.lowering in NARROW for site in self.sites):
            return {name: float(budget[name]) for name in outputs if given and name in budget}
        return {name: float(budget.get(name) or max((sqnr.get(name) or DECIBELS + 1) - 1, 0)) for name in outputs}

    def to_json(self) -> dict[str, Any]:
        """As the manifest has it: the file, how many calls have which dtype, and what was measured on which data."""
        dtypes = [site.lowering for site in self.sites]
        counts = {name: dtypes.count(name) for name in dict.fromkeys(dtypes)}
        named = None if self.file is None else self.file.name
        return {"file": named, "sha256": self.sha256, "calls": counts, **self.measured}


def open_precision(given: Any, network: str) -> Any:
    """A precision per call for the name of its file; anything else, such as ``"fp16"``, as it is.

    UsageError for a file that is not there, is none of these, or is another network's.
    """
    if isinstance(given, Precisions):
        return given.fresh()
    if not isinstance(given, (str, Path)) or (isinstance(given, str) and not given.endswith(".json")):
        return given
    path = Path(given)
    check_is_file(path, f"there is no precision {path}; {FIND}")
    try:
        data = file_bytes(path)
        found = loads(data, "precision")
    except ValueError as error:
        raise UsageError(f"{path} is no precision: {error}; {FIND}") from None
    if found.network != network:
        raise UsageError(f"{path} is of the network {found.network[:60]!r}, and this one is {network!r}; {FIND}")
    if len(found.variants) != 1:
        raise UsageError(f"{path} is no precision: it has {len(found.variants)} variants and not one; {FIND}")
    (variant,) = found.variants
    scales = {call.key: call.scales for call in variant.calls if call.scales}
    return Precisions(variant.choices(), scales, path, found, hashlib.sha256(data).hexdigest())
