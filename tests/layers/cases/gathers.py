"""GATHER, SCATTER, ONE_HOT, NON_ZERO, TOPK, REVERSE_SEQUENCE, NMS: places given by values."""

from __future__ import annotations

import numpy as np
import torch

from . import INF, NAN, case, signed, trt

i32 = torch.int32


def gather(mode="DEFAULT", axis=0, elementwise=0):
    def build(n, data, indices):
        layer = n.add_gather_v2(data, indices, getattr(trt.GatherMode, mode))
        if mode != "ND":
            layer.axis = axis
        layer.num_elementwise_dims = elementwise
        return layer

    return build


D = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
case("GATHER", "default", [D, [[2, 0], [1, 1]]], [D[:, [[2, 0], [1, 1]]]], gather(axis=1))
case("GATHER", "scalar", [D, np.int64(1)], [D[1]], gather())
case("GATHER", "negative", [D, [-1]], [D[..., [3]]], gather(axis=2))
case("GATHER", "out-of-bounds", [[1.0, 2.0], [0, 5, -7, 1]], [[1.0, 0.0, 0.0, 2.0]], gather())
case("GATHER", "out-of-bounds-rows", [D, [1, 3]], [np.stack([D[:, 1], 0 * D[:, 1]], 1)], gather(axis=1))
INDEX = np.array([[2, 0], [1, 1]])
case(
    "GATHER", "side-by-side", [D, INDEX], [np.stack([D[i][INDEX[i]] for i in range(2)])], gather(axis=1, elementwise=1)
)
case(
    "GATHER",
    "side-by-side-last",
    [D, INDEX],
    [np.stack([D[i][:, INDEX[i]] for i in range(2)])],
    gather(axis=2, elementwise=1),
)
case(
    "GATHER",
    "side-by-side-out",
    [D, [[2, 9], [1, 1]]],
    [np.stack([np.stack([D[0, 2], 0 * D[0, 0]]), D[1][[1, 1]]])],
    gather(axis=1, elementwise=1),
)
case(
    "GATHER",
    "side-by-side-broadcast",
    [D[:1], INDEX],
    [np.stack([D[0][INDEX[i]] for i in range(2)])],
    gather(axis=1, elementwise=1),
)
case(
    "GATHER",
    "side-by-side-numbers",
    [D[:, 0], [[[2, 9]], [[-1, 1]]]],
    [[[[2.0, 0.0]], [[15.0, 13.0]]]],
    gather(axis=1, elementwise=1),
)
TWO = [[[0, 1], [2, 0], [1, 2]], [[1, 0], [0, 2], [2, 1]]]
case("GATHER", "element", [D, np.array(TWO)], [np.take_along_axis(D, np.array(TWO), 2)], gather("ELEMENT", 2))
case("GATHER", "element-first", [[[1.0, 2.0], [3.0, 4.0]], [[1, 0]]], [[[3.0, 2.0]]], gather("ELEMENT", 0))
case("GATHER", "nd", [D, [[0, 1], [1, 2]]], [np.stack([D[0, 1], D[1, 2]])], gather("ND"))
case("GATHER", "nd-whole", [D, [[0, 1, 3], [1, 2, 0]]], [[7.0, 20.0]], gather("ND"))
case(
    "GATHER",
    "nd-side-by-side",
    [D, [[[1], [0]], [[2], [2]]]],
    [np.stack([D[0][[1, 0]], D[1][[2, 2]]])],
    gather("ND", elementwise=1),
)
case("GATHER", "bool", [[True, False], [1, 0, 1]], [[False, True, False]], gather())


def scatter(mode, axis=0):
    def build(n, data, indices, updates):
        layer = n.add_scatter(data, indices, updates, getattr(trt.ScatterMode, mode))
        if mode == "ELEMENT":
            layer.axis = axis
        return layer

    return build


Z = np.zeros((3, 3), np.float32)
case(
    "SCATTER",
    "element",
    [Z, [[1, 0, 2], [0, 2, 1]], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]],
    [[[4.0, 2.0, 0.0], [1.0, 0.0, 6.0], [0.0, 5.0, 3.0]]],
    scatter("ELEMENT", 0),
)
case(
    "SCATTER",
    "element-axis-1",
    [[[1.0, 2.0, 3.0, 4.0, 5.0]], [[1, 3]], [[10.0, 20.0]]],
    [[[1.0, 10.0, 3.0, 20.0, 5.0]]],
    scatter("ELEMENT", 1),
)
case("SCATTER", "nd", [[1.0, 2.0, 3.0, 4.0, 5.0], [[4], [1]], [9.0, 10.0]], [[1.0, 10.0, 3.0, 4.0, 9.0]], scatter("ND"))
case(
    "SCATTER",
    "nd-rows",
    [Z, [[0], [2]], [[5.0, 5.0, 5.0], [1.0, 2.0, 3.0]]],
    [[[5.0] * 3, [0.0] * 3, [1.0, 2.0, 3.0]]],
    scatter("ND"),
)
case(
    "SCATTER",
    "nd-elements",
    [Z, [[0, 2], [1, 0]], [7.0, 8.0]],
    [[[0.0, 0.0, 7.0], [8.0, 0.0, 0.0], [0.0] * 3]],
    scatter("ND"),
)


def one_hot(values, depth, axis):
    return lambda n, x: n.add_one_hot(x, n.constant(values), n.constant(np.int32(depth)), axis)


WHERE = torch.tensor([[0, 2], [1, 7]], dtype=i32)
case(
    "ONE_HOT",
    "last",
    [WHERE],
    [[[[5.0, 2.0, 2.0], [2.0, 2.0, 5.0]], [[2.0, 5.0, 2.0], [2.0, 2.0, 2.0]]]],
    one_hot(np.float32([2.0, 5.0]), 3, -1),
)
case("ONE_HOT", "first", [torch.tensor([1, 0], dtype=i32)], [[[0, 1], [1, 0]]], one_hot(np.int64([0, 1]), 2, 0))

case(
    "NON_ZERO",
    "float",
    [[[0.0, 2.0], [-1.0, NAN]]],
    [torch.tensor([[0, 1, 1], [1, 0, 1]], dtype=i32)],
    lambda n, x: n.add_non_zero(x),
)
case("NON_ZERO", "bool", [[True, False, True]], [[[0, 2]]], lambda n, x: n.add_non_zero(x, trt.int64))
CUBE = (signed(3, 4, 2) > 0).astype(np.int32)
case("NON_ZERO", "int", [CUBE], [np.stack(np.nonzero(CUBE)).astype(np.int32)], lambda n, x: n.add_non_zero(x))


def topk(op, k, axis, *more):
    return lambda n, x: n.add_topk(x, getattr(trt.TopKOperation, op), k, 1 << axis, *more)


T = [[3.0, 1.0, 3.0, 2.0], [0.0, -1.0, -1.0, 5.0]]
case("TOPK", "max", [T], [[[3.0, 3.0], [5.0, 0.0]], torch.tensor([[0, 2], [3, 0]], dtype=i32)], topk("MAX", 2, 1))
case("TOPK", "min", [T], [[[1.0, 2.0, 3.0], [-1.0, -1.0, 0.0]], [[1, 3, 0], [1, 2, 0]]], topk("MIN", 3, 1, trt.int64))
case("TOPK", "first-axis", [T], [[[3.0, 1.0, 3.0, 5.0]], torch.tensor([[0, 0, 0, 1]], dtype=i32)], topk("MAX", 1, 0))
case(
    "TOPK",
    "infinite",
    [[[-INF, INF, 0.0]]],
    [[[INF, 0.0, -INF]], torch.tensor([[1, 2, 0]], dtype=i32)],
    topk("MAX", 3, 1),
)


def topk_by_tensor(n, x):
    layer = n.add_topk(x, trt.TopKOperation.MAX, 1, 2)
    layer.set_input(1, n.constant(np.int32(3)))
    return layer


case(
    "TOPK",
    "k-from-a-tensor",
    [T],
    [[[3.0, 3.0, 2.0], [5.0, 0.0, -1.0]], torch.tensor([[0, 2, 3], [3, 0, 1]], dtype=i32)],
    topk_by_tensor,
)


def reverse(batch, sequence):
    def build(n, x, lengths):
        layer = n.add_reverse_sequence(x, lengths)
        layer.batch_axis, layer.sequence_axis = batch, sequence
        return layer

    return build


S = [[0.0, 4.0], [1.0, 5.0], [2.0, 6.0], [3.0, 7.0]]
case(
    "REVERSE_SEQUENCE",
    "default-axes",
    [S, torch.tensor([3, 1], dtype=i32)],
    [[[2.0, 4.0], [1.0, 5.0], [0.0, 6.0], [3.0, 7.0]]],
    lambda n, x, lengths: n.add_reverse_sequence(x, lengths),
)
case(
    "REVERSE_SEQUENCE",
    "batch-first",
    [np.array(S, np.float32).T.copy(), [4, 2]],
    [[[3.0, 2.0, 1.0, 0.0], [5.0, 4.0, 6.0, 7.0]]],
    reverse(0, 1),
)

# -- non-maximum suppression: two boxes overlap by a third, one lies apart ---------------------------------------------

BOXES = [[[0.0, 0.0, 1.0, 1.0], [1.5, 1.0, 0.5, 0.0], [5.0, 5.0, 6.0, 6.0]]]  # the second by its other diagonal
CENTRES = [[[0.5, 0.5, 1.0, 1.0], [1.0, 0.5, 1.0, 1.0], [5.5, 5.5, 1.0, 1.0]]]


def nms(limit, iou=None, score=None, box_format="CORNER_PAIRS", most=None):
    def build(n, boxes, scores):
        layer = n.add_nms(boxes, scores, n.constant(np.int32(limit)))
        for index, value in ((3, iou), (4, score)):
            if value is not None:
                layer.set_input(index, n.constant(np.float32(value)))
        layer.bounding_box_format = getattr(trt.BoundingBoxFormat, box_format)
        if most is not None:
            layer.topk_box_limit = most
        return layer

    return build


def rows(*values):
    return torch.tensor(values, dtype=i32).reshape(-1, 3)


ONE = [[[0.9], [0.8], [0.7]]]
case("NMS", "suppressed", [BOXES, ONE], [rows([0, 0, 0], [0, 0, 2]), np.int32(2)], nms(3, 0.3))
case("NMS", "kept-at-the-threshold", [BOXES, ONE], [rows([0, 0, 0], [0, 0, 1], [0, 0, 2]), np.int32(3)], nms(3, 0.34))
case(
    "NMS", "centres", [CENTRES, ONE], [rows([0, 0, 0], [0, 0, 2]), np.int32(2)], nms(3, 0.3, box_format="CENTER_SIZES")
)
case("NMS", "score-threshold", [BOXES, ONE], [rows([0, 0, 0]), np.int32(1)], nms(3, 0.3, 0.7))  # must exceed it
case(
    "NMS",
    "per-class-limit",
    [BOXES, [[[0.5, 0.6], [0.1, 0.2], [0.4, 0.9]]]],
    [rows([0, 1, 2], [0, 0, 0]), np.int32(2)],
    nms(1, 0.3),
)
case(
    "NMS",
    "classes-do-not-suppress",
    [BOXES, [[[0.9, 0.0], [0.0, 0.8], [0.0, 0.0]]]],
    [rows([0, 0, 0], [0, 1, 1]), np.int32(2)],
    nms(3, 0.0, 0.1),
)
case("NMS", "box-limit", [BOXES, ONE], [rows([0, 0, 0]), np.int32(1)], nms(3, 0.3, most=2))
case(
    "NMS",
    "boxes-per-class",
    [np.float32(BOXES)[:, :, None].repeat(1, 2), ONE],
    [rows([0, 0, 0], [0, 0, 2]), np.int32(2)],
    nms(3, 0.3),
)
