"""Numbers that remember where they came from are numbers in every other respect."""

import copy
import math
import pickle

import torch

from trtdsl.porting.calls import SizeOf, SizeOp, Value
from trtdsl.porting.tracing.traced_sizes import TracedFloat, TracedInt, expression_of, traced

X = Value((6, 8), torch.float32)


def size(number, axis=0):
    return traced(number, SizeOf(X, axis, number))


def text(number):
    expression = expression_of(number)
    if isinstance(expression, SizeOf):
        return f"s{expression.axis}"
    if isinstance(expression, SizeOp):
        return f"({expression.symbol} {' '.join(map(text, expression.operands))})"
    return repr(expression)


def test_arithmetic_is_recorded():
    n, m = size(6), size(8, 1)
    cases = {
        "(+ s0 1)": n + 1, "(+ 1 s0)": 1 + n, "(- s0 s1)": n - m, "(* s0 s1)": n * m, "(// s1 2)": m // 2,
        "(% s1 3)": m % 3, "(- s0)": -n, "(** s0 2)": n**2, "(- 10 s0)": 10 - n, "(// 100 s0)": 100 // n,
        "(/ s1 2)": m / 2, "(- (// (- s1) 3))": math.ceil(m / 3), "(// s1 3)": math.floor(m / 3),
        "(// (+ s0 1) s1)": (n + 1) // m,
    }  # fmt: skip
    for expected, got in cases.items():
        assert text(got) == expected
    assert [n + 1, m // 2, math.ceil(m / 3), m / 2] == [7, 4, 3, 4.0]
    assert isinstance(m / 2, TracedFloat) and isinstance(m // 2, TracedInt)


def test_operations_with_neutral_numbers_are_not_recorded():
    n = size(6)
    assert all(result is n for result in (n + 0, n - 0, n * 1, n // 1))


def test_a_traced_number_is_a_number():
    n = size(6)
    assert list(range(n)) == [0, 1, 2, 3, 4, 5] and n == 6 and n > 5 and [7] * n == [7] * 6
    assert torch.zeros(n, n * 2).shape == (6, 12)
    assert type(int(n)) is int and copy.deepcopy([n])[0] is n and type(pickle.loads(pickle.dumps(n))) is int
    assert [type(item) for item in torch.Size([n, 2])[:1]] == [TracedInt]


def test_a_number_that_is_made_by_the_type_of_a_size_is_a_plain_one():
    """As Python's statistics module makes its results."""
    n = size(6)
    assert type(type(n)(4)) is int and type(type(n / 4)(0.5)) is float
    assert type(n)(n) is n and type(type(n)("7")) is int
