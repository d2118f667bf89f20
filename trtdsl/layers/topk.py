"""TOPK, NON_ZERO and NMS: which elements are the greatest, not zero, the best boxes; ASSERTION."""

from __future__ import annotations

from typing import Any

from ..core.errors import ShapeError
from ..sizes.size import bounds, product
from .common import Size, SizeLike, Tensor, add_layer, adds, as_dtype, axes_of, member, normalize_axis, operation, torch
from .evaluation import Given, Mistakes, Node, Shapes, compact, computes, count
from .pointwise import cast
from .shape import size_tensor
from .shuffle import squeeze


@operation
def topk(
    x: Tensor, k: SizeLike | Tensor, axis: int, op: str = "MAX", indices_dtype: Any = "int32"
) -> tuple[Tensor, Tensor]:
    """The ``k`` greatest (MAX) or least (MIN) elements along ``axis``, sorted, and their indices: one ITopKLayer.

    ``x`` has two dimensions or more, and ``axis`` is one of the last four. ``k`` is an int, a Size, or an int32 scalar
    Tensor; at most 3840. Of equal elements the one with the lowest index comes first. Both results have the shape of
    ``x`` with ``k`` at ``axis``; the indices are int32 or int64.

    >>> values, indices = topk(net.input("x", (2, 8)), 3, 1)
    >>> values.shape, indices.dtype
    ((2, 3), torch.int32)
    """
    axis = normalize_axis(axis, x.ndim)
    size: SizeLike | None = None if isinstance(k, Tensor) else k
    count_tensor = k if isinstance(k, Tensor) else None
    if isinstance(size, Size):
        count_tensor = cast(squeeze(size_tensor(x.network, [size]), [0]), torch.int32)
    elif size is not None and not 1 <= size <= 3840:
        raise ShapeError(f"k must be between 1 and 3840, not {size}")
    elif size is not None and isinstance(x.shape[axis], int) and size > x.shape[axis]:
        raise ShapeError(f"k = {size} is more than the {x.shape[axis]} elements of dimension {axis}")
    shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
    order, indices = member(x.network.trt.TopKOperation, op, "top-k operation"), as_dtype(indices_dtype)
    static = size if isinstance(size, int) else 1
    add = adds("add_topk", order, static, 1 << axis, *x.network.backend.index_type(indices), takes=1)
    return add_layer(add, x, count_tensor, shape=[shape, shape], dtype=[x.dtype, indices])


def _topk_flops(node: Node, shapes: Shapes) -> int:
    """Comparisons of a sort: n log2 n along the axis."""
    x = shapes.inputs[0]
    (axis,) = axes_of(node.layer.axes, len(x))
    return count(x) * max((x[axis] - 1).bit_length(), 1)


MISTAKES = Mistakes(
    {"op": {"MAX": "MIN", "MIN": "MAX"}},
    instead={"in reverse order": lambda node: lambda f, *x: tuple(part.flip(-1) for part in f(*x))},
)


@computes(
    "TOPK", known={"op": ("MAX", "MIN")}, category="reduction", settings=True, flops=_topk_flops, mistakes=MISTAKES
)
def _topk(node: Node, x: torch.Tensor, k: Given = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Assumed: NaN is greater than every number, as torch and numpy sort it; the documentation does not say."""
    (axis,) = axes_of(node.layer.axes, x.ndim)
    number: int = node.layer.k if k is None else int(k)
    if number > x.shape[axis]:
        raise ShapeError(f"k = {number} is more than the {x.shape[axis]} elements of dimension {axis}")
    largest = node.layer.op.name == "MAX"
    values, indices = torch.sort(x, dim=axis, descending=largest, stable=True)  # stable: ties by lowest index
    return compact(values.narrow(axis, 0, number)), indices.narrow(axis, 0, number).to(node.output_dtype(1))


@operation
def non_zero(x: Tensor, indices_dtype: Any = "int32") -> Tensor:
    """The positions of elements that are not zero, as the columns of a (rank, count) matrix: one INonZeroLayer.

    Columns are in row-major order of the positions. ``count`` is known only when the network runs.
    """
    indices = as_dtype(indices_dtype)
    add = adds("add_non_zero", *x.network.backend.index_type(indices))
    most = bounds(product(x.shape))[1]
    return add_layer(add, x, shape=(x.ndim, range(most + 1)), dtype=indices)


@computes(
    "NON_ZERO",
    category="reduction",
    flops=lambda node, shapes: count(shapes.inputs[0]),
    unbuilt="NON_ZERO has no kernel without a GPU: keep the mask (F.where), or take a fixed number of positions by "
    "L.topk of it, or build where there is a GPU",
)
def _non_zero(node: Node, x: torch.Tensor) -> torch.Tensor:
    """NaN is not zero."""
    # Positions in row-major order, then each one's subscripts from the strides.
    position = torch.arange(x.numel())[(x != 0).flatten()]
    rows, below = [], x.numel()
    for size in x.shape:
        below //= size or 1
        rows.append(torch.div(position, max(below, 1), rounding_mode="floor") % max(size, 1))
    return torch.stack(rows).to(node.dtype) if rows else torch.empty((0, position.numel()), dtype=node.dtype)


@operation
def nms(
    boxes: Tensor,
    scores: Tensor,
    max_output_boxes_per_class: Tensor | int,
    iou_threshold: float | Tensor = 0.0,
    score_threshold: float | Tensor = 0.0,
    *,
    box_format: str = "CORNER_PAIRS",
    topk_box_limit: int | None = None,
    indices_dtype: Any = "int32",
) -> tuple[Tensor, Tensor]:
    """Non-maximum suppression per item and class: one INMSLayer. It needs a GPU to build.

    ``boxes`` is (N, B, 4) or (N, B, C, 4), ``scores`` (N, B, C). Gives the chosen (item, class, box) rows, of which
    there are as many as the second result, a scalar, says.

    >>> rows, number = nms(net.input("boxes", (1, 10, 4)), net.input("scores", (1, 10, 3)), 2, 0.5)
    >>> rows.ndim, number.shape
    (2, ())
    """
    network = boxes.network
    form = member(network.trt.BoundingBoxFormat, box_format, "box format")
    indices = network.backend.index_type(as_dtype(indices_dtype))
    add = adds("add_nms", *indices, takes=3, bounding_box_format=form, topk_box_limit=topk_box_limit)
    most = network.constant(max_output_boxes_per_class, torch.int32)
    thresholds = (network.constant(each, torch.float32) for each in (iou_threshold, score_threshold))
    facts = {"shape": [(None, 3), ()], "dtype": [as_dtype(indices_dtype), torch.int32]}
    return add_layer(add, boxes, scores, most, *thresholds, **facts)


def _chosen(
    layer: Any, boxes: torch.Tensor, scores: torch.Tensor, limit: int, iou: float, threshold: float
) -> list[tuple[int, int]]:
    """The (class, box) pairs of one item, by decreasing score."""
    boxes = boxes if boxes.ndim == 3 else boxes.unsqueeze(1)
    first, second = boxes.float().split(2, -1)
    if layer.bounding_box_format.name == "CENTER_SIZES":
        lows, highs = first - second / 2, first + second / 2
    else:
        lows, highs = torch.minimum(first, second), torch.maximum(first, second)
    areas = (highs - lows).prod(-1)
    order = torch.argsort(scores.T.flatten(), descending=True, stable=True)
    order = order[scores.T.flatten()[order] > threshold][: layer.topk_box_limit]
    chosen: list[tuple[int, int]] = []
    kept: list[list[int]] = [[] for _ in range(scores.shape[1])]
    for place in order.tolist():
        label, box = divmod(place, scores.shape[0])
        others = kept[label]
        if len(others) >= limit:
            continue
        if others:
            low, high, area = (each[:, label if boxes.shape[1] > 1 else 0] for each in (lows, highs, areas))
            overlap = torch.minimum(high[box], high[others]) - torch.maximum(low[box], low[others])
            inside = overlap.clamp(min=0).prod(-1)
            if bool((inside > iou * (area[box] + area[others] - inside)).any()):
                continue
        others.append(box)
        chosen.append((label, box))
    return chosen


@computes(
    "NMS",
    known={"bounding_box_format": ("CORNER_PAIRS", "CENTER_SIZES")},
    category="reduction",
    # Fifteen for each pair of boxes of a class, the most that can be compared.
    flops=lambda node, shapes: 15 * count(shapes.inputs[1]) * shapes.inputs[1][1],
    unbuilt="NMS has no kernel without a GPU: make the boxes and scores outputs (of the best ones, by L.topk) and "
    "suppress outside of the network, or build where there is a GPU",
)
def _nms(
    node: Node,
    boxes: torch.Tensor,
    scores: torch.Tensor,
    limit: torch.Tensor,
    iou: Given = None,
    threshold: Given = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Assumed: boxes of one score keep the order of their class and index; the documentation leaves it open."""
    overlap, least = (0.0 if x is None else float(x) for x in (iou, threshold))
    items = (_chosen(node.layer, *item, int(limit), overlap, least) for item in zip(boxes, scores, strict=True))
    rows = torch.tensor([(item, *pair) for item, pairs in enumerate(items) for pair in pairs], dtype=node.dtype)
    return rows.reshape(-1, 3), torch.tensor(len(rows), dtype=node.output_dtype(1))


@operation
def assertion(condition: Tensor, message: str) -> None:
    """Fails with ``message`` where an element of ``condition``, a bool shape tensor, is false: one IAssertionLayer.

    >>> x = net.input("x", ("N", 3))
    >>> limit = x.network.constant([10, 3])
    >>> assertion(elementwise(shape(x), limit, "LESS"), "N is too large")
    """
    add_layer(adds("add_assertion", message), condition, shape=[], fold=False)


@computes("ASSERTION", computes=False, moves=False)
def _assertion(node: Node, condition: torch.Tensor) -> tuple[()]:
    """An element that is false is an error with the layer's message."""
    if not bool(condition.all()):
        raise ShapeError(f"the assertion fails: {node.layer.message}")
    return ()
