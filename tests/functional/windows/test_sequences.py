"""Networks over sequences: what stands between two convolutions is done where they are, by values and by programs."""

import pytest
import torch
import torch.nn.functional as TF

import trtdsl as td
import trtdsl.functional as F

G = torch.Generator().manual_seed(0)


def rand(*shape):
    return torch.randn(shape, generator=G) / 8


WIDE, NARROW, POINT, LINE = rand(64, 64, 3), rand(64, 32, 3), rand(64, 64, 1), rand(128, 64, 3)
UP, FIRST, BIAS, SCALE = rand(64, 32, 8), rand(32, 1, 10), rand(64), rand(64)
SHAPE = (2, 64, 512)


def low(x, value):
    return value.to(x.dtype)


def of(f, name):
    return getattr(f, name, None) or getattr(torch, name)


def conv(f, x, kernel=WIDE, **how):
    how.setdefault("padding", how.get("dilation", 1) * (kernel.shape[2] // 2))
    return f.conv1d(x, low(x, kernel), low(x, BIAS[:1].expand(kernel.shape[0])), **how)


def causal(f, x):
    """A temporal convolutional network: pads in front, twice, and a residual."""
    x = conv(f, x)
    for dilation in (1, 2):
        y = f.relu(conv(f, f.pad(x, (2 * dilation, 0)), padding=0, dilation=dilation))
        x = f.relu(x + conv(f, f.pad(y, (2 * dilation, 0)), padding=0, dilation=dilation))
    return x


def vocoder(f, x):
    """HiFi-GAN: a transposed convolution, residual branches and their mean."""
    x = f.conv_transpose1d(f.leaky_relu(conv(f, x), 0.1), low(x, UP), None, 4, 2)
    total = 0
    for kernel in (NARROW[:32], NARROW[32:]):
        y = x
        for dilation in (1, 3):
            y = y + conv(f, f.leaky_relu(y, 0.1), kernel, dilation=dilation)
        total = total + y
    return of(f, "tanh")(total / 2)


def front(f, x):
    """wav2vec: strides and GELU."""
    y = f.gelu(conv(f, x[:, :1], FIRST, stride=4, padding=0))
    return f.gelu(conv(f, f.gelu(conv(f, y, NARROW, stride=2)), stride=2))


def gated(f, x):
    """WaveNet: halves of a convolution, one a gate of the other."""
    x = conv(f, x)
    a, b = of(f, "chunk")(conv(f, x, LINE), 2, 1)
    return x + conv(f, of(f, "tanh")(a) * of(f, "sigmoid")(b), POINT)


def dense(f, x):
    x = conv(f, x)
    return conv(f, of(f, "cat")([x, f.relu(conv(f, x, POINT))], 1), torch.cat([WIDE, WIDE], 1))


def normed(f, x):
    y = conv(f, x)
    for _ in range(2):
        y = y + conv(f, f.silu(f.group_norm(y, 8, low(x, SCALE), low(x, BIAS))))
    return y


# name -> (function, launches and megabytes in float32, in float16 by precision=, and of float16 operands). Behind each
# is what work of three dimensions between the convolutions gives.
CASES = {
    "causal": (causal, (7, 4.442), (7, 2.483), (7, 2.221)),  # 11, 6.821; 11, 3.673; 11, 3.411
    "vocoder": (vocoder, (11, 13.010), (11, 6.899), (11, 6.505)),  # 12, 14.583; 12, 7.685; 12, 7.292
    "front": (front, (6, 0.791), (5, 0.144), (5, 0.134)),  # 8, 0.920; 7, 0.208; 7, 0.198
    "gated": (gated, (6, 4.098), (6, 2.311), (6, 2.049)),  # the same
    "dense": (dense, (5, 3.049), (5, 1.787), (5, 1.525)),  # 6, 4.097; 6, 2.311; 6, 2.049
    "normed": (normed, (11, 5.442), (9, 2.485), (11, 2.746)),  # 12, 6.466; 10, 2.747; 12, 3.246
}


def network(function, dtype, precision, dims=SHAPE):
    net = td.Network(precision=precision)
    with net.current():
        net.output(function(F, net.input("x", dims, dtype)), "y")
    return net


@pytest.mark.parametrize("kind", [0, 1, 2], ids=["fp32", "precision", "fp16"])
@pytest.mark.parametrize("case", CASES)
def test_launches_bytes_and_values(case, kind):
    function, *limits = CASES[case]
    net = network(function, torch.float16 if kind == 2 else torch.float32, "fp16" if kind == 1 else None)
    program = td.program(net)
    launches, megabytes = limits[kind]
    assert program.launch_count <= launches
    assert round(program.bytes / 1e6, 3) <= megabytes
    if kind == 0:
        x = rand(*SHAPE)
        torch.testing.assert_close(td.interpret(net, {"x": x})["y"], function(TF, x), rtol=1e-4, atol=1e-4)


def branches(f, x):
    """Every kind of work on what a convolution gives, some of it of one operand that is none."""
    y = conv(f, x[:, :, 1:])
    parts = [y.flip(2), y[:, ::2, 1:-1:2], of(f, "cat")([y, y * 2.0], 0), of(f, "where")(y > 0, y, x[:, :, 1:])]
    parts += [y + y.mean(2, keepdim=True), y * y[:, :1], y.transpose(1, 2) + 1.0, of(f, "maximum")(y, -y).amax(2)]
    parts += [y.square().sum(1), f.softmax(y, 1), f.layer_norm(y, (y.shape[2],)), y.to(torch.float16).float()]
    parts += [conv(f, of(f, "cat")([y, -y], 2)), y[0] + y[1], of(f, "stack")([y, y.relu()], 1)]
    return tuple(parts)


@pytest.mark.parametrize("dims", [(2, 64, 17), (2, 64, "T")], ids=["static", "dynamic"])
def test_work_on_a_sequence_is_torchs(dims):
    net = td.Network()
    with net.current():
        for k, result in enumerate(branches(F, net.input("x", dims))):
            net.output(result, f"y{k}")
    x = rand(2, 64, 17)
    for name, wanted in zip(net.outputs, branches(TF, x), strict=True):
        torch.testing.assert_close(td.interpret(net, {"x": x})[name], wanted, rtol=1e-3, atol=1e-4)
