"""Sampling along the axes: a constant grid of straight rows and columns is a resize, one dimension after the other."""

from __future__ import annotations

from collections.abc import Sequence

from ..common import L, Tensor, np, torch
from .taps import Taps, make_taps, resample

MODES = {"bilinear": "LINEAR", "nearest": "NEAREST", "bicubic": "CUBIC"}  # torch's name -> TensorRT's


def why_not(x: Tensor, points: Sequence[Tensor] | None) -> str:
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


def transformation_of(x: Tensor, points: Sequence[Tensor], mode: str, padding_mode: str) -> str | None:
    """The coordinate transformation by which IResizeLayer reads exactly these points, which are along the axes.

    None where it has none, or would not read outside of the image as the padding asks.
    """
    transformations = {"HALF_PIXEL", "ALIGN_CORNERS"}
    for axis, (point, size) in enumerate(zip(points, x.shape[2:], strict=True)):
        assert isinstance(size, int)
        transformations &= _transformations(_line(point, axis).double().numpy(), size, mode, padding_mode)
    return min(transformations, default=None)


def resized_by_layer(x: Tensor, points: Sequence[Tensor], mode: str, transformation: str) -> Tensor:
    """One IResizeLayer that reads these points."""
    sizes = (len(_line(point, axis)) for axis, point in enumerate(points))
    return L.resize(x, MODES[mode], size=(*x.shape[:2], *sizes), coordinates=transformation, rounding="HALF_DOWN")


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
    """The taps of one dimension after the other, as :func:`resample` reads them."""

    def taps_along(axis: int, point: Tensor) -> Taps:
        line = x.network.constant(_line(point, axis).unsqueeze(-1))
        taps = make_taps(line, x.shape[2 + axis], mode, padding_mode, align_corners)
        return taps if taps.inside is None else Taps(((taps.positions, L.cast(taps.inside, torch.float32)),))

    return resample(x, {2 + axis: taps_along(axis, point) for axis, point in enumerate(points)})
