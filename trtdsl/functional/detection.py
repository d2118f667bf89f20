"""Boxes: their formats, areas and overlaps, suppression; features read at regions and at shifted positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core.errors import DefinitionError, ShapeError, UnsupportedError
from .common import L, Tensor, operation, require_one_of, shape_text, torch
from .indexing.gather import nonzero
from .operands import along, binary, choose, floating, per_axis
from .products.linalg import matmul
from .reducing.reduction import top
from .reducing.statistics import argsort
from .sampling.grid_sample import gather_taps
from .sampling.taps import Taps, make_taps, number
from .shaping.arrange import pad
from .shaping.create import counted, filled
from .shaping.join import cat


def columns(boxes: Tensor) -> list[Tensor]:
    """The four numbers of each box (…, 4), each (…, 1)."""
    if boxes.ndim < 1 or boxes.shape[-1] != 4:
        raise ShapeError(f"boxes are (…, 4), not {shape_text(boxes.shape)}")
    return [along(boxes, boxes.ndim - 1, place, 1) for place in range(4)]


@operation
def box_convert(boxes: Tensor, in_fmt: str, out_fmt: str) -> Tensor:
    """Boxes (…, 4) in another format: ``"xyxy"`` corners, ``"xywh"`` corner and size, ``"cxcywh"`` centre and size.

    ISliceLayers, IElementWiseLayers and IConcatenationLayer. https://docs.pytorch.org/vision/stable/ops.html
    """
    for name in (in_fmt, out_fmt):
        require_one_of("box_convert: a format", name, ("xyxy", "xywh", "cxcywh"))
    if in_fmt == out_fmt:
        return boxes
    a, b, c, d = columns(boxes)
    if in_fmt == "xywh":
        c, d = a + c, b + d
    elif in_fmt == "cxcywh":
        w, h = c * 0.5, d * 0.5
        a, b, c, d = a - w, b - h, a + w, b + h
    if out_fmt == "xywh":
        c, d = c - a, d - b
    elif out_fmt == "cxcywh":
        a, b, c, d = (a + c) * 0.5, (b + d) * 0.5, c - a, d - b
    return cat([a, b, c, d], boxes.ndim - 1)


@operation
def box_area(boxes: Tensor) -> Tensor:
    """The areas of boxes (…, 4) given by corners: ISliceLayers, IElementWiseLayers."""
    return L.squeeze(_area(columns(boxes)), [boxes.ndim - 1])


def _area(corners: list[Tensor]) -> Tensor:
    x1, y1, x2, y2 = corners
    return (x2 - x1) * (y2 - y1)


@operation
def box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """The overlap of each box of the first (…, N, 4) with each of the second (…, M, 4), over their union: (…, N, M).

    ISliceLayers, IShuffleLayers and IElementWiseLayers.
    """
    first = columns(floating(boxes1))  # each (…, N, 1)
    order = [*range(boxes2.ndim - 2), boxes2.ndim - 1, boxes2.ndim - 2]
    second = [L.shuffle(column, order) for column in columns(floating(boxes2))]  # each (…, 1, M)
    x1, y1 = (binary(a, b, "MAX") for a, b in zip(first[:2], second[:2], strict=True))
    x2, y2 = (binary(a, b, "MIN") for a, b in zip(first[2:], second[2:], strict=True))
    inter = binary(x2 - x1, 0.0, "MAX") * binary(y2 - y1, 0.0, "MAX")
    return inter / (_area(first) + _area(second) - inter)


@operation
def nms(boxes: Tensor, scores: Tensor, iou_threshold: float, *, max_outputs: int | None = None) -> Tensor:
    """Indices of the boxes that no better one overlaps by more than ``iou_threshold``, the best first, as int64.

    ``boxes`` (n, 4) are corners, ``scores`` (n,); of equal scores the first is the better. How many are left depends on
    data, which needs a GPU to build. With ``max_outputs`` the result is of that size, -1 behind the last, builds
    anywhere, and takes batches: boxes (…, n, 4), scores (…, n), result (…, max_outputs). torchvision.ops.nms

    A box is kept where no kept better one overlaps it: an ILoop starts from all and repeats that until nothing changes,
    as often as chains of overlaps are long. IElementWiseLayers over the pairs (n, n), IReduceLayer SUM; ITopKLayer,
    without ``max_outputs`` behind INonZeroLayer.
    """
    return _suppressed(boxes, scores, None, iou_threshold, max_outputs)


@operation
def batched_nms(
    boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float, *, max_outputs: int | None = None
) -> Tensor:
    """:func:`nms` in which only boxes with the same class ``idxs`` (…, n) suppress one another.

    As :func:`nms`, with one IElementWiseLayer EQUAL more. torchvision.ops.batched_nms
    """
    return _suppressed(boxes, scores, idxs, iou_threshold, max_outputs)


def _suppressed(
    boxes: Tensor, scores: Tensor, classes: Tensor | None, threshold: float, max_outputs: int | None
) -> Tensor:
    if boxes.ndim != scores.ndim + 1 or scores.ndim < 1 or boxes.shape[-1] != 4:
        raise ShapeError("boxes are (…, n, 4) and scores (…, n)")
    if max_outputs is not None and max_outputs < 1:
        raise DefinitionError(f"max_outputs must be positive, not {max_outputs}")
    if max_outputs is None and scores.ndim > 1:
        raise ShapeError("a batch has results of several sizes: give max_outputs")
    scores = floating(scores)
    overlap = box_iou(boxes, boxes) > threshold
    if classes is not None:
        overlap = overlap & (_column(classes) == _row(classes))
    places = counted(scores.network, scores.shape[-1])
    above, tied = _row(scores) > _column(scores), _row(scores) == _column(scores)
    better = above | (tied & (_row(places) < _column(places)))  # of equal scores the earlier
    rivals = overlap & better  # (…, n, n): whether the row's box is beaten by the column's
    kept = _greedy(L.cast(rivals, torch.float32), scores)
    if max_outputs is not None:
        ranked, length = choose(kept, scores, -math.inf, scores.dtype), scores.shape[-1]
        take = min(max_outputs, length) if isinstance(length, int) else max_outputs
        values, places = top(ranked, take, scores.ndim - 1, "MAX")
        return pad(choose(values > -math.inf, places, -1, torch.int64), (0, max_outputs - take), value=-1)
    places = L.squeeze(nonzero(kept), [1])
    order = argsort(L.gather(scores, places, 0), 0, descending=True)
    return L.gather(places, order, 0)


def _column(x: Tensor) -> Tensor:
    return L.unsqueeze(x, [x.ndim])


def _row(x: Tensor) -> Tensor:
    return L.unsqueeze(x, [x.ndim - 1])


def _greedy(rivals: Tensor, scores: Tensor) -> Tensor:
    """Which boxes are kept, as 0 and 1 (…, n): those with no rival that is kept.

    After k passes all boxes whose chain of better rivals has at most k links are right. A pass that changes nothing is
    the last.
    """
    network = scores.network
    loop = L.Loop(network)
    kept = loop.recurrence(filled(network, scores.shape, 1.0, torch.float32))
    goes_on = loop.recurrence(network.constant(True))
    loop.while_(goes_on)
    beaten = L.reduce(rivals * _row(kept), "SUM", [rivals.ndim - 1])
    following = L.cast(~(beaten > 0.0), torch.float32)
    changed = L.reduce(abs(following - kept), "SUM", list(range(kept.ndim)))
    loop.next(kept, following)
    loop.next(goes_on, changed > 0.0)
    return loop.last_value(kept) > 0.5


@operation
def roi_align(
    input: Tensor,
    boxes: Tensor | Sequence[Tensor],
    output_size: int | Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> Tensor:
    """The means (K, C, h, w) of features (N, C, H, W) in the cells of K boxes, from ``sampling_ratio`` squared points.

    ``boxes`` are (K, 5), the item's number and the corners, or for each item its boxes (L, 4). ``aligned`` shifts
    them by half a pixel. Coordinates are float32. Four IGatherLayers, IElementWiseLayers, IReduceLayer AVG.
    torchvision.ops.roi_align; He et al., "Mask R-CNN", ICCV 2017.

    Raises UnsupportedError for a ``sampling_ratio`` below 1: their number would depend on data.
    """
    if sampling_ratio < 1:
        raise UnsupportedError("as many points as a box is large depend on data: give a number as sampling_ratio")
    if not isinstance(boxes, Tensor):  # by item: as one matrix, with the item's number in front
        items = [filled(each.network, (*each.shape[:1], 1), float(k), each.dtype) for k, each in enumerate(boxes)]
        boxes = cat([cat(pair, 1) for pair in zip(items, boxes, strict=True)], 0)
    rois = L.cast(boxes, torch.float32)
    if input.ndim != 4 or rois.ndim != 2 or rois.shape[1] != 5:
        raise ShapeError("roi_align takes features (N, C, H, W) and boxes (K, 5)")
    (height, width), ratio, count = per_axis(output_size, 2, "output_size"), sampling_ratio, rois.shape[0]
    item, *corners = (along(rois, 1, place, 1) for place in range(5))
    x1, y1, x2, y2 = (edge * spatial_scale - (0.5 if aligned else 0.0) for edge in corners)

    def taps(low: Tensor, high: Tensor, cells: int, axis: int) -> Taps:
        """Clamped to the image, without weight more than one pixel outside."""
        length = high - low if aligned else binary(high - low, 1.0, "MAX")
        places = (torch.arange(cells * ratio, dtype=torch.float32) + 0.5) / (cells * ratio)
        point = L.unsqueeze(low + length * input.network.constant(places[None]), [0, 5 - axis, 4])
        beyond = (point < -1.0) | (point > number(input.shape[axis], point.network))
        return Taps(make_taps(point, input.shape[axis], "bilinear", "border", True).parts, ~beyond)

    every = L.unsqueeze(L.shuffle(input, [1, 0, 2, 3]), [0])  # one image (1, C, N, H, W)
    own = Taps(((L.unsqueeze(L.cast(item, torch.int32), [0, 2, 3]), None),))
    samples = gather_taps(every, [own, taps(y1, y2, height, 2), taps(x1, x2, width, 3)])
    split = L.shuffle(samples, [0, 2, 3, 4, 1], (count, height, ratio, width, ratio, input.shape[1]))
    return L.shuffle(L.reduce(split, "AVG", [2, 4]), [0, 3, 1, 2])


@operation
def deform_conv2d(
    input: Tensor,
    offset: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0),
    dilation: int | Sequence[int] = (1, 1),
    mask: Tensor | None = None,
) -> Tensor:
    """A convolution whose kernel reads at positions shifted by ``offset``, each times ``mask``.

    ``input`` is (N, C, H, W), ``weight`` (Co, C / weight groups, kh, kw), ``offset`` (N, 2 · groups · kh · kw, Ho, Wo)
    in pixels, y before x, and ``mask`` (N, groups · kh · kw, Ho, Wo). Positions are float32; outside is 0. Four
    IGatherLayers, IElementWiseLayers, IMatrixMultiplyLayer. torchvision.ops.deform_conv2d; Zhu et al., CVPR 2019.
    """
    n, c = input.shape[:2]
    out, part, kh, kw = weight.shape
    rows, columns = offset.shape[2:]
    taps = kh * kw
    groups: Any = offset.shape[1] // (2 * taps)
    if offset.ndim != 4 or offset.shape[1] != 2 * groups * taps or c % groups or c % part:
        raise ShapeError("input, offset and weight do not fit")
    network = input.network
    shifts = L.shuffle(L.cast(offset, torch.float32), reshape=(n, groups, taps, 2, rows, columns))
    found: list[Taps] = []
    settings = zip((kh, kw), *(per_axis(x, 2, "a size") for x in (stride, padding, dilation)), strict=True)
    for axis, (kernel, step, border, spread) in enumerate(settings):
        side = torch.arange(kernel, dtype=torch.float32) * spread - border
        grid = side[:, None].expand(kh, kw) if axis == 0 else side[None].expand(kh, kw)
        start = counted(network, (rows, columns)[axis], torch.float32) * float(step)
        base = L.unsqueeze(start, [1] if axis == 0 else [0])  # (Ho, 1) or (1, Wo)
        fixed = network.constant(grid.reshape(1, 1, taps, 1, 1).contiguous()) + L.unsqueeze(base, [0, 1, 2])
        shift = L.squeeze(along(shifts, 3, axis, 1), [3])
        point = L.shuffle(fixed + shift, reshape=(n * groups, taps * rows * columns, 1))
        found.append(make_taps(point, input.shape[2 + axis], "bilinear", "zeros", True))
    if mask is not None:
        factor = L.cast(L.shuffle(mask, reshape=(n * groups, taps * rows * columns, 1)), torch.float32)
        found[0] = Taps(tuple((place, None if each is None else each * factor) for place, each in found[0].parts))
    sampled = gather_taps(L.shuffle(input, reshape=(n * groups, c // groups, *input.shape[2:])), found)
    read = L.shuffle(sampled, reshape=(n, c // part, part * taps, rows * columns))
    matrix = L.shuffle(weight, reshape=(1, c // part, out // (c // part), part * taps))
    result = L.shuffle(matmul(matrix, read), reshape=(n, out, rows, columns))
    return result if bias is None else result + L.shuffle(bias, reshape=(1, out, 1, 1))
