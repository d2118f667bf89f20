"""What is read of the layers of a network: the precision that it computes in, and what depends on what."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeVar

from ..core.lazy import torch
from ..definition.network import Network
from ..definition.tensor import reached
from ..layers.evaluation import read_nodes
from ..layers.region import boundaries

Name = TypeVar("Name")


def working_precision(network: Network) -> torch.dtype | None:
    """The half precision that a network computes something in; None where all of it is computed in float32.

    That may be so where it was asked for half precision, since autocast keeps most of torch's functions in float32.
    """
    halves = (torch.float16, torch.bfloat16)
    if network.precision is None:
        return None
    nodes = read_nodes(network.backend, network.definition)
    if not any(node.dtype in halves for node in nodes if node.makes):
        return None
    return network.precision


def depends_on_inputs(network: Network, *, sizes: bool = False) -> set[str]:
    """The names of the tensors that depend on the feeds' values; with ``sizes``, also on their shapes."""
    definition = network.definition
    nodes = [node for node in read_nodes(network.backend, definition) if sizes or node.type != "SHAPE"]
    fed = {definition.get_input(index).name for index in range(definition.num_inputs)}
    steps = [(node.needs, node.makes) for node in nodes]
    # A condition gives nothing itself: what the region gives depends on it.
    steps += [(node.needs, item.makes) for item in boundaries(nodes) for node in item.boundary if not node.makes]
    return closure(steps, fed)


def closure(steps: Iterable[tuple[Collection[Name], Collection[Name]]], names: set[Name]) -> set[Name]:
    """The names, and all to which steps from one of the first of a pair to all of the second lead.

    >>> sorted(closure([(["b"], ["c"]), (["a", "x"], ["b"]), (["x"], ["y"])], {"a"}))
    ['a', 'b', 'c']
    """
    leads: dict[Name, list[Collection[Name]]] = {}
    for sources, targets in steps:
        for source in sources:
            leads.setdefault(source, []).append(targets)
    return reached(names, lambda name: (each for targets in leads.get(name, ()) for each in targets))
