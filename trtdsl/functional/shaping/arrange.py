"""Elements in another order, at another place, or surrounded by more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.errors import DefinitionError, ShapeError
from ...layers.convolution import Geometry
from ...layers.pooling import count_windows
from ...sizes.size import SizeLike, bounds, divide_exactly, product, size_max, size_min
from ..common import MAX_DIMS, L, Shape, Tensor, family, operation, require_one_of, require_rank, shape_text, torch
from ..operands import as_tensor, as_vector, axes_of, axis_of, binary, choose, normalize_axis, per_axis, windowed
from .create import indices_of
from .reshape import movedim, ravel, transpose


@operation
def flip(input: Tensor, dims: int | Sequence[int]) -> Tensor:
    """The elements of ``dims`` in reverse: ISliceLayer with a stride of -1."""
    none = not isinstance(dims, int) and not len(dims)
    axes = [axis for axis in axes_of(dims, input.ndim) if input.shape[axis] not in (0, 1)]
    if none or not axes or input.numel() == 0:
        return input
    start = [input.shape[axis] - 1 if axis in axes else 0 for axis in range(input.ndim)]
    stride = [-1 if axis in axes else 1 for axis in range(input.ndim)]
    return L.slice(input, start, input.shape, stride)


def _flipped(axis: int, input: Tensor) -> Tensor:
    return flip(input, (axis,))


fliplr, flipud = family(
    _flipped,
    "The elements of dimension {key} in reverse: ISliceLayer with a stride of -1.",
    fliplr=(1, ""),
    flipud=(0, ""),
)


@operation
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """A quarter turn ``k`` times, from the first of ``dims`` to the second: ISliceLayer and IShuffleLayer."""
    a, b = _two("rot90", input.ndim, *dims)
    if k % 4 == 0:
        return input
    if k % 4 == 2:
        return flip(input, (a, b))
    return transpose(flip(input, (b,)), a, b) if k % 4 == 1 else flip(transpose(input, a, b), (b,))


@operation
def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """The elements shifted along ``dims``, those pushed out coming in at the other end: ISliceLayer (WRAP).

    Without ``dims`` the flattened tensor is shifted.
    """
    steps = tuple(shifts) if isinstance(shifts, (list, tuple)) else (shifts,)
    places = () if dims is None else (dims,) if isinstance(dims, int) else tuple(dims)
    if not places:
        if len(steps) != 1:
            raise ShapeError(f"roll: several shifts {steps} need dims")
        return L.shuffle(roll(ravel(input), steps[0], 0), reshape=input.shape)
    if len(steps) != len(places):
        raise ShapeError(f"roll needs one shift for each dimension: {steps} and {places}")
    if input.ndim == 0 or input.numel() == 0:
        return input
    start: list[SizeLike] = [0] * input.ndim
    for shift, place in zip(steps, places, strict=True):
        axis = normalize_axis(place, input.ndim)
        start[axis] = start[axis] - shift
    start = [
        first % length if isinstance(first, int) and isinstance(length, int) else first
        for first, length in zip(start, input.shape, strict=True)
    ]
    return input if all(first == 0 for first in start) else L.slice(input, start, input.shape, mode="WRAP")


@operation
def pad(input: Tensor, pad: Sequence[SizeLike], mode: str = "constant", value: Tensor | float | None = None) -> Tensor:
    """Elements added before and after the last dimensions, the last one first in ``pad``; negative numbers trim.

    One ISliceLayer: FILL with ``value``, a number or a scalar, for "constant", REFLECT, CLAMP for "replicate", WRAP for
    "circular".

    >>> F.pad(net.input("x", ("N", 3, 8)), (1, 2)).shape
    (N, 3, 11)
    """
    modes = {"constant": "FILL", "reflect": "REFLECT", "replicate": "CLAMP", "circular": "WRAP"}
    require_one_of("pad: mode", mode, modes)
    fills = isinstance(value, Tensor) or bool(value)
    if fills and mode != "constant":  # torch takes a value of 0
        raise DefinitionError(f"pad: a value goes with mode='constant', not {mode!r}")
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise ShapeError(f"pad needs two numbers for each of at most {input.ndim} dimensions, not {tuple(pad)}")
    start: list[SizeLike] = [0] * input.ndim
    sizes = list(input.shape)
    for index in range(len(pad) // 2):
        axis, before, after = input.ndim - 1 - index, pad[2 * index], pad[2 * index + 1]
        length = input.shape[axis]
        start[axis], sizes[axis] = -before, length + before + after
        sides, whole = [length - (mode == "reflect") - side for side in (before, after)], [sizes[axis] - 1]
        for rest in {"reflect": sides + whole, "circular": sides, "replicate": whole}.get(mode, ()):
            if bounds(rest)[1] < 0:
                raise ShapeError(f"{mode} padding of {before}, {after} is more than dimension {axis} has elements for")
            input.network.constraints.not_negative(rest, input.network.current_operation)
    if tuple(sizes) == input.shape and all(first == 0 for first in start):
        return input
    if mode == "circular" and any(bounds(side)[0] < 0 for side in pad):
        # torch trims first, and repeats what is left
        trim, grow = [size_min(side, 0) for side in pad], [size_max(side, 0) for side in pad]
        if any(side != 0 for side in grow):
            return _pad(_pad(input, trim), grow, mode)
        mode = "constant"
    fill = L.cast(as_tensor(value, input.network, input.dtype), input.dtype) if fills else None
    return L.slice(input, start, sizes, mode=modes[mode], fill=fill)


@operation
def constant_pad_nd(input: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    """:func:`pad` with a constant: ISliceLayer (FILL)."""
    return _pad(input, pad, value=value)


_pad = pad


@operation
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """The channels of ``groups`` groups taken in turn: one IShuffleLayer or two."""
    if input.ndim < 3 or input.shape[1] % groups != 0:
        raise ShapeError(f"channel_shuffle: {shape_text(input.shape)} has no channels that divide into {groups} groups")
    n, c, *rest = input.shape
    wide = L.shuffle(input, reshape=(n, groups, c // groups, product(rest)), second_transpose=(0, 2, 1, 3))
    return L.shuffle(wide, reshape=input.shape)


def _two(name: str, ndim: int, *dims: int) -> list[int]:
    """Two different dimensions."""
    axes = [normalize_axis(dim, ndim) for dim in dims]
    if len(set(axes)) != 2 or len(axes) != 2:
        raise ShapeError(f"{name} needs two different dimensions, not {dims}")
    return axes


@operation
def diagonal(input: Tensor, offset: SizeLike = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal of two dimensions as the last one: IShuffleLayer, ISliceLayer with the stride of a row and one."""
    a, b = _two("diagonal", input.ndim, dim1, dim2)
    rest = [axis for axis in range(input.ndim) if axis not in (a, b)]
    rows, columns = input.shape[a], input.shape[b]
    right, down = size_max(offset, 0), size_max(-offset, 0)
    count = size_max(size_min(rows - down, columns - right), 0)
    lead = tuple(input.shape[axis] for axis in rest)
    flat = L.shuffle(input, (*rest, a, b), (*lead, rows * columns))
    start = right + columns * down if bounds(count)[0] > 0 else (right + columns * down) * size_min(count, 1)
    zero, one = (0,) * len(rest), (1,) * len(rest)
    return L.slice(flat, (*zero, start), (*lead, count), (*one, columns + 1))


@operation
def trace(input: Tensor) -> Tensor:
    """The sum of a matrix's diagonal: the layers of :func:`diagonal` and IReduceLayer SUM; integers as int64."""
    require_rank(input, "trace takes a matrix", 2)
    values = diagonal(input)
    return L.reduce(values if values.dtype.is_floating_point else L.cast(values, torch.int64), "SUM", [0])


@operation
def diag_embed(input: Tensor, offset: SizeLike = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The last dimension on the diagonal of two new ones of zeros: ISliceLayer (FILL), ISelectLayer, IShuffleLayer."""
    require_rank(input, "diag_embed takes one dimension at least", 1, MAX_DIMS)
    axes, side = _two("diag_embed", input.ndim + 1, dim1, dim2), input.shape[-1] + abs(offset)
    return _on_diagonal(input, offset, (side, side), False if input.dtype == torch.bool else 0, axes)


def _on_diagonal(values: Tensor, offset: SizeLike, sides: Shape, others: Any, axes: Sequence[int]) -> Tensor:
    """``values`` on a diagonal of two dimensions, ``others`` beside it; the two are the last ones there."""
    start, rows = (*(0,) * (values.ndim - 1), size_min(offset, 0)), (*values.shape[:-1], sides[0])
    # Each element in its row; the mask leaves it in its column alone.
    x = values if offset == 0 and rows == values.shape else L.slice(values, start, rows, mode="FILL")
    row, column = indices_of(values.network, *sides)
    kept = binary(row, offset, "SUM", torch.int64) == column
    return movedim(choose(kept, L.unsqueeze(x, [x.ndim]), others, x.dtype), (-2, -1), axes)


@operation
def diag(input: Tensor, diagonal: SizeLike = 0) -> Tensor:
    """A vector on the diagonal of a matrix, or a matrix's diagonal: :func:`diag_embed` or :func:`diagonal`."""
    require_rank(input, "diag takes a vector or a matrix", 1, 2)
    return diag_embed(input, diagonal) if input.ndim == 1 else _diagonal(input, diagonal)


_diagonal = diagonal


def require_shape(src: Tensor, shape: Shape, what: str) -> None:
    """ShapeError, or constraints, unless ``src`` has the shape of what it takes the place of."""
    if src.ndim != len(shape):
        raise ShapeError(f"src has {src.ndim} dimensions, {what} {len(shape)}")
    for have, want in zip(src.shape, shape, strict=True):
        src.network.constraints.equal(have, want, f"the sizes of src and of {what}", src.network.current_operation)


@operation
def diagonal_scatter(input: Tensor, src: Tensor, offset: SizeLike = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """``input`` with ``src`` in the place of ``input.diagonal(…)``: ISliceLayer (FILL), ISelectLayer."""
    axes = _two("diagonal_scatter", input.ndim, dim1, dim2)
    require_shape(src, _diagonal(input, offset, dim1, dim2).shape, "the diagonal")
    sides = input.shape[axes[0]], input.shape[axes[1]]
    return _on_diagonal(L.cast(src, input.dtype), offset, sides, movedim(input, axes, (-2, -1)), axes)


@operation
def diagflat(input: Tensor, offset: SizeLike = 0) -> Tensor:
    """All elements on the diagonal of a matrix: :func:`diag_embed` of the flattened tensor."""
    return diag_embed(ravel(input), offset)


@operation
def unfold_dimension(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """torch.Tensor.unfold: windows of ``size`` every ``step``, their elements as a new last dimension: IGatherLayer."""
    axis = axis_of(dimension, input.ndim)
    if input.ndim == 0:
        return as_vector(input) if size else L.slice(as_vector(input), (0,), (0,))
    number = (input.shape[axis] - size) // step + 1
    if isinstance(number, int) and (number < 1 or size < 0):
        raise ShapeError(f"unfold: a window of {size} does not fit dimension {axis} of {shape_text(input.shape)}")
    return movedim(windowed(input, axis, number, size, step), axis + 1, -1)


def _pairs(**given: Any) -> list[tuple[Any, ...]]:
    """A value for the height and one for the width of each."""
    return [per_axis(value, 2, name) for name, value in given.items()]


@operation
def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """Windows of (N, C, H, W) as columns (N, C * kH * kW, windows): ISliceLayer, two IGatherLayers, IShuffleLayer."""
    if input.ndim == 3:
        return L.squeeze(unfold(L.unsqueeze(input, [0]), kernel_size, dilation, padding, stride), [0])
    require_rank(input, "unfold takes (N, C, H, W) or (C, H, W)", 4)
    size, gap, pads, step = _pairs(kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride)
    n, c, height, width, *counts = (windows := windows_of(input, size, Geometry(step, pads, pads, gap))).shape
    return L.shuffle(windows, reshape=(n, c * height * width, product(counts)))


def windows_of(x: Tensor, size: Sequence[int], how: Geometry) -> Tensor:
    """The windows over the dimensions of ``x`` after (N, C): (N, C, *size, *windows).

    ISliceLayer for padding, an IGatherLayer for each of the dimensions, IShuffleLayer.
    """
    axes, sides = range(len(size)), [*zip(how.pre_padding, how.post_padding, strict=True)]
    x = _pad(x, [side for pair in reversed(sides) for side in pair])
    for k in reversed(axes):  # the elements of a window stand behind the window
        number = count_windows(x.network, x.shape[2 + k], how.extents(size)[k], how.stride[k])
        x = windowed(x, 2 + k, number, size[k], how.stride[k], how.dilation[k])
    return L.shuffle(x, (0, 1, *(3 + 2 * k for k in axes), *(2 + 2 * k for k in axes)))


@operation
def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """The inverse of :func:`unfold`, where overlapping windows add up: IShuffleLayer and IDeconvolutionLayer.

    The kernel of that deconvolution puts each row of a column at its place in the window.
    """
    if input.ndim == 2:
        return L.squeeze(fold(L.unsqueeze(input, [0]), output_size, kernel_size, dilation, padding, stride), [0])
    require_rank(input, "fold takes (N, C * kH * kW, windows) or that without N", 3)
    (out,) = _pairs(output_size=output_size)
    size, gap, pads, step = _pairs(kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride)
    network, (n, rows, windows) = input.network, input.shape
    elements = size[0] * size[1]
    if not isinstance(rows, int) or rows % elements:
        raise ShapeError(f"fold: {rows} rows are not a multiple of the window's {elements} elements")
    extent = [gap[k] * (size[k] - 1) + 1 for k in range(2)]
    counts = [(out[k] + (2 * pads[k] - extent[k])) // step[k] + 1 for k in range(2)]
    network.constraints.equal(windows, counts[0] * counts[1], "the columns and the windows", network.current_operation)
    channels = rows // elements
    places = torch.eye(elements, dtype=input.dtype).reshape(elements, 1, *size).repeat(channels, 1, 1, 1)
    x, kernel, none = L.shuffle(input, reshape=(n, rows, *counts)), network.constant(places), (0, 0)
    how = Geometry(step, none, none, gap, channels)
    full = L.deconvolution(x, kernel, **how._asdict())
    # Elements that no window reaches are zero; those in the padding are left out.
    return L.slice(full, (0, 0, *pads), (n, channels, *out), mode="FILL")


@operation
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(…, C * r * r, H, W) to (…, C, H * r, W * r): IShuffleLayer.

    Raises ShapeError where r * r does not divide the channels.
    """
    r = _factor(input, upscale_factor, "pixel_shuffle")
    *lead, c, h, w = input.shape
    channels = divide_exactly(c, r * r)
    if channels is None:
        raise ShapeError(f"pixel_shuffle: {c} channels are not divisible by {r} * {r}")
    split = L.shuffle(input, reshape=(product(lead) * channels, r, r, h, w), second_transpose=(0, 3, 1, 4, 2))
    return L.shuffle(split, reshape=(*lead, channels, h * r, w * r))


@operation
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(…, C, H * r, W * r) to (…, C * r * r, H, W): IShuffleLayer.

    Raises ShapeError where r does not divide the height and the width.
    """
    r = _factor(input, downscale_factor, "pixel_unshuffle")
    *lead, c, height, width = input.shape
    h, w = divide_exactly(height, r), divide_exactly(width, r)
    if h is None or w is None:
        raise ShapeError(f"pixel_unshuffle: the height {height} and the width {width} are not both divisible by {r}")
    split = L.shuffle(input, reshape=(product(lead) * c, h, r, w, r), second_transpose=(0, 2, 4, 1, 3))
    return L.shuffle(split, reshape=(*lead, c * (r * r), h, w))


def _factor(x: Tensor, factor: int, name: str) -> int:
    require_rank(x, f"{name} takes (…, C, H, W)", 3, MAX_DIMS)
    if not isinstance(factor, int) or isinstance(factor, bool) or factor < 1:
        raise ShapeError(f"{name}: the factor must be a positive int, not {factor!r}")
    return factor
