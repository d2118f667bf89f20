"""Noise in computed values, by which is seen how far rounding moves a result."""

from __future__ import annotations

from collections.abc import Iterator

from ..lazy import torch

DRAWS = 262_139
"""How many are drawn, to be used again and again: as many as a core keeps near, and a prime number, so that they meet
other elements in each row. Each operation begins at another of them."""


class Noise:
    """Moves float64 and complex128 values by up to ``size`` of themselves, each otherwise."""

    def __init__(self, seed: int, size: float):
        self._generator = torch.Generator().manual_seed(seed)
        self._draws = torch.empty(DRAWS, dtype=torch.float64).uniform_(-size, size, generator=self._generator).add_(1.0)

    def of(self, value: torch.Tensor) -> torch.Tensor:
        """The value, with noise in every element; one of another dtype as it is."""
        if value.is_complex():
            return torch.view_as_complex(self.of(torch.view_as_real(value.resolve_conj())))
        if value.dtype != torch.float64:
            return value
        moved = value.clone(memory_format=torch.contiguous_format)
        for part, draws in self._parts(moved):
            part.mul_(draws)
        return moved

    def add_to(self, value: torch.Tensor) -> None:
        """Changes the elements that are no float32 numbers, which are exact."""
        if value.is_complex() and not value.is_conj():
            self.add_to(torch.view_as_real(value))
        elif value.dtype == torch.float64:
            moved = value.contiguous()
            for part, draws in self._parts(moved):
                part.mul_(draws.masked_fill(part == part.float(), 1.0))
            if moved is not value:
                value.copy_(moved)

    def _parts(self, value: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """The elements in parts that stay near, and as many draws for each."""
        left, first = value.view(-1), int(torch.randint(DRAWS, (), generator=self._generator))
        while left.numel():
            draws = self._draws[first : first + left.numel()]
            yield left[: len(draws)], draws
            left, first = left[len(draws) :], 0
