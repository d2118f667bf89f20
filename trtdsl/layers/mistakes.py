"""What an author may write for another: the attributes of a layer type that a mutation test changes, and to what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Mistakes:
    """What is easily mistaken in a layer of one type."""

    members: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """For each attribute that is a member of an enum, the member that each may be confused with."""
    flags: tuple[str, ...] = ()
    """Attributes that are true or false."""
    numbers: Mapping[str, Callable[[float], float]] = field(default_factory=dict)
    """Attributes that are numbers, and another one for each."""
    axes: bool = False
    """Whether ``axes`` has the dimensions that the layer works over."""
    windows: bool = False
    """Whether the layer has windows with padding."""
    left_out: bool = False
    """Whether its operand could stand in its place."""
    uses: Callable[[Any, str], bool] = lambda layer, attribute: True
    """Whether a layer of this kind uses an attribute: one that it does not use cannot be mistaken."""


MISTAKES: dict[str, Mistakes] = {}


def mistakes(type: str, **facts: Any) -> None:
    """Registers the :class:`Mistakes` of a layer type, beside its evaluator."""
    MISTAKES[type] = Mistakes(**facts)
