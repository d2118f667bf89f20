"""Names that ``layers`` does not have: the nearest ones."""

from __future__ import annotations

import sys
from typing import Any

from ..core.errors import no_attribute


def absent(name: str) -> Any:
    """Raises AttributeError with the nearest names."""
    raise no_attribute("trtdsl.layers", name, sys.modules["trtdsl.layers"].__all__)
