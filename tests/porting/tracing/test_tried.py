"""Functions that take sizes as the numbers that they are: the size that they give is found, and proven, by trying."""

import inspect
import math
import sys
from types import ModuleType

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import trtdsl as td
from trtdsl.interpreter.interpret import Interpreter
from trtdsl.porting.calls import SizeOf, Value, computed
from trtdsl.porting.tracing.tried import computes_numbers, fitted

pytestmark = pytest.mark.long

LOW, USUAL, HIGH = 5, 13, 24
library = ModuleType("a_library_of_numbers")  # whose len() is Python's own, as a function in C is
exec("def half(size, more=3, mode='up'): return (len(bytes(size)) + more) // 2 - (mode == 'down')", vars(library))
exec("def power(size):\n p = 1\n while p < len(bytes(size)): p *= 2\n return p", vars(library))
half = library.half


def up(size, multiple=8):
    while size % multiple:
        size += 1
    return size


def doubled(size):
    return 2 * size


def even(size):
    return size + 1 if size % 2 else size


def around(size):
    return (size // 2 - 1, size // 2) if size % 2 == 0 else (size // 2, size // 2)


def power(size):
    number = 1
    while number < size:
        number *= 2
    return number


def smooth(size):
    """The next number of factors 2, 3 and 5 alone; of 0 there is none, and the loop has no end."""
    while True:
        left = size
        for factor in (2, 3, 5):
            while left % factor == 0:
                left //= factor
        if left == 1:
            return size
        size += 1


class Rule:
    kept = up

    @staticmethod
    def padded(size, by=4):
        while size % by:
            size += 1
        return size


def odd_one(size):
    return 99 if size == 17 else (size * 7 + 3) // 5


def counted(size):
    global calls
    calls += 1
    return size + calls


def reads(size):
    return size + calls


def drawn(size):
    return size + int(np.random.rand() * 2)


calls = 0


class Sized(nn.Module):
    def __init__(self, compute):
        super().__init__()
        self.compute = compute

    def forward(self, x):
        return self.compute(x) + 0.5


def assert_equal_at_all_sizes(module, spec):
    run = Interpreter(spec.define())
    for size in range(LOW, HIGH + 1):
        x = torch.randn(2, size)
        (got,) = run({next(iter(spec.inputs)): x}).values()
        torch.testing.assert_close(got, module(x))


@pytest.mark.parametrize(
    ("compute", "text"),
    [
        (lambda x: F.pad(x, (0, up(x.shape[1]) - x.shape[1])), "+ 7) // 8 * 8"),
        (lambda x: x.new_ones(Rule.padded(x.shape[1]) if Rule.kept is up else 1), "+ 3) // 4 * 4"),
        (lambda x: x.new_ones(even(x.shape[1])), "(x.shape[1] + 1) // 2 * 2"),
        (lambda x: F.pad(x, around(x.shape[1])), "- 1) // 2"),
        (lambda x: x.new_ones(library.half(x.shape[1], mode="down")), "(x.shape[1] + 1) // 2"),
        (lambda x: x.new_ones(half(x.shape[1] * 3, 4)), "(x.shape[1] * 3 + 4) // 2"),
    ],
)
def test_what_a_function_gives_of_a_size_is_a_size(compute, text):
    module = Sized(compute)
    assert text in td.port(module, ["2,T"], dims={"T": (LOW, USUAL, HIGH)})
    assert_equal_at_all_sizes(module, td.from_module(module, ["2,T"], dims={"T": (LOW, USUAL, HIGH)}))


@pytest.mark.parametrize(
    ("compute", "networks"),
    [
        (lambda x: F.pad(x, (0, power(x.shape[1]) - x.shape[1])), 3),
        (lambda x: F.pad(x, (0, library.power(x.shape[1]) - x.shape[1])), 3),
        (lambda x: x * x.shape[1].bit_length(), 3),
        (lambda x: x.new_ones(odd_one(x.shape[1])), 3),
    ],
)
def test_of_other_functions_a_file_has_a_network_for_each_number(compute, networks):
    text = td.port(Sized(compute), ["2,T"], dims={"T": (LOW, USUAL, HIGH)})
    assert text.count("@td.network") == networks


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x.new_ones(counted(x.shape[1])),
        lambda x: x.new_ones(drawn(x.shape[1])),
        lambda x: x * math.comb(x.shape[1] + 7, 3),
        lambda x: x * int(np.lcm(x.shape[1], 4)),
    ],
)
def test_what_is_no_such_function_is_refused(compute):
    with pytest.raises(td.UnsupportedError, match="test_tried.py"):
        td.port(Sized(compute), ["2,T"], dims={"T": (LOW, USUAL, 40)})


def test_a_function_that_is_tried_keeps_its_signature():
    def called(function, *given):
        if len(inspect.signature(function).parameters) != len(given):
            raise ValueError
        return function(*given)

    module = Sized(lambda x: x.new_ones({5: 6, 6: 7}.get(called(doubled, x.shape[1]) // 2, x.shape[1] + 1)))
    assert_equal_at_all_sizes(module, td.from_module(module, ["2,T"], dims={"T": (LOW, USUAL, HIGH)}))


def test_more_sizes_than_are_tried_are_refused():
    with pytest.raises(
        td.UnsupportedError, match=r"bit_length\(\) gives of a size is known by trying .* more than 20,000"
    ):
        td.port(Sized(lambda x: x * (x.shape[1] + 9).bit_length()), ["2,T"], dims={"T": (5, 100, 50_000)})
    with pytest.raises(td.UnsupportedError, match="became a number"):
        td.port(Sized(lambda x: x.new_ones(library.half(x.shape[1]))), ["2,T"], dims={"T": (5, 100, 50_000)})


@pytest.mark.parametrize(
    ("function", "number"),
    [
        (lambda n: n, 3),
        (lambda n: 4 * n - 7, 90),
        (lambda n: (3 * n + 5) // 7 * 10 + 3, 40),
        (lambda n: (n + 15) // 16, 1),
        (lambda n: 5 - n // 3, 200),
        (lambda n: n // 60, 1000),
    ],
)
def test_fitted_is_the_function_itself(function, number):
    size = SizeOf(Value((number,), torch.float32), 0, number)
    found = fitted(function, size)
    assert (found is not None and found is not size) or number == 3
    for each in (1, 2, number, number + 1, 5 * number, 9_999):
        assert computed(found, lambda _, each=each: each) == function(each)


@pytest.mark.parametrize("function", [lambda n: n * n, lambda n: 2 ** min(n, 9), lambda n: 7, lambda n: n % 5, smooth])
def test_fitted_finds_nothing_where_there_is_nothing(function):
    assert (
        fitted(
            function if function is not smooth else (lambda n: smooth(max(n, 1))),
            SizeOf(Value((30,), torch.float32), 0, 30),
        )
        is None
    )


def test_functions_that_compute_numbers_alone():
    assert all(map(computes_numbers, (up, even, around, power, smooth, odd_one)))
    assert not any(map(computes_numbers, (counted, drawn, assert_equal_at_all_sizes, print, torch.relu)))
    assert computes_numbers(reads)  # of a number that nothing in it changes


def test_a_loop_without_an_end_at_other_numbers_is_left():
    module = Sized(lambda x: F.pad(x, (0, smooth(x.shape[1]) - x.shape[1])))
    text = td.port(module, ["2,T"], dims={"T": (7, 8, 10)})
    assert text.count("@td.network") == 2


assert "a_library_of_numbers" not in sys.modules
