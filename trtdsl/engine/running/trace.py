"""What the launches of an evaluated engine gave, and the first of them that equals nothing known at its lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch

from ...programs.evaluation.evaluator import Step
from ...programs.launches import REARRANGING, parts

ROOM = {torch.float16: 2e-2, torch.bfloat16: 1e-1}
"""What a launch's values may be off by, of their scale; 1e-3 in float32."""

Known = Mapping[str, Sequence[torch.Tensor]]
"""Sorted values by the author's line."""


class Trace:
    """An observer of launches, which keeps their results where it is told to."""

    def __init__(self) -> None:
        self.steps: list[tuple[Step, dict[str, torch.Tensor]]] | None = None

    def __call__(self, step: Step, results: Mapping[str, torch.Tensor]) -> None:
        if self.steps is not None:
            self.steps.append((step, {name: sorted_values(result) for name, result in results.items()}))

    @contextmanager
    def kept(self) -> Iterator[list[tuple[Step, dict[str, torch.Tensor]]]]:
        """The results of what is evaluated inside."""
        self.steps = steps = []
        try:
            yield steps
        finally:
            self.steps = None


def by_line(steps: Sequence[tuple[Step, Mapping[str, torch.Tensor]]]) -> dict[str, list[torch.Tensor]]:
    """The results of launches by the author's lines."""
    found: dict[str, list[torch.Tensor]] = {}
    for step, results in steps:
        for line in step.lines:
            found.setdefault(line, []).extend(results.values())
    return found


def first_unlike(steps: Sequence[tuple[Step, Mapping[str, torch.Tensor]]], known: Known) -> tuple[Step, str] | None:
    """The first launch, and its result, that equals nothing known at its lines, whatever the order of the values.

    It is compared with what has as many values; one that has nothing to be compared with, or that only moves values,
    is left out.
    """
    for step, results in steps:
        if REARRANGING.issuperset(parts(step.name)):
            continue
        for name, result in results.items():
            others = [value for line in step.lines for value in known.get(line, ()) if len(value) == len(result)]
            if others and not any(_alike(value, result) for value in others):
                return step, name
    return None


def sorted_values(value: torch.Tensor) -> torch.Tensor:
    """The values of a tensor from the least to the greatest; those of bool as they stand."""
    flat = value.detach().reshape(-1)
    flat = flat.float() if value.dtype.is_floating_point and value.itemsize == 1 else flat  # torch sorts no fp8
    return flat.clone() if value.dtype == torch.bool else flat.sort().values


def _alike(expected: torch.Tensor, got: torch.Tensor) -> bool:
    room = max(ROOM.get(each.dtype, 1e-3) for each in (expected, got))
    expected, got = expected.double().nan_to_num(), got.double().nan_to_num()
    scale = float(expected.abs().max()) if len(expected) else 0.0
    return bool(((expected - got).abs() <= room * max(scale, 1e-30)).all())
