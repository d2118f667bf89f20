"""Bags of embeddings, and elements that are placed by a mask."""

from __future__ import annotations

import math
from typing import Any

from ..checks import require_one_of
from ..common import DefinitionError, L, ShapeError, Tensor, UnsupportedError, operation, shape_text, torch
from ..operands import binary, choose
from ..pointwise.arithmetic import mul
from ..products.matmul import matmul
from ..reducing.cumulative import cumsum
from ..shaping.create import counted
from ..shaping.reshape import broadcast_tensors, ravel
from .search import searchsorted


@operation
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The sum, mean or greatest of the rows of ``weight`` (classes, features) that each bag of ``input`` names.

    ``input`` is (bags, n), or a vector of which ``offsets`` say where each bag begins. ``per_sample_weights`` count in
    a sum; rows of ``padding_idx`` do not count; an empty bag is 0. IGatherLayer; IReduceLayer over bags of one length,
    otherwise IMatrixMultiplyLayer with a matrix (bags, n) of which element is in which bag (for ``"max"`` a
    product (bags, n, features) is reduced). ``scale_grad_by_freq`` and ``sparse`` concern gradients alone.

    Raises UnsupportedError for ``max_norm``, which changes the weight in place.
    """
    if max_norm is not None:
        raise UnsupportedError("embedding_bag(max_norm=…) changes the weight in place: apply it beforehand")
    require_one_of("embedding_bag: mode", mode, ("sum", "mean", "max"))
    if per_sample_weights is not None and mode != "sum":
        raise UnsupportedError("embedding_bag takes per_sample_weights with mode='sum' only, as torch does")
    if (input.ndim == 1) != (offsets is not None) or input.ndim not in (1, 2):
        raise ShapeError(
            f"embedding_bag takes (bags, n), or a vector with offsets, not {shape_text(input.shape)}"
            f"{' with offsets' * (offsets is not None)}"
        )
    rows, inside = L.gather(weight, input, 0), None
    if padding_idx is not None:
        inside = ~(input == (padding_idx if padding_idx >= 0 else weight.shape[0] + padding_idx))
    if per_sample_weights is not None:
        rows = mul(rows, L.unsqueeze(per_sample_weights, [per_sample_weights.ndim]))
    if offsets is not None:
        return _split_bags(rows, inside, _members(input, offsets, include_last_offset), mode)
    if inside is None:
        return L.reduce(rows, {"sum": "SUM", "mean": "AVG", "max": "MAX"}[mode], [1])
    inside = L.unsqueeze(inside, [2])
    if mode == "max":
        return _greatest(rows, inside)
    total = L.reduce(choose(inside, rows, 0, rows.dtype), "SUM", [1])
    return total if mode == "sum" else _mean(total, L.reduce(L.cast(inside, rows.dtype), "SUM", [1]))


def _members(input: Tensor, offsets: Tensor, include_last_offset: bool) -> Tensor:
    """A mask (bags, n) of the elements in each bag."""
    bags = offsets.shape[0] - 1 if include_last_offset else offsets.shape[0]
    places, every = (counted(input.network, length) for length in (input.shape[0], bags))
    # With the last offset, what follows it is in no bag.
    owner = searchsorted(L.cast(offsets, torch.int64), places, right=True) - 1
    return L.unsqueeze(every, [1]) == L.unsqueeze(owner, [0])


def _split_bags(rows: Tensor, inside: Tensor | None, members: Tensor, mode: str) -> Tensor:
    if inside is not None:
        members = members & L.unsqueeze(inside, [0])
    if mode == "max":
        return _greatest(L.unsqueeze(rows, [0]), L.unsqueeze(members, [2]))
    there = L.cast(members, rows.dtype)
    total = matmul(there, rows)
    return total if mode == "sum" else _mean(total, L.reduce(there, "SUM", [1], True))


def _mean(total: Tensor, number: Tensor) -> Tensor:
    """A mean; 0 where there is nothing."""
    return total / binary(number, 1.0, "MAX", number.dtype)


def _greatest(rows: Tensor, inside: Tensor) -> Tensor:
    """The greatest over axis 1 of what is inside; 0 where there is nothing."""
    anything = L.cast(L.reduce(L.cast(inside, torch.int32), "SUM", [1]), torch.bool)
    return choose(anything, L.reduce(choose(inside, rows, -math.inf, rows.dtype), "MAX", [1]), 0.0, rows.dtype)


@operation
def masked_scatter(input: Tensor, mask: Tensor, source: Any) -> Tensor:
    """The elements of ``source``, one after the other, where ``mask`` is true; ``input`` elsewhere.

    ICastLayer, ICumulativeLayer SUM of the flattened mask, IGatherLayer, ISelectLayer.
    """
    if mask.dtype != torch.bool:
        raise DefinitionError(f"masked_scatter takes a mask of bool, not {mask.dtype}")
    input, mask = broadcast_tensors(input, mask)
    order = cumsum(L.cast(ravel(mask), torch.int64), 0) - 1
    picked = L.gather(L.cast(ravel(source), input.dtype), binary(order, 0, "MAX"), 0)
    return L.select(mask, L.shuffle(picked, reshape=mask.shape), input)
