"""Tensors of indices, and what is read or put together by them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ...core.errors import DefinitionError, ShapeError, UnsupportedError
from ..common import L, SizeLike, Tensor, as_dtype, family, is_static, operation, require_network, require_rank, torch
from ..operands import as_tensor, result_type, varargs
from .arrange import pad
from .create import arange
from .join import cat
from .reshape import atleast_2d


def _triangle_indices(
    of: str, row: int, col: int, offset: int = 0, *, dtype: Any = None, layout: Any = None, device: Any = None
) -> Tensor:
    wanted = torch.int64 if dtype is None else as_dtype(dtype)
    if not is_static((row, col, offset)):
        mask = f"{of[:4]}(torch.ones({row}, {col}))"
        raise UnsupportedError(f"{of} of a dynamic size, ({row}, {col}): give it a fixed one, or choose by {mask}")
    return require_network().constant(getattr(torch, of)(row, col, offset, dtype=wanted))


tril_indices, triu_indices = family(
    _triangle_indices,
    "Rows and columns (2, n) of the {} the diagonal ``offset``: a constant.",
    tril_indices=("tril_indices", "lower triangle of a matrix, up to"),
    triu_indices=("triu_indices", "upper triangle of a matrix, from"),
)


@operation
def unravel_index(indices: Tensor, shape: Sequence[SizeLike]) -> tuple[Tensor, ...]:
    """The index in each dimension of ``shape`` of an index into the flattened tensor: IElementWiseLayers."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    parts = []
    for size in reversed(sizes):
        whole = indices // size
        parts.append(indices - whole * size)
        indices = whole
    return tuple(reversed(parts))


@operation
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All choices of ``r`` elements of a vector of static length, in order: IGatherLayer."""
    require_rank(input, "combinations takes a vector", 1)
    if not is_static(input.shape):
        raise UnsupportedError(f"combinations of {input.shape[0]} elements: the length must be static")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = list(choose(range(int(input.shape[0])), r))
    table = torch.tensor(places, dtype=torch.int64).reshape(len(places), r)
    if table.numel() == 0:
        return input.network.constant(torch.empty(table.shape, dtype=input.dtype))
    return L.gather(input, input.network.constant(table), 0)


@operation
def block_diag(*tensors: Any) -> Tensor:
    """A matrix with the given ones along its diagonal, 0 elsewhere: ISliceLayers (FILL) and IConcatenationLayer."""
    if not (given := varargs(tensors)):
        raise DefinitionError("block_diag needs one tensor at least")
    network, dtype = require_network(*given), result_type(*given)
    blocks = [as_tensor(each, network, dtype) for each in given]
    for block in blocks:
        require_rank(block, "block_diag takes matrices, vectors and scalars", 0, 2)
    blocks = atleast_2d(blocks)
    edges = [0, *itertools.accumulate(block.shape[1] for block in blocks)]
    return cat([pad(block, (before, edges[-1] - end)) for block, before, end in zip(blocks, edges, edges[1:])], 0)


@operation
def as_strided(
    input: Tensor, size: Sequence[SizeLike], stride: Sequence[SizeLike], storage_offset: SizeLike | None = None
) -> Tensor:
    """The elements of the flattened ``input`` at ``storage_offset + Σ index * stride``: IShuffleLayer, IGatherLayer.

    ``input`` counts as contiguous, in torch's order. Where a size or a stride is dynamic, IFillLayers count the places.
    """
    sizes, steps, first, network = tuple(size), tuple(stride), storage_offset or 0, input.network
    if len(sizes) != len(steps):
        raise ShapeError(f"as_strided: {len(sizes)} sizes and {len(steps)} strides")
    if 0 in sizes:
        return network.constant(torch.empty([int(n) for n in sizes], dtype=input.dtype))
    last = first + sum((n - 1) * step for n, step in zip(sizes, steps, strict=True))
    elements = input.numel()
    if isinstance(last, int) and isinstance(elements, int) and last >= elements:
        raise ShapeError(f"as_strided: element {last} is read of {elements}")
    network.constraints.inside(first, last + 1 - first, elements, network.current_operation)
    along = [arange(n) * step for n, step in zip(sizes, steps, strict=True)]
    parts = [part.reshape(-1, *[1] * (len(along) - 1 - axis)) for axis, part in enumerate(along)]
    return L.gather(L.shuffle(input, reshape=(elements,)), sum(parts, as_tensor(first, network, torch.int64)), 0)
