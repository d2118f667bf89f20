"""Recipes: what works on elements, reduces, or multiplies."""

from __future__ import annotations

from typing import Any

import torch
from cases import BACKEND, trt

from . import DTYPES, FLOATS, FOLDED, INTEGERS, Trial, recipe

NARROWEST = {"ACOS", "ASIN", "ATANH"}
POSITIVE = {"LOG", "SQRT", "RECIP"}


@recipe("UNARY")
def unary(t: Trial) -> Any:
    name = t.pick(trt.UnaryOperation.__members__)
    dtype = t.pick(DTYPES if t.maybe(0.6) else FLOATS)
    if name == "NOT" and t.maybe(0.8):
        dtype = torch.bool
    low, high = (-0.9, 0.9) if name in NARROWEST else (0.1, 4) if name in POSITIVE else (1, 4)
    if name not in NARROWEST | POSITIVE | {"ACOSH"}:
        low = -1.5 if name == "TAN" else -4
        high = 1.5 if name == "TAN" else 4
    t.unsupported = dtype == torch.int8 and name not in ("ABS", "NEG", "SIGN")  # and cannot be built
    return t.add_unary(t.input(t.shape(), dtype, low, high), getattr(trt.UnaryOperation, name))


@recipe("ACTIVATION")
def activation(t: Trial) -> Any:
    name = t.pick(trt.ActivationType.__members__)
    dtype, alpha, beta = t.pick(DTYPES), t.pick((0.5, 1.0, 0.25, -1.0)), t.pick((0.5, 1.0, 2.0))
    exact = name == "RELU" or (name in ("CLIP", "THRESHOLDED_RELU") and alpha % 1 == beta % 1 == 0)
    t.unsupported = dtype == torch.int8 and not exact  # how int8 rounds is not documented
    layer = t.add_activation(t.input(t.shape(), dtype), getattr(trt.ActivationType, name))
    layer.alpha, layer.beta = alpha, beta
    return layer


@recipe("PARAMETRIC_RELU")
def parametric_relu(t: Trial) -> Any:
    shape, dtype = t.shape(), t.pick(DTYPES if t.maybe(0.3) else FLOATS)
    return t.add_parametric_relu(t.input(shape, dtype), t.input(t.beside(shape), dtype))


@recipe("ELEMENTWISE")
def elementwise(t: Trial) -> Any:
    name = t.pick(trt.ElementWiseOperation.__members__)
    shape, dtype = t.shape(), t.pick(DTYPES)
    if name in ("AND", "OR", "XOR") and t.maybe(0.8):
        dtype = torch.bool
    low = 0.5 if name == "POW" else -4
    a = t.input(t.beside(shape), dtype, low)
    divides = name in ("DIV", "FLOOR_DIV")
    t.may_fail = divides and not dtype.is_floating_point
    b = t.input(t.beside(shape), dtype, 1 if divides and t.maybe(0.7) else -4)
    return t.add_elementwise(a, b, getattr(trt.ElementWiseOperation, name))


@recipe("SELECT")
def select(t: Trial) -> Any:
    shape, dtype = t.shape(), t.pick(DTYPES)
    condition = t.input(t.beside(shape), torch.bool)
    return t.add_select(condition, t.input(t.beside(shape), dtype), t.input(t.beside(shape), dtype))


@recipe("CAST")
def cast(t: Trial) -> Any:
    x = t.input(t.shape(), t.pick(DTYPES), -100, 100)
    return t.add_cast(x, BACKEND.data_type(t.pick((*DTYPES, torch.float8_e4m3fn))))


@recipe("IDENTITY")
def identity(t: Trial) -> Any:
    layer = t.add_identity(t.input(t.shape(), t.pick(DTYPES)))
    if t.maybe(0.3):
        layer.set_output_type(0, BACKEND.data_type(t.pick(DTYPES)))
    return layer


@recipe("REDUCE")
def reduce(t: Trial) -> Any:
    shape, dtype = t.shape(1 if t.maybe(0.9) else 0), t.pick(DTYPES)
    operation = t.pick([x for x in trt.ReduceOperation.__members__ if x != "NONE"])
    x = t.input(shape, dtype, -2, 2)
    if operation in ("MAX", "MIN") and 0 in shape and dtype.is_floating_point:
        t.foldable = False  # of nothing it is infinite as documented; folded, it is the greatest finite number
    return t.add_reduce(x, getattr(trt.ReduceOperation, operation), t.mask(shape), t.maybe())


@recipe("CUMULATIVE")
def cumulative(t: Trial) -> Any:
    shape, dtype = t.shape(), t.pick(DTYPES)
    place = torch.tensor(t.number(-len(shape), max(len(shape) - 1, 0)), dtype=t.pick(INTEGERS))
    x, operation = t.input(shape, dtype), trt.CumulativeOperation.SUM
    return t.add_cumulative(x, t.constant(place), operation, t.maybe(), t.maybe())


@recipe("SOFTMAX")
def softmax(t: Trial) -> Any:
    shape, dtype = t.shape(), t.pick(DTYPES if t.maybe(0.3) else FLOATS)
    t.unsupported = dtype == torch.int8  # and cannot be built
    layer = t.add_softmax(t.input(shape, dtype))
    if t.maybe(0.8):
        layer.axes = 1 << t.axis(shape)
    return layer


@recipe("RAGGED_SOFTMAX")
def ragged_softmax(t: Trial) -> Any:
    shape = t.shape(3, 3) if t.maybe(0.8) else t.shape()
    x = t.input(shape, t.pick(FLOATS))
    return t.add_ragged_softmax(x, t.input((*shape[:-1], 1), torch.int32, 0, shape[-1] if shape else 1))


@recipe("SCALE")
def scale(t: Trial) -> Any:
    shape, dtype = t.shape(3, 8), t.pick(DTYPES if t.maybe(0.3) else FLOATS)
    axis = t.number(0, len(shape) - 1) if t.maybe(0.3) else 1
    mode = t.pick(("UNIFORM", "CHANNEL", "ELEMENTWISE"))
    sizes = {"UNIFORM": (1,), "CHANNEL": (shape[axis],), "ELEMENTWISE": shape[axis:]}[mode]
    weights = [t.weights(t.values(sizes, dtype, 0.5, 2)) if t.maybe(0.7) else trt.Weights() for _ in range(3)]
    static = mode == "ELEMENTWISE" or t.maybe(0.2)
    x = t.operand(t.values(shape, dtype, 0.5, 3), static=static)
    return t.add_scale_nd(x, getattr(trt.ScaleMode, mode), *weights, axis)


@recipe("NORMALIZATION")
def normalization(t: Trial) -> Any:
    shape, dtype = t.shape(2, 6), t.pick(FLOATS)
    groups = 1
    if t.maybe(0.4):
        groups = t.pick([g for g in (1, 2, 3, 4) if shape[1] % g == 0])
    axes = list(range(2, len(shape))) if t.maybe(0.5) else [a for a in range(len(shape)) if t.maybe()]
    batch = t.pick((1, shape[0]))
    small = t.pick(("channel", "kept", "reduced"))
    if groups != 1:
        sizes = (batch, groups, *(1 for _ in shape[2:]))
    elif small == "channel":
        sizes = (batch, shape[1], *(1 for _ in shape[2:]))
    else:
        sizes = tuple(1 if (a in axes) == (small == "kept") else size for a, size in enumerate(shape))
    add = t.add_normalization
    if t.maybe(0.4) and hasattr(t.network, "add_normalization_v2"):
        add = t.add_normalization_v2
        sizes = (1, shape[1], *(1 for _ in shape[2:])) if groups != 1 else sizes
    x, scale, bias = t.input(shape, dtype), t.input(sizes, dtype), t.input(sizes, dtype)
    layer = add(x, scale, bias, sum(1 << a for a in axes))
    if groups != 1:
        layer.num_groups = groups
    if t.maybe():
        layer.epsilon = 0.5
    return layer


@recipe("MATRIX_MULTIPLY")
def matrix_multiply(t: Trial) -> Any:
    dtype = t.pick(DTYPES if t.maybe(0.2) else FLOATS)
    batch, inner = t.shape(0, 6), t.size()
    ops = [t.pick(("NONE", "TRANSPOSE", "VECTOR")) for _ in range(2)]
    a, b = (t.size(), inner), (inner, t.size())
    shapes = []
    for op, matrix in zip(ops, (a, b), strict=True):
        matrix = (inner,) if op == "VECTOR" else matrix[::-1] if op == "TRANSPOSE" else matrix
        shapes.append((*t.beside(batch), *matrix))
    handles = [t.input(shape, dtype) for shape in shapes]
    op_a, op_b = (getattr(trt.MatrixOperation, op) for op in ops)
    return t.add_matrix_multiply(handles[0], op_a, handles[1], op_b)


@recipe("EINSUM")
def einsum(t: Trial) -> Any:
    dtype = t.pick(FLOATS)
    sizes = {label: t.size() for label in "abcde"}
    terms = ["".join(t.random.sample("abcde", t.number(0, 4))) for _ in range(t.number(1, 2))]
    if t.maybe(0.1) and terms[0]:
        terms[0] += terms[0][0]
    used = sorted({label for term in terms for label in term})
    result = "".join(t.random.sample(used, t.number(0, len(used))))
    equation = ",".join(terms) + (f"->{result}" if t.maybe(0.8) else "")
    shapes = [tuple(1 if t.maybe(0.1) else sizes[label] for label in term) for term in terms]
    return t.add_einsum([t.input(shape, dtype) for shape in shapes], equation)


@recipe("TOPK")
def topk(t: Trial) -> Any:
    shape, dtype = t.shape(2 if t.maybe(0.9) else 0), t.pick(DTYPES)
    axis = t.axis(shape)
    k = t.number(1, max(shape[axis] if shape else 1, 1))
    t.may_fail = bool(shape) and k > shape[axis]
    operation = t.pick((trt.TopKOperation.MAX, trt.TopKOperation.MIN))
    extra = (trt.int64,) if t.maybe(0.3) else ()
    layer = t.add_topk(t.input(shape, dtype), operation, 1 if t.maybe(0.2) else k, 1 << axis, *extra)
    if t.maybe(0.2):
        layer.set_input(1, t.operand(torch.tensor(k, dtype=torch.int32)))
    return layer


@recipe("NON_ZERO")
def non_zero(t: Trial) -> Any:
    return t.add_non_zero(t.input(t.shape(), t.pick(DTYPES), -1, 1), *((trt.int64,) if t.maybe(0.3) else ()))


@recipe("FILL")
def fill(t: Trial) -> Any:
    shape, dtype = t.shape(0, 5) if t.maybe(0.5) else t.shape(1, 1), t.pick((torch.float32, *INTEGERS, *DTYPES))
    name = t.pick(("LINSPACE", "LINSPACE", "RANDOM_UNIFORM", "RANDOM_NORMAL"))
    t.random_values = name != "LINSPACE"
    t.unsupported = dtype == torch.bool
    operation = getattr(trt.FillOperation, name)
    given = t.maybe()
    layer = t.add_fill((0,) * len(shape) if given else shape, operation, BACKEND.data_type(dtype))
    if given:
        layer.set_input(0, t.constant(torch.tensor(shape, dtype=torch.int64)))
    if t.maybe(0.7):
        wide = dtype if dtype in (torch.float32, *INTEGERS) else torch.float32
        deltas = t.values((len(shape),) if t.random_values is False else (), wide, 1, 3)
        layer.set_input(1, t.operand(t.values((), wide, -3, 0)))
        layer.set_input(2, t.operand(deltas, static=True))
    elif t.maybe(0.7):
        layer.alpha, layer.beta = (-1.0, 0.5) if dtype.is_floating_point else (-1, 2)
    return layer


@recipe("CONSTANT")
def constant(t: Trial) -> Any:
    value = t.values(t.shape(), t.pick(DTYPES))
    t.foldable = value.dtype in FOLDED
    return t.constant(value)
