"""What a network contains: its layers with types, shapes, parameters, FLOPs, bytes and the author's lines."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

from ..core.backend import Backend
from ..core.errors import ShapeError, UsageError, several
from ..core.html import folded, preformatted, table
from ..core.lazy import torch
from ..definition.network import Network
from ..definition.spec.load import NetworkLike, as_spec
from ..definition.spec.spec import NetworkSpec
from ..definition.weights.source import Source
from ..interpreter.feeds import make_feeds
from ..interpreter.interpret import Interpreter
from ..layers.evaluation import KINDS, Node, Shapes, count, weights_of
from ..layers.region import REGIONS, Region
from ..sizes.profile import Range
from ..sizes.shape import Shape
from ..sizes.size import SizeLike, value
from .folding import LayerSummary, TensorSummary, Totals, modules_of, rows
from .table import as_text, make_table

if TYPE_CHECKING:
    from rich.table import Table

BITS = {"BOOL": 8, "INT8": 8, "UINT8": 8, "FP8": 8, "E8M0": 8, "INT4": 4, "FP4": 4, "HALF": 16, "BF16": 16, "INT64": 64}


@dataclass(frozen=True)
class Summary(Totals):
    """All layers of a network in the order in which they were added, and their totals."""

    network: str
    backend: str
    layers: Sequence[LayerSummary]
    fallbacks: list[str] = field(default_factory=list)
    """Calls that are lowered otherwise than they would be, because this version of TensorRT lacks a layer."""
    passes: list[dict[str, Any]] = field(default_factory=list)
    """What passes did with the author's calls, and why they did nothing."""
    dims: dict[str, int] = field(default_factory=dict)
    """The sizes of the dynamic dimensions that the figures are for."""

    @property
    def unknown(self) -> str:
        """Why totals are missing, and how to get them; empty where none is."""
        open_layers = [layer for layer in self.layers if layer.flops is None]
        if not open_layers:
            return ""
        if all(layer.executions is None for layer in open_layers):
            reason, what = "in a loop or a branch", "td.inspect(network) runs it once to count them"
        else:
            reason, what = "of open sizes", "give each td.Dim a range, or td.summarize(network, feeds) its inputs"
        return f"FLOPs and bytes are not known: {len(open_layers)} of {len(self.layers)} layers are {reason}; {what}"

    @property
    def at(self) -> str:
        """The sizes, for people: `` at N=4``, or nothing."""
        sizes = ", ".join(f"{name}={size}" for name, size in self.dims.items())
        return f" at {sizes}" if sizes else ""

    def to_json(self) -> dict[str, Any]:
        """Everything as one JSON object."""
        totals = {"layers": len(self.layers), "parameters": self.parameters, "flops": self.flops, "bytes": self.bytes}
        return {"schema": 1, "kind": "summary", "totals": totals, **asdict(self)}

    def layout(
        self, *, below: str = "", depth: int | None = sys.maxsize, sort: str = "order", width: int | None = None
    ) -> Table:
        """A row for each layer, those of modules deeper than ``depth`` in one row, and the totals.

        ``depth`` None folds as far as a screen needs; ``sort`` is one of ``SORTS``. Lines' files are shown from the
        folder ``below`` on. In a ``width`` that is too small, columns are left out.
        """
        table_rows = [
            [
                row.label, row.type, row.inputs, row.outputs, number(row.parameters), number(row.flops),
                number(row.bytes), row.times, row.lines(below),
            ]
            for row in rows(self.layers, depth, sort)
        ]  # fmt: skip
        counts = ("parameters", "FLOPs", "bytes", "times")
        totals = [number(self.parameters), number(self.flops), number(self.bytes)]
        return make_table(
            ["layer", "type", "inputs", "outputs", *counts, "line"],
            table_rows,
            numbers=counts,
            totals=[several(len(self.layers), "layer"), "", "", "", *totals, "", ""],
            width=width,
            drop=("inputs", "times", "bytes", "parameters"),
            cut=("line", "layer", "outputs"),
        )

    def passes_layout(self, width: int | None = None) -> Table:
        """A row for each of the author's lines and what a pass did there, with how often."""
        counts = Counter((each["line"], each["call"], each["pass"], each["text"]) for each in self.passes)
        table_rows = [[line, call, rule, text, str(count)] for (line, call, rule, text), count in counts.items()]
        return make_table(
            ["line", "call", "pass", "what", "times"], table_rows, numbers=("times",), width=width, drop=("pass",)
        )

    def __str__(self) -> str:
        head = [f"{self.network}{self.at}"] if self.dims else []
        return "\n".join([*head, as_text(self.layout()), *filter(None, [self.unknown]), *self.fallbacks])

    def __repr__(self) -> str:
        counts = f"{several(len(self.layers), 'layer')}, {number(self.parameters) or 0} parameters"
        return f"Summary({self.network}: {counts}, {number(self.flops) or 0} FLOPs{self.at})"

    def _repr_html_(self) -> str:
        listed = [
            (each.name, each.type, ", ".join(map(str, each.outputs)), number(each.flops), each.location or "")
            for each in self.layers
        ]
        notes = [*filter(None, [self.unknown]), *self.fallbacks]
        parts = [table(["layer", "type", "outputs", "FLOPs", "line"], listed), *map(preformatted, notes)]
        return folded(repr(self), *parts)


def number(value: int | None) -> str:
    """A count with a unit of a thousand, a million, …; empty for 0, ``?`` for None.

    >>> number(999), number(12_345), number(3_200_000_000), number(None)
    ('999', '12.3 k', '3.2 G', '?')
    """
    if value is None:
        return "?"
    if value < 1000:
        return str(value) if value else ""
    scaled, units = float(value), iter("kMGTPE")
    unit = ""
    while scaled >= 1000:
        scaled, unit = scaled / 1000, next(units)
    return f"{scaled:.1f} {unit}"


def summarize(
    network: NetworkLike | Any,
    feeds: Mapping[str, Any] | None = None,
    *,
    weights: Source | None = None,
    dims: Mapping[str, Range] | None = None,
    precision: str | None = None,
    backend: str | Backend | None = None,
    allow_nonfinite: bool = False,
) -> Summary:
    """The layers of ``network`` with the cost of each.

    That is a :class:`Network` or any ``INetworkDefinition``; or a NetworkSpec or a file (``FILE.py:NAME``), which is
    defined first: ``weights``, ``dims``, ``precision``, ``backend`` and ``allow_nonfinite`` are those of
    :meth:`NetworkSpec.define`, and a UsageError where the network is defined already.

    With ``feeds`` the network is interpreted once: shapes are those of that run, and layers count as often as they ran.
    Without, the sizes are those that the first profile is tuned for. What is not known then, because a dimension has no
    range or a layer stands in a loop or a branch, has None for its cost, and so has the total.

    >>> net = td.Network()
    >>> net.output(F.matmul(net.input("a", (2, 3)), net.input("b", (3, 4))), "y")
    >>> summarize(net).layers[0].flops
    48
    """
    how: dict[str, Any] = {
        "weights": weights, "dims": dims, "precision": precision, "backend": backend, "allow_nonfinite": allow_nonfinite
    }  # fmt: skip
    if isinstance(network, (Network, NetworkSpec, str, PathLike)):
        network = as_spec(network).define(**how)
    elif given := [name for name, value in how.items() if value]:
        raise UsageError(f"{given[0]}= is for a network that is defined here, not for an INetworkDefinition")
    interpreter = Interpreter(network)
    shapes: dict[str, tuple[int, ...]] = {}
    times: Counter[str] = Counter()
    found = {} if interpreter.network is None else authors_shapes(interpreter.network, interpreter.nodes)
    tuned = (tuned_sizes(interpreter.network) if interpreter.network and feeds is None else None) or {}
    if feeds is None:
        shapes = {name: tuple(known(size, tuned) for size in shape) for name, shape in found.items()}
    else:
        shapes = {name: tuple(feed.shape) for name, feed in feeds.items()}

        def observe(name: str, tensor: Any) -> None:
            shapes[name] = tuple(tensor.shape)
            times[name] += 1

        interpreter(feeds, observe=observe)
    name = network.name if isinstance(network, Network) else interpreter.definition.name
    backend = f"{interpreter.backend.name} {interpreter.backend.version}"
    sizes = {
        name: tuple(size if isinstance(size, int) else str(size) for size in shape)
        for name, shape in found.items()
        if not all(isinstance(size, int) for size in shape)
    }
    regions = [step.part for step in interpreter.steps if isinstance(step.part, Region)]
    inside = {interpreter.nodes[index].name for region in regions for index in region.inside}
    layers = []
    for node in interpreter.nodes:
        ran = max((times[name] for name in node.makes), default=1) if feeds is not None else 1
        executions = None if feeds is None and node.name in inside else ran
        layers.append(_layer(interpreter, node, shapes, sizes, executions))
    if interpreter.network is not None:
        layers = _placed(interpreter.network, interpreter.nodes, layers)
    fallbacks = list(network.choices.fallbacks) if isinstance(network, Network) else []
    remarks = [each.to_json() for each in network.graph.remarks] if isinstance(network, Network) else []
    return Summary(name, backend, layers, fallbacks, remarks, tuned)


def _placed(network: Network, nodes: Sequence[Node], layers: Sequence[LayerSummary]) -> list[LayerSummary]:
    """The layers with their modules and the author's calls."""
    calls = [network.layers[node.name].call for node in nodes]
    numbers: dict[int, int] = {}
    for call in calls:
        numbers.setdefault(id(call), len(numbers))
    return [
        replace(layer, module=module, call=None if call is None else numbers[id(call)])
        for layer, module, call in zip(layers, modules_of(network, nodes), calls, strict=True)
    ]


def tuned_sizes(network: Network) -> dict[str, int] | None:
    """The sizes that a network's first profile is tuned for; None where a dimension has no range."""
    try:
        return network.profiles[0].at("opt") if network.dims else {}
    except UsageError:
        return None


def known(size: SizeLike, dims: Mapping[str, int]) -> int:
    """The size as a number; -1 for one that is not known."""
    try:
        return value(size, dims)
    except ShapeError:  # of the data, or of a dimension without a range
        return -1


def authors_shapes(network: Network, nodes: Sequence[Node]) -> dict[str, Shape]:
    """By tensor, the shape in the author's dimensions."""
    found: dict[str, Shape] = {name: tensor.shape for name, tensor in network.inputs.items()}
    for node in nodes:
        found.update(zip(node.makes, (result.shape for result in network.layers[node.name].results)))
    return found


def inspect(
    source: NetworkLike,
    *,
    weights: Source | None = None,
    dims: Mapping[str, Range] | None = None,
    precision: str | None = None,
    profile: int = 0,
    backend: str | Backend | None = None,
    allow_nonfinite: bool = False,
) -> Summary:
    """The layers of a network, interpreted once at the sizes that a profile is tuned for.

    ``source`` is a NetworkSpec, a file (``FILE.py:NAME``) or a :class:`Network`; ``profile`` counts its profiles from
    0; the other arguments are those of :meth:`NetworkSpec.define`.

    >>> spec = td.network(inputs={"x": td.Input((td.Dim("N", min=1, opt=2, max=4), 3))})(lambda x: F.exp(x))
    >>> td.inspect(spec).layers[0].flops
    6
    """
    spec = as_spec(source)
    network = spec.define(
        weights=weights, dims=dims, precision=precision, backend=backend, allow_nonfinite=allow_nonfinite
    )
    if not 0 <= profile < max(len(network.profiles), 1):
        raise UsageError(f"there is no profile {profile}: there are {len(network.profiles)}, counted from 0")
    if not network.dims and (found := summarize(network)).flops is not None:
        return found
    sizes = network.profiles[profile].at("opt")
    found = summarize(network, make_feeds(spec.inputs, network, sizes, torch.Generator().manual_seed(0)))
    return replace(found, dims=dict(sizes))


def _layer(
    interpreter: Interpreter,
    node: Node,
    shapes: Mapping[str, tuple[int, ...]],
    sizes: Mapping[str, tuple[int | str, ...]],
    executions: int | None,
) -> LayerSummary:
    inputs = [_tensor(tensor, shapes, sizes) for tensor in node.inputs if tensor is not None]
    outputs = [_tensor(tensor, shapes, sizes) for tensor in node.outputs]
    parameters = parameters_of(node)
    flops = moved = None
    if executions is not None or node.type in REGIONS:
        with interpreter.backend.listen():
            flops, moved = cost_of(node, shapes, parameters, executions or 0)
    location = interpreter.network.layers[node.name].location if interpreter.network else None
    place = str(location) if location else node.layer.metadata or None
    return LayerSummary(node.name, node.type, inputs, outputs, parameters, executions, flops, moved, place)


def _tensor(
    tensor: Any, shapes: Mapping[str, tuple[int, ...]], sizes: Mapping[str, tuple[int | str, ...]]
) -> TensorSummary:
    name, dtype = tensor.name, tensor.dtype.name
    return TensorSummary(name, dtype, shapes.get(name, tuple(tensor.shape)), sizes.get(name, ()))


def cost_of(
    node: Node, shapes: Mapping[str, Sequence[int | None]], parameters: int, times: int
) -> tuple[int | None, int | None]:
    """FLOPs and bytes of all its executions at these shapes of tensors; None for both where a size is not known.

    A region's boundary layer only passes values on.
    """
    if node.type in REGIONS:
        return 0, 0
    tensors = [*node.inputs, *node.outputs]
    found = [None if each is None else tuple(shapes.get(each.name, each.shape)) for each in tensors]
    if any(size is None or size < 0 for shape in found if shape is not None for size in shape):
        return None, None
    sizes: list[Any] = found
    kind = KINDS[node.type]
    flops = kind.flops(node, Shapes(sizes[: len(node.inputs)], sizes[len(node.inputs) :])) * times
    if not (kind.moves(node) if callable(kind.moves) else kind.moves):
        return flops, 0
    bits = [0 if each is None else BITS.get(each.dtype.name, 32) for each in tensors]
    moved = sum((count(shape) * each + 7) // 8 for shape, each in zip(sizes, bits, strict=True))
    return flops, (moved + parameters * next(filter(None, bits), 0) // 8) * times


def parameters_of(node: Node) -> int:
    """Elements of the constants that are part of the layer."""
    return sum(int(getattr(node.layer, name).size) for name in weights_of(node))
