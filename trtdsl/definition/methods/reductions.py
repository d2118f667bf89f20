"""torch.Tensor's methods: reductions, products and indexing.

Each is one call into :mod:`trtdsl.functional`, where its arguments are documented.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..above import F
from ..shape import SizeLike

if TYPE_CHECKING:
    from ..tensor import Tensor


Dims = int | Sequence[int] | None


class ReductionMethods:
    """Reductions, products, and elements by index."""

    __slots__ = ()

    # -- reductions ----------------------------------------------------------------------------------------------------

    def sum(self, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        return F.sum(self, dim, keepdim, dtype=dtype)

    def mean(self, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        return F.mean(self, dim, keepdim, dtype=dtype)

    def prod(self, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        return F.prod(self, dim, keepdim, dtype=dtype)

    def nansum(self, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        return F.nansum(self, dim, keepdim, dtype=dtype)

    def nanmean(self, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        return F.nanmean(self, dim, keepdim, dtype=dtype)

    def amax(self, dim: Dims = (), keepdim: bool = False) -> Tensor:
        return F.amax(self, dim, keepdim)

    def amin(self, dim: Dims = (), keepdim: bool = False) -> Tensor:
        return F.amin(self, dim, keepdim)

    def aminmax(self, *, dim: int | None = None, keepdim: bool = False) -> Any:
        return F.aminmax(self, dim=dim, keepdim=keepdim)

    def max(self, dim: Any = None, keepdim: bool = False) -> Any:
        return F.max(self, dim, keepdim)

    def min(self, dim: Any = None, keepdim: bool = False) -> Any:
        return F.min(self, dim, keepdim)

    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        return F.argmax(self, dim, keepdim)

    def argmin(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        return F.argmin(self, dim, keepdim)

    def all(self, dim: Dims = None, keepdim: bool = False) -> Tensor:
        return F.all(self, dim, keepdim)

    def any(self, dim: Dims = None, keepdim: bool = False) -> Tensor:
        return F.any(self, dim, keepdim)

    def count_nonzero(self, dim: Dims = None) -> Tensor:
        return F.count_nonzero(self, dim)

    def var(
        self, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None
    ) -> Tensor:
        return F.var(self, dim, unbiased, keepdim, correction=correction)

    def std(
        self, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None
    ) -> Tensor:
        return F.std(self, dim, unbiased, keepdim, correction=correction)

    def norm(self, p: Any = "fro", dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
        return F.norm(self, p, dim, keepdim, dtype)

    def dist(self, other: Tensor, p: float = 2) -> Tensor:
        return F.dist(self, other, p)

    def logsumexp(self, dim: Dims, keepdim: bool = False) -> Tensor:
        return F.logsumexp(self, dim, keepdim)

    def cumsum(self, dim: int, *, dtype: Any = None) -> Tensor:
        return F.cumsum(self, dim, dtype=dtype)

    def cumprod(self, dim: int, *, dtype: Any = None) -> Tensor:
        return F.cumprod(self, dim, dtype=dtype)

    def logcumsumexp(self, dim: int) -> Tensor:
        return F.logcumsumexp(self, dim)

    def median(self, dim: int | None = None, keepdim: bool = False) -> Any:
        return F.median(self, dim, keepdim)

    # -- products ------------------------------------------------------------------------------------------------------

    def matmul(self, other: Tensor) -> Tensor:
        return F.matmul(self, other)

    def mm(self, mat2: Tensor) -> Tensor:
        return F.mm(self, mat2)

    def bmm(self, mat2: Tensor) -> Tensor:
        return F.bmm(self, mat2)

    def mv(self, vec: Tensor) -> Tensor:
        return F.mv(self, vec)

    def dot(self, tensor: Tensor) -> Tensor:
        return F.dot(self, tensor)

    def vdot(self, other: Tensor) -> Tensor:
        return F.vdot(self, other)

    def inner(self, other: Tensor) -> Tensor:
        return F.inner(self, other)

    def outer(self, vec2: Tensor) -> Tensor:
        return F.outer(self, vec2)

    def ger(self, vec2: Tensor) -> Tensor:
        return F.ger(self, vec2)

    def addmm(self, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        return F.addmm(self, mat1, mat2, beta=beta, alpha=alpha)

    def addmv(self, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        return F.addmv(self, mat, vec, beta=beta, alpha=alpha)

    def addr(self, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        return F.addr(self, vec1, vec2, beta=beta, alpha=alpha)

    def addbmm(self, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        return F.addbmm(self, batch1, batch2, beta=beta, alpha=alpha)

    def baddbmm(self, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        return F.baddbmm(self, batch1, batch2, beta=beta, alpha=alpha)

    def matrix_power(self, n: int) -> Tensor:
        return F.matrix_power(self, n)

    def kron(self, other: Tensor) -> Tensor:
        return F.kron(self, other)

    def cross(self, other: Tensor, dim: int | None = None) -> Tensor:
        return F.cross(self, other, dim)

    # -- indexing ------------------------------------------------------------------------------------------------------

    def gather(self, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
        return F.gather(self, dim, index, sparse_grad=sparse_grad)

    def index_select(self, dim: int, index: Tensor) -> Tensor:
        return F.index_select(self, dim, index)

    def take(self, index: Tensor) -> Tensor:
        return F.take(self, index)

    def take_along_dim(self, indices: Tensor, dim: int | None = None) -> Tensor:
        return F.take_along_dim(self, indices, dim)

    def nonzero(self, *, as_tuple: bool = False) -> Any:
        return F.nonzero(self, as_tuple=as_tuple)

    def argwhere(self) -> Tensor:
        return F.argwhere(self)

    def masked_select(self, mask: Tensor) -> Tensor:
        return F.masked_select(self, mask)

    def scatter(self, dim: int, index: Tensor, src: Any, *, reduce: str | None = None) -> Tensor:
        return F.scatter(self, dim, index, src, reduce=reduce)

    def scatter_add(self, dim: int, index: Tensor, src: Tensor) -> Tensor:
        return F.scatter_add(self, dim, index, src)

    def scatter_reduce(self, dim: int, index: Tensor, src: Any, reduce: str, *, include_self: bool = True) -> Tensor:
        return F.scatter_reduce(self, dim, index, src, reduce, include_self=include_self)

    def index_add(self, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
        return F.index_add(self, dim, index, source, alpha=alpha)

    def index_copy(self, dim: int, index: Tensor, source: Tensor) -> Tensor:
        return F.index_copy(self, dim, index, source)

    def index_fill(self, dim: int, index: Tensor, value: Any) -> Tensor:
        return F.index_fill(self, dim, index, value)

    def index_put(self, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Tensor:
        return F.index_put(self, indices, values, accumulate)

    def topk(self, k: SizeLike, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
        return F.topk(self, k, dim, largest, sorted)

    def sort(self, dim: int = -1, descending: bool = False, stable: bool = True) -> Any:
        return F.sort(self, dim, descending, stable)

    def argsort(self, dim: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
        return F.argsort(self, dim, descending, stable)

    def msort(self) -> Tensor:
        return F.msort(self)

    def kthvalue(self, k: int, dim: int = -1, keepdim: bool = False) -> Any:
        return F.kthvalue(self, k, dim, keepdim)
