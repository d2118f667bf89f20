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
    """The layer types of the network that ``write(author, x)`` defines; its outputs are torch's.

    Those of a td.Network, which is written once, are torch's too, with whatever layers.
    """

    def ours(x):
        made = write(Author(F, lambda value: x.network.constant(value, dtype)), x)
        return {f"y{index}": y for index, y in enumerate(made if isinstance(made, tuple) else (made,))}

    net, once = function_of(ours, shape or tuple(x.shape), dtype), td.Network()
    for name, y in ours(once.input("x", shape or x.shape, dtype)).items():
        once.output(y, name)
    exact = lambda value: value.to(dtype).double()  # noqa: E731
    want = write(Author(torch.nn.functional, exact), exact(x))
    want = want if isinstance(want, tuple) else (want,)
    for got in (td.interpret(net, {"x": x.to(dtype)}), td.interpret(once, {"x": x.to(dtype)})):
        for index, expected in enumerate(want):
            assert_close(got[f"y{index}"], expected.to(dtype), TOLERANCES[dtype])
    return [kind for kind in layer_types(net) if kind not in ("CONSTANT", "IDENTITY")]


def function_of(write, shape, dtype=torch.float32):
    """The network of a function under @td.network, of one input."""

    @td.network(inputs={"x": td.Input(shape, dtype)})
    def net(x):
        return write(x)

    return net.define()


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


BOTH = {
    "norm + raw": lambda f, raw, norm: norm() + raw,
    "raw + norm": lambda f, raw, norm: raw + norm(),
    "relu(norm) * raw": lambda f, raw, norm: f.relu(norm()) * raw,
    "cat of both": lambda f, raw, norm: torch_or(f).cat([norm(), raw], 1),
    "relu(norm) permuted, then raw": lambda f, raw, norm: f.relu(norm()).swapaxes(0, 1).sum() + raw,
    "norm permuted + raw permuted": lambda f, raw, norm: norm().swapaxes(0, 1) + raw.swapaxes(0, 1),
    "where": lambda f, raw, norm: torch_or(f).where(raw > 0, norm(), raw),
    "two norms and raw": lambda f, raw, norm: norm() * norm() + raw,
    "clamped norm, raw, norm again": lambda f, raw, norm: (n := norm()).clamp(max=1.0) + raw + n,
}


def torch_or(functions):
    return torch if functions is torch.nn.functional else F


@pytest.mark.parametrize("use", BOTH)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", [*KINDS, "linear"])
def test_raw_and_normalized_results_together(kind, bias, use):
    """Whichever is used first, each operand is what torch has: also without a bias, and in one call."""
    torch.manual_seed(0)
    weight, shape, options = KINDS.get(kind, ((6, 4), (5, 4), {}))
    values, norm = (torch.randn(weight), torch.randn(6) if bias else None), statistics(6)

    def write(author, x):
        raw = author.conv(x, values, kind, **options)
        return BOTH[use](author.F, raw, lambda: author.norm(raw, norm))

    compare(write, torch.randn(shape))


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


def test_no_norm_is_folded_into_a_result_that_is_used_afterwards():
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


def test_what_is_output_stays_as_it_is():
    """Nothing that was added changes: a normalized output keeps its convolution, and a plain result gets its own."""
    values, norm = (torch.randn(6, 4, 3, 3), torch.randn(6)), statistics(6)
    net = td.Network()
    author = Author(F, net.constant)
    y = author.conv(net.input("x", (2, 4, 7, 7)), values)
    net.output(author.norm(y, norm), "normalized")
    layers = net.definition.num_layers
    net.output(F.relu(y), "plain")
    assert layer_types(net)[layers:].count("CONVOLUTION") == 1
    assert net.definition.get_output(0).name == "normalized"
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


LINEAR, AFTER = torch.nn.Linear(20, 24), torch.nn.Linear(24, 10, bias=False)


def into_norm(x, bias, used=None):
    """A linear product and its batch norm, then another product; the first one's plain result is given if ``used``."""
    y = F.linear(x, LINEAR.weight.detach(), LINEAR.bias.detach() if bias else None)
    early = F.sigmoid(y) if used == "before" else None
    z = F.linear(F.relu(F.batch_norm(y, *NORM)), AFTER.weight.detach())
    return {"z": z} if used is None else {"z": z, "y": F.sigmoid(y) if early is None else early}


NORM = statistics(24)


@pytest.mark.parametrize("used", [None, "before", "afterwards"])
@pytest.mark.parametrize("bias", [False, True])
def test_a_linear_product_takes_in_its_norm(bias, used):
    """As BatchNorm1d after a linear layer: no layer more than of the bias. A result that is used too stays as it is."""
    net, value = function_of(lambda x: into_norm(x, bias, used), (3, 20)), torch.randn(3, 20)
    got = td.interpret(net, {"x": value})
    y = torch.nn.functional.linear(value, LINEAR.weight, LINEAR.bias if bias else None).detach()
    z = torch.nn.functional.batch_norm(y, *NORM)
    assert_close(got["z"], AFTER(z.relu()).detach())
    types = layer_types(net)
    assert types.count("MATRIX_MULTIPLY") == 2
    if used is None:
        assert [kind for kind in types if kind != "CONSTANT"] == [
            "MATRIX_MULTIPLY", "ELEMENTWISE", "ACTIVATION", "MATRIX_MULTIPLY"
        ]  # fmt: skip
        assert td.program(net).launch_count == 2  # 3 with a norm of its own
    else:
        assert_close(got["y"], y.sigmoid())


def test_a_linear_product_of_sequences_takes_in_its_norm():
    """BatchNorm1d over (N, C, T) of what a linear layer gave as (N, T, C)."""
    net, value = td.Network(), torch.randn(3, 7, 20)
    with net.current():
        y = F.linear(net.input("x", ("N", "T", 20)), LINEAR.weight.detach(), LINEAR.bias.detach())
        net.output(F.batch_norm(y.transpose(1, 2), *map(net.constant, NORM)), "y")
    assert "SCALE" not in layer_types(net)
    want = torch.nn.functional.batch_norm(LINEAR(value).transpose(1, 2).detach(), *NORM)
    assert_close(td.interpret(net, {"x": value})["y"], want)


def test_two_heads_of_a_few_channels_do_not_share_what_is_changed():
    """Constants of up to 16 values are shared; those of a folded product are its own, and given back alone."""
    weight, norm = torch.ones(2, 3), (torch.zeros(2), torch.ones(2), torch.full((2,), 2.0), torch.ones(2))
    net, value = td.Network(), torch.randn(4, 3)
    with net.current():
        x = net.input("x", (4, 3))
        y = F.linear(x, weight)
        net.output(F.batch_norm(y, *map(net.constant, norm)), "norm")
        net.output(x[:, :2] * 2.0 + torch.ones(2), "other")
        net.output(F.relu(y), "plain")
    got = td.interpret(net, {"x": value})
    plain = value @ weight.T
    assert_close(got["norm"], torch.nn.functional.batch_norm(plain, *norm))
    assert_close(got["plain"], plain.relu())
    assert_close(got["other"], value[:, :2] * 2 + 1)


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_a_linear_product_in_half_precision_takes_in_its_norm(dtype):
    weight, bias = LINEAR.weight.detach(), LINEAR.bias.detach()
    types = compare(
        lambda author, x: author.norm(author.F.linear(x, author.constant(weight), author.constant(bias)), NORM),
        torch.randn(3, 20),
        dtype,
    )
    assert types == ["MATRIX_MULTIPLY", "ELEMENTWISE"]


@pytest.mark.parametrize("small", [1e-4, 1e-5, 1e-7])
def test_weights_too_small_for_half_precision_are_not_folded(small):
    """A scale near 0, as weight decay leaves it, makes float16 weights of a digit or two."""
    torch.manual_seed(0)
    values = (torch.randn(6, 32, 3, 3) / 17, None)
    norm = (torch.randn(6), torch.rand(6) + 0.5, torch.randn(6) * small, torch.randn(6) * small)
    x, half = torch.randn(2, 32, 7, 7).half(), lambda value: value.half()
    net = td.Network()
    author = Author(F, lambda value: net.constant(value, torch.float16))
    net.output(author.norm(author.conv(net.input("x", x.shape, torch.float16), values), norm), "y")
    author = Author(torch.nn.functional, lambda value: half(value).double())
    want = author.norm(author.conv(x.double(), values), norm)
    error = (td.interpret(net, {"x": x})["y"].double() - want).abs().max()
    own = Author(torch.nn.functional, half)
    assert error < 3 * (own.norm(own.conv(x, values), norm).double() - want).abs().max()


@pytest.mark.parametrize("small", [1e-5, 1e-6, 0.0])
def test_a_small_channel_beside_others_is_folded(small):
    """Trained norms have scales near 0: what these weights lose is less than what the others are rounded by."""
    torch.manual_seed(0)
    values = (torch.randn(6, 32, 3, 3) / 17, None)
    scale = torch.tensor([1.0, -0.7, small, 0.4, 1.3, -small])
    norm = (torch.randn(6), torch.rand(6) + 0.5, scale, torch.randn(6))
    x, half = torch.randn(2, 32, 7, 7).half(), lambda value: value.half()
    net = td.Network()
    author = Author(F, lambda value: net.constant(value, torch.float16))
    net.output(author.norm(author.conv(net.input("x", x.shape, torch.float16), values), norm), "y")
    assert layer_types(net) == ["CONVOLUTION"]
    author = Author(torch.nn.functional, lambda value: half(value).double())
    want = author.norm(author.conv(x.double(), values), norm)
    error = (td.interpret(net, {"x": x})["y"].double() - want).abs().max()
    own = Author(torch.nn.functional, half)
    assert error < 3 * (own.norm(own.conv(x, values), norm).double() - want).abs().max()
