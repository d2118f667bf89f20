"""The layers of an einsum, by its plan: see docs/einsum.md."""

from __future__ import annotations

from collections.abc import Sequence

from ..common import L, Shape, Tensor, is_low, made_by, torch
from .plan import Add, Diagonal, EinsumPlan, MatrixMultiply, Multiply, Operation, Reduce, Take


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
        flat = L.shuffle(x, step.first, step.shape)
        return L.slice(flat, (0,) * flat.ndim, step.size, step.stride)
    if isinstance(step, Take):
        return L.gather(x, x.network.constant(torch.tensor([step.index])), step.axis)
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
