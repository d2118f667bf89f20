"""Weights that distinguish nothing, such as scales of 1 and biases of 0, drawn anew: exact arithmetic allows any."""

from __future__ import annotations

from ...core.lazy import torch
from ...definition.spec.spec import NetworkSpec
from ...definition.weights.source import Weights

DTYPES = ("float64", "float32", "float16", "bfloat16")
NEUTRAL = (0.0, 1.0, -1.0)  # what a single number is before anything was learned


OTHER = "other weights"
"""The name of such a case among the kinds of values."""


def drawn_weights(spec: NetworkSpec, weights: Weights, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """All weights, with other values for those whose elements are all equal; empty where there are none of these.

    Zeros become N(0, 1), any other value itself times 0.5 to 1.5, so that a variance stays positive. Tensors that the
    reference shares stay equal.
    """
    firsts, unused = spec.first_names(), tuple(f"{part}." for part in spec.unused)
    drawn: dict[str, torch.Tensor] = {}
    for name in weights.shapes:
        if weights.dtypes[name] not in DTYPES or f"{name}.".startswith(unused) or not _is_neutral(weights.get(name)):
            continue
        value, first = weights.get(name), firsts.get(name, name)
        if first not in drawn:
            number = float(value.flatten()[0])
            factor = torch.rand(value.shape, generator=generator) + 0.5
            made = factor * number if number else torch.randn(value.shape, generator=generator)
            drawn[first] = made.to(value.dtype)
    if not drawn:
        return {}
    return {
        name: drawn[first] if (first := firsts.get(name, name)) in drawn else weights.get(name)
        for name in weights.shapes
    }


def _is_neutral(value: torch.Tensor) -> bool:
    if value.numel() <= 1:
        return bool(value.numel()) and float(value) in NEUTRAL
    first = value.flatten()[0]
    return bool(torch.isfinite(first)) and bool((value == first).all())
