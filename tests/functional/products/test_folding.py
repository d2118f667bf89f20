"""Batch norms in the weights of the convolutions before them."""

import pytest
import torch
from support import assert_close, layer_types

import trtdsl as td
import trtdsl.functional as F

TOLERANCES = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def statistics(channels):
    return torch.randn(channels), torch.rand(channels) + 0.2, torch.randn(channels), torch.randn(channels)


class Author:
    """What an author writes, for trtdsl and for torch alike."""

    def __init__(self, functions, constant):
        self.F, self.constant = functions, constant

    def norm(self, x, values):
        return self.F.batch_norm(x, *map(self.constant, values))

    def conv(self, x, values, kind="conv2d", **options):
        weight, bias = values
        bias = None if bias is None else self.constant(bias)
        return getattr(self.F, kind)(x, self.constant(weight), bias, **options)


def compare(write, x, dtype=torch.float32, shape=None):
    """The layer types of the network that ``write(author, x)`` defines; its outputs are torch's."""
    net = td.Network()
    ours = write(Author(F, lambda value: net.constant(value, dtype)), net.input("x", shape or x.shape, dtype))
    ours = ours if isinstance(ours, tuple) else (ours,)
    for index, output in enumerate(ours):
        net.output(output, f"y{index}")
    exact = lambda value: value.to(dtype).double()  # noqa: E731
    want = write(Author(torch.nn.functional, exact), exact(x))
    want = want if isinstance(want, tuple) else (want,)
    got = td.interpret(net, {"x": x.to(dtype)})
    for index, expected in enumerate(want):
        assert_close(got[f"y{index}"], expected.to(dtype), TOLERANCES[dtype])
    return [kind for kind in layer_types(net) if kind not in ("CONSTANT", "IDENTITY")]


KINDS = {
    "conv1d": ((6, 4, 3), (2, 4, 9), {}),
    "conv2d": ((6, 4, 3, 3), (2, 4, 9, 8), {"padding": 1, "stride": 2}),
    "conv3d": ((6, 4, 1, 3, 3), (2, 4, 5, 6, 7), {}),
    "conv_transpose1d": ((4, 6, 3), (2, 4, 9), {}),
    "conv_transpose2d": ((4, 6, 3, 3), (2, 4, 5, 6), {"stride": 2}),
    "conv_transpose3d": ((4, 6, 2, 2, 2), (2, 4, 3, 4, 5), {}),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_every_convolution(kind, bias, dynamic):
    torch.manual_seed(0)
    weight, shape, options = KINDS[kind]
    values, norm = (torch.randn(weight), torch.randn(6) if bias else None), statistics(6)
    named = ("N", 4, *(f"S{k}" for k in range(len(shape) - 2))) if dynamic and kind[-2] != "1" else None
    types = compare(
        lambda author, x: author.F.relu(author.norm(author.conv(x, values, kind, **options), norm)),
        torch.randn(shape),
        shape=named,
    )
    assert "SCALE" not in types


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_groups_and_half_precision(dtype):
    torch.manual_seed(0)
    values, norm = (torch.randn(8, 2, 3, 3), torch.randn(8)), statistics(8)
    types = compare(
        lambda author, x: author.norm(author.conv(x, values, groups=4), norm), torch.randn(2, 8, 7, 7), dtype
    )
    assert types == ["CONVOLUTION"]


def test_groups_of_a_transposed_convolution_stay_apart():
    values, norm = (torch.randn(8, 3, 3, 3), None), statistics(12)
    types = compare(
        lambda author, x: author.norm(author.conv(x, values, "conv_transpose2d", groups=4), norm),
        torch.randn(2, 8, 5, 5),
    )
    assert types == ["DECONVOLUTION", "SCALE"]


def test_two_norms_one_after_the_other():
    values, one, two = (torch.randn(6, 4, 3, 3), None), statistics(6), statistics(6)
    types = compare(
        lambda author, x: author.norm(author.norm(author.conv(x, values), one), two), torch.randn(2, 4, 7, 7)
    )
    assert types == ["CONVOLUTION"]


def test_a_result_that_was_used_before_stays():
    values, norm = (torch.randn(6, 4, 3, 3), torch.randn(6)), statistics(6)

    def write(author, x):
        y = author.conv(x, values)
        return author.F.relu(y) + author.norm(y, norm)

    assert compare(write, torch.randn(2, 4, 7, 7)).count("CONVOLUTION") == 1


def test_a_result_that_is_used_afterwards_is_unfolded():
    """As in residual networks that normalize first: one convolution, and the norm a layer of its own again."""
    values, after, norm = (torch.randn(6, 4, 3, 3), torch.randn(6)), (torch.randn(6, 6, 1, 1), None), statistics(6)

    def write(author, x):
        y = author.conv(x, values)
        z = author.norm(y, norm)
        branch = author.conv(author.F.relu(z), after)
        return branch + y, author.F.sigmoid(z)

    assert sorted(compare(write, torch.randn(2, 4, 7, 7))) == sorted(
        ["CONVOLUTION", "ACTIVATION", "CONVOLUTION", "SCALE", "ELEMENTWISE", "ACTIVATION"]
    )


def test_two_norms_of_one_result():
    values, one, two = (torch.randn(6, 4, 3, 3), torch.randn(6)), statistics(6), statistics(6)

    def write(author, x):
        y = author.conv(x, values)
        return author.F.relu(author.norm(y, one)) - author.F.relu(author.norm(y, two))

    types = compare(write, torch.randn(2, 4, 7, 7))
    assert types.count("CONVOLUTION") == 1
    assert types.count("SCALE") == 2


def test_an_output_is_unfolded_too():
    values, norm = (torch.randn(6, 4, 3, 3), torch.randn(6)), statistics(6)
    net = td.Network()
    author = Author(F, net.constant)
    y = author.conv(net.input("x", (2, 4, 7, 7)), values)
    net.output(author.norm(y, norm), "normalized")
    net.output(F.relu(y), "plain")
    assert layer_types(net).count("CONVOLUTION") == 1
    x = torch.randn(2, 4, 7, 7)
    got = td.interpret(net, {"x": x})
    want = torch.conv2d(x, *values)
    assert_close(got["plain"], want.relu())
    assert_close(got["normalized"], torch.nn.functional.batch_norm(want, *norm))


def test_a_scale_that_would_overflow_the_weights_is_not_folded():
    scale = torch.full((6,), 1e5)
    norm = (torch.zeros(6), torch.ones(6), scale, torch.zeros(6))
    values = (torch.full((6, 4, 1, 1), 2.0), None)
    net = td.Network()
    author = Author(F, lambda value: net.constant(value, torch.float16))
    x = net.input("x", (1, 4, 2, 2), torch.float16)
    net.output(F.batch_norm(author.conv(x, values), *map(net.constant, norm)), "y")
    assert "SCALE" in layer_types(net)


def test_the_program_has_a_plain_convolution():
    net = td.Network()
    author = Author(F, net.constant)
    x = author.conv(net.input("x", (1, 16, 32, 32)), (torch.randn(16, 16, 3, 3), None), padding=1)
    y = F.relu(author.norm(x, statistics(16)))
    net.output(F.relu(author.norm(author.conv(y, (torch.randn(16, 16, 3, 3), None)), statistics(16))), "y")
    kinds = {launch.kind for launch in td.program(net).launches if not launch.rearranges}
    assert kinds == {"convolution"}
