"""ACTIVATION, UNARY, ELEMENTWISE, SELECT, REDUCE, SOFTMAX, SCALE, CUMULATIVE, NORMALIZATION, EINSUM and their kin."""

from __future__ import annotations

import math

import numpy as np
import torch

from . import INF, NAN, case, recipe, signed, trt

f16, bf16, i32, i64 = torch.float16, torch.bfloat16, torch.int32, torch.int64
X = np.array([-3.5, -2.5, -1.0, -0.5, -0.0, 0.0, 0.25, 0.5, 1.0, 1.5, 2.5, 4.0], dtype=np.float32)
W = X.astype(np.float64)


# -- activations, by the formulas of NvInfer.h -------------------------------------------------------------------------

ERF = np.array([math.erf(v) for v in W * math.sqrt(0.5)])
ACTIVATIONS = {
    "RELU": (None, None, np.maximum(W, 0)),
    "SIGMOID": (None, None, 1 / (1 + np.exp(-W))),
    "TANH": (None, None, np.tanh(W)),
    "LEAKY_RELU": (0.1, None, np.where(W >= 0, W, 0.1 * W)),
    "ELU": (0.7, None, np.where(W >= 0, W, 0.7 * (np.exp(W) - 1))),
    "SELU": (1.6, 1.1, np.where(W > 0, 1.1 * W, 1.1 * (1.6 * np.exp(W) - 1.6))),
    "SOFTSIGN": (None, None, W / (1 + np.abs(W))),
    "SOFTPLUS": (0.8, 1.3, 0.8 * np.log(np.exp(1.3 * W) + 1)),
    "CLIP": (-1.0, 2.0, np.maximum(-1.0, np.minimum(2.0, W))),
    "HARD_SIGMOID": (0.3, 0.4, np.maximum(0, np.minimum(1, 0.3 * W + 0.4))),
    "SCALED_TANH": (1.7, 0.6, 1.7 * np.tanh(0.6 * W)),
    "THRESHOLDED_RELU": (0.5, None, np.where(W > 0.5, W, 0)),
    "GELU_ERF": (None, None, 0.5 * W * (1 + ERF)),
    "GELU_TANH": (None, None, 0.5 * W * (1 + np.tanh(math.sqrt(2 / math.pi) * (0.044715 * W**3 + W)))),
}


def activation(name, alpha, beta):
    def build(n, x):
        layer = n.add_activation(x, getattr(trt.ActivationType, name))
        if alpha is not None:
            layer.alpha = alpha
        if beta is not None:
            layer.beta = beta
        return layer

    return build


for name, (alpha, beta, values) in ACTIVATIONS.items():
    case("ACTIVATION", name, [X], [values], activation(name, alpha, beta))
    for dtype, digits in ((f16, 2e-3), (bf16, 1.6e-2)):  # each step rounds
        case(
            "ACTIVATION",
            f"{name}-{dtype}",
            [torch.tensor(X).to(dtype)],
            [values],
            activation(name, alpha, beta),
            tolerance=digits,
        )
case("ACTIVATION", "SOFTPLUS-large", [[-200.0, 200.0]], [[0.0, 200.0]], activation("SOFTPLUS", 1.0, 1.0))
case(
    "ACTIVATION", "CLIP-crossed", [[-1.0, 3.0]], [[2.0, 2.0]], activation("CLIP", 2.0, 1.0)
)  # max(alpha, min(beta, x))
case("ACTIVATION", "CLIP-nan", [[NAN, 3.0]], [[-1.0, 2.0]], activation("CLIP", -1.0, 2.0))  # -1 < NaN is false
case("ACTIVATION", "CLIP-nan-half", [torch.tensor([NAN, 3.0]).half()], [[NAN, 2.0]], activation("CLIP", -1.0, 2.0))
case("ACTIVATION", "HARD_SIGMOID-nan", [[NAN, 9.0]], [[NAN, 1.0]], activation("HARD_SIGMOID", 0.3, 0.4))
case(
    "ACTIVATION", "HARD_SIGMOID-nan-half", [torch.tensor([NAN, -9.0]).half()], [[1.0, 0.0]],
    activation("HARD_SIGMOID", 0.3, 0.4),
)  # fmt: skip
case("ACTIVATION", "LEAKY_RELU-0", [[INF, 2.0, NAN]], [[NAN, 2.0, NAN]], activation("LEAKY_RELU", 0.0, None))
for name in ("GELU_ERF", "GELU_TANH"):  # x * 2 is beyond float16 before it is halved
    case("ACTIVATION", f"{name}-great", [torch.tensor([40000.0, 30000.0]).half()], [[INF, 30000.0]],
         activation(name, None, None), tolerance=1e-3)  # fmt: skip
case("ACTIVATION", "RELU-nan", [[NAN, -INF, INF]], [[NAN, 0.0, INF]], activation("RELU", None, None))
case("ACTIVATION", "RELU-int32", [torch.tensor([-2, 0, 3], dtype=i32)], [[0, 0, 3]], activation("RELU", None, None))

# -- unary -------------------------------------------------------------------------------------------------------------

P = np.array([0.1, 0.5, 1.0, 2.0, 7.5], dtype=np.float32)  # positive
U = np.array([-0.9, -0.5, 0.0, 0.3, 0.9], dtype=np.float32)  # inside (-1, 1)
O = np.array([1.0, 1.5, 2.0, 9.0], dtype=np.float32)  # noqa: E741  (1 and greater)
UNARY = {
    "EXP": (X, np.exp), "LOG": (P, np.log), "SQRT": (P, np.sqrt), "RECIP": (P, np.reciprocal), "ABS": (X, np.abs),
    "NEG": (X, np.negative), "SIN": (X, np.sin), "COS": (X, np.cos), "TAN": (X, np.tan), "SINH": (X, np.sinh),
    "COSH": (X, np.cosh), "ASIN": (U, np.arcsin), "ACOS": (U, np.arccos), "ATAN": (X, np.arctan),
    "ASINH": (X, np.arcsinh), "ACOSH": (O, np.arccosh), "ATANH": (U, np.arctanh), "CEIL": (X, np.ceil),
    "FLOOR": (X, np.floor), "ERF": (X, np.vectorize(math.erf)), "SIGN": (X, np.sign),
    "ROUND": (X, np.rint),
}  # fmt: skip


def unary(name):
    return lambda n, x: n.add_unary(x, getattr(trt.UnaryOperation, name))


for name, (values, function) in UNARY.items():
    case("UNARY", name, [values], [function(values.astype(np.float64))], unary(name))
    case(
        "UNARY",
        f"{name}-half",
        [torch.tensor(values).half()],
        [function(torch.tensor(values).half().double().numpy())],
        unary(name),
        tolerance=1e-3,
    )
for dtype in (f16, bf16):  # of which torch's own erf gives 0
    tiny = torch.full((32,), 6e-8).to(dtype)
    case("UNARY", f"ERF-tiny-{dtype}", [tiny], [tiny.double() * 2 / math.sqrt(math.pi)], unary("ERF"), tolerance=0.2)
case("UNARY", "ROUND-halves", [[0.5, 1.5, 2.5, -0.5, -1.5]], [[0.0, 2.0, 2.0, 0.0, -2.0]], unary("ROUND"))
case("UNARY", "NOT", [[True, False]], [[False, True]], unary("NOT"))
case("UNARY", "ISINF", [[INF, -INF, NAN, 1.0]], [[True, True, False, False]], unary("ISINF"))
case("UNARY", "ISNAN", [[INF, -INF, NAN, 1.0]], [[False, False, True, False]], unary("ISNAN"))
case("UNARY", "SIGN-nan", [[NAN, -2.0]], [[NAN, -1.0]], unary("SIGN"))
case("UNARY", "ABS-int", [torch.tensor([-4, 3], dtype=i32)], [[4, 3]], unary("ABS"))
case("UNARY", "NEG-int", [torch.tensor([-4, 3], dtype=i64)], [[4, -3]], unary("NEG"))
case("UNARY", "SIGN-int", [torch.tensor([-4, 0, 3], dtype=i32)], [[-1, 0, 1]], unary("SIGN"))

# -- elementwise -------------------------------------------------------------------------------------------------------


def elementwise(name):
    return lambda n, a, b: n.add_elementwise(a, b, getattr(trt.ElementWiseOperation, name))


A, B = [[-7.0, 7.0, 2.5, 0.5]], [[2.0, -2.0, 1.25, 3.0]]
FLOATS = {
    "SUM": [-5.0, 5.0, 3.75, 3.5], "PROD": [-14.0, -14.0, 3.125, 1.5], "MAX": [2.0, 7.0, 2.5, 3.0],
    "MIN": [-7.0, -2.0, 1.25, 0.5], "SUB": [-9.0, 9.0, 1.25, -2.5], "DIV": [-3.5, -3.5, 2.0, 1 / 6],
    "POW": [49.0, 1 / 49, 2.5**1.25, 0.125], "FLOOR_DIV": [-4.0, -4.0, 2.0, 0.0],
}  # fmt: skip
for name, values in FLOATS.items():
    case("ELEMENTWISE", name, [A, B], [[values]], elementwise(name))
    case(
        "ELEMENTWISE",
        f"{name}-half",
        [torch.tensor(A).half(), torch.tensor(B).half()],
        [[values]],
        elementwise(name),
        tolerance=1e-3,
    )
INTS = {
    "SUM": [-5, 5, -5], "PROD": [-14, -14, 6], "MAX": [2, 7, -2], "MIN": [-7, -2, -3], "SUB": [-9, 9, -1],
    "DIV": [-3, -3, 1], "POW": [49, 0, 0], "FLOOR_DIV": [-4, -4, 1],
}  # fmt: skip
for name, values in INTS.items():
    for dtype in (i32, i64):
        a, b = torch.tensor([-7, 7, -3], dtype=dtype), torch.tensor([2, -2, -2], dtype=dtype)
        case("ELEMENTWISE", f"{name}-{dtype}", [a, b], [values], elementwise(name))
for dtype, first in ((torch.float32, True), (f16, False), (bf16, False)):  # whether the first operand's NaN stays
    sides = [torch.tensor([NAN, 1.0]).to(dtype), torch.tensor([1.0, NAN]).to(dtype)]
    for op in (trt.ElementWiseOperation.MAX, trt.ElementWiseOperation.MIN):
        case(
            "ELEMENTWISE", f"{op.name}-nan-{dtype}", sides, [[NAN, 1.0] if first else [1.0, NAN]],
            lambda n, a, b, op=op: n.add_elementwise(a, b, op),
        )  # fmt: skip
for dtype in (i32, i64):
    least = torch.iinfo(dtype).min
    for op in (trt.ElementWiseOperation.DIV, trt.ElementWiseOperation.FLOOR_DIV):
        case(
            "ELEMENTWISE", f"{op.name}-least-{dtype}",
            [torch.tensor([least, 7], dtype=dtype), torch.full((2,), -1, dtype=dtype)],
            [torch.tensor([least, -7])], lambda n, a, b, op=op: n.add_elementwise(a, b, op),
        )  # fmt: skip
# powf(3, 16) is 43046721, of which float32 has 43046720; 16777217 is rounded down to 2 ** 24; 2 ** 31 saturates.
case(
    "ELEMENTWISE", "POW-by-float32",
    [torch.tensor([3, 16777217, 2, -2, 2], dtype=i32), torch.tensor([16, 1, 31, 3, -1], dtype=i32)],
    [[43046720, 16777216, 2147483647, -8, 0]], lambda n, a, b: n.add_elementwise(a, b, trt.ElementWiseOperation.POW),
)  # fmt: skip
case(
    "ELEMENTWISE",
    "POW-negative",
    [torch.tensor([1, -1, -1, 2]), torch.tensor([-3, -3, -2, -1])],
    [[1, -1, 1, 0]],
    elementwise("POW"),
)
LOGIC = {"AND": [True, False, False, False], "OR": [True, True, True, False], "XOR": [False, True, True, False]}
for name, values in LOGIC.items():
    case("ELEMENTWISE", name, [[True, True, False, False], [True, False, True, False]], [values], elementwise(name))
COMPARE = {"EQUAL": [False, True, False], "GREATER": [False, False, True], "LESS": [True, False, False]}
for name, values in COMPARE.items():
    case("ELEMENTWISE", name, [[1.0, 2.0, 3.0], [2.0, 2.0, 2.0]], [values], elementwise(name))
    case("ELEMENTWISE", f"{name}-int", [[1, 2, 3], [2, 2, 2]], [values], elementwise(name))
case(
    "ELEMENTWISE",
    "broadcast",
    [[[1.0], [2.0]], [[10.0, 20.0, 30.0]]],
    [[[11.0, 21.0, 31.0], [12.0, 22.0, 32.0]]],
    elementwise("SUM"),
)
case(
    "ELEMENTWISE",
    "dynamic",
    [[[1.0], [2.0]], [[10.0, 20.0, 30.0]]],
    [[[9.0, 19.0, 29.0], [8.0, 18.0, 28.0]]],
    lambda n, a, b: n.add_elementwise(b, a, trt.ElementWiseOperation.SUB),
    dynamic=True,
)
# NaN comes out of MAX and MIN where the first operand is NaN (TensorRT's own folding of shape tensors says so).
case("ELEMENTWISE", "MAX-first-nan", [[NAN, 1.0], [1.0, NAN]], [[NAN, 1.0]], elementwise("MAX"))
case("ELEMENTWISE", "MIN-first-nan", [[NAN, 1.0], [1.0, NAN]], [[NAN, 1.0]], elementwise("MIN"))
# Rounded to float16 half to even: 2049 and 2051 lie between two values of it.
case(
    "ELEMENTWISE",
    "SUM-rounding",
    [torch.tensor([2048.0, 2050.0]).half(), torch.tensor([1.0, 1.0]).half()],
    [torch.tensor([2048.0, 2052.0])],
    elementwise("SUM"),
    tolerance=0.0,
)

case(
    "SELECT",
    "mask",
    [[True, False, True], [1.0, 2.0, 3.0], [-1.0, -2.0, -3.0]],
    [[1.0, -2.0, 3.0]],
    lambda n, c, a, b: n.add_select(c, a, b),
)
case(
    "SELECT",
    "broadcast",
    [[[True], [False]], [[1, 2]], [[3, 4]]],
    [[[1, 2], [3, 4]]],
    lambda n, c, a, b: n.add_select(c, a, b),
)
case(
    "SELECT",
    "bool",
    [[True, False], [False, True], [True, False]],
    [[False, False]],
    lambda n, c, a, b: n.add_select(c, a, b),
)

# -- reductions --------------------------------------------------------------------------------------------------------


def reduce(name, axes, keep=False):
    return lambda n, x: n.add_reduce(x, getattr(trt.ReduceOperation, name), axes, keep)


R = signed(2, 3, 4)
REDUCTIONS = {"SUM": np.sum, "PROD": np.prod, "MAX": np.max, "MIN": np.min, "AVG": np.mean}
for name, function in REDUCTIONS.items():
    case("REDUCE", name, [R], [function(R.astype(np.float64), axis=1)], reduce(name, 2))
    case(
        "REDUCE",
        f"{name}-two-axes",
        [R],
        [function(R.astype(np.float64), axis=(0, 2), keepdims=True)],
        reduce(name, 5, True),
    )
    case(
        "REDUCE",
        f"{name}-half",
        [torch.tensor(R).half()],
        [function(torch.tensor(R).half().double().numpy(), axis=1)],
        reduce(name, 2),
        tolerance=1e-3,
    )
I = np.array([[5, -2, 4], [-7, 1, 0]])  # noqa: E741
for name, values in {"SUM": [7, -6], "PROD": [-40, 0], "MAX": [5, 1], "MIN": [-2, -7], "AVG": [2, -2]}.items():
    case("REDUCE", f"{name}-int", [I], [values], reduce(name, 2))
for name, value in {
    "SUM": 0.0,
    "PROD": 1.0,
    "MAX": -INF,
    "MIN": INF,
    "AVG": NAN,
}.items():  # the table of ReduceOperation
    case("REDUCE", f"{name}-empty", [np.zeros((0, 2), np.float32)], [[value, value]], reduce(name, 1))
case("REDUCE", "MAX-empty-int", [torch.zeros((0,), dtype=i32)], [np.int32(-(2**31))], reduce("MAX", 1))
case(
    "REDUCE",
    "SUM-float16-in-float32",
    [torch.full((4096,), 1.0).half()],
    [torch.tensor(4096.0)],
    reduce("SUM", 1),
    tolerance=0.0,
)
case("REDUCE", "MAX-skips-nan", [[[NAN, 1.0, 3.0], [NAN, NAN, NAN]]], [[3.0, NAN]], reduce("MAX", 2))


def softmax(n, x, axis):
    layer = n.add_softmax(x)
    layer.axes = 1 << axis
    return layer


def soft(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


case("SOFTMAX", "by-hand", [[[0.0, math.log(3.0)]]], [[[0.25, 0.75]]], lambda n, x: softmax(n, x, 1))
for axis in range(3):
    case(
        "SOFTMAX", f"axis-{axis}", [R], [soft(R.astype(np.float64), axis)], lambda n, x, axis=axis: softmax(n, x, axis)
    )
case("SOFTMAX", "large", [[[1000.0, 1000.0, -1000.0]]], [[[0.5, 0.5, 0.0]]], lambda n, x: softmax(n, x, 1))
case(
    "SOFTMAX",
    "half",
    [torch.tensor(R).half()],
    [soft(torch.tensor(R).half().double().numpy(), 2)],
    lambda n, x: softmax(n, x, 2),
    tolerance=1e-3,
)
case("SOFTMAX", "default-axis", [R], [soft(R.astype(np.float64), 0)], lambda n, x: n.add_softmax(x))  # rank - 3
case(
    "RAGGED_SOFTMAX",
    "lengths",
    [[[[0.0, math.log(3.0), 9.0], [1.0, 1.0, 1.0]]], torch.tensor([[[2], [3]]], dtype=i32)],
    [[[[0.25, 0.75, 0.0], [1 / 3, 1 / 3, 1 / 3]]]],
    lambda n, x, bounds: n.add_ragged_softmax(x, bounds),
)
# Generated kernels divide exp(x) by the sum of them: of 100 it is infinite in float32, of 12 in float16.
for dtype, great in ((torch.float32, 100.0), (f16, 12.0)):
    case(
        "RAGGED_SOFTMAX",
        f"large-{dtype}",
        [torch.tensor([[[great, 0.0, 0.0]]]).to(dtype), torch.tensor([[[2]]], dtype=i32)],
        [[[[NAN, 0.0, 0.0]]]],
        lambda n, x, bounds: n.add_ragged_softmax(x, bounds),
    )

# -- scale, parametric ReLU, normalization, LRN ------------------------------------------------------------------------

S = signed(2, 3, 2, 2, seed=1)
SHIFT, SCALE, POWER = (np.array(v, dtype=np.float32) for v in ([1.0, -2.0, 3.0], [2.0, 0.5, -1.0], [2.0, 1.0, 2.0]))


def channel(values):
    return values.reshape(1, 3, 1, 1).astype(np.float64)


def scale(mode, shift=None, factor=None, power=None, axis=1):
    def build(n, x):
        weights = [trt.Weights(x.dtype) if v is None else n.weights(v) for v in (shift, factor, power)]
        return n.add_scale_nd(x, getattr(trt.ScaleMode, mode), *weights, axis)

    return build


case("SCALE", "CHANNEL", [S], [S * channel(SCALE) + channel(SHIFT)], scale("CHANNEL", SHIFT, SCALE))
case(
    "SCALE",
    "CHANNEL-power",
    [S],
    [(S * channel(SCALE) + channel(SHIFT)) ** channel(POWER)],
    scale("CHANNEL", SHIFT, SCALE, POWER),
)
case("SCALE", "shift-alone", [S], [S + channel(SHIFT)], scale("CHANNEL", SHIFT))
case("SCALE", "scale-alone", [S], [S * channel(SCALE)], scale("CHANNEL", None, SCALE))
case("SCALE", "UNIFORM", [S], [S * 3.0 - 1.0], scale("UNIFORM", np.float32([-1.0]), np.float32([3.0])))
E3 = signed(3, 2, 2, seed=2)
case("SCALE", "ELEMENTWISE", [S], [S * E3], scale("ELEMENTWISE", None, E3))
case("SCALE", "last-axis", [S], [S * np.float32([2.0, -1.0])], scale("CHANNEL", None, np.float32([2.0, -1.0]), axis=3))
case(
    "SCALE",
    "half",
    [torch.tensor(S).half()],
    [torch.tensor(S).half().double().numpy() * channel(SCALE)],
    scale("CHANNEL", None, SCALE.astype(np.float16)),
    tolerance=1e-3,
)

case(
    "PARAMETRIC_RELU",
    "by-channel",
    [[[[-2.0, 2.0], [-2.0, 4.0]]], [[[0.5], [-1.0]]]],
    [[[[-1.0, 2.0], [2.0, 4.0]]]],
    lambda n, x, slope: n.add_parametric_relu(x, slope),
)
case(
    "PARAMETRIC_RELU",
    "half",
    [torch.tensor([[-2.0, 2.0]]).half(), torch.tensor([[0.25]]).half()],
    [[[-0.5, 2.0]]],
    lambda n, x, slope: n.add_parametric_relu(x, slope),
)


def normalize(x, axes, scale=1.0, bias=0.0, epsilon=1e-5):
    mean = x.mean(axes, keepdims=True)
    variance = ((x - mean) ** 2).mean(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * scale + bias


def normalization(axes, version=2, epsilon=None, groups=None):
    def build(n, x, scale, bias):
        layer = (n.add_normalization_v2 if version == 2 else n.add_normalization)(x, scale, bias, axes)
        if epsilon is not None:
            layer.epsilon = epsilon
        if groups is not None:
            layer.num_groups = groups
        return layer

    return build


N4 = signed(2, 4, 3, 2, seed=3)
N64 = N4.astype(np.float64)
C4, D4 = signed(1, 4, 1, 1, seed=4), signed(1, 4, 1, 1, seed=5)
L4, M4 = signed(1, 1, 1, 2, seed=6), signed(1, 1, 1, 2, seed=7)
case("NORMALIZATION", "layer", [N4, L4, M4], [normalize(N64, (3,), L4, M4)], normalization(8))
case("NORMALIZATION", "instance", [N4, C4, D4], [normalize(N64, (2, 3), C4, D4, 0.1)], normalization(12, epsilon=0.1))
grouped = normalize(N64.reshape(2, 2, 2, 3, 2), (2, 3, 4), epsilon=1e-5).reshape(2, 4, 3, 2)
case("NORMALIZATION", "groups-v2", [N4, C4, D4], [grouped * C4 + D4], normalization(12, groups=2))
G4, H4 = signed(1, 2, 1, 1, seed=8), signed(1, 2, 1, 1, seed=9)
per_group = grouped * np.repeat(G4, 2, 1) + np.repeat(H4, 2, 1)
case("NORMALIZATION", "groups-v1", [N4, G4, H4], [per_group], normalization(12, 1, groups=2))
case(
    "NORMALIZATION",
    "by-hand",
    [[[1.0, 3.0]], [[1.0, 1.0]], [[0.0, 0.0]]],
    [[[-1.0, 1.0]]],
    normalization(2, epsilon=1e-12),
)
# Many numbers of one magnitude: their squares summed in float32 lose a ten-thousandth.
many = np.where(np.arange(60_001) % 3, 1.7, -3.1).reshape(1, -1).astype(np.float32)
case(
    "NORMALIZATION",
    "long",
    [many, np.ones((1, 1), np.float32), np.zeros((1, 1), np.float32)],
    [normalize(many.astype(np.float64), (1,), epsilon=1e-5)],
    normalization(2),
)
same = np.full((1, 6), 0.7, np.float32)  # whose sum, rounded, is not six times the number
case("NORMALIZATION", "constant", [same, same[:, :1], same[:, :1] * 0], [same * 0], normalization(2))
half = [torch.tensor(v).half() for v in (N4, L4, M4)]
case(
    "NORMALIZATION",
    "half",
    half,
    [
        normalize(
            *(v.double().numpy() if i == 0 else v for i, v in enumerate([half[0], (3,)])),
            half[1].double().numpy(),
            half[2].double().numpy(),
        )
    ],
    normalization(8),
    tolerance=1e-3,
)


def lrn(x, window, alpha, beta, k):
    result = np.empty_like(x)
    for c in range(x.shape[1]):
        near = x[:, max(c - window // 2, 0) : c + window // 2 + 1]
        result[:, c] = x[:, c] / (k + alpha / window * (near**2).sum(1)) ** beta
    return result


case("LRN", "window-3", [N4], [lrn(N64, 3, 0.5, 0.75, 2.0)], lambda n, x: n.add_lrn(x, 3, 0.5, 0.75, 2.0))
case(
    "LRN",
    "by-hand",
    [np.full((1, 3, 1, 1), 2.0, np.float32)],
    [np.float32([2 / 9, 2 / 13, 2 / 9]).reshape(1, 3, 1, 1)],
    lambda n, x: n.add_lrn(x, 3, 3.0, 1.0, 1.0),
)


case(
    "LRN", "rank-5", [np.ones((1, 3, 1, 1, 1), np.float32)], [0], lambda n, x: n.add_lrn(x, 3, 3.0, 1.0, 1.0),
    raises="rank 5",
)  # fmt: skip


@recipe("LRN")
def draw_lrn(t):
    x = t.input(t.shape(4, 4), t.pick((torch.float32, f16, bf16)))
    return t.add_lrn(x, t.pick((1, 3, 5, 2)), 0.5, 0.75, 1.0)


# -- cumulative, products of tensors -----------------------------------------------------------------------------------


def cumulative(axis, exclusive=False, reverse=False):
    return lambda n, x: n.add_cumulative(x, n.constant(np.int32(axis)), trt.CumulativeOperation.SUM, exclusive, reverse)


V = [1.0, 2.0, 4.0, 8.0]
case("CUMULATIVE", "forward", [V], [[1.0, 3.0, 7.0, 15.0]], cumulative(0))
case("CUMULATIVE", "exclusive", [V], [[0.0, 1.0, 3.0, 7.0]], cumulative(0, exclusive=True))
case("CUMULATIVE", "reverse", [V], [[15.0, 14.0, 12.0, 8.0]], cumulative(0, reverse=True))
case("CUMULATIVE", "both", [V], [[14.0, 12.0, 8.0, 0.0]], cumulative(0, True, True))
case("CUMULATIVE", "axis", [R], [np.cumsum(R, 1)], cumulative(-2))
case("CUMULATIVE", "int", [[[1, 2, 3], [4, 5, 6]]], [[[1, 2, 3], [5, 7, 9]]], cumulative(0))
case(
    "CUMULATIVE",
    "half-in-float32",
    [torch.full((3000,), 1.0).half()],
    [torch.arange(1.0, 3001.0).half()],
    cumulative(0),
    tolerance=0.0,
)


def matrix(a, b):
    return lambda n, x, y: n.add_matrix_multiply(x, getattr(trt.MatrixOperation, a), y, getattr(trt.MatrixOperation, b))


M, K = signed(2, 3, 4, seed=10), signed(2, 4, 5, seed=11)
case(
    "MATRIX_MULTIPLY",
    "by-hand",
    [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]],
    [[[19.0, 22.0], [43.0, 50.0]]],
    matrix("NONE", "NONE"),
)
case("MATRIX_MULTIPLY", "batch", [M, K], [M @ K], matrix("NONE", "NONE"))
case("MATRIX_MULTIPLY", "broadcast", [M, K[:1]], [M @ K[:1]], matrix("NONE", "NONE"))
case("MATRIX_MULTIPLY", "transpose-left", [M.swapaxes(1, 2).copy(), K], [M @ K], matrix("TRANSPOSE", "NONE"))
case("MATRIX_MULTIPLY", "transpose-right", [M, K.swapaxes(1, 2).copy()], [M @ K], matrix("NONE", "TRANSPOSE"))
case("MATRIX_MULTIPLY", "vector-right", [M, K[:, :, 0].copy()], [(M @ K[:, :, :1])[..., 0]], matrix("NONE", "VECTOR"))
case("MATRIX_MULTIPLY", "vector-left", [M[:, 0].copy(), K], [(M[:, :1] @ K)[:, 0]], matrix("VECTOR", "NONE"))
case(
    "MATRIX_MULTIPLY",
    "vectors",
    [M[:, 0].copy(), K[:, :, 0].copy()],
    [(M[:, 0] * K[:, :, 0]).sum(-1)],
    matrix("VECTOR", "VECTOR"),
)
case(
    "MATRIX_MULTIPLY",
    "half-in-float32",
    [torch.full((1, 4096), 1.0).half(), torch.full((4096, 1), 1.0).half()],
    [torch.tensor([[4096.0]])],
    matrix("NONE", "NONE"),
    tolerance=0.0,
)


def einsum(equation):
    return lambda n, *x: n.add_einsum(list(x), equation)


for equation, *shapes in (
    ("ij->ji", (2, 3)), ("ij->", (2, 3)), ("ij->i", (2, 3)), ("ik,kj->ij", (2, 3), (3, 4)), ("i,i->", (5,), (5,)),
    ("ik,k->i", (2, 3), (3,)), ("ijk,ikl->ijl", (2, 3, 4), (2, 4, 5)), ("...ii->...i", (2, 3, 3)), ("ii->", (4, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("i,j->ij", (2,), (3,)), ("nkctv,kvw->nctw", (2, 3, 2, 4, 5), (3, 5, 5)), ("bij,bjk->bik", (1, 2, 3), (4, 3, 2)),
    ("...ij,...jk->...ik", (2, 1, 3, 4), (2, 5, 4, 2)), ("ij,ij->j", (3, 4), (3, 4)), ("ijk->kij", (2, 3, 4)),
):  # fmt: skip
    operands = [signed(*shape, seed=20 + place) for place, shape in enumerate(shapes)]
    case(
        "EINSUM", equation, operands, [np.einsum(equation, *(x.astype(np.float64) for x in operands))], einsum(equation)
    )
half_pair = [torch.full((1, 4096), 1.0).half(), torch.full((4096,), 1.0).half()]
case("EINSUM", "half-in-float32", half_pair, [torch.tensor([4096.0])], einsum("ij,j->i"), tolerance=0.0)
