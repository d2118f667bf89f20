"""DIST_COLLECTIVE: what the ranks of a network on several GPUs give one another."""

from __future__ import annotations

from ..core.caller import Positive, as_argument
from ..core.errors import UsageError
from .common import ShapeError, Tensor, UnsupportedError, add_layer, evaluates, member, normalize_axis, operation, torch
from .evaluation import Meeting, Node

OPERATIONS = "ALL_REDUCE", "ALL_GATHER", "REDUCE_SCATTER"
REDUCTIONS = {
    "SUM": lambda x: x.sum(0, dtype=x.dtype),
    "PROD": lambda x: x.prod(0, dtype=x.dtype),
    "MAX": lambda x: x.amax(0),
    "MIN": lambda x: x.amin(0),
    "AVG": lambda x: x.sum(0, dtype=x.dtype) / len(x),
}


@operation
def all_reduce(x: Tensor, num_ranks: int, op: str = "SUM") -> Tensor:
    """``x`` of all ranks, reduced element by element, for each of them: one IDistCollectiveLayer.

    ``op`` is SUM, PROD, MAX, MIN or AVG. With ``num_ranks=1`` it is ``x`` itself, and no layer.

    Raises UnsupportedError for another ``op``, UsageError for less than one rank.
    """
    return _collective(x, "ALL_REDUCE", op, num_ranks)


@operation
def all_gather(x: Tensor, num_ranks: int) -> Tensor:
    """``x`` (A, …) of all ranks, one behind the other, for each of them, (ranks * A, …): one IDistCollectiveLayer.

    With ``num_ranks=1`` it is ``x`` itself, and no layer. Raises UsageError for less than one rank.
    """
    return _collective(x, "ALL_GATHER", "NONE", num_ranks)


@operation
def reduce_scatter(x: Tensor, num_ranks: int, op: str = "SUM") -> Tensor:
    """The reduction of all ranks' ``x`` (ranks * A, …), of which each gets its part (A, …): one IDistCollectiveLayer.

    With ``num_ranks=1`` it is ``x`` itself, and no layer. Raises ShapeError where the ranks do not divide the first
    dimension, UnsupportedError for another ``op`` than :func:`all_reduce` has.
    """
    return _collective(x, "REDUCE_SCATTER", op, num_ranks)


@operation
def shard(w: Tensor, dim: int, rank: int, ranks: int) -> Tensor:
    """The part of ``w`` that one of several ranks has, along ``dim``: of a weight no more than that is read.

    Raises ShapeError where the ranks do not divide that dimension, UsageError for a rank that is none of theirs.

    >>> td.shard(net.constant(torch.arange(6).view(3, 2)), 1, rank=1, ranks=2).data
    tensor([[1],
            [3],
            [5]])
    """
    ranks, axis = as_argument("ranks", ranks, Positive), normalize_axis(as_argument("dim", dim, int), w.ndim)
    if not 0 <= as_argument("rank", rank, int) < ranks:
        raise UsageError(f"there is no rank {rank} among {ranks}: they are 0 to {ranks - 1}")
    size = w.shape[axis] if w.ndim else 1
    if not isinstance(size, int) or size % ranks:
        raise ShapeError(f"{ranks} ranks do not share out dimension {axis} of {w}: its size is {size}")
    part = size // ranks
    return w[(*[slice(None)] * axis, slice(rank * part, (rank + 1) * part))] if w.ndim else w


def _collective(x: Tensor, kind: str, op: str, ranks: int) -> Tensor:
    as_argument("num_ranks", ranks, Positive)
    if kind != "ALL_GATHER" and op not in REDUCTIONS:
        raise UnsupportedError(f"op={op!r}: ranks reduce by {', '.join(REDUCTIONS)}")
    if ranks == 1:
        return x
    if x.network.ranks not in (1, ranks):
        raise UsageError(f"num_ranks={ranks}: the network is of {x.network.ranks} ranks, which all meet here")
    trt, shape = x.network.trt, x.shape
    if kind != "ALL_REDUCE" and not shape:
        raise ShapeError("a scalar has no first dimension for the ranks to share out")
    if kind == "ALL_GATHER":
        shape = (shape[0] * ranks, *shape[1:])
    if kind == "REDUCE_SCATTER":
        x.network.constraints.equal(
            shape[0] % ranks, 0, "what is left of the ranks' parts", x.network.current_operation
        )
        shape = (shape[0] // ranks, *shape[1:])
    what, reduction = member(trt.CollectiveOperation, kind, "operation"), member(trt.ReduceOperation, op, "reduction")

    def add(target, x):
        layer = target.definition.add_dist_collective(x, what, reduction, -1, [])
        if layer is not None:
            layer.num_ranks = ranks
            target.numbers = {"kind": OPERATIONS.index(kind), "op": list(trt.ReduceOperation.__members__).index(op)}
        return layer

    label = f"{kind}_{op}".lower()  # a layer's name alone tells a fingerprint what it does
    return add_layer(add, x, shape=shape, fold=False, label=label)


@evaluates("DIST_COLLECTIVE", category="collective", computes=True)
def _dist_collective(node: Node) -> Meeting:
    """Each rank's result of all ranks' operands. TensorRT tells of the layer no more than how many ranks there are."""
    if not node.numbers:
        raise node.unsupported("a collective operation of a network that was not written here")
    kind, ranks = OPERATIONS[int(node.numbers["kind"])], node.layer.num_ranks
    reduce = REDUCTIONS.get(list(node.trt.ReduceOperation.__members__)[int(node.numbers["op"])])

    def together(operands: list[torch.Tensor]) -> list[torch.Tensor]:
        if kind == "ALL_GATHER" or reduce is None:
            return [torch.cat(operands)] * ranks
        whole = reduce(torch.stack(operands))
        return list(whole.chunk(ranks)) if kind == "REDUCE_SCATTER" else [whole] * ranks

    return Meeting(ranks, together)
