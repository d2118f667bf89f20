"""ELEMENTWISE and SELECT: operations on the elements of two or three tensors of one rank."""

from __future__ import annotations

from .base import add_layer, adds, broadcast, member, repeated, require_match
from .cast import convert
from .common import DefinitionError, Evaluate, Mistakes, Node, ShapeError, Tensor, evaluates, is_half, operation, torch


@operation
def elementwise(a: Tensor, b: Tensor, op: str) -> Tensor:
    """``a op b``, element by element: one IElementWiseLayer, and where a Tensor is :attr:`~trtdsl.Tensor.partial` and
    broadcast, an ISliceLayer before it.

    ``op`` is a member of ``trt.ElementWiseOperation``: SUM, PROD, MAX, MIN, SUB, DIV, POW, FLOOR_DIV, AND, OR, XOR,
    EQUAL, GREATER, LESS. Both operands have one rank and one dtype; dimensions of size 1 are broadcast.
    Comparisons give bool. On integers DIV truncates, FLOOR_DIV rounds down, and POW goes through float32: it is not
    exact, and saturates. MAX and MIN give NaN where the first operand is NaN, in half precision where the second is.

    Raises ShapeError for ranks or sizes that do not match, DefinitionError for a dtype that TensorRT refuses.
    """
    if a.ndim != b.ndim:
        raise ShapeError(f"elementwise operands must have one rank, not {a.ndim} and {b.ndim}")
    shape = broadcast(a.shape, b.shape)
    require_match(a.network, shape, a.shape, b.shape)
    a, b = repeated(a, shape), repeated(b, shape)
    kind = member(a.network.trt.ElementWiseOperation, op, "elementwise operation")
    dtype = torch.bool if op.upper() in ("EQUAL", "GREATER", "LESS") else a.dtype
    what = "elementwise", op.upper()
    return add_layer(adds("add_elementwise", kind), a, b, shape=shape, dtype=dtype, order="kept", what=what)


def _divided(a: torch.Tensor, b: torch.Tensor, rounding: str) -> torch.Tensor:
    if a.dtype.is_floating_point:
        return torch.true_divide(a, b) if rounding == "trunc" else torch.true_divide(a, b).floor_()
    if not bool(b.all()):
        raise DefinitionError("an integer is divided by 0, which has no documented result")
    # The least integer by -1 wraps; the processor's own division traps.
    opposite = b == -1
    quotient = torch.div(a, torch.where(opposite, 1, b), rounding_mode=rounding)
    return torch.where(opposite, -quotient, quotient)


def _pow(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if a.dtype.is_floating_point:
        return torch.pow(a, b)
    if int(a.numel()) == 0 or int(b.numel()) == 0:
        return torch.broadcast_tensors(a, b)[0]
    return convert(torch.pow(_rounded_down(a), _rounded_down(b)), a.dtype)


def _rounded_down(x: torch.Tensor) -> torch.Tensor:
    """Integers as the greatest float32 that is not greater."""
    wide = x.float()
    above = wide.double() > x.double() if x.dtype == torch.int32 else (wide.long() > x) | (wide >= 2.0**63)
    return torch.where(above, torch.nextafter(wide, torch.tensor(float("-inf"))), wide)


def extreme(op: str, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """MAX or MIN of values as TensorRT compares them: one that is false for NaN gives the first, in half the second.

    >>> nan, one = torch.tensor(float("nan")), torch.tensor(1.0)
    >>> extreme("MAX", nan, one), extreme("MAX", one, nan), extreme("MAX", nan.half(), one.half())
    (tensor(nan), tensor(1.), tensor(1., dtype=torch.float16))
    """
    if is_half(a):
        return torch.where(a > b if op == "MAX" else a < b, a, b)
    return torch.where(a < b if op == "MAX" else a > b, b, a)


_EVALUATE = {
    "SUM": lambda a, b: torch.add(a, b),
    "PROD": lambda a, b: torch.mul(a, b),
    "MAX": lambda a, b: extreme("MAX", a, b),
    "MIN": lambda a, b: extreme("MIN", a, b),
    "SUB": lambda a, b: torch.sub(a, b),
    "DIV": lambda a, b: _divided(a, b, "trunc"),
    "POW": _pow,
    "FLOOR_DIV": lambda a, b: _divided(a, b, "floor"),
    "AND": lambda a, b: torch.logical_and(a, b),
    "OR": lambda a, b: torch.logical_or(a, b),
    "XOR": lambda a, b: torch.logical_xor(a, b),
    "EQUAL": lambda a, b: torch.eq(a, b),
    "GREATER": lambda a, b: torch.gt(a, b),
    "LESS": lambda a, b: torch.lt(a, b),
}


_MISTAKEN = {
    "SUM": "SUB", "SUB": "SUM", "PROD": "SUM", "DIV": "PROD", "MAX": "MIN", "MIN": "MAX", "POW": "PROD",
    "FLOOR_DIV": "DIV", "AND": "OR", "OR": "AND", "XOR": "OR", "EQUAL": "GREATER", "GREATER": "LESS",
    "LESS": "GREATER",
}  # fmt: skip
_ORDERED = ("SUB", "DIV", "POW", "FLOOR_DIV")


def _first(node: Node, place: int) -> Evaluate | None:
    """One of the operands in place of the result, where it has the result's dtype."""
    if node.inputs[0].dtype != node.outputs[0].dtype:
        return None
    return lambda f, *x: x[place].expand(torch.broadcast_shapes(*(operand.shape for operand in x)))


MISTAKES = Mistakes(
    {"op": _MISTAKEN},
    instead={
        "operands swapped": lambda node: (lambda f, a, b: f(b, a)) if node.layer.op.name in _ORDERED else None,
        "or equal": lambda node: (lambda f, a, b: ~f(b, a)) if node.layer.op.name in ("GREATER", "LESS") else None,
        "second operand left out": lambda node: _first(node, 0),
        "first operand left out": lambda node: _first(node, 1),
    },
)


@evaluates("ELEMENTWISE", category="pointwise", carries_sizes=True, flops=1, mistakes=MISTAKES)
def _elementwise(node: Node) -> Evaluate:
    """Half types round once. MAX and MIN give NaN where the first operand is, those of half types where the second is.
    Integers wrap; DIV truncates, FLOOR_DIV rounds down, and a division by 0 is an error, since its result is not
    documented. POW of integers is float32's, of operands rounded down; it truncates and saturates.
    """
    return node.pick(_EVALUATE, node.layer.op.name, "operation")


@operation
def select(condition: Tensor, then: Tensor, otherwise: Tensor) -> Tensor:
    """``then`` where ``condition`` (bool) holds, ``otherwise`` elsewhere: one ISelectLayer.

    All three have one rank, ``then`` and ``otherwise`` one dtype; dimensions of size 1 are broadcast.

    >>> c = net.input("c", (2, 1), "bool")
    >>> select(c, net.input("a", (2, 3)), net.input("b", (1, 3))).shape
    (2, 3)
    """
    if not condition.ndim == then.ndim == otherwise.ndim:
        raise ShapeError(f"select operands must have one rank, not {condition.ndim}, {then.ndim} and {otherwise.ndim}")
    shape = broadcast(condition.shape, then.shape, otherwise.shape)
    require_match(condition.network, shape, condition.shape, then.shape, otherwise.shape)
    may_be_equal = then.shape == otherwise.shape and not (then.is_constant and otherwise.is_constant)
    condition, otherwise = repeated(condition, shape), repeated(otherwise, shape)
    then = repeated(then, shape, always=may_be_equal)  # docs/traps/builder-select.md
    facts = {"shape": shape, "dtype": then.dtype, "order": "kept", "what": ("select",)}
    return add_layer(adds("add_select"), condition, then, otherwise, **facts)


OTHERWISE = Mistakes(
    instead={
        "condition inverted": lambda node: lambda f, c, a, b: f(~c, a, b),
        "always the first": lambda node: lambda f, c, a, b: f(torch.ones_like(c), a, b),
        "always the second": lambda node: lambda f, c, a, b: f(torch.zeros_like(c), a, b),
    }
)


@evaluates("SELECT", category="pointwise", carries_sizes=True, computes=False, flops=1, mistakes=OTHERWISE)
def _select(node: Node) -> Evaluate:
    """Of both operands, all elements are computed."""
    return torch.where
