"""FILL: tensors from a formula."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..lazy import torch
from ..network import Network, as_dtype, operation
from ..shape import SizeLike
from ..tensor import Tensor
from .base import Evaluate, Node, add_layer, evaluates
from .shape import size_tensor


@operation
def linspace(
    network: Network, shape: Sequence[SizeLike], start: Tensor, delta: Tensor, dtype: Any = "float32"
) -> Tensor:
    """``start + sum(index[k] * delta[k])`` over a shape: one IFillLayer (LINSPACE).

    ``start`` is a scalar and ``delta`` has one element per dimension, both of the result's dtype
    (float32, int32 or int64). A result of static shape from constants is a constant.

    >>> net = td.Network()
    >>> linspace(net, (3,), net.constant(1.0), net.constant([2.0])).data
    tensor([1., 3., 5.])
    """
    sizes = tuple(shape)
    dynamic = None if all(isinstance(size, int) for size in sizes) else size_tensor(network, sizes)

    def add(site, shape, start, delta):
        dims = sizes if shape is None else (0,) * len(sizes)
        data_type = site.network.backend.data_type(as_dtype(dtype))
        layer = site.definition.add_fill(dims, site.trt.FillOperation.LINSPACE, data_type)
        if layer is None:
            return None
        if shape is not None:
            layer.set_input(0, shape)
        layer.set_input(1, start)
        layer.set_input(2, delta)
        return layer

    return add_layer(add, dynamic, start, delta, shape=sizes, network=network)


@evaluates("FILL", flops=1)
def _fill(node: Node) -> Evaluate:
    layer, dtype = node.layer, node.dtype
    name = layer.operation.name
    static = None if node.has_input(0) else tuple(layer.shape)
    integral = layer.is_alpha_beta_int64()
    alpha, beta = (None if node.has_input(i) else v for i, v in ((1, layer.alpha), (2, layer.beta)))

    def evaluate(shape: Any = None, start: Any = None, delta: Any = None) -> torch.Tensor:
        dims = static if shape is None else tuple(shape.tolist())
        first = alpha if start is None else start.reshape(()).item()
        second: Any = beta if delta is None else delta.flatten().tolist()
        if name == "RANDOM_UNIFORM":
            return torch.empty(dims).uniform_(first, second[0] if isinstance(second, list) else second).to(dtype)
        if name == "RANDOM_NORMAL":
            return torch.empty(dims).normal_(first, second[0] if isinstance(second, list) else second).to(dtype)
        steps = second if isinstance(second, list) else [second] * len(dims)
        wide = torch.int64 if integral or not dtype.is_floating_point else torch.float32
        total = torch.full(dims, first, dtype=wide)
        for axis, step in enumerate(steps):
            index = torch.arange(dims[axis], dtype=wide)
            total = total + (index * step).reshape((-1,) + (1,) * (len(dims) - axis - 1))
        return total.to(dtype)

    return evaluate
