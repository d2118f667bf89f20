"""Evaluators against TensorRT's own folding of constants, over many values."""

import numpy as np
import pytest
from cases import trt
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import folded, interpreted

FEW = settings(max_examples=15, deadline=None)
SCALE = 1 << 16
floats = st.lists(st.floats(-40, 40, width=32), min_size=6, max_size=6).map(lambda v: np.array(v, dtype=np.float32))
ints = st.lists(st.integers(-1000, 1000), min_size=6, max_size=6).map(np.int64)
nonzero = st.lists(st.integers(-9, 9).filter(bool), min_size=6, max_size=6).map(np.int64)


def agree(build, *operands, scale=SCALE):
    want = folded(build, *operands, scale=scale)
    have = interpreted(build, *operands).double().numpy()
    assert have.shape == want.shape
    np.testing.assert_allclose(have, want, rtol=3e-6, atol=2 / scale)


INSIDE = {"ASIN", "ACOS", "ATANH"}
UNARY = ["EXP", "LOG", "SQRT", "RECIP", "ABS", "NEG", "SIN", "COS", "TAN", "SINH", "COSH", "ASIN", "ACOS", "ATAN",
         "ASINH", "ACOSH", "ATANH", "CEIL", "FLOOR", "ERF", "SIGN", "ROUND"]  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
@given(x=floats)
@FEW
def test_unary(name, x):
    x = np.clip(x, -8, 8)
    if name in INSIDE:
        x = x / np.float32(9)
    elif name in ("LOG", "SQRT", "RECIP"):
        x = np.abs(x) + np.float32(0.01)
    elif name == "ACOSH":
        x = np.abs(x) + np.float32(1)
    elif name == "TAN":
        x = x / np.float32(6)
    agree(lambda n, x: n.add_unary(x, getattr(trt.UnaryOperation, name)), x)


@pytest.mark.parametrize("name", list(trt.ActivationType.__members__))
@given(x=floats, alpha=st.floats(0.125, 2, width=16), beta=st.floats(0.125, 2, width=16))
@FEW
def test_activation(name, x, alpha, beta):
    def build(n, x):
        layer = n.add_activation(x, getattr(trt.ActivationType, name))
        layer.alpha, layer.beta = alpha, beta
        return layer

    agree(build, np.clip(x, -10, 10))


@pytest.mark.parametrize("name", ["SUM", "PROD", "MAX", "MIN", "SUB", "DIV", "POW", "FLOOR_DIV"])
@given(a=floats, b=floats)
@FEW
def test_elementwise_floats(name, a, b):
    if name in ("DIV", "FLOOR_DIV"):
        b = np.where(np.abs(b) < 0.01, np.float32(1), b)
    if name == "POW":
        a, b = np.abs(a) / np.float32(10) + np.float32(0.1), b / np.float32(16)
    agree(lambda n, a, b: n.add_elementwise(a, b, getattr(trt.ElementWiseOperation, name)), a, b)


@pytest.mark.parametrize("name", ["SUM", "PROD", "MAX", "MIN", "SUB", "DIV", "FLOOR_DIV", "EQUAL", "GREATER", "LESS"])
@given(a=ints, b=nonzero)
@FEW
def test_elementwise_integers(name, a, b):
    agree(lambda n, a, b: n.add_elementwise(a, b, getattr(trt.ElementWiseOperation, name)), a, b, scale=1)


@given(a=st.lists(st.integers(-5, 5).filter(bool), min_size=6, max_size=6).map(np.int64), b=nonzero)
@FEW
def test_integer_powers(a, b):
    agree(lambda n, a, b: n.add_elementwise(a, b, trt.ElementWiseOperation.POW), a, b, scale=1)


@pytest.mark.parametrize("name", ["AND", "OR", "XOR"])
def test_logic(name):
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    agree(lambda n, a, b: n.add_elementwise(a, b, getattr(trt.ElementWiseOperation, name)), a, b, scale=1)


@pytest.mark.parametrize("name", ["SUM", "PROD", "MAX", "MIN", "AVG"])
@pytest.mark.parametrize("keep", [True, False])
@given(x=floats, whole=ints)
@FEW
def test_reduce(name, keep, x, whole):
    def build(n, x):
        return n.add_reduce(x, getattr(trt.ReduceOperation, name), 2, keep)

    agree(build, (x / np.float32(8)).reshape(2, 3))
    agree(build, (whole % 40 - 20).reshape(2, 3), scale=1)


@given(x=st.lists(st.floats(-1e6, 1e6, width=32), min_size=6, max_size=6).map(np.float32))
@FEW
def test_float_to_integer(x):
    agree(lambda n, x: n.add_cast(x, trt.int32), x, scale=1)
    agree(lambda n, x: n.add_cast(x, trt.int64), x, scale=1)
    agree(lambda n, x: n.add_cast(x, trt.bool), np.trunc(x / np.float32(3e5)), scale=1)


@given(a=floats, b=floats)
@FEW
def test_matrix_multiply(a, b):
    op = trt.MatrixOperation
    a, b = a / np.float32(8), b / np.float32(8)
    agree(lambda n, a, b: n.add_matrix_multiply(a, op.NONE, b, op.NONE), a.reshape(2, 3), b.reshape(3, 2))
    agree(lambda n, a, b: n.add_matrix_multiply(a, op.TRANSPOSE, b, op.NONE), a.reshape(3, 2), b.reshape(3, 2))
    agree(lambda n, a, b: n.add_matrix_multiply(a, op.VECTOR, b, op.TRANSPOSE), a[:3].copy(), b.reshape(2, 3))


@given(
    start=st.integers(-6, 10), size=st.integers(1, 9), stride=st.integers(-3, 3),
    mode=st.sampled_from(["WRAP", "CLAMP", "REFLECT", "FILL"]),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_slice(start, size, stride, mode):
    def build(n, x):
        layer = n.add_slice(x, (start,), (size,), (stride,))
        layer.mode = getattr(trt.SampleMode, mode)
        return layer

    agree(build, np.int64([3, 1, 4, 1, 5]), scale=1)


@pytest.mark.parametrize("mode", ["DEFAULT", "ELEMENT", "ND"])
@given(indices=st.lists(st.integers(-2, 1), min_size=4, max_size=4).map(np.int64))
@FEW
def test_gather(mode, indices):
    def build(n, data, indices):
        layer = n.add_gather_v2(data, indices, getattr(trt.GatherMode, mode))
        if mode != "ND":
            layer.axis = 0
        return layer

    agree(build, np.int64([[3, 1], [4, 5]]), indices.reshape(2, 2), scale=1)


@given(x=ints, first=st.permutations(range(2)), second=st.permutations(range(3)))
@FEW
def test_shuffle(x, first, second):
    def build(n, x):
        layer = n.add_shuffle(x)
        layer.first_transpose, layer.reshape_dims, layer.second_transpose = tuple(first), (1, 3, 2), tuple(second)
        return layer

    agree(build, x.reshape(2, 3), scale=1)


@given(c=st.lists(st.booleans(), min_size=6, max_size=6).map(np.array), a=ints, b=ints)
@FEW
def test_select_and_concatenation(c, a, b):
    agree(lambda n, c, a, b: n.add_select(c, a, b), c, a, b, scale=1)
    agree(lambda n, a, b: n.add_concatenation([a, b]), a, b, scale=1)


def test_nan_of_maxima_and_signs():
    nan = float("nan")
    a, b = np.float32([nan, 1.0, 2.0]), np.float32([1.0, nan, 3.0])

    def nans_of(operation):
        def build(n, a, b):
            result = n.add_elementwise(a, b, getattr(trt.ElementWiseOperation, operation)).get_output(0)
            return n.add_unary(result, trt.UnaryOperation.ISNAN)

        return build

    for operation in ("MAX", "MIN", "SUM", "PROD"):
        agree(nans_of(operation), a, b, scale=1)

    def reduced(n, a):
        result = n.add_reduce(a, trt.ReduceOperation.MAX, 1, False).get_output(0)
        return n.add_unary(result, trt.UnaryOperation.ISNAN)

    agree(reduced, a, scale=1)


def test_the_oracle_can_disagree():
    want = folded(lambda n, x: n.add_unary(x, trt.UnaryOperation.FLOOR), np.float32([1.5, -1.5]))
    assert want.tolist() == [1.0, -2.0]
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(
            interpreted(lambda n, x: n.add_unary(x, trt.UnaryOperation.CEIL), np.float32([1.5, -1.5])), want
        )
