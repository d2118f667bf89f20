"""Floor division and remainders of floats: torch's results where the quotient is within rounding of a whole number."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import trtdsl as td
import trtdsl.functional as F
from trtdsl.engine.compiling.compiler import compile_engine
from trtdsl.interpreter.interpret import Interpreter

FUNCTIONS = {
    "floor_divide": (F.floor_divide, torch.floor_divide),
    "div": (lambda a, b: F.div(a, b, rounding_mode="floor"), lambda a, b: torch.div(a, b, rounding_mode="floor")),
    "remainder": (F.remainder, torch.remainder),
    "fmod": (F.fmod, torch.fmod),
    "//": (lambda a, b: a // b, lambda a, b: a // b),
    "%": (lambda a, b: a % b, lambda a, b: a % b),
}
EXACT = 2.0**22  # where torch's own floor_divide rounds no more


def interpreted(function, *operands):
    """The function of inputs whose values are not known while the network is written."""
    names = [f"x{index}" for index in range(len(operands))]
    inputs = {name: td.Input(tuple(x.shape), x.dtype) for name, x in zip(names, operands, strict=True)}
    spec = td.network(inputs=inputs)(lambda *x, **named: function(*(x or named.values())))
    return td.interpret(spec.define(), dict(zip(names, operands, strict=True)))["output"]


@pytest.fixture(scope="module")
def networks():
    """Each function of two vectors of 16, defined once."""

    def written(function):
        two = {name: td.Input((16,)) for name in "ab"}
        network = td.network(inputs=two)(lambda a, b: function(a, b)).define()
        return lambda a, b: td.interpret(network, {"a": a, "b": b})["output"]

    return {name: written(ours) for name, (ours, _) in FUNCTIONS.items()}


def near_whole(divisor, whole, step):
    """A float32 within a few units in the last place of ``whole * divisor``."""
    product = np.float32(divisor) * np.float32(whole)
    for _ in range(abs(step)):
        product = np.nextafter(product, np.float32(math.copysign(np.inf, step)), dtype=np.float32)
    return float(product)


DIVISORS = st.floats(2.0**-60, 2.0**60, width=32)
PAIRS = st.one_of(
    st.builds(
        lambda divisor, whole, step, sign, negative: (
            sign * near_whole(divisor, whole, step),
            -divisor if negative else divisor,
        ),
        DIVISORS,
        st.integers(0, 2**22 - 8) | st.integers(0, 300),
        st.integers(-2, 2),
        st.sampled_from([1, -1]),
        st.booleans(),
    ),
    st.tuples(st.floats(-1e6, 1e6, width=32), st.floats(0.5, 2e6, width=32)),
    st.tuples(st.sampled_from([0.0, 1.0, -1.0, math.inf, -math.inf, math.nan]), st.sampled_from([0.0, 1.5, math.inf])),
)


@settings(max_examples=40, deadline=None)
@given(pairs=st.lists(PAIRS, min_size=16, max_size=16))
def test_random_floats_equal_torchs(networks, pairs):
    a, b = torch.tensor(pairs, dtype=torch.float32).unbind(-1)
    for name, (_, theirs) in FUNCTIONS.items():
        torch.testing.assert_close(networks[name](a, b), theirs(a, b), rtol=0, atol=0, equal_nan=True, msg=name)


@settings(max_examples=40, deadline=None)
@given(cases=st.lists(st.tuples(DIVISORS, st.integers(0, 2**24 - 8), st.integers(-2, 2)), min_size=16, max_size=16))
def test_the_exact_quotient_up_to_two_to_the_twenty_fourth(networks, cases):
    dividends = [near_whole(*case) for case in cases]
    whole = [math.floor(Fraction(a) / Fraction(b)) for a, (b, _, _) in zip(dividends, cases, strict=True)]
    rest = [float(Fraction(a) % Fraction(b)) for a, (b, _, _) in zip(dividends, cases, strict=True)]
    a, b = torch.tensor(dividends), torch.tensor([divisor for divisor, _, _ in cases])
    assert networks["floor_divide"](a, b).tolist() == whole
    assert networks["remainder"](a, b).tolist() == rest


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("divisor", [0.1, -0.1, 0.3, 7.0, 2 * math.pi, 1e-3, 1.0, -2.0, 0.25, 1024.0])
def test_numbers_as_divisors(name, divisor):
    ours, theirs = FUNCTIONS[name]
    whole, infinity = torch.arange(1.0, 300), torch.tensor(math.inf)
    x = torch.cat([whole * divisor, whole * 0.1, torch.nextafter(whole * divisor, infinity)])
    x = torch.cat([x, -x, torch.zeros(1)])
    torch.testing.assert_close(interpreted(lambda x: ours(x, divisor), x), theirs(x, divisor), rtol=0, atol=0)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_equals_torchs(name, dtype):
    ours, theirs = FUNCTIONS[name]
    generator = torch.Generator().manual_seed(0)
    b = (torch.rand(2000, generator=generator) * 3 + 0.05).to(dtype)
    a = (b.float() * torch.randint(-60, 60, (2000,), generator=generator)).to(dtype)
    torch.testing.assert_close(interpreted(ours, a, b), theirs(a, b), rtol=0, atol=0)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_power_of_two_is_exact_at_any_size(name):
    ours, theirs = FUNCTIONS[name]
    x = torch.tensor([3e9, -3e9, 1e30, -1e30, 16777217.0 * 5, -0.1, 1e-30, -1e-30])
    for divisor in (1.0, 8.0, -0.5):
        torch.testing.assert_close(interpreted(lambda x, b=divisor: ours(x, b), x), theirs(x, divisor), rtol=0, atol=0)


def test_one_divided_by_one_tenth_rounds_down_to_nine():
    x = torch.tensor([1.0])
    assert interpreted(lambda x: x // 0.1, x).tolist() == [9.0]
    assert interpreted(lambda x: x % 0.1, x).item() == torch.remainder(x, 0.1).item() == pytest.approx(0.1)


def test_products_are_exact_so_that_a_fused_multiplication_gives_the_same():
    """No product of the network is rounded, wherever the compiler fuses it with the sum or difference after it."""
    products = []

    def wrap(node, evaluate):
        def watched(a, b):
            products.append((a.double() * b.double(), evaluate(a, b).double()))
            return evaluate(a, b)

        return watched if node.type == "ELEMENTWISE" and node.layer.op.name == "PROD" else evaluate

    spec = td.network(inputs={"a": td.Input((4000,)), "b": td.Input((4000,))})(lambda a, b: (a // b, a % b))
    b = torch.rand(4000, generator=torch.Generator().manual_seed(0)) + 0.5
    a = b * torch.randint(0, 1 << 23, (4000,), generator=torch.Generator().manual_seed(1))
    Interpreter(spec.define(), wrap=wrap)({"a": a, "b": b})
    assert len(products) >= 7
    for exact, rounded in products:
        assert torch.equal(exact, rounded)


def test_an_engine_is_built_of_it():
    spec = td.network(inputs={"a": td.Input((8,)), "b": td.Input((8,))})(lambda a, b: (a // b, a % 0.1, F.fmod(a, b)))
    assert compile_engine(spec.define()).statistics
