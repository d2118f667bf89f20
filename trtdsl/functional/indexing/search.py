"""Where values belong among others: sorted boundaries, sets, counts, bags of embeddings, places of a mask."""

from __future__ import annotations

import math
from typing import Any

from ...core.errors import DefinitionError, ShapeError, UnsupportedError
from ..common import L, Tensor, operation, require_network, require_one_of, require_rank, torch
from ..operands import as_tensor, binary, choose, numeric, result_type
from ..pointwise.arithmetic import mul
from ..products.linalg import matmul
from ..reducing.cumulative import cumsum
from ..reducing.reduction import any as any_of
from ..shaping.create import counted
from ..shaping.reshape import broadcast_tensors, ravel


@operation
def searchsorted(
    sorted_sequence: Tensor,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """How many of ``sorted_sequence`` (…, S) are below each value of ``input`` (…, V), or not above with ``right``.

    That is where the value keeps the order. ``sorter`` (…, S) sorts the sequence. IElementWiseLayer LESS, ICastLayer
    and IReduceLayer SUM over all pairs, of which (…, V, S) exist: for long sequences the builder fuses the three.
    """
    require_one_of("searchsorted: side", side, (None, "left", "right"))
    if side == "left" and right:
        raise DefinitionError("searchsorted: side='left' and right=True contradict each other")
    network = require_network(sorted_sequence, input)
    values = as_tensor(input, network)
    if sorter is not None:
        sorted_sequence = L.gather(sorted_sequence, sorter, sorted_sequence.ndim - 1, "ELEMENT")
    if sorted_sequence.ndim > 1 and sorted_sequence.shape[:-1] != values.shape[:-1]:
        raise ShapeError("sequence and values must agree in all dimensions but the last")
    dtype = result_type(sorted_sequence, values)
    edges, wanted = L.cast(sorted_sequence, dtype), L.unsqueeze(L.cast(values, dtype), [values.ndim])
    edges = edges if edges.ndim == 1 else L.unsqueeze(edges, [edges.ndim - 1])
    before = ~(edges > wanted) if right or side == "right" else edges < wanted
    count = L.reduce(L.cast(before, torch.int64), "SUM", [before.ndim - 1])
    return L.cast(count, torch.int32) if out_int32 else count


@operation
def bucketize(input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The bucket of each value between sorted ``boundaries``, a vector: as :func:`searchsorted`."""
    require_rank(boundaries, "bucketize takes a vector of boundaries", 1)
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


@operation
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each of ``elements`` is among ``test_elements``; the contrary with ``invert``.

    IElementWiseLayer EQUAL over all pairs, ICastLayers and IReduceLayer SUM. ``assume_unique`` speeds torch up and
    changes nothing here.
    """
    network = require_network(elements, test_elements)
    given, among = as_tensor(elements, network), as_tensor(test_elements, network)
    found = any_of(L.unsqueeze(given, [given.ndim]) == ravel(among), -1)
    return ~found if invert else found


@operation
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each number from 0 occurs in a constant vector ``input``, or the sum of its ``weights``.

    The number of bins depends on the values: UnsupportedError unless they are constant. ``F.one_hot(x, bins).sum(0)``
    counts in a known number of bins. No layer; with weights IReduceLayer SUM of ISelectLayer.
    """
    if not input.is_constant:
        raise UnsupportedError("how many bins depends on data: F.one_hot(x, bins).sum(0) counts in a known number")
    bins = max(int(input.data.max()) + 1 if input.data.numel() else 0, minlength)
    if weights is None:
        return input.network.constant(torch.bincount(input.data, minlength=minlength))
    if weights.dtype != torch.float32:
        raise UnsupportedError(f"bincount: weights of {weights.dtype} are summed in float64 by torch: use float32")
    places = input.network.constant((torch.arange(bins)[:, None] == input.data[None, :]).float())
    return L.reduce(places * weights, "SUM", [1])


@operation
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements are in each of ``bins`` equal parts of the range from ``min`` to ``max``, which it includes.

    Elements outside of the range, and NaN, are not counted; where both ends are equal, the range is the input's own.
    Gives the input's dtype. IElementWiseLayers and IReduceLayer SUM over all pairs of elements and bins.
    """
    if bins <= 0 or max < min:
        raise DefinitionError(f"histc: bins must be positive and max at least min, not {bins}, from {min} to {max}")
    network, x = input.network, ravel(numeric(input))
    wide = L.cast(x, torch.float32)
    if min == max:
        low, high = L.reduce(wide, "MIN", [0], True), L.reduce(wide, "MAX", [0], True)
        apart = L.cast(low == high, torch.float32)  # each a unit further out where they are one number
        low, high = low - apart, high + apart
    else:
        low, high = (network.constant(torch.tensor([float(end)])) for end in (min, max))
    part = (wide - low) * float(bins) / (high - low)
    last = binary(L.unary(part, "FLOOR"), float(bins - 1), "MIN")  # the upper end is in the last bin
    places = network.constant(torch.arange(bins, dtype=torch.float32)[:, None])
    found = (last == places) & (~(wide < low) & ~(wide > high))
    return L.reduce(L.cast(found, x.dtype), "SUM", [1])


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
        raise ShapeError("embedding_bag takes (bags, n), or a vector with offsets")
    rows, inside = L.gather(weight, input, 0), None
    if padding_idx is not None:
        inside = ~(input == (padding_idx if padding_idx >= 0 else weight.shape[0] + padding_idx))
    if per_sample_weights is not None:
        rows = mul(rows, L.unsqueeze(per_sample_weights, [per_sample_weights.ndim]))
    if offsets is not None:
        bags = offsets.shape[0] - include_last_offset
        places, every = (counted(input.network, length) for length in (input.shape[0], bags))
        # With the last offset, what follows it is in no bag.
        owner = searchsorted(L.cast(offsets, torch.int64), places, right=True) - 1
        members = L.unsqueeze(every, [1]) == L.unsqueeze(owner, [0])  # (bags, n)
        inside = members if inside is None else members & L.unsqueeze(inside, [0])
    if inside is None:
        return L.reduce(rows, {"sum": "SUM", "mean": "AVG", "max": "MAX"}[mode], [1])
    if mode == "max":
        return _greatest(rows if offsets is None else L.unsqueeze(rows, [0]), L.unsqueeze(inside, [2]))
    there = L.cast(inside, rows.dtype)
    if offsets is None:
        total = L.reduce(choose(L.unsqueeze(inside, [2]), rows, 0, rows.dtype), "SUM", [1])
    else:
        total = matmul(there, rows)
    if mode == "sum":
        return total
    return total / binary(L.reduce(there, "SUM", [1], True), 1.0, "MAX", rows.dtype)  # an empty bag is 0


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
