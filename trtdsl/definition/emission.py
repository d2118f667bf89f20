"""Emission: what a graph has is added to TensorRT's network, each layer once, and nothing that was added is changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from ..core.backend import Messages
from ..core.lazy import passes, torch
from ..core.tensors.layer_target import LayerTarget
from ..core.tensors.memory import contiguous, flat
from .common import DefinitionError, Location, UnsupportedError, shape_text
from .graph import Call, Graph, Layer
from .tensor import LayerFacts, Tensor, swapped


class Emission:
    """Adds the layers of a graph to TensorRT's network, by the order in which they were recorded."""

    def __init__(self, graph: Graph):
        self.graph, self.network = graph, graph.network
        self._places: dict[tuple[Location, str, Location | None], str] = {}  # as metadata has them
        self._marked: set[str] = set()  # outputs that are made
        self._ends: dict[str, int] = {}  # results of loops and branches by name, with the number of their layer
        self._copies: dict[tuple[int, str], Any] = {}  # of these, by the region that they are for

    def emit(self, *needed: Tensor) -> None:
        """Adds the layers that are not added yet in their order, and what these Tensors need besides."""
        graph, network = self.graph, self.network
        if not needed and graph.emitted == len(graph.nodes) and self._marked >= graph.outputs.keys():
            return  # as when TensorRT's network is asked for once more
        if graph.is_emitting:
            for tensor in needed:
                self.handle(tensor)
            return
        if graph.emitted < len(graph.nodes):
            for each in passes.PASSES:
                each(graph)
        lost = _lost_outputs(graph)
        with swapped(graph, adds=self._emit):
            while graph.emitted < len(graph.nodes):
                node = graph.nodes[graph.emitted]
                graph.at = node.serial
                try:
                    self._emit(node)
                except BaseException:
                    graph.refuse(node)
                    raise
                graph.emitted += 1
                node.forget()
            for tensor in needed:
                with network.operation("constant"):
                    self.handle(tensor)
            for name, operation in graph.outputs.items():
                if name not in self._marked:
                    with operation:
                        self._make_output(name, self.handle(network.outputs[name]), name in lost)
                    self._marked.add(name)
            for facts in network.layers.values():
                facts.call.forget()  # pyright: ignore[reportOptionalMemberAccess]

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
            prefix, scope, weights = network.place_layer(node.label, node.used)
            facts, numbers, network.target.numbers = node.facts, network.target.numbers, {}
            facts.weights, facts.numbers = weights + facts.weights, numbers | facts.numbers
            name = self._named(layer, f"{prefix}.{node.label}" if prefix else node.label, facts)
            node.emitted = True
            if node.asks:
                node.results = [Tensor(network, dims, dtype, node=node) for _, dims, dtype in outputs]
            for index, (result, output) in enumerate(zip(node.results, outputs, strict=True)):
                result.scope = scope  # an operand that was not lowered when this was recorded had none
                self._give(result, name if index == 0 else network.take_name(f"{name}.{index}"), output)
            facts.results = node.results
            if node.ends:
                self._ends[name] = self.graph.at
            if node.finish is not None:
                node.finish(layer, name, self._name)

    @staticmethod
    def _give(result: Tensor, name: str, output: Output) -> None:
        """The Tensor its ITensor, whose shape and dtype must be those that were inferred."""
        handle, dims, dtype = output
        handle.name = result.name = name
        ours, result.handle = result.shape, handle
        other = [size for size, mine in zip(dims, ours) if size >= 0 and type(mine) is int and size != mine]
        if other or len(dims) != len(ours) or dtype != result.dtype:
            raise AssertionError(f"trtdsl inferred {shape_text(ours)} {result.dtype}, TensorRT {dims} {dtype}")

    def _named(self, layer: Any, wanted: str, facts: LayerFacts | None = None) -> str:
        """Gives a layer a unique name."""
        name = self.network.take_name(wanted)
        self._name(layer, name, facts)
        return name

    def _name(self, layer: Any, name: str, facts: LayerFacts | None = None) -> None:
        """Gives a layer its name, and notes what is known of it; its metadata says the author's place, call and scope.

        Of a call in a helper function it names the place that calls the helper: ``net.py:3 cat from net.py:9 in up``.
        TensorRT puts together the metadata of what it fuses, each text once.
        """
        call, layer.name = self.network.current_operation, name
        assert call is not None
        self.network.layers[name] = facts or LayerFacts(call)
        if (location := call.location) is not None:
            key = location, call.name, call.caller
            place = self._places.get(key)
            if place is None:
                place = f"{location.short} {call.name}" + (f" from {call.caller.short}" if call.caller else "")
                self._places[key] = place
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
        if data.dtype == torch.uint8:
            raise UnsupportedError("TensorRT makes no constant of uint8: convert it first, as x.to(torch.int32)")
        layer = self.network.target.definition.add_constant(tuple(data.shape), self.network.target.buffer(data))
        name = "*".join(weight_names) if len(weight_names) in (1, 2) else "constant"
        handle = layer.get_output(0)
        handle.name = self._named(layer, name, LayerFacts(self.network.current_operation, weight_names))
        return handle

    def _rename_inner(self, name: str) -> None:
        """Gives the tensor that has the name of its layer another one: an output's name is the author's to choose."""
        definition = self.network.target.definition
        for layer in map(definition.get_layer, range(definition.num_layers)):
            for handle in map(layer.get_output, range(layer.num_outputs)):
                if handle.name == name:
                    handle.name = self.network.take_name(name)

    def _make_output(self, name: str, handle: Any, is_copied: bool) -> None:
        """Makes an ITensor an output of TensorRT's network; a copy of it where TensorRT would not take it as one."""
        definition, tensor = self.network.target.definition, self.network.outputs[name]
        if is_copied or tensor.is_constant or handle.is_network_input or handle.is_network_output:
            layer = definition.add_identity(handle)  # TensorRT marks neither inputs nor a tensor twice
            self._named(layer, f"{name}.identity")
            handle = layer.get_output(0)
            tensor = Tensor(self.network, tensor.shape, tensor.dtype, handle=handle, name=name)
            self.network.outputs[name] = tensor
        if handle.name != name:
            if name in self.network._names:
                self._rename_inner(name)
            else:
                tensor.name = self.network.take_name(name)
            handle.name = name
        definition.mark_output(handle)
        if name in self.network.channels_last:
            self.network.backend.lay_channels_last(handle)

    def _apart(self, handle: Any) -> Any:
        """What a layer inside a region takes for the result of another region before it: a copy.

        TensorRT-RTX 1.7 builds no loop or branch that uses another one's result as it is ("No nesting relationship").
        """
        if handle is None or handle.name not in self._ends:
            return handle
        ended = self._ends[handle.name]
        for region in self.graph.regions:
            if region.start <= self.graph.at < region.end and ended < region.start:
                key = id(region), handle.name
                if key not in self._copies:
                    copy = self.network.target.definition.add_identity(handle)
                    prefix = self.network.place_layer("", [])[0]
                    self._named(copy, f"{prefix}.loop.outside" if prefix else "loop.outside")
                    self._copies[key] = copy.get_output(0)
                return self._copies[key]
        return handle


def _lost_outputs(graph: Graph) -> set[str]:
    """Outputs that TensorRT may leave unwritten: two others of the same shape are computed from it, and one
    of the three is used on.

    A kernel of TensorRT-RTX 1.7 that writes two outputs, and one of them in another layout for what uses it, does
    not write the third, from which it computes them. It writes a copy (``docs/traps/builder-outputs.md``).
    """
    found, outputs = set[str](), graph.network.outputs
    for name, tensor in outputs.items() if len(outputs) > 2 else ():
        reached, waiting = dict[int, Tensor](), [tensor]
        while waiting:
            results = [result for user in graph.users(waiting.pop()) for result in user.results]
            waiting += [each for each in results if each.shape == tensor.shape and id(each) not in reached]
            reached |= {id(each): each for each in waiting}
        later = [each for each in outputs.values() if id(each) in reached]
        users = [user for each in (tensor, *reached.values()) for user in graph.users(each)]
        others = any(result.shape != tensor.shape for user in users for result in user.results)
        if len(later) > 1 and (others or any(graph.users(each) for each in later)):
            found.add(name)
    return found


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
        except TypeError as error:  # of the bindings, with all that they are given
            given = re.sub(r"<[^<>]* at 0x\w+>(, )?", "", str(error).rpartition("Invoked with: ")[2])
            raise DefinitionError(f"TensorRT takes no such arguments: {given or error}") from error
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
