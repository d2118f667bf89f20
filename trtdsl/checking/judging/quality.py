"""How well outputs are computed, in decibels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...core.lazy import torch

Outputs = Mapping[str, "torch.Tensor"]


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
