"""Reshaping, transposing, and views: IShuffleLayer throughout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.errors import ShapeError, UnsupportedError
from ...sizes.size import Size, SizeLike, divide_exactly, floor_divide, product
from ..common import L, Network, Shape, Tensor, broadcast, family, operation, require_rank, shape_text, torch
from ..operands import align, as_vector, axis_of, normalize_axis, stretch, varargs


@operation
def reshape(input: Tensor, shape: Sequence[SizeLike]) -> Tensor:
    """The same elements in another shape; one size may be -1: IShuffleLayer.

    Sizes are ints and Sizes. Raises ShapeError when the number of elements would differ.

    >>> x = net.input("x", ("N", 6, 4))
    >>> F.reshape(x, (x.shape[0], 2, 3, -1)).shape
    (N, 2, 3, 4)
    """
    return L.shuffle(input, reshape=_infer(input.network, input.shape, tuple(shape)))


def _infer(network: Network, before: Shape, wanted: Sequence[SizeLike]) -> Shape:
    unknown = [axis for axis, size in enumerate(wanted) if isinstance(size, int) and size == -1]
    if not unknown:
        return tuple(wanted)
    if len(unknown) > 1:
        raise ShapeError(f"only one size can be -1, not {len(unknown)}: {shape_text(wanted)}")
    total, known = product(before), product(size for axis, size in enumerate(wanted) if axis != unknown[0])
    if known == 0:
        raise ShapeError(f"-1 is ambiguous beside a size of 0: {shape_text(wanted)}")
    size = divide_exactly(total, known)
    if size is None:
        whole, part = _coefficients(total, known)
        if whole % part:
            raise ShapeError(f"a tensor of shape {shape_text(before)} does not divide into {shape_text(wanted)}")
        size = floor_divide(total, known)
        what = f"the {total} elements do not divide into parts of {known}"
        network.constraints.equal(total % known, 0, what, network.current_operation)
    return tuple(size if axis == unknown[0] else other for axis, other in enumerate(wanted))


@operation
def view(input: Tensor, *shape: SizeLike | Sequence[SizeLike] | torch.dtype) -> Any:
    """As :func:`reshape`: tensors of a network have no strides. A single dtype is refused: it reinterprets bits."""
    if len(shape) == 1 and isinstance(shape[0], torch.dtype):
        raise UnsupportedError("view(dtype) reinterprets bits, which TensorRT cannot: use .to(dtype) to convert values")
    return reshape(input, varargs(shape))


@operation
def ravel(input: Tensor) -> Tensor:
    """All elements in one dimension: IShuffleLayer."""
    return L.shuffle(input, reshape=(input.numel(),))


@operation
def unflatten(input: Tensor, dim: int, sizes: Sequence[SizeLike]) -> Tensor:
    """Dimension ``dim`` taken apart into ``sizes``, of which one may be -1: IShuffleLayer."""
    axis = normalize_axis(dim, input.ndim)
    parts = _infer(input.network, (input.shape[axis],), tuple(sizes))
    return L.shuffle(input, reshape=(*input.shape[:axis], *parts, *input.shape[axis + 1 :]))


def _coefficients(total: SizeLike, known: SizeLike) -> tuple[int, int]:
    """Of two multiples of one product of dimensions, how many times each is it; (0, 1) of any others."""
    if isinstance(total, int) and isinstance(known, int):
        return total, known
    if isinstance(total, Size) and isinstance(known, Size) and len(total.terms) == len(known.terms) == 1:
        (dims, whole), (others, part) = total.terms[0], known.terms[0]
        return (whole, part) if dims == others else (0, 1)
    return 0, 1


@operation
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions ``start_dim`` to ``end_dim`` as one: IShuffleLayer."""
    input = as_vector(input)
    start, end = normalize_axis(start_dim, input.ndim), normalize_axis(end_dim, input.ndim)
    if start > end:
        raise ShapeError(f"flatten: start_dim {start_dim} is after end_dim {end_dim}")
    merged = product(input.shape[start : end + 1])
    return L.shuffle(input, reshape=(*input.shape[:start], merged, *input.shape[end + 1 :]))


@operation
def permute(input: Tensor, dims: Sequence[int]) -> Tensor:
    """Dimensions in another order: IShuffleLayer."""
    return L.shuffle(input, first_transpose=tuple(dims))


@operation
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions exchanged: IShuffleLayer."""
    order = list(range(input.ndim))
    a, b = normalize_axis(dim0, input.ndim), normalize_axis(dim1, input.ndim)
    if order:
        order[a], order[b] = order[b], order[a]
    return L.shuffle(input, first_transpose=order)


@operation
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """A dimension of size 1 put in at ``dim``: IShuffleLayer."""
    return L.unsqueeze(input, [dim])


@operation
def squeeze(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Without the dimensions ``dim`` (all when None) that are 1: IShuffleLayer. Dynamic dimensions stay."""
    dims = range(input.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = [axis_of(d, input.ndim) for d in dims]
    return L.squeeze(input, [axis for axis in axes if input.ndim and input.shape[axis] == 1])


@operation
def t(input: Tensor) -> Tensor:
    """A matrix transposed; fewer dimensions as they are: IShuffleLayer."""
    require_rank(input, "t takes two dimensions at most (transpose takes more)", 0, 2)
    return L.shuffle(input, first_transpose=range(input.ndim)[::-1])


@operation
def movedim(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Dimensions ``source`` moved to ``destination``, the others in their order: IShuffleLayer."""
    if input.ndim == 0:
        return input
    given = ([each] if isinstance(each, int) else each for each in (source, destination))
    sources, places = ([normalize_axis(axis, input.ndim) for axis in each] for each in given)
    if not len(sources) == len(places) == len({*sources}) == len({*places}):
        raise ShapeError(f"movedim needs as many sources as destinations, none twice: {source} to {destination}")
    order = [axis for axis in range(input.ndim) if axis not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return L.shuffle(input, order)


_NEW_PLACES = {1: ([0],), 2: ([0, 1], [0]), 3: ([0, 1, 2], [0, 2], [2])}
"""The dimensions that are put in, by the least rank and the rank that a tensor has."""


def _at_least(rank: int, *tensors: Any) -> Any:
    """One tensor changed, or a tuple of them for several or for a list."""
    grown = [L.unsqueeze(x, _NEW_PLACES[rank][x.ndim]) if x.ndim < rank else x for x in varargs(tensors)]
    return grown[0] if len(tensors) == 1 and isinstance(tensors[0], Tensor) else tuple(grown)


atleast_1d, atleast_2d, atleast_3d = family(
    _at_least,
    "The tensor (or each of several) with {}: IShuffleLayer.",
    atleast_1d=(1, "one dimension at least"),
    atleast_2d=(2, "two dimensions at least, new ones in front"),
    atleast_3d=(3, "three dimensions at least, (1, L, 1) and (H, W, 1)"),
)


@operation
def expand(input: Tensor, *size: SizeLike | Sequence[SizeLike]) -> Tensor:
    """Dimensions of size 1 repeated to ``size`` (-1 keeps one), new ones in front: ISliceLayer with a stride of 0."""
    wanted = list(varargs(size))
    lead = len(wanted) - input.ndim
    if lead < 0:
        raise ShapeError(f"expand: {shape_text(input.shape)} has more dimensions than {shape_text(wanted)}")
    x = L.unsqueeze(input, range(lead))
    for axis, want in enumerate(wanted):
        if isinstance(want, int) and want == -1:
            if axis < lead:
                raise ShapeError(f"expand: a new dimension needs a size, not -1: {shape_text(wanted)}")
            wanted[axis] = x.shape[axis]
    return stretch(x, wanted)


def _as_other(change: Callable[[Tensor, Shape], Tensor], input: Tensor, other: Tensor) -> Tensor:
    return change(input, other.shape)


reshape_as, expand_as = family(
    _as_other,
    "``input`` in the shape of ``other``: {}.",
    reshape_as=(reshape, "IShuffleLayer"),
    expand_as=(expand, "ISliceLayer with a stride of 0"),
)


@operation
def broadcast_to(input: Tensor, size: Sequence[SizeLike]) -> Tensor:
    """As :func:`expand`."""
    return expand(input, size)


@operation
def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors expanded to their common shape: ISliceLayers with a stride of 0."""
    given = align(varargs(tensors))
    return tuple(stretch(tensor, broadcast(*(each.shape for each in given))) for tensor in given)


@operation
def repeat(input: Tensor, *repeats: SizeLike | Sequence[SizeLike]) -> Tensor:
    """The whole repeated along each dimension, new ones in front: ISliceLayer (WRAP)."""
    times = varargs(repeats)
    if len(times) < input.ndim:
        raise ShapeError(f"repeat needs a number for each of the {input.ndim} dimensions, not {times}")
    x = L.unsqueeze(input, range(len(times) - input.ndim))
    sizes = tuple(size * number for size, number in zip(x.shape, times, strict=True))
    if sizes == x.shape:
        return x
    empty = any(size == 0 for size in sizes)
    return L.slice(x, (0,) * x.ndim, sizes, mode="FILL" if empty else "WRAP")


@operation
def tile(input: Tensor, dims: Sequence[SizeLike]) -> Tensor:
    """As :func:`repeat`, where missing numbers in front are 1: ISliceLayer (WRAP)."""
    times = tuple(dims)
    return repeat(input, (*(1,) * (input.ndim - len(times)), *times))


@operation
def repeat_interleave(
    input: Tensor, repeats: SizeLike, dim: int | None = None, *, output_size: SizeLike | None = None
) -> Tensor:
    """Each element repeated ``repeats`` times along ``dim`` (of the flattened tensor when None).

    ISliceLayer, IShuffleLayers; IGatherLayer where each has a number of its own, a constant. Repeats that are computed
    are refused: sizes that depend on data.
    """
    x = input if dim is not None else ravel(input)
    x, axis = as_vector(x), axis_of(dim or 0, x.ndim)
    number: Any = repeats
    if isinstance(repeats, Tensor):
        if not repeats.is_constant:
            raise UnsupportedError("repeat_interleave with a tensor of repeats has a size that depends on data")
        number = repeats.data.flatten()
        if len(number) not in (1, x.shape[axis]):
            raise ShapeError(f"{x.shape[axis]} elements take as many numbers, not {len(number)}")
        number = int(number) if len(number) == 1 else number
    several = isinstance(number, torch.Tensor)
    total: SizeLike = int(number.sum()) if several else x.shape[axis] * number
    if output_size is not None:
        x.network.constraints.equal(output_size, total, "output_size and the elements", x.network.current_operation)
    if several:
        return L.gather(x, x.network.constant(torch.arange(len(number)).repeat_interleave(number)), axis)
    wide = L.unsqueeze(x, [axis + 1])
    shape = (*x.shape[: axis + 1], number, *x.shape[axis + 1 :])
    return L.shuffle(stretch(wide, shape), reshape=(*x.shape[:axis], total, *x.shape[axis + 1 :]))
