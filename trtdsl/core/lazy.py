"""Modules that are imported when first used: torch and numpy, since ``import trtdsl`` takes a fraction of a second
without them, and those of rooms above.

>>> from trtdsl.core.lazy import torch
>>> torch.ones(2).sum().item()
2.0
"""

from __future__ import annotations

import importlib
import os
import sys
from contextvars import ContextVar
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
            raise not_installed(self._name) from None
        value = getattr(module, attribute)
        setattr(self, attribute, value)
        return value


def not_installed(name: str) -> BackendError:
    """The error where torch or numpy is missing."""
    return BackendError(
        f"{name} is not installed, which defining, checking and building networks needs: "
        "pip install 'trtdsl[rtx]', or 'trtdsl[tensorrt]' on a machine with a GPU"
    )


def _after_fork() -> None:
    """One thread for torch: those that it had are not in the process that was forked, which would wait for them."""
    set_threads = getattr(sys.modules.get("torch"), "set_num_threads", None)
    if set_threads is not None:
        set_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

if TYPE_CHECKING:
    import numpy as np
    import torch
else:
    np = LazyModule("numpy")
    torch = LazyModule("torch")

# The one place where a room knows of the rooms above it. Tensor and Size call functions of trtdsl.functional, a spec
# that another process gets loads its file, a size asks what is proven about sizes, a condition asks the network that
# is being written for what it requires, a graph runs the passes, a precision quantizes operands, one that is
# named has the ranges of calls, and a layer that broadcasts adds a slice.
F: Any = LazyModule("trtdsl.functional")
network_files: Any = LazyModule("trtdsl.definition.spec.load")
conditions: Any = LazyModule("trtdsl.sizes.condition")
proofs: Any = LazyModule("trtdsl.sizes.proof")
fractions: Any = LazyModule("trtdsl.functional.pointwise.arithmetic")
complexes: Any = LazyModule("trtdsl.functional.spectral.complex_tensor")
layers: Any = LazyModule("trtdsl.layers")
ranges: Any = LazyModule("trtdsl.building.recording")
passes: Any = LazyModule("trtdsl.functional.passes")
quantization: Any = LazyModule("trtdsl.functional.pointwise.quantization")

CURRENT_NETWORK: ContextVar[Any] = ContextVar("trtdsl_network", default=None)
"""The network that is being written: that of functions that take no Tensor."""
