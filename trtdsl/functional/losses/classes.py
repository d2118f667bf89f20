"""Losses of class scores."""

from __future__ import annotations

from ... import layers as L
from ...core.errors import DefinitionError, ShapeError, UnsupportedError
from ...core.lazy import torch
from ...definition.operation import operation
from ...definition.tensor import Tensor
from ...sizes.shape import shape_text
from ...sizes.size import product
from ..operands import binary, choose
from ..pointwise.activation import log_softmax, logsigmoid
from ..pointwise.arithmetic import add, clamp, div, mul, sub
from ..pointwise.powers import pow as power
from ..reducing.reduction import mean, sum
from ..shaping.create import arange
from .pointwise import reduced, reduction_of


def _class_axis(input: Tensor, target: Tensor, name: str) -> int:
    if input.ndim == 0 or target.ndim != max(input.ndim - 1, 0):
        raise ShapeError(
            f"{name} takes scores (N, C, …) and classes (N, …), "
            f"not {shape_text(input.shape)} and {shape_text(target.shape)}"
        )
    return 0 if input.ndim == 1 else 1


def _spread(weight: Tensor, ndim: int, axis: int) -> Tensor:
    """Weights of classes along the class axis."""
    return L.unsqueeze(weight, [other for other in range(ndim) if other != axis])


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
        total = reduced(loss, "sum" if reduction == "mean" else reduction)
        return div(total, sum(self.weights)) if reduction == "mean" else total


@operation
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Minus the log-probability (N, C, …) of each target class (N, …), times the class's ``weight``.

    The mean is divided by the sum of the weights; ``ignore_index`` does not count. IGatherLayer (ELEMENT),
    ISelectLayer, IElementWiseLayers, IReduceLayers.

    >>> net = td.Network()
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
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """:func:`nll_loss` of :func:`log_softmax` over the classes; ``target`` holds classes, or their probabilities.

    The layers of :func:`log_softmax` and :func:`nll_loss`; with probabilities, or ``label_smoothing``, IReduceLayer SUM
    over the classes.

    >>> net = td.Network()
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
    spread = scores if weight is None else mul(scores, _spread(weight, scores.ndim, axis))
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
        terms = mul(terms, _spread(weight, scores.ndim, axis))
    if reduction == "mean":
        return div(-sum(terms), product(size for other, size in enumerate(scores.shape) if other != axis))
    return reduced(-sum(terms, axis), reduction)


@operation
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``sum(max(0, margin - x[y] + x[i]) ** p) / C`` over the other classes i, times the class's ``weight``.

    IGatherLayer, IElementWiseLayers, ISelectLayer, IReduceLayers.

    >>> net = td.Network()
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
    with scores.network.current():
        every = arange(scores.shape[1])
    other = L.unary(binary(places, L.unsqueeze(every, [0]), "EQUAL"), "NOT")
    loss = div(sum(choose(other, gap, 0, gap.dtype), 1), scores.shape[1])
    return reduced(loss if target.ndim else L.squeeze(loss, [0]), reduction, size_average, reduce)


@operation
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``-mean(y log σ(x) + (1 - y) log σ(-x))`` over the classes: the layers of :func:`logsigmoid`, IReduceLayer.

    >>> net = td.Network()
    >>> F.multilabel_soft_margin_loss(net.input("x", ("N", 5)), net.input("y", ("N", 5))).shape
    ()
    """
    loss = -add(mul(target, logsigmoid(input)), mul(sub(1, target), logsigmoid(-input)))
    if weight is not None:
        loss = mul(loss, weight)
    return reduced(mean(loss, -1), reduction, size_average, reduce)
