"""MATRIX_MULTIPLY."""

from __future__ import annotations

from contextlib import nullcontext

from .base import add_layer, broadcast, folding, member, require_match
from .common import Mistakes, Node, Shape, ShapeError, SizeLike, Tensor, computes, operation, shape_text, torch


@operation
def matrix_multiply(a: Tensor, b: Tensor, op_a: str = "NONE", op_b: str = "NONE") -> Tensor:
    """Products of the matrices in the last two dimensions: one IMatrixMultiplyLayer.

    ``op_a`` and ``op_b`` (``trt.MatrixOperation``): NONE; TRANSPOSE swaps the last two dimensions first; VECTOR takes
    the last dimension alone as a vector. The dimensions before them have one rank and are broadcast.
    Floating-point only. A product of constants is computed at once, however large it is, unless nothing is summed:
    that one is part of whatever reads it.

    Raises ShapeError for ranks or sizes that do not match.

    >>> matrix_multiply(net.input("a", (8, 2, 3)), net.input("b", (1, 4, 3)), op_b="TRANSPOSE").shape
    (8, 2, 4)
    """
    batch_a, rows, inner_a = _split(a.shape, op_a, left=True)
    batch_b, columns, inner_b = _split(b.shape, op_b, left=False)
    if len(batch_a) != len(batch_b):
        raise ShapeError(f"the batch dimensions must have one rank: {shape_text(batch_a)} and {shape_text(batch_b)}")
    if isinstance(inner_a, int) and isinstance(inner_b, int) and inner_a != inner_b:
        turned = columns and columns[0] == inner_a
        hint = "; the second operand fits when it is transposed, by .mT" if turned else ""
        raise ShapeError(f"the contracted dimensions do not match: {inner_a} and {inner_b}{hint}")
    batch = broadcast(batch_a, batch_b)
    require_match(a.network, batch, batch_a, batch_b)
    a.network.constraints.equal(inner_a, inner_b, "the contracted sizes", a.network.current_operation)
    shape = batch + rows + columns

    operations = [member(a.network.trt.MatrixOperation, op, "matrix operation") for op in (op_a, op_b)]

    def add(target, a, b):
        return target.definition.add_matrix_multiply(a, operations[0], b, operations[1])

    with nullcontext() if inner_a == 1 else folding(a.network):
        return add_layer(add, a, b, shape=shape)


def _split(shape: Shape, op: str, *, left: bool) -> tuple[Shape, Shape, SizeLike]:
    """Batch dimensions, the dimension that stays (none for a vector), the contracted one."""
    vector = op.upper() == "VECTOR"
    if len(shape) < (1 if vector else 2):
        raise ShapeError(f"{shape_text(shape)} has too few dimensions for a {'vector' if vector else 'matrix'}")
    if vector:
        return shape[:-1], (), shape[-1]
    rows, columns = shape[-2], shape[-1]
    if op.upper() == "TRANSPOSE":
        rows, columns = columns, rows
    return shape[:-2], (rows if left else columns,), columns if left else rows


REVERSED = {"first operand reversed": lambda node: lambda f, a, *rest: f(a.flip(-1), *rest)}


@computes(
    "MATRIX_MULTIPLY",
    known=dict.fromkeys(("op0", "op1"), ("NONE", "TRANSPOSE", "VECTOR")),
    category="product",
    wide=True,
    flops=lambda node, shapes: 2 * shapes.inputs[0][-2 if node.layer.op0.name == "TRANSPOSE" else -1] * shapes.elements,
    mistakes=Mistakes({op: {"NONE": "TRANSPOSE", "TRANSPOSE": "NONE"} for op in ("op0", "op1")}, instead=REVERSED),
)
def _matrix_multiply(node: Node, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """torch's kernel, in float32 for the half types, rounded once."""
    op_a, op_b = node.layer.op0.name, node.layer.op1.name
    a = a.unsqueeze(-2) if op_a == "VECTOR" else a.mT if op_a == "TRANSPOSE" else a
    b = b.unsqueeze(-1) if op_b == "VECTOR" else b.mT if op_b == "TRANSPOSE" else b
    if 2 < b.ndim <= a.ndim and all(size == 1 for size in b.shape[:-2]):  # one product instead of one for each batch
        b = b[(0,) * (b.ndim - 2)]
    product = torch.matmul(a, b)
    if op_b == "VECTOR":
        product = product.squeeze(-1)
    return product.squeeze(-1 if op_b == "VECTOR" else -2) if op_a == "VECTOR" else product
