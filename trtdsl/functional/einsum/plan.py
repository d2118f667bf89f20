"""The plan of an einsum as a value: the operations on its operands in order, and the purpose of each step; its layers.

A plan is made from shapes alone. Values are numbered: the operands first, then each operation's result.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ...core.html import folded, preformatted
from ..common import L, Shape, Size, SizeLike, Tensor, hint, is_low, made_by, product, shape_text, torch
from .equation import ITEM, Equation, Labels, text

Axes = tuple[Labels, ...]
"""A value's dimensions: the labels merged in each, row-major; () for a dimension of size 1."""


class Shuffle(NamedTuple):
    """Dimensions permuted by ``first``, reshaped to ``axes``, permuted by ``second``; None where there is none."""

    x: int
    first: tuple[int, ...] | None = None
    axes: Axes | None = None
    second: tuple[int, ...] | None = None
    shape: Shape | None = None
    """The sizes of ``axes``."""


class Diagonal(NamedTuple):
    """Dimensions permuted by ``first``; then ``counts[k]`` of them are flattened into one, whose diagonal is taken."""

    x: int
    first: tuple[int, ...]
    counts: tuple[int, ...]


class Take(NamedTuple):
    """The elements at ``place`` of dimension ``axis``, which stays with size 1."""

    x: int
    axis: int
    place: int


class Reduce(NamedTuple):
    """The sum over dimensions, which vanish."""

    x: int
    axes: tuple[int, ...]


class Multiply(NamedTuple):
    """The product of elements, broadcast; in float32 where ``wide`` and the operands are of half precision."""

    a: int
    b: int
    wide: bool = False


class Add(NamedTuple):
    """The sum of elements."""

    a: int
    b: int


class MatrixMultiply(NamedTuple):
    """The products of the matrices in the last two dimensions; those before are broadcast."""

    a: int
    b: int
    transpose_a: bool = False
    transpose_b: bool = False


Operation = Shuffle | Diagonal | Take | Reduce | Multiply | Add | MatrixMultiply


class Step(NamedTuple):
    """A step: operations that belong together, with the labels by kind and the cost."""

    kind: str
    operands: tuple[int, ...]
    result: int
    labels: tuple[Labels, ...]
    """The labels of the operands, then of the result."""
    layers: tuple[str, ...]
    """What its operations are called; "of constants": computed when the network is written."""
    notes: tuple[str, ...]
    flops: int
    bytes: int
    elements: int
    """The elements of the largest value that it makes."""
    batch: Labels = ()
    contracted: Labels = ()
    left: Labels = ()
    right: Labels = ()


class EinsumPlan(NamedTuple):
    """How an einsum is computed, made from shapes alone; ``print`` it.

    ``operations`` work on numbered values, the operands first; ``result`` is the number of the result. Costs are for
    float32 and the sizes to tune for (``opt``); operations on constants alone cost nothing.
    """

    equation: Equation
    shapes: tuple[Shape, ...]
    constants: tuple[bool, ...]
    sizes: Mapping[str, SizeLike]
    operations: tuple[Operation, ...]
    result: int
    steps: tuple[Step, ...]
    largest: int
    """The elements of the largest value that is made on the way (the result included)."""
    cost: float = 0.0
    """What plans are chosen by: bytes, and arithmetic as the bytes that a GPU moves in the same time."""

    @property
    def flops(self) -> int:
        """Additions and multiplications."""
        return sum(step.flops for step in self.steps)

    @property
    def bytes(self) -> int:
        """Bytes read and written by the steps, each counted as one pass over its operands and its result."""
        return sum(step.bytes for step in self.steps)

    def to_json(self) -> dict[str, Any]:
        """The plan's facts, the naive rewrite's cost among them, for ``trtdsl explain --json``."""
        steps = [step._asdict() for step in self.steps]
        for step in steps:
            *step["operands"], step["result"] = step.pop("labels")
        return {
            "equation": str(self.equation),
            "shapes": [[size if isinstance(size, int) else str(size) for size in shape] for shape in self.shapes],
            "constants": [k for k, constant in enumerate(self.constants) if constant],
            "steps": steps,
            "flops": self.flops,
            "bytes": self.bytes,
            "largest": self.largest,
            "naive": _naive(self),
        }

    def _repr_html_(self) -> str:
        return folded(f"EinsumPlan({self.equation}: {len(self.steps)} steps)", preformatted(self))

    def __str__(self) -> str:
        operands = ", ".join(
            shape_text(shape) + (" constant" if constant else "")
            for shape, constant in zip(self.shapes, self.constants, strict=True)
        )
        lines = [f"{self.equation}", f"  for {operands}"]
        dynamic = {str(size): hint(size) for shape in self.shapes for size in shape if isinstance(size, Size)}
        if dynamic:
            lines.append(f"  costs where {', '.join(f'{size} = {value:,}' for size, value in dynamic.items())}")
        for number, step in enumerate(self.steps, 1):
            lines += _step_lines(number, step)
        if not self.steps:
            lines.append("the operand as it is")
        other = _naive(self)
        rows = [
            ("", "FLOPs", "bytes moved", "largest value"),
            ("this plan", f"{self.flops:,}", f"{self.bytes:,}", f"{self.largest:,} elements"),
            ("multiplied out", f"{other['flops']:,}", f"{other['bytes']:,}", f"{other['largest']:,} elements"),
        ]
        widths = [max(len(row[k]) for row in rows) for k in range(4)]
        lines += ["", *("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)]
        return "\n".join(lines)


def resolve(operations: Sequence[Operation], operands: Sequence[tuple[Labels, Shape]]) -> tuple[Operation, ...]:
    """The operations with their sizes filled in: each value's own, since two may write one label's size differently."""
    known = [own_sizes(labels, shape) for labels, shape in operands]
    result: list[Operation] = []
    for operation in operations:
        if isinstance(operation, (Multiply, Add, MatrixMultiply)):
            a, b = known[operation.a], known[operation.b]
            sizes = {**b, **a, **{label: size for label, size in b.items() if isinstance(size, int)}}
        else:
            sizes = known[operation.x]
        if isinstance(operation, Shuffle) and operation.axes is not None:
            shape = tuple(product(sizes.get(label, 1) for label in axis) for axis in operation.axes)
            operation = operation._replace(shape=shape)
        result.append(operation)
        known.append(sizes)
    return tuple(result)


def own_sizes(labels: Labels, shape: Shape) -> dict[str, SizeLike]:
    """The size of each label of one operand; a static one where a label is repeated, none where it is 1."""
    sizes: dict[str, SizeLike] = {}
    for label, size in zip(labels, shape, strict=True):
        if label not in sizes or isinstance(size, int):
            sizes[label] = size
    return {label: size for label, size in sizes.items() if size != 1}


# -- in print ----------------------------------------------------------------------------------------------------------


def _naive(plan: EinsumPlan) -> dict[str, int]:
    """The costs of the usual rewrite: operands multiplied one after the other without summing, then one sum."""

    def count(labels: Iterable[str]) -> int:
        return math.prod(hint(plan.sizes[label]) for label in labels)

    first, *others = (math.prod(map(hint, shape)) for shape in plan.shapes)
    labels = [*itertools.accumulate(map(set, plan.equation.terms), set.union)]
    products, result = list(map(count, labels[1:])), count(plan.equation.output)
    made = [first, *products]
    flops, moved = sum(products), sum(made[:-1]) + sum(others) + sum(products)
    if labels[-1].difference(plan.equation.output):
        flops, moved = flops + made[-1], moved + made[-1] + result
    return {"flops": flops, "bytes": moved * ITEM, "largest": max(*made, result)}


def _step_lines(number: int, step: Step) -> list[str]:
    sources = ", ".join(map(text, step.labels[:-1]))
    lines = [f"{number}. {step.kind}: {sources} -> {text(step.labels[-1])}"]
    kinds = [(kind, getattr(step, kind)) for kind in ("batch", "contracted", "left", "right")]
    if any(labels for _, labels in kinds):
        lines.append("   " + "; ".join(f"{kind} {text(labels)}" for kind, labels in kinds if labels))
    lines += [f"   {note}" for note in step.notes]
    lines.append(f"   {', '.join(step.layers)}")
    lines.append(f"   {step.flops:,} FLOPs, {step.bytes:,} bytes, largest {step.elements:,} elements")
    return lines


def emit(plan: EinsumPlan, tensors: Sequence[Tensor]) -> Tensor:
    """The layers of a plan."""
    dtype = tensors[0].dtype
    values = list(tensors)
    for step in plan.operations:
        values.append(_emit(step, values, dtype))
    return L.cast(values[plan.result], dtype)


def _emit(step: Operation, values: Sequence[Tensor], dtype: torch.dtype) -> Tensor:
    if isinstance(step, Reduce):
        return L.reduce(values[step.x], "SUM", step.axes)
    if isinstance(step, Add):
        return L.elementwise(values[step.a], values[step.b], "SUM")
    if isinstance(step, (Multiply, MatrixMultiply)):
        # A matrix product adds up in float32; products that are added up later must not be rounded before.
        wide = isinstance(step, Multiply) and step.wide and dtype.is_floating_point
        a, b = (L.cast(values[index], torch.float32 if wide else dtype) for index in (step.a, step.b))
        if isinstance(step, Multiply):
            return L.elementwise(a, b, "AND" if dtype == torch.bool else "PROD")
        ops = ["TRANSPOSE" if turned else "NONE" for turned in (step.transpose_a, step.transpose_b)]
        rows = is_low(b) and (made_by(b, "softmax", "rows") or made_by(b, "cast", "softmax", "rows"))
        return _weighted(a, b, ops[0]) if step.transpose_b and rows else L.matrix_multiply(a, b, *ops)
    x = L.cast(values[step.x], dtype)
    if isinstance(step, Diagonal):
        rest = iter([x.shape[axis] for axis in step.first])
        groups = [[next(rest) for _ in range(count)] for count in step.counts]
        strides = [sum(product(group[k:]) for k in range(1, len(group) + 1)) for group in groups]
        sizes = [min(group, key=lambda size: not isinstance(size, int)) for group in groups]
        return L.slice(L.shuffle(x, step.first, list(map(product, groups))), (0,) * len(sizes), sizes, strides)
    if isinstance(step, Take):
        return L.gather(x, x.network.constant(torch.tensor([step.place])), step.axis)
    if step.first is None and step.second is None and step.shape is not None:
        return _reshape(x, step.shape)
    return L.shuffle(x, step.first, step.shape, step.second)


def _weighted(values: Tensor, weights: Tensor, op: str) -> Tensor:
    """``values @ weights.mT`` as ``(weights @ values.mT).mT``, of a softmax of rows as attention's weights are.

    In half precision the builder makes one kernel of attention only where its weights come first (TensorRT-RTX 1.7).
    """
    result = L.matrix_multiply(weights, values, op_b="NONE" if op == "TRANSPOSE" else "TRANSPOSE")
    return L.shuffle(result, (*range(result.ndim - 2), result.ndim - 1, result.ndim - 2))


def _reshape(x: Tensor, shape: Shape) -> Tensor:
    """The dimensions regrouped; sizes of 1 come and go without a shape tensor."""
    before = [axis for axis, size in enumerate(x.shape) if size == 1]
    after = [axis for axis, size in enumerate(shape) if size == 1]
    if [s for s in x.shape if s != 1] == [s for s in shape if s != 1] and not (before and after):
        return L.squeeze(x, before) if before else L.unsqueeze(x, after)
    return L.shuffle(x, reshape=shape)
