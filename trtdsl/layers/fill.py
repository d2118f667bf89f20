"""FILL: tensors from a formula."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .common import Network, Shape, SizeLike, Tensor, add_layer, adds, as_dtype, is_static, operation, torch
from .evaluation import Evaluate, Given, Mistakes, Node, evaluates
from .shape import size_tensor


@operation
def linspace(
    network: Network,
    shape: Sequence[SizeLike],
    start: Tensor | float = 0,
    delta: Tensor | Sequence[float] = (1,),
    dtype: Any = "float32",
) -> Tensor:
    """``start + sum(index[k] * delta[k])`` over a shape: one IFillLayer (LINSPACE).

    ``start`` is a number or a scalar and ``delta`` has one element per dimension; Tensors are of the result's dtype
    (float32, int32 or int64). A result of static shape from constants is a constant.

    >>> linspace(net, (3,), 1, [2]).data
    tensor([1., 3., 5.])
    """
    kind = as_dtype(dtype)
    first, steps = (
        x if isinstance(x, Tensor) else network.constant(torch.tensor(x, dtype=kind)) for x in (start, delta)
    )
    return _filled("LINSPACE", network, tuple(shape), first, steps, kind)


@operation
def random(
    network: Network, shape: Sequence[SizeLike], low: Tensor, high: Tensor, normal: bool = False, dtype: Any = "float32"
) -> Tensor:
    """Values drawn anew in each run: uniform between ``low`` and ``high``, or ``normal`` with that mean and deviation.

    One IFillLayer (RANDOM_UNIFORM, RANDOM_NORMAL). ``low`` and ``high`` are scalars; float32 or float16.
    """
    kind = "RANDOM_NORMAL" if normal else "RANDOM_UNIFORM"
    return _filled(kind, network, tuple(shape), low, high, as_dtype(dtype), fold=False)


def _filled(
    kind: str, network: Network, sizes: Shape, alpha: Tensor, beta: Tensor, dtype: torch.dtype, fold: bool = True
) -> Tensor:
    dynamic = None if is_static(sizes) else size_tensor(network, sizes)
    dims = sizes if dynamic is None else (0,) * len(sizes)
    operation = getattr(network.trt.FillOperation, kind)
    add = adds("add_fill", dims, operation, network.backend.data_type(dtype), takes=0)
    return add_layer(add, dynamic, alpha, beta, shape=sizes, dtype=dtype, network=network, fold=fold)


MISTAKES = Mistakes(instead={"one more": lambda node: None if node.dtype == torch.bool else lambda f, *x: f(*x) + 1})


@evaluates("FILL", category="constant", computes=False, flops=1, mistakes=MISTAKES)
def _fill(node: Node) -> Evaluate:
    """Random values come from torch's default generator: no run of TensorRT draws the same. A beta that is no tensor
    is the step of the first dimension, and the others have none.
    """
    layer, dtype = node.layer, node.dtype
    name = node.known(layer.operation, ("LINSPACE", "RANDOM_UNIFORM", "RANDOM_NORMAL"), "operation")
    if dtype == torch.bool:
        raise node.unsupported(f"{name} of bool")
    static_dims = () if node.has_input(0) else tuple(layer.shape)
    static = (layer.alpha, layer.beta)

    def evaluate(shape: Given = None, alpha: Given = None, beta: Given = None) -> torch.Tensor:
        dims = static_dims if shape is None else tuple(shape.tolist())
        first = static[0] if alpha is None else alpha.reshape(()).item()
        second = [static[1], *[0] * (len(dims) - 1)] if beta is None else beta.flatten().tolist()
        if name == "LINSPACE":
            return _linspace(dims, first, second, dtype)
        if name == "RANDOM_UNIFORM":
            return torch.empty(dims).uniform_(first, second[0]).to(dtype)
        return torch.empty(dims).normal_(first, second[0]).to(dtype)

    return evaluate


def _linspace(dims: Sequence[int], start: float, steps: Sequence[float], dtype: torch.dtype) -> torch.Tensor:
    """``start + sum(index[k] * steps[k])``."""
    total = torch.full(tuple(dims), start, dtype=dtype)
    for axis, (size, step) in enumerate(zip(dims, steps, strict=bool(dims))):
        index = torch.arange(size, dtype=dtype) * (step if dtype.is_floating_point else int(step))
        total = total + index.reshape((-1,) + (1,) * (len(dims) - axis - 1))
    return total
