"""What a notebook shows of a Tensor, a Network and a NetworkSpec. Nothing is added to a network by showing it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.dtypes import dtype_name
from ..core.html import folded, table

if TYPE_CHECKING:
    from .network import Network
    from .spec.spec import NetworkSpec
    from .tensor import Tensor


def tensor_html(tensor: Tensor) -> str:
    """Where a Tensor comes from: its scope, weights and the author's line."""
    line = "" if tensor.node is None or tensor.node.operation.location is None else tensor.node.operation.location
    facts = {"scope": tensor.scope, "weights": ", ".join(tensor.weight_names), "line": line}
    return folded(repr(tensor), table(["", ""], [(name, fact) for name, fact in facts.items() if fact]))


def network_html(network: Network) -> str:
    """Its inputs and outputs."""
    sides = (("input", network.inputs), ("output", network.outputs))
    rows = [
        (side, name, tensor.shape, dtype_name(tensor.dtype)) for side, named in sides for name, tensor in named.items()
    ]
    return folded(repr(network), table(["", "name", "shape", "dtype"], rows))


def spec_html(spec: NetworkSpec) -> str:
    """Its inputs, and where its weights and its reference are."""
    inputs = [(name, each.shape, each.dtype) for name, each in spec.inputs.items()]
    ranges = [(name, *(dim.range or ("?", "?", "?"))) for name, dim in spec.dims.items()]
    facts = {"file": spec.file, "weights": spec.weights, "reference": spec.reference}
    named = [(name, fact if isinstance(fact, str) else _named(fact)) for name, fact in facts.items() if fact]
    return folded(
        f"NetworkSpec({spec.name})",
        table(["input", "shape", "dtype"], inputs),
        table(["dimension", "min", "opt", "max"], ranges),
        table(["", ""], named),
    )


def _named(fact: object) -> str:
    """A path or the name of a class; of a mapping of weights not the values."""
    if hasattr(fact, "__fspath__"):
        return str(fact)
    return getattr(fact, "__qualname__", f"a {type(fact).__name__}")
