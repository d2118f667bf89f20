"""torch and numpy, imported when first used, so that ``import trtdsl`` takes a fraction of a second.

>>> from trtdsl.core.lazy import torch
>>> torch.ones(2).sum().item()
2.0
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any


class LazyModule:
    """A module that is imported when its first attribute is looked up; attributes are kept."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(importlib.import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value


if TYPE_CHECKING:
    import numpy as np
    import torch
else:
    np = LazyModule("numpy")
    torch = LazyModule("torch")

__all__ = ["np", "torch"]
