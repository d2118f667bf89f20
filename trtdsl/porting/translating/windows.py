"""Windows, frequencies and steps of sizes, by what they are made of: torch's functions give their numbers alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from ...core.lazy import torch

OPTIONS = {"layout", "device", "pin_memory", "requires_grad"}


def _window(
    of: Callable[..., Any], length: Any, periodic: bool = True, *factors: float, dtype: Any = None, **options: Any
) -> torch.Tensor:
    """The window that ``of`` gives at places, by the last place of one that ends as it begins. One of length 1 is 1."""
    places = torch.arange(length, dtype=dtype or torch.get_default_dtype())
    named = {name: given for name, given in options.items() if name not in OPTIONS}
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


WINDOWS = {
    "fft_fftfreq": _frequencies,
    "fft_rfftfreq": partial(_frequencies, half=True),
    "hann_window": partial(_window, partial(_hamming, alpha=0.5, beta=0.5)),
    "hamming_window": partial(_window, _hamming),
    "blackman_window": partial(_window, _blackman),
    "bartlett_window": partial(_window, _bartlett),
}
"""By torch's names."""
