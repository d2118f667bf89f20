"""How well outputs are computed, in decibels, and whether that is enough."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core.errors import UsageError, nearest
from ...core.lazy import torch

Outputs = Mapping[str, "torch.Tensor"]


@dataclass(frozen=True)
class SQNR:
    """The least signal to quantization noise ratio of an output: 20 decibels are a tenth off, 40 a hundredth.

    >>> SQNR(45).part
    3.1622776601683795e-05
    """

    decibels: float

    def __post_init__(self) -> None:
        if (
            isinstance(self.decibels, bool)
            or not isinstance(self.decibels, (int, float))
            or not 0 < self.decibels < 300
        ):
            raise UsageError(f"an SQNR is a number of decibels above 0, such as td.SQNR(45), not {self.decibels!r}")

    @property
    def part(self) -> float:
        """The greatest power of the noise, as a part of the signal's."""
        return 10 ** (-self.decibels / 10)


@dataclass
class Quality:
    """The power of an output's noise beside that of its exact value, added up over samples."""

    signal: dict[str, float] = field(default_factory=dict)
    noise: dict[str, float] = field(default_factory=dict)

    def add(self, got: Outputs, exact: Outputs) -> None:
        """Takes a sample; what is not finite where the exact value is has infinite noise, and integers have none."""
        for name, truth in exact.items():
            if not truth.is_floating_point():
                continue
            finite = torch.isfinite(truth)
            true, found = torch.where(finite, truth, 0.0), torch.where(finite, got[name].double(), 0.0)
            away = (found - true).square().sum().nan_to_num(math.inf, math.inf)
            self.signal[name] = self.signal.get(name, 0.0) + float(true.square().sum())
            self.noise[name] = self.noise.get(name, 0.0) + float(away)

    def parts(self) -> dict[str, float]:
        """The noise of each output as a part of its signal."""
        return {name: noise / (self.signal[name] or 1.0) for name, noise in self.noise.items()}

    def decibels(self) -> dict[str, float]:
        """The SQNR of each output; infinite where there is no noise."""
        return {name: decibels(part) for name, part in self.parts().items()}


def sqnr(got: torch.Tensor, exact: torch.Tensor) -> float:
    """The SQNR of one tensor."""
    quality = Quality()
    quality.add({"": got}, {"": exact})
    return quality.decibels()[""]


def decibels(part: float) -> float:
    """The SQNR of a part of the signal's power that is noise."""
    return math.inf if part == 0 else -10 * math.log10(part) if math.isfinite(part) else -math.inf


def as_budget(given: Any, outputs: Sequence[str]) -> dict[str, SQNR]:
    """The least SQNR by output; one for all, a number of decibels or an :class:`SQNR`, or a mapping of these.

    Raises UsageError for what is none of these, and for an output that there is not.
    """
    items: Mapping[str, Any] = given if isinstance(given, Mapping) else dict.fromkeys(outputs, given)
    for name in items:
        if name not in outputs:
            raise UsageError(f"there is no output {name!r} with floating-point values{nearest(str(name), outputs)}")
    return {name: _as_sqnr(each) for name, each in items.items()}


def _as_sqnr(given: Any) -> SQNR:
    return given if isinstance(given, SQNR) else SQNR(given)
