"""QUANTIZE, DEQUANTIZE, DYNAMIC_QUANTIZE."""

from __future__ import annotations

import numpy as np
import torch

from . import case, trt

i8 = torch.int8


def quantize(scale, data_type, axis=None, block=None):
    def build(n, x):
        layer = n.add_quantize(x, n.constant(scale), data_type)
        if axis is not None:
            layer.axis = axis
        if block is not None:
            layer.block_shape = block
        return layer

    return build


def dequantize(scale, data_type=trt.float32, axis=None, block=None):
    def build(n, x):
        layer = n.add_dequantize(x, n.constant(scale), data_type)
        if axis is not None:
            layer.axis = axis
        if block is not None:
            layer.block_shape = block
        return layer

    return build


HALF = np.float32(0.5)
case(
    "QUANTIZE",
    "int8",
    [[[0.25, 0.75, -0.25, 1.3, 1000.0, -1000.0]]],
    [torch.tensor([[0, 2, 0, 3, 127, -128]], dtype=i8)],
    quantize(HALF, trt.int8),
)
case(
    "QUANTIZE",
    "int8-channels",
    [[[1.0, 2.0], [1.0, 2.0]]],
    [torch.tensor([[1, 2], [4, 8]], dtype=i8)],
    quantize(np.float32([1.0, 0.25]), trt.int8, 0),
)
case(
    "QUANTIZE",
    "fp8",
    [[[1.0, 1.0625, 1.1875, 300.0]]],
    [[[2.0, 2.0, 2.5, 448.0]]],
    quantize(HALF, trt.fp8),
    tolerance=0.0,
)
case(
    "QUANTIZE",
    "half-input",
    [torch.tensor([[0.75]]).half()],
    [torch.tensor([[2]], dtype=i8)],
    quantize(np.float16(0.5), trt.int8),
)
# 64.5 / 0.9409 is 68.55, in half precision 68.5625; the reciprocal is 1.0625 there, by which it is 68.5.
TIED = torch.tensor([[64.5]]).half(), np.float16(0.9409)
case("QUANTIZE", "half-constant", TIED[:1], [torch.tensor([[68]], dtype=i8)], quantize(TIED[1], trt.int8))
case(
    "QUANTIZE", "half-computed", TIED, [torch.tensor([[69]], dtype=i8)], lambda n, x, s: n.add_quantize(x, s, trt.int8)
)
# 1.5 / 97 by 1 / 97 is 1.5 in float32, and by the reciprocal less: of one dimension TensorRT divides.
ODD = np.float32([1 / 97, 1 / 97])
ABOVE = float(np.float32(1.5) * ODD[0])
case("QUANTIZE", "one-dimension", [[ABOVE, 0.0]], [torch.tensor([2, 0], dtype=i8)], quantize(ODD, trt.int8, 0))
case("QUANTIZE", "two-dimensions", [[[ABOVE, 0.0]]], [torch.tensor([[1, 0]], dtype=i8)], quantize(ODD, trt.int8, 1))
# 0.5386 / 0.1134 is 4.7492, in half precision 4.75: halfway between 4.5 and 5 of fp8.
QUOTIENT = torch.tensor([[0.53857421875]]).half()
case("QUANTIZE", "fp8-half", [QUOTIENT], [[[5.0]]], quantize(np.float16(0.1134033203125), trt.fp8), tolerance=0.0)
BLOCKS = np.float32([[1.0, 2.0, 3.0, 4.0], [8.0, 8.0, 8.0, 8.0]])


def int4_and_back(n, x):
    scales = n.constant(np.float32([[1.0, 2.0], [1.0, 4.0]]))
    four = n.add_quantize(x, scales, trt.DataType.INT4)
    four.block_shape = (1, 2)
    wide = n.add_dequantize(four.get_output(0), scales, trt.float32)
    wide.block_shape = (1, 2)
    return wide


# 3 / 2 and 4 / 2 round half to even to 2; 8 is cut to 7.
case("QUANTIZE", "int4-blocks", [BLOCKS], [[[1.0, 2.0, 4.0, 4.0], [7.0, 7.0, 8.0, 8.0]]], int4_and_back)
SIXTEEN = np.float32([[0.0, 0.25, 0.3, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 7.0, -0.3, -5.1, 1.0, 2.0, 3.0, 4.0]])
SIXTEEN = np.concatenate([SIXTEEN, 2 * SIXTEEN], 1)
ROUNDED = [[0.0, 0.0, 0.5, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 6.0, -0.5, -6.0, 1.0, 2.0, 3.0, 4.0]]
ROUNDED = np.concatenate([np.float32(ROUNDED), 2 * np.float32(ROUNDED)], 1)


def fp4_and_back(n, x):
    scales = n.constant(np.float32([[1.0, 2.0]]))
    four = n.add_quantize(x, scales, trt.DataType.FP4)
    four.block_shape = (1, 16)
    wide = n.add_dequantize(four.get_output(0), scales, trt.float32)
    wide.block_shape = (1, 16)
    return wide


case("QUANTIZE", "fp4-blocks", [SIXTEEN], [ROUNDED], fp4_and_back, tolerance=0.0)
INTS = torch.tensor([[-128, 0, 3], [127, -1, 2]], dtype=i8)
case("DEQUANTIZE", "int8", [INTS], [[[-64.0, 0.0, 1.5], [63.5, -0.5, 1.0]]], dequantize(HALF))
case(
    "DEQUANTIZE",
    "channels",
    [INTS],
    [[[-128.0, 0.0, 3.0], [31.75, -0.25, 0.5]]],
    dequantize(np.float32([1.0, 0.25]), axis=0),
)
case(
    "DEQUANTIZE",
    "last-channel",
    [INTS],
    [[[-128.0, 0.0, 12.0], [127.0, -2.0, 8.0]]],
    dequantize(np.float32([1.0, 2.0, 4.0]), axis=1),
)
case("DEQUANTIZE", "half", [INTS], [[[-64.0, 0.0, 1.5], [63.5, -0.5, 1.0]]], dequantize(np.float16(0.5), trt.float16))
case(
    "DEQUANTIZE",
    "bfloat16",
    [INTS],
    [[[-64.0, 0.0, 1.5], [63.5, -0.5, 1.0]]],
    dequantize(torch.tensor(0.5).bfloat16(), trt.bfloat16),
    tolerance=1e-2,
)
case("DEQUANTIZE", "fp8", [torch.tensor([[448.0, -0.5]]).to(torch.float8_e4m3fn)], [[[224.0, -0.25]]], dequantize(HALF))
case(
    "DEQUANTIZE",
    "int4-blocks",
    [torch.tensor([[-8, 7], [1, 2]], dtype=i8)],
    [[[-8.0, 14.0], [1.0, 4.0]]],
    dequantize(np.float32([[1.0, 2.0]]), block=(2, 1)),
    dtypes={0: trt.DataType.INT4},
)


def dynamic(block, data_type, scale_type, double=None):
    def build(n, x):
        layer = n.add_dynamic_quantize_v2(x, block, data_type, scale_type)
        if double is not None:
            layer.set_input(1, n.constant(np.float32(double)))
        data, scales = layer.get_output(0), layer.get_output(1)
        if (
            data_type == trt.DataType.FP4
        ):  # an output of 4 bits cannot leave the network: through its own scales and back
            high = n.add_dequantize(scales, n.constant(np.float32(double)), trt.float32).get_output(0)
            back = n.add_dequantize(data, high, trt.float32)
            back.block_shape = block
            return [high, back]
        return [data, scales]

    return build


# MXFP8: the greatest magnitude of a block is 448 * 2, so its scale is 2; 449 needs a scale of 2, the next power.
ROW = np.zeros((1, 64), np.float32)
ROW[0, :3], ROW[0, 32:34] = [896.0, -2.0, 3.0], [449.0, 1.0]
DATA = np.zeros((1, 64), np.float32)
DATA[0, :3], DATA[0, 32:34] = [448.0, -1.0, 1.5], [224.0, 0.5]
case(
    "DYNAMIC_QUANTIZE",
    "mxfp8",
    [ROW],
    [DATA, [[2.0, 2.0]]],
    dynamic((1, 32), trt.fp8, trt.DataType.E8M0),
    tolerance=0.0,
)
case(
    "DYNAMIC_QUANTIZE",
    "fp8-rows",
    [[[896.0, 2.0], [0.0, 0.0]]],
    [[[448.0, 1.0], [0.0, 0.0]], [[2.0], [0.0]]],
    dynamic((1, -1), trt.fp8, trt.float32),
    tolerance=0.0,
)
# NVFP4: 12 / 6 is 2, over the double scale 0.5 is 4, which fp8 holds; 5 / 2 rounds half to even to 2, 1 / 2 is 0.5.
FOUR = np.zeros((1, 32), np.float32)
FOUR[0, :4], FOUR[0, 16] = [12.0, -5.0, 1.0, 0.4], 3.0
BACK = np.zeros((1, 32), np.float32)
BACK[0, :4], BACK[0, 16] = [12.0, -4.0, 1.0, 0.0], 3.0
case(
    "DYNAMIC_QUANTIZE",
    "nvfp4",
    [FOUR],
    [[[2.0, 0.5]], BACK],
    dynamic((1, 16), trt.DataType.FP4, trt.fp8, 0.5),
    tolerance=0.0,
)
