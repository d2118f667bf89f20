"""``-x`` and ``abs(x)`` where the network is quantized."""

from __future__ import annotations

import functools

from ..common import Graph, L, Tensor, torch


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
