"""A summary's layers folded by module, as its table has them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .summary import LayerSummary

SORTS = ("order", "bytes", "flops", "parameters")
CONSTANTS = "(constants)"
FEW = 40
"""Rows that a reader takes in: where there are more layers, modules are folded."""


@dataclass(frozen=True)
class Row:
    """A layer, or all layers of a module."""

    name: str
    layers: Sequence[LayerSummary]

    @property
    def is_folded(self) -> bool:
        """Whether it stands for a module."""
        return len(self.layers) > 1

    @property
    def label(self) -> str:
        """The layer's name, or that of the module."""
        if not self.is_folded:
            return self.layers[0].name
        return self.name if self.name == CONSTANTS else f"{self.name}.*"

    @property
    def type(self) -> str:
        """The layer's type, or how many layers there are."""
        return f"{len(self.layers)} layers" if self.is_folded else self.layers[0].type

    @property
    def inputs(self) -> str:
        """What it reads: of a module, what none of its layers made, besides constants."""
        own = {tensor.name for layer in self.layers for tensor in layer.outputs}
        found = {tensor.name: tensor for layer in self.layers for tensor in layer.inputs if tensor.name not in own}
        return ", ".join(str(tensor) for tensor in found.values())

    @property
    def outputs(self) -> str:
        """What it makes: of a module, what its last layer does."""
        return ", ".join(map(str, self.layers[-1].outputs))

    @property
    def parameters(self) -> int:
        """Elements of its weights."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def flops(self) -> int | None:
        """None where a layer's are not known."""
        return total(layer.flops for layer in self.layers)

    @property
    def bytes(self) -> int | None:
        """None where a layer's are not known."""
        return total(layer.bytes for layer in self.layers)

    @property
    def times(self) -> str:
        """How often the layer runs; empty for a module."""
        if self.is_folded:
            return ""
        executions = self.layers[0].executions
        return "?" if executions is None else str(executions)

    def lines(self, below: str) -> str:
        """The author's line, or the first and the last of a module's in one file."""
        places = [(layer.location or "").removeprefix(below) for layer in self.layers]
        split = [place.rpartition(":") for place in places if place.rpartition(":")[2].isdecimal()]
        if not split:
            return places[0]
        numbers = sorted({int(number) for file, _, number in split if file == split[0][0]})
        last = f"–{numbers[-1]}" if len(numbers) > 1 else ""
        return f"{split[0][0]}:{numbers[0]}{last}"


def total(values: Iterable[int | None]) -> int | None:
    """The sum; None where one of the values is not known."""
    found = list(values)
    return None if None in found else sum(value for value in found if value is not None)


def rows(layers: Sequence[LayerSummary], depth: int | None = None, sort: str = "order") -> list[Row]:
    """The layers, those of modules deeper than ``depth`` in one row each; None folds only as far as is needed.

    >>> net = td.Network()
    >>> x = net.input("x", (2, 3))
    >>> with net.scope("head.fc"):
    ...     x = F.exp(x).sin().cos()
    >>> net.output(F.relu(x), "y")
    >>> [(row.label, row.type) for row in rows(td.summarize(net).layers, depth=1)]
    [('head.*', '4 layers')]
    """
    if depth is None:
        deepest = max((layer.name.count(".") for layer in layers), default=0) + 1
        depth = next((d for d in range(deepest, 1, -1) if len(_folded(layers, d)) <= FEW), 1)
    found = _folded(layers, depth)
    if sort != "order":
        found.sort(key=lambda row: -(getattr(row, sort) or 0))
    return found


def _folded(layers: Sequence[LayerSummary], depth: int) -> list[Row]:
    """A row for each module of ``depth`` names, and for each layer above it, in the order of their first layers.

    Constants above it stand in one row.
    """
    groups: dict[str, list[LayerSummary]] = {}
    for index, layer in enumerate(layers):
        parts = layer.name.split(".")
        key = ".".join(parts[:depth]) if len(parts) > depth else f"{layer.name} {index}"
        if layer.type == "CONSTANT" and len(parts) <= depth < sys.maxsize:
            key = CONSTANTS
        groups.setdefault(key, []).append(layer)
    return [Row(name, layers) for name, layers in groups.items()]
