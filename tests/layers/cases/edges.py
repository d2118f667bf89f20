"""Empty tensors, integers that are divided by 0, and int8 where it stands for no quantized value."""

from __future__ import annotations

import numpy as np
import torch

from . import INF, case, trt

f32, i32, i64, i8, f8 = torch.float32, torch.int32, torch.int64, torch.int8, torch.float8_e4m3fn


def nothing(*shape, dtype=f32):
    return torch.zeros(shape, dtype=dtype)


# -- empty tensors -----------------------------------------------------------------------------------------------------


def softmax(axis):
    def build(n, x):
        layer = n.add_softmax(x)
        layer.axes = 1 << axis
        return layer

    return build


case("SOFTMAX", "of-nothing", [nothing(2, 0, 3)], [nothing(2, 0, 3)], softmax(1))
case("SOFTMAX", "of-nothing-else", [nothing(0, 2)], [nothing(0, 2)], softmax(1))
bounds = torch.ones(2, 3, 1, dtype=i32)
case("RAGGED_SOFTMAX", "of-nothing", [nothing(2, 3, 0), bounds], [nothing(2, 3, 0)],
     lambda n, x, b: n.add_ragged_softmax(x, b))  # fmt: skip


def squeeze(n, x):
    return n.add_squeeze(x, n.constant(np.int64([1])))


def squeeze_ones(n, x):
    return n.add_squeeze(x, None)


case("SQUEEZE", "of-nothing", [nothing(0, 1, 2)], [nothing(0, 2)], squeeze)
case("SQUEEZE", "ones", [torch.ones(1, 2, 1)], [torch.ones(2)], squeeze_ones)
case("SQUEEZE", "dynamic-sizes-stay", [torch.ones(1, 2, 1)], [torch.ones(1, 2, 1)], squeeze_ones, dynamic=True)


def pad(pre, post):
    return lambda n, x: n.add_padding_nd(x, pre, post)


case("PADDING", "around-nothing", [nothing(1, 1, 0, 2)], [nothing(1, 1, 3, 2)], pad((1, 0), (2, 0)))
case("PADDING", "trims-more-than-there-is", [nothing(1, 1, 0, 2)], [nothing(1, 1, 1, 2)], pad((-1, 0), (2, 0)))
ROW = torch.tensor([[[[1.0, 2.0, 3.0]]]])
case("PADDING", "trims-one-side", [ROW], [[[[[2.0, 3.0, 0.0]]]]], pad((0, -1), (0, 1)))


def window(n, x, mode):
    layer = n.add_slice(x, (1, 0), (2, 2), (1, 1))
    layer.mode = mode
    return layer


case("SLICE", "fill-beside-nothing", [nothing(0, 2)], [nothing(2, 2)], lambda n, x: window(n, x, trt.SampleMode.FILL))
case("SLICE", "nothing", [nothing(0, 2)], [nothing(0, 1)], lambda n, x: n.add_slice(x, (0, 1), (0, 1), (1, 1)))


def convolution(n, x):
    layer = n.add_convolution_nd(x, 2, (1, 3), n.weights(np.ones(6, np.float32)), n.weights(np.float32([5, 7])))
    layer.pre_padding, layer.post_padding = (0, 2), (0, 1)
    return layer


BIAS = torch.tensor([5.0, 7.0]).reshape(1, 2, 1, 1)
case("CONVOLUTION", "of-nothing-is-the-bias", [nothing(1, 1, 2, 0)], [BIAS.expand(1, 2, 2, 1)], convolution)
case("CONVOLUTION", "no-items", [nothing(0, 1, 2, 4)], [nothing(0, 2, 2, 5)], convolution)


def deconvolution(n, x):
    return n.add_deconvolution_nd(x, 2, (1, 2), n.weights(np.ones(4, np.float32)), n.weights(np.float32([5, 7])))


case("DECONVOLUTION", "of-nothing-is-the-bias", [nothing(1, 1, 2, 0)], [BIAS.expand(1, 2, 2, 1)], deconvolution)
case("GRID_SAMPLE", "no-pixels", [nothing(1, 2, 0, 3), torch.zeros(1, 2, 2, 2)], [nothing(1, 2, 2, 2)],
     lambda n, x, g: n.add_grid_sample(x, g))  # fmt: skip


def elements(n, x, i):
    layer = n.add_gather_v2(x, i, trt.GatherMode.ELEMENT)
    layer.axis = 0
    return layer


def entries(n, x, i):
    return n.add_gather_v2(x, i, trt.GatherMode.ND)


def rows(n, x, i):
    layer = n.add_gather(x, i, 1)
    layer.num_elementwise_dims = 1
    return layer


two = torch.zeros(2, dtype=i32)
case("GATHER", "elements-of-nothing", [nothing(0), two], [[0.0, 0.0]], elements)  # out of bounds reads 0
case("GATHER", "entries-of-nothing", [nothing(0, 3), two.reshape(2, 1)], [nothing(2, 3)], entries)
case("GATHER", "rows-of-nothing", [nothing(0, 2, 3), nothing(0, 2, dtype=i64)], [nothing(0, 2, 3)], rows)
BYTES = torch.tensor([1.0, 2.0, 4.0]).to(f8)
case("GATHER", "elements-of-fp8", [BYTES, torch.tensor([2, 0])], [torch.tensor([4.0, 1.0])], elements)


def nms(n, boxes, scores):
    return n.add_nms(boxes, scores, n.constant(np.int32(3)))


case(
    "NMS", "no-boxes", [nothing(2, 0, 4), nothing(2, 0, 3)], [nothing(0, 3, dtype=i32), torch.tensor(0, dtype=i32)], nms
)


def reduced(name):
    return lambda n, x: n.add_reduce(x, getattr(trt.ReduceOperation, name), 2, False)


# ReduceOperation's table of results across an empty volume.
case("REDUCE", "max-of-nothing", [nothing(1, 0)], [[-INF]], reduced("MAX"))
case("REDUCE", "max-of-no-ints", [nothing(1, 0, dtype=i32)], [torch.tensor([-(2**31)], dtype=i32)], reduced("MAX"))


# -- integers divided by 0 ---------------------------------------------------------------------------------------------


def divided(name):
    return lambda n, a, b: n.add_elementwise(a, b, getattr(trt.ElementWiseOperation, name))


SAYS = "an integer is divided by 0"
for dtype in (i8, i32, i64):
    operands = [torch.tensor([4, 3], dtype=dtype), torch.tensor([2, 0], dtype=dtype)]
    case("ELEMENTWISE", f"div-by-0-{dtype}", operands, [], divided("DIV"), raises=SAYS)
    case("ELEMENTWISE", f"floor-div-by-0-{dtype}", operands, [], divided("FLOOR_DIV"), raises=SAYS)
case("ELEMENTWISE", "floats-by-0", [[1.0, -1.0], [0.0, 0.0]], [[INF, -INF]], divided("DIV"))


# -- int8 --------------------------------------------------------------------------------------------------------------


def unary(name):
    return lambda n, x: n.add_unary(x, getattr(trt.UnaryOperation, name))


def activation(name, alpha=0.0, beta=0.0):
    def build(n, x):
        layer = n.add_activation(x, getattr(trt.ActivationType, name))
        layer.alpha, layer.beta = alpha, beta
        return layer

    return build


BYTE = torch.tensor([-100, -3, 0, 5, 100], dtype=i8)
case("UNARY", "abs-int8", [BYTE], [torch.tensor([100, 3, 0, 5, 100], dtype=i8)], unary("ABS"))
case("UNARY", "sign-int8", [BYTE], [torch.tensor([-1, -1, 0, 1, 1], dtype=i8)], unary("SIGN"))
case("ACTIVATION", "relu-int8", [BYTE], [torch.tensor([0, 0, 0, 5, 100], dtype=i8)], activation("RELU"))
case("ACTIVATION", "clip-int8", [BYTE], [torch.tensor([-2, -2, 0, 5, 7], dtype=i8)], activation("CLIP", -2.0, 7.0))


# -- a formula without a step for each dimension -----------------------------------------------------------------------


def linspace(n, _):
    layer = n.add_fill((2, 3), trt.FillOperation.LINSPACE, trt.float32)
    layer.alpha, layer.beta = 1.0, 2.0
    return layer


case("FILL", "one-step", [nothing(1)], [[[1.0, 1.0, 1.0], [3.0, 3.0, 3.0]]], linspace)
