"""Scales of int8 and fp8 for activations, from the values that were seen: the methods by which they are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..core.lazy import torch
from ..definition.tuning.precisions import NARROW

KEPT = 1 << 16
"""Values of a tensor that are kept of each sample, evenly spread."""
BINS, LEVELS = 2048, 128


@dataclass
class Seen:
    """The magnitudes of a tensor's values."""

    greatest: float = 0.0
    parts: list[torch.Tensor] = field(default_factory=list)

    def add(self, x: torch.Tensor) -> None:
        """Takes the finite values of a tensor."""
        flat = x.detach().float().flatten().abs()
        flat = flat[torch.isfinite(flat)]
        if flat.numel():
            self.greatest = max(self.greatest, float(flat.max()))
            self.parts.append(flat[:: max(1, flat.numel() // KEPT)].clone())

    def scale(self, method: str, dtype: str = "int8") -> float:
        """The step between two numbers of int8, as float16 has it; for fp8, whose steps grow, by the greatest value.

        >>> seen = Seen()
        >>> seen.add(torch.tensor([-12.7, 0.5]))
        >>> round(seen.scale("max"), 3)
        0.1
        """
        values = torch.cat(self.parts) if self.parts else torch.zeros(1)
        found = METHODS[method if dtype == "int8" else "max"](values, self.greatest) if self.greatest else 1.0
        return float(torch.tensor(found / NARROW[dtype]).clamp(min=1e-6).half())


def _percentile(values: torch.Tensor, greatest: float) -> float:
    """The magnitude that one value in ten thousand is above."""
    place = max(0, values.numel() - 1 - values.numel() // 10_000)
    return float(values.kthvalue(place + 1).values) or greatest


def _least_squares(values: torch.Tensor, greatest: float) -> float:
    """The range whose rounding and clipping have the least mean square error."""

    def error(limit: float) -> float:
        step = limit / 127
        return float((values - (values / step).round().clamp(max=127) * step).square().mean())

    return min((greatest * part / 64 for part in range(16, 65)), key=error)


def _entropy(values: torch.Tensor, greatest: float) -> float:
    """The range whose 128 levels have the distribution that is nearest to that of the values (Kullback-Leibler)."""
    counts = torch.histc(values, BINS, 0, greatest).double()
    counts[0] = counts[1]  # zeros of an activation say nothing about its range
    best, found = float("inf"), BINS
    for size in range(LEVELS, BINS + 1, 32):
        inside = counts[:size].clone()
        inside[-1] += counts[size:].sum()
        level = torch.arange(size) * LEVELS // size
        filled = (counts[:size] > 0).double()
        sums, numbers = (torch.zeros(LEVELS).double().index_add(0, level, each) for each in (counts[:size], filled))
        spread = (sums / numbers.clamp(min=1))[level] * filled
        p, q = inside / inside.sum().clamp(min=1), spread / spread.sum().clamp(min=1)
        there = p > 0
        away = float((p[there] * (p[there] / q[there].clamp(min=1e-12)).log()).sum())
        if away < best:
            best, found = away, size
    return greatest * found / BINS


METHODS: dict[str, Callable[[torch.Tensor, float], float]] = {
    "max": lambda values, greatest: greatest,
    "percentile": _percentile,
    "mse": _least_squares,
    "entropy": _entropy,
}
