"""Distances and similarities of vectors."""

from __future__ import annotations

from ..common import L, ShapeError, Tensor, broadcast, operation, require_floats, require_rank, shape_text
from ..indexing.search import searchsorted
from ..operands import axis_of, binary, promote, stretch
from ..reducing.statistics import vector_norm
from ..shaping.create import counted


@operation
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """``sum(x1 * x2) / (max(|x1|, eps) * max(|x2|, eps))`` along ``dim``: as :func:`normalize` and :func:`vecdot`.

    >>> F.cosine_similarity(net.input("a", ("N", 8)), net.input("b", ("N", 8))).shape
    (N,)
    """
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

    >>> F.cdist(net.input("a", ("N", 5, 8)), net.input("b", ("N", 7, 8))).shape
    (N, 5, 7)
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
