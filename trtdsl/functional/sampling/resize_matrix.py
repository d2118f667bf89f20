"""Resizing one dimension where each result is made of many elements: torch's area and antialiased modes.

The weights are written once, as a function of the two indices, and computed by torch where the sizes are static and by
layers where they are not.
"""

from __future__ import annotations

from typing import Any

from ..common import L, Network, SizeLike, Tensor, torch
from ..operands import as_tensor, with_last
from .taps import Taps, resample

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
    i, j = _indices(network, length, target, torch.int64)
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
    i, j = _indices(network, length, target, torch.float32)
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


def _indices(network: Network, length: SizeLike, target: SizeLike, dtype: Any) -> tuple[Tensor, Tensor]:
    """0, 1, … as (target, 1) and as (1, length)."""
    return L.linspace(network, (target, 1), 0, (1, 0), dtype), L.linspace(network, (1, length), 0, (0, 1), dtype)
