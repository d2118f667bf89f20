"""The one place where the network being written reaches up: Tensor and Size call functions of trtdsl.functional.

They are looked up at the first call, so that the floor above can be imported before or after.
"""

from typing import Any

from ..core.lazy import LazyModule

F: Any = LazyModule("trtdsl.functional")
fractions: Any = LazyModule("trtdsl.functional.pointwise.fraction")
