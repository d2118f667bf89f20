"""What a port is attempted with: the module and its inputs, as they are given or as a refusal has them changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from ...core.lazy import torch
from ...definition.spec.reference import with_draws
from ..given import Given
from ..tracing.trace import copied

Made = TypeVar("Made")


@dataclass(frozen=True)
class Attempt:
    """A module to port, with the inputs of its network."""

    module: torch.nn.Module
    """What the network is compared with."""
    given: Given
    settled: bool = False
    """Whether the module is one that a first run has set, and writes to its parameters no more."""
    by_values: bool = False
    """Whether the greatest number of an input makes sizes of itself."""
    unbounded: bool = False
    """Whether numbers that nothing bounds make sizes."""
    derivatives: bool = False
    """Whether forward takes derivatives of what it computes."""
    remarks: tuple[str, ...] = ()
    """What was changed of what the caller gave."""

    @cached_property
    def source(self) -> torch.nn.Module:
        """What is traced: the module, taking what it draws as inputs where these are given."""
        return with_draws(copied(self.module), self.given.draws) if self.given.draws else self.module

    def changed(self, remarks: list[str], **changes: Any) -> Attempt:
        """One with these changes, which the caller reads of."""
        return replace(self, remarks=(*self.remarks, *remarks), **changes)


Again = Callable[[Attempt], tuple[Made, Attempt]]
"""Attempts it once more: what is made, and the attempt that made it."""
