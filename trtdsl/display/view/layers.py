"""What the view shows of each layer: shapes in the author's dimensions and as numbers, cost, attributes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...core.dtypes import dtype_name
from ...definition.network import Network
from ...interpreter.fingerprint import attributes
from ...layers.evaluation import KINDS, Node, count, read_nodes
from ...layers.region import REGIONS, Region, partition
from ...layers.shape import size_tensors
from ...sizes.shape import Shape
from ...sizes.size import SizeLike
from ..summary import authors_shapes, cost_of, known, parameters_of, tuned_sizes

NOT_SHOWN = {"alpha", "beta", "cubic_coeff", "is_v2", "loop", "conditional", "metadata", "name", "padding_nd", "type"}
"""Attributes that another one says, or that mean something for few members of a family."""
DEFAULTS = {
    "stride_nd": 1, "dilation_nd": 1, "pre_padding": 0, "post_padding": 0, "stride": 1, "num_groups": 1,
    "padding_mode": "EXPLICIT_ROUND_DOWN", "num_elementwise_dims": 0, "op0": "NONE", "op1": "NONE", "axes": None,
    "zero_is_placeholder": True,
}  # fmt: skip
FEW = 16


@dataclass
class Layer:
    """A layer and what is known of it."""

    index: int
    node: Node
    parameters: int = 0
    times: int | None = 1
    """How often it runs; None where that is known only when it runs."""
    flops: int | None = None
    bytes: int | None = None
    is_size: bool = False
    """Whether it computes sizes of dimensions and no values."""

    @property
    def is_constant(self) -> bool:
        """Whether it only holds a value."""
        return self.node.type == "CONSTANT"


@dataclass
class Value:
    """A tensor: its shape in the author's dimensions, and at the sizes that the view is of."""

    name: str
    dtype: str
    shape: tuple[str, ...]
    sizes: tuple[int | None, ...]
    maker: int = -1
    """The index of its layer; -1 for an input of the network."""
    readers: list[int] = field(default_factory=list)


class Facts:
    """The layers and tensors of a network, read back from its definition, at sizes of its dimensions."""

    def __init__(self, network: Network):
        self.network = network
        backend, definition = network.backend, network.definition
        self.dims = tuned_sizes(network)
        with backend.listen():  # reading back logs complaints about attributes that are not there
            nodes = read_nodes(backend, definition)
            self.nodes, self.regions = partition(nodes, list(network.outputs))
            self.layers = [Layer(index, node) for index, node in enumerate(nodes)]
            self.shapes = authors_shapes(network, nodes)
            self.shapes |= {name: tensor.shape for name, tensor in network.outputs.items()}
            self.values: dict[str, Value] = {}
            for name, tensor in network.inputs.items():
                self.values[name] = self._value(name, dtype_name(tensor.dtype), tensor.shape)
            for layer in self.layers:
                self._add(layer)
            for region in self.regions:
                self._repeat(region, 1)
            shapes = {name: value.sizes for name, value in self.values.items()}
            for layer in self.layers:
                known_type = layer.node.type in KINDS or layer.node.type in REGIONS
                if layer.times is not None and known_type:
                    layer.flops, layer.bytes = cost_of(layer.node, shapes, layer.parameters, layer.times)

    def _add(self, layer: Layer) -> None:
        node, network = layer.node, self.network
        for tensor in node.outputs:
            shape = self.shapes.get(tensor.name, ())
            if len(shape) != len(tensor.shape):
                shape = tuple(tensor.shape)
            dtype = dtype_name(network.backend.torch_dtype(tensor.dtype))
            self.values[tensor.name] = self._value(tensor.name, dtype, shape, layer.index)
        for name in node.needs:
            if name in self.values:
                self.values[name].readers.append(layer.index)
        layer.parameters = parameters_of(node)
        before = [self.values[name].maker for name in node.needs if name in self.values]
        inside = len(before) == len(node.needs) and all(index >= 0 for index in before)  # none is an input's value
        computed = [self.layers[index] for index in before if index >= 0 and not self.layers[index].is_constant]
        small = all(self._is_small(self.values[name]) for name in node.makes)
        of_sizes = bool(before) and inside and all(each.is_size for each in computed)
        carries = node.type in KINDS and KINDS[node.type].carries_sizes
        layer.is_size = node.type == "SHAPE" or (carries and small and of_sizes)

    @staticmethod
    def _is_small(value: Value) -> bool:
        """Whether a tensor made of sizes may be sizes itself: a list of integers, or a few numbers."""
        if value.dtype.startswith("int") and len(value.shape) <= 1:
            return True
        return (
            all(text.isdigit() for text in value.shape)
            and count([size for size in value.sizes if size is not None]) <= FEW
        )

    def _value(self, name: str, dtype: str, shape: Shape, maker: int = -1) -> Value:
        texts = tuple("?" if isinstance(size, int) and size < 0 else str(size) for size in shape)
        return Value(name, dtype, texts, tuple(self._size(size) for size in shape), maker)

    def _size(self, size: SizeLike) -> int | None:
        found = known(size, self.dims or {})
        return found if found >= 0 else None

    # -- regions -------------------------------------------------------------------------------------------------------

    def _repeat(self, region: Region, times: int | None) -> None:
        if region.kind.name == "loop":
            trips = self.trips(region)[1]
            times = None if times is None or trips is None else times * trips
        indices = {id(layer.node): layer for layer in self.layers}
        for node in (*region.nodes, *region.boundary):
            indices[id(node)].times = times
        for inner in region.regions:
            self._repeat(inner, times)

    def trips(self, region: Region) -> tuple[str, int | None]:
        """How often a loop runs: as text, in the author's dimensions, and as a number where it is known."""
        limits = {node.layer.kind.name: node.inputs[0].name for node in region.of("TRIP_LIMIT")}
        if "COUNT" not in limits:
            return "while", None
        size = self._scalar(limits["COUNT"])
        if size is None:
            return "?", None
        return str(size), None if "WHILE" in limits else self._size(size)

    def _scalar(self, name: str) -> SizeLike | None:
        """The size or the constant that a tensor of one element holds; None for a computed one."""
        known = size_tensors(self.network)
        while name not in known:
            maker = self.values[name].maker if name in self.values else -1
            if maker < 0:
                return None
            node = self.layers[maker].node
            if node.type == "CONSTANT":
                return int(node.layer.weights.reshape(-1)[0]) if node.layer.weights.size == 1 else None
            if node.type not in ("SHUFFLE", "SQUEEZE", "UNSQUEEZE", "IDENTITY", "CAST"):
                return None
            name = node.needs[0]
        return known[name]


def shown_attributes(node: Node) -> dict[str, str]:
    """The attributes of a layer that a reader wants: plain values that are not what they are by default."""
    found = {}
    for name, value in attributes(node.layer):
        if name in NOT_SHOWN or hasattr(value, "dtype") or value is None or value == ():
            continue
        if name.endswith("_transpose"):
            value = _permutation(node, name, value)
        text = _text(value)
        default = DEFAULTS.get(name, "")
        usual = isinstance(value, tuple) and isinstance(default, int) and set(value) <= {default}
        same = name.endswith("transpose") and isinstance(value, tuple) and list(value) == sorted(value)
        if usual or same or text == str(default):
            continue
        found[name.removesuffix("_nd")] = text
    kind = getattr(type(node.layer), "type", None)
    if node.type in ("ACTIVATION", "POOLING") and kind is not None:
        found = {"type": kind.fget(node.layer).name, **found}
    return found


def _permutation(node: Node, name: str, value: Any) -> Any:
    """A permutation without the places that are not there: TensorRT gives eight."""
    tensor = (node.inputs if name == "first_transpose" else node.outputs)[0]
    return value[: len(tensor.shape)] if isinstance(value, tuple) else value


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return "×".join(map(str, value)) if len(set(value)) > 1 or len(value) > 3 else ", ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    head, dot, tail = text.partition(".")
    return tail if dot and head[:1].isupper() and tail.replace("_", "").isalnum() else text
