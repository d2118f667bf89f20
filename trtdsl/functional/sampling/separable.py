"""Sampling along the axes: a constant grid of straight rows and columns is a resize, or a product per dimension."""

from __future__ import annotations

from collections.abc import Sequence

from ..common import L, Tensor, np, torch
from ..operands import with_last
from .taps import Taps, make_taps

LAYER = {"bilinear": "LINEAR", "nearest": "NEAREST", "bicubic": "CUBIC"}


def why_not(x: Tensor, points: Sequence[Tensor] | None) -> str:
    """Why points (N, *out, 1) per dimension are not along the axes; "" when they are. None are points not yet known."""
    if points is None or not all(point.is_constant for point in points):
        if any(not isinstance(size, int) for size in x.shape[2:]):
            return "the image has dynamic sizes"
        return "the grid is not known when the network is written"
    for axis, point in enumerate(points):
        if not _line(point, axis)[1]:
            return f"coordinate {'xyz'[len(points) - 1 - axis]} of the grid changes along another dimension"
    return ""


def _line(point: Tensor, axis: int) -> tuple[torch.Tensor, bool]:
    """Coordinate per batch and place along ``axis``, (N, L); whether it is the same along the other dimensions."""
    data = point.data.squeeze(-1)
    others = [place for place in range(1, data.ndim) if place != axis + 1]
    line = data
    for place in others:
        line = line.narrow(place, 0, 1)
    same = torch.equal(line.expand_as(data).nan_to_num(), data.nan_to_num())
    return line.flatten(1), same


def transformation_of(x: Tensor, points: Sequence[Tensor], mode: str, padding_mode: str) -> str | None:
    """The coordinate transformation by which IResizeLayer reads exactly these points, which are along the axes.

    None where it has none, or would not read outside of the image as the padding asks.
    """
    transformations = {"HALF_PIXEL", "ALIGN_CORNERS"}
    for axis, (point, size) in enumerate(zip(points, x.shape[2:], strict=True)):
        assert isinstance(size, int)
        lines, _ = _line(point, axis)
        if not torch.equal(lines, lines[:1].expand_as(lines)):
            return None
        line = lines[0].double().numpy()
        transformations &= _transformations(line, size, mode, padding_mode)
    return min(transformations, default=None)


def resized_by_layer(x: Tensor, points: Sequence[Tensor], mode: str, transformation: str) -> Tensor:
    """One IResizeLayer that reads these points."""
    sizes = (_line(point, axis)[0].shape[1] for axis, point in enumerate(points))
    return L.resize(x, LAYER[mode], size=(*x.shape[:2], *sizes), coordinates=transformation, rounding="HALF_DOWN")


def _transformations(line: np.ndarray, size: int, mode: str, padding_mode: str) -> set[str]:
    """The coordinate transformations of IResizeLayer that give these points in pixels."""
    index, count = np.arange(len(line)), len(line)
    found = set()
    candidates = {"HALF_PIXEL": (index + 0.5) * size / count - 0.5}
    if count > 1:
        candidates["ALIGN_CORNERS"] = index * (size - 1) / (count - 1)
    for name, wanted in candidates.items():
        # As near as float32 coordinates are to the exact ones.
        near = np.allclose(line, wanted, rtol=0, atol=2.5e-7 * size)
        # The layer repeats the edge: so does border; the other paddings only where nothing lies outside.
        reach = 2 if mode == "bicubic" else 0
        outside = wanted.min() - reach < 0 or wanted.max() + reach > size - 1
        halves = mode == "nearest" and np.any(np.abs(wanted - np.floor(wanted) - 0.5) < 1e-3)
        if near and not halves and (padding_mode == "border" or not outside):
            found.add(name)
    return found


def separable(x: Tensor, points: Sequence[Tensor], mode: str, padding_mode: str, align_corners: bool) -> Tensor:
    """A product with a constant matrix (N or 1, 1, …, L, size) per dimension: IMatrixMultiplyLayer."""
    result = L.cast(x, torch.float32)
    for axis, point in enumerate(points):
        size = x.shape[2 + axis]
        assert isinstance(size, int)
        lines, _ = _line(point, axis)
        taps = make_taps(x.network.constant(lines.unsqueeze(-1)), size, mode, padding_mode, align_corners)
        matrix = _matrix(taps, size)
        if torch.equal(matrix, matrix[:1].expand_as(matrix)):
            matrix = matrix[:1]
        result = _product(result, 2 + axis, x.network.constant(matrix))
    return L.cast(result, x.dtype)


def _matrix(taps: Taps, size: int) -> torch.Tensor:
    """The weights as a dense (N, L, size)."""
    positions = taps.positions.data.long()
    weights = torch.ones(positions.shape) if taps.weights is None else taps.weights.data
    if taps.inside is not None:
        weights = weights * taps.inside.data
    return torch.zeros(*positions.shape[:2], size).scatter_add(2, positions, weights.expand(positions.shape))


def _product(x: Tensor, axis: int, matrix: Tensor) -> Tensor:
    """``matrix`` (N or 1, L, size) times dimension ``axis`` of ``x``."""
    spread = L.unsqueeze(matrix, range(1, x.ndim - 2))
    if axis == x.ndim - 2:
        return L.matrix_multiply(spread, x)
    if axis == x.ndim - 1:
        return L.matrix_multiply(x, spread, "NONE", "TRANSPOSE")
    return with_last(x, axis, lambda rows: L.matrix_multiply(rows, spread, "NONE", "TRANSPOSE"))
