"""What a survey is given: a module, its inputs and the ranges of their dimensions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

BATCH: dict[str, Any] = {"N": (1, 2, 3)}


@dataclass(frozen=True)
class Subject:
    """A module: what makes it, its inputs by name or in order, and the ranges of their dimensions."""

    name: str
    make: Callable[[], nn.Module]
    inputs: dict[str, str] | list[str]
    dims: dict[str, Any]


def image(name: str, make: Callable[[], nn.Module], side: int = 64, channels: int = 3) -> Subject:
    """A module of one image of a fixed side, in batches."""
    return Subject(name, make, [f"N,{channels},{side},{side}"], BATCH)


class Part(nn.Module):
    """One method of a module, or a part of its result: what an engine is made of where forward does more."""

    def __init__(self, module: nn.Module, method: str):
        super().__init__()
        self.module, self.method = module, method

    def forward(self, *inputs):
        return getattr(self.module, self.method)(*inputs)


def varied(module: nn.Module) -> nn.Module:
    """The module with random numbers where its weights begin as zeros, or so small that they hide what goes in."""
    for parameter in module.parameters():
        if not parameter.is_floating_point() or not parameter.numel():
            continue
        if not parameter.any():
            parameter.normal_(0, 0.1)
        elif parameter.dim() > 2 and 0 < parameter.std() < 0.7 * (wanted := parameter[0].numel() ** -0.5):
            parameter.mul_(wanted / parameter.std())
    return module


def settled(module: nn.Module, *inputs: torch.Tensor) -> nn.Module:
    """The module whose batch norms have the statistics of one batch: the values of deep ones vanish without."""
    norms = [part for part in varied(module).modules() if isinstance(part, nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = None  # the average of all batches
    module.train()(*inputs)
    return module.eval()
