"""CONSTANT: values that are part of the network, and how TensorRT's weights are read back; FILL: from a formula."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

from ..core.backend import Backend
from ..core.dtypes import as_dtype, dtype_name
from ..core.tensors.exact import unpacked
from ..definition.operation import require_network
from ..definition.tensor import Operand
from .common import Network, Shape, SizeLike, Tensor, UnsupportedError, add_layer, adds, is_static, np, operation, torch
from .evaluation import Evaluate, Given, Mistakes, Node, evaluates, storage
from .shape import size_tensor


@operation
def constant(data: Operand, dtype: Any = None) -> Tensor:
    """A constant of the current network from a torch tensor, a numpy array or a number.

    Becomes an IConstantLayer only where a layer needs it as an input.
    """
    return require_network(data).constant(data, dtype)


class _Header(ctypes.Structure):
    """``nvinfer1::Weights``: type, values, count."""

    _fields_ = (("type", ctypes.c_int32), ("values", ctypes.c_void_p), ("count", ctypes.c_int64))


def _header(weights: Any) -> _Header:
    """The C++ struct of weights whose type numpy does not have (bfloat16, fp8, 4 bits): the Python object points at
    it."""
    address = ctypes.c_void_p.from_address(id(weights) + 16).value
    header = _Header.from_address(address) if address else None
    if header is None or header.count != weights.size:
        raise UnsupportedError(f"weights of type {weights.dtype} cannot be read back from this version of TensorRT")
    return header


def weights_bytes(weights: Any) -> bytes:
    """A view of the memory of a layer's weights."""
    if isinstance(weights, np.ndarray):
        return weights.tobytes()
    if not weights.size:
        return b""
    size = math.ceil(weights.size * weights.dtype.itemsize)  # nbytes is wrong of 4 bits
    return ctypes.string_at(_header(weights).values, size)


class Values:
    """Weights of a layer that are not TensorRT's: those of one that is changed on its way to its evaluator."""

    def __init__(self, values: torch.Tensor):
        self.values, self.size = values, values.numel()


def read_weights(backend: Backend, weights: Any, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A torch view of a layer's weights; it is valid as long as their owner keeps the memory.

    Sub-byte types come unpacked: int4 as int8 values, fp4 as float32 values.
    """
    if isinstance(weights, Values):
        return weights.values.reshape(tuple(shape))
    if isinstance(weights, np.ndarray):
        if not weights.flags.writeable:
            weights = weights.copy()
        return torch.from_numpy(weights).reshape(tuple(shape))
    header = _header(weights)
    packed = dtype_name(dtype) in ("int4", "float4_e2m1fn_x2")
    width = 1 if packed else dtype.itemsize
    size = (header.count + 1) // 2 if packed else header.count * width
    if not size:
        return torch.empty(tuple(shape), dtype=storage(dtype))
    memory = torch.frombuffer((ctypes.c_uint8 * size).from_address(header.values), dtype=torch.uint8)
    if not packed:
        return memory.view(dtype).reshape(tuple(shape))
    nibbles = torch.stack((memory & 15, memory >> 4), 1).flatten()[: header.count].reshape(tuple(shape))
    if dtype_name(dtype) == "int4":
        return ((nibbles.to(torch.int8) ^ 8) - 8).to(torch.int8)
    magnitudes = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
    return torch.where(nibbles >= 8, -1.0, 1.0) * magnitudes[(nibbles & 7).long()]


@evaluates(
    "CONSTANT",
    category="constant",
    carries_sizes=True,
    computes=False,
    moves=False,
    weights={"weights": "CONSTANT"},
    fp8="gives",
)
def _constant(node: Node) -> Evaluate:
    """A view of the network's memory; int4 comes unpacked as int8 values, and fp4 as float32 values."""
    weights = node.layer.weights
    value = read_weights(node.backend, weights, tuple(node.layer.shape), node.logical_dtype)
    if dtype_name(node.logical_dtype) != "int4" or isinstance(weights, Values):
        return lambda: value
    address = _header(weights).values
    return lambda: unpacked(value, address)


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
    first, steps = (network.constant(x, kind) for x in (start, delta))
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
