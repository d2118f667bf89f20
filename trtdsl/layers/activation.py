"""ACTIVATION and PARAMETRIC_RELU: the activations that TensorRT has a layer for."""

from __future__ import annotations

import math

from .common import Evaluate, Mistakes, Node, Tensor, add_layer, adds, evaluates, is_half, member, operation, torch
from .pointwise import erf, extreme


@operation
def activation(x: Tensor, type: str, alpha: float | None = None, beta: float | None = None) -> Tensor:
    """One IActivationLayer.

    ``type`` is a member of ``trt.ActivationType``. Those with parameters:
    LEAKY_RELU ``x if x >= 0 else alpha*x``; ELU ``x if x >= 0 else alpha*(exp(x) - 1)``;
    SELU ``beta * (x if x > 0 else alpha*exp(x) - alpha)``; SOFTPLUS ``alpha * log(exp(beta*x) + 1)``;
    CLIP ``max(alpha, min(beta, x))``; HARD_SIGMOID ``max(0, min(1, alpha*x + beta))``;
    SCALED_TANH ``alpha * tanh(beta*x)``; THRESHOLDED_RELU ``x if x > alpha else 0``. The others
    (RELU, SIGMOID, TANH, SOFTSIGN, GELU_ERF, GELU_TANH) take none. ``x`` is floating-point; RELU takes integers too.

    >>> activation(net.input("x", (2, 3)), "LEAKY_RELU", alpha=0.1).shape
    (2, 3)
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


_EVALUATE = {
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
_EXACT = ("RELU", "CLIP", "THRESHOLDED_RELU")  # select one of their operands: nothing is rounded


PARAMETERS = {
    "alpha": {"LEAKY_RELU", "ELU", "SELU", "SOFTPLUS", "CLIP", "HARD_SIGMOID", "SCALED_TANH", "THRESHOLDED_RELU"},
    "beta": {"SELU", "SOFTPLUS", "CLIP", "HARD_SIGMOID", "SCALED_TANH"},
}
"""The kinds that use a parameter."""

MISTAKES = Mistakes(
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


@evaluates("ACTIVATION", category="activation", flops=1, mistakes=MISTAKES)
def _activation(node: Node) -> Evaluate:
    """The formulas of ActivationType, of half types with each step rounded to the type: GELU of float16 is infinite
    where twice its operand is. RELU lets NaN pass; CLIP of float32 makes it a bound. Of int8 TensorRT takes every type;
    only those that select one of their operands, with parameters that int8 has, are known.
    """
    name, alpha, beta = node.layer.type.name, node.number("alpha"), node.number("beta")
    evaluate = node.pick(_EVALUATE, name, "activation")
    if node.dtype == torch.int8:
        if name not in _EXACT or (
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
