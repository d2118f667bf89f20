"""A summary's layers, and these folded by module, as its table has them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..definition.network import Network
from ..sizes.shape import shape_text

if TYPE_CHECKING:
    from ..layers.evaluation import Node

SORTS = ("order", "bytes", "flops", "parameters")
CONSTANTS = "(constants)"
STAYS = {"activation", "pointwise", "normalization", "constant"}
"""What may end a module; others behind its last weight are the author's work with its result."""
FEW = 40
"""Rows that a reader takes in: where there are more layers, modules are folded."""


@dataclass(frozen=True)
class TensorSummary:
    """A tensor: ``shape`` has -1 for a size that is not known; ``sizes`` are the author's, dynamic ones as texts."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    sizes: tuple[int | str, ...] = ()

    def __str__(self) -> str:
        sizes = self.sizes or tuple("?" if size < 0 else size for size in self.shape)
        return f"{self.dtype}{shape_text(sizes)}"  # type: ignore[arg-type]


@dataclass(frozen=True)
class LayerSummary:
    """One layer. ``flops`` and ``bytes`` are those of all its executions; None where a size is not known."""

    name: str
    type: str
    inputs: list[TensorSummary]
    outputs: list[TensorSummary]
    parameters: int
    executions: int | None
    """How often it runs: more than once in a loop, not at all in a branch that is not taken; None where only a run
    shows it."""
    flops: int | None
    bytes: int | None
    """Read and written, when each layer stands alone; a reshape moves none."""
    location: str | None
    module: str = ""
    """The module that it is part of, by its full name."""
    call: int | None = None
    """The number of the author's call that it comes from: layers of one call have one number."""


class Totals:
    """Sums over some layers."""

    layers: Sequence[LayerSummary]

    @property
    def parameters(self) -> int:
        """Elements of all weights and constants."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def flops(self) -> int | None:
        """Floating-point operations of one run; None where those of a layer are not known."""
        return total(layer.flops for layer in self.layers)

    @property
    def bytes(self) -> int | None:
        """Bytes moved in one run if no layers were fused; None where those of a layer are not known."""
        return total(layer.bytes for layer in self.layers)


@dataclass(frozen=True)
class Row(Totals):
    """A layer, or all layers of a module."""

    name: str
    layers: Sequence[LayerSummary]

    @property
    def is_folded(self) -> bool:
        """Whether it stands for a module."""
        return len(self.layers) > 1

    @property
    def label(self) -> str:
        """The layer's name in the module that it is part of, or that of the module."""
        last = self.layers[-1]
        if not self.is_folded or self.layers[0].call == last.call is not None:
            return last.name if last.call is None else f"{last.module}.{last.name.rpartition('.')[2]}".lstrip(".")
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


def belongs(network: Network, name: str, scope: str) -> bool:
    """Whether a layer uses weights of a module, or was written in a scope of that name."""
    facts = network.layers[name]
    named = (*facts.weights, facts.call.scope if facts.call else "")
    return any(each == scope or each.startswith(f"{scope}.") for each in named)


def modules_of(network: Network, nodes: Sequence[Node]) -> list[str]:
    """The module that each layer is part of. Layers are in an order in which they could run.

    A layer without weights has the scope of its first operand, wherever it stands: where nothing of the module is made
    of its result, it is part of what is around the module, as is what follows it. Activations and the like stay.
    """
    from ..layers.region import category_of  # all layers: not for the command line's help

    calls = [id(network.layers[node.name].call or node) for node in nodes]
    moving = {call for call, node in zip(calls, nodes, strict=True) if category_of(node.type) not in STAYS}
    behind: dict[str, set[str]] = {}  # by tensor, the modules that compute with it, or with what is made of it
    within = []
    for node in reversed(nodes):
        own = set[str]().union(*(behind.get(name, set()) for name in node.makes))
        own |= {each for each in _outward(node.name.rpartition(".")[0]) if belongs(network, node.name, each)}
        for name in node.needs:
            behind[name] = behind.get(name, set()) | own
        within.append(own)
    found = []
    left: dict[str, set[str]] = {}  # by tensor, the modules that it has come out of
    for node, call, own in zip(nodes, calls, reversed(within), strict=True):
        scope = node.name.rpartition(".")[0]
        out = set[str]().union(*(left.get(name, set()) for name in node.needs)) - own
        if call in moving or scope in out:
            inner = [*_outward(scope)]
            scope = next((each for each in inner if each in own), "")
            out.update(inner[: inner.index(scope)] if scope else inner)
        for name in node.makes:
            left[name] = out
        found.append(scope)
    return found


def _outward(scope: str) -> Iterator[str]:
    """A module, the one around it, and so on."""
    while scope:
        yield scope
        scope = scope.rpartition(".")[0]


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
    """A row for each module of ``depth`` names, and for each call of the author's above it, in their order.

    Constants above it stand in one row.
    """
    groups: dict[str, tuple[str, list[LayerSummary]]] = {}
    for index, layer in enumerate(layers):
        parts = [*layer.module.split("."), layer.name.rpartition(".")[2]] if layer.module else [layer.name]
        name, key = layer.name, f"{layer.name} {index}"
        if len(parts) > depth:
            name = key = ".".join(parts[:depth])
        elif layer.type == "CONSTANT" and layer.call is None and depth < sys.maxsize:
            name = key = CONSTANTS
        elif layer.call is not None and depth < sys.maxsize:
            key = f"{layer.call} of {layer.module}"  # a call's constants stand in front of all
            groups[key] = groups.pop(key, (name, []))
        groups.setdefault(key, (name, []))[1].append(layer)
    return [Row(name, layers) for name, layers in groups.values()]
