"""Boxes: their formats, areas and overlaps, and non-maximum suppression."""

from __future__ import annotations

import math

from ..common import DefinitionError, L, ShapeError, Tensor, operation, require_one_of, shape_text, torch
from ..indexing.gather import nonzero
from ..operands import along, binary, choose, floating
from ..reducing.reduction import top
from ..reducing.sort import argsort
from ..shaping.create import counted, filled
from ..shaping.join import cat


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


# -- suppression -------------------------------------------------------------------------------------------------------


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
    return _suppressed(boxes, scores, None, iou_threshold, max_outputs, "nms")


@operation
def batched_nms(
    boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float, *, max_outputs: int | None = None
) -> Tensor:
    """:func:`nms` in which only boxes with the same class ``idxs`` (…, n) suppress one another.

    As :func:`nms`, with one IElementWiseLayer EQUAL more. torchvision.ops.batched_nms
    """
    return _suppressed(boxes, scores, idxs, iou_threshold, max_outputs, "batched_nms")


def _suppressed(
    boxes: Tensor, scores: Tensor, classes: Tensor | None, threshold: float, max_outputs: int | None, name: str
) -> Tensor:
    if boxes.ndim != scores.ndim + 1 or scores.ndim < 1 or boxes.shape[-1] != 4:
        shapes = f"{shape_text(boxes.shape)} and {shape_text(scores.shape)}"
        raise ShapeError(f"{name}: boxes (…, n, 4) and scores (…, n), not {shapes}")
    if max_outputs is not None and max_outputs < 1:
        raise DefinitionError(f"{name}: max_outputs must be positive, not {max_outputs}")
    if max_outputs is None and scores.ndim > 1:
        raise ShapeError(f"{name} of a batch has results of several sizes: give max_outputs")
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
        return _some(scores, kept, max_outputs)
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


def _some(scores: Tensor, kept: Tensor, max_outputs: int) -> Tensor:
    """The best of the kept boxes, -1 where there are fewer."""
    ranked = choose(kept, scores, -math.inf, scores.dtype)
    number = scores.shape[-1]
    take = min(max_outputs, number) if isinstance(number, int) else max_outputs
    values, places = top(ranked, take, scores.ndim - 1, "MAX")
    found = choose(values > -math.inf, places, -1, torch.int64)
    if take == max_outputs:
        return found
    rest = filled(scores.network, (*scores.shape[:-1], max_outputs - take), -1, torch.int64)
    return L.concatenation([found, rest], scores.ndim - 1)
