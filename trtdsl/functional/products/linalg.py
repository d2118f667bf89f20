"""Linear algebra of small matrices: elimination written out step by step."""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

from ..common import L, ShapeError, Tensor, UnsupportedError, operation, require_floats, shape_text, torch
from ..constants import are_constants, by_torch, of_constants
from ..operands import choose
from ..reducing.reduction import top
from ..reducing.statistics import vector_norm
from ..shaping.create import filled, indices_of
from ..shaping.join import cat, part
from .matmul import matmul

LARGEST = 16  # rows: each is a step of about fifteen layers


def _square(x: Tensor, name: str) -> int:
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{name} takes square matrices, not {shape_text(x.shape)}")
    rows = x.shape[-1]
    if not isinstance(rows, int) or rows > LARGEST:
        raise UnsupportedError(
            f"{name}: elimination is written out, for {LARGEST} rows at most, not {rows}: no layer does it"
        )
    require_floats(f"{name} takes", x)
    return rows


def _eliminated(matrix: Tensor, rows: int) -> tuple[Tensor, list[Tensor]]:
    """The right part of (A | B) after Gauss-Jordan elimination with row pivoting, A⁻¹B; and the factors of A's
    determinant, one a row.
    """
    network, dtype = matrix.network, matrix.dtype
    row_numbers, _ = indices_of(network, rows, 1)  # (rows, 1)
    right = matrix.shape[-1] != rows
    pivots: list[Tensor] = []
    for k in range(rows):
        size = abs(part(matrix, -1, k, 1))  # (…, rows, 1)
        if k:
            size = choose(row_numbers < k, -1.0, size, dtype)
        _, place = top(size, 1, matrix.ndim - 2, "MAX")
        chosen, own = row_numbers == place, row_numbers == k  # (…, rows, 1)
        pivot_row = L.reduce(choose(chosen, matrix, 0.0, dtype), "SUM", [matrix.ndim - 2], True)
        pivot = part(pivot_row, -1, k, 1)
        moved = choose(chosen, part(matrix, -2, k, 1), matrix, dtype)
        factors = choose(own, 0.0, part(moved, -1, k, 1), dtype)
        unit = pivot_row / (pivot if right else choose(pivot == 0.0, 1.0, pivot, dtype))  # 0 where A is singular
        matrix = choose(own, unit, moved - factors * unit, dtype)
        pivots.append(pivot * choose(place == k, network.constant(1.0), -1.0, dtype))
    return part(matrix, -1, rows, matrix.shape[-1] - rows), pivots


@operation
@by_torch("linalg.inv")
def inverse(input: Tensor) -> Tensor:
    """The inverse of square matrices (…, n, n) of up to 16 rows; of a singular one infinities or NaN.

    Gauss-Jordan elimination with pivoting, about fifteen layers a row: ITopKLayer, ISelectLayers, IElementWiseLayers.

    Raises UnsupportedError for more rows, and for a dynamic number of them. torch computes that of constants.
    """
    rows = _square(input, "inverse")
    if rows == 0:
        return input
    one = input.network.constant(torch.eye(rows))
    if input.ndim > 2:
        one = one + part(L.cast(input, torch.float32), -1, 0, 1) * 0.0
    return solve(input, one)


@operation
@by_torch("linalg.solve")
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X with ``A X = B`` for square A (…, n, n) of up to 16 rows and B (…, n, k) or (n,): as :func:`inverse`.

    By a constant A of any size, IMatrixMultiplyLayer with its inverse.

    >>> F.solve(net.input("a", ("N", 3, 3)), net.input("b", ("N", 3, 2))).shape
    (N, 3, 2)
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
    wide, given = L.cast(A, torch.float32), L.cast(right, torch.float32)
    found = L.cast(_eliminated(cat([wide, given], -1), rows)[0], A.dtype)
    return L.squeeze(found, [found.ndim - 1]) if vector else found


@operation
@by_torch("linalg.solve_triangular")
def solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """X with ``A X = B``, or ``X A = B``, for triangular A (…, n, n) of up to 16 rows, whose other part is not read.

    Substitution row by row: IMatrixMultiplyLayers and IElementWiseLayers. By a constant A of any size, one
    IMatrixMultiplyLayer with its inverse.

    >>> F.solve_triangular(net.input("a", ("N", 3, 3)), net.input("b", ("N", 3, 2)), upper=False).shape
    (N, 3, 2)
    """
    if not left:
        found = solve_triangular(A.mT, B.mT, upper=not upper, unitriangular=unitriangular)
        return found.mT
    if are_constants(A):
        one, how = torch.eye(A.data.shape[-1], dtype=A.dtype), {"upper": upper, "unitriangular": unitriangular}
        return matmul(of_constants(torch.linalg.solve_triangular, A, one, **how), B)
    rows = _square(A, "solve_triangular")
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
    """The determinant of square matrices (…, n, n) of up to 16 rows: as :func:`inverse`."""
    rows = _square(input, "det")
    if rows == 0:
        return filled(input.network, input.shape[:-2], 1.0, input.dtype)
    wide = L.cast(input, torch.float32)
    if rows == 2:
        a, b, c, d = (part(part(wide, -2, i, 1), -1, j, 1) for i in (0, 1) for j in (0, 1))
        found = a * d - b * c
    else:
        found = functools.reduce(operator.mul, _eliminated(wide, rows)[1])
    return L.cast(L.squeeze(found, [found.ndim - 2, found.ndim - 1]), input.dtype)


@operation
@by_torch("linalg.slogdet")
def slogdet(input: Tensor) -> tuple[Tensor, Tensor]:
    """The sign of the determinant of square matrices (…, n, n) of up to 16 rows, and the logarithm of its magnitude.

    As :func:`inverse`, and IUnaryLayers SIGN, ABS and LOG of each row's pivot; 0 and -inf for a singular matrix.

    >>> sign, logarithm = F.slogdet(net.input("x", ("N", 3, 3)))
    >>> logarithm.shape
    (N,)
    """
    rows = _square(input, "slogdet")
    if rows == 0:
        one, zero = (filled(input.network, input.shape[:-2], number, input.dtype) for number in (1.0, 0.0))
        return one, zero
    pivots = cat(_eliminated(L.cast(input, torch.float32), rows)[1], -1)
    axes = [pivots.ndim - 2, pivots.ndim - 1]
    sign = L.reduce(L.unary(pivots, "SIGN"), "PROD", axes, False)
    logarithm = L.reduce(L.unary(L.unary(pivots, "ABS"), "LOG"), "SUM", axes, False)
    return L.cast(sign, input.dtype), L.cast(logarithm, input.dtype)


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
