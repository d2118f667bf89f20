"""Sizes that only some values of the dynamic dimensions break are found before a network is built."""

from __future__ import annotations

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.compiling.compiler import compile_engine


def broken(function, *inputs):
    """The error of checking the sizes of one function's network."""
    net = td.Network()
    net.output(function(*(net.input(f"x{k}", *given) for k, given in enumerate(inputs))), "y")
    with pytest.raises(td.ShapeError) as caught:
        net.check_sizes()
    return str(caught.value)


def holds(function, *inputs):
    net = td.Network()
    net.output(function(*(net.input(f"x{k}", *given) for k, given in enumerate(inputs))), "y")
    net.check_sizes()


H = td.Dim("H", min=2, opt=8, max=16)
N = td.Dim("N", min=1, opt=2, max=5)


def test_a_size_that_would_be_negative():
    message = broken(lambda x: F.conv2d(x, x.network.constant(torch.ones(1, 1, 5, 5))), ((1, 1, H, 9),))
    assert "where H = 2, the size H - 4 would be -2" in message
    assert "test_constraints.py:" in message
    assert "in conv2d(…)" in message
    holds(lambda x: F.conv2d(x, x.network.constant(torch.ones(1, 1, 5, 5)), padding=2), ((1, 1, H, 9),))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.avg_pool2d(x, (9, 1)),
        lambda x: F.max_pool2d(x, (9, 1), return_indices=True)[0],
        lambda x: F.conv2d(x, x.network.constant(torch.ones(1, 1, 9, 1)), stride=9),
        lambda x: F.unfold(x, (9, 1), stride=(9, 1)),
    ],
)
def test_a_dimension_too_short_for_a_window(function):
    """Where H = 8, TensorRT would make an output without elements; torch refuses."""
    message = broken(function, ((1, 1, td.Dim("H", min=8, opt=9, max=16), 9),))
    assert "where H = 8, the size H//9 would be 0" in message
    assert "test_constraints.py:" in message
    holds(function, ((1, 1, td.Dim("H", min=9, opt=9, max=16), 9),))


def test_a_size_that_does_not_divide():
    message = broken(lambda x: x.reshape(x.shape[0], x.shape[1] // 2, 2), ((N, H),))
    assert "where H = 3, N = 1, the elements of a (N, H) reshaped do not match: H*N is 3, 2*(H//2)*N is 2" in message
    holds(lambda x: x.reshape(x.shape[0], x.shape[1] // 2, 2), ((N, 2 * H),))


def test_operands_that_do_not_match():
    message = broken(lambda x: x[:, 1:] + F.max_pool1d(x.unsqueeze(0), 3, 2, 1)[0], ((N, H),))
    assert "the sizes of the operands do not match" in message
    assert "in add(…)" in message
    holds(lambda x: x + x[:, 1:].sum(1, keepdim=True), ((N, H),))


def test_contracted_sizes_that_do_not_match():
    message = broken(lambda a, b: a @ b, ((4, H),), ((N, 3),))
    assert "the contracted sizes do not match" in message


def test_dimensions_without_a_range_are_left_out():
    holds(lambda x: F.conv2d(x, x.network.constant(torch.ones(1, 1, 5, 5))), ((1, 1, "H", 9),))


def test_sizes_of_data_are_left_out():
    holds(lambda x: x[x > 0].reshape(-1, 1), ((N, H),))


def test_a_build_is_refused():
    net = td.Network()
    x = net.input("x", (1, 1, H, 9))
    net.output(F.conv2d(x, net.constant(torch.ones(1, 1, 5, 5))), "y")
    with pytest.raises(td.ShapeError, match="where H = 2, the size H - 4 would be -2"):
        compile_engine(net)
