"""torch and numpy, imported when first used, so that ``import trtdsl`` takes a fraction of a second.

>>> from trtdsl.core.lazy import torch
>>> torch.ones(2).sum().item()
2.0
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .errors import BackendError


class LazyModule:
    """A module that is imported when its first attribute is looked up; attributes are kept."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        try:
            module = importlib.import_module(self._name)
        except ModuleNotFoundError as error:
            if error.name != self._name:
                raise
            raise BackendError(
                f"{self._name} is not installed, which defining, checking and building networks needs: "
                "pip install 'trtdsl[rtx]', or 'trtdsl[tensorrt]' on a machine with a GPU"
            ) from None
        value = getattr(module, attribute)
        setattr(self, attribute, value)
        return value


if TYPE_CHECKING:
    import numpy as np
    import torch
else:
    np = LazyModule("numpy")
    torch = LazyModule("torch")

__all__ = ["np", "torch"]
