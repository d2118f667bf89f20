"""A hash of everything that a network definition holds: two networks with one hash build the same engine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from typing import Any

from ..core.backend import Backend
from ..layers.constant import weights_bytes
from ..layers.evaluation import read_nodes

# Properties that are hashed elsewhere, or belong to no layer.
SKIPPED = {"num_inputs", "num_outputs"}


def fingerprint(definition: Any, backend: Backend, *, values: bool = True) -> str:
    """SHA-256 over inputs, outputs, and each layer's type, names, operands, attributes and weights.

    Without ``values`` weights count by dtype and size alone, and the author's lines (a layer's metadata) not at all.
    """
    digest = hashlib.sha256()

    def put(*facts: Any) -> None:
        digest.update(repr(facts).encode())

    with backend.listen():
        for index in range(definition.num_inputs):
            put("input", *_tensor(definition.get_input(index)))
        for node in read_nodes(backend, definition):
            put("layer", node.type, node.name)
            put(*(None if tensor is None else tensor.name for tensor in node.inputs))
            for tensor in node.outputs:
                put("to", *_tensor(tensor))
            for name, value in attributes(node.layer):
                if name == "metadata" and not values:
                    continue
                if hasattr(value, "dtype") and hasattr(value, "size") and not isinstance(value, (int, float)):
                    put(name)
                    if values:
                        digest.update(weights_bytes(value))
                    else:
                        put(str(value.dtype), value.size)
                else:
                    put(name, value)
        for index in range(definition.num_outputs):
            put("output", definition.get_output(index).name)
    return digest.hexdigest()


def attributes(layer: Any) -> Iterable[tuple[str, Any]]:
    """Every readable property of a layer (already of its own class), as plain values or weights."""
    for name in _properties(type(layer)):
        try:
            value = getattr(layer, name)
        except (RuntimeError, TypeError, AttributeError, SystemError):  # unset, or not for this variant of the layer
            continue
        if (name, value) != ("num_ranks", 1):  # of all layers, in versions that have ranks
            yield name, _plain(value)


@cache
def _properties(cls: type) -> tuple[str, ...]:
    names = {name for base in cls.__mro__ for name, value in vars(base).items() if isinstance(value, property)}
    return tuple(sorted(names - SKIPPED))


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)) or hasattr(value, "dtype"):
        return value
    if hasattr(value, "__members__"):  # an enum's member
        return str(value)
    try:
        return tuple(value)
    except (TypeError, RuntimeError, ValueError):
        return type(value).__name__


def _tensor(tensor: Any) -> tuple[str, str, tuple[int, ...]]:
    return tensor.name, str(tensor.dtype), tuple(tensor.shape)
