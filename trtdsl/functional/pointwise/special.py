"""Functions of torch.special, element by element."""

from __future__ import annotations

import math
from typing import Any

from ... import layers as L
from ...core.lazy import torch
from ...definition.operation import operation
from ...definition.tensor import Tensor
from ..operands import binary, choose, promote
from .elementary import erfc, log1p


@operation
def entr(input: Tensor) -> Tensor:
    """``-x log(x)``, 0 for 0 and -inf below: IUnaryLayer LOG, IElementWiseLayers, ISelectLayers.

    >>> F.entr(td.Network().input("x", (2, 3))).shape
    (2, 3)
    """
    (x,) = promote(input, integers_to_float=True)
    positive = binary(x, 0, "GREATER", x.dtype)
    inside = L.unary(L.elementwise(x, L.unary(choose(positive, x, 1.0, x.dtype), "LOG"), "PROD"), "NEG")
    below = choose(binary(x, 0, "LESS", x.dtype), -math.inf, L.elementwise(x, x, "PROD"), x.dtype)  # 0 for 0, NaN stays
    return L.select(positive, inside, below)


@operation
def xlog1py(input: Any, other: Any) -> Tensor:
    """``x log(1 + y)``, 0 where x is 0 unless y is NaN: the layers of :func:`log1p`, ISelectLayers.

    >>> net = td.Network()
    >>> F.xlog1py(net.input("x", (2, 3)), net.input("y", (2, 3))).shape
    (2, 3)
    """
    x, y = promote(input, other, integers_to_float=True)
    nothing = L.elementwise(binary(x, 0, "EQUAL", x.dtype), L.unary(L.unary(y, "ISNAN"), "NOT"), "AND")
    return choose(nothing, 0, binary(x, log1p(y), "PROD"), x.dtype)


@operation
def ndtr(input: Tensor) -> Tensor:
    """The standard normal distribution up to x, ``erfc(-x / √2) / 2``: the layers of :func:`erfc`.

    >>> F.ndtr(td.Network().input("x", (2, 3))).shape
    (2, 3)
    """
    (x,) = promote(input, integers_to_float=True)
    return binary(erfc(binary(x, -math.sqrt(0.5), "PROD", x.dtype)), 0.5, "PROD", x.dtype)


@operation
def ldexp(input: Any, other: Any) -> Tensor:
    """``x * 2 ** y``: IElementWiseLayers POW and PROD; integers become float32 first.

    >>> net = td.Network()
    >>> F.ldexp(net.input("x", (2, 3)), net.input("y", (2, 3), "int32")).shape
    (2, 3)
    """
    x, y = promote(input, other, integers_to_float=True)
    two = x.network.constant(torch.tensor(2.0, dtype=x.dtype))
    return binary(x, binary(two, y, "POW", x.dtype), "PROD", x.dtype)
