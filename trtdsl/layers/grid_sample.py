"""GRID_SAMPLE: an image read at points between its pixels."""

from __future__ import annotations

import itertools

from .common import Shape, ShapeError, Tensor, UnsupportedError, add_layer, adds, member, operation, shape_text, torch
from .evaluation import Mistakes, Node, Shapes, computes

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

    >>> grid_sample(net.input("x", ("N", 3, 8, 8)), net.input("g", ("N", 5, 6, 2))).shape
    (N, 3, 5, 6)
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


def _flops(node: Node, shapes: Shapes) -> int:
    dims = len(shapes.outputs[0]) - 2
    taps = {"NEAREST": 1, "LINEAR": 2, "CUBIC": 4}[node.layer.interpolation_mode.name] ** dims
    return 2 * taps * shapes.elements


MISTAKES = Mistakes(
    {
        "interpolation_mode": {"NEAREST": "LINEAR", "LINEAR": "NEAREST", "CUBIC": "LINEAR"},
        "sample_mode": {"FILL": "CLAMP", "CLAMP": "FILL", "REFLECT": "CLAMP"},
    },
    flags=("align_corners",),
)


@computes("GRID_SAMPLE", category="sampling", wide=True, flops=_flops, mistakes=MISTAKES)
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
        base = torch.floor(point)
        return [
            _tap(_bring_inside(base + offset, size, outside, align), weight, size)
            for offset, weight in zip((-1, 0, 1, 2), _cubic(point - base), strict=True)
        ]
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


def _cubic(t: torch.Tensor, a: float = -0.75) -> list[torch.Tensor]:
    """The weights of the four pixels around a point, ``t`` behind the second: Keys' cubic convolution (1981) with the
    coefficient that torch and TensorRT use, in the order of TensorRT's kernels, by which a weight is 0 or almost.
    """

    def near(x: torch.Tensor) -> torch.Tensor:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: torch.Tensor) -> torch.Tensor:
        return a * (((x - 5) * x + 8) * x - 4)

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]
