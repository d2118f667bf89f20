"""ELEMENTWISE and SELECT: operations on the elements of two or three tensors of one rank."""

from __future__ import annotations

from ..core.errors import DefinitionError, ShapeError
from ..core.lazy import torch
from ..definition.operation import operation
from ..definition.tensor import Tensor
from .base import add_layer, broadcast, member, require_match
from .evaluation import Evaluate, Node, evaluates


@operation
def elementwise(a: Tensor, b: Tensor, op: str) -> Tensor:
    """``a op b``, element by element: one IElementWiseLayer.

    ``op`` is a member of ``trt.ElementWiseOperation``: SUM, PROD, MAX, MIN, SUB, DIV, POW, FLOOR_DIV, AND, OR, XOR,
    EQUAL, GREATER, LESS. Both operands have one rank and one dtype; dimensions of size 1 are broadcast.
    Comparisons give bool. On integers DIV truncates and FLOOR_DIV rounds down.

    Raises ShapeError for ranks or sizes that do not match, DefinitionError for a dtype that TensorRT refuses.

    >>> net = td.Network()
    >>> elementwise(net.input("a", (2, 3)), net.input("b", (1, 3)), "SUM").shape
    (2, 3)
    """
    if a.ndim != b.ndim:
        raise ShapeError(f"elementwise operands must have one rank, not {a.ndim} and {b.ndim}")
    shape = broadcast(a.shape, b.shape)
    require_match(a.network, shape, a.shape, b.shape)

    def add(target, a, b):
        return target.definition.add_elementwise(
            a, b, member(target.trt.ElementWiseOperation, op, "elementwise operation")
        )

    plain = a.dtype == b.dtype and a.dtype in (torch.float32, torch.float16, torch.bfloat16)
    return add_layer(add, a, b, shape=shape, evaluate=_OF_NUMBERS.get(op) if plain else None, order="kept")


def _refuse_zero(divisors: torch.Tensor) -> None:
    if not bool(divisors.all()):
        raise DefinitionError("an integer is divided by 0, which has no documented result")


def _div(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if a.dtype.is_floating_point:
        return torch.true_divide(a, b)
    _refuse_zero(b)
    return torch.div(a, b, rounding_mode="trunc")


def _floor_div(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if a.dtype.is_floating_point:
        return torch.true_divide(a, b).floor_()
    _refuse_zero(b)
    return torch.div(a, b, rounding_mode="floor")


def _pow(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if a.dtype.is_floating_point:
        return torch.pow(a, b)
    # An integer to a negative power is its truncated reciprocal: 1, -1 or 0.
    positive = torch.pow(a, b.clamp(min=0))
    reciprocal = torch.where(a == 1, 1, torch.where(a == -1, 1 - 2 * (b % 2), 0)).to(a.dtype)
    return torch.where(b < 0, reciprocal, positive)


# TensorRT's MAX and MIN give NaN only when the first operand is NaN.
_EVALUATE = {
    "SUM": lambda a, b: torch.add(a, b),
    "PROD": lambda a, b: torch.mul(a, b),
    "MAX": lambda a, b: torch.where(a < b, b, a),
    "MIN": lambda a, b: torch.where(a > b, b, a),
    "SUB": lambda a, b: torch.sub(a, b),
    "DIV": _div,
    "POW": _pow,
    "FLOOR_DIV": _floor_div,
    "AND": lambda a, b: torch.logical_and(a, b),
    "OR": lambda a, b: torch.logical_or(a, b),
    "XOR": lambda a, b: torch.logical_xor(a, b),
    "EQUAL": lambda a, b: torch.eq(a, b),
    "GREATER": lambda a, b: torch.gt(a, b),
    "LESS": lambda a, b: torch.lt(a, b),
}


_OF_NUMBERS = {op: evaluate for op, evaluate in _EVALUATE.items() if op not in ("AND", "OR", "XOR")}


@evaluates("ELEMENTWISE", flops=1)
def _elementwise(node: Node) -> Evaluate:
    """Half types round once. MAX and MIN give NaN where the first operand is. Integers wrap; DIV truncates, FLOOR_DIV
    rounds down, and a division by 0 is an error, since its result is not documented.
    """
    return node.pick(_EVALUATE, node.layer.op.name, "operation")


@operation
def select(condition: Tensor, then: Tensor, otherwise: Tensor) -> Tensor:
    """``then`` where ``condition`` (bool) holds, ``otherwise`` elsewhere: one ISelectLayer.

    All three have one rank, ``then`` and ``otherwise`` one dtype; dimensions of size 1 are broadcast.

    >>> net = td.Network()
    >>> c = net.input("c", (2, 1), "bool")
    >>> select(c, net.input("a", (2, 3)), net.input("b", (1, 3))).shape
    (2, 3)
    """
    if not condition.ndim == then.ndim == otherwise.ndim:
        raise ShapeError(f"select operands must have one rank, not {condition.ndim}, {then.ndim} and {otherwise.ndim}")
    shape = broadcast(condition.shape, then.shape, otherwise.shape)
    require_match(condition.network, shape, condition.shape, then.shape, otherwise.shape)

    def add(target, condition, then, otherwise):
        return target.definition.add_select(condition, then, otherwise)

    return add_layer(add, condition, then, otherwise, shape=shape, order="kept")


@evaluates("SELECT", flops=1)
def _select(node: Node) -> Evaluate:
    """Of both operands, all elements are computed."""
    return torch.where
