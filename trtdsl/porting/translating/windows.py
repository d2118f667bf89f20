"""Windows whose length is a size, by what they are made of: torch's functions give their numbers alone."""

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


WINDOWS = {
    "hann_window": partial(_window, partial(_hamming, alpha=0.5, beta=0.5)),
    "hamming_window": partial(_window, _hamming),
    "blackman_window": partial(_window, _blackman),
    "bartlett_window": partial(_window, _bartlett),
}
"""By torch's names."""
