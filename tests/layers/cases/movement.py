"""CAST, IDENTITY, CONSTANT, SHUFFLE, SQUEEZE, UNSQUEEZE, CONCATENATION, SLICE, PADDING, SHAPE, FILL, ASSERTION."""

from __future__ import annotations

import numpy as np
import torch

from . import INF, NAN, case, trt

f16, bf16, i32, i64, i8, u8 = torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.int8, torch.uint8
X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)

# -- cast and identity -------------------------------------------------------------------------------------------------


def cast(name):
    return lambda n, x: n.add_cast(x, getattr(trt, name))


F = [-2.7, -0.5, 0.0, 0.5, 2.7]
case("CAST", "float-int32", [F], [torch.tensor([-2, 0, 0, 0, 2], dtype=i32)], cast("int32"))
case("CAST", "float-int64", [F], [[-2, 0, 0, 0, 2]], cast("int64"))
case("CAST", "float-int32-saturates", [[3e9, -3e9]], [torch.tensor([2**31 - 1, -(2**31)], dtype=i32)], cast("int32"))
case(
    "CAST",
    "float-int64-saturates",
    [[2.0**62 * 1.5, 3e19, -3e19, NAN]],
    [[3 * 2**61, 2**63 - 1, -(2**63), 0]],
    cast("int64"),
)
case("CAST", "float-bool", [[0.0, -0.0, 0.1, NAN]], [[False, False, True, True]], cast("bool"))
case("CAST", "int-bool", [[0, 2, -1]], [[False, True, True]], cast("bool"))
case("CAST", "bool-float", [[True, False]], [[1.0, 0.0]], cast("float32"))
case("CAST", "bool-int", [[True, False]], [torch.tensor([1, 0], dtype=i32)], cast("int32"))
case("CAST", "int64-int32-wraps", [[2**32 + 5, -1]], [torch.tensor([5, -1], dtype=i32)], cast("int32"))
case("CAST", "float-half", [[1.0009765, 70000.0, 2.0**-25]], [torch.tensor([1.0009765625, INF, 0.0])], cast("float16"))
case("CAST", "half-float", [torch.tensor([0.1]).half()], [[0.0999755859375]], cast("float32"), tolerance=0.0)
case(
    "CAST",
    "float-bfloat16",
    [[1.00390625, 1.01171875]],
    [torch.tensor([1.0, 1.015625])],
    cast("bfloat16"),
    tolerance=0.0,
)
case("CAST", "uint8-float", [torch.tensor([0, 200], dtype=u8)], [[0.0, 200.0]], cast("float32"))
case("CAST", "float-uint8", [[0.4, 200.9]], [torch.tensor([0, 200], dtype=u8)], cast("uint8"))
case(
    "CAST",
    "float-fp8",
    [[1.0, 1.0625, 1.1875, 500.0, -1e9]],
    [[1.0, 1.0, 1.25, 448.0, -448.0]],
    cast("fp8"),
    tolerance=0.0,
)
case("CAST", "fp8-float", [torch.tensor([0.875, -448.0]).to(torch.float8_e4m3fn)], [[0.875, -448.0]], cast("float32"))
case("IDENTITY", "float", [F], [F], lambda n, x: n.add_identity(x), tolerance=0.0)
case("IDENTITY", "bool", [[True, False]], [[True, False]], lambda n, x: n.add_identity(x))

# -- constants of every type -------------------------------------------------------------------------------------------


def constant(value):
    return lambda n: n.add_identity(n.constant(value))


for dtype in (torch.float32, f16, bf16, i8, i32, i64):
    value = torch.tensor([[-3, 0, 2], [5, -1, 7]], dtype=dtype)
    case(
        "CONSTANT",
        str(dtype),
        [],
        [value.double() if dtype.is_floating_point else value],
        constant(value),
        tolerance=0.0,
    )
case("CONSTANT", "bool", [], [[True, False, True]], constant(torch.tensor([True, False, True])))
case(
    "CONSTANT", "fp8", [], [[0.5, -448.0]], constant(torch.tensor([0.5, -448.0]).to(torch.float8_e4m3fn)), tolerance=0.0
)
case("CONSTANT", "scalar", [], [2.5], constant(torch.tensor(2.5)))
case("CONSTANT", "empty", [], [np.zeros((0, 3), np.float32)], constant(torch.zeros(0, 3)))


def packed(values, data_type, dtype):
    """A constant of a 4-bit type from its bytes, made float32 by DEQUANTIZE with a scale of 1."""

    def build(n):
        data = torch.tensor(values, dtype=u8)
        n.keep.append(data)
        weights = trt.Weights(data_type, data.data_ptr(), 2 * len(values))
        four = n.add_constant((1, 2 * len(values)), weights).get_output(0)
        return n.add_dequantize(four, n.constant(np.float32(1.0)), trt.float32)

    return build


case("CONSTANT", "int4", [], [[[1.0, -1.0, -8.0, 7.0]]], packed([0xF1, 0x78], trt.DataType.INT4, i8))
case("CONSTANT", "fp4", [], [[[0.5, -6.0, 1.5, -0.0]]], packed([0xF1, 0x83], trt.DataType.FP4, i8))

# -- shuffles ----------------------------------------------------------------------------------------------------------


def shuffle(first=None, shape=None, second=None, zero=True):
    def build(n, x, *dims):
        layer = n.add_shuffle(x)
        if first is not None:
            layer.first_transpose = first
        if shape is not None:
            layer.reshape_dims = shape
        if dims:
            layer.set_input(1, dims[0])
        if second is not None:
            layer.second_transpose = second
        layer.zero_is_placeholder = zero
        return layer

    return build


case("SHUFFLE", "transpose", [X], [X.transpose(2, 0, 1)], shuffle((2, 0, 1)))
case("SHUFFLE", "reshape", [X], [X.reshape(6, 4)], shuffle(None, (6, 4)))
case("SHUFFLE", "placeholders", [X], [X.reshape(2, 12)], shuffle(None, (0, -1)))
case(
    "SHUFFLE",
    "all",
    [X],
    [X.transpose(1, 0, 2).reshape(3, 4, 2).transpose(2, 0, 1)],
    shuffle((1, 0, 2), (3, 4, 2), (2, 0, 1)),
)
case("SHUFFLE", "scalar", [[[5.0]]], [5.0], shuffle(None, ()))
case(
    "SHUFFLE",
    "empty",
    [np.zeros((0, 4), np.float32)],
    [np.zeros((2, 0), np.float32)],
    shuffle(None, (2, 0), zero=False),
)
case("SHUFFLE", "from-tensor", [X], [X.reshape(4, 6)], lambda n, x: shuffle()(n, x, n.constant(np.int64([4, -1]))))
case("SHUFFLE", "dynamic", [X], [X.transpose(1, 0, 2).reshape(3, 8)], shuffle((1, 0, 2), (0, -1)), dynamic=True)
case("UNSQUEEZE", "two", [X], [X[:, None, :, :, None]], lambda n, x: n.add_unsqueeze(x, n.constant(np.int64([1, 4]))))
case("UNSQUEEZE", "negative", [X], [X[..., None]], lambda n, x: n.add_unsqueeze(x, n.constant(np.int64([-1]))))
case("SQUEEZE", "axes", [X[None, :, :, :, None]], [X[None]], lambda n, x: n.add_squeeze(x, n.constant(np.int64([4]))))
case("SQUEEZE", "all", [X[None, :, :, :, None]], [X], lambda n, x: n.add_squeeze(x))
case("SHAPE", "static", [X], [[2, 3, 4]], lambda n, x: n.add_shape(x))
case("SHAPE", "dynamic", [X], [[2, 3, 4]], lambda n, x: n.add_shape(x), dynamic=True)


def concatenate(axis):
    def build(n, *tensors):
        layer = n.add_concatenation(list(tensors))
        layer.axis = axis
        return layer

    return build


case("CONCATENATION", "first", [X, -X[:1]], [np.concatenate([X, -X[:1]])], concatenate(0))
case("CONCATENATION", "last", [X, X[..., :1], -X], [np.concatenate([X, X[..., :1], -X], -1)], concatenate(2))
case("CONCATENATION", "ints", [torch.tensor([1, 2]), torch.tensor([3])], [[1, 2, 3]], concatenate(0))

# -- slices: the example of NvInfer.h, every sample mode ---------------------------------------------------------------


def sliced(start, size, stride, mode="STRICT_BOUNDS", fill=None, axes=None):
    def build(n, x):
        layer = n.add_slice(x, start, size, stride)
        layer.mode = getattr(trt.SampleMode, mode)
        if fill is not None:
            layer.set_input(4, n.constant(fill))
        if axes is not None:
            layer.axes = axes
        return layer

    return build


TABLE = [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]
LINE = [0.0, 1.0, 2.0, 3.0]
case("SLICE", "documented", [TABLE], [[[1.0, 5.0]]], sliced((1, 0), (1, 2), (1, 2)))
case("SLICE", "documented-axes", [TABLE], [[[2.0, 4.0], [3.0, 5.0]]], sliced((1,), (2,), (1,), axes=(1,)))
case("SLICE", "negative-stride", [LINE], [[3.0, 1.0]], sliced((3,), (2,), (-2,)))
case("SLICE", "zero-stride", [LINE], [[2.0, 2.0, 2.0]], sliced((2,), (3,), (0,)))
case("SLICE", "fill", [LINE], [[9.0, 9.0, 0.0, 1.0, 2.0, 3.0, 9.0]], sliced((-2,), (7,), (1,), "FILL", np.float32(9.0)))
case("SLICE", "fill-stride", [LINE], [[9.0, 1.0, 3.0, 9.0]], sliced((-1,), (4,), (2,), "FILL", np.float32(9.0)))
case("SLICE", "fill-zero", [LINE], [[0.0, 0.0, 1.0]], sliced((-1,), (3,), (1,), "FILL"))
case("SLICE", "fill-outside", [LINE], [[7.0, 7.0]], sliced((6,), (2,), (1,), "FILL", np.float32(7.0)))
case(
    "SLICE",
    "fill-two-axes",
    [TABLE],
    [[[8.0, 0.0, 2.0], [8.0, 1.0, 3.0], [8.0, 8.0, 8.0]]],
    sliced((0, -1), (3, 3), (1, 1), "FILL", np.float32(8.0)),
)
case("SLICE", "clamp", [LINE], [[0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 3.0]], sliced((-2,), (7,), (1,), "CLAMP"))
case("SLICE", "wrap", [LINE], [[2.0, 3.0, 0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 2.0]], sliced((-2,), (9,), (1,), "WRAP"))
case(
    "SLICE",
    "reflect",
    [LINE],
    [[2.0, 1.0, 0.0, 1.0, 2.0, 3.0, 2.0, 1.0, 0.0, 1.0]],
    sliced((-2,), (10,), (1,), "REFLECT"),
)
case("SLICE", "reflect-single", [[5.0]], [[5.0, 5.0, 5.0]], sliced((-1,), (3,), (1,), "REFLECT"))


def sliced_by_tensors(n, x):
    layer = n.add_slice(x, (0, 0), (0, 0), (0, 0))
    for index, values in enumerate(([0, 2], [2, 2], [1, -1]), 1):
        layer.set_input(index, n.constant(np.int64(values)))
    return layer


case("SLICE", "from-tensors", [TABLE], [[[4.0, 2.0], [5.0, 3.0]]], sliced_by_tensors)
case("SLICE", "empty", [LINE], [np.zeros((0,), np.float32)], sliced((1,), (0,), (1,)))


def sliced_at(n, x, start):
    layer = n.add_slice(x, (0,), (3,), (1,))
    layer.set_input(1, start)
    return layer


case("SLICE", "start-from-an-input", [LINE, [1]], [[1.0, 2.0, 3.0]], sliced_at)
case("SLICE", "strict-bounds", [LINE, [2]], [], sliced_at, raises="leaves the dimension of size 4")

I4 = np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3)
case(
    "PADDING",
    "zeros",
    [I4],
    [np.pad(I4, ((0, 0), (0, 0), (1, 0), (2, 1)))],
    lambda n, x: n.add_padding_nd(x, (1, 2), (0, 1)),
)
case("PADDING", "trims", [I4], [I4[..., 1:, :2]], lambda n, x: n.add_padding_nd(x, (-1, 0), (0, -1)))

# -- fills: the example of FillOperation -------------------------------------------------------------------------------


def linspace(shape, start, steps, data_type):
    def build(n):
        layer = n.add_fill(shape, trt.FillOperation.LINSPACE, data_type)
        layer.set_input(1, n.constant(start))
        layer.set_input(2, n.constant(steps))
        return layer

    return build


GRID = [[1, 11, 21, 31], [101, 111, 121, 131], [201, 211, 221, 231]]
case(
    "FILL",
    "documented-int32",
    [],
    [torch.tensor(GRID, dtype=i32)],
    linspace((3, 4), np.int32(1), np.int32([100, 10]), trt.int32),
)
case(
    "FILL",
    "documented-float",
    [],
    [torch.tensor(GRID).float()],
    linspace((3, 4), np.float32(1), np.float32([100, 10]), trt.float32),
)
case("FILL", "int64", [], [[7, 5, 3]], linspace((3,), np.int64(7), np.int64([-2]), trt.int64))


def static_linspace(n):
    layer = n.add_fill((4,), trt.FillOperation.LINSPACE, trt.float32)
    layer.alpha, layer.beta = 0.5, 0.25
    return layer


case("FILL", "static", [], [[0.5, 0.75, 1.0, 1.25]], static_linspace)
case("FILL", "default-int64", [], [[0, 1, 2]], lambda n: n.add_fill((3,), trt.FillOperation.LINSPACE, trt.int64))


def shaped_by_tensor(n, x):
    layer = n.add_fill((0, 0), trt.FillOperation.LINSPACE, trt.float32)
    for index, tensor in enumerate(
        (n.add_shape(x).get_output(0), n.constant(np.float32(0)), n.constant(np.float32([10, 1])))
    ):
        layer.set_input(index, tensor)
    return layer


case("FILL", "shape-of-an-input", [TABLE], [[[0.0, 1.0, 2.0], [10.0, 11.0, 12.0]]], shaped_by_tensor, dynamic=True)


def random_mean(operation, low, high):
    """The mean of many random values, rounded: what is known of them beforehand."""

    def build(n):
        layer = n.add_fill((40000,), getattr(trt.FillOperation, operation), trt.float32)
        layer.alpha, layer.beta = low, high
        mean = n.add_reduce(layer.get_output(0), trt.ReduceOperation.AVG, 1, False).get_output(0)
        return n.add_unary(mean, trt.UnaryOperation.ROUND)

    return build


case("FILL", "uniform", [], [30.0], random_mean("RANDOM_UNIFORM", 20.0, 40.0))
case("FILL", "normal", [], [-50.0], random_mean("RANDOM_NORMAL", -50.0, 3.0))


def asserted(n, x):
    equal = n.add_elementwise(
        n.add_shape(x).get_output(0), n.constant(np.int64([2, 3])), trt.ElementWiseOperation.EQUAL
    )
    n.add_assertion(equal.get_output(0), "two rows of three")
    return n.add_identity(x)


case("ASSERTION", "holds", [TABLE], [TABLE], asserted, dynamic=True)
case("ASSERTION", "fails", [TABLE[:1]], [], asserted, dynamic=True, raises="two rows of three")
