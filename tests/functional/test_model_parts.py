"""Parts of models of other libraries, by the programs that come out: each was worse than the road through ONNX once.

The limits are the launches and megabytes of the programs of TensorRT-RTX 1.7.1 in float32 and in float16; what it was
before stands behind.
"""

import pytest
import torch
import torch.nn.functional as TF

import trtdsl as td
import trtdsl.functional as F

G = torch.Generator().manual_seed(0)


def rand(*shape):
    return torch.randn(shape, generator=G) / 8


IMAGE, TOKENS, ODD = (2, 64, 28, 30), (2, 128, 128), (1, 49, 128)
KERNEL, OTHER, SCALE, SHIFT = rand(64, 64, 3, 3), rand(64, 64, 3, 3), rand(64), rand(64)
SQUARES, BIASES, POSITIONS = rand(3, 128, 128), rand(3, 128), rand(1, 4, 128, 128)
TOKENS_DOWN, TOKENS_UP, SQUARE, SIDE = rand(96, 49), rand(49, 96), rand(49, 49), rand(96)


def torch_or(f):
    return torch if f is TF else f


def low(x, value):
    return value.to(x.dtype)


def conv(f, x, kernel=KERNEL):
    return f.conv2d(x, low(x, kernel), low(x, SHIFT), padding=kernel.shape[2] // 2)


def block_of_a_unet(f, x):
    """diffusers' ResnetBlock2D: a group norm, SiLU and a convolution, twice, and what goes around them."""
    y = x
    for kernel in (KERNEL, OTHER):
        y = conv(f, f.silu(f.group_norm(y, 8, low(x, SCALE), low(x, SHIFT))), kernel)
    return x + y


def attended(f, x, mask, bias, scale=None):
    """Attention of four heads of 32 with projections of their own, and the sum with what came in."""
    heads = [f.linear(x, low(x, w), low(x, b) if bias else None) for w, b in zip(SQUARES, BIASES, strict=True)]
    q, k, v = (y.reshape(*y.shape[:2], 4, 32).transpose(1, 2) for y in heads)
    y = f.scaled_dot_product_attention(q, k, v, mask, scale=scale).transpose(1, 2).reshape(x.shape)
    return x + f.linear(y, low(x, SQUARES[0]))


def attention_of_t5(f, x):
    """No biases, no scale, and a constant position bias."""
    return attended(f, x, low(x, POSITIONS), bias=False, scale=1.0)


def attention_of_bert(f, x):
    """A mask that hides keys, made of an input."""
    return attended(f, x, (x[:, :, 0] > -10.0)[:, None, None], bias=True)


def mixed_tokens(f, x):
    """MLP-Mixer: an odd number of tokens is multiplied, twice in a row."""
    for down, up in ((TOKENS_DOWN, TOKENS_UP), (TOKENS_DOWN + 1, TOKENS_UP + 1)):
        y = f.layer_norm(x, (128,), low(x, BIASES[0]), low(x, BIASES[1])).transpose(1, 2)
        y = f.linear(f.gelu(f.linear(y, low(x, down), low(x, SIDE))), low(x, up), low(x, SIDE[:49]))
        x = x + y.transpose(1, 2)
    return x


def tokens_among_themselves(f, x):
    """ResMLP: as many tokens come out as go in."""
    return x + f.linear(x.transpose(1, 2), low(x, SQUARE), low(x, SIDE[:49])).transpose(1, 2)


def activated(name):
    """A linear product of three dimensions and an activation at the end of a network."""
    return lambda f, x: getattr(f, name)(f.linear(x, low(x, SQUARES[0]), low(x, BIASES[0])))


def context_of_a_map(f, x):
    """GCNet: the sum of a map's pixels by weights of their own."""
    y = conv(f, x)
    weights = f.softmax(f.conv2d(y, low(x, KERNEL[:1, :, :1, :1])).reshape(2, 1, 840), -1)
    context = (y.reshape(2, 64, 840)[:, None] @ weights[..., None]).reshape(2, 64, 1, 1)
    return conv(f, y + context, OTHER)


def heads_of_maps(f, x):
    """CoaT: maps put together, taken apart into heads, and multiplied with queries."""
    y = f.conv2d(x, low(x, KERNEL), padding=1)
    y = torch_or(f).cat([conv(f, y), conv(f, y, OTHER)], 1).reshape(2, 8, 16, 840).transpose(2, 3)
    return y * f.sigmoid(x.reshape(2, 8, 840, 8)).repeat(1, 1, 1, 2)


# name -> (input's shape, function of a namespace and the input, launches and megabytes in float32, in float16)
CASES = {
    "a block of a UNet": (IMAGE, block_of_a_unet, (8, 7.203), (8, 3.614)),  # 9, 8.063; 11, 5.764
    "attention of T5": (TOKENS, attention_of_t5, (8, 4.981), (8, 1.638)),  # 9, 5.243; 8, 1.638
    "attention of BERT with a mask": (TOKENS, attention_of_bert, (11, 5.245), (9, 1.574)),  # 12, 5.507; 9, 1.574
    "tokens of MLP-Mixer": (ODD, mixed_tokens, (7, 0.629), (7, 0.315)),  # 8, 0.655; 8, 0.315
    "tokens of ResMLP": ((2, 49, 128), tokens_among_themselves, (2, 0.262), (2, 0.131)),  # 2, 0.264; 2, 0.132
    "context of a map": (IMAGE, context_of_a_map, (10, 5.52), (10, 2.76)),  # 11, 6.38; 10, 2.76
    "gelu of tokens": (TOKENS, activated("gelu"), (2, 0.591), (2, 0.296)),  # 2, 0.591; 2, 0.427
    "silu of tokens": (TOKENS, activated("silu"), (2, 0.591), (2, 0.296)),  # 2, 0.591; 2, 0.427
    "heads of maps": (IMAGE, heads_of_maps, (5, 6.464), (5, 3.232)),  # 7, 9.905; 5, 3.232
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["fp32", "fp16"])
@pytest.mark.parametrize("case", CASES)
def test_launches_bytes_and_values(case, dtype):
    shape, function, *limits = CASES[case]
    launches, megabytes = limits[dtype == torch.float16]
    net = td.Network()
    with net.current():
        net.output(function(F, net.input("x", shape, dtype)), "y")
    program = td.program(net)
    assert program.launch_count <= launches
    assert round(program.bytes / 1e6, 3) <= megabytes
    if dtype == torch.float32:
        x = rand(*shape)
        torch.testing.assert_close(td.interpret(net, {"x": x})["y"], function(TF, x), rtol=1e-4, atol=1e-4)
