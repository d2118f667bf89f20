"""Sizes in arithmetic with fractions: as Python computes it from the sizes fed, and one message where it cannot be."""

import math
import operator

import numpy as np
import pytest
import torch

import trtdsl as td
import trtdsl.functional as F

T = td.Dim("T", min=2, opt=5, max=9)

EXPRESSIONS = {
    "n * 0.5": lambda n: n * 0.5,
    "0.5 * n": lambda n: 0.5 * n,
    "n + 0.25": lambda n: n + 0.25,
    "0.25 + n": lambda n: 0.25 + n,
    "n - 0.25": lambda n: n - 0.25,
    "0.25 - n": lambda n: 0.25 - n,
    "n / 4": lambda n: n / 4,
    "1 / n": lambda n: 1 / n,
    "1.5 / n": lambda n: 1.5 / n,
    "n / (n + 1)": lambda n: n / (n + 1),
    "n // 1.5": lambda n: n // 1.5,
    "9.5 // n": lambda n: 9.5 // n,
    "n % 1.5": lambda n: n % 1.5,
    "9.5 % n": lambda n: 9.5 % n,
    "n ** 0.5": lambda n: n**0.5,
    "n ** -0.5": lambda n: n**-0.5,
    "n ** -1": lambda n: n**-1,
    "1.5 ** n": lambda n: 1.5**n,
    "(n // 2 + 1) ** 0.5": lambda n: (n // 2 + 1) ** 0.5,
    "numpy's float": lambda n: np.float32(0.5) * n,
    "numpy's double": lambda n: n / np.float64(0.5),
    "2 * (n * 0.5) + n": lambda n: 2 * (n * 0.5) + n,
}


def scalar(expression, size):
    """The expression of a dynamic size as a network computes it."""
    spec = td.network(inputs={"x": td.Input((T,))})(lambda x: expression(x.shape[0]))
    return td.interpret(spec.define(), {"x": torch.zeros(size)})["output"]


@pytest.mark.parametrize("name", EXPRESSIONS)
@pytest.mark.parametrize("size", [2, 7])
def test_fractions_of_sizes_equal_pythons(name, size):
    got = scalar(EXPRESSIONS[name], size)
    assert (got.dtype, got.shape) == (torch.float32, ())
    assert float(got) == pytest.approx(float(EXPRESSIONS[name](size)), rel=1e-6)


def test_whole_powers():
    assert str(T**2) == "T*T"
    assert T**0 == 1
    assert ((T + 1) ** 3).value({"T": 4}) == 125
    got = scalar(lambda n: 2**n, 5)
    assert (got.dtype, int(got)) == (torch.int64, 32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(
    "scale",
    [
        lambda x, d: x / d**0.5,
        lambda x, d: x * d**-0.5,
        lambda x, d: d**-0.5 * x,
        lambda x, d: x / d,
        lambda x, d: d / x,
    ],
)
def test_tensors_keep_their_dtype_beside_it(scale, dtype):
    spec = td.network(inputs={"x": td.Input((3, T), dtype)})(lambda x: scale(x, x.shape[-1]))
    x = torch.rand(3, 7, generator=torch.Generator().manual_seed(0)).to(dtype) + 1
    got = td.interpret(spec.define(), {"x": x})["output"]
    expected = scale(x, 7)
    assert got.dtype == expected.dtype == dtype
    torch.testing.assert_close(got, expected)


def test_attention_over_a_dynamic_width():
    spec = td.network(inputs={"q": td.Input((2, 4, T))})(lambda q: F.scaled_dot_product_attention(q, q, q))
    q = torch.randn(2, 4, 6, generator=torch.Generator().manual_seed(0))
    got = td.interpret(spec.define(), {"q": q})["output"]
    torch.testing.assert_close(got, torch.nn.functional.scaled_dot_product_attention(q, q, q))


@pytest.mark.parametrize(
    ("comparison", "result"),
    [
        (lambda n: n > 1.5, True),
        (lambda n: n >= 2.0, True),
        (lambda n: n < 9.5, True),
        (lambda n: n <= 8.5, None),
        (lambda n: n <= 9.0, True),
        (lambda n: n < 2.0, False),
        (lambda n: n < float("inf"), True),
        (lambda n: n > float("-inf"), True),
        (lambda n: n == 9.5, False),
        (lambda n: n == 12.0, False),
        (lambda n: n == 5.0, None),
    ],
)
def test_comparisons_with_fractions(comparison, result):
    if result is None:
        with pytest.raises(td.ShapeError, match="depends on the dynamic dimensions"):
            bool(comparison(T))
    else:
        assert comparison(T) is result


@pytest.mark.parametrize("function", [math.sqrt, float, math.exp])
def test_pythons_math_says_what_to_write(function):
    spec = td.network(inputs={"x": td.Input((2, T))})(lambda x: x / function(x.shape[1]))
    with pytest.raises(
        td.ShapeError, match=r"the size T is dynamic .* size \*\* 0.5, size / 2 .* give a Tensor"
    ) as caught:
        spec.define()
    assert caught.value.location.file == __file__


@pytest.mark.parametrize("function", [int, float, math.floor, math.sqrt, round])
def test_a_tensor_in_pythons_math_says_what_to_write(function):
    spec = td.network(inputs={"x": td.Input((2, T))})(lambda x: x[:, : function(x.shape[1] * 0.5)])
    with pytest.raises(td.DefinitionError, match="Tensor") as caught:
        spec.define()
    assert caught.value.location.file == __file__


def test_constants_have_a_value():
    net = td.Network()
    assert (float(net.constant(2.5)), int(net.constant(torch.tensor([7])))) == (2.5, 7)
    with pytest.raises(td.DefinitionError, match="no one value"):
        int(net.constant(torch.ones(2)))


def test_a_fraction_of_a_size_needs_a_network():
    with pytest.raises(td.UsageError, match=r"no network here to compute T \*\* -0.5, .*net.current") as caught:
        T**-0.5
    assert caught.value.location.file == __file__
    net = td.Network()
    x = net.input("x", (2, T))
    with net.current():
        assert (x * x.shape[1] ** -0.5).shape == (2, T)


@pytest.mark.parametrize("op", [operator.add, operator.mul, operator.truediv, operator.pow, operator.mod])
def test_operands_that_are_no_numbers_raise_typeerror(op):
    for left, right in ((T, "a"), ("a", T), (T, None), (T, 1j)):
        if "a" in {left, right} and op in (operator.mod, operator.mul):  # text formats and repeats itself
            continue
        with pytest.raises(TypeError):
            op(left, right)
