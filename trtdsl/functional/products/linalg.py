"""Matrix products, and linear algebra of small matrices: elimination written out step by step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...core.errors import ShapeError, UnsupportedError
from ...layers.shuffle import joined_shuffle
from ..common import L, SizeLike, Tensor, bounds, is_static, operation, product, require_floats, shape_text, torch
from ..constants import are_constants, by_torch, of_constants
from ..operands import align, binary, choose, result_type
from ..reducing.reduction import top
from ..reducing.statistics import vector_norm
from ..shaping.create import filled, indices_of
from ..shaping.join import cat, part
from .folding import deferred, weighted

SMALL = 2**20  # elements of a weight that may be copied


@operation
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """torch's product for every pair of ranks: IMatrixMultiplyLayer, VECTOR for a 1-d operand.

    Batch dimensions are broadcast. Raises ShapeError when the contracted sizes differ.
    """
    if input.ndim == 0 or other.ndim == 0:
        raise ShapeError(f"matmul takes no scalar: {shape_text(input.shape)} and {shape_text(other.shape)}")
    op_a, op_b = ("VECTOR" if x.ndim == 1 else "NONE" for x in (input, other))
    a, b = (L.cast(x, result_type(input, other)) for x in (input, other))
    if not a.dtype.is_floating_point:
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
    a, b = (L.cast(x, result_type(rows, groups)) for x in (rows, groups))
    if bounds(count)[1] <= bounds(number)[0]:
        return L.squeeze(L.matrix_multiply(L.unsqueeze(a, [1]), L.gather(b, group, 0)), [1])
    every = L.matrix_multiply(L.unsqueeze(a, [0]), b)
    pairs = L.concatenation([L.unsqueeze(group, [1]), L.unsqueeze(place, [1])], 1)
    return L.gather(every, pairs, mode="ND")


WRITTEN_OUT = 16  # rows whose steps are written out, about fifteen layers each; more are a loop


def _square(x: Tensor, name: str) -> SizeLike:
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{name} takes square matrices, not {shape_text(x.shape)}")
    require_floats(f"{name} takes", x)
    return x.shape[-1]


def _row_by_row(
    rows: SizeLike, state: Tensor, step: Callable[[Tensor, Any], tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor]:
    """The state after ``step(state, k)`` of each row k, and what these give beside it (…, 1, 1), as (…, 1, rows).

    Few steps are written out, where k is a number; more are a loop, where it is a tensor of one element.
    """
    if isinstance(rows, int) and rows <= WRITTEN_OUT:
        given: list[Tensor] = []
        for k in range(rows):
            state, each = step(state, k)
            given.append(each)
        return state, cat(given, -1) if given else state
    loop, axis = L.Loop(state.network), state.ndim - 1
    loop.count(rows)
    k = loop.iterator(L.linspace(state.network, (rows,), dtype=torch.int64), 0, False)
    before = loop.recurrence(state)
    after, each = step(before, L.shuffle(k, reshape=(1,)))
    loop.next(before, after)
    stacked = loop.concatenate(L.squeeze(each, [axis]), rows, axis, False)
    return loop.last_value(before), stacked


def _at(x: Tensor, axis: int, k: Any) -> Tensor:
    """The row or column k, as one."""
    return part(x, axis, k, 1) if isinstance(k, int) else L.gather(x, k, axis % x.ndim)


def _eliminated(matrix: Tensor, rows: SizeLike) -> tuple[Tensor, Tensor]:
    """The right part of (A | B) after Gauss-Jordan elimination with row pivoting, A⁻¹B; and the factors of A's
    determinant, one a row (…, 1, rows).
    """
    network, dtype = matrix.network, matrix.dtype
    row_numbers, _ = indices_of(network, rows, 1)  # (rows, 1)
    right = matrix.shape[-1] != rows

    def step(matrix: Tensor, k: Any) -> tuple[Tensor, Tensor]:
        size = abs(_at(matrix, -1, k))  # (…, rows, 1)
        if not isinstance(k, int) or k:
            size = choose(row_numbers < k, -1.0, size, dtype)
        _, place = top(size, 1, matrix.ndim - 2, "MAX")
        chosen, own = row_numbers == place, row_numbers == k  # (…, rows, 1)
        pivot_row = L.reduce(choose(chosen, matrix, 0.0, dtype), "SUM", [matrix.ndim - 2], True)
        pivot = _at(pivot_row, -1, k)
        moved = choose(chosen, _at(matrix, -2, k), matrix, dtype)
        factors = choose(own, 0.0, _at(moved, -1, k), dtype)
        unit = pivot_row / (pivot if right else choose(pivot == 0.0, 1.0, pivot, dtype))  # 0 where A is singular
        sign = choose(place == k, network.constant(1.0), -1.0, dtype)
        return choose(own, unit, moved - factors * unit, dtype), pivot * sign

    found, pivots = _row_by_row(rows, matrix, step)
    return part(found, -1, rows, matrix.shape[-1] - rows), pivots


@operation
@by_torch("linalg.inv")
def inverse(input: Tensor) -> Tensor:
    """The inverse of square matrices (…, n, n); of a singular one infinities or NaN.

    Gauss-Jordan elimination with pivoting, about fifteen layers a row: ITopKLayer, ISelectLayers, IElementWiseLayers.
    Of more than 16 rows, and of a dynamic number of them, these are an ILoop. torch computes that of constants.
    """
    rows = _square(input, "inverse")
    if rows == 0:
        return input
    row_numbers, column_numbers = indices_of(input.network, rows, rows)
    one = L.cast(row_numbers == column_numbers, torch.float32)
    if input.ndim > 2:
        one = one + part(L.cast(input, torch.float32), -1, 0, 1) * 0.0
    return solve(input, one)


@operation
@by_torch("linalg.solve")
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X with ``A X = B`` for square A (…, n, n) and B (…, n, k) or (n,): as :func:`inverse`.

    By a constant A of any size, IMatrixMultiplyLayer with its inverse.
    """
    if are_constants(A) and left:
        return matmul(of_constants(torch.linalg.inv, A), B)
    rows = _square(A, "solve")
    if not left:
        raise UnsupportedError("solve(left=False): transpose A and B, and the result")
    vector = B.ndim == 1 or (B.ndim == A.ndim - 1 and B.shape == A.shape[:-1])
    right = L.unsqueeze(B, [B.ndim]) if vector else B
    if right.shape[:-2] != A.shape[:-2] or right.shape[-2] != rows:
        raise UnsupportedError(f"solve: the batches of {shape_text(A.shape)} and {shape_text(B.shape)} must be equal")
    found = _solved(A, right, rows)
    return L.squeeze(found, [found.ndim - 1]) if vector else found


def _solved(A: Tensor, B: Tensor, rows: SizeLike) -> Tensor:
    wide, given = L.cast(A, torch.float32), L.cast(B, torch.float32)
    return L.cast(_eliminated(cat([wide, given], -1), rows)[0], A.dtype)


@operation
@by_torch("linalg.solve_triangular")
def solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """X with ``A X = B``, or ``X A = B``, for triangular A (…, n, n), whose other part is not read.

    Substitution row by row: IMatrixMultiplyLayers and IElementWiseLayers; of more than 16 rows, as :func:`solve`. By a
    constant A, one IMatrixMultiplyLayer with its inverse.
    """
    if not left:
        found = solve_triangular(A.mT, B.mT, upper=not upper, unitriangular=unitriangular)
        return found.mT
    if are_constants(A):
        one, how = torch.eye(A.data.shape[-1], dtype=A.dtype), {"upper": upper, "unitriangular": unitriangular}
        return matmul(of_constants(torch.linalg.solve_triangular, A, one, **how), B)
    rows = _square(A, "solve_triangular")
    if not isinstance(rows, int) or rows > WRITTEN_OUT:
        row_numbers, column_numbers = indices_of(A.network, rows, rows)
        other = row_numbers > column_numbers if upper else row_numbers < column_numbers
        own = choose(other, 0.0, A, A.dtype)
        own = choose(row_numbers == column_numbers, 1.0, own, A.dtype) if unitriangular else own
        return _solved(own, B, rows)
    if rows == 0:
        return B
    known: list[Tensor] = []  # rows of X, from the first on
    for k in reversed(range(rows)) if upper else range(rows):
        row, own = part(B, -2, k, 1), part(A, -2, k, 1)
        if known:
            row = row - part(own, -1, k + 1 if upper else 0, len(known)) @ cat(known, -2)
        row = row if unitriangular else row / part(own, -1, k, 1)
        known = [row, *known] if upper else [*known, row]
    return cat(known, -2)


@operation
@by_torch("linalg.det")
def det(input: Tensor) -> Tensor:
    """The determinant of square matrices (…, n, n): as :func:`inverse`."""
    rows = _square(input, "det")
    if rows == 0:
        return filled(input.network, input.shape[:-2], 1.0, input.dtype)
    wide = L.cast(input, torch.float32)
    if rows == 2:
        a, b, c, d = (part(part(wide, -2, i, 1), -1, j, 1) for i in (0, 1) for j in (0, 1))
        found = a * d - b * c
    else:
        found = L.reduce(_eliminated(wide, rows)[1], "PROD", [wide.ndim - 1], True)
    return L.cast(L.squeeze(found, [found.ndim - 2, found.ndim - 1]), input.dtype)


@operation
@by_torch("linalg.slogdet")
def slogdet(input: Tensor) -> tuple[Tensor, Tensor]:
    """The sign of the determinant of square matrices (…, n, n), and the logarithm of its magnitude.

    As :func:`inverse`, and IUnaryLayers SIGN, ABS and LOG of each row's pivot; 0 and -inf for a singular matrix.
    """
    rows = _square(input, "slogdet")
    if rows == 0:
        one, zero = (filled(input.network, input.shape[:-2], number, input.dtype) for number in (1.0, 0.0))
        return one, zero
    pivots = _eliminated(L.cast(input, torch.float32), rows)[1]
    axes = [pivots.ndim - 2, pivots.ndim - 1]
    sign = L.reduce(L.unary(pivots, "SIGN"), "PROD", axes, False)
    logarithm = L.reduce(L.unary(L.unary(pivots, "ABS"), "LOG"), "SUM", axes, False)
    return L.cast(sign, input.dtype), L.cast(logarithm, input.dtype)


@operation
@by_torch("linalg.cholesky")
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """The lower triangular L with ``L @ L.mT`` a positive definite matrix (…, n, n), whose upper part is not read.

    ``upper=True`` gives ``L.mT``. Where torch raises an error, since a matrix is not positive definite, it has NaN.
    A column after the other: IMatrixMultiplyLayer, IElementWiseLayers and ISelectLayers; of more than 16, an ILoop.
    """
    rows = _square(input, "cholesky")
    if rows == 0:
        return input
    wide = L.cast(input, torch.float32)
    row_numbers, column_numbers = indices_of(input.network, rows, rows)

    def step(factor: Tensor, k: Any) -> tuple[Tensor, Tensor]:
        known = L.matrix_multiply(factor, _at(factor, -2, k), op_b="TRANSPOSE")  # (…, rows, 1)
        column = _at(wide, -1, k) - known
        square = _at(column, -2, k)
        column = choose(row_numbers < k, 0.0, column / L.unary(square, "SQRT"), torch.float32)
        return choose(column_numbers == k, column, factor, torch.float32), square

    factor, _ = _row_by_row(rows, filled(input.network, wide.shape, 0.0, torch.float32), step)
    found = L.cast(factor, input.dtype)
    return found.mT if upper else found


@operation
@by_torch("linalg.matrix_norm")
def matrix_norm(
    input: Tensor, ord: Any = "fro", dim: tuple[int, int] = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The norm of matrices: ``"fro"``, or the greatest (least) sum of rows (``inf``) or columns (1).

    IUnaryLayer ABS, IReduceLayers SUM and MAX (MIN).

    Raises UnsupportedError for 2, -2 and ``"nuc"``, which need singular values, but of constants, which torch computes.
    """
    if ord == "fro":
        return vector_norm(input, 2, dim, keepdim, dtype=dtype)
    if ord not in (1, -1, math.inf, -math.inf):
        raise UnsupportedError(
            f"matrix_norm({ord!r}) needs a singular value decomposition, which TensorRT does not have: "
            "'fro', 1, -1, inf and -inf need none"
        )
    rows, columns = dim
    over, then = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = vector_norm(input, 1, over, True, dtype=dtype)
    return vector_norm(sums, math.inf if ord > 0 else -math.inf, (over, then), keepdim)
