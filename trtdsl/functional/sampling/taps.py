"""The elements along one dimension that contribute to a point between them, and their weights; also where each result
is made of many elements, as in torch's area and antialiased modes.

Shared by sampling and resizing. Points are float32, in elements: 0 is the centre of the first. Where an operand can be
NaN it comes second, since TensorRT's MAX and MIN give NaN only when the first operand is. The weights of many elements
are written once, as a function of the two indices, and computed by torch where the sizes are static, else by layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..common import L, Network, SizeLike, Tensor, bounds, size_max, torch
from ..operands import as_tensor, binary, with_last
from ..shaping.create import indices_of
from ..shaping.join import cat

Number = float | Tensor

CUBIC = -0.75  # the coefficient of torch's bicubic interpolation


@dataclass(frozen=True)
class Taps:
    """Elements that count for points of shape (…, 1)."""

    parts: tuple[tuple[Tensor, Tensor | None], ...]
    """Positions (…, T) int32, all of them inside, and weights (…, T) float32 (None where each is 1); T adds up."""
    inside: Tensor | None = None
    """(…, 1) bool: where the one element counts, when there are no weights; None where it always does."""

    @property
    def positions(self) -> Tensor:
        """All positions, (…, T)."""
        return cat([position for position, _ in self.parts], -1)

    @property
    def weights(self) -> Tensor | None:
        """All weights, (…, T); None where each is 1."""
        weights = [weight for _, weight in self.parts if weight is not None]
        return cat(weights, -1) if weights else None


def number(size: SizeLike, network: Network) -> Number:
    """A size in float32 arithmetic: a float, or a scalar Tensor for a dynamic one."""
    return float(size) if isinstance(size, int) else L.cast(as_tensor(size, network), torch.float32)


def maximum(low: Number, x: Tensor) -> Tensor:
    """``max(low, x)``; ``low`` where x is NaN."""
    return binary(low, x, "MAX", x.dtype)


def minimum(high: Number, x: Tensor) -> Tensor:
    """``min(high, x)``; ``high`` where x is NaN."""
    return binary(high, x, "MIN", x.dtype)


def make_taps(point: Tensor, size: SizeLike, mode: str, padding: str, align_corners: bool) -> Taps:
    """The elements that count for ``point`` (…, 1) along a dimension of ``size``.

    ``mode`` is nearest, bilinear or bicubic, ``padding`` zeros, border or reflection, as torch's grid_sample has them.
    NaN is outside, except that bicubic gives NaN for it, as torch does.
    """
    last = number(size - 1, point.network)
    if mode == "bicubic":
        return _cubic(point, size, last, padding, align_corners)
    if padding == "reflection":
        point = reflect(point, size, align_corners)
    if padding != "zeros":
        point = minimum(last, maximum(0.0, point))
    if mode == "nearest":
        rounded = L.unary(point, "ROUND")  # half to even
        if padding != "zeros":
            return Taps(((L.cast(rounded, torch.int32), None),))
        position = minimum(last, maximum(0.0, rounded))
        return Taps(((L.cast(position, torch.int32), None),), L.elementwise(position, rounded, "EQUAL"))
    return _linear(point, size, padding)


def _linear(point: Tensor, size: SizeLike, padding: str) -> Taps:
    """Two neighbours that are inside, with weights max(0, 1 - distance): no mask is needed for zeros outside."""
    if size == 1:
        position = L.cast(minimum(0.0, maximum(0.0, point)), torch.int32)
        return Taps(((position, None if padding != "zeros" else _hat(point)),))
    network = point.network
    least = size_max(size - 2, 0)
    first = maximum(0.0, minimum(number(least, network), L.unary(point, "FLOOR")))
    second = first + 1.0
    weights = [_hat(point - position) for position in (first, second)]
    if bounds(size)[0] < 2:  # where the size may turn out to be 1, there is no second neighbour
        last = as_tensor(number(size - 1, network), network)
        second = minimum(last, second)
        weights[1] = weights[1] * minimum(1.0, last)
    return Taps(((L.cast(first, torch.int32), weights[0]), (L.cast(second, torch.int32), weights[1])))


def _hat(distance: Tensor) -> Tensor:
    return maximum(0.0, 1.0 - L.unary(distance, "ABS"))


def _cubic(point: Tensor, size: SizeLike, last: Number, padding: str, align_corners: bool) -> Taps:
    """Four neighbours; each of them, not the point, is brought inside or left out."""
    base = L.unary(point, "FLOOR")
    part = point - base
    # The outer distances lie on the far piece of Keys' kernel, the inner ones on the near piece.
    near, far = (CUBIC + 2, -(CUBIC + 3), 0.0, 1.0), (CUBIC, -5 * CUBIC, 8 * CUBIC, -4 * CUBIC)
    parts: list[tuple[Tensor, Tensor | None]] = []
    for offset, distance, pieces in (
        (-1.0, part + 1.0, far),
        (0.0, part, near),
        (1.0, 1.0 - part, near),
        (2.0, 2.0 - part, far),
    ):
        weight = distance * pieces[0] + pieces[1]  # Horner
        for coefficient in pieces[2:]:
            weight = weight * distance + coefficient
        wanted = base + offset
        if padding == "reflection":
            wanted = reflect(wanted, size, align_corners)
        position = minimum(last, maximum(0.0, wanted))
        if padding == "zeros":
            weight = weight * L.cast(L.elementwise(position, wanted, "EQUAL"), torch.float32)
        parts.append((L.cast(position, torch.int32), weight))
    return Taps(tuple(parts))


def reflect(point: Tensor, size: SizeLike, align_corners: bool) -> Tensor:
    """The point folded back into the image, about the outer elements' centres or their outer edges."""
    if align_corners and size == 1:
        return minimum(0.0, maximum(0.0, point))
    network = point.network
    span = number(size - 1 if align_corners else size, network)
    distance = L.unary(point if align_corners else point + 0.5, "ABS")
    period = span * 2.0
    rest = distance - L.unary(distance / period, "FLOOR") * period
    folded = span - L.unary(rest - span, "ABS")
    return folded if align_corners else folded - 0.5


def resample(x: Tensor, taps: Mapping[int, Taps]) -> Tensor:
    """``x`` with dimensions resampled at points of shape (L, 1): IGatherLayers, products and IReduceLayers.

    Weighted sums are float32, and rounded once.
    """
    dtype = x.dtype
    for axis, each in taps.items():
        if each.weights is None:
            x = L.gather(x, L.squeeze(each.positions, [1]), axis)
            continue
        picked = L.cast(L.gather(x, each.positions, axis), torch.float32)
        x = L.reduce(picked * L.unsqueeze(each.weights, range(2, picked.ndim - axis)), "SUM", [axis + 1])
    return L.cast(x, dtype)


Values = Any  # a Tensor of the network, or a torch tensor: the formulas are the same
Weights = Taps | Tensor  # static: elements and weights; dynamic: a matrix (result, input)


def adaptive_window(i: Values, m: Values, n: Values) -> tuple[Values, Values]:
    """Where window ``i`` of ``n`` over ``m`` elements begins, and one past its end."""
    return i * m // n, ((i + 1) * m + n - 1) // n


def area_matrix(network: Network, length: SizeLike, target: SizeLike) -> Weights:
    """Averages over adaptive windows: from floor(i * length / target) to ceil((i + 1) * length / target).

    https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveAvgPool2d.html
    """

    def weights(i: Values, j: Values, m: Values, n: Values) -> Values:
        start, end = adaptive_window(i, m, n)
        inside = (j - start + 1).minimum(end - j).clamp(0, 1)
        return inside.float() / (end - start).float()

    if isinstance(length, int) and isinstance(target, int):
        i, j = torch.arange(target).unsqueeze(1), torch.arange(length)
        return _banded(network, weights(i, j, length, target))
    i, j = indices_of(network, target, length)
    return weights(i, j, *(as_tensor(size, network, torch.int64) for size in (length, target)))


def antialias_matrix(network: Network, length: SizeLike, target: SizeLike, mode: str, ratio: Any) -> Weights:
    """The triangle (bilinear) or Keys' kernel with -0.5 (bicubic), ``ratio`` times as wide where that is more than 1.

    As Pillow has it, and torch after it: ATen/native/cpu/UpSampleKernel.cpp, HelperInterpBase.
    """
    kernel = (lambda x: (1.0 - abs(x)).clamp(min=0.0)) if mode == "bilinear" else _keys

    def weights(i: Values, j: Values, ratio: Values) -> Values:
        wide = max(ratio, 1.0) if isinstance(ratio, float) else ratio.clamp(min=1.0)
        raw = kernel((j - (i + 0.5) * ratio + 0.5) / wide)
        return raw / raw.sum(1, keepdim=True)

    if isinstance(length, int) and isinstance(target, int):
        i, j = torch.arange(target, dtype=torch.float64).unsqueeze(1), torch.arange(length, dtype=torch.float64)
        return _banded(network, weights(i, j, torch.tensor(ratio)))
    i, j = indices_of(network, target, length, dtype=torch.float32)
    return weights(i, j, ratio)


def resample_by_matrix(x: Tensor, axis: int, weights: Weights) -> Tensor:
    """``x`` with dimension ``axis`` resampled: as :func:`resample`, or by one IMatrixMultiplyLayer."""
    if isinstance(weights, Taps):
        return resample(x, {axis: weights})
    matrix = L.unsqueeze(weights, range(x.ndim - 2))
    wide = L.cast(x, torch.float32)
    return L.cast(with_last(wide, axis, lambda rows: L.matrix_multiply(rows, matrix, "NONE", "TRANSPOSE")), x.dtype)


def _keys(x: Values, a: float = -0.5) -> Values:
    """Both pieces of the kernel are 0 where they meet, so each is taken at the point nearest to it."""
    near, far = abs(x).clamp(0.0, 1.0), abs(x).clamp(1.0, 2.0)
    return ((a + 2) * near - (a + 3)) * near * near + 1.0 + ((a * far - 5 * a) * far + 8 * a) * far - 4 * a


def _banded(network: Network, matrix: torch.Tensor) -> Taps:
    """The constant elements and weights of a matrix whose rows are zero but for a stretch."""
    used = matrix != 0
    first = used.int().argmax(1)
    last = matrix.shape[1] - 1 - used.flip(1).int().argmax(1)
    taps = first.unsqueeze(1) + torch.arange(int((last - first).max()) + 1)
    inside = taps <= last.unsqueeze(1)
    positions = torch.where(inside, taps, first.unsqueeze(1))
    weights = torch.where(inside, matrix.gather(1, positions), 0.0)
    return Taps(((network.constant(positions.int()), network.constant(weights.float())),))
