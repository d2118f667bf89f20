"""RESIZE: a tensor on another grid of points, by nearest, linear or cubic interpolation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from .base import add_layer, adds, member
from .common import ShapeError, SizeLike, Tensor, UnsupportedError, is_static, np, operation, torch
from .evaluation import Evaluate, Given, Mistakes, Node, Shapes, evaluates
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


@evaluates("RESIZE", category="sampling", settings=True, flops=_flops, mistakes=MISTAKES)
def _resize(node: Node) -> Evaluate:
    """The nearest positions are computed in float32, a scale rounded to six decimals first. ALIGN_CORNERS takes
    ``(m - 1) / (n - 1)`` whatever the scales, and element 0 where n is 1.
    """
    layer = node.layer
    mode, rounding, dtype = layer.resize_mode.name, layer.nearest_rounding.name, node.dtype
    coordinates, upper = layer.coordinate_transformation.name, layer.selector_for_single_pixel.name == "UPPER"
    coefficient, exclude = node.number("cubic_coeff"), layer.exclude_outside
    scales = None if node.has_input(1) else list(layer.scales) or None
    static = None if node.has_input(1) or scales else tuple(layer.shape)
    sizes = tuple(node.inputs[0].shape)

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

    def evaluate(x: torch.Tensor, size: Given = None) -> torch.Tensor:
        if scales is not None:
            wanted = list(map(_scaled, x.shape, scales))
        else:
            wanted = list(static or ()) if size is None else size.tolist()
        if mode == "NEAREST" and _loses_batch(x.shape, wanted):
            raise UnsupportedError(f"layer {node.name!r} (RESIZE): {WITH_BATCH}")
        ratios = scales or [None] * x.ndim
        result = x if mode == "NEAREST" else x.float()
        # From the first axis that may change on, kernels multiply by weights of 0, too: infinity becomes NaN.
        finite, begun = mode == "NEAREST" or bool(x.isfinite().all()), False
        for axis, (length, target, scale) in enumerate(zip(x.shape, wanted, ratios, strict=True)):
            changes = length != target or scale not in (None, 1.0)
            begun = begun or changes or sizes[axis] < 0
            if not changes and (finite or not begun):
                continue
            where = positions(length, target, scale)
            if mode == "NEAREST":
                result = result.index_select(axis, _ROUND[rounding](where).clamp(0, length - 1).long())
            else:
                taps = _linear_taps(where) if mode == "LINEAR" else _cubic_taps(where, coefficient)
                result = _weigh(result, axis, taps, exclude)
        return result.to(dtype)

    return evaluate


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


def _cubic_taps(where: torch.Tensor, a: float) -> Taps:
    """The four elements around a point with the cubic convolution's weights, as IResizeLayer documents them."""
    base = torch.floor(where)

    def weight(distance: torch.Tensor) -> torch.Tensor:
        near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
        far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
        return torch.where(distance <= 1, near, far)

    return [(base + offset, weight((where - base - offset).abs())) for offset in (-1, 0, 1, 2)]


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
