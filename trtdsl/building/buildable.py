"""The layers of a network that cannot be built on this machine, found before anything is built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core.backend import backend_of, has_cuda_device
from ..core.dtypes import dtype_name
from ..core.errors import BuildError, Location, placed
from ..definition.network import Network
from ..definition.spec.load import NetworkLike, as_network
from ..definition.tensor import AddedLayers
from ..layers.evaluation import KINDS, Node, read_nodes

QUANTIZED = ("int8", "float8_e4m3fn")


@dataclass(frozen=True)
class Obstacle:
    """A layer that cannot be built here."""

    layer: str
    type: str
    location: Location | None
    """The author's line that made the layer."""
    reason: str
    """Why, and what to write instead."""

    def __str__(self) -> str:
        return placed(self.location, f"layer {self.layer!r} cannot be built here: {self.reason}")


def obstacles(network: NetworkLike | Any, *, gpu: bool | None = None) -> list[Obstacle]:
    """The layers of a network that this machine's TensorRT cannot build, in the order in which they were added.

    ``network`` is a spec, a :class:`Network`, a file (``FILE.py:NAME``) or any ``INetworkDefinition``; ``gpu``, whether
    there is one (by default, whether this machine has it). Empty with a GPU, and for a TensorRT that builds only with
    one: there the builder itself reports what it lacks.

    >>> net = td.Network()
    >>> rows = L.non_zero(net.input("x", (2, 8)))
    >>> [obstacle.type for obstacle in obstacles(net, gpu=False)]
    ['NON_ZERO']
    """
    written: Any = as_network(network)
    definition = written.definition if isinstance(written, Network) else written
    backend = written.backend if isinstance(written, Network) else backend_of(written)
    if not backend.builds_without_gpu or (has_cuda_device() if gpu is None else gpu):
        return []
    known = written.layers if isinstance(written, Network) else AddedLayers()
    found = []
    with backend.listen():  # reading back logs complaints about attributes that are not there
        nodes = read_nodes(backend, definition)
        constants = {name for node in nodes if node.type == "CONSTANT" for name in node.makes}
        results = {definition.get_output(index).name for index in range(definition.num_outputs)}
        for node in nodes:
            reason = KINDS[node.type].unbuilt(node) if node.type in KINDS else None
            reason = reason or _dtype_problem(node, constants, results)
            if reason is not None:
                found.append(Obstacle(node.name, node.type, known[node.name].location, reason))
    return found


def refuse_obstacles(network: Network) -> None:
    """BuildError where the network has layers that this machine's TensorRT cannot build."""
    found = obstacles(network)
    if found:
        first = found[0]
        others = "".join(f"\n{obstacle}" for obstacle in found[1:])
        raise BuildError(f"layer {first.layer!r} cannot be built here: {first.reason}{others}", location=first.location)


def _dtype_problem(node: Node, constants: set[str], results: set[str]) -> str | None:
    """The builder's rules for fp8 and for quantized constants, which hold for every layer."""
    may = KINDS[node.type].fp8 if node.type in KINDS else ""
    for tensor in node.inputs:
        dtype = "" if tensor is None else dtype_name(node.backend.torch_dtype(tensor.dtype))
        if dtype == "float8_e4m3fn" and "takes" not in may:
            return f"{node.type} does not take {dtype}: dequantize it first (F.dequantize)"
        if tensor is not None and dtype in QUANTIZED and tensor.name in constants and "constants" not in may:
            return f"{node.type} does not take a constant of {dtype}: cast a wider one, or dequantize it"
    for tensor in node.outputs:
        dtype = dtype_name(node.backend.torch_dtype(tensor.dtype))
        if dtype == "float8_e4m3fn" and "gives" not in may:
            return f"{node.type} does not give {dtype}: quantize instead (F.quantize)"
        if dtype in QUANTIZED and node.type == "CONSTANT" and tensor.name in results:
            return f"a constant of {dtype} cannot be an output: dequantize it first"
    return None
