"""Windows, frequencies, steps and factors of sizes by what they are made of: torch gives their numbers alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from ...core.lazy import torch
from .counterpart import NOISE


def _window(
    of: Callable[..., Any], length: Any, periodic: bool = True, *factors: float, dtype: Any = None, **options: Any
) -> torch.Tensor:
    """The window that ``of`` gives at places, by the last place of one that ends as it begins. One of length 1 is 1."""
    places = torch.arange(length, dtype=dtype or torch.get_default_dtype())
    named = {name: given for name, given in options.items() if name not in NOISE}
    return torch.ones_like(places) if length == 1 else of(places, length if periodic else length - 1, *factors, **named)


def _hamming(places: Any, last: Any, alpha: float = 0.54, beta: float = 0.46) -> Any:
    return alpha - beta * torch.cos(places * (2 * math.pi) / last)


def _blackman(places: Any, last: Any) -> Any:
    return _hamming(places, last, 0.42, 0.5) + 0.08 * torch.cos(places * (4 * math.pi) / last)


def _bartlett(places: Any, last: Any) -> Any:
    return 1 - (places * 2 / last - 1).abs()


def _frequencies(length: Any, d: float = 1.0, *, half: bool = False, dtype: Any = None, **options: Any) -> torch.Tensor:
    """Those of a Fourier transform, of which the negative ones follow the others, or of its half."""
    places = torch.arange(length // 2 + 1 if half else length, dtype=dtype or torch.get_default_dtype())
    return places / (length * d) if half else (places - (places >= (length + 1) // 2) * length) / (length * d)


def stepped(count: Any, start: Any, step: Any, dtype: Any = None, **options: Any) -> torch.Tensor:
    """``torch.arange`` of fractions that are computed of sizes, by the number of its places."""
    return torch.arange(count, dtype=dtype or torch.get_default_dtype()) * step + start


def _linear(away: torch.Tensor, _: float) -> torch.Tensor:
    return (1 - away).clamp(min=0)


def _cubic(away: torch.Tensor, a: float) -> torch.Tensor:
    near = ((a + 2) * away - (a + 3)) * away * away + 1
    far = ((a * away - 5 * a) * away + 8 * a) * away - 4 * a
    return torch.where(away <= 1, near, torch.where(away < 2, far, torch.zeros_like(away)))


LINEAR = ("linear", "bilinear", "trilinear")
KERNELS = {**dict.fromkeys(LINEAR, (_linear, 1)), "bicubic": (_cubic, 2)}
"""Weights by the distance from a place, and how far it reaches, by the modes of ``F.interpolate``."""
NEAREST = {"nearest": 0.0, "nearest-exact": 0.5}
"""What is added to a place."""


def rescaled(x: torch.Tensor, axis: int, size: Any, factor: Any, mode: str, shrinks: bool | None) -> torch.Tensor:
    """``F.interpolate`` of an axis to a size by a factor that is not their quotient: a product.

    ``shrinks`` says with ``antialias`` whether the factor is below 1, and is None without.
    """
    x = x.movedim(axis, -1)
    places = torch.arange(size, dtype=x.dtype)
    if mode in NEAREST:
        places = ((places + NEAREST[mode]) / factor).floor().long().clamp(max=x.shape[-1] - 1)
        return x[..., places].movedim(-1, axis)
    kernel, reach = KERNELS[mode]
    places = (places + 0.5) / factor - 0.5
    if shrinks is None:  # the weights of what lies outside are those of the element at the edge
        there = torch.arange(-reach, x.shape[-1] + reach, dtype=x.dtype)
        x = torch.cat([*[x[..., :1]] * reach, x, *[x[..., -1:]] * reach], -1)
        weights = kernel((places[:, None] - there).abs(), -0.75)
    else:
        away = (places[:, None] - torch.arange(x.shape[-1], dtype=x.dtype)).abs()
        weights = kernel(away * factor if shrinks else away, -0.5)
        weights = weights / weights.sum(-1, keepdim=True)
    return (x @ weights.mT).movedim(-1, axis)


WINDOWS = {
    "fft_fftfreq": _frequencies,
    "fft_rfftfreq": partial(_frequencies, half=True),
    "hann_window": partial(_window, partial(_hamming, alpha=0.5, beta=0.5)),
    "hamming_window": partial(_window, _hamming),
    "blackman_window": partial(_window, _blackman),
    "bartlett_window": partial(_window, _bartlett),
}
"""By torch's names."""
