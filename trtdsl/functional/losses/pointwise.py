"""Losses of one element each, reduced over all of them."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

from ... import layers as L
from ...core.errors import DefinitionError
from ...definition.operation import operation
from ...definition.tensor import Tensor
from ..family import family
from ..operands import binary, promote
from ..pointwise.activation import logsigmoid
from ..pointwise.arithmetic import add, clamp, div, mul, sub, xlogy
from ..pointwise.elementary import abs, exp, log, log1p, square
from ..pointwise.logic import gt, le, lt, where
from ..products.distances import pairwise_distance
from ..reducing.reduction import mean, sum
from ..shaping.create import full_like


def reduction_of(reduction: str, size_average: bool | None, reduce: bool | None) -> str:
    """``reduction``, or what torch's older pair of flags says instead."""
    if size_average is None and reduce is None:
        return reduction
    return "none" if reduce is False else "sum" if size_average is False else "mean"


def reduced(loss: Tensor, reduction: str, size_average: bool | None = None, reduce: bool | None = None) -> Tensor:
    """The loss as ``reduction`` says: ``"none"``, ``"mean"`` or ``"sum"``."""
    reduction = reduction_of(reduction, size_average, reduce)
    if reduction not in ("none", "mean", "sum"):
        raise DefinitionError(f"reduction is 'none', 'mean' or 'sum', not {reduction!r}")
    return loss if reduction == "none" else mean(loss) if reduction == "mean" else sum(loss)


def weighted(loss: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """The loss times ``weight``, its mean divided by the sum of the weights."""
    if weight is None:
        return reduced(loss, reduction)
    total = reduced(mul(loss, weight), "sum" if reduction == "mean" else reduction)
    return div(total, sum(weight)) if reduction == "mean" else total


def _of_difference(
    function: Callable[[Tensor], Tensor],
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    loss = function(sub(input, target))
    return reduced(loss, reduction, size_average, reduce) if weight is None else weighted(loss, weight, reduction)


l1_loss, mse_loss = family(
    _of_difference,
    l1_loss=(
        abs,
        """``|input - target|``: IElementWiseLayer SUB, IUnaryLayer ABS; IReduceLayer unless ``reduction="none"``.

        >>> net = td.Network()
        >>> F.l1_loss(net.input("x", ("N", 3)), net.input("y", ("N", 3))).shape
        ()
        """,
    ),
    mse_loss=(
        square,
        """``(input - target)²``: IElementWiseLayer SUB and PROD; IReduceLayer unless ``reduction="none"``.

        >>> net = td.Network()
        >>> F.mse_loss(net.input("x", ("N", 3)), net.input("y", ("N", 3)), reduction="none").shape
        (N, 3)
        """,
    ),
)


@operation
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """A parabola below ``beta``, a line above: the layers of :func:`l1_loss`, IElementWiseLayers and ISelectLayer.

    >>> net = td.Network()
    >>> F.smooth_l1_loss(net.input("x", ("N", 3)), net.input("y", ("N", 3))).shape
    ()
    """
    if beta < 0:
        raise DefinitionError(f"smooth_l1_loss: beta must not be negative, not {beta}")
    distance = abs(sub(input, target))
    if beta > 0:
        curved = mul(square(distance), 0.5 / beta)
        distance = where(lt(distance, beta), curved, sub(distance, 0.5 * beta))
    return reduced(distance, reduction, size_average, reduce)


@operation
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """A parabola up to ``delta``, a line above, as :func:`smooth_l1_loss` times ``delta``.

    >>> net = td.Network()
    >>> F.huber_loss(net.input("x", ("N", 3)), net.input("y", ("N", 3))).shape
    ()
    """
    if delta <= 0:
        raise DefinitionError(f"huber_loss: delta must be positive, not {delta}")
    distance = abs(sub(input, target))
    curved = mul(square(distance), 0.5)
    loss = where(le(distance, delta), curved, mul(sub(distance, 0.5 * delta), delta))
    return weighted(loss, weight, reduction)


@operation
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """``target * (log(target) - input)``, with ``input`` a logarithm: the layers of :func:`xlogy`, of :func:`exp`.

    ``reduction="batchmean"`` divides the sum by the first size.

    >>> net = td.Network()
    >>> F.kl_div(net.input("x", ("N", 3)), net.input("y", ("N", 3)), reduction="batchmean").shape
    ()
    """
    if log_target:
        loss = mul(exp(target), sub(target, input))
    else:
        loss = sub(xlogy(target, target), mul(target, input))
    if reduction == "batchmean" and size_average is None and reduce is None:
        total = sum(loss)
        return div(total, loss.shape[0]) if loss.ndim else total
    return reduced(loss, reduction, size_average, reduce)


@operation
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``-(y log(x) + (1 - y) log(1 - x))``, logarithms at least -100: IUnaryLayers, IElementWiseLayers.

    >>> net = td.Network()
    >>> F.binary_cross_entropy(net.input("x", ("N",)), net.input("y", ("N",))).shape
    ()
    """
    hit, miss = clamp(log(input), min=-100.0), clamp(log1p(-input), min=-100.0)
    loss = sub(mul(sub(target, 1), miss), mul(target, hit))
    return reduced(loss if weight is None else mul(loss, weight), reduction, size_average, reduce)


@operation
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """:func:`binary_cross_entropy` of ``sigmoid(input)`` without overflow: the layers of :func:`logsigmoid`.

    >>> net = td.Network()
    >>> F.binary_cross_entropy_with_logits(net.input("x", ("N",)), net.input("y", ("N",))).shape
    ()
    """
    hit = logsigmoid(input)
    if pos_weight is not None:
        hit = mul(hit, add(mul(sub(pos_weight, 1), target), 1))
    loss = sub(mul(sub(1, target), input), hit)
    return reduced(loss if weight is None else mul(loss, weight), reduction, size_average, reduce)


@operation
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``exp(x) - y x``, or ``x - y log(x + eps)``; ``full`` adds Stirling's terms for y above 1.

    IUnaryLayers, IElementWiseLayers, ISelectLayer.

    >>> net = td.Network()
    >>> F.poisson_nll_loss(net.input("x", ("N",)), net.input("y", ("N",))).shape
    ()
    """
    if log_input:
        loss = sub(exp(input), mul(target, input))
    else:
        loss = sub(input, mul(target, log(add(input, eps))))
    if full:
        stirling = add(sub(mul(target, log(target)), target), mul(log(mul(target, 2 * math.pi)), 0.5))
        loss = add(loss, where(gt(target, 1), stirling, 0.0))
    return reduced(loss, reduction, size_average, reduce)


@operation
def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """``(log(v) + (x - y)² / v) / 2`` with v at least ``eps``; ``full`` adds ``log(2π) / 2``.

    IUnaryLayers, IElementWiseLayers.

    >>> net = td.Network()
    >>> F.gaussian_nll_loss(net.input("x", ("N", 3)), net.input("y", ("N", 3)), net.input("v", ("N", 1))).shape
    ()
    """
    if isinstance(var, Tensor) and var.ndim == input.ndim - 1 and var.shape == input.shape[:-1]:
        var = L.unsqueeze(var, [var.ndim])
    spread = clamp(var, min=eps) if isinstance(var, Tensor) else full_like(input, builtins.max(var, eps))
    loss = mul(add(log(spread), div(square(sub(input, target)), spread)), 0.5)
    return reduced(add(loss, 0.5 * math.log(2 * math.pi)) if full else loss, reduction)


@operation
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``input`` where ``target`` is 1, ``max(0, margin - input)`` where it is -1: ISelectLayers, IElementWiseLayers.

    >>> net = td.Network()
    >>> F.hinge_embedding_loss(net.input("x", ("N",)), net.input("y", ("N",))).shape
    ()
    """
    apart = where(binary(target, 1, "EQUAL"), 0.0, clamp(sub(margin, input), min=0.0))
    near = where(binary(target, -1, "EQUAL"), 0.0, input)
    return reduced(add(apart, near), reduction, size_average, reduce)


@operation
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, -y (x1 - x2) + margin)``: IElementWiseLayers.

    >>> net = td.Network()
    >>> F.margin_ranking_loss(net.input("a", ("N",)), net.input("b", ("N",)), net.input("y", ("N",))).shape
    ()
    """
    loss = clamp(add(mul(sub(input2, input1), target), margin), min=0)
    return reduced(loss, reduction, size_average, reduce)


@operation
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``log(1 + exp(-y x))``: IUnaryLayers, IElementWiseLayers.

    >>> net = td.Network()
    >>> F.soft_margin_loss(net.input("x", ("N", 3)), net.input("y", ("N", 3))).shape
    ()
    """
    return reduced(log1p(exp(mul(-input, target))), reduction, size_average, reduce)


@operation
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``1 - cos`` where ``target`` is 1, ``max(0, cos - margin)`` where it is -1: IReduceLayers, IElementWiseLayers.

    >>> net = td.Network()
    >>> a, b = net.input("a", ("N", 8)), net.input("b", ("N", 8))
    >>> F.cosine_embedding_loss(a, b, net.input("y", ("N",)), reduction="none").shape
    (N,)
    """
    a, b = promote(input1, input2)
    tiny = 1e-12  # torch's own, in cosine_embedding_loss of its C++ sources

    def dot(x: Tensor, y: Tensor) -> Tensor:
        return sum(mul(x, y), -1)

    cosine = div(dot(a, b), L.unary(mul(add(dot(a, a), tiny), add(dot(b, b), tiny)), "SQRT"))
    same = where(binary(target, 1, "EQUAL"), sub(1, cosine), 0.0)
    other = where(binary(target, -1, "EQUAL"), clamp(sub(cosine, margin), min=0.0), 0.0)
    return reduced(add(same, other), reduction, size_average, reduce)


@operation
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, |a - p| - |a - n| + margin)``: the layers of :func:`pairwise_distance`, IElementWiseLayers.

    ``swap`` takes the lesser of ``|a - n|`` and ``|p - n|``.

    >>> net = td.Network()
    >>> F.triplet_margin_loss(*(net.input(name, ("N", 8)) for name in "apn")).shape
    ()
    """
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = binary(far, pairwise_distance(positive, negative, p, eps), "MIN")
    return reduced(clamp(add(sub(near, far), margin), min=0.0), reduction, size_average, reduce)
