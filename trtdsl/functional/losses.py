"""Losses, for networks that give one as an output or use one inside."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

from .common import DefinitionError, L, ShapeError, Tensor, UnsupportedError, operation, product, shape_text, torch
from .family import family, finished
from .operands import binary, choose, on_axis, promote
from .pointwise.activation import log_softmax, logsigmoid
from .pointwise.arithmetic import add, clamp, div, mul, sub, xlogy
from .pointwise.arithmetic import pow as power
from .pointwise.elementary import abs, exp, log, log1p, square
from .pointwise.logic import gt, le, lt, where
from .products.distances import pairwise_distance
from .reducing.reduction import mean, sum
from .shaping.create import counted, full_like

Flag = bool | None  # torch's older pair of flags says what ``reduction`` says


def reduction_of(reduction: str, size_average: Flag, reduce: Flag) -> str:
    """``reduction``, or what torch's older pair of flags says instead."""
    if size_average is None and reduce is None:
        return reduction
    return "none" if reduce is False else "sum" if size_average is False else "mean"


def reduced(loss: Tensor, size_average: Flag = None, reduce: Flag = None, reduction: str = "mean") -> Tensor:
    """The loss as ``reduction`` says: ``"none"``, ``"mean"`` or ``"sum"``."""
    reduction = reduction_of(reduction, size_average, reduce)
    if reduction not in ("none", "mean", "sum"):
        raise DefinitionError(f"reduction is 'none', 'mean' or 'sum', not {reduction!r}")
    return loss if reduction == "none" else mean(loss) if reduction == "mean" else sum(loss)


def weighted(loss: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """The loss times ``weight``, its mean divided by the sum of the weights."""
    if weight is None:
        return reduced(loss, reduction=reduction)
    total = reduced(mul(loss, weight), reduction="sum" if reduction == "mean" else reduction)
    return div(total, sum(weight)) if reduction == "mean" else total


# -- of two tensors, element by element --------------------------------------------------------------------------------


def _of_difference(
    function: Callable[[Tensor], Tensor],
    input: Tensor,
    target: Tensor,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    loss = function(sub(input, target))
    return reduced(loss, size_average, reduce, reduction) if weight is None else weighted(loss, weight, reduction)


l1_loss, mse_loss = family(
    _of_difference,
    """{}; IReduceLayer unless ``reduction="none"``.

    >>> F.{name}(net.input("x", ("N", 3)), net.input("y", ("N", 3)), reduction="none").shape
    (N, 3)
    """,
    l1_loss=(abs, "``|input - target|``: IElementWiseLayer SUB, IUnaryLayer ABS"),
    mse_loss=(square, "``(input - target)²``: IElementWiseLayer SUB and PROD"),
)


@operation
@finished(reduced, after="target")
def smooth_l1_loss(input: Tensor, target: Tensor, beta: float = 1.0) -> Tensor:
    """A parabola below ``beta``, a line above: the layers of :func:`l1_loss`, IElementWiseLayers and ISelectLayer.

    >>> F.smooth_l1_loss(net.input("x", ("N", 3)), net.input("y", ("N", 3))).shape
    ()
    """
    if beta < 0:
        raise DefinitionError(f"smooth_l1_loss: beta must not be negative, not {beta}")
    distance = abs(sub(input, target))
    if beta == 0:
        return distance
    curved = mul(square(distance), 0.5 / beta)
    return where(lt(distance, beta), curved, sub(distance, 0.5 * beta))


@operation
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """A parabola up to ``delta``, a line above, as :func:`smooth_l1_loss` times ``delta``.

    >>> F.huber_loss(net.input("x", ("N", 3)), net.input("y", ("N", 3))).shape
    ()
    """
    if delta <= 0:
        raise DefinitionError(f"huber_loss: delta must be positive, not {delta}")
    distance = abs(sub(input, target))
    curved = mul(square(distance), 0.5)
    loss = where(le(distance, delta), curved, mul(sub(distance, 0.5 * delta), delta))
    return weighted(loss, weight, reduction)


def _reduced_by_batch(loss: Tensor, size_average: Flag = None, reduce: Flag = None, reduction: str = "mean") -> Tensor:
    if reduction != "batchmean" or size_average is not None or reduce is not None:
        return reduced(loss, size_average, reduce, reduction)
    return div(sum(loss), loss.shape[0]) if loss.ndim else loss


@operation
@finished(_reduced_by_batch, after="target")
def kl_div(input: Tensor, target: Tensor, log_target: bool = False) -> Tensor:
    """``target * (log(target) - input)``, with ``input`` a logarithm: the layers of :func:`xlogy`, of :func:`exp`.

    ``reduction="batchmean"`` divides the sum by the first size.

    >>> F.kl_div(net.input("x", ("N", 3)), net.input("y", ("N", 3)), reduction="batchmean").shape
    ()
    """
    if log_target:
        return mul(exp(target), sub(target, input))
    return sub(xlogy(target, target), mul(target, input))


def _of_probabilities(input: Tensor, target: Tensor) -> Tensor:
    hit, miss = clamp(log(input), min=-100.0), clamp(log1p(-input), min=-100.0)
    return sub(mul(sub(target, 1), miss), mul(target, hit))


def _of_labels(input: Tensor, target: Tensor) -> Tensor:
    return -add(mul(target, logsigmoid(input)), mul(sub(1, target), logsigmoid(-input)))


@finished(reduced)
def _by_weight(
    kind: tuple[Callable[[Tensor, Tensor], Tensor], bool], input: Tensor, target: Tensor, weight: Tensor | None = None
) -> Tensor:
    function, by_class = kind
    loss = function(input, target)
    loss = loss if weight is None else mul(loss, weight)
    return mean(loss, -1) if by_class else loss


binary_cross_entropy, multilabel_soft_margin_loss = family(
    _by_weight,
    """{}

    >>> F.{name}(net.input("x", ("N", 5)), net.input("y", ("N", 5))).shape
    ()
    """,
    binary_cross_entropy=(
        (_of_probabilities, False),
        "``-(y log(x) + (1 - y) log(1 - x))``, logarithms at least -100: IUnaryLayers, IElementWiseLayers.",
    ),
    multilabel_soft_margin_loss=(
        (_of_labels, True),
        "``-mean(y log σ(x) + (1 - y) log σ(-x))`` over the classes: the layers of :func:`logsigmoid`, IReduceLayer.",
    ),
)


@operation
@finished(reduced, after="weight")
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None
) -> Tensor:
    """:func:`binary_cross_entropy` of ``sigmoid(input)`` without overflow: the layers of :func:`logsigmoid`.

    >>> F.binary_cross_entropy_with_logits(net.input("x", ("N",)), net.input("y", ("N",))).shape
    ()
    """
    hit = logsigmoid(input)
    if pos_weight is not None:
        hit = mul(hit, add(mul(sub(pos_weight, 1), target), 1))
    loss = sub(mul(sub(1, target), input), hit)
    return loss if weight is None else mul(loss, weight)


@operation
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: Flag = None,
    eps: float = 1e-8,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """``exp(x) - y x``, or ``x - y log(x + eps)``; ``full`` adds Stirling's terms for y above 1.

    IUnaryLayers, IElementWiseLayers, ISelectLayer.

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
    return reduced(loss, size_average, reduce, reduction)


@operation
def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """``(log(v) + (x - y)² / v) / 2`` with v at least ``eps``; ``full`` adds ``log(2π) / 2``.

    IUnaryLayers, IElementWiseLayers.

    >>> F.gaussian_nll_loss(net.input("x", ("N", 3)), net.input("y", ("N", 3)), net.input("v", ("N", 1))).shape
    ()
    """
    if isinstance(var, Tensor) and var.ndim == input.ndim - 1 and var.shape == input.shape[:-1]:
        var = L.unsqueeze(var, [var.ndim])
    spread = clamp(var, min=eps) if isinstance(var, Tensor) else full_like(input, builtins.max(var, eps))
    loss = mul(add(log(spread), div(square(sub(input, target)), spread)), 0.5)
    return reduced(add(loss, 0.5 * math.log(2 * math.pi)) if full else loss, reduction=reduction)


@operation
@finished(reduced)
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0) -> Tensor:
    """``input`` where ``target`` is 1, ``max(0, margin - input)`` where it is -1: ISelectLayers, IElementWiseLayers.

    >>> F.hinge_embedding_loss(net.input("x", ("N",)), net.input("y", ("N",))).shape
    ()
    """
    apart = where(binary(target, 1, "EQUAL"), 0.0, clamp(sub(margin, input), min=0.0))
    return add(apart, where(binary(target, -1, "EQUAL"), 0.0, input))


@operation
@finished(reduced)
def soft_margin_loss(input: Tensor, target: Tensor) -> Tensor:
    """``log(1 + exp(-y x))``: IUnaryLayers, IElementWiseLayers.

    >>> F.soft_margin_loss(net.input("x", ("N", 3)), net.input("y", ("N", 3))).shape
    ()
    """
    return log1p(exp(mul(-input, target)))


def _ranking(input1: Tensor, input2: Tensor, target: Tensor, margin: float) -> Tensor:
    return clamp(add(mul(sub(input2, input1), target), margin), min=0)


def _cosine(input1: Tensor, input2: Tensor, target: Tensor, margin: float) -> Tensor:
    a, b = promote(input1, input2)
    tiny = 1e-12  # torch's own, in cosine_embedding_loss of its C++ sources

    def dot(x: Tensor, y: Tensor) -> Tensor:
        return sum(mul(x, y), -1)

    cosine = div(dot(a, b), L.unary(mul(add(dot(a, a), tiny), add(dot(b, b), tiny)), "SQRT"))
    same = where(binary(target, 1, "EQUAL"), sub(1, cosine), 0.0)
    return add(same, where(binary(target, -1, "EQUAL"), clamp(sub(cosine, margin), min=0.0), 0.0))


@finished(reduced)
def _of_pairs(
    function: Callable[[Tensor, Tensor, Tensor, float], Tensor],
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
) -> Tensor:
    return function(input1, input2, target, margin)


margin_ranking_loss, cosine_embedding_loss = family(
    _of_pairs,
    """{}

    >>> a, b = net.input("a", ("N", 8)), net.input("b", ("N", 8))
    >>> F.{name}(a, b, net.input("y", ("N", 1))).shape
    ()
    """,
    margin_ranking_loss=(_ranking, "``max(0, -y (x1 - x2) + margin)``: IElementWiseLayers."),
    cosine_embedding_loss=(
        _cosine,
        """``1 - cos`` where ``target`` is 1, ``max(0, cos - margin)`` where it is -1, of vectors (N, D) and (N,).

        IReduceLayers, IElementWiseLayers.
        """,
    ),
)


@operation
@finished(reduced)
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
) -> Tensor:
    """``max(0, |a - p| - |a - n| + margin)``: the layers of :func:`pairwise_distance`, IElementWiseLayers.

    ``swap`` takes the lesser of ``|a - n|`` and ``|p - n|``.

    >>> F.triplet_margin_loss(*(net.input(name, ("N", 8)) for name in "apn")).shape
    ()
    """
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = binary(far, pairwise_distance(positive, negative, p, eps), "MIN")
    return clamp(add(sub(near, far), margin), min=0.0)


# -- of class scores ---------------------------------------------------------------------------------------------------


def _class_axis(input: Tensor, target: Tensor, name: str) -> int:
    if input.ndim == 0 or target.ndim != max(input.ndim - 1, 0):
        raise ShapeError(
            f"{name} takes scores (N, C, …) and classes (N, …), "
            f"not {shape_text(input.shape)} and {shape_text(target.shape)}"
        )
    return 0 if input.ndim == 1 else 1


class _Picked:
    """What the classes that are named pick: scores, weights, and which of them count."""

    def __init__(self, scores: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, name: str):
        if target.dtype not in (torch.int64, torch.int32, torch.uint8):
            raise DefinitionError(f"{name} takes classes as integers, not {target.dtype}")
        self.axis = _class_axis(scores, target, name)
        target = L.cast(target, torch.int64)
        self.counts = L.unary(binary(target, ignore_index, "EQUAL"), "NOT")
        places = L.unsqueeze(choose(self.counts, target, 0), [self.axis])
        self.scores = self.kept(L.squeeze(L.gather(scores, places, self.axis, "ELEMENT"), [self.axis]))
        ones = L.cast(self.counts, scores.dtype)
        if weight is None:
            self.weights = ones
        else:
            self.weights = mul(L.squeeze(L.gather(weight, places, 0), [self.axis]), ones)

    def kept(self, values: Tensor) -> Tensor:
        """The values that count, 0 elsewhere."""
        return choose(self.counts, values, 0, values.dtype)

    def reduced(self, loss: Tensor, reduction: str) -> Tensor:
        """The loss as ``reduction`` says; the mean is by the weights of what counts."""
        total = reduced(loss, reduction="sum" if reduction == "mean" else reduction)
        return div(total, sum(self.weights)) if reduction == "mean" else total


@operation
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Flag = None,
    ignore_index: int = -100,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Minus the log-probability (N, C, …) of each target class (N, …), times the class's ``weight``.

    The mean is divided by the sum of the weights; ``ignore_index`` does not count. IGatherLayer (ELEMENT),
    ISelectLayer, IElementWiseLayers, IReduceLayers.

    >>> F.nll_loss(net.input("x", ("N", 5)), net.input("y", ("N",), "int64")).shape
    ()
    """
    picked = _Picked(input, target, weight, ignore_index, "nll_loss")
    return picked.reduced(mul(-picked.scores, picked.weights), reduction_of(reduction, size_average, reduce))


@operation
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Flag = None,
    ignore_index: int = -100,
    reduce: Flag = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """:func:`nll_loss` of :func:`log_softmax` over the classes; ``target`` holds classes, or their probabilities.

    The layers of :func:`log_softmax` and :func:`nll_loss`; with probabilities, or ``label_smoothing``, IReduceLayer SUM
    over the classes.

    >>> F.cross_entropy(net.input("x", ("N", 5, 7)), net.input("y", ("N", 7), "int64")).shape
    ()
    """
    reduction = reduction_of(reduction, size_average, reduce)
    axis = 0 if input.ndim == 1 else 1
    scores = log_softmax(input, axis)
    if target.dtype.is_floating_point and target.ndim == input.ndim:
        return _with_probabilities(scores, target, weight, reduction, label_smoothing, axis)
    picked = _Picked(scores, target, weight, ignore_index, "cross_entropy")
    loss = picked.reduced(mul(-picked.scores, picked.weights), reduction)
    if label_smoothing == 0.0:
        return loss
    spread = scores if weight is None else mul(scores, on_axis(weight, axis, scores.ndim))
    uniform = picked.reduced(-picked.kept(sum(spread, axis)), reduction)
    return add(mul(loss, 1 - label_smoothing), mul(div(uniform, scores.shape[axis]), label_smoothing))


def _with_probabilities(
    scores: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float, axis: int
) -> Tensor:
    classes = scores.shape[axis]
    if smoothing:
        target = add(mul(target, 1 - smoothing), div(mul(scores.network.constant(1.0), smoothing), classes))
    terms = mul(scores, target)
    if weight is not None:
        terms = mul(terms, on_axis(weight, axis, scores.ndim))
    if reduction == "mean":
        return div(-sum(terms), product(size for other, size in enumerate(scores.shape) if other != axis))
    return reduced(-sum(terms, axis), reduction=reduction)


@operation
@finished(reduced)
def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """``sum(max(0, margin - x[y] + x[i]) ** p) / C`` over the other classes i, times the class's ``weight``.

    IGatherLayer, IElementWiseLayers, ISelectLayer, IReduceLayers.

    >>> F.multi_margin_loss(net.input("x", ("N", 5)), net.input("y", ("N",), "int64")).shape
    ()
    """
    if p not in (1, 2):
        raise UnsupportedError(f"multi_margin_loss: p is 1 or 2, as in torch, not {p}")
    if input.ndim > 2 or target.ndim > 1:
        raise ShapeError(f"multi_margin_loss takes scores (N, C), not {shape_text(input.shape)}")
    scores = L.unsqueeze(input, list(range(2 - input.ndim))) if input.ndim < 2 else input
    classes = target if target.ndim else L.unsqueeze(target, [0])
    places = L.unsqueeze(L.cast(classes, torch.int64), [1])
    own = L.gather(scores, places, 1, "ELEMENT")
    gap = power(clamp(add(sub(scores, own), margin), min=0.0), p)
    if weight is not None:
        gap = mul(gap, L.gather(weight, places, 0))
    # Its own class is in the sum with the margin alone: it is taken away again.
    every = L.unsqueeze(counted(scores.network, scores.shape[1]), [0])
    other = L.unary(binary(places, every, "EQUAL"), "NOT")
    loss = div(sum(choose(other, gap, 0, gap.dtype), 1), scores.shape[1])
    return loss if target.ndim else L.squeeze(loss, [0])
