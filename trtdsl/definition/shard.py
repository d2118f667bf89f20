"""A rank's part of a weight."""

from __future__ import annotations

from ..core.errors import ShapeError
from .operation import operation
from .tensor import Tensor


@operation
def shard(w: Tensor, dim: int, rank: int, ranks: int) -> Tensor:
    """The part of ``w`` that one of several ranks has, along ``dim``: of a weight no more than that is read.

    Raises ShapeError where the ranks do not divide that dimension.

    >>> net = td.Network()
    >>> td.shard(net.constant(torch.arange(6).view(3, 2)), 1, rank=1, ranks=2).data
    tensor([[1],
            [3],
            [5]])
    """
    size = w.shape[dim]
    if not isinstance(size, int) or size % ranks or not 0 <= rank < ranks:
        raise ShapeError(f"{ranks} ranks do not share out dimension {dim} of {w}: its size is {size}")
    part, dim = size // ranks, dim % w.ndim
    return w[(*[slice(None)] * dim, slice(rank * part, (rank + 1) * part))]
