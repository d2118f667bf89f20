"""What the page shows, as one JSON object: boxes, tensors, edges, lines of code, totals."""

from __future__ import annotations

import linecache
from collections.abc import Mapping
from typing import Any

from ...core.dtypes import dtype_name
from ...core.errors import Location
from ...definition.network import Network
from ...layers.region import category_of
from ...programs.launches import Place
from .layers import Facts, Layer, shown_attributes
from .programs import called
from .tidy import Item
from .tree import Tree

WEIGHT = [
    "convolution", "product", "attention", "sampling", "reduction", "normalization", "activation", "pointwise",
    "control", "rearranging", "constant",
]  # fmt: skip
"""Which category names a call of several layers: the first that one of them has."""
AROUND = 4  # lines of code shown before and after the author's


def make_model(network: Network) -> dict[str, Any]:
    """Everything about a network that the page shows."""
    facts = Facts(network)
    return _Model(network, facts, Tree(network, facts)).to_json()


class _Model:
    """The tree as flat lists that refer to each other by index."""

    def __init__(self, network: Network, facts: Facts, tree: Tree):
        self.network, self.facts, self.tree = network, facts, tree
        self.tensors = {name: index for index, name in enumerate(facts.values)}
        self.lines: dict[str, dict[str, Any]] = {}

    def to_json(self) -> dict[str, Any]:
        items: list[dict[str, Any]] = []
        waiting = [self.tree.root]
        while waiting:
            item = waiting.pop()
            items.append(self._item(item))
            waiting.extend(reversed(item.children))
        for item in reversed(items):  # children come after their parents
            if item["parent"] >= 0:
                _add_up(items[item["parent"]], item)
        network = self.network
        ranges = {name: dim.range for name, dim in network.dims.items()}
        edges = [
            [edge.source.number, edge.target.number, self.tensors[edge.tensor], edge.kind] for edge in self.tree.edges
        ]
        return {
            "name": network.name,
            "backend": f"{network.backend.name} {network.backend.version}",
            "precision": None if network.precision is None else dtype_name(network.precision),
            "dims": [
                {"name": name, "range": bounds, "size": (self.facts.dims or {}).get(name)}
                for name, bounds in ranges.items()
            ],
            "items": items,
            "layers": [self._layer(layer) for layer in self.facts.layers],
            "tensors": [
                {"name": value.name, "dtype": value.dtype, "shape": value.shape, "sizes": value.sizes}
                for value in self.facts.values.values()
            ],
            "edges": edges,
            "lines": self.lines,
        }

    def _item(self, item: Item) -> dict[str, Any]:
        made: dict[str, Any] = {
            "kind": item.kind,
            "label": item.label,
            "parent": item.parent.number if item.parent is not None else -1,
        }
        if item.scope:
            made["scope"] = item.scope
        if item.note:
            made["note"] = item.note
        if item.kind in ("input", "output"):
            tensors = self.network.inputs if item.kind == "input" else self.network.outputs
            made["tensor"] = self.tensors[tensors[item.label].trt.name]
        if item.layers:
            made |= self._cost(item)
        return made

    def _cost(self, item: Item) -> dict[str, Any]:
        layers = item.layers
        shown = [layer for layer in layers if not layer.is_constant] or layers
        kinds = {category_of(layer.node.type) for layer in shown if not layer.is_size}
        made: dict[str, Any] = {"category": next((kind for kind in WEIGHT if kind in kinds), "other")}
        if all(layer.is_size or layer.is_constant for layer in layers) or all(_is_count(layer) for layer in layers):
            made["aside"] = True
        if not item.children:
            times = {layer.times for layer in shown}
            made |= {
                "layers": [layer.index for layer in layers],
                "parameters": sum(layer.parameters for layer in layers),
                "flops": _sum(layer.flops for layer in layers),
                "bytes": _sum(layer.bytes for layer in layers),
            }
            if times != {1}:
                made["times"] = max(times, key=lambda number: number or 0)
        places = [self.network.layers[layer.node.name].location for layer in shown]
        place = next((place for place in reversed(places) if place is not None), None)
        if place is not None:
            made["line"] = self._line(place)
        calls = {call for layer in shown if (call := self.network.layers[layer.node.name].call) is not None}
        made["calls"] = sorted(
            called(Place(at.short, each.name, each.caller.short if each.caller else ""))
            for each in calls
            if (at := each.location) is not None
        )
        weights = dict.fromkeys(name for layer in layers for name in self.network.layers[layer.node.name].weights)
        if weights:
            made["weights"] = list(weights)
        return made

    def _line(self, place: Location) -> str:
        key = place.short
        if key not in self.lines:
            text = linecache.getlines(place.file)
            first = max(place.line - AROUND, 1)
            code = [line.rstrip("\r\n") for line in text[first - 1 : place.line + AROUND]]
            self.lines[key] = {"line": place.line, "first": first, "code": code}
        return key

    def _layer(self, layer: Layer) -> dict[str, Any]:
        node = layer.node
        made: dict[str, Any] = {
            "name": node.name,
            "type": node.type,
            "inputs": [-1 if t is None else self.tensors.get(t.name, -1) for t in node.inputs],
            "outputs": [self.tensors[name] for name in node.makes],
        }
        attributes = {} if layer.is_constant else shown_attributes(node)
        if attributes:
            made["attributes"] = attributes
        if layer.parameters:
            made["parameters"] = layer.parameters
        return made


def _is_count(layer: Layer) -> bool:
    return layer.is_constant or (layer.node.type == "TRIP_LIMIT" and layer.node.layer.kind.name == "COUNT")


def _sum(values: Any) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _add_up(outer: dict[str, Any], inner: Mapping[str, Any]) -> None:
    for name in ("parameters", "flops", "bytes"):
        if inner.get(name) is not None:
            outer[name] = (outer.get(name) or 0) + inner[name]
    outer["count"] = outer.get("count", 0) + inner.get("count", len(inner.get("layers", ())))
