"""Reading an image between its pixels: torch's grid_sample, the same by pixel coordinates, and affine_grid."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.errors import ShapeError, UnsupportedError
from ...layers.sampling import MISPLACED, lies_in_memory
from ...sizes.shape import channels_last, shape_text
from ...sizes.size import SizeLike, is_static, product, size_max
from ..common import L, Network, Tensor, folding, lowered, np, operation, require_floats, require_one_of, torch, way
from ..operands import as_tensor, choose, combined, on_axis
from .taps import Taps, make_taps, number, resample

MODES = {"bilinear": "LINEAR", "nearest": "NEAREST", "bicubic": "CUBIC"}  # torch's name -> TensorRT's
PADDINGS = {"zeros": "FILL", "border": "CLAMP", "reflection": "REFLECT"}


@operation
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
    *,
    lowering: str = "auto",
) -> Tensor:
    """``input`` (N, C, H, W) read at the points of ``grid`` (N, Ho, Wo, 2), gives (N, C, Ho, Wo).

    A point is (x, y) from -1 to 1 across the image: its pixels' outer edges, or the outer pixels' centres with
    ``align_corners``. Five dimensions, (N, C, D, H, W) and points (x, y, z), likewise. ``mode`` is bilinear, nearest or
    bicubic (four dimensions), ``padding_mode`` zeros, border or reflection. Coordinates are computed in float32
    whatever the dtype. A point that is NaN counts as outside (border and reflection: 0), save that bicubic gives NaN.

    ``lowering``: "taps" reads each of a point's neighbours with its own IGatherLayer, channels last, and sums them with
    their weights; "resize" is for a constant grid along the axes, one IResizeLayer where it means the same, otherwise
    an IGatherLayer, a product and IReduceLayer per dimension; "native" is IGridSampleLayer; "auto" is IResizeLayer
    where it means the same, "resize" where points are interpolated between elements that are computed or float32, and
    otherwise "taps".

    Raises ShapeError for shapes that do not fit, UnsupportedError for a lowering that cannot express the case.
    """
    _check(input, grid, mode, padding_mode)
    align = bool(align_corners)
    sizes = input.shape[2:]
    with folding(input.network):  # a constant grid costs its indices and weights, and no work when the network runs
        points = _pixels(grid, sizes, align) if grid.is_constant and grid.numel() and is_static(sizes) else None
        reason = _why_not_along(input, points)
        known = None if points is None or reason else _transformation_of(input, points, mode, padding_mode)
        how = _Sampling(mode, padding_mode, align, lambda: points or _pixels(grid, sizes, align), reason, known)
        # The builder copies an input of half precision to float32 first, and reads nearest elements at once.
        at_once = mode == "nearest" or (input.dtype != torch.float32 and input.node is None)
        default = "taps" if known is None and (reason or at_once) else "resize"
        return lowered("grid_sample", lowering, input, grid, how=how, default=default)


@dataclass(frozen=True)
class _Sampling:
    """What the ways are told."""

    mode: str
    padding_mode: str
    align: bool
    points: Callable[[], list[Tensor]]
    why_not_resized: str | None
    transformation: Any


@way("grid_sample", "taps", "an IGatherLayer for each of a point's neighbours")
def _by_taps(x: Tensor, grid: Tensor, how: _Sampling) -> Tensor:
    pairs = zip(how.points(), x.shape[2:], strict=True)
    return gather_taps(x, [make_taps(point, size, how.mode, how.padding_mode, how.align) for point, size in pairs])


@way(
    "grid_sample",
    "resize",
    "one IResizeLayer, or the taps of one dimension after the other, for a constant grid along the axes",
    unless=lambda x, grid, how: how.why_not_resized or None,
)
def _by_resizing(x: Tensor, grid: Tensor, how: _Sampling) -> Tensor:
    points = how.points()
    if how.transformation is not None:
        size = (*x.shape[:2], *(len(_line(point, axis)) for axis, point in enumerate(points)))
        return L.resize(x, MODES[how.mode], size=size, coordinates=how.transformation, rounding="HALF_DOWN")

    def taps_along(axis: int, point: Tensor) -> Taps:
        line = x.network.constant(_line(point, axis).unsqueeze(-1))
        taps = make_taps(line, x.shape[2 + axis], how.mode, how.padding_mode, how.align)
        return taps if taps.inside is None else Taps(((taps.positions, L.cast(taps.inside, torch.float32)),))

    return resample(x, {2 + axis: taps_along(axis, point) for axis, point in enumerate(points)})


@way(
    "grid_sample",
    "native",
    "IGridSampleLayer",
    unless=lambda x, grid, how: (
        MISPLACED if (how.mode, how.padding_mode) == ("bicubic", "zeros") and not lies_in_memory(x) else None
    ),
    needs="add_grid_sample",
    not_tuned="some versions of TensorRT compute it wrongly in half precision",
)
def _by_layer(x: Tensor, grid: Tensor, how: _Sampling) -> Tensor:
    """In float32: the layer computes in the dtype of its operands, and half precision is too coarse for coordinates."""
    wide, places = L.cast(x, torch.float32), L.cast(grid, torch.float32)
    return L.cast(L.grid_sample(wide, places, MODES[how.mode], PADDINGS[how.padding_mode], how.align), x.dtype)


def _check(x: Tensor, grid: Tensor, mode: str, padding_mode: str) -> None:
    require_one_of("grid_sample: mode", mode, MODES)
    require_one_of("grid_sample: padding_mode", padding_mode, PADDINGS)
    if x.ndim not in (4, 5) or grid.ndim != x.ndim:
        raise ShapeError("grid_sample takes an input and a grid of 4 dimensions, or of 5")
    if grid.shape[-1] != x.ndim - 2:
        raise ShapeError(f"the points of the grid have {x.ndim - 2} coordinates, not {grid.shape[-1]}")
    _same_batch(x, grid.shape[0])
    if mode == "bicubic" and x.ndim == 5:
        raise UnsupportedError("grid_sample: bicubic takes 4 dimensions: use bilinear or nearest")
    require_floats("grid_sample takes", x, grid)


def _same_batch(x: Tensor, other: SizeLike) -> None:
    x.network.constraints.equal(x.shape[0], other, "the batches of both", x.network.current_operation)


def _coordinate(points: Tensor, axis: int) -> Tensor:
    """The coordinate along spatial dimension ``axis``, in float32, as (…, 1); points name the last dimension first."""
    count = points.shape[-1]
    assert isinstance(count, int)
    lead = points.ndim - 1
    picked = L.slice(points, (*[0] * lead, count - 1 - axis), (*points.shape[:-1], 1))
    return L.cast(picked, torch.float32)


def _pixels(grid: Tensor, sizes: Sequence[SizeLike], align: bool) -> list[Tensor]:
    """Coordinates in pixels, with torch's order of operations, so that halves stay halves."""
    points = ((_coordinate(grid, axis) + 1.0, number(size - align, grid.network)) for axis, size in enumerate(sizes))
    return [point * 0.5 * size if align else (point * size - 1.0) * 0.5 for point, size in points]


def gather_taps(x: Tensor, taps: Sequence[Taps]) -> Tensor:
    """The weighted sum of the taps' pixels: (N, C, *sizes) and taps of shape (N, *out, 1) to (N, C, *out).

    An IGatherLayer for each combination of taps: a kernel of one layer that reads all of them computes their indices
    again for each, with branches.
    """
    n, c = x.shape[:2]
    single, pixels = c == 1, product(x.shape[2:])  # one channel needs no transposing
    table = L.shuffle(x, None if single else channels_last(x.ndim), (n, pixels) if single else (n, pixels, c))

    def by_point(value: Tensor) -> Tensor:
        return L.squeeze(value, [value.ndim - 1]) if single else value

    def read(parts: Sequence[tuple[Tensor, Tensor | None]]) -> Tensor:
        index, weight = parts[0]
        for size, (position, factor) in zip(x.shape[3:], parts[1:], strict=True):
            index = index * as_tensor(size, x.network, torch.int32) + position
            weight = _combined(weight, factor, "PROD")
        values = L.gather(table, L.squeeze(index, [index.ndim - 1]), 1, num_elementwise_dims=1)
        return values if weight is None else L.cast(values, torch.float32) * by_point(weight)

    total, inside = combined(map(read, itertools.product(*(tap.parts for tap in taps)))), None
    for tap in taps:
        inside = _combined(inside, tap.inside, "AND")
    total = L.cast(total if inside is None else choose(by_point(inside), total, 0.0, total.dtype), x.dtype)
    return L.unsqueeze(total, [1]) if single else L.shuffle(total, (0, total.ndim - 1, *range(1, total.ndim - 1)))


def _combined(a: Tensor | None, b: Tensor | None, op: str) -> Tensor | None:
    if a is None or b is None:
        return b if a is None else a
    return L.elementwise(a, b, op)


@operation
def bilinear_sample(
    image: Tensor, coords: Tensor, padding_mode: str = "valid", align_corners: bool = True
) -> tuple[Tensor, Tensor]:
    """``image`` (N, C, H, W) read at ``coords`` (N, Ho, Wo, 2), (x, y) in pixels; gives the samples and their validity.

    The samples are (N, C, Ho, Wo); the mask is bool (N, 1, Ho, Wo) and says where all four neighbours are in the image:
    ``0 <= x < W - 1`` and ``0 <= y < H - 1``. ``padding_mode="valid"`` gives 0 elsewhere, as the functions that people
    write by hand do; zeros, border and reflection are those of :func:`grid_sample` (reflection about the centres of the
    outer pixels, or about their outer edges without ``align_corners``). Coordinates are float32; NaN is not valid.

    IGatherLayers, as ``grid_sample(lowering="taps")``, without the way through normalised coordinates.
    Raises ShapeError for shapes that do not fit, UnsupportedError for an unknown padding_mode.
    """
    require_one_of("bilinear_sample: padding_mode", padding_mode, ("valid", *PADDINGS))
    if image.ndim != 4 or coords.ndim != 4 or coords.shape[-1] != 2:
        raise ShapeError("bilinear_sample takes an image (N, C, H, W) and coordinates (N, Ho, Wo, 2)")
    _same_batch(image, coords.shape[0])
    require_floats("bilinear_sample takes", image, coords)
    sizes = image.shape[2:]
    padding = "border" if padding_mode == "valid" else padding_mode  # samples that are not valid are replaced below
    with folding(image.network):
        points = [_coordinate(coords, axis) for axis in range(2)]
        inside = (~(at < 0.0) & (at < number(size - 1, at.network)) for at, size in zip(points, sizes, strict=True))
        valid = combined(inside, "AND")  # (N, Ho, Wo, 1); False for NaN
        valid = L.shuffle(valid, reshape=(valid.shape[0], 1, *valid.shape[1:3]))
        taps = [make_taps(at, size, "bilinear", padding, align_corners) for at, size in zip(points, sizes, strict=True)]
        samples = gather_taps(image, taps)
    return (choose(valid, samples, 0.0, samples.dtype) if padding_mode == "valid" else samples), valid


# -- a constant grid of straight rows and columns: a resize, one dimension after the other -----------------------------


def _why_not_along(x: Tensor, points: Sequence[Tensor] | None) -> str:
    """Why points (N, *out, 1) per dimension are not along the axes; "" when they are. None are points not yet known."""
    if points is None or not all(point.is_constant for point in points):
        if any(not isinstance(size, int) for size in x.shape[2:]):
            return "the image has dynamic sizes"
        return "the grid is not known when the network is written"
    for axis, point in enumerate(points):
        along = point.data.movedim(axis + 1, -1).nan_to_num()
        if not torch.equal(along, _line(point, axis).nan_to_num().expand_as(along)):
            return f"coordinate {'xyz'[len(points) - 1 - axis]} of the grid changes along another dimension"
    return ""


def _line(point: Tensor, axis: int) -> torch.Tensor:
    """The coordinate per place along ``axis``, (L,), of points for which it is the same along other dimensions."""
    return point.data.movedim(axis + 1, -1).flatten(0, -2)[0]


def _transformation_of(x: Tensor, points: Sequence[Tensor], mode: str, padding_mode: str) -> str | None:
    """The coordinate transformation by which IResizeLayer reads exactly these points, which are along the axes.

    None where it has none, or would not read outside of the image as the padding asks.
    """
    lines = [_line(point, axis).double().numpy() for axis, point in enumerate(points)]

    def reads(name: str, line: np.ndarray, size: Any) -> bool:
        index, count = np.arange(len(line)), len(line)
        if name == "ALIGN_CORNERS" and count == 1:
            return False
        wanted = index * (size - 1) / (count - 1) if name == "ALIGN_CORNERS" else (index + 0.5) * size / count - 0.5
        # As near as float32 coordinates are to the exact ones.
        near = np.allclose(line, wanted, rtol=0, atol=2.5e-7 * size)
        # The layer repeats the edge: so does border; the other paddings only where nothing lies outside.
        reach = 2 if mode == "bicubic" else 0
        outside = wanted.min() - reach < 0 or wanted.max() + reach > size - 1
        halves = mode == "nearest" and np.any(np.abs(wanted - np.floor(wanted) - 0.5) < 1e-3)
        return near and not halves and (padding_mode == "border" or not outside)

    names = "ALIGN_CORNERS", "HALF_PIXEL"
    return next((name for name in names if all(map(reads, itertools.repeat(name), lines, x.shape[2:]))), None)


@operation
def affine_grid(theta: Tensor, size: Sequence[SizeLike], align_corners: bool | None = None) -> Tensor:
    """The grid (N, H, W, 2) for :func:`grid_sample` that maps the pixels of ``size`` by ``theta``.

    ``size`` is (N, C, H, W), ``theta`` (N, 2, 3); or the grid is (N, D, H, W, 3) for (N, C, D, H, W) and (N, 3, 4).
    Sizes are ints and Sizes. Constant ``theta`` and static size give a constant. A product per dimension and their sums
    (IElementWiseLayer), in float32.

    Raises ShapeError for shapes that do not fit.
    """
    dims = len(size) - 2
    if dims not in (2, 3):
        raise ShapeError(f"affine_grid takes a size of 4 or 5 values, not {shape_text(tuple(size))}")
    if theta.ndim != 3 or theta.shape[1:] != (dims, dims + 1):
        raise ShapeError(f"theta for {dims} dimensions is (N, {dims}, {dims + 1})")
    _same_batch(theta, size[0])
    if any(isinstance(length, int) and length < 1 for length in size[2:]):
        raise ShapeError(f"affine_grid: sizes must be positive, not {shape_text(tuple(size))}")
    require_floats("affine_grid takes", theta)
    with folding(theta.network):
        rows, n = L.shuffle(L.cast(theta, torch.float32), (0, 2, 1)), theta.shape[0]  # (N, dims + 1, dims)
        columns = (L.slice(rows, (0, index, 0), (n, 1, dims)) for index in range(dims, -1, -1))
        total, *others = (L.shuffle(column, reshape=(n, *[1] * dims, dims)) for column in columns)
        for axis, column in enumerate(others):
            # Column 0 goes with x, which runs along the last dimension.
            steps = _steps(theta.network, size[2 + axis], bool(align_corners))
            total = column * on_axis(steps, 1 + axis, dims + 2) + total
        return L.cast(total, theta.dtype)


def _steps(network: Network, size: SizeLike, align_corners: bool) -> Tensor:
    """The pixels' normalised coordinates along a dimension: from -1 to 1 between centres, or between outer edges."""
    if isinstance(size, int):
        steps = torch.linspace(-1, 1, size) if size > 1 else torch.zeros(1)
        return network.constant(steps if align_corners else steps * ((size - 1) / size))
    index = L.linspace(network, (size,))
    if align_corners:  # a single pixel lies in the middle
        gaps = number(size_max(size - 1, 1), network)
        return (index * 2.0 - as_tensor(size - 1, network, torch.float32)) / gaps
    length = as_tensor(size, network, torch.float32)
    return (index * 2.0 - (length - 1.0)) / length
