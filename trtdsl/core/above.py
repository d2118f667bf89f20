"""The one place where a room knows of the rooms above it. Everything here is looked up when it is used.

Tensor and Size call functions of :mod:`trtdsl.functional`, a spec that another process gets loads its file, a size asks
what is proven about sizes, and a condition asks the network that is being written for what it requires.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from .lazy import LazyModule

F: Any = LazyModule("trtdsl.functional")
network_files: Any = LazyModule("trtdsl.definition.spec.load")
conditions: Any = LazyModule("trtdsl.sizes.condition")
proofs: Any = LazyModule("trtdsl.sizes.proof")
fractions: Any = LazyModule("trtdsl.functional.pointwise.fraction")
complexes: Any = LazyModule("trtdsl.functional.spectral.complex_tensor")

CURRENT_NETWORK: ContextVar[Any] = ContextVar("trtdsl_network", default=None)
"""The network that is being written: that of functions that take no Tensor."""
