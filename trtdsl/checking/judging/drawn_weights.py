"""Weights that distinguish little, as scales of 1 or the identity, drawn anew: exact arithmetic allows any."""

from __future__ import annotations

import itertools
from typing import Any

from ...core.lazy import torch
from ...definition.spec.spec import NetworkSpec
from ...definition.weights.source import Weights

DTYPES = ("float64", "float32", "float16", "bfloat16")
NEUTRAL = (0.0, 1.0, -1.0)  # what a single number is before anything was learned

OTHER = "other weights"
"""The name of such a case among the kinds of values."""


def drawn_weights(spec: NetworkSpec, weights: Weights, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """All weights, with other values for those that an exchange leaves as they are; empty where there are none.

    Zeros become N(0, 1), any other value itself times 0.5 to 1.5, so that a variance stays positive. Tensors that the
    reference shares stay equal, and what it computes itself stays as it is.
    """
    firsts, unused = spec.first_names(), tuple(f"{part}." for part in spec.unused)
    made = spec.made_constants()
    drawn: dict[str, torch.Tensor] = {}
    alike: dict[Any, str] = {}  # the first of those that begin alike, such as those of a module's copies
    for name in weights.shapes:
        if weights.dtypes[name] not in DTYPES or name in made or f"{name}.".startswith(unused):
            continue
        value, first = weights.get(name), firsts.get(name, name)
        before = alike.setdefault((value.shape, *value.flatten()[:8].tolist()), name)
        is_copy = firsts.get(before, before) != first and torch.equal(value, weights.get(before))
        if not is_copy and not _is_neutral(value):
            continue
        if first not in drawn:
            factor = torch.rand(value.shape, generator=generator) + 0.5
            other = torch.randn(value.shape, generator=generator)
            drawn[first] = torch.where(value == 0, other, factor * value).to(value.dtype)
    if not drawn:
        return {}
    return {
        name: drawn[first] if (first := firsts.get(name, name)) in drawn else weights.get(name)
        for name in weights.shapes
    }


def _is_neutral(value: torch.Tensor) -> bool:
    """Whether all parts along an axis are equal, as of a fresh norm, or two axes, as of the identity."""
    if value.numel() <= 1:
        return bool(value.numel()) and float(value) in NEUTRAL
    axes = [axis for axis, size in enumerate(value.shape) if size > 1]
    others = [value.narrow(axis, 0, 1).expand_as(value) for axis in axes]
    others += [value.transpose(*pair) for pair in itertools.combinations(axes, 2)]
    return any(_are_equal(value, other) for other in others if other.shape == value.shape)


def _are_equal(value: torch.Tensor, other: torch.Tensor) -> bool:
    """The same as torch's function; of weights that differ a few elements are read."""
    corner = (slice(2),) * value.ndim
    return torch.equal(value[corner], other[corner]) and torch.equal(value, other)
