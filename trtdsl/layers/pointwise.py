"""Pointwise layers: CAST, IDENTITY, UNARY, ACTIVATION; of several tensors PARAMETRIC_RELU, ELEMENTWISE and SELECT."""

from __future__ import annotations

import math
from typing import Any

from ..core.dtypes import as_dtype, dtype_name
from ..definition.graph import Layer
from .base import add_layer, adds, matched, member, repeated
from .common import DefinitionError, Evaluate, Mistakes, Node, ShapeError, Tensor, evaluates, is_half, operation, torch


@operation
def cast(x: Tensor, dtype: Any) -> Tensor:
    """``x`` in another dtype (torch's, or its name): one ICastLayer; ``x`` itself when it has that dtype.

    Floating-point to integer truncates; to int32 and int64 it saturates, int8 and uint8 keep the low bits of a wider
    conversion, which saturates; anything to bool is ``!= 0``. A constant is converted at once.
    """
    dtype = as_dtype(dtype)
    if x.dtype == dtype:
        return x
    kind = x.network.backend.data_type(dtype)
    if x.is_constant:
        return Tensor(x.network, x.shape, dtype, data=convert(x.data, dtype), weight_names=x.weight_names)
    if dtype == torch.int8 and x.dtype.is_floating_point:
        x = cast(x, torch.int32)  # of which int8 keeps the low bits: out of range, the direct conversion is undefined
    before = x.node.what if isinstance(x.node, Layer) else ()
    return add_layer(adds("add_cast", kind), x, shape=x.shape, dtype=dtype, order="kept", what=("cast", *before))


def convert(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A value in another dtype as TensorRT converts it: see the evaluator of CAST."""
    name = dtype_name(dtype)
    if name == "float8_e4m3fn":
        return x.float().clamp(-448, 448).to(dtype)
    if name == "float4_e2m1fn_x2":
        return round_to_fp4(x.float())
    if name == "int4":
        return (((x.long() & 15) ^ 8) - 8).to(torch.int8)
    if x.dtype == dtype:
        return x
    if x.dtype.is_floating_point and not dtype.is_floating_point and dtype != torch.bool:
        return _truncated(x, dtype)
    return x.to(dtype)


def _truncated(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    info = torch.iinfo(dtype)
    low, high = info.min, info.max
    if info.bits == 8:
        bits = 16 if x.itemsize == 2 else 32
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if low < 0 else (0, (1 << bits) - 1)
    wide = x.double().nan_to_num(0.0, high, low).trunc().clamp(min=low)
    if info.bits == 64:  # float64 cannot hold the greatest int64: what reaches it saturates by hand
        return torch.where(wide >= 2.0**63, high, wide.clamp(max=2.0**63 - 1024).to(dtype))
    return wide.clamp(max=high).long().to(dtype)


def round_to_fp4(x: torch.Tensor) -> torch.Tensor:
    """float32 values rounded half to even to those of fp4: one bit of sign, two of exponent, one of mantissa."""
    x = torch.where(torch.isnan(x), 0.0, x)  # fp4 has none
    size = x.abs().clamp(max=6)
    step = torch.where(size < 2, 0.5, torch.where(size < 4, 1.0, 2.0))
    return torch.copysign(torch.round(size / step) * step, x)


def _rounded(node: Node) -> Evaluate | None:
    cuts = node.input_dtype().is_floating_point and not node.dtype.is_floating_point and node.dtype != torch.bool
    return (lambda f, x: f(torch.round(x))) if cuts else None


ROUNDED = Mistakes(instead={"rounded": _rounded})


@evaluates("CAST", category="pointwise", carries_sizes=True, computes=False, mistakes=ROUNDED)
def _cast(node: Node) -> Evaluate:
    """Floating-point to integer truncates, NaN is 0. It saturates to int32 and int64; int8 and uint8 are the low bits
    of int32 and uint32 (of int16 and uint16 for half types), which saturate. Integers keep their low bits; fp8 and
    fp4 round half to even and saturate. Assumed: what becomes int4 keeps its low bits, as in ONNX.
    """
    dtype = node.logical_dtype
    return lambda x: convert(x, dtype)


@operation
def identity(x: Tensor) -> Tensor:
    """``x`` unchanged, under a name of its own: one IIdentityLayer."""
    return add_layer(adds("add_identity"), x, shape=x.shape, order="kept", takes=True)


@evaluates("IDENTITY", category="pointwise", carries_sizes=True, computes=False, moves=False, fp8="takes gives")
def _identity(node: Node) -> Evaluate:
    return lambda x: x


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


_MISTAKEN_UNARY = {
    "EXP": "SINH", "SQRT": "ABS", "RECIP": "NEG", "SIN": "COS", "COS": "SIN", "TAN": "SIN", "SINH": "TAN",
    "COSH": "SINH", "ASIN": "ATAN", "ACOS": "ASIN", "ATAN": "SIN", "LOG": "SQRT", "ASINH": "ATAN",
    "ACOSH": "LOG", "ATANH": "TAN", "CEIL": "FLOOR", "FLOOR": "ROUND", "ROUND": "FLOOR", "ERF": "ATAN",
    "ISINF": "ISNAN", "ISNAN": "ISINF",
}  # fmt: skip
UNARY_MISTAKES = Mistakes({"op": _MISTAKEN_UNARY}, left_out=True)


@evaluates("UNARY", category="pointwise", carries_sizes=True, flops=1, mistakes=UNARY_MISTAKES)
def _unary(node: Node) -> Evaluate:
    """Half types round once. ROUND is half to even; SIGN of NaN is NaN. TensorRT takes int8 for every operation, but
    builds only those that integers have: the others are refused.
    """
    name, dtype = node.known(node.layer.op, _KNOWN, "operation"), node.input_dtype()
    if dtype == torch.int8 and name not in OF_INTEGERS:
        raise node.unsupported(f"{name} of {dtype_name(dtype)}")
    return _OWN.get(name) or getattr(torch, _TORCH.get(name, name.lower()))


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
    shape = matched(a.network, a.shape, b.shape)
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
    return _EVALUATE[node.known(node.layer.op, _EVALUATE, "operation")]


@operation
def select(condition: Tensor, then: Tensor, otherwise: Tensor) -> Tensor:
    """``then`` where ``condition`` (bool) holds, ``otherwise`` elsewhere: one ISelectLayer.

    All three have one rank, ``then`` and ``otherwise`` one dtype; dimensions of size 1 are broadcast.
    """
    if not condition.ndim == then.ndim == otherwise.ndim:
        raise ShapeError(f"select operands must have one rank, not {condition.ndim}, {then.ndim} and {otherwise.ndim}")
    shape = matched(condition.network, condition.shape, then.shape, otherwise.shape)
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


@operation
def activation(x: Tensor, type: str, alpha: float | None = None, beta: float | None = None) -> Tensor:
    """One IActivationLayer.

    ``type`` is a member of ``trt.ActivationType``. Those with parameters:
    LEAKY_RELU ``x if x >= 0 else alpha*x``; ELU ``x if x >= 0 else alpha*(exp(x) - 1)``;
    SELU ``beta * (x if x > 0 else alpha*exp(x) - alpha)``; SOFTPLUS ``alpha * log(exp(beta*x) + 1)``;
    CLIP ``max(alpha, min(beta, x))``; HARD_SIGMOID ``max(0, min(1, alpha*x + beta))``;
    SCALED_TANH ``alpha * tanh(beta*x)``; THRESHOLDED_RELU ``x if x > alpha else 0``. The others
    (RELU, SIGMOID, TANH, SOFTSIGN, GELU_ERF, GELU_TANH) take none. ``x`` is floating-point; RELU takes integers too.
    """
    kind = member(x.network.trt.ActivationType, type, "activation")
    add = adds("add_activation", kind, numbers={"alpha": alpha, "beta": beta})
    numbers = (str(each) for each in (alpha, beta) if each is not None)
    return add_layer(add, x, shape=x.shape, order="kept", what=("activation", type.upper(), *numbers))


# Each formula is computed in one buffer of its own, the result's.


def _chosen(x: torch.Tensor, condition: torch.Tensor, otherwise: torch.Tensor) -> torch.Tensor:
    """``x`` where the condition holds, written into ``otherwise``."""
    return torch.where(condition, x, otherwise, out=otherwise)


def _gelu_tanh(x: torch.Tensor, alpha: float, beta: float) -> torch.Tensor:
    inner = (x * x).mul_(x).mul_(0.044715).add_(x).mul_(math.sqrt(2 / math.pi))
    return inner.tanh_().add_(1).mul_(x).mul_(0.5)


def _leaky_relu(x: torch.Tensor, alpha: float, beta: float) -> torch.Tensor:
    # The greater of the two, or the lesser: infinity times 0 is NaN.
    scaled = alpha * x
    return extreme("MAX" if alpha <= 1 else "MIN", scaled, x)


def _elu(x: torch.Tensor, alpha: float, beta: float) -> torch.Tensor:
    powers = torch.exp(x).sub_(1) if is_half(x) else torch.expm1(x)
    return _chosen(x, ~(x < 0), powers.mul_(alpha))


def _selu(x: torch.Tensor, alpha: float, beta: float) -> torch.Tensor:
    powers = torch.exp(x).mul_(alpha).sub_(alpha) if is_half(x) else torch.expm1(x).mul_(alpha)
    return _chosen(x, x > 0, powers).mul_(beta)


def _softplus(x: torch.Tensor, alpha: float, beta: float) -> torch.Tensor:
    scaled = beta * x
    powers = scaled.exp()
    return torch.where(powers.isinf(), scaled, powers.log1p()).mul_(alpha)


def _clip(x: torch.Tensor, alpha: float, beta: float) -> torch.Tensor:
    # The bounds stand first: in float32, NaN becomes the bound that is looked at first.
    low, high = (x.new_tensor(bound) for bound in (alpha, beta))
    if alpha <= beta:
        return extreme("MIN", high, extreme("MAX", low, x))
    return extreme("MAX", low, extreme("MIN", high, x))


def _hard_sigmoid(x: torch.Tensor, alpha: float, beta: float) -> torch.Tensor:
    one, zero = x.new_tensor(1.0), x.new_tensor(0.0)
    return extreme("MAX", extreme("MIN", (alpha * x).add_(beta), one), zero)


_ACTIVATIONS = {
    "RELU": lambda x, alpha, beta: torch.clamp(x, min=0),
    "SIGMOID": lambda x, alpha, beta: torch.sigmoid(x),
    "TANH": lambda x, alpha, beta: torch.tanh(x),
    "LEAKY_RELU": _leaky_relu,
    "ELU": _elu,
    "SELU": _selu,
    "SOFTSIGN": lambda x, alpha, beta: x / x.abs().add_(1),
    "SOFTPLUS": _softplus,
    "CLIP": _clip,
    "HARD_SIGMOID": _hard_sigmoid,
    "SCALED_TANH": lambda x, alpha, beta: (beta * x).tanh_().mul_(alpha),
    "THRESHOLDED_RELU": lambda x, alpha, beta: torch.where(x > alpha, x, 0),
    "GELU_ERF": lambda x, alpha, beta: erf(x / math.sqrt(2)).add_(1).mul_(x).mul_(0.5),
    "GELU_TANH": _gelu_tanh,
}
_SELECTING = ("RELU", "CLIP", "THRESHOLDED_RELU")  # select one of their operands: nothing is rounded


PARAMETERS = {
    "alpha": {"LEAKY_RELU", "ELU", "SELU", "SOFTPLUS", "CLIP", "HARD_SIGMOID", "SCALED_TANH", "THRESHOLDED_RELU"},
    "beta": {"SELU", "SOFTPLUS", "CLIP", "HARD_SIGMOID", "SCALED_TANH"},
}
"""The kinds that use a parameter."""

ACTIVATION_MISTAKES = Mistakes(
    left_out=True,
    members={
        "type": {
            "SIGMOID": "TANH", "TANH": "SOFTSIGN", "GELU_ERF": "GELU_TANH", "GELU_TANH": "GELU_ERF",
            "SOFTPLUS": "RELU", "ELU": "LEAKY_RELU", "SELU": "ELU", "RELU": "SOFTPLUS",
        }
    },
    numbers=dict.fromkeys(("alpha", "beta"), lambda x: x * 1.25 + 0.125),
    uses=lambda layer, attribute: attribute == "type" or layer.type.name in PARAMETERS[attribute],
)  # fmt: skip


@evaluates("ACTIVATION", category="activation", flops=1, mistakes=ACTIVATION_MISTAKES)
def _activation(node: Node) -> Evaluate:
    """The formulas of ActivationType, of half types with each step rounded to the type: GELU of float16 is infinite
    where twice its operand is. RELU lets NaN pass; CLIP of float32 makes it a bound. Of int8 TensorRT takes every type;
    only those that select one of their operands, with parameters that int8 has, are known.
    """
    name = node.known(node.layer.type, _ACTIVATIONS, "activation")
    evaluate, alpha, beta = _ACTIVATIONS[name], node.number("alpha"), node.number("beta")
    if node.dtype == torch.int8:
        if name not in _SELECTING or (
            name != "RELU" and not all(value.is_integer() and -128 <= value <= 127 for value in (alpha, beta))
        ):
            raise node.unsupported(f"{name} of int8 with alpha {alpha:g} and beta {beta:g}")
        alpha, beta = int(alpha), int(beta)
    if node.dtype in (torch.float16, torch.bfloat16):  # the builder's constants are of the type, too
        alpha, beta = (float(torch.tensor(value).to(node.dtype)) for value in (alpha, beta))
    return lambda x: evaluate(x, alpha, beta)


@operation
def parametric_relu(x: Tensor, slope: Tensor) -> Tensor:
    """``x if x >= 0 else slope * x``, with ``slope`` broadcast to ``x``: one IParametricReLULayer.

    Both have one rank and one floating-point dtype.
    """
    return add_layer(adds("add_parametric_relu"), x, slope, shape=x.shape, order="kept")


@evaluates("PARAMETRIC_RELU", category="activation", flops=2, mistakes=Mistakes(left_out=True))
def _parametric_relu(node: Node) -> Evaluate:
    """``x if x >= 0 else slope * x``; NaN stays NaN."""
    return lambda x, slope: _chosen(x, x >= 0, slope * x)
