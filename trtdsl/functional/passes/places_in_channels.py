"""Places as channels, from an einsum that mixes both on."""

from __future__ import annotations

import functools

from ...definition.graph import Call, Graph, Layer
from ...definition.tensor import Node, Tensor
from ...layers.base import add_layer
from ..products.folding import Product, Scaled
from ..products.places import along, as_channels, as_places, constant_as_channels, goes_along, keeps_places


def places_in_channels(graph: Graph) -> None:
    """What follows an einsum that is one convolution of all channels and places, on what that convolution gives.

    Convolutions along the other dimension get a group for each place; where something else needs an image, it is
    what was computed in another view.
    """
    places: dict[int, int] = {}  # by a tensor that is such a view, the dimension of its places
    for node in list(graph.ordered()):
        if isinstance(node, Product):
            place = _of_product(node, places.get(id(node.input)))
        elif isinstance(node, Scaled):
            place = places.get(id(node.x)) if node.channel == 1 else None
        else:
            place = node.place(places) if isinstance(node, Call) else _of_layer(graph, node, places)
        if place is not None:
            places[id(node.results[0])] = place


def _of_product(product: Product, place: int | None) -> int | None:
    if place is None or not goes_along(product, place):
        return None
    product.add = functools.partial(along, product, place)
    return place


def _of_layer(graph: Graph, node: Node, places: dict[int, int]) -> int | None:
    if not keeps_places(node):
        return None
    (result,), computed = node.results, [x for x in node.operands if x is not None and not x.is_constant]
    found = {places.get(id(x)) for x in computed}
    place = found.pop() if len(found) == 1 else None
    if place is not None and all(x.shape == result.shape for x in computed):
        graph.replace(node, functools.partial(_remade, node, place))
        return place
    return None


def _remade(layer: Layer, place: int) -> Tensor:
    """The result of a layer that does the same to all elements, made of what its operands are views of."""
    (result,) = layer.results
    channels, count = int(result.shape[1]), int(result.shape[place])

    def remade(x: Tensor) -> Tensor:
        return constant_as_channels(x, place, channels, count) if x.is_constant else as_channels(x, place)

    operands = [None if x is None else remade(x) for x in layer.operands]
    shape = result.shape[0], channels * count, result.shape[5 - place], 1
    made = add_layer(layer.add, *operands, shape=shape, dtype=result.dtype, order="kept", what=layer.what)
    return as_places(made, place, count)
