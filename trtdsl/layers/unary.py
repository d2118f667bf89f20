"""UNARY: one operation on each element."""

from __future__ import annotations

from .common import Evaluate, Mistakes, Node, Tensor, add_layer, adds, dtype_name, evaluates, member, operation, torch
from .evaluation import is_half


@operation
def unary(x: Tensor, op: str) -> Tensor:
    """``op(x)``, element by element: one IUnaryLayer.

    ``op`` is a member of ``trt.UnaryOperation``: EXP, LOG, SQRT, RECIP, ABS, NEG, SIN, COS, TAN, SINH, COSH, ASIN,
    ACOS, ATAN, ASINH, ACOSH, ATANH, CEIL, FLOOR, ERF, NOT, SIGN, ROUND (half to even), ISINF, ISNAN.
    NOT takes bool; ISINF and ISNAN give bool; ABS, NEG and SIGN take integers too, the others floating-point values.
    """
    kind = member(x.network.trt.UnaryOperation, op, "unary operation")
    dtype = torch.bool if op.upper() in ("ISINF", "ISNAN") else x.dtype
    what = "unary", op.upper()
    return add_layer(adds("add_unary", kind), x, shape=x.shape, dtype=dtype, order="kept", what=what)


def _sign(x: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.isnan(x), x, torch.sign(x)) if x.dtype.is_floating_point else torch.sign(x)


def erf(x: torch.Tensor) -> torch.Tensor:
    """The error function, of half types computed in float32 and rounded once: torch's own is 0 near 0.

    >>> erf(torch.tensor(6e-8).bfloat16()) > 0
    tensor(True)
    """
    return torch.erf(x.float()).to(x.dtype) if is_half(x) else torch.erf(x)


_TORCH = {"RECIP": "reciprocal", "NOT": "logical_not"}  # torch's names where they are others
_KNOWN = (
    *("EXP", "LOG", "SQRT", "RECIP", "ABS", "NEG", "SIN", "COS", "TAN", "SINH", "COSH", "ASIN", "ACOS", "ATAN", "ERF"),
    *("ASINH", "ACOSH", "ATANH", "CEIL", "FLOOR", "ROUND", "SIGN", "NOT", "ISINF", "ISNAN"),
)
_OWN = {"SIGN": _sign, "ERF": erf}
OF_INTEGERS = ("ABS", "NEG", "SIGN")


_MISTAKEN = {
    "EXP": "SINH", "SQRT": "ABS", "RECIP": "NEG", "SIN": "COS", "COS": "SIN", "TAN": "SIN", "SINH": "TAN",
    "COSH": "SINH", "ASIN": "ATAN", "ACOS": "ASIN", "ATAN": "SIN", "LOG": "SQRT", "ASINH": "ATAN",
    "ACOSH": "LOG", "ATANH": "TAN", "CEIL": "FLOOR", "FLOOR": "ROUND", "ROUND": "FLOOR", "ERF": "ATAN",
    "ISINF": "ISNAN", "ISNAN": "ISINF",
}  # fmt: skip
MISTAKES = Mistakes({"op": _MISTAKEN}, left_out=True)


@evaluates("UNARY", category="pointwise", carries_sizes=True, flops=1, mistakes=MISTAKES)
def _unary(node: Node) -> Evaluate:
    """Half types round once. ROUND is half to even; SIGN of NaN is NaN. TensorRT takes int8 for every operation, but
    builds only those that integers have: the others are refused.
    """
    name, dtype = node.known(node.layer.op, _KNOWN, "operation"), node.input_dtype()
    if dtype == torch.int8 and name not in OF_INTEGERS:
        raise node.unsupported(f"{name} of {dtype_name(dtype)}")
    return _OWN.get(name) or getattr(torch, _TORCH.get(name, name.lower()))
