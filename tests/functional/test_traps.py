"""The traps from PyTorch to TensorRT: each at several sizes from one network, with the layers that come out."""

from __future__ import annotations

import pytest
import torch
from support import assert_close, layer_types

import trtdsl as td
import trtdsl.functional as F

T = torch.nn.functional


def network(function, *shapes, dtypes=None):
    """The network of one function of inputs x0, x1, … and an interpreter of it."""
    net = td.Network()
    inputs = [net.input(f"x{k}", shape, dtypes[k] if dtypes else "float32") for k, shape in enumerate(shapes)]
    net.output(function(*inputs), "y")
    interpreter = td.Interpreter(net)
    return net, lambda *feeds: interpreter({f"x{k}": feed for k, feed in enumerate(feeds)})["y"]


def random(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def test_average_pooling_over_a_dynamic_side():
    net, run = network(lambda x: F.avg_pool2d(x, (x.shape[2], 1)), ("N", 3, "H", "W"))
    assert layer_types(net) == ["REDUCE"]
    assert str(net.outputs["y"].shape) == "(N, 3, 1, W)"
    for n, h, w in ((1, 1, 1), (2, 5, 7), (3, 16, 4)):
        x = random(n, 3, h, w)
        assert_close(run(x), T.avg_pool2d(x, (h, 1)))


@pytest.mark.parametrize("options", [{"ceil_mode": True}, {"ceil_mode": True, "padding": 1}, {"divisor_override": 5}])
def test_average_pooling_of_dynamic_sizes_counts_like_torch(options):
    _, run = network(lambda x: F.avg_pool2d(x, 3, 2, **options), ("N", 2, "H", "W"))
    for h, w in ((5, 6), (6, 5), (7, 8), (9, 3), (12, 11)):
        x = random(2, 2, h, w)
        assert_close(run(x), T.avg_pool2d(x, 3, 2, **options))


@pytest.mark.parametrize(("kernel", "stride", "padding"), [(3, 2, 1), (2, 3, 1), (3, 3, 0), ((3, 2), (2, 3), (1, 0))])
def test_maximum_pooling_of_dynamic_sizes_with_ceil_mode(kernel, stride, padding):
    _, run = network(lambda x: F.max_pool2d(x, kernel, stride, padding, ceil_mode=True), (1, 2, "H", "W"))
    for h, w in ((4, 5), (5, 4), (6, 9), (7, 10), (8, 3)):
        x = random(1, 2, h, w)
        assert_close(run(x), T.max_pool2d(x, kernel, stride, padding, ceil_mode=True))


@pytest.mark.parametrize("output_size", [(3, 5), (1, 4), (None, 2), 7])
def test_adaptive_pooling_of_dynamic_sizes_has_torchs_windows(output_size):
    for ours, theirs in (
        (F.adaptive_avg_pool2d, T.adaptive_avg_pool2d),
        (F.adaptive_max_pool2d, T.adaptive_max_pool2d),
    ):
        _, run = network(lambda x, ours=ours: ours(x, output_size), ("N", 3, "H", "W"))
        for h, w in ((7, 7), (8, 10), (13, 11), (20, 9)):
            x = random(2, 3, h, w)
            assert_close(run(x), theirs(x, output_size))


def test_max_pool3d_of_four_dimensions():
    net, run = network(lambda x: F.max_pool3d(x, (1, 3, 3), (1, 2, 2), (0, 1, 1)), (8, "T", "H", "W"))
    for size in ((4, 9, 9), (7, 10, 13)):
        x = random(8, *size)
        assert_close(run(x), T.max_pool3d(x, (1, 3, 3), (1, 2, 2), (0, 1, 1)))
    assert "POOLING" in layer_types(net)


@pytest.mark.parametrize("every", [2, 4, 5])
def test_max_pool3d_selects_every_lth_channel(every):
    """Of a 4-D tensor (N, C, H, W), which torch takes for (C, D, H, W): every L-th of what are really channels."""
    _, run = network(lambda x: F.max_pool3d(x, (1, 2, 3), stride=(every, 2, 1)), ("N", 16, "H", "W"))
    for n, h, w in ((1, 6, 6), (3, 9, 12)):
        x = random(n, 16, h, w)
        expected = T.max_pool3d(x, (1, 2, 3), stride=(every, 2, 1))
        assert expected.shape[1] == -(-16 // every) or every == 5
        assert_close(run(x), expected)
        assert_close(run(x), T.max_pool2d(x[:, ::every], (2, 3), stride=(2, 1)))


@pytest.mark.parametrize(
    ("flatten", "layers"),
    [
        (lambda x: x.view(x.shape[0], -1), ["SHUFFLE"]),
        (lambda x: x.reshape(x.size(0), -1), ["SHUFFLE"]),
        (lambda x: x.flatten(1), ["SHUFFLE"]),
        (lambda x: x.view(-1, 12), ["SHUFFLE"]),
        (lambda x: x.reshape(x.shape[0] * 3, 4), ["SHUFFLE"]),
    ],
)
def test_flattening_with_a_dynamic_batch(flatten, layers):
    net, run = network(flatten, ("N", 3, 4))
    assert layer_types(net) == layers
    for n in (1, 2, 7):
        x = random(n, 3, 4)
        assert_close(run(x), flatten(x))


def test_a_reshape_emits_shape_layers_only_when_it_must():
    net, run = network(lambda x: x.reshape(x.shape[0] * x.shape[1], x.shape[2], 4), ("N", "T", "V", 4))
    assert "SHAPE" in layer_types(net)  # two unknown sizes, neither where it was: 0 and -1 cannot say it
    x = random(2, 3, 5, 4)
    assert_close(run(x), x.reshape(6, 5, 4))
    net, run = network(lambda x: x.permute(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1), ("N", 5, "V", 4))
    assert "SHAPE" not in layer_types(net)
    x = random(2, 5, 3, 4)
    assert_close(run(x), x.permute(0, 2, 1, 3).reshape(2, 3, 20))


def test_normalize_and_division_by_a_norm():
    net, run = network(lambda x: F.normalize(x), ("N", 128))
    assert layer_types(net) == ["ELEMENTWISE", "REDUCE", "UNARY", "CONSTANT", "ELEMENTWISE", "ELEMENTWISE"]
    _, divided = network(lambda x: x / x.norm(p=2, dim=1, keepdim=True), ("N", 128))
    for n in (1, 5):
        x = random(n, 128)
        assert_close(run(x), T.normalize(x))
        assert_close(divided(x), x / x.norm(p=2, dim=1, keepdim=True))
    zeros = torch.zeros(1, 128)
    assert_close(run(zeros), T.normalize(zeros))
    for dim in (0, -1, (1, 2)):
        _, other = network(lambda x, dim=dim: F.normalize(x, p=1.5, dim=dim, eps=0.1), ("N", 4, 6))
        x = random(3, 4, 6)
        assert_close(other(x), T.normalize(x, p=1.5, dim=dim, eps=0.1))


def test_normalize_in_half_precision_does_not_overflow():
    _, run = network(lambda x: F.normalize(x), (2, 512), dtypes=["float16"])
    x = (random(2, 512) * 300).half()
    assert_close(run(x), T.normalize(x.float()).half(), tolerance=2e-3)


def test_the_mean_of_everything_is_a_scalar_that_broadcasts_back():
    net, run = network(lambda x: x - F.mean(x), ("N", 3, "H"))
    assert layer_types(net)[0] == "REDUCE"
    for n, h in ((1, 1), (4, 9)):
        x = random(n, 3, h)
        assert_close(run(x), x - torch.mean(x))
    _, alone = network(F.mean, ("N", 3))
    x = random(5, 3)
    assert_close(alone(x), torch.mean(x))


@pytest.mark.parametrize("shape", [("N", 6), ("N", 6, "L"), ("N", 6, 5)])
def test_batch_norm_1d(shape):
    torch.manual_seed(0)
    module = torch.nn.BatchNorm1d(6).eval()
    module.running_mean.normal_()
    module.running_var.uniform_(0.5, 2)
    module.weight.data.normal_()
    module.bias.data.normal_()

    def norm(x):
        mean, var, weight, bias = (
            x.network.constant(value.detach())
            for value in (module.running_mean, module.running_var, module.weight, module.bias)
        )
        return F.batch_norm(x, mean, var, weight, bias)

    net, run = network(norm, shape)
    assert set(layer_types(net)) == {"SHUFFLE", "SCALE"}
    for n, length in ((1, 5), (3, 5)):
        x = random(n, 6, *((length,) if len(shape) == 3 else ()))
        assert_close(run(x), module(x).detach())


def test_batch_norm_after_a_linear_layer_between_unsqueeze_and_squeeze():
    torch.manual_seed(1)
    linear, norm = torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6).eval()
    norm.running_var.uniform_(0.5, 2)

    def ours(x):
        c = x.network.constant
        y = F.linear(x, c(linear.weight.detach()), c(linear.bias.detach())).unsqueeze(2)
        y = F.batch_norm(y, c(norm.running_mean), c(norm.running_var), c(norm.weight.detach()), c(norm.bias.detach()))
        return y.squeeze(2)

    _, run = network(ours, ("N", 4))
    for n in (1, 3):
        x = random(n, 4)
        assert_close(run(x), norm(linear(x).unsqueeze(2)).squeeze(2).detach())


def test_squeeze_leaves_dynamic_dimensions():
    net, run = network(lambda x: x.squeeze(), ("N", 1, 3, 1))
    assert str(net.outputs["y"].shape) == "(N, 3)"
    assert_close(run(random(1, 1, 3, 1)), random(1, 1, 3, 1).reshape(1, 3))


def test_index_select_on_a_dynamic_dimension():
    net, run = network(lambda x: F.index_select(x, 1, x.network.constant([2, 0])), ("N", "T", 4))
    assert layer_types(net) == ["CONSTANT", "GATHER"]
    _, computed = network(lambda x, i: F.index_select(x, 1, i), ("N", "T", 4), ("K",), dtypes=["float32", "int64"])
    for length in (3, 8):
        x = random(2, length, 4)
        assert_close(run(x), torch.index_select(x, 1, torch.tensor([2, 0])))
        index = torch.tensor([length - 1, 0, 1])
        assert_close(computed(x, index), torch.index_select(x, 1, index))


def test_sizes_keep_their_names():
    net = td.Network()
    x = net.input("x", ("N", 3, "H", "W"))
    weight = net.constant(torch.ones(8, 3, 3, 3))
    y = F.conv2d(x, weight, stride=2, padding=1)
    assert str(y.shape) == "(N, 8, (H + 1)//2, (W + 1)//2)"
    z = F.conv2d(F.pad(y, (1, 1)), net.constant(torch.ones(8, 8, 3, 3)), stride=2, padding=(1, 0))
    assert z.shape[2] == (x.shape[2] + 3) // 4  # two halvings, rounded up, are one division by four
    assert (y + y.relu()).shape == y.shape
    assert y.flatten(2).shape == (x.shape[0], 8, y.shape[2] * y.shape[3])
    assert y.permute(0, 2, 3, 1).reshape(x.shape[0], -1, 8).shape[1] == y.shape[2] * y.shape[3]


def test_einsum_over_dynamic_sizes():
    graph = random(3, 5, 5)
    _, run = network(lambda x: F.einsum("nkctv,kvw->nctw", x, x.network.constant(graph)), ("N", 3, 4, "T", 5))
    for n, length in ((1, 1), (2, 6)):
        x = random(n, 3, 4, length, 5)
        assert_close(run(x), torch.einsum("nkctv,kvw->nctw", x, graph))


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
@pytest.mark.parametrize("index", [[slice(1), slice(1, 3)], [None, 1], [..., 1]], ids=repr)
def test_a_list_with_slices_is_a_tuple_of_indices(index):
    x = torch.arange(24.0).reshape(2, 3, 4)
    net = td.Network()
    net.output(net.input("x", (2, 3, 4))[index], "y")
    torch.testing.assert_close(td.interpret(net, {"x": x})["y"], x[index])
