"""Products of vectors and matrices, their similarities and distances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.errors import ShapeError, UnsupportedError
from ...layers.base import broadcast, normalize_axis
from ..common import MAX_DIMS, L, Tensor, family, operation, require_floats, require_rank, shape_text, torch
from ..einsum import einsum
from ..indexing.search import searchsorted
from ..operands import along, axis_of, binary, promote, raised, result_type, scaled, stretch
from ..pointwise.arithmetic import add
from ..reducing.statistics import vector_norm
from ..shaping.create import counted, filled, indices_of
from ..shaping.reshape import broadcast_tensors
from .linalg import inverse, matmul


def _of_matrices(ndim: int, input: Tensor, mat2: Tensor) -> Tensor:
    for matrix in (input, mat2):
        require_rank(matrix, f"{'mm' if ndim == 2 else 'bmm'} takes {ndim} dimensions", ndim)
    return matmul(input, mat2)


mm, bmm = family(
    _of_matrices,
    "The product of two {}: IMatrixMultiplyLayer.",
    mm=(2, "matrices"),
    bmm=(3, "batches of matrices"),
)


@operation
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """The product of a matrix and a vector: IMatrixMultiplyLayer."""
    require_rank(input, "mv takes a matrix", 2)
    require_rank(vec, "mv takes a vector", 1)
    return matmul(input, vec)


@operation
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """The product of two vectors, a scalar: IMatrixMultiplyLayer."""
    for vector in (input, tensor):
        require_rank(vector, "dot takes vectors", 1)
    return matmul(input, tensor)


@operation
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """As :func:`dot`."""
    return dot(input, other)


@operation
def inner(input: Tensor, other: Tensor) -> Tensor:
    """The products along the last dimensions of both; a product with a scalar: IMatrixMultiplyLayer."""
    return input * other if input.ndim == 0 or other.ndim == 0 else tensordot(input, other, ([-1], [-1]))


@operation
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """The products of all pairs of elements of two vectors: IElementWiseLayer PROD."""
    for vector in (input, vec2):
        require_rank(vector, "outer takes vectors", 1)
    return L.unsqueeze(input, [1]) * L.unsqueeze(vec2, [0])


def _scaled_sum(input: Tensor, result: Tensor, beta: float, alpha: float) -> Tensor:
    """``beta * input + alpha * result``; with ``beta`` 0 nothing of ``input`` counts, not even NaN."""
    if result.dtype == torch.bool:  # factors of bool tensors count as true or false
        if beta and alpha:
            return input | result
        input, result = broadcast_tensors(input, result)
        return input if beta else result if alpha else filled(input.network, input.shape, False)
    if beta == 0:
        return broadcast_tensors(input, scaled(result, alpha))[1]
    return add(scaled(input, beta), scaled(result, alpha))


@operation
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """``beta * input + alpha * (mat1 @ mat2)``: IMatrixMultiplyLayer and IElementWiseLayer SUM, PROD for factors."""
    return _scaled_sum(input, mm(mat1, mat2), beta, alpha)


@operation
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """``beta * input + alpha * (mat @ vec)``, as :func:`addmm`."""
    return _scaled_sum(input, mv(mat, vec), beta, alpha)


@operation
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """``beta * input + alpha * outer(vec1, vec2)``: IElementWiseLayers."""
    return _scaled_sum(input, outer(vec1, vec2), beta, alpha)


@operation
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """``beta * input + alpha * sum(batch1 @ batch2)`` over the batch: as :func:`addmm`, IReduceLayer SUM."""
    return _scaled_sum(input, L.reduce(bmm(batch1, batch2), "SUM", [0]), beta, alpha)


@operation
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """``beta * input + alpha * (batch1 @ batch2)``, as :func:`addmm`."""
    return _scaled_sum(input, bmm(batch1, batch2), beta, alpha)


@operation
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of matrices (the outer two may be vectors), in the order of least work: IMatrixMultiplyLayers."""
    if len(tensors) < 2:
        raise ShapeError("multi_dot needs two matrices at least")
    chain = list(tensors)
    while len(chain) > 1:
        # The pair with the largest dimension between them first: it leaves the least to multiply.
        static = [size if isinstance(size := x.shape[-1], int) else 0 for x in chain[:-1]]
        best = static.index(max(static))
        chain[best : best + 2] = [matmul(chain[best], chain[best + 1])]
    return chain[0]


@operation
def matrix_power(input: Tensor, n: int) -> Tensor:
    """A square matrix multiplied ``n`` times with itself: IMatrixMultiplyLayers, about 2 * log2(n).

    A negative ``n`` takes the powers of :func:`inverse`.
    """
    if n < 0:
        input, n = inverse(input), -n
    if n == 0:
        rows, columns = indices_of(input.network, *input.shape[-2:])
        one = L.cast(rows == columns, input.dtype)
        return stretch(L.unsqueeze(one, range(input.ndim - 2)), input.shape)
    return raised(input, n, matmul)


@operation
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Products summed over ``dims``.

    That is a number of dimensions, the last of ``a`` with the first of ``b``, or two lists of them. The layers of
    :func:`einsum`.

    >>> F.tensordot(net.input("a", (2, 3, 4)), net.input("b", (4, 3, 5)), ([1, 2], [1, 0])).shape
    (2, 5)
    """
    if isinstance(dims, int):
        left, right = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        first, second = ([side] if isinstance(side, int) else list(side) for side in dims)
        left = [normalize_axis(axis, a.ndim) for axis in first]
        right = [normalize_axis(axis, b.ndim) for axis in second]
    if len(left) != len(right):
        raise ShapeError(f"tensordot needs as many dimensions of both: {left} and {right}")
    rows, columns = list(range(a.ndim)), [a.ndim + axis for axis in range(b.ndim)]
    for axis_a, axis_b in zip(left, right, strict=True):
        columns[axis_b] = rows[axis_a]
    kept = [label for label in (*rows, *columns) if (label in rows) != (label in columns)]
    return L.cast(einsum(a, rows, b, columns, kept), result_type(a, b))


@operation
def kron(input: Tensor, other: Tensor) -> Tensor:
    """The products of all pairs of elements as blocks: IShuffleLayers and IElementWiseLayer PROD.

    >>> F.kron(net.input("a", (2, 3)), net.input("b", (4, 5))).shape
    (8, 15)
    """
    a, b = promote(input, other)
    left = [size for m in a.shape for size in (m, 1)]
    right = [size for n in b.shape for size in (1, n)]
    sizes = [m * n for m, n in zip(a.shape, b.shape, strict=True)]
    if len(left) > MAX_DIMS:
        raise UnsupportedError(f"kron of {a.ndim} dimensions needs twice as many; TensorRT has at most 8")
    return L.shuffle(L.shuffle(a, reshape=left) * L.shuffle(b, reshape=right), reshape=sizes)


@operation
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The cross product along ``dim`` of size 3, when None the first such: ISliceLayers (WRAP), IElementWiseLayers."""
    a, b = promote(input, other)
    shape = broadcast(a.shape, b.shape)
    if dim is None:
        found = [axis for axis, size in enumerate(shape) if size == 3]
        if not found:
            raise ShapeError(f"cross: {shape_text(shape)} has no dimension of size 3")
        dim = found[0]
    axis = normalize_axis(dim, len(shape))
    if a.shape[axis] != 3 or b.shape[axis] != 3:
        raise ShapeError(f"cross: dimension {dim} must be 3 in {shape_text(a.shape)} and {shape_text(b.shape)}")

    def product(by: int, other: int) -> Tensor:
        return along(a, axis, by, 3, mode="WRAP") * along(b, axis, other, 3, mode="WRAP")

    return product(1, 2) - product(2, 1)


@operation
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """The products of vectors along ``dim``, broadcast: IElementWiseLayer PROD and IReduceLayer SUM."""
    products = x * y
    return L.reduce(products, "SUM", [normalize_axis(dim, products.ndim)])


@operation
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input1 @ weight[k] @ input2`` for each k, plus ``bias``: the layers of :func:`einsum`."""
    require_rank(weight, "bilinear takes a weight of 3 dimensions", 3)
    result = einsum("...i,kij,...j->...k", input1, weight, input2)
    return result if bias is None else result + bias


@operation
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """``sum(x1 * x2) / (max(|x1|, eps) * max(|x2|, eps))`` along ``dim``: as :func:`normalize` and :func:`vecdot`."""
    a, b = promote(x1, x2)
    require_floats("cosine_similarity takes", a)
    shape = broadcast(a.shape, b.shape)
    axis = axis_of(dim, len(shape))
    if not shape:
        a, b, shape = L.unsqueeze(a, [0]), L.unsqueeze(b, [0]), (1,)
    a, b = (stretch(x, shape) if x.shape[axis] != shape[axis] else x for x in (a, b))
    a, b = (x / binary(vector_norm(x, 2, axis, keepdim=True), eps, "MAX", x.dtype) for x in (a, b))
    return L.reduce(a * b, "SUM", [axis])


@operation
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The ``p``-norm of ``x1 - x2 + eps`` along the last dimension: the layers of :func:`vector_norm`."""
    return vector_norm(x1 - x2 + eps, p, -1, keepdim)


@operation
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """The ``p``-norm of the difference of every row of ``x1`` with every row of ``x2``: as :func:`vector_norm`.

    Always computed from differences, the more exact of torch's ways: ``compute_mode`` chooses between ways alone.
    """
    if x1.ndim < 2 or x2.ndim < 2:
        raise ShapeError(f"cdist takes matrices, not {shape_text(x1.shape)} and {shape_text(x2.shape)}")
    return vector_norm(L.unsqueeze(x1, [x1.ndim - 1]) - L.unsqueeze(x2, [x2.ndim - 2]), p, -1)


@operation
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The ``p``-norm of the difference of each pair of rows of a matrix (N, M), in the order of their numbers.

    IGatherLayers of both rows of every pair, whose numbers are constants (with a dynamic N: :func:`searchsorted`), and
    the layers of :func:`vector_norm`.

    >>> F.pdist(net.input("x", (5, 8))).shape
    (10,)
    """
    require_rank(input, "pdist takes a matrix", 2)
    rows = input.shape[0]
    every, pairs = (counted(input.network, length) for length in (rows, rows * (rows - 1) // 2))
    # Row i begins at the pair i * N - i * (i + 1) / 2.
    starts = every * rows - binary(every * (every + 1), 2, "FLOOR_DIV")
    first = searchsorted(starts, pairs, right=True) - 1
    second = pairs - L.gather(starts, first, 0) + (first + 1)
    return vector_norm(L.gather(input, first, 0) - L.gather(input, second, 0), p, 1)
