"""Ways of functions of F that are no better in any context, or show few bytes and poor arithmetic: for comparison."""

import math
from string import ascii_lowercase

import torch

import trtdsl.functional as F
from trtdsl import layers as L
from trtdsl.functional.einsum.equation import parse
from trtdsl.functional.operands import binary, in_float32, scaled, sum_in_float32
from trtdsl.sizes.size import product


def constant(x, values):
    return x.network.constant(torch.as_tensor(values, dtype=x.dtype))


def gelu_by_erf(x):
    def compute(x):
        return L.elementwise(scaled(x, 0.5), binary(L.unary(scaled(x, math.sqrt(0.5)), "ERF"), 1.0, "SUM"), "PROD")

    return in_float32(compute, x)


def glu_by_gather(x):
    axis = 1 if x.ndim == 4 else x.ndim - 1
    halves = torch.arange(x.shape[axis]).chunk(2)
    first, second = (L.gather(x, x.network.constant(half), axis) for half in halves)
    return L.elementwise(first, L.activation(second, "SIGMOID"), "PROD")


def softmax_by_powers(axis):
    def compute(x):
        powers = L.unary(L.elementwise(x, L.reduce(x, "MAX", [axis], True), "SUB"), "EXP")
        return L.elementwise(powers, L.reduce(powers, "SUM", [axis], True), "DIV")

    return lambda x: sum_in_float32(compute, x, [axis])


def layer_norm_by_means(x, weight, bias):
    wide = L.cast(x, torch.float32)
    centred = L.elementwise(wide, L.reduce(wide, "AVG", [2], True), "SUB")
    squares = L.reduce(L.elementwise(centred, centred, "PROD"), "AVG", [2], True)
    scale = L.unary(L.unary(binary(squares, 1e-5, "SUM"), "SQRT"), "RECIP")
    return L.cast(L.elementwise(centred, scale, "PROD"), x.dtype) * weight + bias


def mean_by_product(x):
    """The mean over dimension 1, by a product with a row of equal weights."""
    before, length, after = x.shape[0], x.shape[1], product(x.shape[2:])
    row = constant(x, torch.full((1, 1, length), 1 / length))
    return F.reshape(L.matrix_multiply(row, F.reshape(x, (before, length, after))), (before, 1, *x.shape[2:]))


def pixel_shuffle_by_deconvolution(x, r):
    kernel = constant(x, torch.eye(x.shape[1]).reshape(x.shape[1], -1, r, r))
    none = (0, 0)
    return L.deconvolution(
        x, kernel, None, stride=(r, r), pre_padding=none, post_padding=none, dilation=(1, 1), groups=1
    )


def cat_as_sum(parts, axis):
    """A concatenation as the sum of its parts, each with zeros in the place of the others."""
    size, start, total, before = list(parts[0].shape), [0] * parts[0].ndim, None, 0
    size[axis] = sum(part.shape[axis] for part in parts)
    for part in parts:
        start[axis] = -before
        placed = L.slice(part, start, size, mode="FILL")
        total = placed if total is None else L.elementwise(total, placed, "SUM")
        before += part.shape[axis]
    return total


def embedding_by_ones(ids, weight):
    rows = ids.network.constant(torch.arange(weight.shape[0]).reshape(1, 1, -1))
    return F.matmul(L.cast(L.elementwise(L.unsqueeze(ids, [2]), rows, "EQUAL"), weight.dtype), weight)


def linear_by_convolution(x, weight, bias):
    points = F.reshape(x, (product(x.shape[:-1]), x.shape[-1], 1, 1))
    result = F.conv2d(points, F.reshape(weight, (*weight.shape, 1, 1)), bias)
    return F.reshape(result, (*x.shape[:-1], weight.shape[0]))


def multiplied_out(equation, *operands):
    """An einsum with all operands reshaped to all labels, multiplied, and summed at the end; no label twice in one."""
    parsed = parse(equation, [operand.ndim for operand in operands])
    summed = dict.fromkeys(label for term in parsed.terms for label in term if label not in parsed.output)
    order, total = [*parsed.output, *summed], None
    for labels, operand in zip(parsed.terms, operands, strict=True):
        present = [label for label in order if label in labels]
        x = L.shuffle(operand, [labels.index(label) for label in present])
        x = L.unsqueeze(x, [place for place, label in enumerate(order) if label not in labels])
        total = x if total is None else L.elementwise(total, x, "PROD")
    axes = range(len(parsed.output), len(order))
    return L.reduce(total, "SUM", axes) if summed else total


def by_einsum_layer(equation, *operands):
    """An einsum as one IEinsumLayer."""
    parsed = parse(equation, [operand.ndim for operand in operands])
    letters = dict(zip(dict.fromkeys(label for term in parsed.terms for label in term), ascii_lowercase))
    *terms, output = ("".join(letters[label] for label in term) for term in (*parsed.terms, parsed.output))
    return L.einsum(f"{','.join(terms)}->{output}", *operands)
