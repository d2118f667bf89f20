"""The graph of a network: what the author's calls need is recorded.

A :class:`Layer` is one layer to come; a :class:`Call` is what may become layers in several ways, by what uses it. Calls
are lowered, and layers added, when the graph is emitted (:mod:`trtdsl.definition.emission`): at the end of a spec's
function, or where somebody asks for TensorRT's own objects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from ..core.errors import Location, placed
from .common import Shape, folded, table, torch
from .tensor import Draft, LayerFacts, Node, Operation, Tensor, reached, swapped


@dataclass(eq=False, slots=True)
class Layer(Node):
    """A layer to come: ``add(target, *itensors)`` adds it."""

    add: Callable[..., Any]
    weights: Sequence[Tensor]
    """Constants that count for its name."""
    label: str
    facts: LayerFacts
    finish: Callable[[Any, str, Callable[[Any, str], None]], None] | None = None
    """Is given TensorRT's layer, its name, and what names further layers that TensorRT added with it."""
    takes: bool = False
    """Whether it may take the result of a loop or a branch into another as it is."""
    ends: bool = False
    """Whether its result is one."""
    asks: bool = False
    """Whether TensorRT alone knows the results' shapes."""
    completes: bool = False
    """Whether it adds no layer, but gives one that was added what it lacks: a recurrence its next value."""
    what: tuple[str, ...] = ()
    """Its type and operation, by which passes look for it."""
    emitted: bool = field(default=False, init=False)
    serial: int = field(default=0, init=False)

    def forget(self) -> None:
        """Lets go of what was needed to add it: its results need nothing before them any more."""
        for result in self.results:
            result.order = result.order
        self.operands, self.weights = (), ()
        del self.add  # with all that it holds
        self.users.clear()

    @property
    def used(self) -> list[Tensor]:
        """Operands and weights."""
        return [tensor for tensor in (*self.operands, *self.weights) if tensor is not None]


@dataclass(eq=False, slots=True)
class Call(Node):
    """What becomes layers where it is first needed: :meth:`lower` gives its result, of layers or of another call."""

    rule: ClassVar[str] = ""
    """What its remarks are about."""
    made: Tensor | None = field(default=None, init=False)
    precision: torch.dtype | None = field(init=False)
    fold_limit: int = field(init=False)

    def __post_init__(self) -> None:
        Node.__post_init__(self)
        self.precision, self.fold_limit = self.operation.precision, self.operation.network.fold_limit

    def lower(self) -> Tensor:
        """The result."""
        raise NotImplementedError

    @property
    def is_layer(self) -> bool:
        """Whether its result is there already, or a layer that was recorded needs it as it is."""
        is_there = any(result.handle is not None for result in self.results)
        return is_there or any(isinstance(user, Layer) for user in self.users)

    def place(self, places: Mapping[int, int]) -> int | None:
        """The dimension whose places are channels where the result is made, by that of operands (by their id); None
        where there is none. Asked once, in the order of the calls, before any is lowered."""
        return None

    def remark(self, text: str, applied: bool = True) -> None:
        """Notes how the call is lowered, or why not in a better way."""
        self.operation.network.graph.remark(self.rule, self.operation, text, applied)

    def order(self) -> tuple[int, ...]:
        """The order in which the result's dimensions lie in memory."""
        return self.expected_order() if self.made is None else self.made.order

    def expected_order(self) -> tuple[int, ...]:
        """That order before the call is lowered; where it depends on how, the call is lowered now."""
        return self.resolved().order

    def resolved(self) -> Tensor:
        """The result; it is lowered once."""
        if self.made is None:
            operation = self.operation
            limit = swapped(operation.network, fold_limit=self.fold_limit)
            with limit, swapped(operation, precision=self.precision), operation:
                self.made = self.lower()
        return self.made

    def tensor(self, shape: Shape, dtype: Any, name: str, scope: str = "") -> Tensor:
        """The result as a Tensor."""
        scope = self.operation.scope or scope
        result = Tensor(self.operation.network, shape, dtype, name=name, scope=scope, node=self)
        result.partial = not self.is_product and any(x.partial for x in self.operands if x is not None)
        self.results.append(result)
        return result


@dataclass(eq=False, slots=True)
class Later(Call):
    """A call of which ``function`` makes the layers when the network is whole.

    Its result lies in memory in the order of its dimensions.
    """

    function: Callable[[], Tensor]

    def expected_order(self) -> tuple[int, ...]:
        return tuple(range(self.results[0].ndim))

    def lower(self) -> Tensor:
        return self.function()


class Region:
    """A loop or a conditional: TensorRT's object for it, made with its first layer, and the nodes that it spans."""

    def __init__(self, network: Draft, method: str, name: str = ""):
        self.network, self.method, self.name = network, method, name
        self.start = self.end = network.graph.recorded
        self._made: Any = None
        network.graph.regions.append(self)

    @property
    def made(self) -> Any:
        """ILoop or IIfConditional."""
        if self._made is None:
            self._made = getattr(self.network.target.definition, self.method)()
            if self.name:
                self._made.name = self.name
        return self._made

    def extend(self) -> None:
        """Says that all nodes up to now belong to it."""
        self.end = self.network.graph.recorded


class Remark(NamedTuple):
    """What a pass did with an author's call, or why it did nothing."""

    rule: str
    """The pass."""
    call: str
    """The function that the author called."""
    location: Location | None
    text: str
    applied: bool

    def __str__(self) -> str:
        return placed(self.location, f"{self.call}: {self.text}")

    def to_json(self) -> dict[str, Any]:
        """As `trtdsl inspect --passes` has it."""
        line = self.location.short if self.location else ""
        return {"pass": self.rule, "line": line, "call": self.call, "applied": self.applied, "text": self.text}


class Graph:
    """The nodes of a network in the order in which they were recorded."""

    def __init__(self, network: Draft):
        self.network = network
        self.nodes: list[Layer] = []
        self.whats: set[tuple[str, ...]] = set()  # the types and operations of all that was recorded
        self.regions: list[Region] = []
        self.outputs: dict[str, Operation] = {}
        """The calls that made the outputs, by name."""
        self.remarks: list[Remark] = []
        """What passes and calls did, and why they did not."""
        self._names: Counter[str] = Counter()
        self.recorded = 0
        """How many layers were recorded, those that passes took away included."""
        self.is_quantized = False
        self.emitted = 0
        """How many of the nodes are emitted."""
        self.at = -1
        """The number of the layer that is being emitted, or was the last."""
        self.adds: Callable[[Layer], None] | None = None
        """While the graph is emitted, what adds a layer at once."""
        self._needed: set[int] | None = None  # the nodes that the layers recorded so far need, by id

    def __repr__(self) -> str:
        lines = [f"Graph of {self.network.name}: {self.recorded} layers recorded, {self.emitted} emitted"]
        return "\n".join([*lines, *map(str, self.remarks)])

    def _repr_html_(self) -> str:
        rows = [(placed(each.location, each.call), each.rule, each.text) for each in self.remarks]
        return folded(repr(self).splitlines()[0], table(["line", "pass", "what"], rows))

    def take_name(self, name: str) -> str:
        """A name for the sizes of a result that only TensorRT knows; no other result's sizes have it."""
        self._names[name] += 1
        return name if self._names[name] == 1 else f"{name}_{self._names[name] - 1}"

    def record(self, node: Layer) -> None:
        """Takes a layer to come; while the graph is emitted, it is added at once."""
        if self.adds is not None:
            self.adds(node)
        else:
            node.serial = self.recorded
            self.recorded += 1
            self.nodes.append(node)
            self.whats.add(node.what)
            self._needed = None

    @property
    def is_emitting(self) -> bool:
        """Whether layers are added now."""
        return self.adds is not None

    def users(self, tensor: Tensor) -> list[Node]:
        """The layers and calls that need a Tensor, of those that were recorded."""
        needed = self._needed = self._needed or set(map(id, self.ordered()))
        return [] if tensor.node is None else [user for user in tensor.node.users if id(user) in needed]

    def is_used_once(self, tensor: Tensor) -> bool:
        """Whether one layer or call alone needs a Tensor, and no output is it."""
        return len(self.users(tensor)) <= 1 and not self.is_output(tensor)

    def is_output(self, tensor: Tensor) -> bool:
        """Whether the Tensor is an output of the network."""
        return any(tensor is each for each in self.network.outputs.values())

    def ordered(self) -> Iterator[Node]:
        """The layers that were recorded and the calls that they and outputs need, each behind its operands."""
        outputs = [tensor.node for tensor in self.network.outputs.values() if tensor.node is not None]
        found: set[int] = set()
        waiting = [(node, False) for node in (*outputs[::-1], *self.nodes[::-1])]
        while waiting:
            node, is_next = waiting.pop()
            if is_next:
                yield node
            elif id(node) not in found:
                found.add(id(node))
                waiting.append((node, True))
                waiting += [(x.node, False) for x in node.operands if x is not None and x.node is not None]

    def layers(self, *what: str) -> list[Layer]:
        """The layers to come of this type and operation: ``graph.layers("elementwise", "PROD")``."""
        return [node for node in self.nodes[self.emitted :] if node.what[: len(what)] == what and not node.emitted]

    def replace(self, layer: Layer, function: Callable[[], Tensor], *unused: Layer) -> None:
        """Has the result of a layer to come made by ``function``; ``unused`` are layers that it alone needed."""
        call = Later(layer.operation, layer.operands, function)
        call.results, call.users = layer.results, layer.users
        for result in call.results:
            result.node = call
        gone = {layer, *unused}
        for each in gone:
            each.emitted = True
        self.nodes[self.emitted :] = [each for each in self.nodes[self.emitted :] if each not in gone]
        self._needed = None

    def remark(self, rule: str, call: Operation, text: str, applied: bool = True) -> None:
        """Notes what a pass did with a call, or why it did nothing."""
        self.remarks.append(Remark(rule, call.name, call.location, text, applied))

    def take_back(self, regions: int) -> None:
        """Forgets the loops and conditionals after so many, which an error left unfinished, and all since recorded."""
        region = next(iter(self.regions[regions:]), None)
        if region is None or self.at >= region.start:
            return
        gone = {id(node) for node in self.nodes if node.serial >= region.start}
        self.nodes = [node for node in self.nodes if node.serial < region.start]
        self.regions = [each for each in self.regions if each.start < region.start]
        cache = self.network.cache
        for key in [key for key, kept in cache.items() if isinstance(kept, Tensor) and id(kept.node) in gone]:
            del cache[key]

    def add_output(self, name: str, call: Operation) -> None:
        """Takes note of a new output of the network, and of the call that made it."""
        self.outputs[name] = call
        self._needed = None

    def refuse(self, node: Node) -> None:
        """Forgets a layer that cannot be added, and all that needs it: in a notebook, the network goes on without."""
        for each in reached([node], lambda each: each.users):
            each.is_refused = True
        self.nodes[self.emitted :] = [each for each in self.nodes[self.emitted :] if not each.is_refused]
        outputs = self.network.outputs
        for name in [name for name, tensor in outputs.items() if tensor.node is not None and tensor.node.is_refused]:
            del outputs[name], self.outputs[name]
        self._needed = None


def made_by(x: Tensor | None, *what: str) -> Layer | None:
    """The layer to come that gives ``x``, where it is of this type and operation."""
    node = None if x is None else x.node
    return node if isinstance(node, Layer) and node.what[: len(what)] == what else None
