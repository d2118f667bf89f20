"""A network as a tree: modules, loops and conditionals, in them the author's calls, in these the layers."""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterator, Mapping, Sequence

from ...core.errors import Location
from ...definition.network import Network
from ...definition.operation import Operation
from ...definition.tensor import CONTROL_FLOW, common_parent, reached
from ...layers.region import REGIONS, Region
from ..folding import modules_of
from .layers import Facts, Layer
from .tidy import Edge, Item, tidy


class Tree:
    """The boxes of a network and the tensors between them."""

    def __init__(self, network: Network, facts: Facts):
        self.network, self.facts = network, facts
        self.root = Item("network", network.name)
        self.of_layer: dict[int, Item] = {}
        self.inputs = {name: self.root.add(Item("input", name)) for name in network.inputs}
        self.places: dict[tuple[int, str], Item] = {}
        self.homes: dict[int, Item] = {}
        self.scopes: dict[int, str] = {id(self.root): ""}
        self.looping: dict[int, tuple[Item, Item]] = {}
        """By the author's call that makes loops or branches itself, its box and the box in which that stands."""
        self.part_of: dict[Item, Item] = {}
        """By the box of such a loop or branch, the call's."""
        for region in facts.regions:
            self._open(region, self.root)
        for call in self._calls():
            self._put(call)
        self.outputs = {name: self.root.add(Item("output", name)) for name in network.outputs}
        self._open_calls()
        self.edges = list(self._edges())
        tidy(self.root, network, [(edge.source, edge.target) for edge in self.edges if edge.kind != "back"])

    # -- placing -------------------------------------------------------------------------------------------------------

    def _open(self, region: Region, outer: Item) -> None:
        """A box for a loop or a conditional, and the box in which each of its layers stands."""
        first = region.boundary[0]
        call = self.network.layers[first.name].call
        named = region.kind.owner(first).name
        if call is not None and _makes_regions(call):
            own, _ = self.looping.setdefault(id(call), (Item("call", call.name), outer))
            home = outer if self.part_of.get(outer) is own else own
            name = region.kind.name if named.startswith("(Unnamed") else named
        else:
            own = None
            shared = common_parent([_scope_of(self.network, node.name, call) for node in region.boundary])
            home = self._module(outer, shared)
            name = call.name.partition(".")[0] if call is not None else region.kind.name
        note = self._turns(region) if region.kind.name == "loop" else ""
        box = home.add(Item(region.kind.name, name, scope=home.scope, note=note))  # type: ignore[arg-type]
        self._claim(box, home.scope, own)
        for node in region.boundary:
            self.homes[id(node)] = box
        for node, branch in self._branches(region, box):
            self.homes[id(node)] = branch
            self._claim(branch, home.scope, own)
        for inner in region.regions:
            self._open(inner, self.homes.get(id(inner), box))

    def _claim(self, box: Item, scope: str, call: Item | None) -> None:
        """Notes the module of a region's box, and the call that it is part of."""
        self.scopes[id(box)] = scope
        if call is not None:
            self.part_of[box] = call

    def _turns(self, region: Region) -> str:
        """How often a loop runs, for people."""
        text, number = self.facts.trips(region)
        if text in WITHOUT_COUNT:
            return WITHOUT_COUNT[text]
        return f"× {text}" if number is None or str(number) == text else f"× {text} = {number}"

    def _branches(self, region: Region, box: Item) -> Iterator[tuple[object, Item]]:
        """The layers and regions directly in a region, each with its box: a branch's own where one branch has it."""
        if region.kind.name == "loop":
            yield from ((part, box) for part in (*region.nodes, *region.regions))
            return
        makers = {name: part for part in (*region.nodes, *region.regions) for name in part.makes}
        found: list[set[int]] = []
        for place in (0, 1):
            results = [node.inputs[place].name for node in region.of("CONDITIONAL_OUTPUT")]
            names = reached(results, lambda name: makers[name].needs if name in makers else ())
            found.append({id(makers[name]) for name in names if name in makers})
        branches = [Item("branch", label, scope=box.scope) for label in ("then", "else")]
        for branch, inside in zip(branches, found, strict=True):
            if inside:
                box.add(branch)
        for part in (*region.nodes, *region.regions):
            sides = [branch for branch, inside in zip(branches, found, strict=True) if id(part) in inside]
            yield part, sides[0] if len(sides) == 1 else box

    def _calls(self) -> list[Item]:
        """The author's calls in the order of the definition, each with its layers that stand in one place."""
        groups: dict[tuple[object, ...], list[Layer]] = {}
        indices = _indices(self.network)
        nodes = [layer.node for layer in self.facts.layers]
        modules = {node.name: module for node, module in zip(nodes, modules_of(self.network, nodes), strict=True)}
        for layer in self.facts.layers:
            node = layer.node
            call = self.network.layers[node.name].call
            home = id(self.homes.get(id(node), self.root))
            if id(call) in self.looping:
                key = ("call", id(call))
            elif call is None or node.type in REGIONS:
                key = ("layer", layer.index)
            else:
                key = ("call", id(call), home)
            groups.setdefault(key, []).append(layer)
        found = []
        for layers in groups.values():
            main = _main(self.network, layers)
            call = self.network.layers[main.node.name].call
            if id(call) in self.looping:
                item, _ = self.looping[id(call)]
                item.scope, item.layers = modules[layers[0].node.name], layers
            elif main.node.type in REGIONS:
                item = Item("call", _layer_label(main), _scope_of(self.network, main.node.name, call), layers=layers)
            else:
                # A product with folded weights has no module; the constants that remain, such as its bias, do.
                scope = next(filter(None, (modules[layer.node.name] for layer in (main, *layers))), "")
                item = Item("call", _called(main, call, indices), scope, layers=layers)
            found.append(item)
        return found

    def _put(self, call: Item) -> None:
        main = _main(self.network, call.layers)
        around = dict(self.looping.values()).get(call)
        home = around or self.homes.get(id(main.node), self.root)
        boundary = around is None and main.node.type in REGIONS
        (home if boundary else self._module(home, call.scope)).add(call)
        for layer in call.layers:
            self.of_layer[layer.index] = call

    def _module(self, home: Item, scope: str) -> Item:
        """The box of a module in a region or in the network, made where there is none."""
        own = self.scopes.get(id(home), "")
        parts, shared = scope.split(".") if scope else [], common_parent([own, scope])
        known = len(shared.split(".")) if shared else 0
        box = home
        for count in range(known, len(parts)):
            name = ".".join(parts[: count + 1])
            key = (id(home), name)
            if key not in self.places:
                self.places[key] = box.add(Item("module", parts[count], scope=name))
            box = self.places[key]
        return box

    def _open_calls(self) -> None:
        """Calls of several layers get a box for each; constants and sizes stand in the box of what reads them."""
        for call in dict.fromkeys(self.of_layer.values()):
            shown = [layer for layer in call.layers if not layer.is_constant and not layer.is_size]
            if len(shown) < 2:
                continue
            boxes = {}
            for layer in shown:
                home = self.homes.get(id(layer.node), call)
                home = home if self.part_of.get(home) is call else call
                boxes[layer.index] = home.add(Item("layer", _layer_label(layer), call.scope, "", [layer]))
            for layer in reversed(call.layers):
                if layer.index not in boxes:
                    readers = [index for name in layer.node.makes for index in self.facts.values[name].readers]
                    owner = next((boxes[index] for index in readers if index in boxes), boxes[shown[0].index])
                    owner.layers.insert(0, layer)
                    boxes[layer.index] = owner
            self.of_layer.update(boxes)

    # -- edges ---------------------------------------------------------------------------------------------------------

    def _edges(self) -> Iterator[Edge]:
        for layer in self.facts.layers:
            target = self.of_layer[layer.index]
            for place, tensor in enumerate(layer.node.inputs):
                value = None if tensor is None else self.facts.values.get(tensor.name)
                if value is None:
                    continue
                maker = self.facts.layers[value.maker] if value.maker >= 0 else None
                source = self.of_layer[value.maker] if maker else self.inputs[value.name]
                if maker is not None and maker.is_constant and any(not x.is_constant for x in source.layers):
                    continue  # a constant that stands in a box of its first reader
                if source is target:
                    continue
                back = layer.node.type == "RECURRENCE" and place == 1
                counted = layer.node.type == "TRIP_LIMIT" and layer.node.layer.kind.name == "COUNT"
                size = layer.is_size or counted or (maker is not None and maker.is_size)
                yield Edge(source, target, value.name, "back" if back else "size" if size else "value")
        for name, item in self.outputs.items():
            handle = self.network.outputs[name].trt.name
            maker = self.facts.values[handle].maker
            yield Edge(self.of_layer[maker] if maker >= 0 else self.inputs[handle], item, handle)


LONGEST = 28  # characters of an index
WITHOUT_COUNT = {"while": "while a condition holds", "?": "a computed number of times"}


def _makes_regions(call: Operation) -> bool:
    """Whether the loops and branches of a call are its own: the author wrote none."""
    return call.name.partition(".")[0] not in (*CONTROL_FLOW, "loop", "conditional")


def _main(network: Network, layers: Sequence[Layer]) -> Layer:
    """The layer that a call is named after: that with the weights of the innermost module, or the last one."""
    shown = [layer for layer in layers if not layer.is_constant] or list(layers)
    depth = {
        layer.index: max(weight.count(".") for weight in weights)
        for layer in shown
        if (weights := network.layers[layer.node.name].weights) and not layer.is_constant
    }
    return max(shown, key=lambda layer: depth.get(layer.index, -1)) if depth else shown[-1]


def _scope_of(network: Network, name: str, call: object) -> str:
    """The module that a layer stands in, from its name and the call's; a constant is named after a weight."""
    operation = getattr(call, "name", None)
    if operation is None:
        return name.rpartition(".")[0]
    found = re.fullmatch(rf"(?:(.*)\.)?{re.escape(operation)}(?:_\d+)*", name, re.DOTALL)
    return found[1] or "" if found else getattr(call, "scope", "")


OPERATORS = {"SUM": "add", "PROD": "mul"}
"""torch's names of TensorRT's elementwise operations, where they differ."""


def _called(main: Layer, call: Operation | None, indices: Mapping[int, str]) -> str:
    """What the author wrote: a call by its name, an index as ``x[:, 0]``, an elementwise layer by its operation."""
    if call is None:
        return main.node.type.lower()
    if call.name == "elementwise":
        return _layer_label(main)
    return indices.get(id(call)) or str(call.name)


def _indices(network: Network) -> dict[int, str]:
    """The calls that are an index, as they are written: those of a line are in the order in which they stand there."""
    by_line: dict[Location, list[int]] = {}
    for call in dict.fromkeys(facts.call for facts in network.layers.values()):
        if call is not None and call.name == "getitem" and call.location is not None:
            by_line.setdefault(call.location, []).append(id(call))
    found: dict[int, str] = {}
    for place, calls in by_line.items():
        texts = _written_at(place)
        if texts and len(calls) % len(texts) == 0:
            found |= {call: texts[number % len(texts)] for number, call in enumerate(calls)}
    return found


def _written_at(place: Location) -> list[str]:
    """The indices of a line, besides those of sizes."""
    try:
        tree = ast.parse(linecache.getline(place.file, place.line).strip().removesuffix(":"))
    except (SyntaxError, ValueError):  # a part of a longer statement
        return []
    found = [each for each in ast.walk(tree) if isinstance(each, ast.Subscript)]
    found = [each for each in found if getattr(each.value, "attr", "") != "shape"]
    found.sort(key=lambda each: (each.end_col_offset or 0, each.col_offset))
    texts = [ast.unparse(each) for each in found]
    return [text if len(text) <= LONGEST else "[…]" for text in texts]


def _layer_label(layer: Layer) -> str:
    node = layer.node
    if node.type in REGIONS:
        return REGIONS[node.type].boundary[node.type]
    name: str = node.layer.op.name if node.type in ("ELEMENTWISE", "UNARY") else node.type
    return OPERATORS.get(name, name.lower().replace("_", " "))
