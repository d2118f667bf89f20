"""What follows the order in memory: pooling, averages, reshapes and flattened products, by the programs that come out.

The limits are the launches and bytes of the programs of TensorRT-RTX 1.7.1; rules that take no notice of the order give
more, as :data:`CASES` says.
"""

import pytest
import torch
import torch.nn.functional as TF

import trtdsl as td
import trtdsl.functional as F

SHAPE = (2, 64, 28, 30)
G = torch.Generator().manual_seed(0)


def rand(*shape):
    return torch.randn(shape, generator=G) / 8


KERNEL, OTHER, BIAS = rand(64, 64, 3, 3), rand(64, 64, 3, 3), rand(64)
DOWN, UP, HEAD = rand(16, 64, 1, 1), rand(64, 16, 1, 1), rand(10, 64 * 28 * 30)
QKV, OUT, PATCHES, WIDE = rand(192, 64), rand(64, 64), rand(96, 64, 4, 4), rand(128, 96)


def low(x, value):
    return value.to(x.dtype)


def conv(f, x, kernel=KERNEL):
    return f.conv2d(x, low(x, kernel), low(x, BIAS), padding=kernel.shape[2] // 2)


def squeeze_and_excite(f, x):
    y = conv(f, x)
    gate = f.conv2d(f.relu(f.conv2d(y.mean((2, 3), keepdim=True), low(x, DOWN))), low(x, UP))
    return y * f.sigmoid(gate)


def attention(f, x):
    y = conv(f, x)
    n, c, h, w = y.shape
    q, k, v = f.linear(y.flatten(2).transpose(1, 2), low(x, QKV)).unflatten(2, (3, 4, 16)).permute(2, 0, 3, 1, 4)
    tokens = f.linear(f.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2), low(x, OUT))
    return conv(f, tokens.transpose(1, 2).reshape(n, c, h, w), OTHER)


def patches(f, x):
    y = f.conv2d(x, low(x, PATCHES), stride=4)
    return f.linear(y.flatten(2).transpose(1, 2), low(x, WIDE))


def head_of(f, x):
    return f.linear(x.flatten(1), low(x, HEAD))


def head(f, x):
    return head_of(f, conv(f, x))


def gate(f, x):
    y = conv(f, x)
    return y * f.sigmoid(y.amax((2, 3), keepdim=True) + y.mean((2, 3), keepdim=True))


def gates_by_products(f, x):
    y = conv(f, x)
    parts = [y.mean((2, 3), keepdim=True), y.amax((2, 3), keepdim=True)]
    first, second = (f.conv2d(f.relu(f.conv2d(part, low(x, DOWN))), low(x, UP)) for part in parts)
    return y * f.sigmoid(first + second)


# name -> (function of a namespace and the input, the launches and megabytes in float32 and in float16). Behind each is
# what rules give that take no notice of the order.
CASES = {
    "average of all of an input": (lambda f, x: f.avg_pool2d(x, (28, 30)), (1, 0.44), (1, 0.22)),  # 3, 1.29; 3, 0.65
    "maximum of all of an input": (lambda f, x: f.adaptive_max_pool2d(x, 1), (1, 0.44), (1, 0.22)),  # 3, 1.29; 3, 0.65
    "average of an input": (lambda f, x: f.avg_pool2d(x, 2), (1, 0.54), (1, 0.27)),  # 3, 1.61; 3, 0.81
    "mean of an input": (lambda f, x: x.mean((2, 3)), (1, 0.44), (1, 0.22)),  # by pooling 3, 1.29; 3, 0.65
    "squeeze and excite": (squeeze_and_excite, (6, 3.17), (6, 1.59)),  # 7, 4.03; 7, 2.01
    "gate of maxima and means": (gate, (4, 3.59), (4, 1.80)),  # by pooling 5, 3.59; 5, 1.80
    "gates by products": (gates_by_products, (9, 3.61), (9, 1.81)),  # 10, 4.47; 10, 2.23
    "attention over a map": (attention, (13, 103.6), (9, 4.92)),  # 15, 105.3; the same
    "patch embedding": (patches, (3, 1.86), (4, 0.97)),  # 4, 1.93; 4, 0.97
    "flattened to a product": (head, (3, 4.45), (3, 2.23)),  # 4, 5.31; 4, 2.65
    "flattened as it is not": (
        lambda f, x: head_of(f, x.permute(0, 2, 3, 1)),
        (1, 2.59),
        (1, 1.30),
    ),  # 2, 3.44; 2, 1.72
}


class TORCH:
    """torch under the names of F."""

    relu, sigmoid, conv2d, linear, avg_pool2d = torch.relu, torch.sigmoid, TF.conv2d, TF.linear, TF.avg_pool2d
    adaptive_avg_pool2d, conv3d = TF.adaptive_avg_pool2d, torch.conv3d
    adaptive_max_pool2d, scaled_dot_product_attention = TF.adaptive_max_pool2d, TF.scaled_dot_product_attention


def network(function, dtype):
    net = td.Network()
    with net.current():
        net.output(function(F, net.input("x", SHAPE, dtype)), "y")
    return net


def head_of_means(f, x):
    return f.linear(f.relu(conv(f, x)).mean((2, 3)), low(x, WIDE[:, :64]))


def pooled(f, x):
    return f.conv2d(f.adaptive_avg_pool2d(conv(f, x), 1), low(x, DOWN))


def clip(f, x):
    y = f.conv3d(x, low(x, PATCHES[:, :, None]), stride=(1, 4, 4))
    return f.linear(y.amax((2, 3, 4)), low(x, WIDE))


# name -> (function, the input's dimensions and sizes, the launches and megabytes in float32). Behind each is what an
# IReduceLayer over the spatial dimensions gives.
OPEN = {
    "mean": (head_of_means, ("N", 64, "H", "W"), SHAPE, 4, 2.34),  # 5, 3.19
    "maximum": (clip, ("N", 64, "T", "H", "W"), (2, 64, 3, 28, 30), 4, 4.55),  # 5, 4.77
    "squeeze and excite": (squeeze_and_excite, ("N", 64, "H", "W"), SHAPE, 6, 3.17),  # 7, 4.03
    "gate of maxima and means": (gate, ("N", 64, "H", "W"), SHAPE, 4, 3.17),  # 4, 3.59
    "pooling": (pooled, ("N", 64, "H", "W"), SHAPE, 5, 2.31),  # 6, 3.17
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["fp32", "fp16"])
@pytest.mark.parametrize("case", OPEN)
def test_open_sizes(case, dtype):
    function, dims, sizes, launches, megabytes = OPEN[case]
    ranges = {
        name: td.Dim(name, min=min(size, 4), opt=size, max=64)
        for name, size in zip(dims, sizes)
        if isinstance(name, str)
    }
    net = td.Network()
    with net.current():
        net.output(function(F, net.input("x", tuple(ranges.get(name, name) for name in dims), dtype)), "y")
    program = td.program(net)
    assert program.launch_count <= launches
    assert program.bytes <= megabytes * (1e6 if dtype == torch.float32 else 0.5e6)
    x = rand(*sizes[:-1], 12).to(dtype)
    expected = function(TORCH, x.float()).to(dtype)
    torch.testing.assert_close(
        td.interpret(net, {"x": x})["y"], expected, rtol=1e-2, atol=1e-3 if dtype == torch.float32 else 1e-2
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["fp32", "fp16"])
@pytest.mark.parametrize("case", CASES)
def test_launches_bytes_and_values(case, dtype):
    function, *limits = CASES[case]
    launches, megabytes = limits[dtype == torch.float16]
    net = network(function, dtype)
    program = td.program(net)
    assert program.launch_count <= launches
    assert program.bytes <= megabytes * 1e6
    if dtype == torch.float32:
        x = rand(*SHAPE)
        torch.testing.assert_close(td.interpret(net, {"x": x})["y"], function(TORCH, x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("height", [8, 6])
def test_of_any_size(height):
    """The same rules where batch and sizes are dynamic."""
    net = td.Network()
    with net.current():
        x = F.conv2d(net.input("x", ("N", 64, "H", 10)), KERNEL, padding=1)
        tokens = F.linear(x.flatten(2).transpose(1, 2), OUT)
        net.output(tokens.transpose(1, 2).reshape(x.shape), "map")
        net.output(F.linear(x.mean((2, 3)), OUT), "mean")
        net.output(F.avg_pool2d(x, (x.shape[2], 10)), "average")
    value = rand(3, 64, height, 10)
    y = TF.conv2d(value, KERNEL, padding=1)
    got = td.interpret(net, {"x": value})
    want = TF.linear(y.flatten(2).transpose(1, 2), OUT).transpose(1, 2).reshape(y.shape)
    torch.testing.assert_close(got["map"], want, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(got["mean"], TF.linear(y.mean((2, 3)), OUT), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(got["average"], y.mean((2, 3), keepdim=True), rtol=1e-4, atol=1e-4)


def test_a_flattened_weight_keeps_its_name():
    net = td.Network()
    x = F.conv2d(net.input("x", SHAPE), KERNEL)
    weight = net.constant(rand(5, 64 * 26 * 28))
    weight.weight_names = ("head.weight",)
    net.output(F.linear(x.flatten(1), weight), "y")
    assert net.definition.num_outputs == 1
    assert ("head.weight",) in [facts.weights for facts in net.layers.values()]


def test_an_average_is_pooled_where_products_alone_use_it():
    def types(other, before=False):
        net = td.Network()
        x = F.conv2d(net.input("x", SHAPE), KERNEL)
        mean = x.mean((2, 3))
        calls = [lambda: net.output(F.linear(mean, OUT), "y"), lambda: other(net, x, mean)]
        for call in calls[::-1] if before else calls:
            call()
        return [net.definition.get_layer(k).type.name for k in range(net.definition.num_layers)]

    assert types(lambda net, x, mean: None).count("POOLING") == 1
    for before in (False, True):
        used = types(lambda net, x, mean: net.output(x - mean[:, :, None, None], "centred"), before)
        assert used.count("REDUCE") == 1 and "POOLING" not in used
