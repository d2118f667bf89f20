"""Comparisons of sizes in a traced module: traced_sizes.py notes them, prove_guards.py proves them for all sizes."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from ...core.errors import Location


@dataclass(frozen=True, eq=False)
class Guard:
    """A comparison of sizes that the module made, and its result."""

    symbol: str
    left: Any
    right: Any
    """Expressions of sizes, and numbers."""
    outcome: bool
    location: Location


GUARDS: ContextVar[list[Guard] | None] = ContextVar("trtdsl_guards", default=None)
"""What the module that runs has asked."""
