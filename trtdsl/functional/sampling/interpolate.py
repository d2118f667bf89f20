"""torch.nn.functional.interpolate and its relatives: resizing the dimensions after (N, C)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ...core.errors import ShapeError, UnsupportedError
from ...core.tensors.exact import Rounded
from ...sizes.shape import channels_last, shape_text
from ...sizes.size import Size, SizeLike, bounds, divide_exactly, is_static, size_max, size_min
from ..common import L, Network, Tensor, folding, np, operation, require_floats, require_one_of, require_rank, torch
from ..family import family
from ..lowerings import AUTO, lowered, way
from ..operands import as_tensor, choose, stretch
from ..windows.adaptive import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from .taps import Number, Taps, antialias_matrix, make_taps, minimum, number, resample, resample_by_matrix

Targets = SizeLike | Sequence[SizeLike]

RANKS = {  # mode -> ranks that torch takes
    "nearest": (3, 4, 5),
    "nearest-exact": (3, 4, 5),
    "linear": (3,),
    "bilinear": (4,),
    "trilinear": (5,),
    "bicubic": (4,),
    "area": (3, 4, 5),
}
MANY = 1 << 20  # elements that are looked at one by one
LAYER = {"nearest": "NEAREST", "nearest-exact": "NEAREST", "bicubic": "CUBIC"}  # IResizeLayer's mode, else LINEAR


@dataclass(frozen=True)
class Change:
    """One dimension to be resized."""

    axis: int
    length: SizeLike
    target: SizeLike
    scale: float | None
    """torch's scale_factor, which then gives the ratio; None where length / target does."""
    mode: str
    align_corners: bool
    antialias: bool
    rank: int

    @property
    def copies_same(self) -> bool:
        """Whether torch ignores the scale where the size stays the same."""
        return self.antialias or self.mode in ("linear", "bilinear", "trilinear") or self.copies_double

    @property
    def copies_double(self) -> bool:
        """Whether torch ignores the scale where the size doubles, too."""
        return self.mode == "nearest" and self.rank == 4

    def ratio(self) -> Fraction | None:
        """Elements of the input per element of the result, where it is one number whatever the dimensions are."""
        if isinstance(self.length, int) and isinstance(self.target, int):
            return Fraction(self.length, self.target)
        for over, under, invert in ((self.length, self.target, False), (self.target, self.length, True)):
            quotient = divide_exactly(over, under)
            if isinstance(quotient, int):
                return Fraction(1, quotient) if invert else Fraction(quotient)
        return None


@operation
def interpolate(
    input: Tensor,
    size: Targets | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
    *,
    lowering: str = "auto",
) -> Tensor:
    """``input`` (N, C, spatial…) with its spatial dimensions resized to ``size`` or by ``scale_factor``.

    ``size`` has ints and Targets, so that ``size=other.shape[2:]`` gives another tensor's. ``mode`` is nearest,
    nearest-exact, linear (3 dimensions), bilinear, bicubic (4), trilinear (5) or area. One IResizeLayer where that
    means the same as torch; otherwise the exact elements and weights along each dimension (IGatherLayer, a product,
    IReduceLayer), or a matrix product for antialiasing where sizes are dynamic. "area" is :func:`adaptive_avg_pool2d`
    and its like. For a nearest mode and whole factors an ISliceLayer that repeats elements between two IShuffleLayers
    (``lowering="expand"``), where ``input`` does not lie channels last in memory, as it does after a convolution.
    Elements that are interpolated must be finite: one beside a window may be multiplied by 0.

    Raises ShapeError and UnsupportedError for arguments that torch refuses, and for integers.

    >>> x = net.input("x", ("N", 3, "H", 8))
    >>> F.interpolate(x, scale_factor=2, mode="bilinear").shape
    (N, 3, 2*H, 16)
    """
    _check(input, mode, align_corners, antialias)
    spatial = input.shape[2:]
    targets, scales = _targets(spatial, size, scale_factor, recompute_scale_factor)
    for target in targets:
        input.network.constraints.positive(target, input.network.current_operation)
    changes = [
        Change(axis, length, target, scale, mode, bool(align_corners), antialias, input.ndim)
        for axis, (length, target, scale) in enumerate(zip(spatial, targets, scales, strict=True), 2)
    ]
    changes = [
        each for each in changes if each.length != each.target or not (each.scale in (None, 1.0) or each.copies_same)
    ]
    if lowering == AUTO and _why_not_expanded(input, changes) is not None:
        return _resize(input, changes)
    # The builder has what it resizes channels last; repeated elements it takes as they are.
    best = "resize" if input.order == channels_last(input.ndim) else "expand"
    return lowered("interpolate", lowering, input, changes=changes, default=best)


def _check(x: Tensor, mode: str, align_corners: bool | None, antialias: bool) -> None:
    require_one_of("interpolate: mode", mode, RANKS)
    ranks = " or ".join(map(str, RANKS[mode]))
    require_rank(x, f"mode {mode!r} takes {ranks} dimensions (N, C, …)", RANKS[mode][0], RANKS[mode][-1])
    if align_corners is not None and mode in ("nearest", "nearest-exact", "area"):
        raise UnsupportedError(f"interpolate: align_corners has no meaning with mode {mode!r}: leave it out")
    if antialias and mode not in ("bilinear", "bicubic"):
        raise UnsupportedError(f"interpolate: antialias goes with bilinear and bicubic, not with mode {mode!r}")
    require_floats("interpolate takes", x)


def _targets(
    spatial: Sequence[SizeLike], size: Any, scale_factor: Any, recompute: bool | None
) -> tuple[list[SizeLike], list[float | None]]:
    """The wanted size of each dimension, and the scale that gives its ratio."""

    if (size is None) == (scale_factor is None):
        raise ShapeError("interpolate takes either size or scale_factor")
    given: Any = scale_factor if size is None else size
    targets: list[Any] = list(given) if isinstance(given, Sequence) else [given] * len(spatial)
    if len(targets) != len(spatial):
        raise ShapeError(f"size and scale_factor have {len(spatial)} values, not {len(targets)}: {tuple(targets)}")
    scales: list[float | None] = [None] * len(spatial)
    if size is not None:
        if recompute:
            raise UnsupportedError("interpolate: recompute_scale_factor goes with scale_factor, not with size")
        if wrong := [target for target in targets if not isinstance(target, (int, Size)) or isinstance(target, bool)]:
            raise ShapeError(f"interpolate: sizes are ints and Sizes, not {wrong[0]!r}")
    else:
        if any(isinstance(factor, Tensor) for factor in targets):
            raise UnsupportedError("interpolate: a scale_factor that is computed at run time: give size instead")
        scales = [None if recompute else float(factor) for factor in targets]
        targets = [scaled(length, float(factor)) for length, factor in zip(spatial, targets, strict=True)]
    for length, target in zip(spatial, targets, strict=True):
        if bounds(target)[1] < 1 or bounds(length)[1] < 1:
            raise ShapeError(f"interpolate: sizes must be positive: {shape_text(spatial)} to {shape_text(targets)}")
    return targets, scales


def scaled(length: SizeLike, factor: float) -> SizeLike:
    """``floor(length * factor)`` in double precision, as torch computes a size.

    Raises UnsupportedError for a dynamic length and a factor that no fraction stands for over its whole range.
    """
    if not factor > 0 or math.isinf(factor):
        raise ShapeError(f"interpolate: scale_factor must be positive, not {factor}")
    if isinstance(length, int):
        return math.floor(length * factor)
    fraction = Fraction(factor).limit_denominator(1024)
    low, high = bounds(length)
    lengths = np.arange(max(low, 0), min(high, 1 << 16) + 1)
    exact = lengths * fraction.numerator // fraction.denominator
    if not np.array_equal(np.floor(lengths * factor), exact):
        raise UnsupportedError(f"floor({length} * {factor}) is no fraction of {length}, which is dynamic: give size=")
    return length * fraction.numerator // fraction.denominator


def _repeats(change: Change) -> bool:
    """Whether every element is repeated, as often as any other."""
    ratio = change.ratio()
    nearest = change.mode in ("nearest", "nearest-exact")
    if not nearest or ratio is None or ratio.numerator != 1 or not _layer_agrees(change):
        return False
    target = bounds(change.target)[1]
    if target > MANY:
        return ratio.denominator.bit_count() == 1
    points = np.arange(target, dtype=np.float32) + np.float32(0.5 if change.mode == "nearest-exact" else 0)
    return np.array_equal(np.floor(points * np.float32(float(ratio))), np.arange(target) // ratio.denominator)


def _why_not_expanded(x: Tensor, changes: list[Change]) -> str | None:
    return None if changes and all(map(_repeats, changes)) else "it repeats each element"


@way("interpolate", "resize", "IResizeLayer, or the exact elements and weights where it means something else")
def _resize(x: Tensor, changes: list[Change]) -> Tensor:
    if any(change.mode == "area" for change in changes):
        sizes = {change.axis: change.target for change in changes}
        average = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[x.ndim - 3]
        return average(x, [sizes.get(axis, x.shape[axis]) for axis in range(2, x.ndim)])
    layer = [change for change in changes if _layer_agrees(change)]
    for change in changes:
        if change not in layer:
            x = _along(x, change)
    return _by_layer(x, layer) if layer else x


@way(
    "interpolate",
    "expand",
    "an ISliceLayer that repeats elements, between two IShuffleLayers",
    unless=_why_not_expanded,
)
def _repeated(x: Tensor, changes: list[Change]) -> Tensor:
    split, wide, sizes = [*x.shape], [*x.shape], [*x.shape]
    for count, change in enumerate(changes, 1):
        split.insert(change.axis + count, 1)
        wide.insert(change.axis + count, change.target // change.length)
        sizes[change.axis] = change.target
    return L.shuffle(stretch(L.shuffle(x, reshape=split), wide), reshape=sizes)


def _layer_agrees(change: Change) -> bool:
    """Whether IResizeLayer gives torch's result along this dimension."""
    if change.antialias:
        return False
    ratio = change.ratio()
    if change.scale is not None and not change.align_corners:  # the layer takes length / target, torch 1 / scale
        doubled = change.copies_double and change.target == change.length * 2
        if not doubled and (ratio is None or change.scale * ratio != 1):
            return False
    if change.mode == "nearest":
        return True  # both multiply by a float32 quotient in float32, and round down
    if change.mode == "nearest-exact":
        return ratio is not None and _rounding_agrees(change, ratio)
    # Where the result has one element, align_corners divides by zero in the layer.
    return not change.align_corners or bounds(change.target)[0] > 1


def _rounding_agrees(change: Change, ratio: Fraction) -> bool:
    """Whether the layer's float32 arithmetic chooses the element that torch's does.

    The layer subtracts 0.5 from torch's product before it rounds: a compiler may do both at once.
    """
    target = bounds(change.target)[1]
    if target > MANY:  # no bound is known: only whole ratios and powers of two are safe
        return ratio.denominator == 1 or (ratio.numerator == 1 and ratio.denominator.bit_count() == 1)
    points, factor = np.arange(target, dtype=np.float32) + np.float32(0.5), np.float32(float(ratio))
    apart, at_once = points * factor - np.float32(0.5), (points.astype(float) * factor - 0.5).astype(np.float32)
    chosen = np.floor(points * factor)
    return all(np.array_equal(np.floor(each - np.float32(0.5)) + 1, chosen) for each in (apart, at_once))


def _by_layer(x: Tensor, changes: list[Change]) -> Tensor:
    first = changes[0]
    mode = LAYER.get(first.mode, "LINEAR")
    coordinates = "ALIGN_CORNERS" if first.align_corners else "ASYMMETRIC" if first.mode == "nearest" else "HALF_PIXEL"
    rounding = "HALF_UP" if first.mode == "nearest-exact" else "FLOOR"
    given = {change.axis: change.target for change in changes}
    size: Any = [given.get(axis, length) for axis, length in enumerate(x.shape)]
    scales: Any = None
    if not is_static(size) and not first.align_corners:
        factors: dict[int, Any] = {change.axis: divide_exactly(change.target, change.length) for change in changes}
        if all(isinstance(factor, int) for factor in factors.values()):  # whole scales need no shape tensor
            size, scales = None, [float(factors.get(axis, 1)) for axis in range(x.ndim)]
    return L.resize(x, mode, size=size, scales=scales, coordinates=coordinates, rounding=rounding)


def _along(x: Tensor, change: Change) -> Tensor:
    with folding(x.network):
        if not change.antialias:
            return resample(x, {change.axis: _taps(x.network, change)})
        matrix = antialias_matrix(x.network, change.length, change.target, change.mode, _float_ratio(x.network, change))
    return resample_by_matrix(x, change.axis, matrix)


def _float_ratio(network: Network, change: Change) -> Number:
    """Elements of the input per element of the result in float32 arithmetic, as torch has it."""
    length, target, scale = change.length, change.target, change.scale
    if isinstance(length, int) and isinstance(target, int):
        if change.align_corners:
            return Rounded((length - 1) / (target - 1)) if target > 1 else 0.0
        return Rounded(length / target if scale is None else 1 / scale)
    if change.align_corners:
        ratio = as_tensor(length - 1, network, torch.float32) / number(size_max(target - 1, 1), network)
        return ratio if bounds(target)[0] > 1 else ratio * number(size_min(target - 1, 1), network)
    if scale is None:
        return as_tensor(length, network, torch.float32) / number(target, network)
    ratio = Rounded(1 / scale)
    if change.copies_same and scale >= 1:
        ratio = _where_equal(network, target, length, 1.0, ratio)
    if change.copies_double and scale >= 2:
        ratio = _where_equal(network, target, length * 2, 0.5, ratio)
    return ratio


def _where_equal(network: Network, size: SizeLike, other: SizeLike, then: float, otherwise: Number) -> Tensor:
    """``then`` where the two sizes turn out to be the same."""
    same = as_tensor(size, network, torch.int64) == as_tensor(other, network, torch.int64)
    return choose(same, then, otherwise, torch.float32)


def _taps(network: Network, change: Change) -> Taps:
    index = L.linspace(network, (change.target, 1), 0, (1, 0))
    ratio = _float_ratio(network, change)
    if change.mode in ("nearest", "nearest-exact"):
        point = L.unary((index if change.mode == "nearest" else index + 0.5) * ratio, "FLOOR")
        return Taps(((L.cast(minimum(number(change.length - 1, network), point), torch.int32), None),))
    point = index * ratio if change.align_corners else (index + 0.5) * ratio - 0.5
    mode = "bicubic" if change.mode == "bicubic" else "bilinear"
    return make_taps(point, change.length, mode, "border", change.align_corners)


def _upsampled(
    how: dict[str, Any], input: Tensor, size: Targets | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    return interpolate(input, size, scale_factor, **how)


upsample_nearest, upsample_bilinear = family(
    _upsampled,
    "As :func:`interpolate` with mode {}.",
    upsample_nearest=({"mode": "nearest"}, "nearest"),
    upsample_bilinear=({"mode": "bilinear", "align_corners": True}, "bilinear and ``align_corners=True``"),
)
