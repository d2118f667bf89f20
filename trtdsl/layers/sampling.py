"""RESIZE and GRID_SAMPLE: an image between its elements, by nearest, linear or cubic interpolation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

from ..core.errors import ShapeError, UnsupportedError
from .common import Shape, SizeLike, Tensor, add_layer, adds, is_static, member, np, operation, shape_text, torch
from .evaluation import Given, Mistakes, Node, Shapes, computes
from .shape import size_tensor

WITH_BATCH = (
    "nearest resizing of the last two dimensions together with one before the third from the end, which stays, is "
    "built with that one's index as it is: resize it by a layer of its own"
)


@operation
def resize(
    x: Tensor,
    mode: str = "NEAREST",
    *,
    size: Sequence[SizeLike] | None = None,
    scales: Sequence[float] | None = None,
    coordinates: str = "ASYMMETRIC",
    rounding: str = "FLOOR",
    selector: str = "FORMULA",
    cubic_coefficient: float = -0.75,
    exclude_outside: bool = False,
) -> Tensor:
    """``x`` resized to ``size`` (one value per dimension) or by ``scales``: one IResizeLayer.

    ``mode`` is NEAREST (any dimensions), LINEAR (the last three at most) or CUBIC (the last two). ``coordinates`` says
    where an element of the result lies in ``x`` of length ``m`` when the result has length ``n``: ASYMMETRIC
    ``i*m/n``, HALF_PIXEL ``(i+0.5)*m/n - 0.5``, ALIGN_CORNERS ``i*(m-1)/(n-1)``; ``rounding`` (HALF_UP, HALF_DOWN,
    FLOOR, CEIL) is NEAREST's. ``selector="UPPER"`` takes element 0 where the result has length 1. Outside of ``x`` the
    edge counts, or nothing with ``exclude_outside`` (the weights are then scaled to a sum of 1).

    Raises ShapeError unless exactly one of ``size`` and ``scales`` is given, with one value per dimension.

    >>> resize(net.input("x", ("N", 3, 8, 8)), "LINEAR", scales=(1, 1, 2, 2)).shape
    (N, 3, 16, 16)
    """
    if (size is None) == (scales is None):
        raise ShapeError("resize takes either size or scales")
    given: Sequence[object] = size if size is not None else scales or ()
    if len(given) != x.ndim:
        raise ShapeError(f"resize needs one value for each of {x.ndim} dimensions, not {tuple(given)}")
    sizes = tuple(size) if size is not None else _scaled_sizes(x.shape, scales or ())
    if mode == "NEAREST" and sizes is not None and _loses_batch(x.shape, sizes):
        raise UnsupportedError(WITH_BATCH)
    dynamic = None if size is None or is_static(size) else size_tensor(x.network, size)
    trt = x.network.trt
    add = adds(
        "add_resize",
        takes=1,
        numbers={"cubic_coeff": cubic_coefficient},
        resize_mode=member(trt.InterpolationMode, mode, "interpolation mode"),
        coordinate_transformation=member(trt.ResizeCoordinateTransformation, coordinates, "transformation"),
        selector_for_single_pixel=member(trt.ResizeSelector, selector, "selector"),
        nearest_rounding=member(trt.ResizeRoundMode, rounding, "rounding"),
        exclude_outside=exclude_outside,
        shape=tuple(size) if size is not None and dynamic is None else None,
        scales=None if size is not None else [float(scale) for scale in scales or ()],
    )
    return add_layer(add, x, dynamic, shape=sizes, order=lambda: x.order)


def _scaled(length: int, scale: float) -> int:
    """floor(length * scale) as TensorRT has it, which rounds the product to float32: 10 * 0.7 is 7."""
    return math.floor(np.float32(length) * np.float32(scale))


def _scaled_sizes(shape: Sequence[SizeLike], scales: Sequence[float]) -> tuple[SizeLike, ...] | None:
    """floor(length * scale) along each dimension; None where a dynamic one is scaled by a fraction."""
    sizes: list[SizeLike] = []
    for length, scale in zip(shape, scales, strict=True):
        if isinstance(length, int):
            sizes.append(_scaled(length, scale))
        elif float(scale).is_integer():
            sizes.append(length * int(scale))
        else:
            return None
    return tuple(sizes)


def _loses_batch(shape: Sequence[SizeLike], sizes: Sequence[SizeLike]) -> bool:
    """Whether TensorRT-RTX builds an index that is not resized: docs/traps/builder-resize.md."""
    changed = [before != after for before, after in zip(shape, sizes, strict=True)]
    return len(changed) in (4, 5) and any(changed[:-3]) and not changed[-3] and any(changed[-2:])


def _flops(node: Node, shapes: Shapes) -> int:
    mode = node.layer.resize_mode.name
    if mode == "NEAREST" or shapes.inputs[0] is None:
        return 0
    changed = sum(a != b for a, b in zip(shapes.inputs[0], shapes.outputs[0], strict=True))
    return 2 * (2 if mode == "LINEAR" else 4) ** changed * shapes.elements


MISTAKES = Mistakes(
    members={
        "resize_mode": {"NEAREST": "LINEAR", "LINEAR": "NEAREST", "CUBIC": "LINEAR"},
        "coordinate_transformation": {
            "ALIGN_CORNERS": "HALF_PIXEL", "HALF_PIXEL": "ASYMMETRIC", "ASYMMETRIC": "HALF_PIXEL",
        },
    },
    flags=("exclude_outside",),
    uses=lambda layer, attribute: attribute != "exclude_outside" or layer.resize_mode.name == "CUBIC",
)  # fmt: skip


@computes("RESIZE", category="sampling", settings=True, flops=_flops, mistakes=MISTAKES)
def _resize(node: Node, x: torch.Tensor, size: Given = None) -> torch.Tensor:
    """The nearest positions are computed in float32, a scale rounded to six decimals first. ALIGN_CORNERS takes
    ``(m - 1) / (n - 1)`` whatever the scales, and element 0 where n is 1.
    """
    layer, mode = node.layer, node.layer.resize_mode.name
    coordinates, upper = layer.coordinate_transformation.name, layer.selector_for_single_pixel.name == "UPPER"
    scales = list(layer.scales) if size is None else []

    def positions(length: int, wanted: int, scale: float | None) -> torch.Tensor:
        """Where the result's elements lie; the nearest ones in float32, as the generated kernels compute it."""
        index = torch.arange(wanted, dtype=torch.float32 if mode == "NEAREST" else torch.float64)
        if wanted == 1 and (upper or coordinates == "ALIGN_CORNERS"):
            return index
        if coordinates == "ALIGN_CORNERS":
            return index * (index.new_tensor(length - 1) / index.new_tensor(wanted - 1))
        # With scales the ratio is theirs, as ONNX has it; length / wanted is another one where a size was rounded down.
        over, under = (length, wanted) if scale is None else (1, round(scale, 6) if mode == "NEAREST" else scale)
        ratio = index.new_tensor(over) / index.new_tensor(under)
        return index * ratio if coordinates == "ASYMMETRIC" else (index + 0.5) * ratio - 0.5

    if scales:
        wanted = list(map(_scaled, x.shape, scales))
    else:
        wanted = list(layer.shape) if size is None else size.tolist()
    if mode == "NEAREST" and _loses_batch(x.shape, wanted):
        raise UnsupportedError(f"layer {node.name!r} (RESIZE): {WITH_BATCH}")
    ratios = scales or [None] * x.ndim
    result = x if mode == "NEAREST" else x.float()
    # From the first axis that may change on, kernels multiply by weights of 0, too: infinity becomes NaN.
    finite, begun = mode == "NEAREST" or bool(x.isfinite().all()), False
    for axis, (length, target, scale) in enumerate(zip(x.shape, wanted, ratios, strict=True)):
        changes = length != target or scale not in (None, 1.0)
        begun = begun or changes or node.inputs[0].shape[axis] < 0
        if not changes and (finite or not begun):
            continue
        where = positions(length, target, scale)
        if mode == "NEAREST":
            nearest = _ROUND[layer.nearest_rounding.name](where)
            result = result.index_select(axis, nearest.clamp(0, length - 1).long())
        else:
            taps = _linear_taps(where) if mode == "LINEAR" else _cubic_taps(where, node.number("cubic_coeff"))
            result = _weigh(result, axis, taps, layer.exclude_outside)
    return result.to(node.dtype)


_ROUND: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "HALF_UP": lambda x: torch.floor(x - 0.5) + 1,
    "HALF_DOWN": lambda x: torch.ceil(x + 0.5) - 1,
    "FLOOR": lambda x: torch.floor(x),
    "CEIL": lambda x: torch.ceil(x),
}

Taps = list[tuple["torch.Tensor", "torch.Tensor"]]  # (index, weight) of each element that counts


def _linear_taps(where: torch.Tensor) -> Taps:
    base = torch.floor(where)
    return [(base, 1 - (where - base)), (torch.ceil(where), where - base)]


def _cubic_taps(where: torch.Tensor, a: float = -0.75) -> Taps:
    """The four elements around a point: Keys' cubic convolution (1981), by default with the coefficient of torch.

    The weights are computed in the order of TensorRT's kernels, by which one is 0 or almost.
    """
    base = torch.floor(where)
    t = where - base

    def near(x: torch.Tensor) -> torch.Tensor:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: torch.Tensor) -> torch.Tensor:
        return a * (((x - 5) * x + 8) * x - 4)

    return [(base - 1, far(t + 1)), (base, near(t)), (base + 1, near(1 - t)), (base + 2, far(2 - t))]


def _weigh(x: torch.Tensor, axis: int, taps: Taps, exclude: bool) -> torch.Tensor:
    """The weighted sum of the elements at the taps along an axis; outside of it, the edge."""
    length = x.shape[axis]
    indices, weights = torch.stack([index for index, _ in taps]), torch.stack([weight for _, weight in taps])
    if exclude:
        weights = torch.where((indices >= 0) & (indices < length), weights, 0.0)
        weights = weights / weights.sum(0)
    column = (-1,) + (1,) * (x.ndim - axis - 1)
    total = torch.zeros(())
    for index, weight in zip(indices.clamp(0, length - 1).long(), weights.float(), strict=True):
        total = total + x.index_select(axis, index) * weight.reshape(column)
    return total


MISPLACED = (
    "TensorRT-RTX 1.7 reads the wrong pixels where a grid sample by CUBIC with FILL takes in the layer before it "
    "(docs/traps/builder-cubic.md): gather them (F.grid_sample does), or sample the image padded by a zero with CLAMP"
)


@operation
def grid_sample(
    x: Tensor, grid: Tensor, mode: str = "LINEAR", sample_mode: str = "FILL", align_corners: bool = False
) -> Tensor:
    """``x`` (N, C, H, W) read at the points of ``grid`` (N, Ho, Wo, 2), gives (N, C, Ho, Wo): one IGridSampleLayer.

    A point is (x, y) from -1 to 1 across the image, between the centres of the outer pixels with ``align_corners``
    and between their outer edges without. ``mode``: LINEAR, NEAREST, CUBIC; ``sample_mode`` outside: FILL (zeros),
    CLAMP (the edge), REFLECT. Five dimensions (N, C, D, H, W), with (x, y, z) points, where TensorRT's version takes
    them.

    Raises ShapeError where the ranks do not fit each other, UnsupportedError for CUBIC with FILL of what layers give.
    """
    batches = {size for size in (x.shape[0], grid.shape[0]) if isinstance(size, int)}
    if x.ndim != grid.ndim or x.ndim < 4 or grid.shape[-1] != x.ndim - 2 or len(batches) > 1:
        raise ShapeError(
            f"an image of shape {shape_text(x.shape)} and a grid of shape {shape_text(grid.shape)} do not fit"
        )
    if (mode.upper(), sample_mode.upper()) == ("CUBIC", "FILL") and not lies_in_memory(x):
        raise UnsupportedError(MISPLACED)
    shape: Shape = (*x.shape[:2], *grid.shape[1:-1])
    add = adds(
        "add_grid_sample",
        interpolation_mode=member(x.network.trt.InterpolationMode, mode, "interpolation mode"),
        sample_mode=member(x.network.trt.SampleMode, sample_mode, "sample mode"),
        align_corners=align_corners,
    )
    return add_layer(add, x, grid, shape=shape)


def lies_in_memory(x: Tensor) -> bool:
    """Whether a tensor is a constant or an input, but for its dtype: no layer's index is computed with its own."""
    while getattr(x.node, "what", ())[:1] == ("cast",) and x.node.operands:
        x = x.node.operands[0]
    return x.node is None


def _grid_flops(node: Node, shapes: Shapes) -> int:
    dims = len(shapes.outputs[0]) - 2
    taps = {"NEAREST": 1, "LINEAR": 2, "CUBIC": 4}[node.layer.interpolation_mode.name] ** dims
    return 2 * taps * shapes.elements


GRID_MISTAKES = Mistakes(
    {
        "interpolation_mode": {"NEAREST": "LINEAR", "LINEAR": "NEAREST", "CUBIC": "LINEAR"},
        "sample_mode": {"FILL": "CLAMP", "CLAMP": "FILL", "REFLECT": "CLAMP"},
    },
    flags=("align_corners",),
)


@computes("GRID_SAMPLE", category="sampling", wide=True, flops=_grid_flops, mistakes=GRID_MISTAKES)
def _grid_sample(node: Node, x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
    """A coordinate that is NaN counts as -1. One that is infinite gives NaN in CUBIC, and in LINEAR with FILL. NEAREST
    rounds a point before REFLECT brings it inside. An image without pixels reads as 0.
    """
    layer = node.layer
    mode, outside, align = layer.interpolation_mode.name, layer.sample_mode.name, layer.align_corners
    sizes = x.shape[2:]
    if 0 in sizes:  # no pixel is inside
        x = x.new_zeros((*x.shape[:2], *(max(size, 1) for size in sizes)))
    taps = []
    for axis, size in enumerate(sizes):
        point = grid[..., len(sizes) - 1 - axis].float().nan_to_num(-1.0, torch.inf, -torch.inf) + 1
        point = point * (0.5 * (size - 1)) if align else point * (0.5 * size) - 0.5
        taps.append(_taps(point, size, mode, outside, align))
    batch = torch.arange(x.shape[0]).reshape((-1,) + (1,) * (grid.ndim - 2))
    last = x.movedim(1, -1)
    total = torch.zeros((*grid.shape[:-1], x.shape[1]))
    for chosen in itertools.product(*taps):
        index = tuple(position for position, _, _ in chosen)
        value = last[(batch, *index)]
        weight, inside = torch.ones(()), torch.tensor(True)
        for _, factor, ok in chosen:
            weight, inside = weight * factor, inside & ok
        total = total + torch.where(inside[..., None], value, 0.0) * weight[..., None]
    return total.movedim(-1, 1)


Tap = tuple["torch.Tensor", "torch.Tensor", "torch.Tensor"]  # index that can be read, weight, whether it is inside


def _taps(point: torch.Tensor, size: int, mode: str, outside: str, align: bool) -> list[Tap]:
    """The pixels along one axis that count for points in pixels."""
    one = torch.ones(())
    if mode == "CUBIC":  # what lies outside is decided for each pixel, not for the point
        return [_tap(_bring_inside(at, size, outside, align), weight, size) for at, weight in _cubic_taps(point)]
    if mode == "NEAREST":  # half to even, before and after what REFLECT does to halves
        return [_tap(torch.round(_bring_inside(torch.round(point), size, outside, align)), one, size)]
    point = _bring_inside(point, size, outside, align)
    base = torch.floor(point)
    return [_tap(base, base + 1 - point, size), _tap(base + 1, point - base, size)]


def _tap(position: torch.Tensor, weight: torch.Tensor, size: int) -> Tap:
    inside = (position >= 0) & (position < size)  # NaN is not
    return torch.where(inside, position, 0.0).long(), weight, inside


def _bring_inside(point: torch.Tensor, size: int, outside: str, align: bool) -> torch.Tensor:
    if outside == "FILL":
        return point
    if outside == "REFLECT":
        low, span = (0.0, size - 1) if align else (-0.5, size)
        if span == 0:
            return torch.zeros_like(point)
        distance = torch.fmod((point - low).abs(), 2 * span)
        point = torch.where(distance > span, 2 * span + low - distance, distance + low)
    return point.nan_to_num(0.0, posinf=float(size)).clamp(0, size - 1)
