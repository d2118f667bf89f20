"""REDUCE, SOFTMAX and RAGGED_SOFTMAX over whole dimensions; CUMULATIVE and REVERSE_SEQUENCE running along one."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..core.errors import DefinitionError, ShapeError
from .base import add_layer, adds, axes_mask, axes_of, member, normalize_axis
from .common import Evaluate, Mistakes, Node, Tensor, computes, count, dtype_name, evaluates, operation, torch
from .pointwise import elementwise, unary

FEW = range(2, 7)
"""So many elements of an axis are not reduced by a loop."""


@operation
def reduce(x: Tensor, op: str, axes: Sequence[int], keep_dims: bool = False) -> Tensor:
    """Reduces ``x`` over ``axes`` with ``op`` (SUM, PROD, MAX, MIN, AVG): one IReduceLayer.

    At least one axis. MAX and MIN skip NaN. AVG of integers truncates.
    """
    axes = sorted({normalize_axis(axis, x.ndim) for axis in axes})
    shape = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape) if keep_dims or axis not in axes)
    kind = member(x.network.trt.ReduceOperation, op, "reduce operation")
    partial = x.partial or is_few(x, axes)
    return add_layer(adds("add_reduce", kind, axes_mask(axes), keep_dims), x, shape=shape, partial=partial)


def is_few(x: Tensor, axes: Sequence[int]) -> bool:
    """Whether ``axes`` are one axis, of two to six elements, each of which TensorRT-RTX takes as a slice.

    >>> is_few(net.input("x", (2, 3, 8)), [1]), is_few(net.input("y", (2, 3, 8)), [2])
    (True, False)
    """
    sizes = [x.shape[axis] for axis in axes if x.shape[axis] != 1]
    return len(sizes) == 1 and sizes[0] in FEW


def _product(x: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    for axis in reversed(axes):
        x = torch.prod(x, axis, keepdim=keep, dtype=x.dtype)
    return x


def _average(x: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    if x.dtype.is_floating_point:
        return torch.mean(x, axes, keepdim=keep)
    total = torch.sum(x, axes, keepdim=keep, dtype=x.dtype)
    number = count([x.shape[axis] for axis in axes])
    if not number and total.numel():
        raise DefinitionError("the average of no integers, whose kernel divides by 0, has no documented result")
    return torch.div(total, max(number, 1), rounding_mode="trunc")


def _extreme(x: torch.Tensor, axes: list[int], keep: bool, sign: int) -> torch.Tensor:
    """The greatest element (the least for sign -1), NaN skipped; of nothing: the lowest value there is."""
    floating = x.dtype.is_floating_point
    ends = (-math.inf, math.inf) if floating else (torch.iinfo(x.dtype).min, torch.iinfo(x.dtype).max)
    limit = ends[sign < 0]
    if any(x.shape[axis] == 0 for axis in axes):
        shape = [1 if axis in axes else size for axis, size in enumerate(x.shape) if keep or axis not in axes]
        return torch.full(shape, limit, dtype=x.dtype)
    reduced = (torch.amax if sign > 0 else torch.amin)(x, axes, keepdim=keep)
    if floating and bool(torch.isnan(reduced).any()):
        nothing = torch.isnan(x).all(dim=tuple(axes), keepdim=True)
        found = (torch.amax if sign > 0 else torch.amin)(torch.where(torch.isnan(x), limit, x), axes, keepdim=True)
        reduced = torch.where(nothing, float("nan"), found).reshape(reduced.shape)
    return reduced


_EVALUATE = {
    "SUM": lambda x, axes, keep: torch.sum(x, axes, keepdim=keep, dtype=x.dtype),
    "PROD": _product,
    "MAX": lambda x, axes, keep: _extreme(x, axes, keep, 1),
    "MIN": lambda x, axes, keep: _extreme(x, axes, keep, -1),
    "AVG": _average,
}


_MISTAKEN = {"SUM": "AVG", "AVG": "SUM", "MAX": "MIN", "MIN": "MAX", "PROD": "SUM"}


@computes(
    "REDUCE",
    known={"op": _EVALUATE},
    category="reduction",
    carries_sizes=True,
    wide=True,
    flops=lambda node, shapes: count(shapes.inputs[0]),
    mistakes=Mistakes({"op": _MISTAKEN}, axes=True),
)
def _reduce(node: Node, x: torch.Tensor) -> torch.Tensor:
    """The half types accumulate in float32. MAX and MIN skip NaN, an average of integers truncates, and nothing reduces
    to the values of ReduceOperation's table (int8, which the table gives quantized, as the other integers).
    """
    return _EVALUATE[node.layer.op.name](x, axes_of(node.layer.axes, x.ndim), node.layer.keep_dims)


@operation
def softmax(x: Tensor, axis: int) -> Tensor:
    """Softmax over one axis of a floating-point tensor: one ISoftMaxLayer.

    Of two to six elements it is written out, since TensorRT-RTX takes these wrongly together with a later reduction:
    IReduceLayer twice, IElementWiseLayer twice and IUnaryLayer, and ISliceLayers to repeat what was reduced.
    """
    axis = normalize_axis(axis, x.ndim)
    if is_few(x, [axis]) and x.data is None:
        powers = unary(elementwise(x, reduce(x, "MAX", [axis], True), "SUB"), "EXP")
        return elementwise(powers, reduce(powers, "SUM", [axis], True), "DIV")
    what = ("softmax", "rows" if axis == x.ndim - 1 else "")
    return add_layer(adds("add_softmax", axes=1 << axis), x, shape=x.shape, order=lambda: x.order, what=what)


# 5 FLOPs: maximum, subtraction, exponential, sum, division
@evaluates("SOFTMAX", category="normalization", flops=5, wide=True, mistakes=Mistakes(axes=True, left_out=True))
def _softmax(node: Node) -> Evaluate:
    """Computed in float32 and rounded once, the greatest element subtracted first."""
    axes = axes_of(node.layer.axes, len(node.inputs[0].shape))
    if not node.dtype.is_floating_point:
        raise node.unsupported(f"softmax of {dtype_name(node.dtype)}")

    def evaluate(x: torch.Tensor) -> torch.Tensor:
        if not x.numel():
            return x
        powers = (x - torch.amax(x, axes, keepdim=True)).exp_()
        return powers.div_(torch.sum(powers, axes, keepdim=True))

    return evaluate


@operation
def ragged_softmax(x: Tensor, bounds: Tensor) -> Tensor:
    """Softmax over the first ``bounds`` elements of each row: one IRaggedSoftMaxLayer.

    ``x`` is (N, Z, S), ``bounds`` (N, Z, 1) of int32; the elements from the bound on are 0. TensorRT does not subtract
    the greatest element first: a row with one above 88 (float32; 11 in float16) is NaN.
    """
    return add_layer(adds("add_ragged_softmax"), x, bounds, shape=x.shape)


@computes("RAGGED_SOFTMAX", category="reduction", flops=5, mistakes=Mistakes(left_out=True))
def _ragged_softmax(node: Node, x: torch.Tensor, bounds: torch.Tensor) -> torch.Tensor:
    """Computed in the tensor's type, without the greatest element subtracted first: great elements overflow. What lies
    beyond a sequence's length is 0.
    """
    if not x.numel():
        return x
    inside = torch.arange(x.shape[-1]) < bounds.long()
    powers = torch.where(inside, x.exp(), 0.0)
    return torch.where(inside, powers / powers.sum(-1, keepdim=True), 0.0)


@operation
def cumulative(x: Tensor, axis: int, op: str = "SUM", exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Running sums along ``axis``: one ICumulativeLayer.

    Element j is the sum of 0..j; ``exclusive`` leaves j itself out; ``reverse`` sums from the end. Floating-point,
    int32 or int64.
    """
    place = x.network.constant(torch.tensor(normalize_axis(axis, x.ndim), dtype=torch.int32))
    kind = member(x.network.trt.CumulativeOperation, op, "cumulative operation")
    return add_layer(adds("add_cumulative", kind, exclusive, reverse), x, place, shape=x.shape)


def running_sum(x: torch.Tensor, axis: int) -> torch.Tensor:
    """Sums of 0..j along an axis by doubling: after the pass with step s each element holds the sum of 2*s of them."""
    total, step = x.clone(), 1
    while step < x.shape[axis]:
        rest = x.shape[axis] - step
        total = torch.cat(
            (total.narrow(axis, 0, step), total.narrow(axis, step, rest) + total.narrow(axis, 0, rest)), axis
        )
        step *= 2
    return total


def _another_axis(node: Node) -> Evaluate | None:
    return (lambda f, x, axis: f(x, (axis + 1) % x.ndim)) if len(node.inputs[0].shape) > 1 else None


MISTAKES = Mistakes(left_out=True, flags=("exclusive", "reverse"), instead={"another axis": _another_axis})


@computes(
    "CUMULATIVE", known={"op": ("SUM",)}, category="reduction", settings=True, wide=True, flops=1, mistakes=MISTAKES
)
def _cumulative(node: Node, x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    """Assumed: float16 and bfloat16 accumulate in float32; the order of the additions is not defined."""
    axis, reverse = int(place) % x.ndim, node.layer.reverse
    total = x.flip(axis) if reverse else x
    if node.layer.exclusive and x.shape[axis]:
        total = torch.cat((torch.zeros_like(total.narrow(axis, 0, 1)), total.narrow(axis, 0, x.shape[axis] - 1)), axis)
    total = running_sum(total, axis)
    return total.flip(axis) if reverse else total


@operation
def reverse_sequence(x: Tensor, lengths: Tensor, batch_axis: int = 1, sequence_axis: int = 0) -> Tensor:
    """Reverses the first ``lengths[i]`` elements along ``sequence_axis`` of slice i of ``batch_axis``.

    One IReverseSequenceLayer; ``lengths`` (int32 or int64) has one value for each slice.
    """
    batch, sequence = normalize_axis(batch_axis, x.ndim), normalize_axis(sequence_axis, x.ndim)
    if batch == sequence:
        raise ShapeError("batch_axis and sequence_axis must be two dimensions")
    add = adds("add_reverse_sequence", batch_axis=batch, sequence_axis=sequence)
    return add_layer(add, x, lengths, shape=x.shape)


@computes("REVERSE_SEQUENCE", category="rearranging", settings=True, mistakes=Mistakes(left_out=True))
def _reverse_sequence(node: Node, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Elements from the length on stay where they are."""
    batch, sequence = node.layer.batch_axis, node.layer.sequence_axis
    time = torch.arange(x.shape[sequence])
    ends = lengths.long().unsqueeze(1)
    source = torch.where(time < ends, ends - 1 - time, time)  # (batch, sequence)
    moved = x.movedim((batch, sequence), (0, 1))
    picked = moved[torch.arange(moved.shape[0]).unsqueeze(1), source]
    return picked.movedim((0, 1), (batch, sequence))
