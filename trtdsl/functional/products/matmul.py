"""Matrix products."""

from __future__ import annotations

from ... import layers as L
from ...core.errors import ShapeError
from ...definition.operation import operation
from ...definition.tensor import Tensor
from ...sizes.shape import shape_text
from ...sizes.size import is_static
from ..operands import align, binary, promote


@operation
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """torch's product for every pair of ranks: IMatrixMultiplyLayer, VECTOR for a 1-d operand.

    Batch dimensions are broadcast. Raises ShapeError when the contracted sizes differ.

    >>> net = td.Network()
    >>> F.matmul(net.input("a", ("N", 2, 3)), net.input("b", (3, 4))).shape
    (N, 2, 4)
    """
    if input.ndim == 0 or other.ndim == 0:
        raise ShapeError(f"matmul takes no scalar: {shape_text(input.shape)} and {shape_text(other.shape)}")
    op_a = "VECTOR" if input.ndim == 1 else "NONE"
    op_b = "VECTOR" if other.ndim == 1 else "NONE"
    dtype = promote(input, other)[0].dtype
    a, b = L.cast(input, dtype), L.cast(other, dtype)
    if not dtype.is_floating_point:
        return _by_sums(a, b)
    missing = (a.ndim - (op_a == "NONE")) - (b.ndim - (op_b == "NONE"))
    if missing < 0:
        a = L.unsqueeze(a, range(-missing))
    elif missing > 0:
        b = L.unsqueeze(b, range(missing))
    return L.matrix_multiply(a, b, op_a, op_b)


def _by_sums(a: Tensor, b: Tensor) -> Tensor:
    """The product of integers, which IMatrixMultiplyLayer does not take.

    IElementWiseLayer PROD and IReduceLayer SUM.
    """
    rows = L.unsqueeze(a, [0]) if a.ndim == 1 else a
    columns = L.unsqueeze(b, [1]) if b.ndim == 1 else b
    contracted = (rows.shape[-1], columns.shape[-2])
    if is_static(contracted) and contracted[0] != contracted[1]:
        raise ShapeError(f"the contracted dimensions do not match: {contracted[0]} and {contracted[1]}")
    products = binary(L.unsqueeze(rows, [rows.ndim]), L.unsqueeze(columns, [columns.ndim - 2]), "PROD")
    result = L.reduce(products, "SUM", [products.ndim - 2])
    gone = [axis for axis, tensor in ((result.ndim - 2, a), (result.ndim - 1, b)) if tensor.ndim == 1]
    return L.squeeze(result, gone)


@operation
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input @ weight.T + bias`` for ``weight`` (out, in): IMatrixMultiplyLayer and IElementWiseLayer SUM.

    The layer transposes the weight, which stays as it lies in its file.

    >>> net = td.Network()
    >>> F.linear(net.input("x", ("N", 3)), net.constant(torch.ones(5, 3))).shape
    (N, 5)
    """
    if weight.ndim == 1 or not input.dtype.is_floating_point:  # torch: weight (in,) gives a dot product
        result = matmul(input, weight if weight.ndim == 1 else L.shuffle(weight, (1, 0)))
    else:
        x = L.unsqueeze(input, [0]) if input.ndim == 1 else input
        a, b = align([x, weight])
        result = L.matrix_multiply(a, b, "NONE", "TRANSPOSE")
        if input.ndim == 1:
            result = L.squeeze(result, [0])
    return result if bias is None else L.elementwise(*promote(result, bias), op="SUM")
