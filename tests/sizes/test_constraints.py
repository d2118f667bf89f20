"""Sizes that only some values of the dynamic dimensions break are found before a network is built."""

from __future__ import annotations

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.engine.compiling.compiler import compile_engine


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


def test_a_mismatch_says_the_operands_and_what_to_write():
    """The author sees what met what without reading the network again."""
    message = broken(lambda a, b: a + b, ((N, H, 30),), ((N, 20, 30),))
    assert message.splitlines()[1:5] == [
        "  in add(…)",
        "  input: (N, H, 30) float32, dimension 1 is H",
        "  other: (N, 20, 30) float32, dimension 1 is 20",
        "  where H is always 20, write 20 in its place in the inputs' shapes",
    ]
    assert "where H = 2, the sizes of the operands do not match: H is 2, not 20" in message


@pytest.mark.parametrize(
    ("function", "inputs", "wanted"),
    [
        (lambda a, b: torch.cat([a, b], 2), [(N, H, 3), (N, 4, 3)], ["tensors[1]: (N, 4, 3)", "H is 2, not 4"]),
        (lambda a, b: torch.stack([a, b]), [(N, H, 3), (N, 4, 3)], ["in stack(…)", "H is 2, not 4"]),
        (lambda a: F.conv2d(a, torch.ones(1, 9, 1, 1)), [(N, H, 5, 5)], ["weight: (1, 9, 1, 1) float32", "not 9"]),
        (lambda a: F.linear(a, torch.ones(5, 9)), [(N, H)], ["weight: (5, 9) float32", "where H is always 9, write 9"]),
        (lambda a, b: F.einsum("ij,kj->ik", a, b), [(N, H), (N, 9)], ["operands[0]: (N, H)", "H is 2, not 9"]),
        (
            lambda a, b: F.scaled_dot_product_attention(a, b, b),
            [(N, 1, 5, H), (N, 1, 5, 9)],
            ["key: (N, 1, 5, 9)", "H is 2, not 9"],
        ),
        (lambda a, b: a * b, [(N, 3), (H, 3)], ["give both dimensions one name", "td.require("]),
        (lambda a: a[:, 5], [(N, H)], ["it holds where H is 6 to 16: give H such a range"]),
        (
            lambda a: F.linear(a[:, ::2], torch.ones(5, 4)),
            [(N, H)],
            ["it holds where H is 7 to 8: is another dimension meant? Otherwise give H such a range"],
        ),
        (lambda a: a.reshape(-1, 7), [(N, H)], ["the H*N elements do not divide into parts of 7: 2 are left over"]),
        (lambda a: F.narrow(a, 1, 0, 99), [(N, H)], ["it holds for no H from 2 to 16"]),
    ],
)
def test_operations_that_need_a_size(function, inputs, wanted):
    message = broken(function, *((shape,) for shape in inputs))
    assert [text for text in wanted if text not in message] == [], message


def test_contracted_sizes_that_do_not_match():
    message = broken(lambda a, b: a @ b, ((4, H),), ((N, 3),))
    assert "the contracted sizes do not match" in message


def test_a_constant_is_an_operand_too():
    x = td.Network().input("x", (4, 3))
    with pytest.raises(td.ShapeError, match=r"the second operand fits when it is transposed[\s\S]*other: \(5, 3\)"):
        x @ torch.ones(5, 3)


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
