"""Torch's own error as it was measured at smaller sizes, for the same output at a greater one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...core.lazy import torch

OUTLIER = 1e3  # times the median: greater elements are judged apart, so that they hide no other error
QUIETER = 3.0  # how many times smaller a place's values may be for the error of the other places to be expected there


@dataclass
class Noise:
    """Sums of the squares of torch's own errors, and of its values, at each place along an output's static axes.

    ``moving`` are the axes whose size is dynamic. Errors along them are taken to grow and shrink with the values there:
    those of a sample of small values are small.
    """

    moving: Sequence[int]
    errors: torch.Tensor | None = None
    values: torch.Tensor | None = None
    count: int = 0

    def learn(self, own: torch.Tensor, truth: torch.Tensor) -> None:
        """Adds the errors of one more result."""
        own, truth = own.double(), truth.double()
        if own.shape != truth.shape:
            return
        size = truth.abs()
        plain = torch.isfinite(own) & torch.isfinite(truth)
        known = size[plain & (size > 0)]
        if not known.numel():
            return
        plain &= size <= OUTLIER * float(known.median())
        errors, values = (self._over_moving(torch.where(plain, part, 0.0).square()) for part in (own - truth, truth))
        if self.errors is not None and self.values is not None:
            if self.errors.shape != errors.shape:
                return
            errors, values = errors + self.errors, values + self.values
        self.errors, self.values, self.count = errors, values, self.count + truth.numel()

    @property
    def level(self) -> float:
        """Torch's own error as a part of the values."""
        if self.errors is None or self.values is None or not float(self.values.sum()):
            return 0.0
        return math.sqrt(float(self.errors.sum() / self.values.sum()))

    def at(self, values: torch.Tensor, counts: torch.Tensor) -> torch.Tensor | None:
        """Torch's own error at each element of a result; None where nothing is known. ``counts`` masks what counts.

        Few results say little of each place: it has at least the median error of all places, unless its values are much
        smaller than theirs.
        """
        if self.errors is None or self.values is None or self.errors.ndim != values.ndim:
            return None
        still = [axis for axis in range(values.ndim) if axis not in self.moving]
        if not self.level or any(self.errors.shape[axis] != values.shape[axis] for axis in still):
            return None
        squares = torch.where(counts, values, 0.0).square()
        whole = float(squares.mean())
        if not whole:
            return None
        places, elements = self.count / self.errors.numel(), squares.numel() / self.errors.numel()
        typical = float((self.errors / self.values)[self.values > 0].median())
        known = self.errors / places * (whole / (float(self.values.sum()) / self.count))
        by_value = QUIETER**2 * typical * self._over_moving(squares) / elements
        known = torch.maximum(known, by_value.clamp(max=float(known.median())))
        return (known * (squares.mean(still, keepdim=True) if still else squares) / whole).sqrt_()

    def _over_moving(self, squares: torch.Tensor) -> torch.Tensor:
        return squares.sum(tuple(self.moving), keepdim=True) if self.moving else squares
