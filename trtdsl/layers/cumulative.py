"""CUMULATIVE and REVERSE_SEQUENCE: running along one dimension."""

from __future__ import annotations

from .common import ShapeError, Tensor, add_layer, adds, member, normalize_axis, operation, torch
from .evaluation import Evaluate, Mistakes, Node, computes


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
