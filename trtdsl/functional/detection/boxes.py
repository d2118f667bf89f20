"""Boxes: their formats, areas and overlaps."""

from __future__ import annotations

from ..common import DefinitionError, L, ShapeError, Tensor, operation, shape_text
from ..operands import binary, floating
from ..shaping.join import cat

FORMATS = ("xyxy", "xywh", "cxcywh")


def columns(boxes: Tensor) -> list[Tensor]:
    """The four numbers of each box (…, 4), each (…, 1)."""
    if boxes.ndim < 1 or boxes.shape[-1] != 4:
        raise ShapeError(f"boxes are (…, 4), not {shape_text(boxes.shape)}")
    size = (*boxes.shape[:-1], 1)
    return [L.slice(boxes, (*(0,) * (boxes.ndim - 1), place), size) for place in range(4)]


@operation
def box_convert(boxes: Tensor, in_fmt: str, out_fmt: str) -> Tensor:
    """Boxes (…, 4) in another format: ``"xyxy"`` corners, ``"xywh"`` corner and size, ``"cxcywh"`` centre and size.

    ISliceLayers, IElementWiseLayers and IConcatenationLayer. https://docs.pytorch.org/vision/stable/ops.html

    >>> F.box_convert(net.input("boxes", ("N", 4)), "cxcywh", "xyxy").shape
    (N, 4)
    """
    for name in (in_fmt, out_fmt):
        if name not in FORMATS:
            raise DefinitionError(f"box_convert: a format is one of {', '.join(FORMATS)}, not {name!r}")
    if in_fmt == out_fmt:
        return boxes
    a, b, c, d = columns(boxes)
    half = 0.5
    if in_fmt == "xywh":
        a, b, c, d = a, b, binary(a, c, "SUM"), binary(b, d, "SUM")
    elif in_fmt == "cxcywh":
        w, h = binary(c, half, "PROD", c.dtype), binary(d, half, "PROD", d.dtype)
        a, b, c, d = binary(a, w, "SUB"), binary(b, h, "SUB"), binary(a, w, "SUM"), binary(b, h, "SUM")
    if out_fmt == "xywh":
        c, d = binary(c, a, "SUB"), binary(d, b, "SUB")
    elif out_fmt == "cxcywh":
        w, h = binary(c, a, "SUB"), binary(d, b, "SUB")
        a, b = (binary(binary(low, high, "SUM"), half, "PROD", low.dtype) for low, high in ((a, c), (b, d)))
        c, d = w, h
    return cat([a, b, c, d], boxes.ndim - 1)


@operation
def box_area(boxes: Tensor) -> Tensor:
    """The areas of boxes (…, 4) given by corners: ISliceLayers, IElementWiseLayers.

    >>> F.box_area(net.input("boxes", ("N", 4))).shape
    (N,)
    """
    return L.squeeze(_area(columns(boxes)), [boxes.ndim - 1])


def _area(corners: list[Tensor]) -> Tensor:
    x1, y1, x2, y2 = corners
    return binary(binary(x2, x1, "SUB"), binary(y2, y1, "SUB"), "PROD")


@operation
def box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """The overlap of each box of the first (…, N, 4) with each of the second (…, M, 4), over their union: (…, N, M).

    ISliceLayers, IShuffleLayers and IElementWiseLayers.

    >>> F.box_iou(net.input("a", (5, 4)), net.input("b", ("M", 4))).shape
    (5, M)
    """
    first = columns(floating(boxes1))  # each (…, N, 1)
    order = [*range(boxes2.ndim - 2), boxes2.ndim - 1, boxes2.ndim - 2]
    second = [L.shuffle(column, order) for column in columns(floating(boxes2))]  # each (…, 1, M)
    x1, y1 = (binary(a, b, "MAX") for a, b in zip(first[:2], second[:2], strict=True))
    x2, y2 = (binary(a, b, "MIN") for a, b in zip(first[2:], second[2:], strict=True))
    width, height = (binary(binary(high, low, "SUB"), 0.0, "MAX", high.dtype) for low, high in ((x1, x2), (y1, y2)))
    inter = binary(width, height, "PROD")
    return binary(inter, binary(binary(_area(first), _area(second), "SUM"), inter, "SUB"), "DIV")
