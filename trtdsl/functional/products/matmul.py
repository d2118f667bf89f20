"""Matrix products."""

from __future__ import annotations

from ...layers.shuffle import joined_shuffle
from ..common import L, ShapeError, Tensor, UnsupportedError, bounds, is_static, operation, product, shape_text, torch
from ..operands import align, binary, promote
from .folding import deferred, weighted

SMALL = 2**20  # elements of a weight that may be copied


@operation
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """torch's product for every pair of ranks: IMatrixMultiplyLayer, VECTOR for a 1-d operand.

    Batch dimensions are broadcast. Raises ShapeError when the contracted sizes differ.

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

    def add(b: Tensor, _: Tensor | None = None) -> Tensor:
        return L.matrix_multiply(a, L.unsqueeze(b, range(missing)) if missing > 0 else b, op_a, op_b)

    call = a.network.current_operation
    if call is None or not call.narrow:
        return weighted(add, a, b, None, axis=1, channel=-1)
    shape, order = (*a.shape[:-1], b.shape[1]), tuple(range(a.ndim))
    return deferred(add, a, b, None, shape, memory=order, axis=1, channel=a.ndim - 1)


def _by_sums(a: Tensor, b: Tensor) -> Tensor:
    """The product of integers, which IMatrixMultiplyLayer does not take: IElementWiseLayer PROD, IReduceLayer SUM."""
    rows = L.unsqueeze(a, [0]) if a.ndim == 1 else a
    columns = L.unsqueeze(b, [1]) if b.ndim == 1 else b
    contracted = (rows.shape[-1], columns.shape[-2])
    if is_static(contracted) and contracted[0] != contracted[1]:
        raise ShapeError(f"the contracted dimensions do not match: {contracted[0]} and {contracted[1]}")
    products = L.unsqueeze(rows, [rows.ndim]) * L.unsqueeze(columns, [columns.ndim - 2])
    result = L.reduce(products, "SUM", [products.ndim - 2])
    gone = [axis for axis, tensor in ((result.ndim - 2, a), (result.ndim - 1, b)) if tensor.ndim == 1]
    return L.squeeze(result, gone)


@operation
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input @ weight.T + bias`` for ``weight`` (out, in): IMatrixMultiplyLayer and IElementWiseLayer SUM.

    The layer transposes the weight, which stays as it lies in its file: but where ``input`` is flattened otherwise than
    it lies in memory, as it is after a convolution, the weight's columns are put in the order of memory instead.

    >>> F.linear(net.input("x", ("N", 3)), net.constant(torch.ones(5, 3))).shape
    (N, 5)
    """
    if weight.ndim == 1 or not input.dtype.is_floating_point:  # torch: weight (in,) gives a dot product
        result = matmul(input, weight if weight.ndim == 1 else L.shuffle(weight, (1, 0)))
        return result if bias is None else result + bias
    x = L.unsqueeze(input, [0]) if input.ndim == 1 else input

    def add(weight: Tensor, bias: Tensor | None) -> Tensor:
        rows, columns = _merged_as_it_lies(x, weight) or (x, weight)
        odd = _is_odd(rows, columns)
        a, b = align([rows, L.shuffle(columns, (1, 0)) if odd else columns])
        result = L.matrix_multiply(a, b, op_b="NONE" if odd else "TRANSPOSE")
        return result if bias is None else result + bias

    fits = weight.ndim == 2 and x.shape[-1] == weight.shape[1] and is_static(weight.shape)
    if fits and (bias is None or (bias.shape == weight.shape[:1] and bias.dtype == weight.dtype)):
        shape, order = (*x.shape[:-1], weight.shape[0]), tuple(range(x.ndim))
        result = deferred(add, x, weight, bias, shape, memory=order, axis=0, channel=x.ndim - 1)
    else:
        result = add(weight, bias)
    return L.squeeze(result, [0]) if input.ndim == 1 else result


def _is_odd(x: Tensor, weight: Tensor) -> bool:
    """Whether the builder multiplies in fewer launches by transposed values than by a flag, in TensorRT-RTX 1.7.

    It gives an odd side one more element. With the values in that order, it does so in the constant, for one matrix
    of rows, and where both sides are odd and the rows do not lie in memory as they are written. Otherwise it copies
    what is multiplied either way. Great weights are not copied for it.
    """
    if not weight.is_constant or weight.ndim != 2 or weight.data.numel() > SMALL or x.ndim < 3:
        return False
    odd = [size % 2 == 1 for size in weight.data.shape]
    return any(odd) and (product(x.shape[:-2]) == 1 or (all(odd) and x.order[-1] != x.ndim - 1))


def _merged_as_it_lies(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor] | None:
    """A flattened operand in the order in which it lies in memory, and the weight with its columns in that order."""
    shuffled = joined_shuffle(x)
    if shuffled is None or not weight.is_constant or weight.ndim != 2:
        return None
    found = shuffled.steps.merged_along(shuffled.source.shape, shuffled.source.order)
    if found is None:
        return None
    steps, sizes, places = found
    parts = L.shuffle(weight, reshape=(weight.shape[0], *sizes))
    columns = L.shuffle(parts, (0, *(1 + place for place in places)), weight.shape)
    return L.shuffle(shuffled.source, *steps), columns


@operation
def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """The rows of ``mat_a`` (S, K), each times the matrix of its group in ``mat_b`` (G, K, N): a mixture of experts.

    Group g ends before row ``offs[g]``; rows after the last group have no meaning. Two batches of matrices, without
    ``offs``, are multiplied in pairs. torch's groups of columns (``mat_b`` of rank 2) have sizes that depend on data:
    UnsupportedError. IMatrixMultiplyLayer of all rows with all groups, or, where there are no more rows than groups, of
    each row with the matrix that IGatherLayer gives it.

    >>> F.grouped_mm(net.input("x", ("S", 3)), net.input("w", (4, 3, 5)), offs=net.input("ends", (4,), "int32")).shape
    (S, 5)
    """
    if bias is not None:
        raise UnsupportedError("grouped_mm: torch has no bias here either: add bias[group] to the result")
    if mat_b.ndim == 3 and mat_a.ndim == 3 and offs is None:
        result = matmul(mat_a, mat_b)
    elif mat_b.ndim == 3 and mat_a.ndim == 2 and offs is not None:
        result = _rows_by_group(mat_a, mat_b, offs)
    else:
        raise UnsupportedError(
            f"grouped_mm of {shape_text(mat_a.shape)} and {shape_text(mat_b.shape)}"
            f"{'' if offs is None else ' with offs'}: groups are parts of the rows of mat_a (S, K), and mat_b is "
            "(G, K, N); other groups have sizes that depend on data"
        )
    return result if out_dtype in (None, result.dtype) else L.cast(result, out_dtype)


def _rows_by_group(rows: Tensor, groups: Tensor, ends: Tensor) -> Tensor:
    """Each row times the matrix of its group, the first that ends behind it."""
    count, number = rows.shape[0], groups.shape[0]
    place = L.linspace(rows.network, (count,), dtype=torch.int64)
    ended = ~(L.unsqueeze(place, [1]) < L.cast(ends, torch.int64))
    group = L.reduce(L.cast(ended, torch.int64), "SUM", [1])
    group = binary(group, number - 1, "MIN")  # rows after the last group
    dtype = promote(rows, groups)[0].dtype
    a, b = L.cast(rows, dtype), L.cast(groups, dtype)
    if bounds(count)[1] <= bounds(number)[0]:
        return L.squeeze(L.matrix_multiply(L.unsqueeze(a, [1]), L.gather(b, group, 0)), [1])
    every = L.matrix_multiply(L.unsqueeze(a, [0]), b)
    pairs = L.concatenation([L.unsqueeze(group, [1]), L.unsqueeze(place, [1])], 1)
    return L.gather(every, pairs, mode="ND")
