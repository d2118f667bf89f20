"""Type promotion against torch's own, with tensors, tensors without dimensions and numbers in every mixture."""

import itertools
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import assert_close

import trtdsl as td
import trtdsl.functional as F
from trtdsl.functional.common import require_floats, require_one_of, require_rank
from trtdsl.functional.operands import result_type

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
]
TENSORS = st.builds(
    lambda dtype, shape: torch.ones(shape, dtype=dtype), st.sampled_from(DTYPES), st.sampled_from([(), (2,)])
)
OPERANDS = st.one_of(TENSORS, st.sampled_from([True, 3, 2.5]))


@given(TENSORS, OPERANDS)
@settings(max_examples=300, deadline=None)
def test_two_operands(tensor, other):
    assert result_type(tensor, other) == torch.result_type(tensor, other)
    assert result_type(other, tensor) == torch.result_type(other, tensor)


@given(*[TENSORS.filter(lambda tensor: tensor.dtype != torch.bool)] * 3)
@settings(max_examples=200, deadline=None)
def test_three_operands(a, b, c):
    assert result_type(a, b, c) == torch.addcmul(a, b, c).dtype


def test_numbers_and_sizes():
    assert result_type(True, 2) == torch.int64
    assert result_type(2, 2.5) == torch.float32
    assert result_type(td.Dim("N"), 2) == torch.int64
    assert result_type(torch.ones(2, dtype=torch.float16), np.float64(2)) == torch.float16
    assert result_type(torch.ones(2, dtype=torch.int32), np.float32(2)) == torch.float32
    with pytest.raises(td.DefinitionError, match="expected a Tensor or a number, not str"):
        result_type(torch.ones(2), "a")


NETWORK = [torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32]


@pytest.mark.parametrize(("dtype", "other"), list(itertools.product(NETWORK, DTYPES)))
def test_a_constant_without_dimensions(dtype, other):
    """It takes the dtype that torch gives the result, also from types that TensorRT does not have."""
    constant = torch.tensor(3, dtype=other)
    x = torch.tensor([[1, -2, 3], [4, 5, -6]], dtype=dtype)
    expected = x + constant
    spec = td.network(inputs={"x": td.Input((2, 3), dtype, sample=(0, 1))})(lambda x: (x + constant, constant + x))
    if expected.dtype == torch.float64:
        with pytest.raises(td.UnsupportedError, match="no data type for torch.float64; use float32") as caught:
            spec.define()
        assert caught.value.location.file == __file__
        return
    for got in td.interpret(spec.define(), {"x": x}).values():
        assert_close(got, expected)


@pytest.mark.parametrize(
    "other", [np.array(0.5), np.float32(0.5), np.float64(0.5), torch.tensor(0.5, dtype=torch.float64)]
)
def test_functions_of_several_operands(other):
    x = torch.tensor([-1.0, 2.0, 0.25])
    plain = torch.tensor(float(other))
    calls = {
        "mul": (lambda x: F.mul(x, other), x * plain),
        "where": (lambda x: F.where(x > 0, x, other), torch.where(x > 0, x, plain)),
        "clamp": (lambda x: F.clamp(x, other), x.clamp(0.5)),
        "maximum": (lambda x: F.maximum(x, other), torch.maximum(x, plain)),
        "lt": (lambda x: x < other, x < plain),
    }
    for function, expected in calls.values():
        spec = td.network(inputs={"x": td.Input((3,))})(function)
        assert_close(td.interpret(spec.define(), {"x": x})["output"], expected)


def test_a_dimensioned_float64_is_refused_as_before():
    net = td.Network()
    x = net.input("x", (3,))
    with pytest.raises(td.UnsupportedError, match="no data type for torch.float64"):
        x + torch.ones(3, dtype=torch.float64)
    with pytest.raises(td.UnsupportedError, match="no data type for torch.float64"):
        net.output(net.constant(torch.tensor(1.0, dtype=torch.float64)), "y")


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "bool"])
def test_a_tensor_of_a_numpy_matrix(dtype):
    """Of all its elements, in its dtype or the one asked for, as torch.tensor makes it."""
    matrix = torch.arange(6).reshape(2, 3).numpy()
    net = td.Network()
    with net.current():
        net.output(F.tensor(matrix.astype(dtype)), "own")
        net.output(F.tensor(matrix.astype("float64"), dtype="float32"), "asked")
    got = td.Interpreter(net)({})
    expected = torch.tensor(matrix.astype(dtype))
    assert got["own"].dtype == expected.dtype and torch.equal(got["own"], expected)
    assert got["asked"].dtype == torch.float32 and torch.equal(got["asked"], torch.tensor(matrix).float())


@pytest.mark.parametrize(
    "call",
    [
        lambda x, F, two: x.chunk(two, dim=two)[1],
        lambda x, F, two: x.split(two, 1)[3],
        lambda x, F, two: x.reshape(x.shape[0], two, 24),
        lambda x, F, two: x.reshape(two * x.shape[0] * two, 12),
        lambda x, F, two: x.repeat(1, two, 1),
        lambda x, F, two: x[:, two],
        lambda x, F, two: x.sum(two),
        lambda x, F, two: F.pad(x, (two, two)),
        lambda x, F, two: F.avg_pool1d(x, two),
    ],
)
def test_numbers_of_numpy_are_numbers(call):
    net, x = td.Network(), torch.randn(3, 8, 6)
    net.output(call(net.input("x", ("N", 8, 6)), F, np.int64(2)), "y")
    torch.testing.assert_close(td.interpret(net, {"x": x})["y"], call(x, torch.nn.functional, 2))


ARRAYS = {
    "of float64": [np.ones(2), np.full(2, 0.1)],
    "of float32": (np.ones(2, np.float32), np.zeros(2, np.float32)),
    "of one element": [np.ones(1), np.ones(1)],
    "beside lists": [np.array([1, 2]), [3, 4]],
    "beside floats": [np.array([1, 2]), [3.5, 4]],
    "deeper": [[np.ones((2, 1), np.float16)], [np.zeros((2, 1), np.float16)]],
}


@pytest.mark.filterwarnings("ignore:Creating a tensor from a list of numpy")
@pytest.mark.parametrize("make", [F.tensor, F.as_tensor])
@pytest.mark.parametrize("name", ARRAYS)
def test_a_tensor_of_arrays_in_lists(name, make):
    """Each is a list of its elements."""
    expected = torch.tensor(ARRAYS[name])
    with td.Network().current():
        made, asked = make(ARRAYS[name]), make(ARRAYS[name], dtype="float32")
    assert (made.shape, made.dtype) == (tuple(expected.shape), expected.dtype)
    assert torch.equal(made.data, expected)
    assert asked.dtype == torch.float32 and torch.equal(asked.data, expected.float())


def test_arrays_that_no_list_can_be():
    with td.Network().current():
        for given in ([np.ones(2), np.ones(3)], [[np.ones(2)], np.ones(2)], [np.ones(2), [1, 2, 3]]):
            with pytest.raises(
                td.ShapeError, match=r"test_operands.py:\d+: tensor takes (lists of equal lengths|arrays of one shape)"
            ):
                F.tensor(given)


def test_what_a_function_does_not_take_is_said_in_one_sentence():
    x = td.Network().input("x", (2, 3), torch.int64)
    require_rank(x, "f takes matrices", 2)
    require_rank(x, "f takes (N, …)", 1, 8)
    for check, error, text in (
        (lambda: require_rank(x, "f takes vectors", 1), td.ShapeError, "f takes vectors, not (2, 3)"),
        (lambda: require_rank(x, "f takes (N, C, L)", 3, 8), td.ShapeError, "f takes (N, C, L), not (2, 3)"),
        (lambda: require_floats("f takes", x), td.UnsupportedError, "f takes floating-point numbers, not int64"),
        (lambda: require_one_of("f: mode", "c", ("a", "b")), td.DefinitionError, "f: mode is one of 'a', 'b', not 'c'"),
    ):
        with pytest.raises(error, match=re.escape(text)):
            check()
