"""The graph of a network: what the author's calls need is recorded, and added to TensorRT's network when it is whole.

A :class:`Layer` is one layer to come; a :class:`Call` is what may become layers in several ways, by what uses it. Calls
are lowered, and layers added, when the graph is emitted: at the end of a spec's function, or where somebody asks for
TensorRT's own objects. What was emitted is never changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..core.backend import Messages
from ..core.errors import DefinitionError, Location, placed
from ..core.html import folded, table
from ..core.lazy import passes, torch
from ..core.tensors.layer_target import LayerTarget
from ..core.tensors.memory import contiguous, flat
from ..sizes.shape import Shape, shape_text
from .call import author_location
from .tensor import Draft, Node, Operation, Tensor


@dataclass(eq=False, slots=True)
class Layer(Node):
    """A layer to come: ``add(target, *itensors)`` adds it."""

    add: Callable[..., Any]
    weights: Sequence[Tensor]
    """Constants that count for its name."""
    label: str
    finish: Callable[[Any, str], None] | None = None
    """Is given TensorRT's layer and its name."""
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
    made_of: tuple[str, ...] = field(default=(), init=False)
    """Weights that its own are made from besides, by name: its name says nothing of them."""
    emitted: bool = field(default=False, init=False)
    serial: int = field(default=0, init=False)

    def done(self) -> None:
        """Lets go of what was needed to add it: its results need nothing before them any more."""
        for result in self.results:
            result.order = result.order
        self.operands, self.weights = (), ()
        self.users.clear()

    @property
    def used(self) -> list[Tensor]:
        """Operands and weights."""
        return [tensor for tensor in (*self.operands, *self.weights) if tensor is not None]


class Call(Node):
    """What becomes layers where it is first needed: :meth:`lower` gives its result, of layers or of another call."""

    rule = ""
    """What its remarks are about."""
    __slots__ = ("fold_limit", "made", "precision")

    def __init__(self, operation: Operation, operands: Sequence[Tensor | None]):
        super().__init__(operation, operands)
        self.precision, self.fold_limit = operation.precision, operation.network.fold_limit
        self.made: Tensor | None = None

    def lower(self) -> Tensor:
        """The result."""
        raise NotImplementedError

    @property
    def is_layer(self) -> bool:
        """Whether its result is there already, or a layer that was recorded needs it as it is."""
        is_there = any(result.handle is not None for result in self.results)
        return is_there or any(isinstance(user, Layer) for user in self.users)

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
            operation, network = self.operation, self.operation.network
            before = operation.precision, network.fold_limit
            operation.precision, network.fold_limit = self.precision, self.fold_limit
            try:
                with operation:
                    self.made = self.lower()
            finally:
                operation.precision, network.fold_limit = before
        return self.made

    def tensor(self, shape: Shape, dtype: Any, name: str, scope: str = "") -> Tensor:
        """The result as a Tensor."""
        scope = self.operation.scope or scope
        result = Tensor(self.operation.network, shape, dtype, name=name, scope=scope, node=self)
        result.partial = not self.is_product and any(x.partial for x in self.operands if x is not None)
        self.results.append(result)
        return result


class Later(Call):
    """A call of which ``function`` makes the layers when the network is whole.

    Its result lies in memory in the order of its dimensions.
    """

    __slots__ = ("function",)

    def __init__(self, operation: Operation, operands: Sequence[Tensor | None], function: Callable[[], Tensor]):
        super().__init__(operation, operands)
        self.function = function

    def expected_order(self) -> tuple[int, ...]:
        """The order of its dimensions."""
        return tuple(range(self.results[0].ndim))

    def lower(self) -> Tensor:
        """What the function gives."""
        return self.function()


class Region:
    """A loop or a conditional: TensorRT's object for it, made with its first layer, and the nodes that it spans."""

    def __init__(self, network: Draft, method: str, name: str = ""):
        self.network, self.method, self.name = network, method, name
        self.start = self.end = network.graph.recorded
        self.copies: dict[str, Any] = {}
        """Of other regions' results, by their names."""
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
    """The nodes of a network in the order in which they were recorded, and what was emitted of them."""

    def __init__(self, network: Draft):
        self.network = network
        self.nodes: list[Layer] = []
        self.regions: list[Region] = []
        self.outputs: dict[str, Operation] = {}
        """The calls that made the outputs, by name."""
        self.remarks: list[Remark] = []
        """What passes and calls did, and why they did not."""
        self._names: Counter[str] = Counter()
        self.recorded = 0
        """How many layers were recorded, those that passes took away included."""
        self.is_emitting = self.is_quantized = False
        self._places: dict[Location, str] = {}  # as metadata has them
        self._at = -1  # the number of the layer that is emitted
        self._marked: set[str] = set()
        self._done = 0  # so many of the nodes are emitted
        self._needed: set[int] | None = None  # the nodes that the layers recorded so far need, by id
        self._ends: dict[str, int] = {}  # results of loops and branches by name, with the number of their layer

    def __repr__(self) -> str:
        lines = [f"Graph of {self.network.name}: {self.recorded} layers recorded, {self._done} emitted"]
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
        if self.is_emitting:
            self._emit(node)
        else:
            node.serial = self.recorded
            self.recorded += 1
            self.nodes.append(node)
            self._needed = None

    def users(self, tensor: Tensor) -> list[Node]:
        """The layers and calls that need a Tensor, of those that were recorded."""
        needed = self._reached()
        return [] if tensor.node is None else [user for user in tensor.node.users if id(user) in needed]

    def is_used_once(self, tensor: Tensor) -> bool:
        """Whether one layer or call alone needs a Tensor, and no output is it."""
        return len(self.users(tensor)) <= 1 and not any(tensor is each for each in self.network.outputs.values())

    def _reached(self) -> set[int]:
        if self._needed is None:
            waiting: list[Node] = [*self.nodes]
            waiting += [tensor.node for tensor in self.network.outputs.values() if tensor.node is not None]
            found = set(map(id, waiting))
            while waiting:
                for tensor in waiting.pop().operands:
                    if tensor is not None and tensor.node is not None and id(tensor.node) not in found:
                        found.add(id(tensor.node))
                        waiting.append(tensor.node)
            self._needed = found
        return self._needed

    def layers(self, *what: str) -> list[Layer]:
        """The layers to come of this type and operation: ``graph.layers("elementwise", "PROD")``."""
        return [node for node in self.nodes[self._done :] if node.what[: len(what)] == what and not node.emitted]

    def replace(self, layer: Layer, function: Callable[[], Tensor], *unused: Layer) -> None:
        """Has the result of a layer to come made by ``function``; ``unused`` are layers that it alone needed."""
        call = Later(layer.operation, layer.operands, function)
        call.results, call.users = layer.results, layer.users
        for result in call.results:
            result.node = call
        for each in (layer, *unused):
            each.emitted = True
        gone = {id(each) for each in (layer, *unused)}
        self.nodes[self._done :] = [each for each in self.nodes[self._done :] if id(each) not in gone]
        self._needed = None

    def remark(self, rule: str, call: Operation, text: str, applied: bool = True) -> None:
        """Notes what a pass did with a call, or why it did nothing."""
        self.remarks.append(Remark(rule, call.name, call.location, text, applied))

    def take_back(self, regions: int) -> None:
        """Forgets the loops and conditionals after so many, which an error left unfinished, and all since recorded."""
        region = next(iter(self.regions[regions:]), None)
        if region is None or self._at >= region.start:
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

    def emit(self, *needed: Tensor) -> None:
        """Adds the layers that are not added yet in their order, and what these Tensors need besides."""
        if not needed and self._done == len(self.nodes) and self._marked >= self.outputs.keys():
            return  # as when TensorRT's network is asked for once more
        if self.is_emitting:
            for tensor in needed:
                self.handle(tensor)
            return
        if self._done < len(self.nodes):
            for each in passes.PASSES:
                each(self)
        lost = self._lost_outputs()
        self.is_emitting = True
        try:
            while self._done < len(self.nodes):
                node = self.nodes[self._done]
                self._at = node.serial
                try:
                    self._emit(node)
                except BaseException:
                    self._refuse(node)
                    raise
                self._done += 1
                node.done()
            for tensor in needed:
                self.handle(tensor)
            for name, operation in self.outputs.items():
                if name not in self._marked:
                    with operation:
                        self.make_output(name, self.handle(self.network.outputs[name]), name in lost)
                    self._marked.add(name)
            for operation in self.network.calls.values():
                operation.forget()
        finally:
            self.is_emitting = False

    def _lost_outputs(self) -> set[str]:
        """Outputs that TensorRT may leave unwritten: two others of the same shape are computed from it, and one
        of the three is used on.

        A kernel of TensorRT-RTX 1.7 that writes two outputs, and one of them in another layout for what uses it, does
        not write the third, from which it computes them. It writes a copy (``docs/traps/builder-outputs.md``).
        """
        found, outputs = set[str](), self.network.outputs
        for name, tensor in outputs.items() if len(outputs) > 2 else ():
            reached, waiting = dict[int, Tensor](), [tensor]
            while waiting:
                results = [result for user in self.users(waiting.pop()) for result in user.results]
                waiting += [each for each in results if each.shape == tensor.shape and id(each) not in reached]
                reached |= {id(each): each for each in waiting}
            later = [each for each in outputs.values() if id(each) in reached]
            users = [user for each in (tensor, *reached.values()) for user in self.users(each)]
            others = any(result.shape != tensor.shape for user in users for result in user.results)
            if len(later) > 1 and (others or any(self.users(each) for each in later)):
                found.add(name)
        return found

    def _refuse(self, node: Node) -> None:
        """Forgets a layer that cannot be added, and all that needs it: in a notebook, the network goes on without."""
        waiting: list[Node] = [node]
        while waiting:
            each = waiting.pop()
            if not each.is_refused:
                each.is_refused = True
                waiting += each.users
        self.nodes[self._done :] = [each for each in self.nodes[self._done :] if not each.is_refused]
        outputs = self.network.outputs
        for name in [name for name, tensor in outputs.items() if tensor.node is not None and tensor.node.is_refused]:
            del outputs[name], self.outputs[name]
        self._needed = None

    def handle(self, tensor: Tensor) -> Any:
        """The ITensor of a Tensor, while the graph is emitted."""
        if tensor.handle is None:
            node = tensor.node
            if node is not None and node.is_refused:
                raise DefinitionError(f"{tensor} is the result of a call that was refused before")
            if isinstance(node, Call):
                made = node.resolved()
                tensor.handle, tensor.name, tensor.scope = self.handle(made), made.name, made.scope
            elif isinstance(node, Layer):
                self._emit(node)
            else:
                tensor.handle = self.materialize(tensor)
        return tensor.handle

    def _emit(self, node: Layer) -> None:
        if node.emitted:
            return
        network, operation = self.network, node.operation
        with operation:
            handles = [None if tensor is None else self.handle(tensor) for tensor in node.operands]
            if self._ends and not node.takes:
                handles = [self._apart(handle) for handle in handles]
            if node.completes:
                node.add(network.target, *handles)
                node.emitted = True
                return
            layer, outputs = add_to(network.target, node.add, handles)
            name, scope = self.name_layer(layer, node.label, node.used)
            if network.target.numbers:
                network.numbers[name], network.target.numbers = network.target.numbers, {}
            node.emitted = True
            if node.asks:
                node.results = [Tensor(network, dims, dtype, node=node) for _, dims, dtype in outputs]
            for index, (result, output) in enumerate(zip(node.results, outputs, strict=True)):
                result.scope = scope  # an operand that was not lowered when this was recorded had none
                self._give(result, name if index == 0 else network.take_name(f"{name}.{index}"), output)
            self._credit(node)
            if node.ends:
                self._ends[name] = self._at
            if node.finish is not None:
                node.finish(layer, name)

    def made_of(self, tensor: Tensor, weight_names: tuple[str, ...]) -> None:
        """Notes that a layer's weights are made from these, too."""
        node = tensor.node
        if isinstance(node, Layer):
            node.made_of += weight_names
            if node.emitted:
                self._credit(node)

    def _credit(self, node: Layer) -> None:
        if node.made_of:
            names, name = self.network.weight_names, node.results[0].name
            names[name] = names.get(name, ()) + node.made_of

    def _give(self, result: Tensor, name: str, output: Output) -> None:
        """The Tensor its ITensor, whose shape and dtype must be those that were inferred."""
        handle, dims, dtype = output
        handle.name = result.name = name
        ours, result.handle = result.shape, handle
        if dims != ours:
            if len(dims) != len(ours) or any(
                size >= 0 and type(mine) is int and size != mine for size, mine in zip(dims, ours, strict=True)
            ):
                raise AssertionError(f"trtdsl inferred {shape_text(ours)}, TensorRT {dims}")
            self.network.shapes[name] = ours
        if dtype != result.dtype:
            raise AssertionError(f"trtdsl inferred {result.dtype}, TensorRT {dtype}")

    def name_layer(self, layer: Any, operation: str, operands: Sequence[Tensor]) -> tuple[str, str]:
        """Gives a layer its place and a unique name, by the module whose weights it uses; its users' scope, too."""
        prefix, scope, weight_names = self.network.place_layer(operation, operands)
        return self._named(layer, f"{prefix}.{operation}" if prefix else operation, weight_names), scope

    def _named(self, layer: Any, wanted: str, weight_names: tuple[str, ...] = ()) -> str:
        layer.name = name = self.network.take_name(wanted)
        self.locate(layer, name)
        if weight_names:
            self.network.weight_names[name] = weight_names
        return name

    def locate(self, layer: Any, name: str) -> None:
        """Remembers the author's place for a layer; its metadata says it, too, and the layer's scope.

        TensorRT puts together the metadata of what it fuses, each text once.
        """
        operation = self.network.current_operation
        if operation is None:
            location = author_location()
        else:
            location = operation.location
            self.network.calls[name] = operation
        if location is not None:
            self.network.locations[name] = location
            place = self._places.get(location)
            if place is None:
                place = self._places[location] = location.short
            scope = name.rpartition(".")[0]
            layer.metadata = f"{place} in {scope}" if scope else place

    def materialize(self, tensor: Tensor) -> Any:
        """The ITensor of a constant: the layer is added the first time that it is needed."""
        data = tensor.data
        if tensor.weight_names or data.numel() > 16:
            return self._constant_layer(data, tensor.weight_names)
        value = bytes(flat(contiguous(data)).view(torch.uint8).tolist())  # by its bytes, since 0.0 == -0.0
        return self.network.shared(("constant", data.dtype, data.shape, value), lambda: self._constant_layer(data, ()))

    def _constant_layer(self, data: torch.Tensor, weight_names: tuple[str, ...]) -> Any:
        layer = self.network.target.definition.add_constant(tuple(data.shape), self.network.target.buffer(data))
        name = "*".join(weight_names) if len(weight_names) in (1, 2) else "constant"
        handle = layer.get_output(0)
        handle.name = self._named(layer, name, weight_names)
        return handle

    def _rename_inner(self, name: str) -> None:
        """Gives the tensor that has the name of its layer another one: an output's name is the author's to choose."""
        definition = self.network.target.definition
        for layer in map(definition.get_layer, range(definition.num_layers)):
            for handle in map(layer.get_output, range(layer.num_outputs)):
                if handle.name == name:
                    handle.name = self.network.take_name(name)

    def make_output(self, name: str, handle: Any, is_copied: bool) -> None:
        """Makes an ITensor an output of TensorRT's network; a copy of it where TensorRT would not take it as one."""
        definition, tensor = self.network.target.definition, self.network.outputs[name]
        if is_copied or tensor.is_constant or handle.is_network_input or handle.is_network_output:
            layer = definition.add_identity(handle)  # TensorRT marks neither inputs nor a tensor twice
            self._named(layer, f"{name}.identity")
            handle = layer.get_output(0)
            self.network.outputs[name] = tensor = Tensor(
                self.network, tensor.shape, tensor.dtype, handle=handle, name=name
            )
        if handle.name != name:
            if name in self.network._names:
                self._rename_inner(name)
            else:
                tensor.name = self.network.take_name(name)
            handle.name = name
        definition.mark_output(handle)

    def _apart(self, handle: Any) -> Any:
        """What a layer inside a region takes for the result of another region before it: a copy.

        TensorRT-RTX 1.7 builds no loop or branch that uses another one's result as it is ("No nesting relationship").
        """
        if handle is None or handle.name not in self._ends:
            return handle
        ended = self._ends[handle.name]
        for region in self.regions:
            if region.start <= self._at < region.end and ended < region.start:
                if handle.name not in region.copies:
                    copy = self.network.target.definition.add_identity(handle)
                    self.name_layer(copy, "loop.outside", [])
                    region.copies[handle.name] = copy.get_output(0)
                return region.copies[handle.name]
        return handle


Output = tuple[Any, tuple[int, ...], Any]


def add_to(target: LayerTarget, add: Callable[..., Any], handles: Sequence[Any]) -> tuple[Any, list[Output]]:
    """The layer and its outputs; TensorRT reports a bad layer only when its shape is asked for."""
    backend = target.network.backend
    found: list[Output] = []
    messages, listening = Messages(), backend.listening
    listening.append(messages)  # what `with backend.listen()` does would take longer than some layers
    try:
        try:
            layer = add(target, *handles)
        except AttributeError as error:
            raise backend.lacking(error) from None
        try:
            if layer is not None:
                for handle in map(layer.get_output, range(layer.num_outputs)):
                    found.append((handle, handle.shape[:], backend.torch_dtype(handle.dtype)))
        except (RuntimeError, ValueError):
            layer = None
    finally:
        listening.pop()
    if layer is None or (messages and messages.errors()):
        raise DefinitionError(f"TensorRT refuses the layer: {messages.summary()}")
    return layer, found
