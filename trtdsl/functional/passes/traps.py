"""What TensorRT-RTX builds wrongly or not at all, written otherwise: casts in loops, signs in int8."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from ...layers.base import add_layer
from ...layers.shuffle import Shuffle
from ..common import Graph, L, Layer, Node, Tensor, torch


def casts_before_loops(graph: Graph) -> None:
    """A slice of which a loop needs nothing but its cast to half precision as a slice of what is cast as a whole.

    TensorRT-RTX 1.7 does not build such a loop along a float32 input (``docs/traps/builder-loops.md``); along another
    value, less is written and read.
    """
    for iterator in graph.layers("iterator"):
        (whole,), (x,) = iterator.operands, iterator.results
        between: list[Layer] = [iterator]
        users = list(_users(graph, x, between)) if whole is not None and x.dtype == torch.float32 else []
        casts = [each for each in users if isinstance(each, Layer) and each.what[:1] == ("cast",)]
        dtypes = {each.results[0].dtype for each in casts}
        if whole is None or not dtypes & {torch.float16, torch.bfloat16}:
            continue
        alone = len(dtypes) == 1 and len(casts) == len(users)
        if alone:
            remade = _remade(whole, *dtypes)
            for each in casts:
                graph.replace(each, functools.partial(remade, each.operands[0]), *between)
        text = "all that the loop goes along is cast before it" if alone else "stays: the slice is needed, too"
        graph.remark("cast before loop", casts[0].operation, text, alone)


def _users(graph: Graph, x: Tensor, between: list[Layer]) -> Iterator[Node]:
    """What needs it behind shuffles and the iterators of loops within the loop, which are added to ``between``."""
    for user in graph.users(x):
        if isinstance(user, Layer) and user.what == ("iterator",):
            between.append(user)
        elif not isinstance(user, Shuffle):
            yield user
            continue
        yield from _users(graph, user.results[0], between)


def _remade(whole: Tensor, dtype: torch.dtype) -> Callable[[Any], Tensor]:
    """Makes of what is cast as a whole that which an iterator and shuffles made of it as it was."""
    made: dict[int, Tensor] = {}

    def remade(x: Tensor) -> Tensor:
        if id(x) not in made:
            if x is whole:
                made[id(x)] = L.cast(x, dtype)
            elif isinstance(x.node, Shuffle):
                made[id(x)] = L.shuffle(remade(x.node.source), *x.node.steps)
            else:
                source = remade(x.node.operands[0])
                made[id(x)] = add_layer(x.node.add, source, shape=x.shape, fold=False, takes=True)
        return made[id(x)]

    return remade


def signs_in_int8(graph: Graph) -> None:
    """``-x`` as ``x * -1``, ``abs(x)`` as the maximum of both: TensorRT-RTX 1.7 moves NEG and ABS into int8.

    There -128 stays what it is, where it is 127 or 128 times the scale (``docs/traps/builder-signs.md``).
    """
    if not graph.is_quantized:
        return
    for op, write in (("NEG", _negated), ("ABS", lambda x: L.elementwise(x, _negated(x), "MAX"))):
        for layer in graph.layers("unary", op):
            x = layer.operands[0]
            if x is not None and x.dtype.is_floating_point and not x.is_constant:
                graph.replace(layer, functools.partial(write, x))
                graph.remark("signs in int8", layer.operation, f"{op} is written by a product")


def _negated(x: Tensor) -> Tensor:
    return L.elementwise(x, x.network.constant(torch.full((1,) * x.ndim, -1.0), x.dtype), "PROD")
