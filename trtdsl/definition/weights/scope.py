"""Weights as the attributes of a module."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ...core.errors import WeightsError, nearest
from ..call import author_location
from ..tensor import Draft, Tensor
from .files import SHOWN, is_number
from .source import Weights


class Scope:
    """Weights by name, as the attributes of a module: ``w.conv1.weight``, ``w["a.b"]``, ``w.blocks[3]``.

    The last argument of a function under ``@td.network(weights=…)``, or what ``net.weights(…)`` gives. A leaf is a
    constant :class:`Tensor` of the network; anything else is a Scope. Numbered children can be iterated
    (``for block in w.blocks``), taken in part (``w.blocks[1:]``), counted (``len(w.blocks)``) and asked for
    (``"residual" in w``).
    """

    __slots__ = ("_network", "_prefix", "_scopes", "_tensors", "_weights")

    def __init__(self, network: Draft, weights: Weights, prefix: str = "", outer: Scope | None = None):
        self._network, self._weights, self._prefix = network, weights, prefix
        self._tensors: dict[str, Tensor] = network.cache.setdefault("weights", {}) if outer is None else outer._tensors
        self._scopes: dict[str, Scope] = {} if outer is None else outer._scopes  # of all modules that were asked for

    def __getattr__(self, name: str) -> Any:
        if name[:2] == "__":
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, key: str | int | slice) -> Any:
        name = f"{self._prefix}{key}"
        if name in self._tensors:
            return self._tensors[name]
        if name in self._scopes:
            return self._scopes[name]
        weights = self._weights
        if name in weights.children:
            scope = self._scopes[name] = Scope(self._network, weights, f"{name}.", self)
            return scope
        if name in weights.shapes:
            tensor = self._tensors[name] = self._network.plain_constant(weights.get(name), (name,))
            return tensor
        if isinstance(key, slice):
            numbers = self._numbers()
            return [self[number] for number in range(max(numbers, default=-1) + 1)[key] if number in numbers]
        if isinstance(key, int) and self._prefix and key >= len(self):
            raise IndexError(f"{self._prefix[:-1]} has no [{key}]: it has {_counted(self._numbers())}")
        if self._prefix and isinstance(key, str) and hasattr(Tensor, key):
            parts = ", ".join(self._children())
            raise WeightsError(
                f"{self._prefix[:-1]!r} is not one weight but several: {parts}", location=author_location()
            )
        module = re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", f"w.{self._prefix}"[:-1])  # as an author writes it
        optional = f'; where it is optional, ask `"{key}" in {module}`' if isinstance(key, str) else ""
        raise WeightsError(
            f"no weight {name!r} in {weights.label}{self._instead(str(key))}{optional}", location=author_location()
        )

    def _instead(self, key: str) -> str:
        """The names most like one that is not there, otherwise what is there."""
        names = self._weights.shapes
        here = self._children() if self._prefix else list(dict.fromkeys(name.split(".")[0] for name in names))
        hint = "" if "." in key else nearest(key, here)
        hint = hint.replace("nearest: ", f"nearest: {self._prefix}").replace(", ", f", {self._prefix}")
        if not hint and (not here or not self._prefix):
            hint = nearest(f"{self._prefix}{key}", names)
        if hint or not here:
            return hint
        # Not other modules' weights of that name: a linear layer without bias has none.
        more = f", … ({len(here)} in all)" if len(here) > SHOWN else ""
        return f": {self._prefix[:-1] or 'it'} has {', '.join(here[:SHOWN])}{more}"

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        text = "holds weights and computes nothing: write F.linear(x, w.fc.weight, w.fc.bias) for a module w.fc(x)"
        raise WeightsError(f"{f'w.{self._prefix}'[:-1]} {text}", location=author_location())

    def __contains__(self, key: object) -> bool:
        name = f"{self._prefix}{key}"
        return name in self._weights.shapes or name in self._weights.children

    def _children(self) -> Sequence[str]:
        return self._weights.children.get(self._prefix[:-1], [])

    def _numbers(self) -> list[int]:
        return sorted(int(child) for child in self._children() if is_number(child))

    def __len__(self) -> int:
        return len(self._numbers())

    def __iter__(self) -> Iterator[Any]:
        return iter([self[number] for number in self._numbers()])

    def __repr__(self) -> str:
        return f"Scope({self._prefix[:-1] or '.'}: {', '.join(self._children())})"

    def __bool__(self) -> bool:
        return True


def weights_of(scope: Scope) -> Weights:
    """All that a scope is of: the network's own weights, or those that were given instead."""
    return scope._weights


def _counted(numbers: Sequence[int]) -> str:
    """The numbers of a module's parts, for a message.

    >>> _counted([0, 1]), _counted([0, 1, 2, 3]), _counted([2, 5]), _counted([])
    ('[0] and [1]', '[0] to [3]', '[2] and [5]', 'no numbered parts')
    """
    if len(numbers) > 2:
        return f"[{numbers[0]}] to [{numbers[-1]}]"
    return " and ".join(f"[{number}]" for number in numbers) or "no numbered parts"
