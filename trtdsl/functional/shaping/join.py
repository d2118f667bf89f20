"""Putting tensors together and taking them apart; tensors of indices, and what is read or put together by them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from ...core.errors import DefinitionError, ShapeError, UnsupportedError
from ...sizes.condition import Condition, verdict
from ...sizes.size import SizeLike, fixed, from_front, is_static, size_max, size_min
from ..common import MAX_DIMS, L, Tensor, as_dtype, family, operation, require_network, require_rank, shape_text, torch
from ..indexing.gather import write_along
from ..indexing.index import from_start, index_in, slice_bounds
from ..operands import along, as_tensor, axis_of, normalize_axis, result_type, varargs
from .arrange import pad, require_shape
from .create import arange
from .reshape import atleast_1d, atleast_2d, atleast_3d


@operation
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """The tensors one after the other along ``dim``, in their common dtype: IConcatenationLayer."""
    if not tensors:
        raise DefinitionError("cat needs at least one tensor")
    dtype = result_type(*tensors)
    # torch skips the legacy empty tensor of shape (0,)
    parts = [L.cast(tensor, dtype) for tensor in tensors if tensor.shape != (0,)] or [L.cast(tensors[0], dtype)]
    return parts[0] if len(parts) == 1 else L.concatenation(parts, dim)


@operation
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """The tensors, all of one shape, along a new dimension: IShuffleLayers and IConcatenationLayer."""
    if not tensors:
        raise DefinitionError("stack needs at least one tensor")
    axis = normalize_axis(dim, tensors[0].ndim + 1)
    dtype = result_type(*tensors)
    parts = [L.unsqueeze(L.cast(tensor, dtype), [axis]) for tensor in tensors]
    return L.concatenation(parts, axis) if len(parts) > 1 else parts[0]


def _stacked(how: tuple[Callable[[Tensor], Tensor], int], tensors: Sequence[Tensor]) -> Tensor:
    grown, axis = how
    parts = [grown(tensor) for tensor in tensors]
    return cat(parts, min(axis, parts[0].ndim - 1))


hstack, vstack, dstack, column_stack = family(
    _stacked,
    "The tensors one after the other along dimension {}: IConcatenationLayer.",
    hstack=((atleast_1d, 1), "1 (0 for vectors)"),
    vstack=((atleast_2d, 0), "0, vectors as rows"),
    dstack=((atleast_3d, 2), "2"),
    column_stack=((lambda x: x if x.ndim > 1 else L.shuffle(x, reshape=(x.numel(), 1)), 1), "1, vectors as columns"),
)


def part(x: Tensor, axis: int, start: SizeLike, length: SizeLike) -> Tensor:
    """``length`` elements of dimension ``axis`` from ``start`` on: ISliceLayer."""
    return x if length == x.shape[axis] else along(x, axis, start, length)


@operation
def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of ``split_size_or_sections`` elements, the last perhaps less, or of the sizes in that list: ISliceLayers.

    Raises UnsupportedError where the number of parts depends on a dynamic size.
    """
    axis, size = normalize_axis(dim, tensor.ndim), split_size_or_sections
    if isinstance(size, (list, tuple)):
        return split_with_sizes(tensor, size, axis)
    length = tensor.shape[axis]
    if isinstance(size, int) and size < 0:
        raise ShapeError(f"split: the size of the parts must not be negative: {size}")
    number = fixed(size_max(-(-length // size), 1)) if size != 0 else 1
    if number is None:
        raise UnsupportedError(f"split: how many parts {length} elements give depends on a dynamic size: list sizes")
    return split_with_sizes(tensor, [*[size] * (number - 1), length - size * (number - 1)], axis)


@operation
def split_with_sizes(input: Tensor, split_sizes: Sequence[SizeLike], dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of the sizes in the list: ISliceLayers."""
    axis, starts = normalize_axis(dim, input.ndim), [0, *itertools.accumulate(split_sizes)]
    if starts[-1] != input.shape[axis]:
        raise ShapeError(f"split: the sizes {[*split_sizes]} add up to {starts[-1]}, not to {input.shape[axis]}")
    return tuple(part(input, axis, start, size) for start, size in zip(starts, split_sizes))


@operation
def chunk(input: Tensor, chunks: SizeLike, dim: int = 0) -> tuple[Tensor, ...]:
    """``chunks`` parts of equal size, the last one perhaps less, perhaps fewer parts, as torch has it: ISliceLayers.

    ``chunks`` may be computed from sizes whose ranges leave it one value. Raises UnsupportedError where they do not,
    and for a dynamic dimension that has fewer parts at some of its values.
    """
    axis = normalize_axis(dim, input.ndim)
    parts = fixed(chunks)
    if parts is None:
        raise UnsupportedError(f"chunk: the number of parts, {chunks}, depends on a dynamic size: narrow its range")
    if parts < 1:
        raise DefinitionError(f"chunk needs at least one part, not {parts}")
    length = input.shape[axis]
    if length == 0:
        return (input,) * parts
    size = (length + (parts - 1)) // parts
    if verdict(Condition((parts - 1) * size, "<", length)) is not True:
        return split(input, size, axis)
    return split(input, [*[size] * (parts - 1), length - (parts - 1) * size], axis)  # with something in the last part


@operation
def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """That many parts, the first ones one longer where needed, or parts between the indices: ISliceLayers."""
    axis = normalize_axis(dim, input.ndim)
    given = indices_or_sections
    if isinstance(given, Tensor) and not given.is_constant:
        raise UnsupportedError("tensor_split with indices that are computed has sizes that depend on data")
    given = given.data.tolist() if isinstance(given, Tensor) else given
    length = input.shape[axis]
    if isinstance(given, int):
        if given < 1:
            raise DefinitionError(f"tensor_split needs at least one part, not {given}")
        small, longer = divmod(length, given)
        starts = [index * small + size_min(index, longer) for index in range(given + 1)]
        return tuple(part(input, axis, a, b - a) for a, b in itertools.pairwise(starts))
    edges = [0, *(slice_bounds(slice(index), length)[1] for index in given), length]
    return tuple(part(input, axis, a, size_max(b - a, 0)) for a, b in itertools.pairwise(edges))


def _even_split(dim: int, input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    axis, sections = (0 if input.ndim == 1 and dim == 1 else dim), indices_or_sections
    if isinstance(sections, int):
        what = f"dimension {axis} of {shape_text(input.shape)} does not divide into {sections} sections"
        input.network.constraints.equal(input.shape[axis] % sections, 0, what, input.network.current_operation)
    return tensor_split(input, sections, axis)


hsplit, vsplit, dsplit = family(
    _even_split,
    ":func:`tensor_split` along dimension {}; sections must divide it.",
    hsplit=(1, "1 (0 for vectors)"),
    vsplit=(0, "0"),
    dsplit=(2, "2"),
)


@operation
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The parts along ``dim``, without that dimension: ISliceLayers and IShuffleLayers.

    Raises UnsupportedError for a dynamic dimension.
    """
    require_rank(input, "unbind takes one dimension at least", 1, MAX_DIMS)
    axis = normalize_axis(dim, input.ndim)
    length = input.shape[axis]
    if not isinstance(length, int):
        raise UnsupportedError(f"unbind: the number of parts would be the dynamic size {length}")
    return tuple(L.squeeze(part(input, axis, index, 1), [axis]) for index in range(length))


@operation
def narrow(input: Tensor, dim: int, start: SizeLike, length: SizeLike) -> Tensor:
    """``length`` elements of ``dim`` from ``start`` on: ISliceLayer; IGatherLayer for a start that is computed.

    Raises ShapeError where that leaves the dimension.
    """
    axis = axis_of(dim, input.ndim)
    if isinstance(start, Tensor):
        if not start.is_constant:  # a start that is computed: IGatherLayer
            places = L.linspace(input.network, (length,), L.cast(start, torch.int64), dtype=torch.int64)
            return L.gather(input, from_start(places, input.shape[axis]), axis)
        start = int(start.data)
    size = input.shape[axis]
    begin = from_front(start, size)
    input.network.constraints.inside(begin, length, size, input.network.current_operation)
    return part(input, axis, begin, length)


@operation
def select(input: Tensor, dim: int, index: SizeLike) -> Tensor:
    """The part at ``index`` of ``dim``, without that dimension: ISliceLayer and IShuffleLayer."""
    axis = normalize_axis(dim, input.ndim)
    return L.squeeze(part(input, axis, index_in(index, input.shape[axis], input.network), 1), [axis])


@operation
def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: SizeLike | None = None,
    end: SizeLike | None = None,
    step: int = 1,
) -> Tensor:
    """``input`` with ``src`` in the place of ``input[start:end:step]`` of ``dim``: ISliceLayers, IConcatenationLayer.

    What ``x[:, start:end] = y`` does to x, which :func:`setitem` does for every index. A step other than 1 takes an
    IScatterLayer.

    Raises ShapeError where ``src`` is not of that size.
    """
    axis = axis_of(dim, input.ndim)
    size = input.shape[axis]
    begin, count, _ = slice_bounds(slice(start, end, step), size)
    require_shape(src, (*input.shape[:axis], count, *input.shape[axis + 1 :]), "the slice")
    return write_along(input, axis, begin, count, step, L.cast(src, input.dtype))


@operation
def select_scatter(input: Tensor, src: Tensor, dim: int, index: SizeLike) -> Tensor:
    """``input`` with ``src`` in the place of ``input.select(dim, index)``: as :func:`slice_scatter`."""
    axis = normalize_axis(dim, input.ndim)
    place = index_in(index, input.shape[axis], input.network)
    return slice_scatter(input, L.unsqueeze(src, [axis]), axis, place, place + 1)


def _triangle_indices(
    of: str, row: SizeLike, col: SizeLike, offset: int = 0, *, dtype: Any = None, layout: Any = None, device: Any = None
) -> Tensor:
    wanted = torch.int64 if dtype is None else as_dtype(dtype)
    if is_static((row, col, offset)):
        return require_network().constant(getattr(torch, of)(row, col, offset, dtype=wanted))
    upper = of == "triu_indices"
    if row != col or (offset < 0 if upper else offset > 0):
        mask = f"{of[:4]}(torch.ones({row}, {col}), {offset})"
        whole = "a triangle of a square, whose offset leaves out its corner"
        raise UnsupportedError(f"{of} of a dynamic size is that of {whole}, not of {mask}: choose by it")
    rows = size_max(row - abs(offset), 0)
    count = rows * (rows + 1) // 2
    place = arange(count)  # from the corner on
    place = count - 1 - place if upper else place
    root = (((place * 8 + 1).to(torch.float32).sqrt() - 1) / 2).to(torch.int64)  # to be one more or less
    root = root + (place >= (root + 1) * (root + 2) // 2).to(torch.int64)
    root = root - (place < root * (root + 1) // 2).to(torch.int64)
    there = place - root * (root + 1) // 2
    found = [rows - 1 - root, col - 1 - there] if upper else [root - offset, there]
    return L.cast(stack(found), wanted)


tril_indices, triu_indices = family(
    _triangle_indices,
    "Rows and columns (2, n) of the {} the diagonal ``offset``.",
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
    reach, elements = sum((n - 1) * step for n, step in zip(sizes, steps, strict=True)) + 1, input.numel()
    network.constraints.inside(first, reach, elements, network.current_operation)
    along = [arange(n) * step for n, step in zip(sizes, steps, strict=True)]
    parts = [part.reshape(-1, *[1] * (len(along) - 1 - axis)) for axis, part in enumerate(along)]
    return L.gather(L.shuffle(input, reshape=(elements,)), sum(parts, as_tensor(first, network, torch.int64)), 0)
