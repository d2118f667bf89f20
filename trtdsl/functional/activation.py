"""torch.nn.functional's activations."""

from __future__ import annotations

from typing import Any

from .. import layers as L
from ..errors import UnsupportedError
from ..network import operation
from ..tensor import Tensor
from .operands import as_tensor, floating, normalize_axis, promote


def _refuse_inplace(inplace: bool) -> None:
    if inplace:
        raise UnsupportedError("inplace=True: tensors of a network are values; leave it out and use the result")


@operation
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """``max(input, 0)``: IActivationLayer RELU.

    >>> F.relu(td.Network().input("x", (2, 3))).shape
    (2, 3)
    """
    _refuse_inplace(inplace)
    return L.activation(input, "RELU")


@operation
def sigmoid(input: Tensor) -> Tensor:
    """``1 / (1 + exp(-input))``: IActivationLayer SIGMOID; integers become float32 first.

    >>> F.sigmoid(td.Network().input("x", (2, 3))).shape
    (2, 3)
    """
    return L.activation(floating(input), "SIGMOID")


@operation
def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent: IActivationLayer TANH; integers become float32 first.

    >>> F.tanh(td.Network().input("x", (2, 3))).shape
    (2, 3)
    """
    return L.activation(floating(input), "TANH")


@operation
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """``input`` where positive, ``negative_slope * input`` elsewhere: IActivationLayer LEAKY_RELU.

    >>> F.leaky_relu(td.Network().input("x", (2, 3)), 0.2).shape
    (2, 3)
    """
    _refuse_inplace(inplace)
    return L.activation(input, "LEAKY_RELU", alpha=negative_slope)


@operation
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``input`` where positive, ``alpha * (exp(input) - 1)`` elsewhere: IActivationLayer ELU.

    >>> F.elu(td.Network().input("x", (2, 3)), 0.5).shape
    (2, 3)
    """
    _refuse_inplace(inplace)
    return L.activation(input, "ELU", alpha=alpha)


@operation
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """``input * Phi(input)``: IActivationLayer GELU_ERF, or GELU_TANH for ``approximate="tanh"``.

    >>> F.gelu(td.Network().input("x", (2, 3)), approximate="tanh").shape
    (2, 3)
    """
    if approximate not in ("none", "tanh"):
        raise UnsupportedError(f"gelu: approximate is 'none' or 'tanh', not {approximate!r}")
    return L.activation(input, "GELU_ERF" if approximate == "none" else "GELU_TANH")


@operation
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * sigmoid(input)``: IActivationLayer SIGMOID and IElementWiseLayer PROD.

    >>> F.silu(td.Network().input("x", (2, 3))).shape
    (2, 3)
    """
    _refuse_inplace(inplace)
    return L.elementwise(input, L.activation(input, "SIGMOID"), "PROD")


@operation
def softplus(input: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """``log(1 + exp(beta * input)) / beta``, and ``input`` where ``beta * input > threshold``.

    IActivationLayer SOFTPLUS; the comparison with the threshold, IElementWiseLayer GREATER and ISelectLayer.

    >>> F.softplus(td.Network().input("x", (2, 3))).shape
    (2, 3)
    """
    smooth = L.activation(input, "SOFTPLUS", alpha=1 / beta, beta=beta)
    scaled = input if beta == 1 else L.elementwise(*promote(input, beta, dtype=input.dtype), "PROD")
    linear = L.elementwise(*promote(scaled, threshold, dtype=input.dtype), "GREATER")
    return L.select(linear, input, smooth)


@operation
def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """``exp(input) / sum(exp(input))`` over ``dim``: ISoftMaxLayer.

    >>> F.softmax(td.Network().input("x", (2, 3)), dim=-1).shape
    (2, 3)
    """
    if dim is None:
        raise UnsupportedError("softmax: give dim (torch guesses one, and has deprecated that)")
    if dtype is not None:
        input = L.cast(input, dtype)
    if input.ndim == 0:
        return as_tensor(1.0, input.network, input.dtype)
    return L.softmax(input, normalize_axis(dim, input.ndim))


@operation
def dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """``input`` itself: an engine is for inference. ``training=True`` is refused; it is the default in torch.

    >>> F.dropout(td.Network().input("x", (2, 3)), 0.5).name
    'x'
    """
    if training:
        raise UnsupportedError("dropout(training=True): an engine is for inference; leave training out")
    _refuse_inplace(inplace)
    if not 0 <= p <= 1:
        raise UnsupportedError(f"dropout: p is a probability, not {p}")
    return input
