"""Images whose places along one dimension are channels: (N, C, T, V) as (N, V·C, T, 1), from an einsum on.

Channels last, both lie in memory alike. A map that mixes channels and places is a pointwise convolution of such an
image, and one that goes along the other dimension has a group for each place: the builder rearranges nothing between.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TypeGuard

from ...layers.base import add_layer
from ...layers.convolution import Geometry, convolution
from ...layers.shuffle import Shuffle
from ...layers.shuffle_steps import ShuffleSteps
from ..common import Call, Graph, L, Layer, Node, SizeLike, Tensor, is_static
from ..products.folding import Product, Scaled

KEPT = {"activation", "cast", "elementwise", "select", "unary"}
OPERATIONS = 328
"""The operations of a convolution that take as long as to move one element: those of the default device of floors."""


def as_channels(x: Tensor, place: int) -> Tensor:
    """``x`` with the places along dimension ``place`` as channels; ``x`` is a tensor that :func:`as_places` gave, or a
    copy is made."""
    while isinstance(x.node, Call) and not isinstance(x.node, Shuffle):
        x = x.node.resolved()
    n, channels, places, other = x.shape[0], x.shape[1], x.shape[place], x.shape[5 - place]
    if isinstance(x.node, Shuffle) and x.node.steps == _back(n, channels, places, other, place):
        return x.node.source
    return L.shuffle(x, (0, place, 1, 5 - place), (n, places * channels, other, 1))


def as_places(x: Tensor, place: int, places: int) -> Tensor:
    """The image of which ``x`` has the places along dimension ``place`` as channels."""
    n, channels, other, _ = x.shape
    return L.shuffle(x, *_back(n, int(channels) // places, places, other, place))


def _back(n: SizeLike, channels: SizeLike, places: SizeLike, other: SizeLike, place: int) -> ShuffleSteps:
    """From (N, V·C, T, 1) to an image."""
    return ShuffleSteps((0, 1, 2, 3), (n, places, channels, other), (0, 2, 3, 1) if place == 3 else (0, 2, 1, 3))


def constant_as_channels(x: Tensor, place: int, channels: int, places: int) -> Tensor:
    """As :func:`as_channels`, of a constant that is broadcast to an image of so many channels and places."""
    data = x.data
    if data.shape[1] != 1 or data.shape[place] != 1:
        sizes = [-1, channels, -1, -1]
        sizes[place] = places
        data = data.expand(sizes)
    data = data.permute(0, place, 1, 5 - place).flatten(1, 2).unsqueeze(3)
    return x.network.plain_constant(data.contiguous(), x.weight_names)


def keeps_places(node: Node) -> TypeGuard[Layer]:
    """Whether a node is a layer that does the same to all elements."""
    return isinstance(node, Layer) and not KEPT.isdisjoint(node.what[:1])


def goes_along(product: Product, place: int) -> bool:
    """Whether a convolution does the same at each place along dimension ``place``."""
    how, x, kernel = product.geometry, product.input, product.kernel
    if how is None or x.ndim != 4 or not is_static((x.shape[1], x.shape[place])):
        return False
    side = place - 2
    alone = kernel.shape[place] == how.stride[side] == 1 and not how.padding[side]
    even = x.dtype.itemsize == 4 or int(kernel.shape[1]) % 2 == 0
    return alone and even and product.made is None and not product.operation.narrow


def along(product: Product, place: int, kernel: Tensor, bias: Tensor | None) -> Tensor:
    """Such a convolution with a group for each place."""
    how, places, network = product.geometry, int(product.input.shape[place]), product.input.network
    assert how is not None
    side = 3 - place  # the other dimension
    data = kernel.data if place == 3 else kernel.data.transpose(2, 3)
    wide = network.plain_constant(data.repeat(places, 1, 1, 1), kernel.weight_names)
    shift = None if bias is None else network.plain_constant(bias.data.repeat(places), bias.weight_names)
    sides = ((each[side], usual) for each, usual in zip(how[:4], (1, 0, 0, 1), strict=True))
    grouped = Geometry(*sides, groups=how.groups * places)
    result = convolution(as_channels(product.input, place), wide, shift, **grouped._asdict())
    return as_places(result, place, places)


def followers(x: Tensor, place: int) -> Iterator[Product]:
    """The convolutions along the other dimension that ``x`` goes to, through what does the same to all elements."""
    waiting = [x]
    while waiting:
        for user in x.network.graph.users(waiting.pop()):
            if isinstance(user, Product) and goes_along(user, place):
                yield user
            elif isinstance(user, Scaled) or keeps_places(user):
                waiting += user.results


def places_in_channels(graph: Graph) -> None:
    """What follows an einsum that is one convolution of all channels and places, on what that convolution gives.

    Convolutions along the other dimension get a group for each place; where something else needs an image, it is
    what was computed in another view.
    """
    places: dict[int, int] = {}  # by a tensor that is such a view, the dimension of its places
    for node in list(graph.ordered()):
        if isinstance(node, Product):
            place = places.get(id(node.input))
            if place is None or not goes_along(node, place):
                continue
            node.add = functools.partial(along, node, place)
        elif isinstance(node, Scaled):
            place = places.get(id(node.x)) if node.channel == 1 else None
        else:
            place = node.place(places) if isinstance(node, Call) else _of_layer(graph, node, places)
        if place is not None:
            places[id(node.results[0])] = place


def _of_layer(graph: Graph, node: Node, places: dict[int, int]) -> int | None:
    if not places or not keeps_places(node):
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
