"""Patterns of layers, by which passes find what an author wrote in several calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...definition.graph import Graph, Layer, made_by
from ...definition.tensor import Tensor

COMMUTATIVE = {"SUM", "PROD", "MAX", "MIN", "AND", "OR", "XOR", "EQUAL"}


class Number(NamedTuple):
    """A constant of one element, which a match has by this name."""

    name: str


class Made(NamedTuple):
    """The result of a layer of this type and operation, of operands that match in their order, or in any order where
    the operation is commutative."""

    what: tuple[str, ...]
    operands: tuple[Pattern, ...]

    def whats(self) -> Iterator[tuple[str, ...]]:
        """The types of all its layers."""
        yield self.what
        for each in self.operands:
            if isinstance(each, Made):
                yield from each.whats()


Pattern = str | float | Number | Made
"""A name is a value that is computed, the same wherever it has this name; a number is a constant of that value."""


class Match(NamedTuple):
    """What a pattern matches: the tensors by name, and the layers, of which the first one gives the result."""

    tensors: dict[str, Tensor]
    layers: tuple[Layer, ...]

    def shared(self, graph: Graph) -> Layer | None:
        """The first layer besides that of the whole pattern whose result is an output, or which other layers need."""
        results = ((each, each.results[0]) for each in self.layers[1:])
        others = (each for each, x in results if graph.is_output(x) or not {*self.layers}.issuperset(graph.users(x)))
        return next(others, None)


def made(what: str, *operands: Pattern) -> Made:
    """A pattern: ``made("elementwise PROD", "x", made("activation SIGMOID", "x"))``."""
    return Made(tuple(what.split()), operands)


def number_of(x: Tensor) -> float:
    """A constant of one element as the attribute of a layer; a check knows what it is without rounding."""
    number, exact = float(x.data), x.network.exact
    if exact is not None:
        exact.numbers[number] = float(exact.of(x.data))
    return number


def matches(graph: Graph, pattern: Made) -> Iterator[Match]:
    """The layers to come that match.

    >>> x = net.input("x", (2, 3))
    >>> net.output(2 * F.exp(x), "y")
    >>> [found] = matches(net.graph, made("elementwise PROD", made("unary EXP", "x"), Number("factor")))
    >>> found.tensors["x"] is x, found.tensors["factor"].data, [layer.what[1] for layer in found.layers]
    (True, tensor([[2.]]), ['PROD', 'EXP'])
    """
    if not all(any(each[: len(what)] == what for each in graph.whats) for what in pattern.whats()):
        return
    for layer in graph.layers(*pattern.what):
        found = _matched(pattern, layer.results[0], Match({}, ()))
        if found is not None:
            yield found


def _matched(pattern: Pattern, x: Tensor | None, found: Match) -> Match | None:
    """The match with a tensor that should be this part of the pattern; None where it is not."""
    if x is None:
        return None
    if isinstance(pattern, Made):
        layer = made_by(x, *pattern.what)
        if layer is None or len(layer.operands) != len(pattern.operands):
            return None
        with_layer = found._replace(layers=(*found.layers, layer))
        operands = layer.operands
        for given in (operands, operands[::-1]) if pattern.what[-1] in COMMUTATIVE else (operands,):
            joined: Match | None = with_layer
            for part, operand in zip(pattern.operands, given, strict=True):
                joined = None if joined is None else _matched(part, operand, joined)
            if joined is not None:
                return joined
        return None
    if isinstance(pattern, (int, float)):
        return found if x.is_constant and bool((x.data == pattern).all()) else None
    name = pattern if isinstance(pattern, str) else pattern.name
    fits = not x.is_constant if isinstance(pattern, str) else x.is_constant and x.data.numel() == 1
    if not fits or found.tensors.get(name, x) is not x:
        return None
    return found._replace(tensors={**found.tensors, name: x})
