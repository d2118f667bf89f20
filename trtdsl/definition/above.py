"""The one place where the network being written reaches up: Tensor and Size call functions of trtdsl.functional.

They are looked up at the first call, so that the floor above can be imported before or after. So are what is proven
about sizes and what is asked of them, which stand above the sizes in this room.
"""

from typing import Any

from ..core.lazy import LazyModule

F: Any = LazyModule("trtdsl.functional")
conditions: Any = LazyModule("trtdsl.definition.condition")
proofs: Any = LazyModule("trtdsl.definition.proof")
fractions: Any = LazyModule("trtdsl.functional.pointwise.fraction")
complexes: Any = LazyModule("trtdsl.functional.spectral.complex_tensor")
