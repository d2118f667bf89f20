"""ACTIVATION and PARAMETRIC_RELU: the activations that TensorRT has a layer for."""

from __future__ import annotations

import math

from ..core.lazy import torch
from ..definition.operation import operation
from ..definition.tensor import Tensor
from .base import add_layer, member
from .evaluation import Evaluate, Node, evaluates


@operation
def activation(x: Tensor, type: str, alpha: float | None = None, beta: float | None = None) -> Tensor:
    """One IActivationLayer.

    ``type`` is a member of ``trt.ActivationType``. Those with parameters:
    LEAKY_RELU ``x if x >= 0 else alpha*x``; ELU ``x if x >= 0 else alpha*(exp(x) - 1)``;
    SELU ``beta * (x if x > 0 else alpha*exp(x) - alpha)``; SOFTPLUS ``alpha * log(exp(beta*x) + 1)``;
    CLIP ``max(alpha, min(beta, x))``; HARD_SIGMOID ``max(0, min(1, alpha*x + beta))``;
    SCALED_TANH ``alpha * tanh(beta*x)``; THRESHOLDED_RELU ``x if x > alpha else 0``. The others
    (RELU, SIGMOID, TANH, SOFTSIGN, GELU_ERF, GELU_TANH) take none. ``x`` is floating-point; RELU takes integers too.

    >>> activation(td.Network().input("x", (2, 3)), "LEAKY_RELU", alpha=0.1).shape
    (2, 3)
    """

    def add(target, x):
        layer = target.definition.add_activation(x, member(target.trt.ActivationType, type, "activation"))
        if layer is not None:
            if alpha is not None:
                target.set_number(layer, "alpha", alpha)
            if beta is not None:
                target.set_number(layer, "beta", beta)
        return layer

    return add_layer(add, x, shape=x.shape, order="kept")


# Each formula is computed in one buffer of its own, the result's.


def _chosen(x: torch.Tensor, condition: torch.Tensor, otherwise: torch.Tensor) -> torch.Tensor:
    """``x`` where the condition holds, written into ``otherwise``."""
    return torch.where(condition, x, otherwise, out=otherwise)


def _gelu_erf(x: torch.Tensor, alpha: float, beta: float) -> torch.Tensor:
    return (x * math.sqrt(0.5)).erf_().add_(1).mul_(x).mul_(0.5)


def _gelu_tanh(x: torch.Tensor, alpha: float, beta: float) -> torch.Tensor:
    inner = (x * x).mul_(0.044715).add_(1).mul_(x).mul_(math.sqrt(2 / math.pi))
    return inner.tanh_().add_(1).mul_(x).mul_(0.5)


def _selu(x: torch.Tensor, alpha: float, beta: float) -> torch.Tensor:
    return _chosen(x, x > 0, torch.expm1(x).mul_(alpha)).mul_(beta)


def _softplus(x: torch.Tensor, alpha: float, beta: float) -> torch.Tensor:
    # max(0, bx) + log1p(exp(-|bx|)): the same function without overflow.
    rest = (beta * x).abs_().neg_().exp_().log1p_()
    return (beta * x).clamp_(min=0).add_(rest).mul_(alpha)


_EVALUATE = {
    "RELU": lambda x, alpha, beta: torch.where(x < 0, 0, x) if not x.dtype.is_floating_point else torch.relu(x),
    "SIGMOID": lambda x, alpha, beta: torch.sigmoid(x),
    "TANH": lambda x, alpha, beta: torch.tanh(x),
    "LEAKY_RELU": lambda x, alpha, beta: _chosen(x, x >= 0, alpha * x),
    "ELU": lambda x, alpha, beta: _chosen(x, x >= 0, torch.expm1(x).mul_(alpha)),
    "SELU": _selu,
    "SOFTSIGN": lambda x, alpha, beta: x / x.abs().add_(1),
    "SOFTPLUS": _softplus,
    "CLIP": lambda x, alpha, beta: x.clamp(max=beta).clamp_(min=alpha),
    "HARD_SIGMOID": lambda x, alpha, beta: (alpha * x).add_(beta).clamp_(0, 1),
    "SCALED_TANH": lambda x, alpha, beta: (beta * x).tanh_().mul_(alpha),
    "THRESHOLDED_RELU": lambda x, alpha, beta: torch.where(x > alpha, x, 0),
    "GELU_ERF": _gelu_erf,
    "GELU_TANH": _gelu_tanh,
}
_EXACT = ("RELU", "CLIP", "THRESHOLDED_RELU")  # select one of their operands: nothing is rounded


def _is_int8(value: float) -> bool:
    return value.is_integer() and -128 <= value <= 127


@evaluates("ACTIVATION", flops=1)
def _activation(node: Node) -> Evaluate:
    """The formulas of ActivationType, in float32 for the half types, rounded once. RELU lets NaN pass. Of int8 TensorRT
    takes every type; only those that select one of their operands, with parameters that int8 has, are known.
    """
    name, alpha, beta = node.layer.type.name, node.number("alpha"), node.number("beta")
    evaluate = node.pick(_EVALUATE, name, "activation")
    if node.dtype == torch.int8:
        if name not in _EXACT or (name != "RELU" and not all(_is_int8(value) for value in (alpha, beta))):
            raise node.unsupported(f"{name} of int8 with alpha {alpha:g} and beta {beta:g}")
        alpha, beta = int(alpha), int(beta)
    if node.dtype in (torch.float16, torch.bfloat16) and name not in _EXACT:  # computed in float32, rounded once
        return lambda x: evaluate(x.float(), alpha, beta).to(x.dtype)
    return lambda x: evaluate(x, alpha, beta)


@operation
def parametric_relu(x: Tensor, slope: Tensor) -> Tensor:
    """``x if x >= 0 else slope * x``, with ``slope`` broadcast to ``x``: one IParametricReLULayer.

    Both have one rank and one floating-point dtype.

    >>> net = td.Network()
    >>> parametric_relu(net.input("x", (2, 3, 4)), net.constant(torch.ones(1, 3, 1))).shape
    (2, 3, 4)
    """
    return add_layer(
        lambda target, x, slope: target.definition.add_parametric_relu(x, slope), x, slope, shape=x.shape, order="kept"
    )


@evaluates("PARAMETRIC_RELU", flops=2)
def _parametric_relu(node: Node) -> Evaluate:
    """``x if x >= 0 else slope * x``; NaN stays NaN."""
    return lambda x, slope: _chosen(x, x >= 0, slope * x)
