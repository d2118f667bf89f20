"""torch.nn.functional's activations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.errors import DefinitionError, ShapeError, UnsupportedError
from ...core.lazy import torch
from ...definition.operation import operation
from ..common import MAX_DIMS, L, Tensor, is_low, lowered, require_floats, require_one_of, require_rank, shape_text, way
from ..family import family, prepared
from ..operands import axis_of, binary, choose, floating, in_float32, scaled, sum_in_float32, with_dimension
from ..products.folding import is_linear, monotone, product_of
from ..shaping.join import chunk
from .arithmetic import clamp


def _refuse_inplace(inplace: bool) -> None:
    if inplace:
        raise UnsupportedError("inplace=True: tensors of a network are values; leave it out and use the result")


def _of_floats(compute: Callable[[Tensor], Tensor], input: Tensor) -> Tensor:
    """``compute`` of floating-point numbers, which integers become first."""
    return compute(floating(input))


sigmoid, tanh, softsign, logsigmoid, tanhshrink = family(
    _of_floats,
    sigmoid=(lambda x: L.activation(x, "SIGMOID"), "``1 / (1 + exp(-input))``: IActivationLayer SIGMOID."),
    tanh=(lambda x: L.activation(x, "TANH"), "The hyperbolic tangent: IActivationLayer TANH."),
    softsign=(lambda x: L.activation(x, "SOFTSIGN"), "``input / (1 + |input|)``: IActivationLayer SOFTSIGN."),
    logsigmoid=(
        lambda x: -L.activation(-x, "SOFTPLUS", alpha=1.0, beta=1.0),
        "``log(sigmoid(input))`` without underflow: ``-softplus(-input)``: IUnaryLayer NEG, IActivationLayer SOFTPLUS.",
    ),
    tanhshrink=(
        lambda x: x - L.activation(x, "TANH"),
        "``input - tanh(input)``: IActivationLayer TANH and IElementWiseLayer SUB.",
    ),
)


def _with_inplace(compute: Callable[[Tensor], Tensor], input: Tensor, inplace: bool = False) -> Tensor:
    _refuse_inplace(inplace)
    return compute(input)


@prepared(_with_inplace)
def hardsigmoid(x: Tensor) -> Tensor:
    """``min(max(input / 6 + 1 / 2, 0), 1)``: IActivationLayer HARD_SIGMOID; in half precision CLIP, to keep NaN."""
    if is_low(x):
        return clamp(x * (1 / 6) + 0.5, 0.0, 1.0)
    return L.activation(x, "HARD_SIGMOID", alpha=1 / 6, beta=0.5)


@prepared(_with_inplace)
def mish(x: Tensor) -> Tensor:
    """``input * tanh(softplus(input))``: IActivationLayer SOFTPLUS and TANH, IElementWiseLayers; of a product, EXP."""
    if product_of(x) is not None:
        return mish_of_product(x)
    return x * L.activation(L.activation(x, "SOFTPLUS", alpha=1.0, beta=1.0), "TANH")


def mish_of_product(x: Tensor) -> Tensor:
    """``(x * n) / (n + 2)`` for ``n = exp(x) * (exp(x) + 2)`` in float32, which the builder makes part of a product.

    The factor of what is greater than 15 is 1 - 2e-13; what is greater than 3e25 becomes infinite.
    """
    wide = L.cast(x, torch.float32)
    powers = L.unary(binary(wide, 15.0, "MIN", torch.float32), "EXP")
    n = powers * (powers + 2.0)
    return _rounded(wide * n / (n + 2.0), x.dtype)


relu, relu6, hardswish, selu = family(
    _with_inplace,
    relu=(
        lambda x: monotone(x, lambda x: L.activation(x, "RELU")),
        "``max(input, 0)``: IActivationLayer RELU, before a max_pool of a convolution, where it costs nothing.",
    ),
    relu6=(lambda x: hardtanh(x, 0.0, 6.0), "``input`` between 0 and 6: IActivationLayer CLIP."),
    hardswish=(
        lambda x: x * hardsigmoid(x),
        "``input * hardsigmoid(input)``: IActivationLayer HARD_SIGMOID and IElementWiseLayer PROD.",
    ),
    selu=(
        lambda x: L.activation(x, "SELU", alpha=1.6732632423543772, beta=1.0507009873554805),
        "``scale * (max(0, input) + min(0, alpha * (exp(input) - 1)))`` with SELU's constants: IActivationLayer SELU.",
    ),
)


@operation
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """``input`` where positive, ``negative_slope * input`` elsewhere: IActivationLayer LEAKY_RELU, or RELU for 0."""
    _refuse_inplace(inplace)
    if negative_slope == 0:  # LEAKY_RELU gives NaN for infinity then
        return L.activation(input, "RELU")
    return L.activation(input, "LEAKY_RELU", alpha=negative_slope)


@operation
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``input`` where positive, ``alpha * (exp(input) - 1)`` elsewhere: IActivationLayer ELU."""
    _refuse_inplace(inplace)
    return L.activation(input, "ELU", alpha=alpha)


@operation
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """``input * Phi(input)``: IActivationLayer GELU_ERF, or GELU_TANH for ``approximate="tanh"``.

    Half precision takes it in float32, as torch does: the layer itself gives infinity for half of the greatest float16;
    IActivationLayer LEAKY_RELU of slope 1 follows.
    """
    require_one_of("gelu: approximate", approximate, ("none", "tanh"))
    wide = L.cast(input, torch.float32) if is_low(input) else input
    return _rounded(L.activation(wide, "GELU_ERF" if approximate == "none" else "GELU_TANH"), input.dtype)


def _rounded(wide: Tensor, dtype: torch.dtype) -> Tensor:
    """What is computed in float32 in ``dtype``, by a layer in that dtype at last, which changes nothing.

    A linear product's result of three dimensions is reshaped in a second launch where an output or a sum reads it. The
    builder begins that launch at the last layer, and would hand over float32 where it is the cast.
    """
    return wide if dtype == wide.dtype else L.activation(L.cast(wide, dtype), "LEAKY_RELU", alpha=1.0)


@operation
def silu(input: Tensor, inplace: bool = False, *, lowering: str = "auto") -> Tensor:
    """``input * sigmoid(input)``: IActivationLayer SIGMOID and IElementWiseLayer PROD.

    They are in the dtype of ``input``, which the builder makes part of a group norm too; after a convolution in
    float32, so that half precision is rounded once, as torch does (``lowering="float32"``). The result of F.linear
    becomes ``input / (1 + exp(-input))`` in float32 (``lowering="exp"``): IUnaryLayers NEG and EXP, IElementWiseLayers
    SUM and DIV, which the builder makes part of a matrix product.
    """
    _refuse_inplace(inplace)
    require_floats("silu takes", input)
    return lowered("silu", lowering, input, default=silu_of(input))


def silu_of(x: Tensor) -> str:
    """The way that serves best, by what gives ``x``."""
    return "exp" if is_linear(x) else "sigmoid" if product_of(x) is None else "float32"


@way("silu", "sigmoid", "x * sigmoid(x), which the builder makes part of a convolution or a group norm")
def _silu_by_sigmoid(x: Tensor) -> Tensor:
    return x * L.activation(x, "SIGMOID")


@way("silu", "exp", "x / (1 + exp(-x)) in float32, which the builder makes part of a matrix product")
def _silu_by_exp(x: Tensor) -> Tensor:
    wide = L.cast(x, torch.float32)  # exp(12) is beyond float16
    return _rounded(wide / (L.unary(-wide, "EXP") + 1.0), x.dtype)


@way("silu", "float32", "x * sigmoid(x) in float32, rounded once")
def _silu_in_float32(x: Tensor) -> Tensor:
    return L.cast(_silu_by_sigmoid(L.cast(x, torch.float32)), x.dtype)


@operation
def softplus(input: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """``log(1 + exp(beta * input)) / beta``, and ``input`` where ``beta * input > threshold``.

    IActivationLayer SOFTPLUS; the comparison with the threshold, IElementWiseLayer GREATER and ISelectLayer.
    """
    smooth = L.activation(input, "SOFTPLUS", alpha=1 / beta, beta=beta)
    return L.select(scaled(input, beta) > threshold, input, smooth)


@operation
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """``input`` between ``min_val`` and ``max_val``: IActivationLayer CLIP."""
    _refuse_inplace(inplace)
    if min_val > max_val:
        raise DefinitionError(f"hardtanh: min_val {min_val} is greater than max_val {max_val}")
    if not input.dtype.is_floating_point:
        min_val, max_val = int(min_val), int(max_val)  # as torch has it
    return clamp(input, min_val, max_val)


@operation
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``max(0, input) + min(0, alpha * (exp(input / alpha) - 1))``: IActivationLayer ELU between two scalings.

    Half precision is computed in float32, since ``input / alpha`` may be beyond it.
    """
    _refuse_inplace(inplace)
    if alpha == 0:
        raise DefinitionError("celu: alpha must not be 0")
    return in_float32(lambda x: scaled(L.activation(scaled(x, 1 / alpha), "ELU", alpha=1.0), alpha), input)


@operation
def prelu(input: Tensor, weight: Tensor, *, lowering: str = "auto") -> Tensor:
    """``input`` where positive, ``weight * input`` elsewhere, one weight or one per channel of dimension 1.

    ``lowering="fused"``, the default, is ``relu(input) + weight * min(input, 0)``: IActivationLayer RELU,
    IElementWiseLayers MIN, PROD and SUM, which the builder makes part of the convolution before them; ``"layer"`` is
    IParametricReLULayer, which it runs on its own.
    """
    require_rank(weight, "prelu takes one weight or one per channel", 0, 1)
    if weight.numel() != 1 and weight.shape != input.shape[1:2]:
        raise ShapeError(f"prelu: {shape_text(weight.shape)} is no weight per channel of {shape_text(input.shape)}")
    shape = [1 if axis != 1 else weight.numel() for axis in range(input.ndim)]
    return lowered("prelu", lowering, input, slope=L.shuffle(weight, reshape=shape))


@way("prelu", "fused", "relu(x) + weight * min(x, 0), which the builder makes part of a convolution")
def _prelu_fused(x: Tensor, slope: Tensor) -> Tensor:
    negative = slope * binary(x, 0.0, "MIN", x.dtype)
    return L.activation(x, "RELU") + negative


way("prelu", "layer", "IParametricReLULayer")(L.parametric_relu)


@operation
def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """``input`` where positive, ``(lower + upper) / 2 * input`` elsewhere: IActivationLayer LEAKY_RELU.

    ``training=True``, with random slopes, is refused.
    """
    if training:
        raise UnsupportedError("rrelu(training=True) is random: an engine is for inference")
    return leaky_relu(input, (lower + upper) / 2, inplace)


@operation
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """``input`` where ``|input| > lambd``, else 0: IUnaryLayer ABS, IElementWiseLayer GREATER, ISelectLayer."""
    return choose(abs(input) > lambd, input, 0, input.dtype)


@operation
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """``input`` drawn towards 0 by ``lambd``, to 0 at most: IActivationLayer CLIP and IElementWiseLayer SUB."""
    if lambd < 0:
        raise DefinitionError(f"softshrink: lambd must not be negative: {lambd}")
    return input - L.activation(input, "CLIP", alpha=-lambd, beta=lambd)


@operation
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """``input`` where it is above ``threshold``, ``value`` elsewhere: IElementWiseLayer GREATER and ISelectLayer."""
    _refuse_inplace(inplace)
    return choose(input > threshold, input, value, input.dtype)


@operation
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """One half of ``dim`` times the sigmoid of the other: ISliceLayers, IActivationLayer SIGMOID, IElementWiseLayer."""
    require_rank(input, "glu takes one dimension at least", 1, MAX_DIMS)
    axis = axis_of(dim, input.ndim)
    if input.shape[axis] % 2 != 0:
        raise ShapeError(f"glu: dimension {dim} of {shape_text(input.shape)} does not divide into halves")
    first, second = chunk(input, 2, axis)
    return first * L.activation(second, "SIGMOID")


def _over_dim(
    compute: Callable[[Tensor, int], Tensor],
    input: Tensor,
    dim: int | None = None,
    _stacklevel: int = 3,
    dtype: Any = None,
) -> Tensor:
    if dim is None:
        raise UnsupportedError("softmax: give dim (torch guesses one, and has deprecated that)")
    return compute(input if dtype is None else L.cast(input, dtype), dim)


@prepared(_over_dim)
def softmax(x: Tensor, dim: int) -> Tensor:
    """``exp(input) / sum(exp(input))`` over ``dim``: ISoftMaxLayer."""
    axis = axis_of(dim, x.ndim)
    if x.numel() == 0:
        return x
    if x.ndim < 2:  # ISoftMaxLayer has two dimensions at least
        return L.shuffle(L.softmax(L.shuffle(x, reshape=(1, x.numel())), 1), reshape=x.shape)
    return L.softmax(x, axis)


@prepared(_over_dim)
def softmin(x: Tensor, dim: int) -> Tensor:
    """:func:`softmax` of ``-input``: IUnaryLayer NEG and ISoftMaxLayer."""
    return softmax(L.unary(x, "NEG"), dim)


@prepared(_over_dim)
def log_softmax(x: Tensor, dim: int) -> Tensor:
    """``input - logsumexp(input)`` over ``dim``, exact also where the softmax itself underflows.

    IReduceLayer MAX and SUM, IElementWiseLayer SUB, IUnaryLayer EXP and LOG.
    """

    def compute(x: Tensor) -> Tensor:
        axis = axis_of(dim, x.ndim)
        if x.shape[axis] == 0:
            return x
        centred = x - L.reduce(x, "MAX", [axis], True)
        return centred - L.unary(L.reduce(L.unary(centred, "EXP"), "SUM", [axis], True), "LOG")

    return sum_in_float32(lambda x: with_dimension(x, compute), floating(x), [dim])


def _dropout(name: str, input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    _refuse_inplace(inplace)
    if not 0 <= p <= 1:
        raise UnsupportedError(f"{name}: p is a probability, not {p}")
    if training and p == 1:
        return scaled(input, 0)  # nothing is left, at random or not
    if training and p:
        raise UnsupportedError(f"{name}(training=True): an engine is for inference; leave training out")
    return input


dropout, dropout1d, dropout2d, dropout3d, alpha_dropout, feature_alpha_dropout = family(
    _dropout,
    """``input`` itself: an engine is for inference.

    ``training=True``, the default in torch, is refused unless p is 0 or 1, which leave nothing to chance.
    """,
    dropout=("dropout", ""),
    dropout1d=("dropout1d", ""),
    dropout2d=("dropout2d", ""),
    dropout3d=("dropout3d", ""),
    alpha_dropout=("alpha_dropout", ""),
    feature_alpha_dropout=("feature_alpha_dropout", ""),
)
